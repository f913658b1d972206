"""Factors that bring the curvature of f and the norms of the rows of M near one.

All factors are powers of two, so no digit of the data changes and a scaling is undone without rounding.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dapd.arrays import Array
from dapd.operators.base import Dense, Operator, Sparse
from dapd.operators.sizes import SHEET
from dapd.operators.stacked import Identity
from dapd.operators.structured import Kronecker
from dapd.presolve.maps import Leaf, bands, leaves
from dapd.presolve.rows import Rows

ROUNDS = 10
NEAR = 2.0  # factor within which the greatest entries of all rows and columns count as equal
SPREAD = 1e12  # ratio of curvatures up to which none of them counts as zero
LARGEST = 2.0**60  # factor that is not exceeded


class Magnitudes(NamedTuple):
    """|M_ij| of a part that is stored."""

    at: Leaf

    def row_peaks(self, columns: Array) -> Array:
        """max_j |M_ij|·columns_j."""
        part, own = self.at.part, columns[self.at.columns]
        if isinstance(part, Sparse):
            return _segment_peaks(abs(part.matrix.data) * own[part.matrix.indices], part.matrix.indptr)
        matrix: Array = part.dense()
        height = max(1, SHEET // max(1, matrix.shape[1]))
        starts = range(0, len(matrix), height)
        return np.concatenate([np.max(abs(matrix[k : k + height]) * own, axis=1) for k in starts])

    def column_peaks(self, rows: Array) -> Array:
        """max_i |M_ij|·rows_i."""
        part, own = self.at.part, rows[self.at.rows]
        if isinstance(part, Sparse):
            total = np.zeros(part.shape[1])
            np.maximum.at(
                total, part.matrix.indices, abs(part.matrix.data) * np.repeat(own, np.diff(part.matrix.indptr))
            )
            return total
        matrix: Array = part.dense()
        height = max(1, SHEET // max(1, matrix.shape[1]))
        total = np.zeros(matrix.shape[1])
        for k in range(0, len(matrix), height):
            np.maximum(total, np.max(abs(matrix[k : k + height]) * own[k : k + height, None], axis=0), out=total)
        return total


def _segment_peaks(values: Array, indptr: Array) -> Array:
    """The greatest of each segment; 0 if it is empty."""
    found = np.zeros(len(indptr) - 1)
    filled = np.flatnonzero(np.diff(indptr))
    if len(filled):
        found[filled] = np.maximum.reduceat(values, indptr[filled])
    return found


def identity_columns(M: Operator) -> Array:
    """The column of each row that belongs to an identity; −1 for other rows."""
    found = np.full(M.shape[0], -1)
    for part, at in bands(M):
        if isinstance(part, Identity):
            found[at] = np.arange(part.start, part.start + part.shape[0])
    return found


def equilibrated(M: Operator, rows: Rows, curvature: Array) -> tuple[Array, Array]:
    """Factors of the rows and the columns, with those of identity rows inverse to their columns'.

    The columns' make f's curvature one in each variable; if that is zero in some, they are Ruiz's for [H Mᵀ; M 0]. The
    rows' make their norms one. `curvature` is the diagonal of H, nan in columns that must keep the factor one.
    """
    places = identity_columns(M)
    stored = all(isinstance(leaf.part, (Dense, Sparse, Identity)) for leaf in leaves(M))
    grouped = rows.balls & (places >= 0)  # rows of an identity that share the factor of their ball
    curvature = curvature.copy()
    curvature[places[grouped]] = np.nan
    free = ~np.isnan(curvature)
    e = np.ones(M.shape[1])
    if stored and free.any():
        low, high = float(curvature[free].min()), float(curvature[free].max())
        strong = low * SPREAD > high
        e[free] = curvature[free] ** -0.5 if strong else _ruiz(M, rows, (places < 0) | grouped, curvature)[free]
    e = powers_of_two(e)
    return np.where((places < 0) | grouped, norm_factors(M, rows, e), 1 / e[np.maximum(places, 0)]), e


def _ruiz(M: Operator, rows: Rows, inside: Array, curvature: Array) -> Array:
    """Ruiz's factors of the columns: the greatest entry of each row `inside` and of each column nears one."""
    magnitudes = [Magnitudes(leaf) for leaf in leaves(M) if not isinstance(leaf.part, Identity)]
    free = ~np.isnan(curvature)
    d, e = np.ones(M.shape[0]), np.ones(M.shape[1])
    for _ in range(ROUNDS):
        row, column = np.zeros(M.shape[0]), np.where(free, e * e * np.where(free, curvature, 0.0), 0.0)
        for part in magnitudes:
            here, across = part.at.rows, part.at.columns
            row[here] = np.maximum(row[here], d[here] * part.row_peaks(e))
            column[across] = np.maximum(column[across], e[across] * part.column_peaks(d))
        row = rows.pooled(row)
        row[~inside | (row == 0)] = 1.0
        column[~free | (column == 0)] = 1.0
        d, e = d / np.sqrt(row), e / np.sqrt(column)
        if max(row.max(initial=1.0), column.max()) <= NEAR and min(row.min(initial=1.0), column.min()) >= 1 / NEAR:
            break
    return e


def norm_factors(M: Operator, rows: Rows, columns: Array | None = None) -> Array:
    """Factors that bring the norms of the rows of M·diag(columns) near one; one for all rows of a ball."""
    norms = np.empty(M.shape[0])
    for part, at in bands(M):
        norms[at] = _norms(part, columns)
    return 1 / powers_of_two(rows.pooled(norms))


def _norms(part: Operator, columns: Array | None) -> Array:
    if columns is not None and not np.all(columns == 1.0):
        squares = np.zeros(part.shape[0])
        for leaf in leaves(part):
            squares[leaf.rows] += _row_squares(leaf.part, columns[leaf.columns])
        return np.sqrt(squares)
    if isinstance(part, Kronecker):  # the product of rounded factors, so the structure stays
        norms = [powers_of_two(factor.row_norms) for factor in part.factors()]
        return np.kron(norms[0], norms[1] if len(norms) == 2 else np.ones(part.shape[0] // len(norms[0])))
    return part.row_norms


def _row_squares(part: Operator, columns: Array) -> Array:
    if isinstance(part, Identity):
        return columns[part.start : part.start + part.shape[0]] ** 2
    if isinstance(part, Sparse):
        values = (part.matrix.data * columns[part.matrix.indices]) ** 2
        return np.add.reduceat(np.append(values, 0.0), part.matrix.indptr[:-1]) * (np.diff(part.matrix.indptr) > 0)
    matrix: Array = part.dense()
    height = max(1, SHEET // max(1, matrix.shape[1]))
    pieces = (matrix[k : k + height] * columns for k in range(0, len(matrix), height))
    return np.concatenate([np.einsum("ij,ij->i", piece, piece) for piece in pieces])


def powers_of_two(values: Array) -> Array:
    """The nearest powers of two, within limits; one for zero."""
    return np.clip(2.0 ** np.round(np.log2(np.where(values > 0, values, 1.0))), 1 / LARGEST, LARGEST)
