"""f, M and what φ shares with them, with parameters that are arrays of any library, traced or not.

Each record has the arguments of the class of the same name in `dapd`. Nothing is checked here: a traced array has no
numbers to look at. `model` makes the class itself, which does check, once the numbers are known. `gradient` computes
with the functions of `xp`, jax.numpy or torch, so that library can differentiate it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator

from dapd import functions
from dapd.arguments import consecutive
from dapd.arrays import Array
from dapd.functions import Function
from dapd.operators.base import Operator


@dataclass(frozen=True, eq=False)
class ParameterRecord:
    """Parameters, most of them arrays."""

    fixed: ClassVar[tuple[str, ...]] = ()  # fields that are no arrays, so nothing is differentiated by them


@dataclass(frozen=True, eq=False)
class Sparse(ParameterRecord):
    """The matrix with `values` at (rows, columns); differentiable in the values."""

    fixed = ("shape",)
    values: Any
    rows: Any
    columns: Any
    shape: tuple[int, int]

    @classmethod
    def of(cls, matrix: Any) -> Sparse:
        """A SciPy sparse matrix."""
        entries = sp.coo_array(matrix)
        return cls(entries.data, entries.row.astype(np.int32), entries.col.astype(np.int32), matrix.shape)

    def model(self) -> Any:
        """The matrix in SciPy's form."""
        return sp.csr_array((self.values, (self.rows, self.columns)), shape=self.shape)


@dataclass(frozen=True, eq=False)
class Products(ParameterRecord):
    """A constant linear map that only has products, computed in NumPy."""

    fixed = ("operator",)
    operator: Operator

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.operator.shape


# by the name of the library: what computes operator.forward(v) in NumPy, for a v of that library
PRODUCTS: dict[str, Callable[[Operator, Any], Any]] = {}


def times(M: Any, x: Array) -> Array:
    """Mx."""
    if isinstance(M, Products):
        return _product(M.operator, x)
    return sums(M.values * x[M.columns], M.rows, M.shape[0]) if isinstance(M, Sparse) else M @ x


def times_transpose(M: Any, y: Array) -> Array:
    """Mᵀy."""
    if isinstance(M, Products):
        return _product(M.operator.transposed(), y)
    return sums(M.values * y[M.rows], M.columns, M.shape[1]) if isinstance(M, Sparse) else y @ M


def _product(operator: Operator, v: Any) -> Any:
    return PRODUCTS["torch" if hasattr(v, "new_zeros") else "jax"](operator, v)


def sums(v: Array, owner: Any, count: int) -> Array:
    """The sum of the entries of v that belong to each of `count` owners."""
    if hasattr(v, "new_zeros"):  # torch
        return v.new_zeros(count).index_add(0, owner, v)
    return v.__array_namespace__().zeros(count, v.dtype).at[owner].add(v)


def matrix_of(M: Any) -> Any:
    """M as the classes of `dapd` take it."""
    if isinstance(M, Products):
        return M.operator
    return M.model() if isinstance(M, Sparse) else M


def with_sizes(record: Any, name: str) -> None:
    """Make the lists of a record tuples, which are hashable."""
    object.__setattr__(record, "sizes", tuple(map(int, record.sizes)))
    if isinstance(getattr(record, name), list):
        object.__setattr__(record, name, tuple(getattr(record, name)))


@dataclass(frozen=True, eq=False)
class FunctionRecord(ParameterRecord):
    """f."""

    def gradient(self, xp: Any, x: Array) -> Array:
        """∇f(x)."""
        raise NotImplementedError

    def model(self) -> Function:
        """The class of `dapd`."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class Quadratic(FunctionRecord):
    """½xᵀHx − cᵀx. Of a matrix H the symmetric part ½(H + Hᵀ) is used, so H may move in any direction."""

    H: Any
    c: Any = None

    def gradient(self, xp: Any, x: Array) -> Array:
        """½(H + Hᵀ)x − c."""
        if self.H is None:
            curved = 0 * x
        elif isinstance(self.H, Products):
            curved = times(self.H, x)
        elif not isinstance(self.H, Sparse) and self.H.ndim == 1:
            curved = self.H * x
        else:
            curved = 0.5 * (times(self.H, x) + times_transpose(self.H, x))
        return curved if self.c is None else curved - self.c

    def model(self) -> Function:
        """With its eigenvalues."""
        if isinstance(self.H, Products):
            return functions.Quadratic(
                LinearOperator(self.H.shape, matvec=self.H.operator.forward, dtype=np.float64), self.c
            )
        H = matrix_of(self.H)
        return functions.Quadratic(H if H is None or H.ndim == 1 else 0.5 * (H + H.T), self.c)


@dataclass(frozen=True, eq=False)
class LeastSquares(FunctionRecord):
    """½‖Ax − d‖² + (ridge/2)‖x‖²."""

    A: Any
    d: Any
    ridge: Any = 0.0

    def gradient(self, xp: Any, x: Array) -> Array:
        """Aᵀ(Ax − d) + ridge·x."""
        return times_transpose(self.A, times(self.A, x) - self.d) + self.ridge * x

    def model(self) -> Function:
        """With its singular values."""
        return functions.LeastSquares(matrix_of(self.A), self.d, float(self.ridge))


@dataclass(frozen=True, eq=False)
class Logistic(FunctionRecord):
    """Σ log(1 + exp(−labelᵢ·aᵢᵀx)) + (ridge/2)‖x‖², labels ±1."""

    A: Any
    labels: Any
    ridge: Any = 0.0

    def gradient(self, xp: Any, x: Array) -> Array:
        """Aᵀ of the slopes, + ridge·x."""
        margins = self.labels * times(self.A, x)
        return times_transpose(self.A, -0.5 * self.labels * (1.0 - xp.tanh(0.5 * margins))) + self.ridge * x

    def model(self) -> Function:
        """With its constants."""
        return functions.Logistic(matrix_of(self.A), self.labels, float(self.ridge))


@dataclass(frozen=True, eq=False)
class PseudoHuber(FunctionRecord):
    """Σ √(x² + e²) + (e/2)x²."""

    e: Any

    def gradient(self, xp: Any, x: Array) -> Array:
        """x/√(x² + e²) + e·x."""
        return x / xp.sqrt(x**2 + self.e**2) + self.e * x

    def model(self) -> Function:
        """With its constants."""
        return functions.PseudoHuber(float(self.e))


@dataclass(frozen=True, eq=False)
class Separable(FunctionRecord):
    """Σ f_i(x_i) over consecutive blocks of x, of the given sizes."""

    fixed = ("sizes",)
    functions: Sequence[FunctionRecord]
    sizes: Sequence[int]

    def __post_init__(self) -> None:
        with_sizes(self, "functions")

    def gradient(self, xp: Any, x: Array) -> Array:
        """Those of the blocks, joined."""
        pieces = zip(self.functions, consecutive(self.sizes), strict=True)
        return xp.concatenate([f.gradient(xp, x[piece]) for f, piece in pieces])

    def model(self) -> Function:
        """With the blocks' constants."""
        return functions.Separable([f.model() for f in self.functions], sizes=list(self.sizes))
