"""Maps whose matrix is stored, and the records of matrices for the native core."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from dapd.arrays import Array
from dapd.operators.base import Operator
from dapd.operators.sizes import SHEET, magnitudes, norms_of_rows, outer, raised


class _Explicit(Operator):
    matrix: Any
    divisible = True

    @property
    def stored_matrix(self) -> Any:
        return self.matrix

    @property
    def probes(self) -> int:
        return 0


class Dense(_Explicit):
    """A NumPy array, not copied."""

    def __init__(self, matrix: Array) -> None:
        self.matrix = matrix
        self.shape = (matrix.shape[0], matrix.shape[1])
        self.dtype = matrix.dtype

    @property
    def work(self) -> int:
        return int(self.matrix.size)

    def forward(self, x: Array) -> Array:
        if x.dtype == self.dtype or not len(self.matrix):
            return self.matrix @ x
        return np.concatenate([self.matrix[rows] @ x for rows in self._panels()])

    def adjoint(self, y: Array) -> Array:
        if y.dtype == self.dtype:
            return y @ self.matrix
        total = np.zeros(self.shape[1], np.result_type(self.dtype, y))
        for rows in self._panels():
            total += y[rows] @ self.matrix[rows]
        return total

    @cached_property
    def row_norms(self) -> Array:
        return norms_of_rows(self.matrix)

    def row_sizes(self, x: Array, power: float = 1) -> Array:
        return magnitudes(self.matrix, x, power)

    def column_sizes(self, y: Array, power: float = 1) -> Array:
        return magnitudes(self.matrix.T, y, power)

    def _panels(self) -> Iterator[slice]:
        """Panels of rows, so a product in another precision never converts all of M at once."""
        height = max(1, SHEET // self.shape[1])
        return (slice(k, k + height) for k in range(0, self.shape[0], height))

    def columns(self, block: slice) -> Operator:
        return Dense(self.matrix[:, block])

    def dense(self) -> Array:
        return self.matrix

    def outer(self) -> Array:
        return outer(self.matrix)

    def stored(self, most: int) -> Operator | None:
        return self

    def lowered(self) -> tuple[Any, ...]:
        """("dense", entries in C order, whether they belong to the transpose)."""
        if self.matrix.flags.f_contiguous and not self.matrix.flags.c_contiguous:
            return "dense", as_entries(self.matrix.T), True
        return "dense", as_entries(self.matrix), False

    def transposed(self) -> Operator:
        return Dense(self.matrix.T)


class Sparse(_Explicit):
    """A SciPy sparse matrix or array, stored as CSR; the transpose is a view of it."""

    def __init__(self, matrix: Any) -> None:
        self.matrix = matrix
        self.transpose = matrix.T
        self.shape = matrix.shape
        self.dtype = matrix.dtype

    @property
    def work(self) -> int:
        return int(self.matrix.nnz)

    def forward(self, x: Array) -> Array:
        return self.matrix @ x

    def adjoint(self, y: Array) -> Array:
        return self.transpose @ y

    @cached_property
    def row_norms(self) -> Array:
        matrix = self.matrix
        peak = max(abs(float(matrix.data.min())), abs(float(matrix.data.max()))) if matrix.nnz else 1.0
        scaled = matrix.data.astype(np.float64) / (peak or 1.0)
        squares = sp.csr_array((scaled * scaled, matrix.indices, matrix.indptr), shape=self.shape)
        return (peak or 1.0) * np.sqrt(squares @ np.ones(self.shape[1]))

    def row_sizes(self, x: Array, power: float = 1) -> Array:
        return self._magnitudes(power) @ abs(x)

    def column_sizes(self, y: Array, power: float = 1) -> Array:
        return self._magnitudes(power).T @ abs(y)

    def _magnitudes(self, power: float) -> Any:
        """|M|, entry by entry to this power, without a copy of its pattern; kept if it is small."""
        if self.matrix.nnz > SHEET:
            return to_power(self.matrix, power)
        return self.memory.once(to_power, power, lambda: to_power(self.matrix, power))

    def columns(self, block: slice) -> Operator:
        return Sparse(self.matrix[:, block])

    def dense(self) -> Array:
        return self.matrix.toarray()

    def sparse(self) -> Any:
        return self.matrix

    def outer(self) -> Array:
        matrix = self.matrix.astype(np.float64)
        return (matrix @ matrix.T).toarray()

    def stored(self, most: int) -> Operator | None:
        return self

    def lowered(self) -> tuple[Any, ...]:
        """("csr", indptr, indices, values)."""
        return csr_record(self.matrix)

    def transposed(self) -> Operator:
        return Sparse(self.transpose.tocsr())


def to_power(matrix: Any, power: float) -> Any:
    """The magnitudes of the entries of an array or a CSR matrix to a power, without a copy of its pattern."""
    if not sp.issparse(matrix):
        return raised(matrix, power)
    return sp.csr_array((raised(matrix.data, power), matrix.indices, matrix.indptr), shape=matrix.shape)


def as_entries(matrix: Array, dtype: Any = None) -> Array:
    """The array as the core needs it: in C order, aligned, in native byte order; a copy only if necessary."""
    return np.require(matrix, np.dtype(dtype or matrix.dtype).newbyteorder("="), ["C", "A"])


def csr_record(matrix: Any) -> tuple[Any, ...]:
    """("csr", indptr, indices, values) of a SciPy CSR array."""
    return "csr", *short_indices(matrix.indptr, matrix.indices), as_entries(matrix.data)


def short_indices(indptr: Array, indices: Array) -> tuple[Array, Array]:
    """Both with 32 bits if these are enough, since that is half as much to read, else with 64."""
    greatest = np.iinfo(np.int32).max
    short = indices.size <= greatest and (indices.dtype == np.int32 or indices.max(initial=0) <= greatest)
    wanted = np.dtype(np.int32 if short else np.int64)
    return as_entries(indptr, wanted), as_entries(indices, wanted)


def record_of(M: Operator) -> tuple[Any, ...] | None:
    """A matrix as the core reads it, if it need not be copied."""
    if isinstance(M, Dense) and M.matrix.size and (M.matrix.flags.c_contiguous or M.matrix.flags.f_contiguous):
        entries = M.matrix if M.matrix.flags.c_contiguous else M.matrix.T
        return ("dense", entries, not M.matrix.flags.c_contiguous) if _is_plain(entries) else None
    if isinstance(M, Sparse) and M.matrix.indices.dtype == M.matrix.indptr.dtype == np.int32:
        return ("csr", M.matrix.indptr, M.matrix.indices, M.matrix.data) if _is_plain(M.matrix.data) else None
    return None


def _is_plain(entries: Array) -> bool:
    return bool(entries.dtype in (np.float32, np.float64) and entries.flags.aligned and entries.dtype.isnative)
