"""The problems of a batch one by one, a thread for each core."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import Any

import numpy as np

from dapd.arrays import Array
from dapd.batch.result import BatchResult
from dapd.engines.threads import available
from dapd.model.problem import Problem
from dapd.solving.result import Result
from dapd.solving.settings import Settings
from dapd.solving.solve import solve_checked


def one_by_one(
    problem_of: Callable[[int], Problem],
    which: Sequence[int],
    settings: Settings,
    began: float,
    starts: Callable[[int], tuple[Array, Array, Array]] | None = None,
) -> list[Result]:
    """Solve some problems with a thread for each core; threads keep what the next problem can use."""
    threads = max(1, min(available(), len(which)))

    def share(k: int) -> list[Result]:
        kept: dict[str, Any] = {}
        found = []
        for at in which[k::threads]:
            left = None if settings.time_limit is None else began + settings.time_limit - perf_counter()
            own, z0 = settings._replace(time_limit=None if left is None else max(left, 1e-9)), None
            if starts is not None:
                x0, y0, z0 = starts(at)
                own = own._replace(x0=x0, y0=y0)
            found.append(solve_checked(problem_of(at), own, perf_counter(), z0=z0, kept=kept))
        return found

    if threads == 1:
        return share(0)
    results: list[Result | None] = [None] * len(which)
    with ThreadPoolExecutor(threads) as pool:
        for k, found in enumerate(pool.map(share, range(threads))):
            results[k::threads] = found
    return [result for result in results if result is not None]


def joined(results: list[Result], solve_time: float, setup_time: float) -> BatchResult:
    """One result of many."""
    return BatchResult(
        x=np.stack([result.x for result in results]),
        y=np.stack([result.y for result in results]),
        z=np.stack([result.z for result in results]),
        status=[result.status for result in results],
        error=np.array([result.certificate.error for result in results]),
        iterations=np.array([result.iterations for result in results]),
        solve_time=solve_time,
        setup_time=setup_time,
        result=results.__getitem__,
    )
