"""The greatest entries of the rows and columns of a matrix that is multiplied by factors, for Ruiz scaling."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse as sp

from dapd.arrays import Array
from dapd.operators.sizes import sheets

RANGE = 1e4  # greatest factor of one round


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
        if not self.sparse:
            return math.inf
        some = self.sizes[self.sizes > 0]
        return float(some.max() / some.min()) if some.size else 1.0

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
