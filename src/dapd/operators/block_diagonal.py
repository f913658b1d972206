"""Dense blocks along a diagonal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from dapd.arguments import consecutive, named
from dapd.arrays import Array
from dapd.operators.base import Operator, Placed
from dapd.operators.convert import matrix_of
from dapd.operators.explicit import Dense, Sparse, as_entries
from dapd.operators.sizes import SHEET, norms_of_rows, raised


class BlockDiagonal(Operator):
    """diag(M_1, …, M_N), dense blocks of any shapes along the diagonal.

    Parameters
    ----------
    blocks : list of matrices, or an array of shape (N, rows, columns)
        The blocks. An array of floats in C order is not copied.
    """

    @named
    def __init__(self, blocks: Sequence[Any] | Array) -> None:
        if len(blocks) == 0:
            raise ValueError("blocks is empty; give at least one matrix")
        if any(sp.issparse(block) for block in blocks):
            raise TypeError("blocks must be dense; for sparse ones give scipy.sparse.block_diag(blocks)")
        given = [matrix_of(f"blocks[{i}]", block) for i, block in enumerate(blocks)]
        self.dtype = np.result_type(*given)
        self.row_blocks = consecutive(matrix.shape[0] for matrix in given)
        self.column_blocks = consecutive(matrix.shape[1] for matrix in given)
        self.shape = (self.row_blocks[-1].stop, self.column_blocks[-1].stop)
        # all entries in contiguous memory, block after block
        usable = isinstance(blocks, np.ndarray) and blocks.flags.c_contiguous and blocks.dtype == self.dtype
        joined = blocks if usable else np.concatenate([matrix.ravel() for matrix in given], dtype=self.dtype)
        self.entries: Array = np.asarray(joined).reshape(-1)
        places = consecutive(matrix.size for matrix in given)
        self.matrices = [self.entries[at].reshape(m.shape) for at, m in zip(places, given, strict=True)]
        alike = len({matrix.shape for matrix in given}) == 1
        self._stack = self.entries.reshape(len(given), *given[0].shape) if alike else None

    @property
    def work(self) -> int:
        return int(self.entries.size)

    @property
    def entry_count(self) -> int:
        return self.work

    def placed_parts(self) -> list[Placed]:
        return list(map(Placed, self.parts(), self.row_blocks, self.column_blocks))

    def forward(self, x: Array) -> Array:
        if self._stack is not None:
            return (self._stack @ x.reshape(len(self._stack), -1, 1)).ravel()
        return np.concatenate([m @ x[block] for m, block in zip(self.matrices, self.column_blocks, strict=True)])

    def adjoint(self, y: Array) -> Array:
        if self._stack is not None:
            return (y.reshape(len(self._stack), 1, -1) @ self._stack).ravel()
        return np.concatenate([y[block] @ m for m, block in zip(self.matrices, self.row_blocks, strict=True)])

    @cached_property
    def row_norms(self) -> Array:
        return np.concatenate([norms_of_rows(matrix) for matrix in self.matrices])

    def row_sizes(self, x: Array, power: float = 1) -> Array:
        return self._sizes(abs(x), power, self.column_blocks, (0, 1))

    def column_sizes(self, y: Array, power: float = 1) -> Array:
        return self._sizes(abs(y), power, self.row_blocks, (1, 0))

    def _sizes(self, v: Array, power: float, places: list[slice], order: tuple[int, int]) -> Array:
        """|M_i|v_i for all blocks, with the axes of the blocks in this order."""
        if self._stack is None:
            pairs = zip(self.matrices, places, strict=True)
            return np.concatenate([raised(matrix.transpose(order), power) @ v[at] for matrix, at in pairs])
        stack, columns = self._stack.transpose(0, *(1 + k for k in order)), v.reshape(len(self._stack), -1, 1)
        return np.concatenate([(raised(stack[at], power) @ columns[at]).ravel() for at in self._sheets()])

    def _sheets(self) -> Iterator[slice]:
        """A few blocks at a time, to avoid a copy of all of M."""
        together = max(1, SHEET // self.matrices[0].size)
        return (slice(k, k + together) for k in range(0, len(self.matrices), together))

    def formed(self) -> Any:
        """The matrix as CSR."""
        return sp.csr_array(sp.block_diag(self.matrices, format="csr"))

    def stored(self, most: int) -> Operator | None:
        return Sparse(self.formed()) if self.work <= most else None

    def dense(self) -> Array:
        return scipy.linalg.block_diag(*self.matrices)

    def lowered(self) -> tuple[Any, ...]:
        """("block-diagonal", entries, and the start of each block in them, in the rows and in the columns)."""
        ends = [[0, *(block.stop for block in blocks)] for blocks in (self.row_blocks, self.column_blocks)]
        at = np.cumsum([0, *(matrix.size for matrix in self.matrices)])
        return "block-diagonal", as_entries(self.entries), *(np.array(e, np.int64) for e in (at, *ends))

    def parts(self) -> list[Dense]:
        """The blocks; together, their singular values are those of the whole matrix."""
        return [Dense(matrix) for matrix in self.matrices]
