"""Variables that an identity row fixes: they become constants."""

from __future__ import annotations

from typing import Self

import numpy as np

from dapd.arrays import Array
from dapd.functions import Function
from dapd.kinds.table import Table
from dapd.presolve.equilibrate import identity_columns
from dapd.presolve.maps import restricted
from dapd.presolve.tables import table_of
from dapd.presolve.terms import parts_of, restricted_function
from dapd.problem.problem import Problem

CLOSE = 1e-12  # relative distance of two bounds on a fixed variable that counts as rounding


class FixedVariables:
    """The problem in the other variables. A row that fixes x_j gets y = −(∇f(x) + Mᵀy)_j."""

    name = "fixed variables"

    def __init__(
        self, problem: Problem, table: Table, f: Function, x: Array, free: Array, fixing: Array, removed: Array
    ) -> None:
        self.original, self.x, self.free = problem, x, free
        self.fixing, self.fixed = fixing, identity_columns(problem.M)[fixing]
        self.kept = np.flatnonzero(~removed)
        rest = problem.M.forward(np.where(free, 0.0, x).astype(problem.dtype))[self.kept]
        blocks = None if problem.blocks is None else _left(problem.blocks, free)
        M = restricted(problem.M, ~removed, free)
        b = (problem.b[self.kept] - rest).astype(problem.b.dtype)
        self.problem = Problem(f, M, b, table.take(self.kept).phi(), blocks=blocks)
        self.why = f"{len(self.fixed)} fixed variables were eliminated."

    @classmethod
    def apply(cls, problem: Problem) -> Self | None:
        """Eliminate fixed variables; None if there are none, if all are, or if f or M does not allow it."""
        table = table_of(problem)
        if table is None or not problem.M.divisible:
            return None
        places = identity_columns(problem.M)
        fixing = np.flatnonzero((places >= 0) & table.equation)
        fixed, first = np.unique(places[fixing], return_index=True)
        fixing = fixing[first]
        parts = parts_of(problem)
        if len(fixed) == 0 or len(fixed) == problem.columns or parts is None:
            return None
        x, free = np.zeros(problem.columns), np.ones(problem.columns, bool)
        x[fixed] = (problem.b + table.lower)[fixing]
        free[fixed] = False
        removed = (places >= 0) & ~free[places]
        if not _satisfied(problem, table, x, removed, places):
            return None
        restriction = restricted_function(problem, parts, free, x)
        return None if restriction is None else cls(problem, table, restriction, x, free, fixing, removed)

    def start(self, x: Array, y: Array) -> tuple[Array, Array]:
        """(the free part of x, the y of the rows that are left)."""
        return x[self.free], y[self.kept]

    def back(self, x: Array, y: Array) -> tuple[Array, Array]:
        """(x with the fixed entries, y with what balances their gradient)."""
        full = self.x.astype(x.dtype)
        full[self.free] = x
        dual = np.zeros(self.original.rows, y.dtype)
        dual[self.kept] = y
        pull = self.original.f.grad(full) + self.original.M.adjoint(dual)
        dual[self.fixing] = -pull[self.fixed]
        return full, dual


def _satisfied(problem: Problem, table: Table, x: Array, removed: Array, places: Array) -> bool:
    """Whether the rows that go say no more than that x_j is fixed."""
    if not np.all(table.interval[removed]):
        return False
    value = x[places[removed]] - problem.b[removed]
    slack = CLOSE * (abs(x[places[removed]]) + abs(problem.b[removed]))
    return bool(np.all((table.lower[removed] <= value + slack) & (value - slack <= table.upper[removed])))


def _left(blocks: list[slice], free: Array) -> list[slice]:
    """The blocks without the fixed variables, and without those that are empty then."""
    ends = np.concatenate([[0], np.cumsum(free)])
    found = [slice(int(ends[block.start]), int(ends[block.stop])) for block in blocks]
    return [block for block in found if block.stop > block.start]
