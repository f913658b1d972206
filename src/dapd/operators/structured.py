"""Maps whose matrix has structure: rows of an identity, Kronecker products, and dense blocks along a diagonal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from dapd.arguments import consecutive, named, whole
from dapd.arrays import Array
from dapd.operators.base import Operator, Placed
from dapd.operators.convert import matrix_of
from dapd.operators.explicit import Dense, Sparse, as_entries
from dapd.operators.sizes import SHEET, norms_of_rows, raised


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
        return self.start

    @property
    def probes(self) -> int:
        return 0

    @property
    def work(self) -> int:
        return self.shape[0]

    def forward(self, x: Array) -> Array:
        return x[self._own].copy()

    def adjoint(self, y: Array) -> Array:
        full = np.zeros(self.shape[1], y.dtype)
        full[self._own] = y
        return full

    @cached_property
    def row_norms(self) -> Array:
        return np.ones(self.shape[0])

    def row_sizes(self, x: Array, power: float = 1) -> Array:
        return abs(x[self._own])

    def column_sizes(self, y: Array, power: float = 1) -> Array:
        return self.adjoint(abs(y))

    def sparse(self) -> Any:
        return sp.eye_array(*self.shape, k=self.start, format="csr")

    def stored(self, most: int) -> Operator | None:
        return Sparse(self.sparse().astype(self.dtype))

    def dense(self) -> Array:
        return np.eye(*self.shape, k=self.start)

    def lowered(self) -> tuple[Any, ...]:
        """("identity", rows, first column)."""
        return "identity", self.shape[0], self.start


class Kronecker(Operator):
    """A ⊗ B, never formed: (A ⊗ B)x = (A X Bᵀ) where x holds the rows of X one after the other.

    In the column-by-column convention, vec(BXAᵀ) = (A ⊗ B) vec(X).

    Parameters
    ----------
    A : dense matrix
        The first factor.
    B : dense matrix or int
        The second factor; an integer k stands for the k × k identity.
    """

    @named
    def __init__(self, A: Any, B: Any) -> None:
        self.A = matrix_of("A", A)
        self.B = None if isinstance(B, (int, np.integer)) else matrix_of("B", B)
        p, q = (whole("B", B, least=1),) * 2 if self.B is None else self.B.shape
        self.shape = (self.A.shape[0] * p, self.A.shape[1] * q)
        self.dtype = self.A.dtype if self.B is None else np.result_type(self.A, self.B)

    @property
    def work(self) -> int:
        (p, q), width = self.A.shape, self.shape[1] // self.A.shape[1]
        return int(p * q * width + (0 if self.B is None else p * self.B.size))

    @property
    def entry_count(self) -> int:
        """How many entries the matrix has that are not zero because of its structure."""
        return int(self.A.size * (self.shape[1] // self.A.shape[1] if self.B is None else self.B.size))

    def forward(self, x: Array) -> Array:
        X = self.A @ x.reshape(self.A.shape[1], -1)
        return (X if self.B is None else X @ self.B.T).ravel()

    def adjoint(self, y: Array) -> Array:
        Y = self.A.T @ y.reshape(self.A.shape[0], -1)
        return (Y if self.B is None else Y @ self.B).ravel()

    def formed(self) -> Any:
        """The matrix as CSR."""
        B = sp.eye_array(self.shape[0] // self.A.shape[0], dtype=self.dtype) if self.B is None else sp.csr_array(self.B)
        # without the format, blocks would be stored with their zeros
        return sp.csr_array(sp.kron(sp.csr_array(self.A), B, format="csr"))

    def stored(self, most: int) -> Operator | None:
        return Sparse(self.formed()) if self.entry_count <= most else None

    def lowered(self) -> tuple[Any, ...]:
        """("kronecker", A, B or None, rows and columns of B)."""
        p, q = self.A.shape
        B = None if self.B is None else as_entries(self.B, self.dtype)
        return "kronecker", as_entries(self.A, self.dtype), B, self.shape[0] // p, self.shape[1] // q

    @cached_property
    def row_norms(self) -> Array:
        other = np.ones(self.shape[0] // len(self.A)) if self.B is None else norms_of_rows(self.B)
        return np.outer(norms_of_rows(self.A), other).ravel()

    def row_sizes(self, x: Array, power: float = 1) -> Array:
        X = raised(self.A, power) @ abs(x).reshape(self.A.shape[1], -1)
        return (X if self.B is None else X @ raised(self.B.T, power)).ravel()

    def column_sizes(self, y: Array, power: float = 1) -> Array:
        Y = raised(self.A.T, power) @ abs(y).reshape(self.A.shape[0], -1)
        return (Y if self.B is None else Y @ raised(self.B, power)).ravel()

    def factors(self) -> list[Dense]:
        """The factors that are not an identity; the singular values of A ⊗ B are the products of theirs."""
        return [Dense(factor) for factor in (self.A, self.B) if factor is not None]


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
