"""Maps of any kind on top of each other or side by side, and the blocks of columns of a matrix."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, reduce
from typing import Any

import numpy as np
import scipy.sparse as sp

from dapd.arguments import consecutive, named
from dapd.arrays import Array
from dapd.operators.base import Operator, Placed, stored
from dapd.operators.convert import as_operator
from dapd.operators.explicit import Dense, Sparse


class _Blocks(Operator):
    """Maps of any kind that follow each other along the rows (axis 0) or the columns (axis 1)."""

    axis: int

    def _set(self, blocks: Sequence[Any]) -> None:
        if len(blocks) == 0:
            raise ValueError("blocks is empty; give at least one matrix")
        self.operators = [as_operator(block, name=f"blocks[{i}]") for i, block in enumerate(blocks)]
        across = {operator.shape[1 - self.axis] for operator in self.operators}
        if len(across) > 1:
            raise ValueError(f"blocks have different numbers of {('columns', 'rows')[self.axis]}: {sorted(across)}")
        self.blocks = consecutive(operator.shape[self.axis] for operator in self.operators)
        sizes = self.blocks[-1].stop, across.pop()
        self.shape = (sizes[self.axis], sizes[1 - self.axis])
        self.dtype = np.result_type(*(operator.dtype for operator in self.operators))

    @property
    def probes(self) -> int:
        return sum(operator.probes for operator in self.operators)

    @property
    def entry_count(self) -> int | None:
        counts = [operator.entry_count for operator in self.operators]
        known = [count for count in counts if count is not None]
        return sum(known) if len(known) == len(counts) else None

    @property
    def divisible(self) -> bool:
        return all(operator.divisible for operator in self.operators)

    def placed_parts(self) -> list[Placed]:
        across = slice(0, self.shape[1 - self.axis])
        places = [(own, across) if self.axis == 0 else (across, own) for own in self.blocks]
        return [Placed(part, *place) for part, place in zip(self.operators, places, strict=True)]

    def forward(self, x: Array) -> Array:
        return np.asarray(self._products("forward", x, joined=self.axis == 0))

    def adjoint(self, y: Array) -> Array:
        return np.asarray(self._products("adjoint", y, joined=self.axis == 1))

    def row_sizes(self, x: Array, power: float = 1) -> Array | None:
        return self._products("row_sizes", x, power, joined=self.axis == 0)

    def column_sizes(self, y: Array, power: float = 1) -> Array | None:
        return self._products("column_sizes", y, power, joined=self.axis == 1)

    def _products(self, name: str, v: Array, *power: float, joined: bool) -> Array | None:
        """Products or sizes of the blocks, joined or added up; None if those of one are not known."""
        if joined:
            parts = [getattr(operator, name)(v, *power) for operator in self.operators]
            return None if any(part is None for part in parts) else np.concatenate(parts)
        total = np.zeros(self.shape[1 - self.axis], np.float64 if power else np.result_type(self.dtype, v))
        for operator, block in zip(self.operators, self.blocks, strict=True):
            own = getattr(operator, name)(v[block], *power)
            if own is None:
                return None
            total += own
        return total

    def dense(self) -> Array:
        return np.concatenate([operator.dense() for operator in self.operators], axis=self.axis)

    def stored(self, most: int) -> Operator | None:
        """Dense if all blocks are."""
        found = [stored(operator, most) for operator in self.operators]
        matrices = [one.matrix for one in found if isinstance(one, (Dense, Sparse))]
        sizes = [matrix.nnz if sp.issparse(matrix) else matrix.size for matrix in matrices]
        if len(matrices) < len(found) or sum(sizes) > most:
            return None
        if not any(map(sp.issparse, matrices)):
            return Dense(np.concatenate(matrices, axis=self.axis))
        stack = (sp.vstack, sp.hstack)[self.axis]
        return Sparse(sp.csr_array(stack([sp.csr_array(matrix) for matrix in matrices], format="csr")))


class RowBlocks(_Blocks):
    """M_1 … M_N on top of each other, each of any kind: rows of different kinds in one coupling."""

    axis = 0

    @named
    def __init__(self, blocks: Sequence[Any]) -> None:
        self._set(blocks)

    @property
    def work(self) -> int:
        return sum(operator.work for operator in self.operators)

    def bands(self) -> list[tuple[Operator, slice]]:
        return [
            (part, slice(at.start + own.start, at.start + own.stop))
            for block, at in zip(self.operators, self.blocks, strict=True)
            for part, own in block.bands()
        ]

    @cached_property
    def row_norms(self) -> Array:
        return np.concatenate([operator.row_norms for operator in self.operators])

    def sparse(self) -> Any:
        matrices = [operator.sparse() for operator in self.operators]
        return None if any(matrix is None for matrix in matrices) else sp.vstack(matrices, format="csr")

    def lowered(self) -> tuple[Any, ...] | None:
        """("stacked", (rows, record), …) if all blocks are dense, CSR or an identity, else None."""
        parts = [(operator.shape[0], operator.lowered()) for operator in self.operators]
        fit = all(part is not None and part[0] in ("dense", "csr", "identity") for _, part in parts)
        return ("stacked", *parts) if fit else None


class ColumnBlocks(_Blocks):
    """(M_1 … M_N) side by side, each of any kind; they also define the blocks of x."""

    axis = 1

    @named
    def __init__(self, blocks: Sequence[Any]) -> None:
        self._set(blocks)

    @property
    def column_partition(self) -> list[slice]:
        return self.blocks

    @cached_property
    def row_norms(self) -> Array:
        return np.asarray(reduce(np.hypot, [operator.row_norms for operator in self.operators]))

    def divides(self, blocks: list[slice]) -> bool:
        """Also true if `blocks` are the blocks of this map."""
        return super().divides(blocks) or blocks == self.blocks

    def columns(self, block: slice) -> Operator:
        return self.operators[self.blocks.index(block)] if block in self.blocks else super().columns(block)

    def sparse(self) -> Any:
        matrices = [operator.matrix for operator in self.operators if isinstance(operator, Sparse)]
        return sp.hstack(matrices, format="csr") if len(matrices) == len(self.operators) else None

    def outer(self) -> Array:
        return sum((operator.outer() for operator in self.operators), np.zeros((self.shape[0],) * 2))


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
    sparse = any(map(sp.issparse, matrices))
    return split_columns(sp.hstack(matrices).tocsc() if sparse else np.concatenate(matrices, axis=1), blocks)
