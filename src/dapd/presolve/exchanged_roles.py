"""A linear program with x and y in exchanged roles, so its bounds are a projection instead of rows.

min_x max_y c'x + yᵀ(Ax − b) − φ(y) with lower ≤ x ≤ upper and φ(y) = sup{sᵀy : s in an interval in each row} is, for
w = (x, s) and v = −y, the problem min_v max_w −(b + s₀)ᵀv + wᵀ(Aᵀv, −v) − cᵀx with w in a box: s₀ are the s of
equations, which need no variable. Its dual step projects x. It has a row for each x_j and each inequality, and none for
bounds.
"""

from __future__ import annotations

from typing import Self

import numpy as np
import scipy.sparse as sp

from dapd.arrays import Array
from dapd.functions import Quadratic
from dapd.kinds.by_rows import Box
from dapd.kinds.table import Table
from dapd.operators.base import Operator
from dapd.operators.blocks import RowBlocks
from dapd.operators.explicit import Dense, Sparse
from dapd.presolve.equilibrate import identity_columns
from dapd.presolve.maps import restricted
from dapd.presolve.tables import table_of
from dapd.presolve.terms import parts_of
from dapd.problem.problem import Problem


class ExchangedRoles:
    """The exchange; its x are the multipliers of the rows that are no bounds, with the other sign."""

    name = "exchanged roles"
    why = "x and y exchanged roles, so bounds are a projection."

    def __init__(self, problem: Problem, costs: Array, table: Table, places: Array, A: Operator) -> None:
        self.original, self.costs, self.A = problem, costs, A
        self.bounds, self.columns = np.flatnonzero(places >= 0), places[places >= 0]
        self.rows = np.flatnonzero(places < 0)
        self.lower, self.upper = (np.full(problem.columns, end) for end in (-np.inf, np.inf))
        b, below, above = (v.astype(np.float64) for v in (problem.b, table.lower, table.upper))
        self.lower[self.columns] = (b + below)[self.bounds]
        self.upper[self.columns] = (b + above)[self.bounds]
        low, high = below[self.rows], above[self.rows]
        self.slack = np.flatnonzero(low != high)  # among `rows`: inequalities
        self.low, self.high = low[self.slack], high[self.slack]
        given = b[self.rows] + np.where(low == high, low, 0.0)
        box = Box.between(np.concatenate([self.lower, self.low]), np.concatenate([self.upper, self.high]))
        zeros = np.zeros(len(self.slack))
        f = Quadratic(np.zeros(len(self.rows)), given, mu=0.0, L=0.0)
        self.problem = Problem(f, self._map(), np.concatenate([costs, zeros]).astype(problem.dtype), box)

    def _map(self) -> Operator:
        """The rows v ↦ (Aᵀv, −v of the inequalities)."""
        count, matrix = len(self.slack), self.A.sparse()
        own = sp.csr_array((-np.ones(count), self.slack, np.arange(count + 1)), shape=(count, len(self.rows)))
        if matrix is not None:
            return Sparse(sp.csr_array(sp.vstack([matrix.T, own.astype(matrix.dtype)], format="csr")))
        pull = Dense(self.A.dense().T)
        return RowBlocks([pull, own]) if count else pull

    @classmethod
    def apply(cls, problem: Problem) -> Self | None:
        """Exchange them; None if f is not linear, a row is no interval, or there are fewer bounds than inequalities."""
        table, parts = table_of(problem), parts_of(problem)
        if table is None or parts is None or len(parts) > 1 or not table.interval.all():
            return None
        terms, places = parts[0].terms, identity_columns(problem.M)
        if (
            terms.loss is not None
            or terms.has_products_only
            or terms.ridge
            or (terms.H is not None and abs(terms.H).max() > 0)
        ):
            return None
        own = places[places >= 0]
        general = places < 0
        inequalities = int(np.sum(general & (table.lower != table.upper)))
        if not problem.M.divisible or not general.any() or len(own) <= inequalities or len(np.unique(own)) < len(own):
            return None
        A = restricted(problem.M, general, np.ones(problem.columns, bool))
        if A.stored_matrix is None:
            return None
        costs = np.zeros(problem.columns) if terms.c is None else -terms.c.astype(np.float64)
        return cls(problem, costs, table, places, A)

    def start(self, x: Array, y: Array) -> tuple[Array, Array]:
        """(−y, (x, s)) with x and s moved to their bounds."""
        rest = (self.A.forward(x) - self.original.b[self.rows])[self.slack]
        x, s = np.clip(x, self.lower, self.upper), np.clip(rest, self.low, self.high)
        dtype = self.problem.dtype
        return -y[self.rows].astype(dtype), np.concatenate([x, s]).astype(dtype)

    def back(self, x: Array, y: Array) -> tuple[Array, Array]:
        """(x, y), with y where φ is finite, and for bounds the multipliers that stationarity asks for."""
        found = np.zeros(self.original.rows, x.dtype)
        found[self.rows] = -x
        found = self.original.phi.project(found)
        w = y[: self.original.columns]
        found[self.bounds] = -(self.costs + self.A.adjoint(found[self.rows]))[self.columns]
        return w, self.original.phi.project(found).astype(x.dtype)
