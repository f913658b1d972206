"""What the benchmarks share: timing in turns, and the speed of the machine."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import Any

import numpy as np
import scipy

import dapd
from dapd.engines.native.threads import available
from dapd.machine.core import load

SECONDS = 1.0  # roughly, per contestant
ROUNDS = 9
SETTLED = 0.2  # seconds: for about half of that, the threads of a BLAS keep a core busy after their last product


def medians(calls: dict[str, Callable[[], object]], seconds: float = SECONDS) -> dict[str, float]:
    """Seconds per call, the median over rounds in which the calls take turns, so a slow moment affects all of them.

    Before a call is timed it runs for a while, until the threads of the one before it have gone to sleep.
    """
    repeats, times = {}, {name: [] for name in calls}
    for name, call in calls.items():
        call()
        began = perf_counter()
        call()
        repeats[name] = max(1, int(seconds / ROUNDS / max(perf_counter() - began, 1e-9)))
    for _ in range(ROUNDS):
        for name, call in calls.items():
            began = perf_counter()
            while perf_counter() - began < SETTLED:
                call()  # also starts its own threads and fills the caches
            began = perf_counter()
            for _ in range(repeats[name]):
                call()
            times[name].append((perf_counter() - began) / repeats[name])
    return {name: float(np.median(found)) for name, found in times.items()}


def on_all_threads(call: Callable[[int, int], object], size: int) -> Callable[[], object]:
    """A call that divides the range 0 … size − 1 among threads; NumPy releases the interpreter lock."""
    count = available()
    pool = ThreadPoolExecutor(count)
    ends = [size * t // count for t in range(count + 1)]
    return lambda: list(pool.map(call, ends[:-1], ends[1:]))


def reader(a: Any) -> Callable[[], object]:
    """A call that reads an array once on all threads."""
    flat = a.reshape(-1, order="A")
    return on_all_threads(lambda start, stop: np.add.reduce(flat[start:stop]), flat.size)


def copier(size: int) -> Callable[[], object]:
    """A call that copies `size` float64 numbers on all threads."""
    a, b = np.ones(size), np.zeros(size)
    return on_all_threads(lambda start, stop: np.copyto(b[start:stop], a[start:stop]), size)


def meeting(times: int = 20_000) -> float:
    """Seconds that two threads need to meet: about 0.1 µs on two cores, 0.5 µs if the cores are far apart."""
    core = load()
    assert core is not None
    return float(core.meeting(2, times))


def heading() -> str:
    """The machine and the versions, on one line."""
    load_average = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    core = load()
    built = "no core" if core is None else f"the {core.__name__.rpartition('_')[2]} core"
    return (
        f"{platform.machine()}, {os.cpu_count()} cores{load_average}, {available()} threads, {built}, "
        f"NumPy {np.__version__}, SciPy {scipy.__version__}, dapd {dapd.__version__}"
    )
