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
from dapd.engines.threads import together
from dapd.kernels.team import common, meet, teams

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


@numba.njit(nogil=True, fastmath=True)
def _sum(a: Any) -> float:
    # eight streams, as the kernels have: one alone does not fill the memory's queue
    n = a.size // 8
    total = 0.0
    b0, b1, b2, b3 = a[:n], a[n : 2 * n], a[2 * n : 3 * n], a[3 * n : 4 * n]
    b4, b5, b6, b7 = a[4 * n : 5 * n], a[5 * n : 6 * n], a[6 * n : 7 * n], a[7 * n : 8 * n]
    for k in range(n):
        total += b0[k] + b1[k] + b2[k] + b3[k] + b4[k] + b5[k] + b6[k] + b7[k]
    return total


@numba.njit(parallel=True)
def _read(a: Any, totals: Any) -> None:
    for t in numba.prange(totals.size):
        totals[t] = _sum(a[a.size * t // totals.size : a.size * (t + 1) // totals.size])


@numba.njit(parallel=True)
def _copy(a: Any, b: Any, threads: int) -> None:
    for t in numba.prange(threads):
        b[a.size * t // threads : a.size * (t + 1) // threads] = a[a.size * t // threads : a.size * (t + 1) // threads]


def reader(a: Any) -> Callable[[], object]:
    """A call that reads an array once on all threads."""
    flat, totals = a.reshape(-1, order="A"), np.zeros(numba.get_num_threads())
    return lambda: _read(flat, totals)


def copier(size: int) -> Callable[[], object]:
    """A call that copies so many float64 on all threads."""
    a, b = np.ones(size), np.zeros(size)
    return lambda: _copy(a, b, numba.get_num_threads())


@numba.njit(nogil=True)
def _meet(team: Any, times: int) -> None:
    for _ in range(times):
        meet(team)


def meeting(times: int = 20_000) -> float:
    """Seconds that two threads need to meet: about 0.05 µs on one core, 0.1 on two, 0.5 where these are far apart."""
    shared = common([0, 0], np.float64)
    calls = [(team, times) for team in teams([0, 0, 0], [0, 0, 0], shared, "")]
    together(_meet, [(team, 0) for team, _ in calls], lambda: None)  # compiles
    began = perf_counter()
    together(_meet, calls, lambda: None)
    return (perf_counter() - began) / times


def heading() -> str:
    """The machine, in a line."""
    load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    return (
        f"{platform.machine()}, {os.cpu_count()} cores{load}, {numba.get_num_threads()} Numba threads, "
        f"NumPy {np.__version__}, Numba {numba.__version__}, dapd {dapd.__version__}"
    )
