"""Blocks of columns: maps side by side, and the blocks of a matrix."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from dapd.arguments import consecutive, named
from dapd.arrays import Array
from dapd.operators.base import Operator, Placed
from dapd.operators.convert import as_operator
from dapd.operators.explicit import Dense, Sparse, joined, total_entries


class ColumnBlocks(Operator):
    """(M_1 … M_N) side by side, each of any kind; they also define the blocks of x."""

    @named
    def __init__(self, blocks: Sequence[Any]) -> None:
        if len(blocks) == 0:
            raise ValueError("blocks is empty; give at least one matrix")
        self.operators = [as_operator(block, name=f"blocks[{i}]") for i, block in enumerate(blocks)]
        rows = {operator.shape[0] for operator in self.operators}
        if len(rows) > 1:
            raise ValueError(f"blocks have different numbers of rows: {sorted(rows)}")
        self.blocks = consecutive(operator.shape[1] for operator in self.operators)
        self.shape = (rows.pop(), self.blocks[-1].stop)
        self.dtype = np.result_type(*(operator.dtype for operator in self.operators))

    @property
    def probes(self) -> int:
        """The number of products that `dense` makes, summed over the blocks."""
        return sum(operator.probes for operator in self.operators)

    @property
    def entry_count(self) -> int | None:
        """The sum over the blocks; None if one is not known."""
        return total_entries(self.operators)

    @property
    def column_partition(self) -> list[slice]:
        return self.blocks

    @property
    def divisible(self) -> bool:
        return all(operator.divisible for operator in self.operators)

    def placed_parts(self) -> list[Placed]:
        rows = slice(0, self.shape[0])
        return [Placed(part, rows, own) for part, own in zip(self.operators, self.blocks, strict=True)]

    def forward(self, x: Array) -> Array:
        total = np.zeros(self.shape[0], np.result_type(self.dtype, x))
        for operator, block in zip(self.operators, self.blocks, strict=True):
            total += operator.forward(x[block])
        return total

    def adjoint(self, y: Array) -> Array:
        """M_iᵀy for all blocks, concatenated."""
        return np.concatenate([operator.adjoint(y) for operator in self.operators])

    @cached_property
    def row_norms(self) -> Array:
        """The norm of each row, from the norms in the blocks."""
        total = np.zeros(self.shape[0])
        for operator in self.operators:
            total = np.hypot(total, operator.row_norms)
        return total

    def row_sizes(self, x: Array, power: float = 1) -> Array | None:
        """The sum over the blocks; None if the entries of one are not known."""
        total = np.zeros(self.shape[0])
        for operator, block in zip(self.operators, self.blocks, strict=True):
            sizes = operator.row_sizes(x[block], power)
            if sizes is None:
                return None
            total += sizes
        return total

    def column_sizes(self, y: Array, power: float = 1) -> Array | None:
        """The column sizes of the blocks, concatenated; None if the entries of one are not known."""
        parts = [operator.column_sizes(y, power) for operator in self.operators]
        known = [part for part in parts if part is not None]
        return np.concatenate(known) if len(known) == len(parts) else None

    def divides(self, blocks: list[slice]) -> bool:
        """Also true if `blocks` are the blocks of this map."""
        return super().divides(blocks) or blocks == self.blocks

    def columns(self, block: slice) -> Operator:
        """The map of the block itself if `block` is one of the blocks."""
        for operator, own in zip(self.operators, self.blocks, strict=True):
            if own == block:
                return operator
        return super().columns(block)

    def dense(self) -> Array:
        """The blocks side by side in one array."""
        return np.concatenate([operator.dense() for operator in self.operators], axis=1)

    def sparse(self) -> Any:
        """The blocks side by side if all of them are sparse."""
        matrices = [operator.matrix for operator in self.operators if isinstance(operator, Sparse)]
        return sp.hstack(matrices, format="csr") if len(matrices) == len(self.operators) else None

    def stored(self, most: int) -> Operator | None:
        return joined(self.operators, 1, most)

    def outer(self) -> Array:
        total = np.zeros((self.shape[0],) * 2)
        for operator in self.operators:
            total += operator.outer()
        return total


class OnBlock(Operator):
    """A map that uses only a block of the variables: x ↦ M x[block]."""

    def __init__(self, inner: Operator, block: slice, columns: int) -> None:
        self.inner, self.block = inner, block
        self.shape, self.dtype = (inner.shape[0], columns), inner.dtype

    @property
    def probes(self) -> int:
        return self.inner.probes

    def forward(self, x: Array) -> Array:
        return self.inner.forward(x[self.block])

    def adjoint(self, y: Array) -> Array:
        """Mᵀy in the block, zeros elsewhere."""
        full = np.zeros(self.shape[1], np.result_type(self.dtype, y))
        full[self.block] = self.inner.adjoint(y)
        return full

    @cached_property
    def row_norms(self) -> Array:
        return self.inner.row_norms

    def row_sizes(self, x: Array, power: float = 1) -> Array | None:
        return self.inner.row_sizes(x[self.block], power)


def split_columns(matrix: Any, blocks: list[slice]) -> list[Any]:
    """The blocks of columns of an array or a sparse matrix."""
    by_column = matrix.tocsc() if sp.issparse(matrix) else matrix
    return [by_column[:, block] for block in blocks]


def column_matrices(M: Operator, blocks: list[slice]) -> list[Any] | None:
    """The blocks of columns of M as arrays or sparse matrices; None if M is matrix-free."""
    if isinstance(M, (Dense, Sparse)):
        return split_columns(M.matrix, blocks)
    if not isinstance(M, ColumnBlocks):
        return None
    matrices = [operator.matrix for operator in M.operators if isinstance(operator, (Dense, Sparse))]
    if len(matrices) < len(M.operators):
        return None
    if M.blocks == blocks:
        return matrices
    sparse = any(sp.issparse(matrix) for matrix in matrices)
    return split_columns(sp.hstack(matrices).tocsc() if sparse else np.concatenate(matrices, axis=1), blocks)
