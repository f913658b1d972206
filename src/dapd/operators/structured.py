"""Couplings with structure: Kronecker products and block-diagonal matrices."""

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
        identity = isinstance(B, (int, np.integer))
        self.B = None if identity else matrix_of("B", B)
        p, q = (whole("B", B, least=1),) * 2 if self.B is None else self.B.shape
        self.shape = (self.A.shape[0] * p, self.A.shape[1] * q)
        self.dtype = self.A.dtype if self.B is None else np.result_type(self.A, self.B)

    @property
    def work(self) -> int:
        """The multiplications of the product with A plus those with B."""
        (p, q), width = self.A.shape, self.shape[1] // self.A.shape[1]
        return int(p * q * width + (0 if self.B is None else p * self.B.size))

    @property
    def entry_count(self) -> int:
        """How many entries the matrix has that are not zero because of its structure."""
        return int(self.A.size * (self.shape[1] // self.A.shape[1] if self.B is None else self.B.size))

    def forward(self, x: Array) -> Array:
        """A X Bᵀ."""
        X = self.A @ x.reshape(self.A.shape[1], -1)
        return (X if self.B is None else X @ self.B.T).ravel()

    def adjoint(self, y: Array) -> Array:
        """Aᵀ Y B."""
        Y = self.A.T @ y.reshape(self.A.shape[0], -1)
        return (Y if self.B is None else Y @ self.B).ravel()

    def formed(self) -> Any:
        """The matrix as CSR."""
        B = sp.eye_array(self.shape[0] // self.A.shape[0], dtype=self.dtype) if self.B is None else sp.csr_array(self.B)
        # without the format, blocks would be stored with their zeros
        return sp.csr_array(sp.kron(sp.csr_array(self.A), B, format="csr"))

    def stored(self, most: int) -> Operator | None:
        """The matrix as CSR."""
        return Sparse(self.formed()) if self.entry_count <= most else None

    def lowered(self) -> tuple[Any, ...]:
        """("kronecker", A, B or None, rows and columns of B)."""
        p, q = self.A.shape
        B = None if self.B is None else as_entries(self.B, self.dtype)
        return "kronecker", as_entries(self.A, self.dtype), B, self.shape[0] // p, self.shape[1] // q

    @cached_property
    def row_norms(self) -> Array:
        """The products of the row norms of the factors."""
        other = np.ones(self.shape[0] // len(self.A)) if self.B is None else norms_of_rows(self.B)
        return np.outer(norms_of_rows(self.A), other).ravel()

    def row_sizes(self, x: Array, power: float = 1) -> Array:
        """|A||X||B|ᵀ."""
        X = raised(self.A, power) @ abs(x).reshape(self.A.shape[1], -1)
        return (X if self.B is None else X @ raised(self.B.T, power)).ravel()

    def column_sizes(self, y: Array, power: float = 1) -> Array:
        """|A|ᵀ|Y||B|."""
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
        """One per entry of the blocks."""
        return int(self.entries.size)

    @property
    def entry_count(self) -> int:
        """Those of the blocks."""
        return self.work

    def placed_parts(self) -> list[Placed]:
        """The blocks."""
        return list(map(Placed, self.parts(), self.row_blocks, self.column_blocks))

    def forward(self, x: Array) -> Array:
        """M_i x_i for all blocks, concatenated."""
        if self._stack is not None:
            return (self._stack @ x.reshape(len(self._stack), -1, 1)).ravel()
        return np.concatenate([m @ x[block] for m, block in zip(self.matrices, self.column_blocks, strict=True)])

    def adjoint(self, y: Array) -> Array:
        """M_iᵀ y_i for all blocks, concatenated."""
        if self._stack is not None:
            return (y.reshape(len(self._stack), 1, -1) @ self._stack).ravel()
        return np.concatenate([y[block] @ m for m, block in zip(self.matrices, self.row_blocks, strict=True)])

    @cached_property
    def row_norms(self) -> Array:
        """The row norms of the blocks, concatenated."""
        return np.concatenate([norms_of_rows(matrix) for matrix in self.matrices])

    def row_sizes(self, x: Array, power: float = 1) -> Array:
        """|M_i||x_i| for all blocks, concatenated."""
        if self._stack is None:
            places = zip(self.matrices, self.column_blocks, strict=True)
            return np.concatenate([raised(matrix, power) @ abs(x[at]) for matrix, at in places])
        columns = abs(x).reshape(len(self._stack), -1, 1)
        return np.concatenate([(raised(self._stack[at], power) @ columns[at]).ravel() for at in self._sheets()])

    def column_sizes(self, y: Array, power: float = 1) -> Array:
        """|M_i|ᵀ|y_i| for all blocks, concatenated."""
        if self._stack is None:
            places = zip(self.matrices, self.row_blocks, strict=True)
            return np.concatenate([abs(y[at]) @ raised(matrix, power) for matrix, at in places])
        rows = abs(y).reshape(len(self._stack), 1, -1)
        return np.concatenate([(rows[at] @ raised(self._stack[at], power)).ravel() for at in self._sheets()])

    def _sheets(self) -> Iterator[slice]:
        """A few blocks at a time, to avoid a copy of all of M."""
        together = max(1, SHEET // self.matrices[0].size)
        return (slice(k, k + together) for k in range(0, len(self.matrices), together))

    def formed(self) -> Any:
        """The matrix as CSR."""
        return sp.csr_array(sp.block_diag(self.matrices, format="csr"))

    def stored(self, most: int) -> Operator | None:
        """The matrix as CSR."""
        return Sparse(self.formed()) if self.work <= most else None

    def dense(self) -> Array:
        """The matrix with its zeros."""
        return scipy.linalg.block_diag(*self.matrices)

    def lowered(self) -> tuple[Any, ...]:
        """("block-diagonal", entries, and the start of each block in them, in the rows and in the columns)."""
        ends = [[0, *(block.stop for block in blocks)] for blocks in (self.row_blocks, self.column_blocks)]
        at = np.cumsum([0, *(matrix.size for matrix in self.matrices)])
        return "block-diagonal", as_entries(self.entries), *(np.array(e, np.int64) for e in (at, *ends))

    def parts(self) -> list[Dense]:
        """The blocks; together, their singular values are those of the whole matrix."""
        return [Dense(matrix) for matrix in self.matrices]
