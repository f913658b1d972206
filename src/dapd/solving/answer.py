"""The one place where a result is made, and how it comes back in the caller's kind of arrays."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from dapd.arrays import on_host, owned
from dapd.certificate.certify import completed, objective
from dapd.engines import as_jax
from dapd.engines.protocol import Engine
from dapd.problem.problem import Problem
from dapd.solving.result import Result
from dapd.ways.causes import STATUSES, Cause
from dapd.ways.search import Info


class Spent(NamedTuple):
    """What was asked of the problem."""

    iterations: int = 0
    gradients: int = 0
    products: int = 0
    block_products: int = 0


def answer(
    problem: Problem,
    point: Info,
    cause: Cause,
    sentences: list[str],
    *,
    method: str,
    engine: Engine,
    tolerances: tuple[float, float],
    spent: Spent,
    solve_time: float,
    setup_time: float,
    value: Callable[..., float] | None = None,
    **others: Any,
) -> Result:
    """The result at a point; `value` computes the objective there, on the host by default."""
    certificate = point.certificate
    is_satisfied = cause is Cause.certificate or 0 < certificate.feasibility_error <= tolerances[0]
    is_satisfied = is_satisfied or certificate.meets(*tolerances)
    with np.errstate(all="ignore"):
        if cause is Cause.descent:
            found = -math.inf
        elif value is not None:
            found = value(point.x, point.y, satisfied=is_satisfied)
        else:
            found = objective(problem, point.x, point.y, is_satisfied)
        x = owned(point.x)
        y, z = completed(problem, x, on_host(point.y)) if point.z is None else (owned(point.y), owned(point.z))
    return Result(
        x=x,
        y=y,
        z=z,
        status=STATUSES[cause],
        cause=cause,
        message=" ".join(filter(None, sentences)),
        **spent._asdict(),
        certificate=certificate,
        objective=found,
        solve_time=solve_time,
        setup_time=setup_time,
        method=method,
        engine=engine,
        **others,
    )


def in_kind_of(problem: Problem, result: Result) -> Result:
    """The result with JAX arrays if M or b of the problem was one."""
    return in_jax(result) if problem.from_jax else result


def in_jax(result: Result) -> Result:
    """The result with JAX arrays."""
    x, y, z = as_jax(result.x, result.y, result.z)
    return replace(result, x=x, y=y, z=z, ray=None if result.ray is None else as_jax(result.ray)[0])
