"""Maps stacked on top of each other, and rows of an identity, which need no matrix."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from dapd.arguments import consecutive, named, whole
from dapd.arrays import Array
from dapd.operators.base import Operator, Placed
from dapd.operators.convert import as_operator
from dapd.operators.explicit import Sparse, joined, total_entries


class Identity(Operator):
    """The entries start … start + rows − 1 of x; all of x if only `columns` is given.

    As a part of `RowBlocks` it puts bounds on x without storing a matrix.
    """

    divisible = True

    @named
    def __init__(self, columns: int, *, rows: int | None = None, start: int = 0) -> None:
        columns, start = whole("columns", columns, least=1), whole("start", start, least=0)
        rows = columns - start if rows is None else whole("rows", rows, least=1)
        if start + rows > columns or rows < 1:
            raise ValueError(
                f"{rows} rows from column {start} on need more than {columns} columns; reduce rows or start"
            )
        self.shape, self.start = (rows, columns), start
        self.dtype = np.dtype(np.float32)  # ones are exact in any precision, so the other rows decide the dtype

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.shape[0]} × {self.shape[1]})"  # its dtype is that of the problem

    @property
    def _own(self) -> slice:
        return slice(self.start, self.start + self.shape[0])

    @property
    def identity_start(self) -> int:
        """The column of the first row."""
        return self.start

    @property
    def probes(self) -> int:
        """0, since the matrix is known."""
        return 0

    @property
    def work(self) -> int:
        """One per row."""
        return self.shape[0]

    def forward(self, x: Array) -> Array:
        """The entries start … start + rows − 1 of x."""
        return x[self._own].copy()

    def adjoint(self, y: Array) -> Array:
        """The entries of y at these positions, zeros elsewhere."""
        full = np.zeros(self.shape[1], y.dtype)
        full[self._own] = y
        return full

    @cached_property
    def row_norms(self) -> Array:
        """Ones."""
        return np.ones(self.shape[0])

    def row_sizes(self, x: Array, power: float = 1) -> Array:
        """|x| at these entries."""
        return abs(x[self._own])

    def column_sizes(self, y: Array, power: float = 1) -> Array:
        """|y| at these entries, zeros elsewhere."""
        return self.adjoint(abs(y))

    def sparse(self) -> Any:
        """The matrix as CSR."""
        return sp.eye_array(*self.shape, k=self.start, format="csr")

    def stored(self, most: int) -> Operator | None:
        """The matrix as CSR."""
        return Sparse(self.sparse().astype(self.dtype))

    def dense(self) -> Array:
        """The matrix as an array."""
        return np.eye(*self.shape, k=self.start)

    def lowered(self) -> tuple[Any, ...]:
        """("identity", rows, first column)."""
        return "identity", self.shape[0], self.start


class RowBlocks(Operator):
    """M_1 … M_N on top of each other, each of any kind: rows of different kinds in one coupling."""

    @named
    def __init__(self, blocks: Sequence[Any]) -> None:
        if len(blocks) == 0:
            raise ValueError("blocks is empty; give at least one matrix")
        self.operators = [as_operator(block, name=f"blocks[{i}]") for i, block in enumerate(blocks)]
        columns = {operator.shape[1] for operator in self.operators}
        if len(columns) > 1:
            raise ValueError(f"blocks have different numbers of columns: {sorted(columns)}")
        self.blocks = consecutive(operator.shape[0] for operator in self.operators)
        self.shape = (self.blocks[-1].stop, columns.pop())
        self.dtype = np.result_type(*(operator.dtype for operator in self.operators))

    @property
    def probes(self) -> int:
        """The number of products that `dense` makes, summed over the blocks."""
        return sum(operator.probes for operator in self.operators)

    @property
    def work(self) -> int:
        """The number of multiplications, summed over the blocks."""
        return sum(operator.work for operator in self.operators)

    @property
    def entry_count(self) -> int | None:
        """The sum over the blocks; None if one is not known."""
        return total_entries(self.operators)

    @property
    def divisible(self) -> bool:
        """Whether all blocks are."""
        return all(operator.divisible for operator in self.operators)

    def placed_parts(self) -> list[Placed]:
        """The blocks."""
        columns = slice(0, self.shape[1])
        return [Placed(part, own, columns) for part, own in zip(self.operators, self.blocks, strict=True)]

    def bands(self) -> list[tuple[Operator, slice]]:
        """The bands of the blocks."""
        return [
            (part, slice(at.start + own.start, at.start + own.stop))
            for block, at in zip(self.operators, self.blocks, strict=True)
            for part, own in block.bands()
        ]

    def forward(self, x: Array) -> Array:
        """M_i x for all blocks, concatenated."""
        return np.concatenate([operator.forward(x) for operator in self.operators])

    def adjoint(self, y: Array) -> Array:
        """Σ M_iᵀ y_i."""
        total = np.zeros(self.shape[1], np.result_type(self.dtype, y))
        for operator, block in zip(self.operators, self.blocks, strict=True):
            total += operator.adjoint(y[block])
        return total

    @cached_property
    def row_norms(self) -> Array:
        """The row norms of the blocks, concatenated."""
        return np.concatenate([operator.row_norms for operator in self.operators])

    def row_sizes(self, x: Array, power: float = 1) -> Array | None:
        """The row sizes of the blocks, concatenated; None if the entries of one are not known."""
        parts = [operator.row_sizes(x, power) for operator in self.operators]
        known = [part for part in parts if part is not None]
        return np.concatenate(known) if len(known) == len(parts) else None

    def column_sizes(self, y: Array, power: float = 1) -> Array | None:
        """The sum over the blocks; None if the entries of one are not known."""
        total = np.zeros(self.shape[1])
        for operator, block in zip(self.operators, self.blocks, strict=True):
            sizes = operator.column_sizes(y[block], power)
            if sizes is None:
                return None
            total += sizes
        return total

    def sparse(self) -> Any:
        """The blocks on top of each other if all of them are sparse, else None."""
        matrices = [operator.sparse() for operator in self.operators]
        return None if any(matrix is None for matrix in matrices) else sp.vstack(matrices, format="csr")

    def dense(self) -> Array:
        """The blocks in one array."""
        return np.concatenate([operator.dense() for operator in self.operators])

    def lowered(self) -> tuple[Any, ...] | None:
        """("stacked", (rows, record), …) if all blocks are dense, CSR or an identity, else None."""
        parts = [(operator.shape[0], operator.lowered()) for operator in self.operators]
        fit = all(part is not None and part[0] in ("dense", "csr", "identity") for _, part in parts)
        return ("stacked", *parts) if fit else None

    def stored(self, most: int) -> Operator | None:
        """The blocks in one matrix."""
        return joined(self.operators, 0, most)
