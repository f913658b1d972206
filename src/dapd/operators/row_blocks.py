"""Maps on top of each other."""

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
from dapd.operators.explicit import joined, total_entries


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
        return all(operator.divisible for operator in self.operators)

    def placed_parts(self) -> list[Placed]:
        columns = slice(0, self.shape[1])
        return [Placed(part, own, columns) for part, own in zip(self.operators, self.blocks, strict=True)]

    def bands(self) -> list[tuple[Operator, slice]]:
        return [
            (part, slice(at.start + own.start, at.start + own.stop))
            for block, at in zip(self.operators, self.blocks, strict=True)
            for part, own in block.bands()
        ]

    def forward(self, x: Array) -> Array:
        """M_i x for all blocks, concatenated."""
        return np.concatenate([operator.forward(x) for operator in self.operators])

    def adjoint(self, y: Array) -> Array:
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
        return np.concatenate([operator.dense() for operator in self.operators])

    def lowered(self) -> tuple[Any, ...] | None:
        """("stacked", (rows, record), …) if all blocks are dense, CSR or an identity, else None."""
        parts = [(operator.shape[0], operator.lowered()) for operator in self.operators]
        fit = all(part is not None and part[0] in ("dense", "csr", "identity") for _, part in parts)
        return ("stacked", *parts) if fit else None

    def stored(self, most: int) -> Operator | None:
        return joined(self.operators, 0, most)
