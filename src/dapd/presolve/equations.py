"""Equations as such: a row l ≤ Mx − b ≤ l is Mx = b + l."""

from __future__ import annotations

from dataclasses import replace
from typing import Self

import numpy as np

from dapd.arrays import Array
from dapd.kinds.table import Table
from dapd.presolve.tables import table_of
from dapd.presolve.transform import rebuilt_problem
from dapd.problem.problem import Problem
from dapd.problem.way_back import WayBack

ROUNDINGS = 4  # roundings of b within which b + l counts as zero


class Equations:
    """φ(y) = l·y becomes φ(y) = 0, with b + l for b; x and y stay as they are."""

    name = "equations"
    why = "Rows with equal bounds became equations."
    way_back = WayBack()

    def __init__(self, problem: Problem, table: Table) -> None:
        level = np.where(table.equation, table.lower, 0.0)
        lower, upper = (np.where(table.equation, 0.0, bound) for bound in (table.lower, table.upper))
        rows = replace(table, lower=lower, upper=upper)
        b = problem.b + level.astype(problem.b.dtype)
        b[abs(b) <= ROUNDINGS * np.finfo(b.dtype).eps * abs(problem.b)] = 0.0  # what is left of b = −l
        self.problem = rebuilt_problem(problem, b=b, phi=rows.phi())

    @classmethod
    def apply(cls, problem: Problem) -> Self | None:
        """Move l into b; None if no row has equal bounds other than zero."""
        table = table_of(problem)
        if table is None or not np.any(table.lower[table.equation]):
            return None
        return cls(problem, table)

    def start(self, x: Array, y: Array) -> tuple[Array, Array]:
        """The same point."""
        return x, y

    def back(self, x: Array, y: Array) -> tuple[Array, Array]:
        """The same point."""
        return x, y
