"""Rows that say nothing of x: zero rows of M, and rows without a bound."""

from __future__ import annotations

from typing import Self

import numpy as np

from dapd.arrays import Array
from dapd.kinds.table import Table
from dapd.presolve.maps import restricted, stacked_maps
from dapd.presolve.transform import Transform, rebuilt_problem
from dapd.problem.problem import Problem

FREE_PART = 0.5  # part of the rows of an identity that must be free for it to be divided
ROUNDINGS = 4  # roundings of b within which a bound counts as met


class EmptyRows(Transform):
    """The problem without these rows; their y solves −b ∈ ∂φ(y), or is 0 if the row has no bound."""

    name = "empty rows"

    def __init__(self, problem: Problem, table: Table, removed: Array, duals: Array) -> None:
        left = np.flatnonzero(~removed)
        self.kept = np.append(left, np.arange(problem.rows, problem.multipliers))
        self.duals = np.zeros(problem.multipliers)
        self.duals[: problem.rows] = np.where(removed, duals, 0.0)
        every = np.ones(problem.columns, bool)
        parts = [restricted(M, ~removed[at], every) if removed[at].any() else M for M, at in problem.M.bands()]
        M = stacked_maps(parts, problem.columns)
        self.problem = rebuilt_problem(problem, M=M, b=problem.b[left], phi=table.take(left).phi())
        self.why = f"{int(removed.sum())} empty or free rows were removed."

    @classmethod
    def apply(cls, problem: Problem) -> Self | None:
        """Remove empty and free rows; None if there are none. A row that no x satisfies stays."""
        table = problem.phi_table
        if table is None:
            return None
        free = table.interval & (table.lower == -np.inf) & (table.upper == np.inf)
        solvable, duals = _empty_duals(table, problem.b.astype(np.float64))
        removed = np.zeros(problem.rows, bool)
        for M, at in problem.M.bands():
            if not M.divisible:
                continue
            if M.identity_start is not None:  # with gaps it would need a matrix, so few free bounds stay
                removed[at] = free[at] if free[at].mean() >= FREE_PART else False
            else:
                removed[at] = free[at] | (solvable[at] & (M.row_norms == 0))
        # of a group, all rows or none
        removed = table.pooled(~removed * 1.0) == 0
        return cls(problem, table, removed, np.where(free, 0.0, duals)) if removed.any() else None

    def start(self, x: Array, y: Array) -> tuple[Array, Array]:
        """(x, the y of the rows that are left)."""
        return x, y[self.kept]

    def back(self, x: Array, y: Array) -> tuple[Array, Array]:
        """(x, y with those of the removed rows)."""
        full = self.duals.astype(y.dtype)
        full[self.kept] = y
        return x, full


def _empty_duals(table: Table, b: Array) -> tuple[Array, Array]:
    """For each row whether −b ∈ ∂φ(y) for some y, and that y."""
    duals = np.zeros(len(b))
    slack = ROUNDINGS * np.finfo(np.float64).eps * abs(b)
    solvable = table.interval & (table.lower <= -b + slack) & (-b - slack <= table.upper)

    clip = table.boxed
    at_bound = np.where(b < 0, table.upper, np.where(b > 0, table.lower, np.clip(0.0, table.lower, table.upper)))
    duals[clip] = at_bound[clip]
    solvable |= clip & np.isfinite(at_bound)
    ball, shrink_ball = table.grouped & table.of_y, table.grouped & ~table.of_y
    if not table.grouped.any():
        return solvable, duals
    first, group = np.unique(table.unit, return_inverse=True)
    norms = np.sqrt(np.bincount(group, b * b, len(first)))[group]
    duals[ball] = -b[ball] * table.lower[ball] / np.where(norms > 0, norms, 1.0)[ball]
    return solvable | ball | (shrink_ball & (norms <= table.lower)), duals
