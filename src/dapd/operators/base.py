"""Linear maps: `forward` (Mx) and `adjoint` (Mᵀy)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from dapd.arguments import real
from dapd.arrays import Array, on_device
from dapd.operators.sizes import magnitudes, norms_of_rows

PANEL = 1 << 18  # entries of M that are converted at a time if x and M have different dtypes
CANCELLED = 1e3  # roundings within which a sum of terms counts as zero
SKETCHES = 8  # products used to estimate the row norms of a matrix-free map


class Operator:
    """A real linear map of `shape` (rows, columns)."""

    shape: tuple[int, int]
    dtype: np.dtype[Any]

    @cached_property
    def memory(self) -> dict[str, Any]:
        """Stored facts about the map, such as its singular values, so they are computed only once."""
        return {}

    def __getstate__(self) -> dict[str, Any]:
        """Without what is stored, some of which belongs to a device."""
        return {name: value for name, value in vars(self).items() if name != "memory"}

    @property
    def probes(self) -> int:
        """The number of products that `dense` makes; 0 if the matrix is stored."""
        return min(self.shape)

    @property
    def work(self) -> int:
        """The number of multiplications in a product with M; 0 if unknown."""
        return 0

    def forward(self, x: Array) -> Array:
        """Mx."""
        raise TypeError(f"{type(self).__name__} has no forward(x)")

    def adjoint(self, y: Array) -> Array:
        """Mᵀy."""
        raise TypeError(f"{type(self).__name__} has no adjoint(y)")

    def dual_step(self, v: Array, base: Array, phi: Any, step: float) -> tuple[Array, Array]:
        """y⁺ = prox_{step·φ}(base + Mv), together with Mᵀy⁺."""
        y = phi.prox(base + self.forward(v), step)
        return y, self.adjoint(y)

    @cached_property
    def row_norms(self) -> Array:
        """‖M_i‖₂ of each row; estimated from products with random signs if the entries are not known."""
        signs = np.random.default_rng(0).choice([-1.0, 1.0], (SKETCHES, self.shape[1]))
        squares = sum(self.forward(v.astype(self.dtype)).astype(np.float64) ** 2 for v in signs)
        return np.asarray(np.sqrt(squares / SKETCHES))

    def row_sizes(self, x: Array) -> Array | None:
        """Σ_j |M_ij x_j| of each row; None if the entries are not known."""
        return None

    def column_sizes(self, y: Array) -> Array | None:
        """Σ_i |M_ij y_i| of each column; None if the entries are not known."""
        return None

    @property
    def rounding(self) -> float:
        """The part of its terms' sizes within which an entry of a product in float64 counts as zero."""
        # the products of a matrix-free map may be in its own precision
        return CANCELLED * float(np.finfo(self.dtype if self.probes else np.float64).eps)

    def cancels(self, product: Array, x: Array) -> Array:
        """Whether each entry of product = Mx is zero up to the rounding of Σ_j M_ij x_j."""
        entries = self.row_sizes(x)
        sizes = self.row_norms * float(np.linalg.norm(x)) if entries is None else entries
        return np.asarray(abs(product) <= self.rounding * sizes)

    def columns(self, block: slice) -> Operator:
        """The map restricted to a block of columns."""
        return _Columns(self, block)

    def divides(self, blocks: list[slice]) -> bool:
        """Whether a product with one of these blocks of columns uses only that block, not all of M."""
        return self.probes == 0

    def dense(self) -> Array:
        """The matrix as an array, by one product per row or per column."""
        rows, columns = self.shape
        matrix = np.empty(self.shape)
        if rows <= columns:
            for k, unit in enumerate(_identity(rows)):
                matrix[k] = self.adjoint(unit)
        else:
            for k, unit in enumerate(_identity(columns)):
                matrix[:, k] = self.forward(unit)
        return matrix

    def outer(self) -> Array:
        """MMᵀ as a dense array in float64."""
        return Dense(self.dense()).outer()

    def lowered(self) -> tuple[Any, ...] | None:
        """A record for the native core, its kind first; None if the products are only available in Python."""
        return None

    def sparse(self) -> Any:
        """The matrix as CSR if it is stored as a sparse matrix, else None."""
        return None

    def transposed(self) -> Operator:
        """Mᵀ as an operator."""
        return _Transpose(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.shape[0]} × {self.shape[1]}, {self.dtype})"


class _Explicit(Operator):
    """A map whose matrix is stored."""

    @property
    def probes(self) -> int:
        """0, since the matrix is stored."""
        return 0


class Dense(_Explicit):
    """A NumPy array, not copied."""

    def __init__(self, matrix: Array) -> None:
        self.matrix = matrix
        self.shape = (matrix.shape[0], matrix.shape[1])
        self.dtype = matrix.dtype

    @property
    def work(self) -> int:
        """One per entry."""
        return int(self.matrix.size)

    def forward(self, x: Array) -> Array:
        """Mx."""
        if x.dtype == self.dtype or not len(self.matrix):
            return self.matrix @ x
        return np.concatenate([self.matrix[rows] @ x for rows in self._panels()])

    def adjoint(self, y: Array) -> Array:
        """Mᵀy, as y @ M."""
        if y.dtype == self.dtype:
            return y @ self.matrix
        total = np.zeros(self.shape[1], np.result_type(self.dtype, y))
        for rows in self._panels():
            total += y[rows] @ self.matrix[rows]
        return total

    @cached_property
    def row_norms(self) -> Array:
        """The norm of each row."""
        return norms_of_rows(self.matrix)

    def row_sizes(self, x: Array) -> Array:
        """|M||x|."""
        return magnitudes(self.matrix, x)

    def column_sizes(self, y: Array) -> Array:
        """|M|ᵀ|y|."""
        return magnitudes(self.matrix.T, y)

    def _panels(self) -> Iterator[slice]:
        """Panels of rows, so a product in another precision never converts all of M at once."""
        height = max(1, PANEL // self.shape[1])
        return (slice(k, k + height) for k in range(0, self.shape[0], height))

    def columns(self, block: slice) -> Operator:
        """A view of the columns."""
        return Dense(self.matrix[:, block])

    def dense(self) -> Array:
        """The array itself."""
        return self.matrix

    def outer(self) -> Array:
        """MMᵀ, summed over panels of columns."""
        rows, columns = self.shape
        total = np.zeros((rows, rows))
        width = max(rows, PANEL // rows)
        for k in range(0, columns, width):
            part = self.matrix[:, k : k + width].astype(np.float64, copy=False)
            total += part @ part.T
        return total

    def lowered(self) -> tuple[Any, ...]:
        """("dense", entries in C order, whether they belong to the transpose)."""
        if self.matrix.flags.f_contiguous and not self.matrix.flags.c_contiguous:
            return "dense", as_entries(self.matrix.T), True
        return "dense", as_entries(self.matrix), False

    def transposed(self) -> Operator:
        """A view of the transpose."""
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
        """One per stored entry."""
        return int(self.matrix.nnz)

    def forward(self, x: Array) -> Array:
        """Mx."""
        return self.matrix @ x

    def adjoint(self, y: Array) -> Array:
        """Mᵀy."""
        return self.transpose @ y

    @cached_property
    def row_norms(self) -> Array:
        """The norm of each row."""
        matrix = self.matrix
        peak = max(abs(float(matrix.data.min())), abs(float(matrix.data.max()))) if matrix.nnz else 1.0
        scaled = matrix.data.astype(np.float64) / (peak or 1.0)
        squares = sp.csr_array((scaled * scaled, matrix.indices, matrix.indptr), shape=self.shape)
        return (peak or 1.0) * np.sqrt(squares @ np.ones(self.shape[1]))

    def row_sizes(self, x: Array) -> Array:
        """|M||x|."""
        return self._magnitudes() @ abs(x)

    def column_sizes(self, y: Array) -> Array:
        """|M|ᵀ|y|."""
        return self._magnitudes().T @ abs(y)

    def _magnitudes(self) -> Any:
        """|M|, without a copy of its pattern; kept if it is small."""
        known = self.memory.get("magnitudes")
        if known is None:
            known = sp.csr_array((abs(self.matrix.data), self.matrix.indices, self.matrix.indptr), shape=self.shape)
            if self.matrix.nnz <= PANEL:
                self.memory["magnitudes"] = known
        return known

    def columns(self, block: slice) -> Operator:
        """The columns, copied."""
        return Sparse(self.matrix[:, block])

    def dense(self) -> Array:
        """The matrix as an array."""
        return self.matrix.toarray()

    def sparse(self) -> Any:
        """The matrix itself."""
        return self.matrix

    def outer(self) -> Array:
        """MMᵀ."""
        matrix = self.matrix.astype(np.float64)
        return (matrix @ matrix.T).toarray()

    def lowered(self) -> tuple[Any, ...]:
        """("csr", indptr, indices, values)."""
        return csr_record(self.matrix)

    def transposed(self) -> Operator:
        """The transpose as CSR."""
        return Sparse(self.transpose.tocsr())


class MatrixFree(Operator):
    """Anything with `shape`, `matvec` and `rmatvec`, such as SciPy's LinearOperator."""

    def __init__(self, linear: Any) -> None:
        self.linear = linear
        self.shape = (int(linear.shape[0]), int(linear.shape[1]))
        self.dtype = _float(getattr(linear, "dtype", None))

    def forward(self, x: Array) -> Array:
        """Mx."""
        return self._real(self.linear.matvec(x), self.shape[0])

    def adjoint(self, y: Array) -> Array:
        """Mᵀy."""
        return self._real(self.linear.rmatvec(y), self.shape[1])

    def _real(self, product: Any, size: int) -> Array:
        array = product if on_device(product) else np.asarray(product)
        if array.dtype.kind != "f" or array.size != size:
            raise TypeError(f"M must give {size} real numbers, found shape {array.shape} of {array.dtype}")
        return array.reshape(size)


class _Columns(Operator):
    """A block of columns of a matrix-free map."""

    def __init__(self, inner: Operator, block: slice) -> None:
        start, stop, _ = block.indices(inner.shape[1])
        self.inner, self.block = inner, slice(start, stop)
        self.shape = (inner.shape[0], stop - start)
        self.dtype = inner.dtype

    def forward(self, x: Array) -> Array:
        """M applied to x, padded with zeros."""
        full = np.zeros(self.inner.shape[1], x.dtype)
        full[self.block] = x
        return self.inner.forward(full)

    def adjoint(self, y: Array) -> Array:
        """The block's part of Mᵀy."""
        return self.inner.adjoint(y)[self.block]


class _Transpose(Operator):
    """Mᵀ of a matrix-free map."""

    def __init__(self, inner: Operator) -> None:
        self.inner = inner
        self.shape = (inner.shape[1], inner.shape[0])
        self.dtype = inner.dtype

    def forward(self, x: Array) -> Array:
        """Mᵀx."""
        return self.inner.adjoint(x)

    def adjoint(self, y: Array) -> Array:
        """My."""
        return self.inner.forward(y)


def as_operator(M: Any, *, name: str = "M", empty: bool = False) -> Operator:
    """Return M as an Operator: an array, a sparse matrix, or anything with shape, matvec and rmatvec.

    It must have at least one column, and at least one row unless `empty`.
    """
    if isinstance(M, Operator):
        return M
    if sp.issparse(M):
        return Sparse(as_sparse(name, M, empty=empty))
    if all(hasattr(M, need) for need in ("shape", "matvec", "rmatvec")):
        _shape(name, M.shape, empty=empty)
        if np.issubdtype(getattr(M, "dtype", None) or np.float64, np.complexfloating):
            raise TypeError(f"{name} must be real, found dtype {M.dtype}; split it into real and imaginary parts")
        return MatrixFree(M)
    if callable(M):
        raise TypeError(f"{name} is a function; give an object with shape, matvec and rmatvec (LinearOperator)")
    made = Dense(matrix_of(name, M, empty=empty))
    if on_device(M) and M.dtype == made.dtype:
        made.memory["on the device"] = M  # it need not be moved there again
    return made


def as_sparse(name: str, M: Any, *, empty: bool = False) -> Any:
    """Return M as a checked CSR array, without a copy if it is one already."""
    _shape(name, M.shape, empty=empty)
    matrix = sp.csr_array(M)
    real(f"{name}.data", matrix.data if matrix.nnz else np.zeros(1))
    if matrix.dtype not in (np.float32, np.float64):
        matrix = matrix.astype(np.float64)
    if not matrix.has_canonical_format:
        matrix = matrix.copy()  # the arrays may be shared with the given matrix
        matrix.sum_duplicates()
    return matrix


def as_entries(matrix: Array, dtype: Any = None) -> Array:
    """The array as the core needs it: in C order, aligned, in native byte order; a copy only if necessary."""
    wanted = np.dtype(dtype or matrix.dtype).newbyteorder("=")
    return np.require(matrix, wanted, ["C", "A"])


def csr_record(matrix: Any) -> tuple[Any, ...]:
    """("csr", indptr, indices, values) of a SciPy CSR array."""
    wide = np.result_type(matrix.indptr, matrix.indices)
    if max(matrix.nnz, matrix.shape[1]) <= np.iinfo(np.int32).max:
        wide = np.dtype(np.int32)  # half as much to read
    return "csr", as_entries(matrix.indptr, wide), as_entries(matrix.indices, wide), as_entries(matrix.data)


def matrix_of(name: str, value: Any, *, empty: bool = False) -> Array:
    """Return a checked two-dimensional array of floats, without a copy if it is one already."""
    array = real(name, value, empty=empty)
    _shape(name, array.shape, empty=empty)
    return array


def _shape(name: str, shape: Sequence[int], *, empty: bool = False) -> None:
    if len(shape) != 2:
        raise ValueError(f"{name} must be a matrix, found shape {tuple(shape)}")
    if min(shape) < 1 and not (empty and shape[1]):
        raise ValueError(f"{name} is empty (shape {tuple(shape)}); give it at least one row and one column")


def _float(dtype: Any) -> np.dtype[Any]:
    """float32 stays float32, everything else becomes float64."""
    return np.dtype(np.float32 if dtype == np.float32 else np.float64)


def _identity(size: int) -> Iterator[Array]:
    for k in range(size):
        unit = np.zeros(size)
        unit[k] = 1.0
        yield unit
