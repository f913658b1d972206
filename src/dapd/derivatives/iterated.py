"""The linear system behind a derivative by products only, if it is too large to factorise."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.sparse.linalg import LinearOperator, lsmr, minres

from dapd.arrays import Array
from dapd.derivatives.options import NotSolved

INNER = 1e-10  # tolerance of each run of a solver
RUNS = 8  # most runs, of which each but the first corrects the solution by what is left of the right-hand side
RESIDUAL = 1e-10  # greatest residual, relative to the right-hand side
CHANGE = 1e-8  # greatest last correction, relative to the solution
LIMIT = 20_000  # most products of each run
SINGULAR = 1e12  # condition number at which LSMR stops


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
