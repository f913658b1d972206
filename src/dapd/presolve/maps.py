"""Maps with their rows and columns multiplied by factors, or with fewer of them, in the same structure if possible."""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch

import numpy as np
import scipy.sparse as sp

from dapd.arrays import Array
from dapd.operators.base import Operator
from dapd.operators.blocks import ColumnBlocks, RowBlocks
from dapd.operators.explicit import Dense, Sparse
from dapd.operators.factors import ScaledMap
from dapd.operators.structured import BlockDiagonal, Identity, Kronecker


def scaled_map(M: Operator, rows: Array, columns: Array) -> Operator:
    """diag(rows)·M·diag(columns), all factors positive; M itself if all are one."""
    return M if np.all(rows == 1) and np.all(columns == 1) else _scaled(M, rows, columns)


@singledispatch
def _scaled(M: Operator, rows: Array, columns: Array) -> Operator:
    return ScaledMap(M, rows, columns)


@_scaled.register
def _(M: Dense, rows: Array, columns: Array) -> Operator:
    matrix = M.matrix * rows.astype(M.dtype)[:, None]
    matrix *= columns.astype(M.dtype)
    return Dense(matrix)


@_scaled.register
def _(M: Sparse, rows: Array, columns: Array) -> Operator:
    data = M.matrix.data * np.repeat(rows.astype(M.dtype), np.diff(M.matrix.indptr))
    data *= columns.astype(M.dtype)[M.matrix.indices]
    return Sparse(sp.csr_array((data, M.matrix.indices, M.matrix.indptr), shape=M.shape))


@_scaled.register
def _(M: Identity, rows: Array, columns: Array) -> Operator:
    at = np.arange(M.start, M.start + M.shape[0])
    factors = rows * columns[at]
    if np.allclose(factors, 1.0, rtol=4e-16, atol=0.0):  # the factors of its rows are inverse up to rounding
        return M
    return Sparse(sp.csr_array((factors, at, np.arange(len(at) + 1)), shape=M.shape))


@_scaled.register
def _(M: RowBlocks, rows: Array, columns: Array) -> Operator:
    return RowBlocks([scaled_map(part, rows[at], columns) for part, at in zip(M.operators, M.blocks, strict=True)])


@_scaled.register
def _(M: ColumnBlocks, rows: Array, columns: Array) -> Operator:
    return ColumnBlocks([scaled_map(part, rows, columns[at]) for part, at in zip(M.operators, M.blocks, strict=True)])


@_scaled.register
def _(M: BlockDiagonal, rows: Array, columns: Array) -> Operator:
    rows, columns = rows.astype(M.dtype), columns.astype(M.dtype)
    places = zip(M.matrices, M.row_blocks, M.column_blocks, strict=True)
    return BlockDiagonal([matrix * rows[i][:, None] * columns[j] for matrix, i, j in places])


@_scaled.register
def _(M: Kronecker, rows: Array, columns: Array) -> Operator:
    row_factors, column_factors = (_outer(v, n) for v, n in zip((rows, columns), M.A.shape, strict=True))
    if row_factors is None or column_factors is None:
        return ScaledMap(M, rows, columns)
    A = M.A * row_factors[0][:, None].astype(M.dtype) * column_factors[0].astype(M.dtype)
    if M.B is not None:
        return Kronecker(A, M.B * row_factors[1][:, None].astype(M.dtype) * column_factors[1].astype(M.dtype))
    if np.all(row_factors[1] == 1) and np.all(column_factors[1] == 1):
        return Kronecker(A, len(row_factors[1]))
    return ScaledMap(M, rows, columns)


def _outer(v: Array, first: int) -> tuple[Array, Array] | None:
    """V = a ⊗ b with b_1 = 1 and a of `first` entries; None if it is no such product."""
    table = v.reshape(first, -1)
    a, b = table[:, 0], table[0] / table[0, 0]
    return (a, b) if np.array_equal(table, np.outer(a, b)) else None


def stacked_maps(parts: Sequence[Operator], columns: int) -> Operator:
    """The parts on top of each other; those without rows are left out."""
    some = [part for part in parts if part.shape[0]]
    if not some:
        return Dense(np.zeros((0, columns)))
    return some[0] if len(some) == 1 else RowBlocks(some)


def rows_of(M: Operator, left: Array) -> list[Operator]:
    """The parts of M on top of each other, with these of their rows; a part that loses some must be `divisible`."""
    every = np.ones(M.shape[1], bool)
    return [part if left[at].all() else restricted(part, left[at], every) for part, at in M.bands() if left[at].any()]


@singledispatch
def restricted(M: Operator, rows: Array, columns: Array) -> Operator:
    """Some rows and columns of a map that is `divisible`; two vectors of booleans say which."""
    raise TypeError(f"{M!r} cannot be divided")


@restricted.register
def _(M: Dense | Sparse, rows: Array, columns: Array) -> Operator:
    matrix = M.matrix if rows.all() else M.matrix[rows]
    return type(M)(matrix if columns.all() else matrix[:, columns])


@restricted.register
def _(M: Identity, rows: Array, columns: Array) -> Operator:
    at = M.start + np.flatnonzero(rows)
    total = int(columns.sum())
    if len(at) == 0:
        return Dense(np.zeros((0, total)))
    place = np.cumsum(columns) - 1
    here = columns[at]
    if here.all() and place[at[-1]] - place[at[0]] == len(at) - 1:
        return Identity(total, rows=len(at), start=int(place[at[0]]))
    indptr = np.concatenate([[0], np.cumsum(here)])
    return Sparse(sp.csr_array((np.ones(indptr[-1]), place[at[here]], indptr), shape=(len(at), total)))


@restricted.register
def _(M: RowBlocks, rows: Array, columns: Array) -> Operator:
    parts = [restricted(part, rows[at], columns) for part, at in zip(M.operators, M.blocks, strict=True)]
    return stacked_maps(parts, int(columns.sum()))


@restricted.register
def _(M: ColumnBlocks, rows: Array, columns: Array) -> Operator:
    parts = [restricted(part, rows, columns[at]) for part, at in zip(M.operators, M.blocks, strict=True)]
    return ColumnBlocks([part for part in parts if part.shape[1]])
