"""`solve_batch`: the front door for many problems at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dapd.arguments import named
from dapd.arrays import on_device
from dapd.engines import precision
from dapd.machine.clock import perf_counter
from dapd.problem.problem import Problem
from dapd.solving.batch.alone import batch_result, one_by_one
from dapd.solving.batch.condensed import condensed
from dapd.solving.batch.family import as_family, batch_of
from dapd.solving.batch.results import BatchResult, in_kind_of
from dapd.solving.settings import Settings


@named
def solve_batch(
    problems: Problem | Sequence[Problem],
    *,
    b: Any = None,
    c: Any = None,
    bounds: Any = None,
    tol: float | None = None,
    tol_absolute: float | None = None,
    max_iterations: int | None = None,
    time_limit: float | None = None,
    engine: str = "auto",
    direct: bool = True,
) -> BatchResult:
    """Solve many problems at once, each to its own certificate.

    Parameters
    ----------
    problems : Problem, or list of Problem
        A list of problems with the same numbers of rows and columns, since results are stacked, or one problem whose b,
        c or bounds are replaced by the stacked arrays. Problems that share M (the same object) share its set-up.
    b : array (problems, rows), optional
    c : array (problems, columns), optional
        Of a Quadratic f = ½xᵀHx − cᵀx.
    bounds : pair of arrays (problems, columns), vectors or numbers, optional
        Of a problem that has bounds; None is no bound.
    tol, tol_absolute, max_iterations
        As for `dapd.solve`, for each problem.
    time_limit : float, optional
        Seconds for the whole batch. After them, or after Ctrl-C, every problem has a result: those that did not have
        their turn are at zero, with inf in `error`.
    engine : str
        "auto", "native" and "python" solve one problem per thread, each as `dapd.solve` does. "jax" takes the steps of
        all problems together on its device: restarted first-order steps in lock step, where each problem has its own
        epochs and leaves when it is done. What the lock step does not solve is solved by `dapd.solve` afterwards.
    direct : bool
        As for `dapd.solve`.
    """
    began = perf_counter()
    batch = batch_of(problems, b, c, bounds)
    first = problems if isinstance(problems, Problem) else batch[0]
    from_jax = first.from_jax or any(map(on_device, (b, c, *(bounds or ()))))
    settings = Settings(
        tol=tol,
        tol_absolute=tol_absolute,
        max_iterations=max_iterations,
        time_limit=time_limit,
        engine=engine,
        direct=direct,
    ).fitting(first)
    if engine == "jax":
        with precision(engine):
            from dapd.solving.batch.device import solve_on_device  # jax is imported only if it is asked for

            return in_kind_of(solve_on_device(batch, settings, began), from_jax)
    family = None if engine == "auto" else as_family(batch)  # "auto" has other ways to good conditioning
    form = None if family is None else condensed(family)
    setup_time = perf_counter() - began
    solved = one_by_one(batch, range(len(batch)), settings, began, form=form)
    found = batch_result(batch, solved, setup_time, perf_counter() - began - setup_time)
    return in_kind_of(found, from_jax)
