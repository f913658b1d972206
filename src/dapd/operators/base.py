"""A linear map: `forward` (Mx) and `adjoint` (Mᵀy), and what follows from them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from dapd.arrays import Array
from dapd.operators.memory import Memory
from dapd.operators.sizes import outer

FORMED = 1 << 24  # entries of a map with structure that may be stored if only a matrix will do
APART = 1e-3  # relative difference of two products, perhaps in float32, that rounding does not explain
CANCELLED = 1e3  # roundings within which a sum of terms counts as zero
SKETCHES = 8  # products used to estimate the row norms of a matrix-free map
PROBED = "entries found by products"


def describes(thing: object, description: str, *methods: str) -> bool:
    """Whether a description of an object still holds: no subclass overrides one of the methods and not this one."""
    for kind in type(thing).__mro__:
        if description in vars(kind):
            return True
        if any(name in vars(kind) for name in methods):
            return False
    return False


class Placed(NamedTuple):
    """A part of a map, and where it lies."""

    part: Operator
    rows: slice
    columns: slice


class Operator:
    """A real linear map of `shape` (rows, columns)."""

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    name: str = "M"  # what the user calls it

    @cached_property
    def memory(self) -> Memory:
        """Stored facts about the map, such as its singular values, so they are computed only once."""
        return Memory()

    def __getstate__(self) -> dict[str, Any]:
        """Without what is stored, some of which belongs to a device."""
        return {name: value for name, value in vars(self).items() if name != "memory"}

    @property
    def probes(self) -> int:
        """The number of products that `dense` makes; 0 if the matrix is stored."""
        return min(self.shape) + 1 if min(self.shape) else 0

    @property
    def work(self) -> int:
        """The number of multiplications in a product with M; 0 if unknown."""
        return 0

    @property
    def entry_count(self) -> int | None:
        """How many entries the explicit matrix has at most; None if the matrix is not known."""
        if self.memory.known(PROBED) is not None:
            return self.shape[0] * self.shape[1]
        return None if self.probes else self.work

    @property
    def stored_matrix(self) -> Any:
        """The array or the CSR matrix that the map is; None if it is not stored as one."""
        return None

    @property
    def identity_start(self) -> int | None:
        """The first column, if the rows are consecutive rows of an identity; else None."""
        return None

    @property
    def column_partition(self) -> list[slice] | None:
        """The blocks of columns that the map was made of; None if there are none."""
        return None

    @property
    def divisible(self) -> bool:
        """Whether rows and columns can be taken out, and a map of the same kind is left."""
        return False

    def placed_parts(self) -> list[Placed]:
        """The maps that this one was made of; none if it was not made of others."""
        return []

    def leaves(self, row: int = 0, column: int = 0) -> Iterator[Placed]:
        """The parts that were not made of others, and have rows; in places counted from this row and column."""
        parts = self.placed_parts()
        for part, rows, columns in parts:
            yield from part.leaves(row + rows.start, column + columns.start)
        if not parts and self.shape[0]:
            yield Placed(self, slice(row, row + self.shape[0]), slice(column, column + self.shape[1]))

    def bands(self) -> list[tuple[Operator, slice]]:
        """The parts that lie on top of each other, with their rows; the map itself if it is no stack."""
        return [(self, slice(0, self.shape[0]))]

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

    def row_sizes(self, x: Array, power: float = 1) -> Array | None:
        """Σ_j |M_ij|^power |x_j| of each row; None if the entries are not known."""
        return None

    def column_sizes(self, y: Array, power: float = 1) -> Array | None:
        """Σ_i |M_ij|^power |y_i| of each column; None if the entries are not known."""
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
        """The matrix as an array, by one product per row or per column, and one more to check the other product."""
        matrix = np.empty(self.shape)
        wide = self.shape[0] <= self.shape[1]
        lines = matrix if wide else matrix.T
        product, other = (self.adjoint, self.forward) if wide else (self.forward, self.adjoint)
        for line, unit in zip(lines, np.eye(len(lines)), strict=True):
            line[:] = product(unit)
        if matrix.size:
            v = np.random.default_rng(0).standard_normal(max(self.shape))
            with np.errstate(over="ignore", invalid="ignore"):
                expected = lines @ v
                difference = float(np.linalg.norm(other(v) - expected))
                check_adjoint(self.name, difference, float(np.linalg.norm(expected)))
        return matrix

    def outer(self) -> Array:
        """MMᵀ as a dense array in float64."""
        return outer(self.dense())

    def lowered(self) -> tuple[Any, ...] | None:
        """A record for the native core, its kind first; None if the products are only available in Python."""
        return None

    def sparse(self) -> Any:
        """The matrix as CSR if it is stored as a sparse matrix, else None."""
        return None

    def stored(self, most: int) -> Operator | None:
        """The same map as one matrix; None if its entries are unknown, or more than `most` would have to be stored."""
        return None

    def transposed(self) -> Operator:
        """Mᵀ as an operator."""
        return _Transpose(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.shape[0]} × {self.shape[1]}, {self.dtype})"


class _Columns(Operator):
    """A block of columns of a matrix-free map."""

    def __init__(self, inner: Operator, block: slice) -> None:
        start, stop, _ = block.indices(inner.shape[1])
        self.inner, self.block = inner, slice(start, stop)
        self.shape = (inner.shape[0], stop - start)
        self.dtype = inner.dtype

    def forward(self, x: Array) -> Array:
        full = np.zeros(self.inner.shape[1], x.dtype)
        full[self.block] = x
        return self.inner.forward(full)

    def adjoint(self, y: Array) -> Array:
        return self.inner.adjoint(y)[self.block]


class _Transpose(Operator):
    def __init__(self, inner: Operator) -> None:
        self.inner = inner
        self.shape = (inner.shape[1], inner.shape[0])
        self.dtype = inner.dtype

    def forward(self, x: Array) -> Array:
        return self.inner.adjoint(x)

    def adjoint(self, y: Array) -> Array:
        return self.inner.forward(y)


def stored(M: Operator, most: int) -> Operator | None:
    """M as one matrix, dense or sparse, or None: see `Operator.stored`."""
    return M.stored(most) if describes(M, "stored", "forward", "adjoint") else None


def check_adjoint(name: str, difference: float, size: float) -> None:
    """Raise if products that are equal if one map is the other's adjoint differ by more than rounding explains."""
    if difference > APART * size:  # NaN and infinite products are another matter
        raise ValueError(
            f"{name}.rmatvec is not the adjoint of {name}.matvec: products that must agree differ by "
            f"{difference / size if size else np.inf:.2g} of their size; compare them by dapd.testing.check_adjoint"
        )
