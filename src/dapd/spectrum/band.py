"""Sparse matrices that are banded after their rows are reordered: the cost of a factor is known in advance."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.csgraph import reverse_cuthill_mckee

from dapd.arrays import EPSILON, Array
from dapd.machine.rates import FACTORISATION
from dapd.spectrum.deadline import check_deadline
from dapd.spectrum.factored import Inverse, Least, inverse_process, unproven

ALPHA = 1e-10  # diagonal of the augmented matrix, relative to s_max; singular values σ below it appear as σ²/α
NONZERO = 1e-12  # smallest singular value, relative to s_max, that the augmented matrix separates from zero


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
        """Return v ↦ (A + shift·I)⁻¹v by banded Cholesky; None if that matrix is not positive definite."""
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
