"""The least eigenvalue of a symmetric matrix, dense or banded after its rows are reordered, from its Cholesky factor.

A Lanczos process on the inverse of A + δI finds it in a few solves. δ is just above rounding, so A may be singular.
A second factorisation proves it: if A − σI has a Cholesky factor, then no eigenvalue is below σ, up to rounding. The
cost of a banded factor is known in advance.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.csgraph import reverse_cuthill_mckee

from dapd.arrays import EPSILON, Array
from dapd.machine.rates import FACTORISATION
from dapd.spectrum.deadline import check_deadline
from dapd.spectrum.lanczos import MARGIN, random_start

INVERSE_STEPS = 40  # most steps of the inverse process
STEPS_POSITIVE = 100  # most steps if it skips eigenvalues that count as zero, which rounding has separated
CONVERGED = 1e-3  # relative error of an inverse eigenvalue at which the process ends
FOLD = 4  # an eigenvalue below this multiple of the rounding error counts as zero

Inverse = Callable[[Array], Array]

ALPHA = 1e-10  # diagonal of the augmented matrix, relative to s_max; singular values σ below it appear as σ²/α
NONZERO = 1e-12  # smallest singular value, relative to s_max, that the augmented matrix separates from zero


class Full:
    """A dense symmetric matrix with eigenvalues up to `norm`, which can be factorised with any shift."""

    def __init__(self, matrix: Array, norm: float) -> None:
        self.matrix = matrix
        self.size = len(matrix)
        self.noise = 4 * self.size * EPSILON * norm  # a bound on the rounding error of forming and factorising it
        self.cost = self.size**3 / FACTORISATION.dense  # seconds of a factorisation, roughly

    def factor(self, shift: float) -> Inverse | None:
        """Return v ↦ (A + shift·I)⁻¹v; None if that matrix is not positive definite."""
        shifted = self.matrix.copy()
        shifted.flat[:: self.size + 1] += shift
        try:
            factor = scipy.linalg.cho_factor(shifted, lower=True, overwrite_a=True, check_finite=False)
        except np.linalg.LinAlgError:
            return None
        return lambda v: scipy.linalg.cho_solve(factor, v, check_finite=False)


class Least(NamedTuple):
    """The least eigenvalue, or with `positive` the least that does not count as zero."""

    lower: float  # at most the eigenvalue; 0 if that counts as zero
    error: float  # relative, before the value was moved to the safe side
    singular: bool = False  # some eigenvalue counts as zero
    resolved: bool = True  # False: `lower` is a guess, a quarter of the smallest value seen


def least_eigenvalue(A: Full | Band, *, positive: bool, deadline: float) -> Least | None:
    """The least eigenvalue of A; None if A has an eigenvalue below zero."""
    zero = FOLD * A.noise
    delta = zero / 2
    check_deadline(deadline, 2 * A.cost)
    solve = A.factor(delta)
    if solve is None:
        return None
    found = inverse_process(solve, A.size, delta=delta, zero=zero, positive=positive, deadline=deadline)
    if found.singular:
        return unproven(found)
    sigma = (1 - CONVERGED) * found.lower
    while sigma > zero:
        if A.factor(-sigma) is not None:
            return found._replace(lower=sigma - A.noise, resolved=True)
        sigma /= 2
    return found._replace(resolved=False)


def unproven(found: Least) -> Least:
    """Subtract a margin from the value, in case of an undiscovered eigenvalue just below."""
    return found._replace(lower=(1 - MARGIN) ** 2 * found.lower) if found.resolved else found


def inverse_process(solve: Inverse, size: int, *, delta: float, zero: float, positive: bool, deadline: float) -> Least:
    """The least eigenvalue of A by Lanczos, with full reorthogonalisation, on solve = (A + delta·I)⁻¹."""
    limit = min(STEPS_POSITIVE if positive else INVERSE_STEPS, size)
    basis = np.empty((limit, size))
    diagonal: list[float] = []
    off_diagonal: list[float] = []
    v = random_start(size, 0)
    since = limit
    while True:
        check_deadline(deadline)
        steps = len(diagonal) + 1
        basis[steps - 1] = v
        w = solve(v)
        diagonal.append(float(v @ w))
        for _ in range(2):  # twice, since cancellation leaves errors after the first
            w -= (basis[:steps] @ w) @ basis[:steps]
        off_diagonal.append(float(np.linalg.norm(w)))
        theta, vectors = scipy.linalg.eigh_tridiagonal(diagonal, off_diagonal[:-1])
        order = np.argsort(-np.abs(theta))  # because of rounding, the inverse of a zero may have either sign
        theta, residuals = np.abs(theta[order]), np.abs(off_diagonal[-1] * vectors[-1, order])
        above = np.flatnonzero(1.0 / theta - delta > zero)  # the ones that do not count as zero
        singular = len(above) == 0 or above[0] > 0
        if singular and not positive:
            return Least(0.0, 0.0, singular=True)  # a Ritz value is never below the least eigenvalue
        aim = above[0] if positive and len(above) else 0
        settled = residuals[aim] <= CONVERGED * theta[aim] and not (positive and len(above) == 0)
        # a value may stagnate near an eigenvalue before it finds the extreme one: continue half as long again
        since = min(since, steps) if settled else limit
        over = steps >= min(limit, 1.5 * since + 2) or off_diagonal[-1] <= EPSILON * theta[-1]
        if over:
            value = 1.0 / (theta[aim] + residuals[aim]) if settled else 0.25 / theta[aim]
            lower = max(float(value) - delta, 0.25 * zero)
            return Least(lower, float(residuals[aim] / theta[aim]), bool(singular), bool(settled))
        v = w / off_diagonal[-1]


class Ordering(NamedTuple):
    """An order of the rows and columns of a symmetric matrix, and its bandwidth in that order."""

    position: Array  # of each row
    width: int  # the largest distance of an entry from the diagonal


def banded(matrix: Any) -> Ordering:
    """The given order or that of Cuthill and McKee, whichever has the smaller bandwidth."""
    size = matrix.shape[0]
    given = np.arange(size)
    reordered = np.empty(size, dtype=np.intp)
    reordered[reverse_cuthill_mckee(matrix, symmetric_mode=True)] = given
    rows, columns = matrix.nonzero()
    orders = (Ordering(place, int(np.abs(place[rows] - place[columns]).max())) for place in (given, reordered))
    return min(orders, key=lambda order: order.width)


class Band:
    """A sparse symmetric matrix with eigenvalues up to `norm`, whose entries are sums of `terms` products."""

    def __init__(self, matrix: Any, ordering: Ordering, *, norm: float, terms: int) -> None:
        self.size, self.width, self.position = matrix.shape[0], ordering.width, ordering.position
        entries = matrix.tocoo()
        rows, columns = self.position[entries.row], self.position[entries.col]
        below = rows >= columns
        self.lower = np.zeros((self.width + 1, self.size))
        self.lower[(rows - columns)[below], columns[below]] = entries.data[below]
        # a bound on the number of terms in each sum, when the matrix is formed and factorised
        self.noise = 4 * (self.width + terms + 3) * EPSILON * norm
        self.cost = band_cost(self.size, self.width)

    def factor(self, shift: float) -> Inverse | None:
        """The same as for `Full`, by a banded factor."""
        shifted = self.lower.copy()
        shifted[0] += shift
        try:
            factor = scipy.linalg.cholesky_banded(shifted, overwrite_ab=True, lower=True, check_finite=False)
        except np.linalg.LinAlgError:
            return None

        def solve(v: Array) -> Array:
            ordered = np.empty_like(v)
            ordered[self.position] = v
            x = scipy.linalg.cho_solve_banded((factor, True), ordered, overwrite_b=True, check_finite=False)
            return np.asarray(x[self.position])

        return solve


def band_cost(size: int, width: int) -> float:
    """Roughly how many seconds it takes to factorise a banded matrix."""
    return size * (width + 10) ** 2 / FACTORISATION.dense


def least_square_unsquared(wide: Any, s_max: float, deadline: float) -> Least | None:
    """The least eigenvalue of MMᵀ, M sparse with no more rows than columns, without squaring M.

    The augmented matrix [αI, Mᵀ; M, 0] gives (MMᵀ)⁻¹f as −y/α from its solution (x, y) for the right side (0, f), and
    rounding changes M by ε‖M‖ instead of MMᵀ by ε‖M‖². None if its band is too wide.
    """
    rows, columns = wide.shape
    alpha = ALPHA * s_max
    augmented = sp.block_array([[alpha * sp.eye_array(columns), wide.T], [wide, None]], format="csr")
    position, width = banded(augmented)
    size = rows + columns
    if 3 * size * width > 40 * wide.nnz + 1_000_000:
        return None
    check_deadline(deadline, 4 * band_cost(size, width))
    entries = augmented.tocoo()
    i, j = position[entries.row], position[entries.col]
    band = np.zeros((3 * width + 1, size))
    band[2 * width + i - j, j] = entries.data
    factorise, substitute = scipy.linalg.get_lapack_funcs(("gbtrf", "gbtrs"), (band,))
    factor, pivots, info = factorise(band, width, width, overwrite_ab=True)
    if info > 0:
        return Least(0.0, 0.0, singular=True)
    ordered = position[columns:]  # of the rows of M

    def solve(f: Array) -> Array:
        right = np.zeros(size)
        right[ordered] = f
        solution, _ = substitute(factor, width, width, right, pivots, overwrite_b=True)
        return np.asarray(solution[ordered] / -alpha)

    zero = (NONZERO * s_max) ** 2
    return unproven(inverse_process(solve, rows, delta=0.0, zero=zero, positive=False, deadline=deadline))
