"""The machine: versions, cores and processor."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import dapd

PACKAGES = ("numpy", "scipy", "jax", "clarabel", "matplotlib")


def versions() -> dict[str, str]:
    """The versions of Python and of the packages; "not installed" if a package is missing."""
    found = {"Python": platform.python_version(), "dapd": dapd.__version__}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def processor() -> str:
    """The name of the processor, as far as the system reports it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()
