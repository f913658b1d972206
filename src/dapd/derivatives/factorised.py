"""The linear system behind a derivative, factorised."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import qdldl
import scipy.linalg
import scipy.sparse as sp

from dapd.arrays import Array
from dapd.machine.rates import FACTORISATION
from dapd.newton.costs import MEMORY
from dapd.newton.matrices import Matrix
from dapd.newton.symbolic import cost

SHIFT = 1e-9  # shift of the eigenvalues of the scaled system, which may be singular
REFINEMENTS = 20
ACCURATE, INCONSISTENT = 1e-15, 1e-7  # relative residuals at which refinement ends, and from which there is no solution
DENSE_SIZE = 100  # systems up to this size are factorised as dense ones


def seconds_of(H: Matrix, B: Matrix, C: Matrix, most: float) -> float:
    """The forecast for a factorisation; infinite if it is more than `most`, or takes too much memory."""
    size = H.shape[0] + B.shape[0]
    dense = 2 / 3 * float(size) ** 3 / FACTORISATION.dense if size**2 <= MEMORY else np.inf
    if (
        not _all_sparse(H, B, C) or dense * FACTORISATION.dense <= most * FACTORISATION.sparse
    ):  # no need to look at the pattern
        return dense if dense <= most else np.inf
    K = sp.block_array([[H, B.T], [B, -C]], format="csc")
    found = cost(K, most * FACTORISATION.sparse, fill_limit=min(MEMORY, most / FACTORISATION.entry))
    seconds = found.flops / FACTORISATION.sparse + found.fill * FACTORISATION.entry
    return seconds if found.complete and seconds <= most else np.inf


def _all_sparse(*matrices: Matrix) -> bool:
    return all(map(sp.issparse, matrices))


class Factorised:
    """[H Bᵀ; B −C] with positive semidefinite H and C, possibly singular.

    The factorised matrix is that with H + δI and C + δI, which is quasidefinite. Refinement makes up for δ. The null
    space of the matrix is a product of one in x and one in u, so refinement from zero gives the solution of least norm.
    """

    def __init__(self, H: Matrix, B: Matrix, C: Matrix) -> None:
        columns, size = H.shape[0], H.shape[0] + B.shape[0]
        sparse = _all_sparse(H, B, C) and size > DENSE_SIZE
        if sparse:
            K = sp.block_array([[H, B.T], [B, -C]], format="csc")
            greatest = abs(K).max(axis=0).toarray().ravel()
        else:
            H, B, C = (part.toarray() if sp.issparse(part) else part for part in (H, B, C))
            K = np.block([[H, B.T], [B, -C]])
            greatest = abs(K).max(axis=0, initial=0.0)
        self.scale = 1 / np.sqrt(np.where(greatest > 0, greatest, 1.0))
        self.signs = np.concatenate([np.ones(columns), -np.ones(size - columns)])
        if sparse:
            around = sp.diags_array(self.scale)
            self.K = sp.csc_array(around @ K @ around)
            self._solve: Callable[[Array], Array] = qdldl.Solver(
                sp.csc_matrix(self.K + SHIFT * sp.diags_array(self.signs))
            ).solve
        else:
            self.K = self.scale[:, None] * K * self.scale
            factors = scipy.linalg.lu_factor(self.K + SHIFT * np.diag(self.signs), check_finite=False)
            self._solve = lambda r: scipy.linalg.lu_solve(factors, r, check_finite=False)

    def solve(self, rhs: Array) -> Array:
        """The solution of least norm, of the least-squares problem if there is none (in scaled variables)."""
        rhs = self.scale * rhs
        found, left = self._refined(rhs)
        if left > INCONSISTENT * np.linalg.norm(rhs):
            for _ in range(3):  # again, for what rounding leaves
                rhs = rhs - self._null_part(rhs)
            found, _ = self._refined(rhs)
        return self.scale * found

    def _null_part(self, rhs: Array) -> Array:
        """The part in the null space, on which the factorised matrix is ±δ; elsewhere each pass divides by λ/δ."""
        for _ in range(4):
            rhs = SHIFT * self.signs * self._solve(rhs)
        return rhs

    def _refined(self, rhs: Array) -> tuple[Array, float]:
        """The solution from zero on, and the norm of what is left of the right-hand side."""
        found, left = np.zeros(rhs.size), rhs
        norm = size = float(np.linalg.norm(rhs))
        for _ in range(REFINEMENTS):
            if norm <= ACCURATE * size:
                break
            more = found + self._solve(left)
            left = rhs - self.K @ more
            last, norm = norm, float(np.linalg.norm(left))
            if not norm < last:
                return found, last
            found = more
            if norm > 0.5 * last:
                break
        return found, norm
