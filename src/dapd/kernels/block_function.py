"""Gradients of f by blocks: a table of the built-in functions, one row a block, that compiled code can read."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt, tanh
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse.linalg import LinearOperator

from dapd.arguments import consecutive
from dapd.arrays import Array
from dapd.kernels.block_matrix import BlockMatrix, add, dots, pack
from dapd.kernels.compiled import compiled
from dapd.model.smooth import Function, LeastSquares, Logistic, PseudoHuber, Quadratic
from dapd.operators.base import Dense, Sparse, cut

HUBER, DIAGONAL, MATRIX, SQUARES, LOGISTIC, SEPARABLE = range(6)


class BlockFunctions(NamedTuple):
    """f_1, …, f_N."""

    kind: Array
    scalar: Array  # e of a PseudoHuber, the ridge of the others
    diagonal: Array  # H of a diagonal Quadratic, along x
    linear: Array  # c of a Quadratic, along x
    matrix: BlockMatrix  # H of a Quadratic, A of LeastSquares and Logistic
    target: Array  # d of LeastSquares, labels of Logistic, block after block
    at: Array  # where those of block i start


class Coupled(NamedTuple):
    """One f of all of x: ½xᵀHx − cᵀx, or a function of Ax and a ridge. SEPARABLE: see the table instead."""

    kind: int
    ridge: float
    matrix: BlockMatrix  # H or A
    target: Array  # c, d or labels


@compiled
def block_grad(f: BlockFunctions, i: int, z: Array, out: Array, image: Array) -> None:
    """Set out = ∇f_i(z); `image` is scratch as long as A_i has rows."""
    kind, scalar = f.kind[i], f.scalar[i]
    if kind == HUBER:
        for r in range(z.size):
            out[r] = z[r] / sqrt(z[r] * z[r] + scalar * scalar) + scalar * z[r]
    elif kind == DIAGONAL:
        start = f.matrix.first[i]
        for r in range(z.size):
            out[r] = f.diagonal[start + r] * z[r] - f.linear[start + r]
    elif kind == MATRIX:
        start = f.matrix.first[i]
        for r in range(z.size):
            out[r] = -f.linear[start + r]
        add(f.matrix, i, z, out)
    else:
        rows = f.matrix.rows[i]
        image[:rows] = 0.0
        add(f.matrix, i, z, image)
        pull(kind, image[:rows], f.target[f.at[i] : f.at[i] + rows])
        dots(f.matrix, i, image, out)
        for r in range(z.size):
            out[r] += scalar * z[r]


@compiled
def pull(kind: int, image: Array, target: Array) -> None:
    """Turn Ax into the derivative of the loss at it, in place: Ax − d, or −label/(1 + exp(label·Ax))."""
    if kind == SQUARES:
        for k in range(image.size):
            image[k] -= target[k]
    else:
        for k in range(image.size):
            image[k] = -0.5 * target[k] * (1.0 - tanh(0.5 * target[k] * image[k]))


class _Row(NamedTuple):
    """What the kernels need to know of one built-in function."""

    kind: int
    scalar: float = 0.0
    diagonal: Any = 0.0
    linear: Any = 0.0
    matrix: Any = None  # array or sparse
    target: Array = np.zeros(0)


def _row(f: Function) -> _Row | None:
    """The row of f; None where it is not built in (a subclass may have another gradient)."""
    if type(f) is PseudoHuber:
        return _Row(HUBER, f.e)
    if type(f) is Quadratic and not isinstance(f.H, LinearOperator):
        if f.H.ndim == 1:
            return _Row(DIAGONAL, diagonal=f.H, linear=f.c)
        return _Row(MATRIX, linear=f.c, matrix=f.H)
    if type(f) is LeastSquares and isinstance(f.A, (Dense, Sparse)):
        return _Row(SQUARES, f.ridge, matrix=f.A.matrix, target=f.d)
    if type(f) is Logistic and isinstance(f.A, (Dense, Sparse)):
        return _Row(LOGISTIC, f.ridge, matrix=f.A.matrix, target=f.labels)
    return None


def tabulate(functions: Sequence[Function], blocks: list[slice], dtype: Any) -> BlockFunctions | None:
    """The table of f_1, …, f_N; None where one of them is not built in, so that Python must be asked."""
    rows = [row for row in map(_row, functions) if row is not None]
    if len(rows) < len(functions):
        return None
    diagonal, linear = np.zeros(blocks[-1].stop, dtype), np.zeros(blocks[-1].stop, dtype)
    matrices = []
    for row, block in zip(rows, blocks, strict=True):
        diagonal[block], linear[block] = row.diagonal, row.linear
        matrices.append(np.zeros((0, block.stop - block.start)) if row.matrix is None else row.matrix)
    return BlockFunctions(
        kind=np.array([row.kind for row in rows], np.int64),
        scalar=np.array([row.scalar for row in rows], dtype),
        diagonal=diagonal,
        linear=linear,
        matrix=pack(matrices, dtype),
        target=np.concatenate([row.target for row in rows]).astype(dtype),
        at=np.array([piece.start for piece in consecutive(row.target.size for row in rows)], np.int64),
    )


def couple(f: Function, blocks: list[slice], dtype: Any) -> Coupled | None:
    """The record of an f of all of x; None where Python must be asked for its partial gradients."""
    row = _row(f)
    if row is None or row.matrix is None:
        return None
    matrices = cut(row.matrix, blocks)
    target = row.linear if row.kind == MATRIX else row.target
    return Coupled(row.kind, row.scalar, pack(matrices, dtype), target.astype(dtype))


def uncoupled(blocks: list[slice], dtype: Any) -> Coupled:
    """The record that points to the table."""
    empty = [np.zeros((0, block.stop - block.start)) for block in blocks]
    return Coupled(SEPARABLE, 0.0, pack(empty, dtype), np.zeros(0, dtype))
