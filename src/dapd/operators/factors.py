"""Factors of rows and columns: those that make them alike, and a map that is multiplied by them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse as sp

from dapd.arrays import Array
from dapd.operators.base import Operator, stored
from dapd.operators.explicit import Dense, Sparse
from dapd.operators.sizes import sheets

SWEEPS = 10  # most sweeps, of which each leaves the root of how uneven rows and columns are
EVEN = 2.0  # ratio of the sums of rows, and of columns, up to which they count as alike
RANGE = 1e4  # greatest factor of one round of Ruiz scaling


class ScaledMap(Operator):
    """diag(rows)·M·diag(columns) of a map whose entries cannot be changed."""

    def __init__(self, inner: Operator, rows: Array, columns: Array) -> None:
        self.inner, self.rows, self.scales = inner, rows.astype(inner.dtype), columns.astype(inner.dtype)
        self.shape, self.dtype = inner.shape, inner.dtype

    @property
    def probes(self) -> int:
        return self.inner.probes

    @property
    def work(self) -> int:
        return self.inner.work

    def forward(self, x: Array) -> Array:
        return self.rows * self.inner.forward(self.scales * x)

    def adjoint(self, y: Array) -> Array:
        return self.scales * self.inner.adjoint(self.rows * y)

    def stored(self, most: int) -> Operator | None:
        inner = stored(self.inner, most)
        if isinstance(inner, Sparse):
            return Sparse(sp.csr_array(sp.diags_array(self.rows) @ inner.matrix @ sp.diags_array(self.scales)))
        return Dense(self.rows[:, None] * inner.matrix * self.scales) if isinstance(inner, Dense) else None

    def row_sizes(self, x: Array, power: float = 1) -> Array | None:
        sizes = self.inner.row_sizes(self.scales**power * x, power)
        return None if sizes is None else self.rows**power * sizes

    def column_sizes(self, y: Array, power: float = 1) -> Array | None:
        sizes = self.inner.column_sizes(self.rows**power * y, power)
        return None if sizes is None else self.scales**power * sizes


def balancing(M: Operator) -> tuple[Array, Array]:
    """Factors r and c such that the rows and columns of r_i|M_ij|c_j are alike; 0 for rows and columns of zeros.

    If M only has products, c_j = 1.
    """
    r, c = np.ones(M.shape[0]), np.ones(M.shape[1])
    if not M.shape[0]:
        return r, np.zeros(M.shape[1])
    heights, widths = M.row_sizes(c), M.column_sizes(r)
    if heights is None or widths is None:
        return inverse_or_zero(M.row_norms), c
    for _ in range(SWEEPS):
        even = spread(r * heights) <= EVEN and spread(c * widths) <= EVEN
        r, c = r * inverse_or_zero(np.sqrt(r * heights)), c * inverse_or_zero(np.sqrt(c * widths))
        if even:
            break
        heights, widths = (np.asarray(some, np.float64) for some in (M.row_sizes(c), M.column_sizes(r)))
    return r, c


def inverse_or_zero(sizes: Array) -> Array:
    """The inverses of positive entries; 0 of others."""
    return np.where(sizes > 0, 1 / np.where(sizes > 0, sizes, 1.0), 0.0)


def spread(sizes: Array) -> float:
    """The greatest over the least that is not zero; 1 if all are."""
    some = sizes[sizes > 0]
    return float(some.max() / some.min()) if some.size else 1.0


class Entries:
    """The sizes of the entries of a dense or CSR matrix."""

    def __init__(self, matrix: Any) -> None:
        self.sparse = sp.issparse(matrix)
        self.matrix = matrix
        if self.sparse:
            self.row_of = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
            self.sizes = abs(matrix.data)

    @property
    def spread(self) -> float:
        """The greatest entry over the least that is not zero; inf if that takes a pass over a dense matrix."""
        return spread(self.sizes) if self.sparse else math.inf

    def peaks(self, rows: Array, columns: Array) -> tuple[Array, Array]:
        """The greatest entries of the rows and of the columns, multiplied with these factors."""
        heights, widths = np.zeros(rows.size), np.zeros(columns.size)
        if not self.sparse:
            for i, j in sheets(self.matrix):
                scaled = abs(self.matrix[i, j]) * rows[i, None]
                scaled *= columns[j]
                heights[i] = np.maximum(heights[i], scaled.max(axis=1))
                widths[j] = np.maximum(widths[j], scaled.max(axis=0))
            return heights, widths
        at = self.matrix.indices
        scaled = rows[self.row_of] * self.sizes * columns[at]
        np.maximum.at(heights, self.row_of, scaled)
        np.maximum.at(widths, at, scaled)
        return heights, widths


def damped(sizes: Array) -> Array:
    """The factors of one round: 1/√size, one for zero."""
    return np.clip(1.0 / np.sqrt(np.where(sizes > 0, sizes, 1.0)), 1.0 / RANGE, RANGE)
