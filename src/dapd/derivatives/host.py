"""Solutions in NumPy and float64, as accurate as they can be."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from dapd.arguments import bounds_of, vector
from dapd.arrays import Array
from dapd.certificate.certify import Certificate, certify
from dapd.derivatives.data import Data, leaves
from dapd.derivatives.front import NotSolved, SolveOptions
from dapd.derivatives.linearised import Conditions, Point
from dapd.derivatives.records import Products, matrix_of
from dapd.problem.problem import Problem
from dapd.solving.batch import solve_batch
from dapd.solving.result import Result
from dapd.solving.solve import solve

FROM_ZERO, POLISHES = 12, 4  # most Newton steps from zero, and from a solution
NEWTON_SIZE = 400  # variables and rows up to which Newton steps from zero are tried
TOGETHER = {"tol", "tol_absolute", "max_iterations", "time_limit", "engine", "direct"}  # options of `solve_batch`
CONVERGED, NEARLY = 1e-13, 1e-8  # lengths of the last Newton step, relative to the point: converged, and nearly so


def problem_of(data: Data) -> Problem:
    """The problem with these numbers, to be solved in float64."""
    M = matrix_of(data.M) if isinstance(data.M, Products) else matrix_of(data.M).astype(np.float64)
    # f stays in its own precision, which says how far from semidefinite an H may be by rounding
    problem = Problem(data.f.checked(), M, data.b.astype(np.float64), data.phi.checked())
    return problem if data.lower is None else problem.replaced(limits=_limits(data, problem.columns))


def _limits(data: Data, columns: int) -> tuple[Array, Array]:
    """The bounds, checked; infinite ones too, since their multipliers are expected."""
    free = np.full(columns, np.inf)
    return bounds_of((data.lower, data.upper), columns) or (-free, free)


def solutions(datas: Sequence[Data], settings: SolveOptions) -> Iterator[tuple[Array, Array, Array]]:
    """Of each: the point (x, w) and prox steps that suit it, or NaN if the solve fails and the settings say so."""
    many = list(_conditions(data for data in datas if not _is_lost(data, settings)))
    options = dict(settings.options)
    results: Iterable[Result | None] = [None] * len(many)
    if len(many) > 1 and options.keys() <= TOGETHER and many[0].given.terms is not None:
        results = solve_batch([conditions.given for conditions in many], **options)
    solved = zip(many, results, strict=True)
    for data in datas:
        x, w = (np.full(n, np.nan) for n in data.lengths)
        steps = w
        if not _is_lost(data, settings):
            conditions, result = next(solved)
            try:
                x, w = _alone(conditions, options) if result is None else _closer(conditions, result)
                steps = conditions.steps(x, w)
            except NotSolved:
                if settings.failures == "raise":
                    raise
        yield x, w, steps


def _is_lost(data: Data, settings: SolveOptions) -> bool:
    """Whether there is no solution since some number is NaN, and the settings say that this is no error."""
    arrays = (np.asarray(leaf) for leaf, _ in leaves(data))
    return settings.failures == "nan" and any(leaf.dtype.kind == "f" and np.isnan(leaf).any() for leaf in arrays)


def linear_solvers(
    datas: Sequence[Data], points: Sequence[Sequence[Array]], settings: SolveOptions, *, transpose: bool
) -> Iterator[Callable[[Array], Array]]:
    """What solves with the derivative J of the optimality conditions at (x, w) with given prox steps, or with Jᵀ.

    It gives NaN at a point that is NaN, and if the system cannot be solved and the settings say so.
    """
    solved = _conditions(data for data, point in zip(datas, points, strict=True) if not np.isnan(point[0]).any())
    for x, w, steps in points:
        if np.isnan(x).any():
            yield partial(np.full_like, fill_value=np.nan)
        else:
            linear = next(solved).at(*(part.astype(np.float64) for part in (x, w, steps)))
            solve = linear.solve_transpose if transpose else linear.solve
            yield partial(_solved, solve, x.size, settings.failures)


def _solved(solve: Callable[[Array, Array], Point], columns: int, failures: str, rhs: Array) -> Array:
    try:
        return np.concatenate(solve(rhs[:columns], rhs[columns:]))
    except NotSolved:
        if failures == "raise":
            raise
        return np.full_like(rhs, np.nan)


def _conditions(datas: Iterable[Data]) -> Iterator[Conditions]:
    """The optimality conditions of each; what consecutive ones share is set up once."""
    first: tuple[Data, Conditions] | None = None
    for data in datas:
        if first is not None and _is_family(first[0], data):
            yield first[1].moved(_replaced(first[1].given, first[0], data))
        else:
            first = data, Conditions(problem_of(data), getattr(data.f, "hessian", None))
            yield first[1]


def _is_family(first: Data, other: Data) -> bool:
    """Whether both differ at most in b, the c of f, and the bounds: the other arrays are the same objects."""
    fs: list[Any] = [first.f, other.f]
    if all(f.c is not None for f in fs):
        fs = [replace(f, c=None) for f in fs]
    same = [(first.M, other.M), (first.phi, other.phi), tuple(fs)]
    return all(type(one) is type(two) for one, two in same) and all(
        one is two or (np.ndim(one) < 2 and np.array_equal(one, two))
        for pair in same
        for (one, _), (two, _) in zip(*map(leaves, pair), strict=True)
    )


def _replaced(problem: Problem, first: Data, data: Data) -> Problem:
    """The problem with the other b, c and bounds of `data`, checked."""
    f = None if data.f.c is first.f.c else problem.f.replaced(c=data.f.c)
    same = data.lower is first.lower and data.upper is first.upper
    limits = None if same else _limits(data, problem.columns)
    return problem.replaced(f=f, b=vector("b", data.b.astype(np.float64), problem.rows), limits=limits)


def _alone(conditions: Conditions, options: dict[str, Any]) -> Point:
    """The point (x, w): by Newton steps from zero if they get there, else by `dapd.solve` and Newton steps from there.

    Raises
    ------
    NotSolved
        If the solve is not optimal, with its message.
    """
    problem = conditions.given
    tolerances = options.get("tol") or 0.0, options.get("tol_absolute") or 0.0
    if options.keys() <= {"tol", "tol_absolute"} and problem.columns + problem.multipliers <= NEWTON_SIZE:
        found = _newton(conditions, np.zeros(problem.columns), np.zeros(problem.multipliers), FROM_ZERO)
        if found is not None and _certificate(problem, *found).meets(*tolerances):
            return found
    return _closer(conditions, solve(problem, **options))


def _closer(conditions: Conditions, result: Result) -> Point:
    """The point (x, w) of a result after some Newton steps, if those help; raise if the result is not optimal."""
    if not result.converged:
        raise NotSolved(f"the solve ended with the status {result.status}: {result.message}")
    x, y, z = (np.asarray(part, np.float64) for part in (result.x, result.y, result.z))
    w = y if conditions.given.lower is None else np.concatenate([y, z])
    found = _newton(conditions, x, w, POLISHES)
    if found is None or _certificate(conditions.given, *found).error >= result.certificate.error:
        return x, w
    return found


def _certificate(problem: Problem, x: Array, w: Array) -> Certificate:
    return certify(problem, problem.within_bounds(x, w), w[: problem.rows])


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
