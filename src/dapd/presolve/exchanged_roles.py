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
from dapd.presolve.terms import parts_of
from dapd.presolve.transform import Transform
from dapd.problem.problem import Problem


class ExchangedRoles(Transform):
    """The exchange; its x are the multipliers of the rows, with the other sign."""

    name = "exchanged roles"
    why = "x and y exchanged roles, so bounds are a projection."

    def __init__(self, problem: Problem, costs: Array, table: Table) -> None:
        self.original, self.costs = problem, costs
        self.lower, self.upper = problem.bounds
        b, low, high = (v.astype(np.float64) for v in (problem.b, table.lower, table.upper))
        self.slack = np.flatnonzero(low != high)  # inequalities
        self.low, self.high = low[self.slack], high[self.slack]
        box = Box.between(np.append(self.lower, self.low), np.append(self.upper, self.high))
        f = Quadratic(np.zeros(problem.rows), b + np.where(low == high, low, 0.0), mu=0.0, L=0.0)
        self.problem = Problem(f, self._map(), np.append(costs, np.zeros(len(self.slack))).astype(problem.dtype), box)

    def _map(self) -> Operator:
        """The rows v ↦ (Aᵀv, −v of the inequalities)."""
        A, count = self.original.M, len(self.slack)
        matrix = A.sparse()
        own = sp.csr_array((-np.ones(count), self.slack, np.arange(count + 1)), shape=(count, A.shape[0]))
        if matrix is not None:
            return Sparse(sp.csr_array(sp.vstack([matrix.T, own.astype(matrix.dtype)], format="csr")))
        pull = Dense(A.dense().T)
        return RowBlocks([pull, own]) if count else pull

    @classmethod
    def apply(cls, problem: Problem) -> Self | None:
        """Exchange them; None if f is not linear, a row is no interval, or there are fewer bounds than inequalities."""
        table, parts = problem.phi_table, parts_of(problem)
        if table is None or parts is None or len(parts) > 1 or problem.f.L != 0 or not table.interval.all():
            return None
        c, bounded = parts[0].terms.c, np.isfinite(problem.bounds).any(axis=0)
        inequalities = np.count_nonzero(table.lower != table.upper)
        if problem.rows == 0 or problem.M.stored_matrix is None or np.count_nonzero(bounded) <= inequalities:
            return None
        return cls(problem, np.zeros(problem.columns) if c is None else -c.astype(np.float64), table)

    def start(self, x: Array, y: Array) -> tuple[Array, Array]:
        """(−y, (x, s)) with x and s moved to their bounds."""
        problem, dtype = self.original, self.problem.dtype
        rest = (problem.M.forward(x) - problem.b)[self.slack]
        x, s = np.clip(x, self.lower, self.upper), np.clip(rest, self.low, self.high)
        return -y[: problem.rows].astype(dtype), np.append(x, s).astype(dtype)

    def back(self, x: Array, y: Array) -> tuple[Array, Array]:
        """(x, y), with y where φ is finite, and for bounds the multipliers that stationarity asks for."""
        problem = self.original
        dual = problem.phi.project(-x)
        z = -(self.costs + problem.M.adjoint(dual))
        z = np.clip(z, np.where(self.lower == -np.inf, 0.0, -np.inf), np.where(self.upper == np.inf, 0.0, np.inf))
        return y[: problem.columns], np.append(dual, z).astype(x.dtype)
