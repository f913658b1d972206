"""Solutions in NumPy and float64, as accurate as they can be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dapd.arrays import Array
from dapd.implicit.convert import Data
from dapd.implicit.hessian import Hessian
from dapd.implicit.linearised import Conditions, Point
from dapd.implicit.options import NotSolved, Settings
from dapd.implicit.records import Products, matrix_of
from dapd.model.problem import Problem
from dapd.solving.certificate import Certificate, certify
from dapd.solving.solve import solve

FROM_ZERO, POLISHES = 12, 4  # Newton steps at most
SMALL = 400  # variables and rows up to which Newton steps from zero are tried
CONVERGED, NEARLY = 1e-13, 1e-8  # sizes of the last of them, relative to the point


def problem_of(data: Data) -> Problem:
    """The problem with these numbers, to be solved in float64."""
    M = matrix_of(data.M) if isinstance(data.M, Products) else matrix_of(data.M).astype(np.float64)
    bounds = None if data.lower is None else (data.lower, data.upper)
    # f stays in its own precision, which says how far from semidefinite an H may be by rounding
    problem = Problem(data.f.model(), M, data.b.astype(np.float64), data.phi.model(), bounds=bounds)
    if bounds is None or problem.lower is not None:
        return problem
    free = np.full(problem.columns, np.inf)  # a Problem drops such bounds, but their multipliers are expected
    return problem.replaced(limits=(-free, free))


def solution(data: Data, settings: Settings) -> tuple[Array, Array, Array]:
    """The point (x, w) and prox steps that suit it, or NaN if the solve fails and the settings say so."""
    problem = problem_of(data)
    conditions = Conditions(problem, _hessian(data))
    try:
        x, w = _solution(problem, conditions, dict(settings.options))
    except NotSolved:
        if settings.failures == "raise":
            raise
        x, w = (np.full(n, np.nan) for n in data.lengths)
        return x, w, w
    return x, w, conditions.steps(x, w)


def linear_solver(
    data: Data, point: Sequence[Array], settings: Settings, *, transpose: bool
) -> Callable[[Array, Array], Point]:
    """What solves with the derivative J of the optimality conditions at (x, w) with these prox steps, or with Jᵀ.

    It gives NaN at a point that is NaN, and if the system cannot be solved and the settings say so.
    """
    lost = np.full(point[0].shape, np.nan), np.full(point[1].shape, np.nan)
    if np.isnan(point[0]).any():
        return lambda r, q: lost
    linear = Conditions(problem_of(data), _hessian(data)).at(*(part.astype(np.float64) for part in point))

    def solve(r: Array, q: Array) -> Point:
        try:
            return linear.solve_transpose(r, q) if transpose else linear.solve(r, q)
        except NotSolved:
            if settings.failures == "raise":
                raise
            return lost

    return solve


def _hessian(data: Data) -> Callable[[Array], Hessian] | None:
    """That of an f which `dapd` cannot differentiate twice itself."""
    return getattr(data.f, "hessian", None)


def _solution(problem: Problem, conditions: Conditions, options: dict[str, Any]) -> Point:
    """The point (x, w): by Newton steps from zero if they get there, else by `dapd.solve` and Newton steps from there.

    Raises
    ------
    NotSolved
        If the solve is not optimal, with its message.
    """
    tolerances = options.get("tol") or 0.0, options.get("tol_absolute") or 0.0
    if options.keys() <= {"tol", "tol_absolute"} and problem.columns + problem.stacked.rows <= SMALL:
        found = _newton(conditions, np.zeros(problem.columns), np.zeros(problem.stacked.rows), FROM_ZERO)
        if found is not None and _certificate(problem, *found).meets(*tolerances):
            return found
    result = solve(problem, **options)
    if not result.converged:
        raise NotSolved(f"the solve ended with the status {result.status}: {result.message}")
    x, y, z = (np.asarray(part, np.float64) for part in (result.x, result.y, result.z))
    w = y if problem.lower is None else np.concatenate([y, z])
    closer = _newton(conditions, x, w, POLISHES)
    return closer if closer is not None and _certificate(problem, *closer).error < result.certificate.error else (x, w)


def _certificate(problem: Problem, x: Array, w: Array) -> Certificate:
    return certify(problem, x, w[: problem.rows], w[problem.rows :] if problem.lower is not None else None)


def _newton(conditions: Conditions, x: Array, w: Array, count: int) -> Point | None:
    """Newton's method on the optimality conditions; None if it has not converged after so many steps."""
    last, steps = np.inf, conditions.steps(x, w)
    for _ in range(count):
        try:
            dx, dw = conditions.at(x, w, steps).newton_step()
        except NotSolved:
            return None
        x, w = x + dx, w + dw
        step = float(np.linalg.norm(dx) + np.linalg.norm(dw))
        size = float(np.linalg.norm(x) + np.linalg.norm(w))
        if not np.isfinite(step):
            return None
        if step <= CONVERGED * size or (step <= NEARLY * size and step > 0.1 * last):
            return x, w
        last = step
    return (x, w) if step <= NEARLY * size else None
