"""f and M with parameters that are arrays of any library, traced or not.

Each record of f has the arguments of the class of the same name in `dapd`, and computes as that does. Nothing is
checked here: a traced array has no numbers to look at. `checked` makes the class itself, once the numbers are known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator

from dapd import functions
from dapd.arguments import consecutive
from dapd.arrays import Array, sums
from dapd.functions import Function
from dapd.functions.terms import Terms
from dapd.operators.base import Operator
from dapd.operators.convert import as_operator


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

    def forward(self, x: Array) -> Array:
        """Mx."""
        return sums(self.values * x[self.columns], self.rows, self.shape[0])

    def adjoint(self, y: Array) -> Array:
        """Mᵀy."""
        return sums(self.values * y[self.rows], self.columns, self.shape[1])

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

    def forward(self, x: Array) -> Array:
        """Mx."""
        return _product(self.operator, x)

    def adjoint(self, y: Array) -> Array:
        """Mᵀy."""
        return _product(self.operator.transposed(), y)


# by the name of the library: what computes operator.forward(v) in NumPy, for a v of that library
PRODUCTS: dict[str, Callable[[Operator, Any], Any]] = {}


class Matrix(NamedTuple):
    """The products of an array."""

    array: Any

    def forward(self, x: Array) -> Array:
        """Mx."""
        return self.array @ x

    def adjoint(self, y: Array) -> Array:
        """Mᵀy."""
        return y @ self.array


class Symmetric(NamedTuple):
    """The products of ½(M + Mᵀ)."""

    inner: Any

    def forward(self, x: Array) -> Array:
        """½(M + Mᵀ)x."""
        return 0.5 * (self.inner.forward(x) + self.inner.adjoint(x))


def products_of(M: Any) -> Any:
    """What multiplies with M, an array or a record."""
    return M if M is None or hasattr(M, "forward") else Matrix(M)


def _product(operator: Operator, v: Any) -> Any:
    return PRODUCTS["torch" if hasattr(v, "new_zeros") else "jax"](operator, v)


def matrix_of(M: Any) -> Any:
    """M as the classes of `dapd` take it."""
    if isinstance(M, Products):
        return M.operator
    return M.model() if isinstance(M, Sparse) else M


@dataclass(frozen=True, eq=False)
class FunctionRecord(ParameterRecord, Function):
    """f: the function of `dapd` that it inherits from, whose parameters nobody has checked."""

    def lowered(self) -> Any:
        """The terms, with products that any library can differentiate."""
        terms = super().lowered()
        return None if terms is None else _traceable(terms)

    def checked(self) -> Function:
        """The same by the class of `dapd`, which checks the numbers, now that they are known."""
        kind: Any = next(kind for kind in type(self).__mro__ if not issubclass(kind, ParameterRecord))
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        return kind(**{k: v if k in self.fixed else _number(v) for k, v in values.items()})  # type: ignore[no-any-return]  # a class of a table

    def divided(self, blocks: list[slice] | None) -> Any:
        """A problem gets the checked function."""
        return self.checked().divided(blocks)


def _traceable(terms: Terms) -> Terms:
    H = terms.H
    if not (H is None or isinstance(H, Products) or (not isinstance(H, Sparse) and H.ndim == 1)):
        H = Symmetric(products_of(H))
    return terms._replace(A=products_of(terms.A), H=H)


def _number(value: Any) -> Any:
    """A parameter as the classes of `dapd` take it."""
    if isinstance(value, tuple):
        return [_number(part) for part in value]
    if isinstance(value, FunctionRecord):
        return value.checked()
    return float(value) if np.isscalar(value) or getattr(value, "ndim", 1) == 0 else matrix_of(value)


def _hessian_of(H: Any) -> Any:
    """H, as above."""
    if isinstance(H, Products):
        return LinearOperator(H.shape, matvec=H.operator.forward, dtype=np.float64)
    H = matrix_of(H)
    return H if H is None or H.ndim == 1 else 0.5 * (H + H.T)


@dataclass(frozen=True, eq=False)
class Quadratic(FunctionRecord, functions.Quadratic):
    """½xᵀHx − cᵀx. Of a matrix H the symmetric part ½(H + Hᵀ) is used, so H may move in any direction."""

    H: Any
    c: Any = None

    def checked(self) -> Function:
        return functions.Quadratic(_hessian_of(self.H), self.c)


@dataclass(frozen=True, eq=False)
class LeastSquares(FunctionRecord, functions.LeastSquares):
    """½‖Ax − d‖² + (ridge/2)‖x‖²."""

    A: Any
    d: Any
    ridge: Any = 0.0


@dataclass(frozen=True, eq=False)
class Logistic(FunctionRecord, functions.Logistic):
    """Σ log(1 + exp(−labelᵢ·aᵢᵀx)) + (ridge/2)‖x‖², labels ±1."""

    A: Any
    labels: Any
    ridge: Any = 0.0


@dataclass(frozen=True, eq=False)
class PseudoHuber(FunctionRecord, functions.PseudoHuber):
    """Σ √(x² + e²) + (e/2)x²."""

    e: Any


@dataclass(frozen=True, eq=False)
class Separable(FunctionRecord, functions.Separable):
    """Σ f_i(x_i) over consecutive blocks of x, of the given sizes."""

    fixed = ("sizes",)
    functions: Any
    sizes: Any

    def __post_init__(self) -> None:
        # tuples are hashable
        object.__setattr__(self, "sizes", tuple(map(int, self.sizes)))
        object.__setattr__(self, "functions", tuple(self.functions))

    def _known_blocks(self) -> list[slice]:
        return consecutive(self.sizes)


@dataclass(frozen=True, eq=False)
class Constant(FunctionRecord, functions.Composite):
    """A function of `dapd`, whichever, whose terms were checked before."""

    fixed = ("loss", "mu", "L", "size")
    loss: Any
    A: Any
    d: Any
    ridge: Any
    H: Any
    c: Any
    mu: Any
    L: Any
    size: Any

    @classmethod
    def of(cls, f: Function) -> FunctionRecord | None:
        """A constant f; None if its terms are not known."""
        parts = f.parts(f.size or 0) or []
        found = [cls(*part.terms, part.mu, part.L, part.size or None) for part in parts]
        return Separable(found, [part.size for part in parts]) if len(found) > 1 else found[0] if found else None

    def lowered(self) -> Any:
        return _traceable(Terms(self.loss, self.A, self.d, self.ridge, self.H, self.c))

    def checked(self) -> Function:
        """With the constants that are known."""
        A = None if self.A is None else as_operator(matrix_of(self.A), name="A")
        terms = Terms(self.loss, A, self.d, float(self.ridge), _hessian_of(self.H), self.c)
        return functions.Composite(terms, self.size, self.mu, self.L)
