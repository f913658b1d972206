"""What the benchmarks share: repeated timing in turns, and the machine's own speed."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numba
import numpy as np

import dapd

SECONDS = 1.0  # for each contestant, about
ROUNDS = 9


def medians(calls: dict[str, Callable[[], object]], seconds: float = SECONDS) -> dict[str, float]:
    """Seconds of each call, the median of rounds in which they take turns, so that a slow moment hurts them alike."""
    repeats, times = {}, {name: [] for name in calls}
    for name, call in calls.items():
        call()  # compiles
        began = perf_counter()
        call()
        repeats[name] = max(1, int(seconds / ROUNDS / max(perf_counter() - began, 1e-9)))
    for _ in range(ROUNDS):
        for name, call in calls.items():
            call()  # wakes its threads and fills the caches
            began = perf_counter()
            for _ in range(repeats[name]):
                call()
            times[name].append((perf_counter() - began) / repeats[name])
    return {name: float(np.median(found)) for name, found in times.items()}


@numba.njit(parallel=True, fastmath=True)
def _read(a: Any, threads: int) -> float:
    total = 0.0
    for t in numba.prange(threads):
        part = 0.0
        for k in range(a.size * t // threads, a.size * (t + 1) // threads):
            part += a[k]
        total += part
    return total


@numba.njit(parallel=True)
def _copy(a: Any, b: Any, threads: int) -> None:
    for t in numba.prange(threads):
        b[a.size * t // threads : a.size * (t + 1) // threads] = a[a.size * t // threads : a.size * (t + 1) // threads]


def reader(a: Any) -> Callable[[], object]:
    """A call that reads an array once on all threads."""
    flat = a.reshape(-1, order="A")
    return lambda: _read(flat, numba.get_num_threads())


def copier(size: int) -> Callable[[], object]:
    """A call that copies so many float64 on all threads."""
    a, b = np.ones(size), np.zeros(size)
    return lambda: _copy(a, b, numba.get_num_threads())


def heading() -> str:
    """The machine, in a line."""
    load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    return (
        f"{platform.machine()}, {os.cpu_count()} cores{load}, {numba.get_num_threads()} Numba threads, "
        f"NumPy {np.__version__}, Numba {numba.__version__}, dapd {dapd.__version__}"
    )
