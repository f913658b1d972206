"""Factors that bring the norms of the rows of M near one, and those of columns that differ much near each other.

All factors are powers of two, so no digit of the data changes and a scaling is undone without rounding.
"""

from __future__ import annotations

import math
from functools import singledispatch

import numpy as np

from dapd.arrays import Array
from dapd.kinds.table import Table
from dapd.operators.base import Operator
from dapd.operators.factors import Entries, damped
from dapd.operators.structured import Kronecker

LARGEST = 2.0**60  # greatest factor
UNEVEN = 8.0  # ratio of column factors from which columns are scaled
ROUNDS = 10  # rounds of Ruiz scaling


def identity_columns(M: Operator) -> Array:
    """The column of each row that belongs to an identity; −1 for other rows."""
    found = np.full(M.shape[0], -1)
    for part, at in M.bands():
        if part.identity_start is not None:
            found[at] = part.identity_start + np.arange(part.shape[0])
    return found


def norm_factors(M: Operator, rows: Table) -> Array:
    """Factors that bring the norms of the rows near one, one for all rows of a ball; all are one if they are alike."""
    norms = np.empty(M.shape[0])
    for part, at in M.bands():
        norms[at] = _norms(part)
    norms = rows.pooled(norms)
    factors = 1 / powers_of_two(norms)
    known = factors[norms > 0]
    return np.ones(M.shape[0]) if known.size == 0 or np.ptp(known) == 0 else factors


@singledispatch
def _norms(part: Operator) -> Array:
    return part.row_norms


@_norms.register
def _(part: Kronecker) -> Array:
    norms = [powers_of_two(factor.row_norms) for factor in part.factors()]  # so the structure stays
    return np.kron(norms[0], norms[1] if len(norms) == 2 else np.ones(part.shape[0] // len(norms[0])))


def powers_of_two(values: Array) -> Array:
    """The nearest powers of two, within limits; one for zero."""
    return np.clip(2.0 ** np.round(np.log2(np.where(values > 0, values, 1.0))), 1 / LARGEST, LARGEST)


def column_factors(M: Operator, rows: Table, curvature: Array) -> Array | None:
    """Factors for the columns of M and a Hessian with this diagonal; None if they are alike, or M is not explicit.

    Ruiz's rounds bring the greatest entry of each row and column near one, and one step of Pock and Chambolle their
    sums. Bounds on x take no part, and a factor of f makes no difference: its unit is such that f and M ask for the
    same factors on average.
    """
    parts = _entries_of(M)
    if parts is None:
        return None
    curved, bent = curvature > 0, math.sqrt(_ratio(curvature))
    if max([bent, *(entries.spread for entries, _, _ in parts)]) < UNEVEN:
        return None  # whatever the rows are divided by
    d, e = np.ones(M.shape[1]), np.where(identity_columns(M) < 0, 1.0, 0.0)
    heights = rows.pooled(_peaks(parts, e, d)[0])
    widths = _peaks(parts, e / np.where(heights > 0, heights, 1.0), d)[1]
    if max(_ratio(widths), bent) < UNEVEN:
        return None
    known = curved | (widths > 0)
    for diagonal in (np.zeros_like(curvature), curvature) if curved.any() else (curvature,):
        unit = math.exp(-np.mean(np.log((diagonal * d * d)[curved]))) if diagonal.any() else 1.0
        for _ in range(ROUNDS):
            heights, widths = _peaks(parts, e, d)
            d, e = d * damped(np.maximum(widths, unit * diagonal * d * d)), e * damped(rows.pooled(heights))
    if _ratio(d[known]) < UNEVEN:
        return None
    sums = M.column_sizes(e)
    assert sums is not None  # M is explicit
    return powers_of_two(d * damped(d * sums + unit * curvature * d * d))


def _entries_of(M: Operator) -> list[tuple[Entries, slice, slice]] | None:
    """The matrices that M consists of, and where they lie; None if some entries are not stored."""
    found = []
    for part, rows, columns in M.leaves():
        if part.stored_matrix is not None:
            found.append((Entries(part.stored_matrix), rows, columns))
        elif part.identity_start is None:
            return None
    return found


def _peaks(parts: list[tuple[Entries, slice, slice]], rows: Array, columns: Array) -> tuple[Array, Array]:
    """The greatest entries of the rows and of the columns, multiplied with these factors."""
    heights, widths = np.zeros(rows.size), np.zeros(columns.size)
    for entries, i, j in parts:
        high, wide = entries.peaks(rows[i], columns[j])
        heights[i], widths[j] = np.maximum(heights[i], high), np.maximum(widths[j], wide)
    return heights, widths


def _ratio(sizes: Array) -> float:
    """The greatest over the least that is not zero."""
    some = sizes[sizes > 0]
    return float(some.max() / some.min()) if some.size else 1.0
