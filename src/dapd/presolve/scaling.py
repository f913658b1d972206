"""Factors for rows and columns: x = columns·x̂ and y = rows·ŷ."""

from __future__ import annotations

from copy import copy
from typing import Self

import numpy as np

from dapd.arguments import LARGEST
from dapd.arrays import Array
from dapd.functions import Function
from dapd.presolve.equilibrate import column_factors, identity_columns, norm_factors
from dapd.presolve.maps import scaled_map
from dapd.presolve.tables import table_of
from dapd.presolve.terms import parts_of, scaled_function
from dapd.presolve.transform import rebuilt_problem
from dapd.problem.problem import Problem
from dapd.problem.way_back import WayBack

ROUND = 1 + 1e-9  # L/μ up to which f counts as perfectly conditioned
CONDITION = 1e14  # condition of a diagonal H from which its inverse square root is not trusted


class _Factors:
    """A problem scaled by given factors."""

    name: str
    why: str

    def __init__(self, problem: Problem, rows: Array, columns: Array) -> None:
        table, parts = table_of(problem), parts_of(problem)
        if table is None:
            raise ValueError("the rows of a φ that is not known by rows cannot be scaled")
        self.rows, self.columns = rows, columns
        keeps_f = bool(np.all(columns == 1.0))
        self.problem = rebuilt_problem(
            problem,
            f=None if keeps_f or parts is None else scaled_function(problem, parts, columns),
            M=scaled_map(problem.M, rows, columns),
            b=problem.b * rows.astype(problem.b.dtype),
            phi=table.scaled(rows).phi(),
        )

    def with_b(self, b: Array) -> Self:
        """The same factors for another b."""
        other = copy(self)
        other.problem = self.problem.replaced(b=b * self.rows.astype(b.dtype))
        return other

    @property
    def way_back(self) -> WayBack:
        """By the factors."""
        return WayBack(self.columns, self.rows)

    def start(self, x: Array, y: Array) -> tuple[Array, Array]:
        """(x/columns, y/rows)."""
        return x / self.columns, y / self.rows

    def back(self, x: Array, y: Array) -> tuple[Array, Array]:
        """(columns·x, rows·y)."""
        return self.columns * x, self.rows * y


class RowScaling(_Factors):
    """Rows of norm near one; f and x stay as they are."""

    name = "row scaling"
    why = "Rows were scaled."

    @classmethod
    def apply(cls, problem: Problem) -> Self | None:
        """Scale the rows; None if all factors are one."""
        table = table_of(problem)
        rows = None if table is None else norm_factors(problem.M, table)
        if rows is None or np.all(rows == 1.0):
            return None
        return cls(problem, rows, np.ones(problem.columns))


class DiagonalVariables(_Factors):
    """x = H^{−1/2}x̂ for f = ½xᵀHx − cᵀx with a diagonal H > 0: the new f has κ = 1."""

    name = "change of variables"
    why = "Variables were scaled to make the Hessian the identity."

    @classmethod
    def apply(cls, problem: Problem) -> Self | None:
        """Change the variables; None if f is another function, or H is no diagonal, singular, or a multiple of one."""
        table, parts = table_of(problem), parts_of(problem)
        if table is None or parts is None:
            return None
        diagonal = np.empty(problem.columns)
        for part in parts:
            if part.terms.loss is not None or not part.terms.is_by_entry:
                return None
            diagonal[part.at] = part.terms.ridge + (0.0 if part.terms.H is None else part.terms.H)
        low, high = float(diagonal.min()), float(diagonal.max())
        if not low * CONDITION > high or low == high:
            return None
        columns, places = diagonal**-0.5, identity_columns(problem.M)
        if np.any(table.grouped & (places >= 0)):
            return None
        return cls(problem, _inverse_on_bounds(places, columns), columns)


class ColumnScaling(_Factors):
    """Variables in units in which f and M have entries of about one; rows keep their factors, bounds stay bounds."""

    name = "column scaling"
    why = "Columns were scaled."

    @classmethod
    def apply(cls, problem: Problem) -> Self | None:
        """Scale the columns; None if they are alike, if their entries are not known, or if f would lose from it."""
        table, parts, f = table_of(problem), parts_of(problem), problem.f
        if table is None or parts is None or not all(part.terms.is_scalable for part in parts):
            return None
        if problem.phi.is_linear and f.L is not None and 0 < f.L <= ROUND * f.mu:
            return None  # f would lose more than equations gain, whose rows may become orthonormal too
        places = identity_columns(problem.M)
        if np.any(table.grouped & (places >= 0)):
            return None
        columns = column_factors(problem.M, table, problem.curvature)
        if columns is None or not _keeps_range(f, columns):
            return None
        return cls(problem, _inverse_on_bounds(places, columns), columns)


def _keeps_range(f: Function, columns: Array) -> bool:
    """Whether the constants of the scaled f have squares that neither overflow nor underflow."""
    known = [value for value in (f.mu, f.L) if value]
    changed = [value * float(factor) ** 2 for value in known for factor in (columns.min(), columns.max())]
    return all(1 / LARGEST < value < LARGEST for value in changed)


def _inverse_on_bounds(places: Array, columns: Array) -> Array:
    """Factors of rows that keep the rows of identities as they are."""
    return np.where(places < 0, 1.0, 1 / columns[np.maximum(places, 0)])
