"""Bounds on x: variables that they fix become constants, and what is left can become rows."""

from __future__ import annotations

from typing import Self

import numpy as np

from dapd.arrays import Array
from dapd.functions import Function
from dapd.presolve.maps import restricted
from dapd.presolve.terms import parts_of, restricted_function
from dapd.presolve.transform import Transform
from dapd.problem.problem import Problem
from dapd.problem.way_back import WayBack


class FixedVariables(Transform):
    """The problem in the other variables. The bounds of a fixed x_j get z_j = −(∇f(x) + Mᵀy)_j."""

    name = "fixed variables"

    def __init__(self, problem: Problem, f: Function, x: Array, free: Array) -> None:
        self.original, self.x, self.free = problem, x, free
        rest = problem.M.forward(np.where(free, 0.0, x).astype(problem.dtype))
        blocks = None if problem.blocks is None else _left(problem.blocks, free)
        M = restricted(problem.M, np.ones(problem.rows, bool), free)
        b = (problem.b - rest).astype(problem.b.dtype)
        self.problem = Problem(f, M, b, problem.phi, blocks=blocks)
        bounds = [side[free] for side in problem.bounds]
        if np.isfinite(bounds).any():
            self.problem.lower, self.problem.upper = bounds
        with_bounds = np.zeros(problem.columns, bool) if self.problem.lower is None else free
        self.kept = np.flatnonzero(np.append(np.ones(problem.rows, bool), with_bounds))
        self.why = f"Fixed variables were eliminated: {np.count_nonzero(~free)}."

    @classmethod
    def apply(cls, problem: Problem) -> Self | None:
        """Eliminate fixed variables; None if there are none, if all are, or if f or M does not allow it."""
        lower, upper = problem.bounds
        free = lower != upper
        if free.all() or not free.any() or not problem.M.divisible:
            return None
        parts, x = parts_of(problem), np.where(free, 0.0, lower)
        f = None if parts is None else restricted_function(problem, parts, free, x)
        return None if f is None else cls(problem, f, x, free)

    def start(self, x: Array, y: Array) -> tuple[Array, Array]:
        """(the free part of x, y without the multipliers of bounds that fix variables)."""
        return x[self.free], y[self.kept]

    def back(self, x: Array, y: Array) -> tuple[Array, Array]:
        """(x with the fixed entries, y with what balances their gradient)."""
        full = self.x.astype(x.dtype)
        full[self.free] = x
        problem, dual = self.original, np.zeros(self.original.multipliers, y.dtype)
        dual[self.kept] = y
        pull = problem.f.grad(full) + problem.M.adjoint(dual[: problem.rows])
        dual[problem.rows :][~self.free] = -pull[~self.free]
        return full, dual


def _left(blocks: list[slice], free: Array) -> list[slice]:
    """The blocks without the fixed variables, and without those that are empty then."""
    ends = np.concatenate([[0], np.cumsum(free)])
    found = [slice(int(ends[block.start]), int(ends[block.stop])) for block in blocks]
    return [block for block in found if block.stop > block.start]


class BoundsAsRows(Transform):
    """`Problem.stacked`; points stay as they are."""

    name = "bounds as rows"
    why = "Bounds became rows."
    way_back = WayBack()

    def __init__(self, problem: Problem) -> None:
        self.problem = problem.stacked

    @classmethod
    def apply(cls, problem: Problem) -> Self | None:
        """Make rows of the bounds; None if there are none."""
        return None if problem.lower is None else cls(problem)

    def new_b(self, b: Array) -> Array:
        """Zeros below b."""
        full = self.problem.b.copy()
        full[: len(b)] = b
        return full
