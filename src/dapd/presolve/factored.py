"""A Hessian H = FᵀF as new variables u = Fx with the curvature ½‖u‖², whose prox is known."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from dapd.arrays import Array
from dapd.functions import Composite
from dapd.functions.terms import Terms
from dapd.kinds.by_rows import Zero
from dapd.kinds.composed import Stack
from dapd.machine.blas import MANY, single_blas
from dapd.presolve.terms import parts_of
from dapd.presolve.transform import Transform
from dapd.problem.problem import Problem

MOST_FLOPS = 5e8  # of a factorisation, about a tenth of a second
ROUND = 0.03  # least entry of the diagonal of the factor of an H, scaled to a unit diagonal, that is well conditioned
FILLED = 4  # greatest ratio of the entries of F and those of M and H
FEW = 20_000  # entries of F that are not too many for any M and H
DROPPED = 1e-15  # entries of F relative to the greatest of their column that are dropped


class FactoredCurvature(Transform):
    """min ½‖u‖² + ½xᵀDx − cᵀx + φ*(Mx − b) subject to Fx = u, with H = FᵀF + D and a diagonal D."""

    name = "factored curvature"
    why = "The Hessian was factored, so no part of f is linearised."

    def __init__(self, problem: Problem, F: Any, diagonal: Array, c: Array) -> None:
        self.original, self.F = problem, F
        rank, n = F.shape
        one = sp.eye_array(rank, format="csr")
        rows = [sp.hstack([F, -one])]
        if problem.rows:
            rows.insert(0, sp.hstack([_entries(problem), sp.csr_array((problem.rows, rank))]))
        h = np.concatenate([diagonal, np.ones(rank)])
        terms = Terms(H=h, c=np.append(c, np.zeros(rank)))
        phi = Stack([problem.phi, Zero()], sizes=[problem.rows, rank]) if problem.rows else Zero()
        f = Composite(terms, n + rank, float(h.min()), float(h.max()))
        self.problem = Problem(f, sp.csr_array(sp.vstack(rows)), np.append(problem.b, np.zeros(rank)), phi)
        if problem.lower is not None:
            free = np.full(rank, np.inf)
            self.problem.lower, self.problem.upper = (
                np.append(side, end) for side, end in zip(problem.bounds, (-free, free), strict=True)
            )

    @classmethod
    def apply(cls, problem: Problem) -> Self | None:
        """Factor H; None if there is nothing to factor, or a factor has too many entries."""
        parts = parts_of(problem)
        if parts is None or len(parts) > 1 or problem.dtype != np.float64 or _entries(problem) is None:
            return None
        terms = parts[0].terms
        if terms.loss is not None or terms.H is None or terms.has_products_only or terms.H.ndim == 1:
            return None
        H = sp.csr_array(terms.H)
        found = factor(H, problem.M.work)
        if found is None:
            return None
        F, diagonal = found
        linear = np.zeros(problem.columns) if terms.c is None else terms.c
        return cls(problem, F, diagonal + terms.ridge, linear)

    def new_b(self, b: Array) -> Array:
        """Zeros below b."""
        return np.append(b, np.zeros(self.F.shape[0])).astype(b.dtype)

    def start(self, x: Array, y: Array) -> tuple[Array, Array]:
        """((x, Fx), (y, Fx)), and no multipliers of bounds on u."""
        rows, u = self.original.rows, self.F @ x
        free = np.zeros(len(u) if self.original.lower is not None else 0)
        return np.concatenate([x, u]), np.concatenate([y[:rows], u, y[rows:], free])

    def back(self, x: Array, y: Array) -> tuple[Array, Array]:
        """X and y without what belongs to u."""
        n, rows, rank = self.original.columns, self.original.rows, self.F.shape[0]
        return x[:n], np.concatenate([y[:rows], y[rows + rank :][: self.original.multipliers - rows]])


def _entries(problem: Problem) -> Any:
    """M as a sparse matrix; None if its entries are not known, or a dense one would be large."""
    sparse, stored = problem.M.sparse(), problem.M.stored_matrix
    if sparse is not None or stored is None:
        return sparse
    return sp.csr_array(stored) if problem.M.work <= FEW else None


def factor(H: Any, work: float) -> tuple[Any, Array] | None:
    """F and D with H = FᵀF + diag(D), where F has no entries in columns that H does not couple.

    None if F is large, or if H is well conditioned but for its units.
    """
    counts = np.diff(H.indptr) - (H.diagonal() != 0)
    coupled = np.flatnonzero(counts)
    if not coupled.size or coupled.size**3 / 3 > MOST_FLOPS:
        return None
    inner = H[coupled][:, coupled].toarray()
    sizes = np.sqrt(inner.diagonal())
    if not sizes.all():  # then rounding has made H indefinite
        return None
    with single_blas(float(coupled.size) ** 3, MANY):
        R, order, rank, _ = scipy.linalg.lapack.dpstrf(inner / sizes[:, None] / sizes)
    upper = np.triu(R)[:rank]
    if rank == H.shape[0] and abs(upper.diagonal()).min() >= ROUND:
        return None  # steps that linearise f, or accelerated ones, are as fast
    upper[abs(upper) <= DROPPED * abs(upper).max(axis=0)] = 0.0
    placed = np.zeros_like(upper)
    placed[:, order - 1] = upper
    F = sp.csr_array(placed * sizes)
    if F.nnz > max(FEW, FILLED * (work + H.nnz)):
        return None
    columns = sp.csr_array((F.data, coupled[F.indices], F.indptr), shape=(rank, H.shape[0]))
    return columns, np.where(counts > 0, 0.0, H.diagonal())
