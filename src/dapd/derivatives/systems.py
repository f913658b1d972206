"""The linear system behind a derivative: factorised, or solved by its products if it is too large for that."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import qdldl
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, lsmr, minres

from dapd.arrays import Array
from dapd.derivatives.front import NotSolved
from dapd.machine.rates import FACTORISATION
from dapd.newton.costs import MEMORY, cost
from dapd.newton.matrices import Matrix

SHIFT = 1e-9  # shift of the eigenvalues of the scaled system, which may be singular
REFINEMENTS = 20
ACCURATE, INCONSISTENT = 1e-15, 1e-7  # relative residuals at which refinement ends, and from which there is no solution
DENSE_SIZE = 100  # systems up to this size are factorised as dense ones
# of MINRES and LSMR
INNER = 1e-10  # tolerance of each run of a solver
RUNS = 8  # most runs, of which each but the first corrects the solution by what is left of the right-hand side
RESIDUAL = 1e-10  # greatest residual, relative to the right-hand side
CHANGE = 1e-8  # greatest last correction, relative to the solution
LIMIT = 20_000  # most products of each run
SINGULAR = 1e12  # condition number at which LSMR stops


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


class Iterated:
    """A symmetric matrix K, possibly singular, by its products; `sizes` are those of its rows and columns.

    MINRES takes the fewest products, but goes astray if K is singular and the right-hand side is not in its range.
    LSMR then finds the solution of the least-squares problem.
    """

    def __init__(self, times: Callable[[Array], Array], sizes: Array) -> None:
        self.scale = 1 / np.sqrt(np.where(sizes > 0, sizes, 1.0))
        self._times = times
        self.K = LinearOperator(sizes.shape * 2, matvec=self._product, rmatvec=self._product, dtype=np.float64)
        self.products = 0

    def solve(self, rhs: Array) -> Array:
        """The solution of least norm, of the least-squares problem if there is none (in scaled variables).

        Raises
        ------
        NotSolved
            If neither solver converges within the limit.
        """
        self.products = 0
        found = self._refined(self.scale * rhs, self._by_minres, np.asarray)
        if found is None:
            found = self._refined(self.scale * rhs, self._by_lsmr, self._product)
        if found is None:
            raise NotSolved(
                f"the linear system of the derivative, of size {rhs.size:,}, is too large to factorise, and neither "
                f"MINRES nor LSMR solved it to a relative residual of {RESIDUAL:g} in {self.products:,} products"
            )
        return self.scale * found

    def _refined(self, rhs: Array, once: Callable[[Array, int], Array], judged: Callable[..., Array]) -> Array | None:
        """The solution, corrected until that changes nothing; None if it does not get there."""
        found, left, last = np.zeros(rhs.size), rhs, np.inf
        size, limit = float(np.linalg.norm(rhs)), self.products + LIMIT
        for _ in range(RUNS):
            more = once(left, max(limit - self.products, 1))
            found = found + more
            left = rhs - self._product(found)
            wrong, change = float(np.linalg.norm(judged(left))), float(np.linalg.norm(more))
            if wrong <= RESIDUAL * size and change <= CHANGE * float(np.linalg.norm(found)):
                return found
            if self.products >= limit or not (change < 0.5 * last or wrong <= RESIDUAL * size):
                return None
            last = change
        return None

    def _by_minres(self, rhs: Array, most: int) -> Array:
        return np.asarray(minres(self.K, rhs, rtol=INNER, maxiter=most)[0])

    def _by_lsmr(self, rhs: Array, most: int) -> Array:
        return np.asarray(lsmr(self.K, rhs, atol=INNER, btol=INNER, conlim=SINGULAR, maxiter=most // 2)[0])

    def _product(self, v: Array) -> Array:
        self.products += 1
        return self.scale * self._times(self.scale * v)
