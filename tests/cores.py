"""The variants of the native core that were built and that this machine can run, and how block tests use them."""

import importlib
import importlib.util

import numpy as np
import pytest

from dapd.engines.native_blocks import BlockRunner


def _runnable():
    names = [n for n in ("baseline", "avx2", "avx512") if importlib.util.find_spec(f"dapd._core_{n}") is not None]
    if not names:
        return {}
    supported = importlib.import_module(f"dapd._core_{names[0]}").supported()
    return {name: importlib.import_module(f"dapd._core_{name}") for name in names if name in supported}


CORES = _runnable()
needs_core = pytest.mark.skipif(not CORES, reason="the native core was not built")
on_each_core = pytest.mark.parametrize("core", CORES.values(), ids=CORES)


def best():
    """The variant that a solve would choose."""
    return list(CORES.values())[-1]


def native(method, steps, core):
    """A runner so many steps after the start."""
    runner = BlockRunner(method, core)
    runner.start()
    assert runner.advance(steps) == steps
    return runner


def assert_same_state(found, wanted, tolerance):
    for name, a, b in zip(found._fields, found, wanted, strict=True):
        scale = np.max(np.abs(b), initial=0.0) if isinstance(b, np.ndarray) else 1.0
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * (scale + 1e-3), err_msg=name)
