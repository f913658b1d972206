"""The native core: which of its builds are there, and the one that this processor runs."""

from __future__ import annotations

import importlib
import os
from functools import cache
from types import ModuleType

import scipy.linalg.cython_blas

VARIANTS = ("avx512", "avx2", "baseline")
MISSING = "the native core was not built; install a C++ compiler and reinstall dapd"


@cache
def variants() -> tuple[str, ...]:
    """The builds of the core that this processor can run, the fastest first; empty if the core was not built."""
    try:
        able = importlib.import_module("dapd._core_baseline").supported()
    except ImportError:
        return ()
    return tuple(variant for variant in VARIANTS if variant in able)


@cache
def load(variant: str | None = None) -> ModuleType | None:
    """A build of the core: the one named, or by the variable DAPD_SIMD, or the fastest; None if it was not built."""
    found = variants()
    variant = variant or os.environ.get("DAPD_SIMD") or (found[0] if found else None)
    if variant is None:
        return None
    if variant not in found:
        raise ValueError(f"DAPD_SIMD must be one of {', '.join(found) or 'nothing, as the core was not built'}")
    core = importlib.import_module(f"dapd._core_{variant}")
    gemm = scipy.linalg.cython_blas.__pyx_capi__
    core.use_blas(gemm["dgemm"], gemm["sgemm"])
    return core
