"""Checked operators and matrices, from what the user gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from dapd.arguments import asked, real
from dapd.arrays import Array, on_device
from dapd.operators.base import Operator
from dapd.operators.explicit import Dense, Sparse


class MatrixFree(Operator):
    """Anything with `shape`, `matvec` and `rmatvec`, such as SciPy's LinearOperator."""

    def __init__(self, linear: Any, name: str = "M") -> None:
        self.linear, self.name = linear, name
        self.shape = (int(linear.shape[0]), int(linear.shape[1]))
        self.dtype = np.dtype(np.float32 if getattr(linear, "dtype", None) == np.float32 else np.float64)

    def forward(self, x: Array) -> Array:
        return self._product("matvec", x, self.shape[0])

    def adjoint(self, y: Array) -> Array:
        return self._product("rmatvec", y, self.shape[1])

    def _product(self, which: str, v: Array, size: int) -> Array:
        call = getattr(self.linear, which)
        try:
            product = asked(f"{self.name}.{which}", call, v) if isinstance(v, np.ndarray) else call(v)
        except NotImplementedError:
            raise TypeError(f"{self.name} has no {which}; give it one, see dapd.testing.check_adjoint") from None
        array = product if on_device(product) else np.asarray(product)
        if array.dtype.kind != "f" or array.size != size:
            raise TypeError(f"{self.name} must give {size} real numbers, found shape {array.shape} of {array.dtype}")
        return array.reshape(size)


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
        return MatrixFree(M, name)
    if callable(M):
        raise TypeError(f"{name} is a function; give an object with shape, matvec and rmatvec (LinearOperator)")
    made = Dense(matrix_of(name, M, empty=empty))
    if on_device(M) and M.dtype == made.dtype:
        made.memory.keep(on_device, None, M)  # it need not be moved there again
    return made


def as_sparse(name: str, M: Any, *, empty: bool = False) -> Any:
    """Return M as a checked CSR array, without a copy of its entries if it is one already, with short indices."""
    _shape(name, M.shape, empty=empty)
    # SciPy does not check indices, and products would read elsewhere
    if getattr(M, "format", "") in ("csr", "csc") and M.indices.size:
        least, most, last = M.indices.min(), M.indices.max(), M.shape[M.format == "csr"] - 1
        if least < 0 or most > last:
            raise ValueError(f"{name}.indices must lie in 0 … {last}, found {least} … {most}")
    matrix = sp.csr_array(M)
    real(f"{name}.data", matrix.data if matrix.nnz else np.zeros(1))
    if matrix.dtype not in (np.float32, np.float64):
        matrix = matrix.astype(np.float64)
    if not matrix.has_canonical_format:
        matrix = matrix.copy()  # the arrays may be shared with the given matrix
        matrix.sum_duplicates()
    if matrix.indices.dtype != np.int32 and max(*matrix.shape, matrix.nnz) <= np.iinfo(np.int32).max:
        short = matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32)  # half as much to read in each product
        matrix = sp.csr_array((matrix.data, *short), shape=matrix.shape)
        matrix.has_canonical_format = True
    return matrix


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
