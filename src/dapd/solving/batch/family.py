"""The problems of a batch: one problem with stacked numbers, or a list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dapd.arguments import first_true, open_ended, real
from dapd.arrays import Array
from dapd.problem.problem import Problem


class Family:
    """Problems that share f's curvature, M and φ's kind with `first`, and differ in b, c or the bounds."""

    def __init__(
        self,
        first: Problem,
        count: int,
        b: Array | None,
        c: Array | None,
        bounds: Sequence[Array] | None,  # lower and upper ones, a row per problem
    ) -> None:
        self.first, self.count, self.b, self.c, self.bounds = first, count, b, c, bounds

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, k: int) -> Problem:
        first = self.first
        f = None if self.c is None else first.f.replaced(c=self.c[k])
        limits = None if self.bounds is None else (self.bounds[0][k], self.bounds[1][k])
        return first.replaced(f=f, b=None if self.b is None else self.b[k], limits=limits)


Batch = Family | list[Problem]


def family_of(problem: Problem, b: Any, c: Any, bounds: Any) -> Family:
    """Check stacked arrays, whose first axis counts the problems."""
    given: dict[str, Array] = {}
    if b is not None:
        given["b"] = _stacked("b", b, problem.rows)
    if c is not None:
        if problem.f.c is None:
            problem.f.replaced(c=c)  # which raises
        given["c"] = _stacked("c", c, problem.columns)
    limits = None
    if bounds is not None:
        if not isinstance(bounds, (tuple, list)) or len(bounds) != 2:
            raise TypeError(f"bounds must be a pair (lower, upper), found {type(bounds).__name__}")
        if problem.lower is None:
            raise ValueError("bounds can only be stacked if the problem has bounds already; give it some")
        none = -np.inf, np.inf
        sides = [np.asarray(end if side is None else side, np.float64) for side, end in zip(bounds, none, strict=True)]
        for name, side in zip(("lower", "upper"), sides, strict=True):
            if np.isnan(side).any():
                raise ValueError(f"{first_true(name, np.isnan(side))} of the bounds is NaN; use ±inf for a missing one")
            if side.ndim == 2 and side.shape[1] == problem.columns:
                given[name] = side
            elif side.ndim > 1:
                raise ValueError(
                    f"the {name} bounds must be a number, a vector or an array of shape (problems, {problem.columns}), "
                    f"found shape {side.shape}"
                )
        limits = open_ended(**{"the lower bounds": sides[0], "the upper bounds": sides[1]})
    if not given:
        raise ValueError("one problem is solved many times with other data: give b, c or bounds with a row for each")
    counts = {len(value) for value in given.values()}
    if len(counts) != 1:
        lengths = ", ".join(f"{name}: {len(value)}" for name, value in given.items())
        raise ValueError(f"stacked arrays must have one row per problem, all the same number; found {lengths}")
    count = counts.pop()
    if limits is not None:
        limits = [np.broadcast_to(side, (count, problem.columns)) for side in limits]
        if np.any(above := limits[0] > limits[1]):
            raise ValueError(f"lower bounds must not be above upper bounds; {first_true('lower', above)} is")
        for name, side, wrong in zip(("lower", "upper"), limits, (np.inf, -np.inf), strict=True):
            if np.any(found := side == wrong):
                raise ValueError(f"{first_true(name, found)} of the bounds is {wrong}; 1e20 or more is infinite")
    return Family(problem, count, given.get("b"), given.get("c"), limits)


def as_family(problems: Batch) -> Family | None:
    """The family that a list of problems is; None if they differ in more than b, c and bounds."""
    if isinstance(problems, Family):
        return problems
    first = problems[0]
    f = first.f
    for other in problems:
        alike = other.M is first.M and other.phi is first.phi and other.dtype == first.dtype
        alike = alike and (other.f is f or f.differs_in_c(other.f))
        if not alike or (other.lower is None) != (first.lower is None):
            return None
    c = None
    if any(other.f is not f for other in problems):
        c = np.stack([other.f.c for other in problems])
    bounds = None if first.lower is None else tuple(np.stack([p.bounds[k] for p in problems]) for k in (0, 1))
    return Family(first, len(problems), np.stack([other.b for other in problems]), c, bounds)


def _stacked(name: str, value: Any, size: int) -> Array:
    array = real(name, value)
    if array.ndim != 2 or array.shape[1] != size:
        raise ValueError(f"{name} must have the shape (problems, {size}), found {array.shape}")
    return array


def batch_of(problems: Problem | Sequence[Problem], b: Any, c: Any, bounds: Any) -> Batch:
    """One problem with stacked numbers, or a list of problems of the same shape."""
    if isinstance(problems, Problem):
        return family_of(problems, b, c, bounds)
    if b is not None or c is not None or bounds is not None:
        raise TypeError("b, c and bounds are stacked for one problem; problems of a list have their own")
    found = list(problems)
    if not found:
        raise ValueError("problems is empty; give at least one")
    for k, problem in enumerate(found):
        if not isinstance(problem, Problem):
            raise TypeError(f"problems[{k}] must be a dapd.Problem, found {type(problem).__name__}")
    first = found[0]
    for k, problem in enumerate(found):
        if problem.M.shape != first.M.shape:
            raise ValueError(
                f"all problems of a batch must have the same numbers of rows and columns, but problems[{k}] has "
                f"{problem.rows} and {problem.columns}, problems[0] {first.rows} and {first.columns}; solve "
                "those of each shape in a batch of their own"
            )
    return found
