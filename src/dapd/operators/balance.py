"""Factors that make the rows and columns of a map alike."""

from __future__ import annotations

import numpy as np

from dapd.arrays import Array
from dapd.operators.base import Operator

SWEEPS = 10  # most sweeps, of which each leaves the root of how uneven rows and columns are
EVEN = 2.0  # ratio of the sums of rows, and of columns, up to which they count as alike


def balancing(M: Operator) -> tuple[Array, Array]:
    """Factors r and c such that the rows and columns of r_i|M_ij|c_j are alike; 0 for rows and columns of zeros.

    If M only has products, c_j = 1.
    """
    r, c = np.ones(M.shape[0]), np.ones(M.shape[1])
    if not M.shape[0]:
        return r, np.zeros(M.shape[1])
    heights, widths = M.row_sizes(c), M.column_sizes(r)
    if heights is None or widths is None:
        return _inverse(M.row_norms), c
    for _ in range(SWEEPS):
        even = _ratio(r * heights) <= EVEN and _ratio(c * widths) <= EVEN
        r, c = r * _inverse(np.sqrt(r * heights)), c * _inverse(np.sqrt(c * widths))
        if even:
            break
        heights, widths = (np.asarray(some, np.float64) for some in (M.row_sizes(c), M.column_sizes(r)))
    return r, c


def _inverse(sizes: Array) -> Array:
    return np.where(sizes > 0, 1 / np.where(sizes > 0, sizes, 1.0), 0.0)


def _ratio(sizes: Array) -> float:
    """The greatest over the least that is not zero."""
    some = sizes[sizes > 0]
    return float(some.max() / some.min()) if some.size else 1.0
