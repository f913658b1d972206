"""Matrices cut into blocks of columns, each block stored column by column: B_iᵀy and B_i v both stream it once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from dapd.arguments import consecutive
from dapd.arrays import Array
from dapd.kernels.compiled import compiled

LINE = 64  # bytes of a cache line


class BlockMatrix(NamedTuple):
    """B_1, …, B_N, dense or sparse, block by block."""

    first: Array  # block i has the columns first[i] … first[i + 1] − 1
    rows: Array  # how many rows block i has
    at: Array  # where a dense block starts in `dense`; −1 for a sparse one
    dense: Array  # the columns of the dense blocks, one after the other
    indptr: Array  # column c of a sparse block is at indptr[c] … indptr[c + 1] − 1
    indices: Array
    values: Array

    @property
    def entries(self) -> int:
        """Stored numbers."""
        return int(self.dense.size + self.values.size)


@compiled
def dots(B: BlockMatrix, i: int, y: Array, out: Array) -> None:
    """Set out = B_iᵀy."""
    m, n = B.first[i + 1] - B.first[i], B.rows[i]
    if B.at[i] < 0:
        _sparse_dots(B.indptr[B.first[i] : B.first[i + 1] + 1], B.indices, B.values, y, out)
        return
    D = B.dense[B.at[i] : B.at[i] + m * n]
    # four columns far apart: four streams from memory, and y is loaded once for all four
    h = m // 4
    for r in range(h):
        d0, d1 = D[r * n : (r + 1) * n], D[(r + h) * n : (r + h + 1) * n]
        d2, d3 = D[(r + 2 * h) * n : (r + 2 * h + 1) * n], D[(r + 3 * h) * n : (r + 3 * h + 1) * n]
        s0 = s1 = s2 = s3 = 0.0
        for k in range(n):
            s0 += d0[k] * y[k]
            s1 += d1[k] * y[k]
            s2 += d2[k] * y[k]
            s3 += d3[k] * y[k]
        out[r], out[r + h], out[r + 2 * h], out[r + 3 * h] = s0, s1, s2, s3
    for r in range(4 * h, m):
        d0 = D[r * n : (r + 1) * n]
        s0 = 0.0
        for k in range(n):
            s0 += d0[k] * y[k]
        out[r] = s0


@compiled
def add(B: BlockMatrix, i: int, v: Array, out: Array) -> None:
    """Set out = out + B_i v."""
    m, n = B.first[i + 1] - B.first[i], B.rows[i]
    if B.at[i] < 0:
        _sparse_add(B.indptr[B.first[i] : B.first[i + 1] + 1], B.indices, B.values, v, out)
        return
    D = B.dense[B.at[i] : B.at[i] + m * n]
    h = m // 4
    for r in range(h):
        d0, d1 = D[r * n : (r + 1) * n], D[(r + h) * n : (r + h + 1) * n]
        d2, d3 = D[(r + 2 * h) * n : (r + 2 * h + 1) * n], D[(r + 3 * h) * n : (r + 3 * h + 1) * n]
        v0, v1, v2, v3 = v[r], v[r + h], v[r + 2 * h], v[r + 3 * h]
        for k in range(n):
            out[k] += v0 * d0[k] + v1 * d1[k] + v2 * d2[k] + v3 * d3[k]
    for r in range(4 * h, m):
        d0 = D[r * n : (r + 1) * n]
        v0 = v[r]
        for k in range(n):
            out[k] += v0 * d0[k]


@compiled
def add_square(B: BlockMatrix, i: int, y: Array, g: Array, out: Array) -> None:
    """Set out = out + B_i(B_iᵀy + g), each column used twice while it is near."""
    m, n = B.first[i + 1] - B.first[i], B.rows[i]
    if B.at[i] < 0:
        _sparse_add_square(B.indptr[B.first[i] : B.first[i + 1] + 1], B.indices, B.values, y, g, out)
        return
    D = B.dense[B.at[i] : B.at[i] + m * n]
    h = m // 4
    for r in range(h):
        d0, d1 = D[r * n : (r + 1) * n], D[(r + h) * n : (r + h + 1) * n]
        d2, d3 = D[(r + 2 * h) * n : (r + 2 * h + 1) * n], D[(r + 3 * h) * n : (r + 3 * h + 1) * n]
        s0 = s1 = s2 = s3 = 0.0
        for k in range(n):
            s0 += d0[k] * y[k]
            s1 += d1[k] * y[k]
            s2 += d2[k] * y[k]
            s3 += d3[k] * y[k]
        s0, s1, s2, s3 = s0 + g[r], s1 + g[r + h], s2 + g[r + 2 * h], s3 + g[r + 3 * h]
        for k in range(n):
            out[k] += s0 * d0[k] + s1 * d1[k] + s2 * d2[k] + s3 * d3[k]
    for r in range(4 * h, m):
        d0 = D[r * n : (r + 1) * n]
        s0 = 0.0
        for k in range(n):
            s0 += d0[k] * y[k]
        s0 += g[r]
        for k in range(n):
            out[k] += s0 * d0[k]


@compiled
def _sparse_dots(indptr: Array, indices: Array, values: Array, y: Array, out: Array) -> None:
    for r in range(indptr.size - 1):
        total = 0.0
        for k in range(indptr[r], indptr[r + 1]):
            total += values[k] * y[indices[k]]
        out[r] = total


@compiled
def _sparse_add(indptr: Array, indices: Array, values: Array, v: Array, out: Array) -> None:
    for r in range(indptr.size - 1):
        for k in range(indptr[r], indptr[r + 1]):
            out[indices[k]] += v[r] * values[k]


@compiled
def _sparse_add_square(indptr: Array, indices: Array, values: Array, y: Array, g: Array, out: Array) -> None:
    for r in range(indptr.size - 1):
        total = 0.0
        for k in range(indptr[r], indptr[r + 1]):
            total += values[k] * y[indices[k]]
        total += g[r]
        for k in range(indptr[r], indptr[r + 1]):
            out[indices[k]] += total * values[k]


@compiled
def product(B: BlockMatrix, v: Array, out: Array) -> None:
    """Set out = Bv, where all blocks have the same rows."""
    out[:] = 0.0
    for i in range(B.rows.size):
        add(B, i, v[B.first[i] : B.first[i + 1]], out)


def _aligned(size: int, dtype: Any) -> Array:
    """An empty vector that starts at a cache line, so that no vector load straddles two."""
    raw = np.empty(size * np.dtype(dtype).itemsize + LINE, np.uint8)
    start = -raw.ctypes.data % LINE
    return raw[start : raw.size - LINE + start].view(dtype)


def pack(matrices: Sequence[Any], dtype: Any) -> BlockMatrix:
    """Store blocks, each an array or a sparse matrix, in the layout of the kernels."""
    sparse = [sp.issparse(matrix) for matrix in matrices]
    first = np.array([0, *(block.stop for block in consecutive(matrix.shape[1] for matrix in matrices))])
    sizes = [0 if thin else matrix.shape[0] * matrix.shape[1] for thin, matrix in zip(sparse, matrices, strict=True)]
    starts = np.array([block.start for block in consecutive(sizes)])
    dense = _aligned(sum(sizes), dtype)
    lengths = np.zeros(first[-1], np.int64)
    indices, values = [np.zeros(0, np.uint32)], [np.zeros(0, dtype)]
    for i, matrix in enumerate(matrices):
        if sparse[i]:
            columns = sp.csc_array(matrix)
            lengths[first[i] : first[i + 1]] = np.diff(columns.indptr)
            indices.append(columns.indices.astype(np.uint32))
            values.append(columns.data.astype(dtype))
        else:
            dense[starts[i] : starts[i] + sizes[i]].reshape(matrix.shape[::-1])[:] = matrix.T
    return BlockMatrix(
        first=first.astype(np.int64),
        rows=np.array([matrix.shape[0] for matrix in matrices], np.int64),
        at=np.where(sparse, -1, starts).astype(np.int64),
        dense=dense,
        indptr=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        indices=np.concatenate(indices),
        values=np.concatenate(values),
    )
