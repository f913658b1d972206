"""Factors that bring the rows and columns of [P Aᵀ Mᵀ; A 0 0; M 0 0] to entries of about 1 (Ruiz)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from dapd.arrays import Array
from dapd.second_order.curvature import Curvature
from dapd.second_order.rows import ProxRows

ROUNDS, FEW_ROUNDS = 10, 3  # of sparse matrices, and if one is dense
RANGE = 1e4  # of the factors of one round


class Factors(NamedTuple):
    """x = columns·x̂, y = rows·ŷ/cost: the scaled problem is in x̂ and ŷ, and its f is `cost` times as large."""

    columns: Array
    rows: Array
    cost: float


def ruiz(f: Curvature, M: Any, rows: ProxRows) -> Factors:
    """The factors for f and M; rows of a group get one factor."""
    P, coupling, losses = _Entries(sp.diags_array(f.P).tocsr() if f.P.ndim == 1 else f.P), _Entries(M), _Entries(f.A)
    d, e, ones = np.ones(f.size), np.ones(M.shape[0]), np.ones(f.rows)
    for _ in range(ROUNDS if coupling.sparse and P.sparse else FEW_ROUNDS):
        heights, widths = coupling.peaks(e, d)
        widths = np.maximum(np.maximum(widths, P.peaks(d, d)[1]), losses.peaks(ones, d)[1])
        d, e = d * _damped(widths), rows.pool(e * _damped(heights))
    start = f.gradient(np.zeros(f.size), np.zeros(f.rows))
    curvature = P.peaks(d, d)[1]
    if f.rows:
        squares = f.A.power(2).T if losses.sparse else f.A.T**2
        curvature = curvature + d * d * (squares @ f.curvatures(np.zeros(f.rows)))
    size = max(float(np.mean(curvature)), float(abs(d * start).max(initial=0.0)))
    return Factors(d, e, 1.0 / size if size > 0 else 1.0)


class _Entries:
    """The sizes of the entries of a matrix."""

    def __init__(self, matrix: Any) -> None:
        self.sparse = sp.issparse(matrix)
        self.matrix = matrix
        if self.sparse:
            self.row_of = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
            self.sizes = abs(matrix.data)
        else:
            self.sizes = abs(matrix)

    def peaks(self, rows: Array, columns: Array) -> tuple[Array, Array]:
        """The greatest entries of the rows and of the columns, multiplied with these factors."""
        if not self.sparse:
            scaled = rows[:, None] * self.sizes * columns
            return scaled.max(axis=1, initial=0.0), scaled.max(axis=0, initial=0.0)
        at = self.matrix.indices
        scaled = rows[self.row_of] * self.sizes * columns[at]
        heights, widths = np.zeros(rows.size), np.zeros(columns.size)
        np.maximum.at(heights, self.row_of, scaled)
        np.maximum.at(widths, at, scaled)
        return heights, widths


def _damped(peaks: Array) -> Array:
    return np.clip(1.0 / np.sqrt(np.where(peaks > 0, peaks, 1.0)), 1.0 / RANGE, RANGE)
