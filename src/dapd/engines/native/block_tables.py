"""M and f by blocks, in the layout of the native core's block-coordinate loops (src/core/blocks)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from dapd.arguments import consecutive
from dapd.arrays import Array
from dapd.engines.protocol import NotNative
from dapd.functions import Function, native
from dapd.operators.blocks import split_columns

LINE = 64  # bytes of a cache line
SHORT_COLUMN = 16  # columns with fewer entries than this are not padded to whole lines


class BlockMatrix(NamedTuple):
    """B_1, …, B_N, dense or sparse, each stored column by column."""

    first: Array  # block i has the columns first[i] … first[i + 1] − 1
    rows: Array  # how many rows block i has
    stride: Array  # entries from one column of a dense block to the next
    at: Array  # where a dense block starts in `dense`; −1 for a sparse one
    dense: Array  # the columns of the dense blocks, one after the other
    indptr: Array  # column c of a sparse block is at indptr[c] … indptr[c + 1] − 1
    indices: Array
    values: Array

    @property
    def entries(self) -> int:
        """Stored numbers, without padding."""
        dense = np.where(self.at < 0, 0, self.rows * np.diff(self.first))
        return int(dense.sum() + self.values.size)


class BlockFunctions(NamedTuple):
    """f_1, …, f_N, each Σ ℓ(Az; d) + ½zᵀHz − cᵀz."""

    loss: Array
    e: Array  # of the pseudo-Huber loss
    diagonal: Array  # of H, its ridge included, along x
    linear: Array  # c, along x
    A: BlockMatrix  # a block without rows is the identity
    H: BlockMatrix  # what H has besides the diagonal; a block without rows is zero
    target: Array  # d or labels, block after block
    at: Array  # where those of block i start; −1 if it has none


class JointFunction(NamedTuple):
    """The part of f that joins the blocks: Σ ℓ(Ax; d), or ½xᵀAx if there is no loss; without rows, nothing does."""

    loss: int
    e: float
    A: BlockMatrix
    target: Array | None


def pack(matrices: Sequence[Any], dtype: Any) -> BlockMatrix:
    """Store blocks, each an array or a sparse matrix."""
    sparse = np.array([sp.issparse(matrix) for matrix in matrices])
    rows = np.array([matrix.shape[0] for matrix in matrices], np.int64)
    columns = np.array([matrix.shape[1] for matrix in matrices], np.int64)
    first = np.concatenate([[0], np.cumsum(columns)])
    line = LINE // np.dtype(dtype).itemsize
    # an odd number of lines, or columns a power of two apart would compete for the same places in the cache
    stride = np.where(rows < SHORT_COLUMN, rows, (_lines(rows, line) | 1) * line)
    sizes = np.where(sparse, 0, _lines(stride * columns, line) * line)
    at = np.cumsum(sizes) - sizes
    dense = _aligned(int(sizes.sum()), dtype)
    lengths = np.zeros(first[-1], np.int64)
    indices, values = [np.zeros(0, np.uint32)], [np.zeros(0, dtype)]
    for i, matrix in enumerate(matrices):
        if sparse[i]:
            by_column = sp.csc_array(matrix)
            lengths[first[i] : first[i + 1]] = np.diff(by_column.indptr)
            indices.append(by_column.indices.astype(np.uint32))
            values.append(by_column.data.astype(dtype))
        else:
            own = dense[at[i] : at[i] + stride[i] * columns[i]]
            own.reshape(columns[i], stride[i])[:, : rows[i]] = matrix.T
    if lengths.sum() > np.iinfo(np.uint32).max:
        raise NotNative("a sparse matrix has more than 2³² entries")
    return BlockMatrix(
        first=first.astype(np.int64),
        rows=rows,
        stride=stride.astype(np.int64),
        at=np.where(sparse, -1, at).astype(np.int64),
        dense=dense,
        indptr=np.concatenate([[0], np.cumsum(lengths)]).astype(np.uint32),
        indices=np.concatenate(indices),
        values=np.concatenate(values),
    )


def _lines(sizes: Array, line: int) -> Array:
    """The number of cache lines that each size takes, `line` entries per line."""
    return -(-sizes // line)


def _aligned(size: int, dtype: Any) -> Array:
    """A vector of zeros that starts at a cache line, so no vector load straddles two."""
    raw = np.zeros(size * np.dtype(dtype).itemsize + LINE, np.uint8)
    start = -raw.ctypes.data % LINE
    return raw[start : raw.size - LINE + start].view(dtype)


class _Part(NamedTuple):
    """One function, as a row of the table holds it."""

    loss: int = native.NONE
    e: float = 0.0
    diagonal: Any = 0.0  # a number or a vector
    linear: Any = 0.0
    A: Any = None  # an array or a sparse matrix
    H: Any = None
    target: Array | None = None


def _part(f: Function, size: int) -> _Part:
    """What the loops read of an f of `size` variables."""
    name, terms = type(f).__name__, f.known_terms()
    if terms is None:
        raise NotNative(f"{name} is only available in Python")
    loss = native.NativeLoss(native.NONE) if terms.loss is None else terms.loss.native()
    if loss is None:
        raise NotNative(f"{name} has the loss {type(terms.loss).__name__}, which the native core does not know")
    A, H = None if terms.loss is None else terms.A, terms.H
    if A is not None and A.stored_matrix is None:
        raise NotNative(f"the A of {name} is only available as a product")
    terms.check(name, size)
    if terms.has_products_only:
        raise NotNative(f"the H of {name} is only available as a product")
    by_entry = H is not None and H.ndim == 1
    return _Part(
        *loss,
        diagonal=terms.ridge + H if by_entry else terms.ridge,
        linear=0.0 if terms.c is None else terms.c,
        A=None if A is None else A.stored_matrix,
        H=None if by_entry else H,
        target=None if terms.loss is None else terms.d,
    )


def tabulate_blocks(functions: Sequence[Function], blocks: list[slice], dtype: Any) -> BlockFunctions:
    """The table of f_1, …, f_N."""
    parts = [_part(f, block.stop - block.start) for f, block in zip(functions, blocks, strict=True)]
    return _table(parts, blocks, dtype)


def _table(parts: list[_Part], blocks: list[slice], dtype: Any) -> BlockFunctions:
    diagonal, linear = np.zeros(blocks[-1].stop, dtype), np.zeros(blocks[-1].stop, dtype)
    for part, block in zip(parts, blocks, strict=True):
        diagonal[block], linear[block] = part.diagonal, part.linear
    sizes = [0 if part.target is None else part.target.size for part in parts]
    starts = [piece.start for piece in consecutive(sizes)]
    return BlockFunctions(
        loss=np.array([part.loss for part in parts], np.uint8),
        e=np.array([part.e for part in parts], dtype),
        diagonal=diagonal,
        linear=linear,
        A=pack([_matrix(part.A, block) for part, block in zip(parts, blocks, strict=True)], dtype),
        H=pack([_matrix(part.H, block) for part, block in zip(parts, blocks, strict=True)], dtype),
        target=np.concatenate([np.zeros(0), *(p.target for p in parts if p.target is not None)]).astype(dtype),
        at=np.array([start if size else -1 for start, size in zip(starts, sizes, strict=True)], np.int64),
    )


def _matrix(matrix: Any, block: slice) -> Any:
    return np.zeros((0, block.stop - block.start)) if matrix is None else matrix


def nothing_joint(blocks: list[slice], dtype: Any) -> JointFunction:
    """The joint part of an f that separates over the blocks."""
    return JointFunction(native.NONE, 0.0, pack([_matrix(None, block) for block in blocks], dtype), None)


def tabulate_joint(f: Function, blocks: list[slice], dtype: Any) -> tuple[BlockFunctions, JointFunction]:
    """An f of all of x as what separates over the blocks and what joins them."""
    part = _part(f, blocks[-1].stop)
    if part.A is not None and part.H is not None:
        raise NotNative(f"{type(f).__name__} joins the blocks both by a loss of Ax and by a matrix H")
    joint = nothing_joint(blocks, dtype)
    if part.A is not None:
        target = None if part.target is None else part.target.astype(dtype)
        joint = JointFunction(part.loss, part.e, pack(split_columns(part.A, blocks), dtype), target)
        part = part._replace(loss=native.NONE, e=0.0, A=None, target=None)
    elif part.H is not None:
        joint = joint._replace(A=pack(split_columns(part.H, blocks), dtype))
        part = part._replace(H=None)
    return _table([_Part(*(_own(value, block) for value in part)) for block in blocks], blocks, dtype), joint


def _own(value: Any, block: slice) -> Any:
    return value[block] if isinstance(value, np.ndarray) else value
