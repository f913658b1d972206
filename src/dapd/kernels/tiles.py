"""The dual step with a sparse matrix cut into tiles, whose part of x and part of y stay near: two passes over M.

Where the entries of a row are far apart, CSR spends its time waiting for x: each entry is read from, and written to, a
far place. A tile's entries have 16-bit places, so that tiles take no more memory than CSR does.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dapd.arrays import Array
from dapd.kernels.compiled import copy, plain
from dapd.kernels.sparse import Csr
from dapd.kernels.vectors import LINE, prefetch

SIDE = 1 << 15  # rows and columns of a tile, at most: so many numbers stay in a core's own cache


class Tiles(NamedTuple):
    """A sparse matrix; tile (p, q) has the entries start[p, q] … start[p, q + 1] − 1, row by row."""

    values: Array
    row: Array  # within the tile
    column: Array
    start: Array
    top: Array  # first row of the tiles (p, ·), and the end
    left: Array  # first column of the tiles (·, q), and the end
    p: int  # this thread's tiles in the first product
    p_stop: int
    q: int  # and in the second
    q_stop: int


@plain
def forward(M: Tiles, x: Array, base: Array, y: Array) -> None:
    """Set y = base + Mx, in this thread's rows."""
    copy(base, y)
    for q in range(M.left.size - 1):
        of_x = x[M.left[q] : M.left[q + 1]]
        for j in range(0, of_x.size, LINE // of_x.itemsize):  # in order, which is faster than as the entries have it
            prefetch(of_x, j)
        for p in range(M.p, M.p_stop):
            out = y[M.top[p] - M.top[M.p] : M.top[p + 1] - M.top[M.p]]
            for k in range(M.start[p, q], M.start[p, q + 1]):
                out[M.row[k]] += M.values[k] * of_x[M.column[k]]


@plain
def backward(M: Tiles, y: Array, x: Array) -> None:
    """Set x = Mᵀy, in this thread's columns."""
    x[:] = 0
    for q in range(M.q, M.q_stop):
        out = x[M.left[q] - M.left[M.q] : M.left[q + 1] - M.left[M.q]]
        for p in range(M.top.size - 1):
            of_y = y[M.top[p] : M.top[p + 1]]
            for k in range(M.start[p, q], M.start[p, q + 1]):
                out[M.column[k]] += M.values[k] * of_y[M.row[k]]


def tiled(M: Csr, top: Any, columns: int, least: int) -> Tiles:
    """Cut a matrix at these rows, and at columns evenly, so many times at least; all of it is one thread's."""
    across = max(least, -(-columns // SIDE))
    left = np.minimum(np.arange(across + 1) * -(-columns // across), columns)
    start = np.zeros((len(top) - 1, across + 1), np.uint64)
    values, (row, column) = np.empty_like(M.values), np.empty((2, M.values.size), np.uint16)
    tiles = Tiles(values, row, column, start, np.asarray(top, np.int64), left, 0, len(top) - 1, 0, across)
    _place(M, tiles, np.zeros((len(top) - 1, across), np.uint64))
    return tiles


@plain
def _place(M: Csr, tiles: Tiles, at: Array) -> None:
    """Fill in the entries; `at` is scratch."""
    width = tiles.left[1]
    for p in range(at.shape[0]):
        for k in range(M.indptr[tiles.top[p]], M.indptr[tiles.top[p + 1]]):
            at[p, M.indices[k] // width] += np.uint64(1)
    total = np.uint64(0)
    for p in range(at.shape[0]):
        for q in range(at.shape[1]):
            tiles.start[p, q] = total
            total += at[p, q]
            at[p, q] = tiles.start[p, q]
        tiles.start[p, at.shape[1]] = total
    for p in range(at.shape[0]):
        for i in range(tiles.top[p], tiles.top[p + 1]):
            for k in range(M.indptr[i], M.indptr[i + 1]):
                q = M.indices[k] // width
                to = at[p, q]
                tiles.values[to] = M.values[k]
                tiles.row[to], tiles.column[to] = i - tiles.top[p], M.indices[k] - tiles.left[q]
                at[p, q] = to + np.uint64(1)
