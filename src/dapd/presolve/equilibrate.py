"""Factors that bring the norms of the rows of M near one.

All factors are powers of two, so no digit of the data changes and a scaling is undone without rounding.
"""

from __future__ import annotations

import numpy as np

from dapd.arrays import Array
from dapd.operators.base import Operator
from dapd.operators.stacked import Identity
from dapd.operators.structured import Kronecker
from dapd.presolve.maps import bands
from dapd.presolve.rows import PhiTable

LARGEST = 2.0**60  # factor that is not exceeded


def identity_columns(M: Operator) -> Array:
    """The column of each row that belongs to an identity; −1 for other rows."""
    found = np.full(M.shape[0], -1)
    for part, at in bands(M):
        if isinstance(part, Identity):
            found[at] = np.arange(part.start, part.start + part.shape[0])
    return found


def norm_factors(M: Operator, rows: PhiTable) -> Array:
    """Factors that bring the norms of the rows near one, one for all rows of a ball; all are one if they are alike."""
    norms = np.empty(M.shape[0])
    for part, at in bands(M):
        norms[at] = _norms(part)
    norms = rows.pooled(norms)
    factors = 1 / powers_of_two(norms)
    known = factors[norms > 0]
    return np.ones(M.shape[0]) if known.size == 0 or np.ptp(known) == 0 else factors


def _norms(part: Operator) -> Array:
    if isinstance(part, Kronecker):  # the product of rounded factors, so the structure stays
        norms = [powers_of_two(factor.row_norms) for factor in part.factors()]
        return np.kron(norms[0], norms[1] if len(norms) == 2 else np.ones(part.shape[0] // len(norms[0])))
    return part.row_norms


def powers_of_two(values: Array) -> Array:
    """The nearest powers of two, within limits; one for zero."""
    return np.clip(2.0 ** np.round(np.log2(np.where(values > 0, values, 1.0))), 1 / LARGEST, LARGEST)
