"""What a batch of solves returns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from dapd.arrays import Array
from dapd.certificate.certify import SOLUTION, Certificate, certify
from dapd.engines import as_jax
from dapd.engines.protocol import Engine
from dapd.problem.problem import Problem
from dapd.solving.answer import Spent, answer, in_jax
from dapd.solving.result import Result
from dapd.ways.causes import Cause, Status
from dapd.ways.search import Info


@dataclass(frozen=True, repr=False, eq=False)
class BatchResult:
    """The solutions of a batch: `x[k]`, `y[k]` and `z[k]` belong to problem k, and `batch[k]` is its whole `Result`."""

    x: Array  # (problems, columns)
    y: Array  # (problems, rows)
    z: Array  # (problems, columns), the multipliers of the bounds
    status: list[Status]
    error: Array  # the relative error of each certificate, which `tol` bounds; inf if the problem had no turn
    iterations: Array
    solve_time: float  # seconds for the whole batch
    setup_time: float
    result: Callable[[int], Result]

    @property
    def converged(self) -> bool:
        """Whether every problem converged."""
        return all(status is Status.optimal for status in self.status)

    def __len__(self) -> int:
        return len(self.status)

    def __getitem__(self, k: int) -> Result:
        if not -len(self) <= k < len(self):
            raise IndexError(f"the batch has {len(self)} problems, and {k} was asked for")
        return self.result(k % len(self))

    def __iter__(self) -> Iterator[Result]:
        return (self.result(k) for k in range(len(self)))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled with all its results, which are otherwise made when they are asked for."""
        kept = [getattr(self, one.name) for one in fields(self)[:-1]]
        return BatchResult, (*kept, list(self).__getitem__)

    def __repr__(self) -> str:
        ends = ", ".join(f"{count:,} {status}" for status, count in Counter(self.status).items())
        return f"BatchResult({len(self):,} problems in {self.solve_time:.3g} s: {ends})"


def in_kind_of(batch: BatchResult, from_jax: bool) -> BatchResult:
    """The batch with JAX arrays if the caller's were such."""
    if not from_jax:
        return batch
    x, y, z = as_jax(batch.x, batch.y, batch.z)
    return replace(batch, x=x, y=y, z=z, result=lambda k: in_jax(batch.result(k)))


def result_at(
    problem: Problem,
    point: tuple[Array, Array, Array],
    cause: Cause,
    sentences: list[str],
    *,
    engine: Engine,
    tolerances: tuple[float, float] = (0.0, 0.0),
    accuracy: str = SOLUTION,
    iterations: int = 0,
    certificate: Certificate | None = None,
    solve_time: float = 0.0,
    setup_time: float = 0.0,
) -> Result:
    """The result of a problem that was not solved by itself, at a point whose certificate may be known."""
    x, y, z = point
    with np.errstate(all="ignore"):
        certificate = certificate or certify(problem, x, y, accuracy=accuracy)
    return answer(
        problem,
        Info(iterations, solve_time, x, y, certificate, z),
        cause,
        sentences,
        method="restarts",
        engine=engine,
        tolerances=tolerances,
        spent=Spent(iterations, iterations, 2 * iterations),
        solve_time=solve_time,
        setup_time=setup_time,
        spectrum=problem.spectrum,
    )
