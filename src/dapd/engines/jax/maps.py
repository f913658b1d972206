"""Linear maps on a device: pytrees with the products that a step and a certificate need."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from functools import singledispatch
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.lax import Precision

from dapd.arrays import Array, on_device
from dapd.engines.jax.gathers import Gathered, gathered
from dapd.engines.jax.pytree import pytree
from dapd.engines.protocol import NotNative
from dapd.operators.base import Operator
from dapd.operators.blocks import ColumnBlocks, RowBlocks
from dapd.operators.explicit import Dense, Sparse
from dapd.operators.factors import ScaledMap
from dapd.operators.structured import BlockDiagonal, Identity, Kronecker

Places = tuple[tuple[int, int], ...]  # starts and ends


def product(a: Array, b: Array) -> Array:
    """A @ b with all digits of the operands, which accelerators do not keep by themselves."""
    return jnp.matmul(a, b, precision=Precision.HIGHEST)


def changed(M: Any, to: Callable[[Array], Array]) -> Any:
    """The same map with other entries, such as abs(entries)."""
    return jax.tree.map(lambda leaf: to(leaf) if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf, M)


@functools.partial(jax.jit, static_argnums=(1, 3))
def product_of(M: Any, name: str, v: Array, power: float | None = None) -> Array:
    """A product with M or its transpose; with a power, of the magnitudes of the entries to that power."""

    def raised(entries: Array) -> Array:
        return (abs(entries.astype(jnp.float64)) ** power) * (entries != 0)

    found: Array = getattr(M if power is None else changed(M, raised), name)(v)
    return found


class Sized:
    """A map that knows how large the terms of its products are."""

    def row_sizes(self: Any, x: Array) -> Array | None:
        """|M||x|; None if the entries are not known."""
        return changed(self, abs).forward(abs(x))

    def column_sizes(self: Any, y: Array) -> Array | None:
        """|M|ᵀ|y|; None if the entries are not known."""
        return changed(self, abs).adjoint(abs(y))


@pytree()
class DenseMap(Sized):
    """A matrix."""

    matrix: Array

    def forward(self, x: Array) -> Array:
        """Mx."""
        return product(self.matrix.astype(x.dtype), x)

    def adjoint(self, y: Array) -> Array:
        """Mᵀy, as y @ M: the transpose of M would be copied."""
        return product(y, self.matrix.astype(y.dtype))


@pytree()
class SparseMap(Sized):
    """A sparse matrix and its transpose, each as gathers."""

    by_rows: Gathered
    by_columns: Gathered

    def forward(self, x: Array) -> Array:
        """Mx."""
        return self.by_rows.apply(x)

    def adjoint(self, y: Array) -> Array:
        """Mᵀy."""
        return self.by_columns.apply(y)

    def row_sizes(self, x: Array) -> Array:
        """By the terms of Mx, which a program then gathers once for both."""
        return self.by_rows.apply(x, abs)

    def column_sizes(self, y: Array) -> Array:
        """The same of Mᵀy."""
        return self.by_columns.apply(y, abs)


@pytree("rows", "columns", "start")
class IdentityMap(Sized):
    """Some entries of x."""

    rows: int
    columns: int
    start: int

    def forward(self, x: Array) -> Array:
        """The entries."""
        return x[self.start : self.start + self.rows]

    def adjoint(self, y: Array) -> Array:
        """Zeros elsewhere."""
        return jnp.pad(y, (self.start, self.columns - self.start - self.rows))


@pytree("width")
class KroneckerMap(Sized):
    """A ⊗ B, B the identity if it is None; `width` is the number of A's columns."""

    width: int
    A: Array
    B: Array | None

    def forward(self, x: Array) -> Array:
        """A X Bᵀ."""
        X = product(self.A.astype(x.dtype), x.reshape(self.width, -1))
        return (X if self.B is None else product(X, self.B.T.astype(x.dtype))).ravel()

    def adjoint(self, y: Array) -> Array:
        """Aᵀ Y B."""
        Y = product(self.A.T.astype(y.dtype), y.reshape(self.A.shape[0], -1))
        return (Y if self.B is None else product(Y, self.B.astype(y.dtype))).ravel()


@pytree()
class BlocksMap(Sized):
    """Equal dense blocks along the diagonal."""

    blocks: Array  # (count, rows, columns)

    def forward(self, x: Array) -> Array:
        """Block by block."""
        count, _, columns = self.blocks.shape
        return product(self.blocks.astype(x.dtype), x.reshape(count, columns, 1)).ravel()

    def adjoint(self, y: Array) -> Array:
        """Block by block."""
        count, rows, _ = self.blocks.shape
        return product(y.reshape(count, 1, rows), self.blocks.astype(y.dtype)).ravel()


@pytree("rows", "columns")
class PartsMap:
    """Maps at places of a larger one; places may overlap, and what does is added."""

    rows: Places
    columns: Places
    parts: tuple[Any, ...]

    def forward(self, x: Array) -> Array:
        """Each part of its own entries."""
        return self._joined("forward", x, self.columns, self.rows)

    def adjoint(self, y: Array) -> Array:
        """The same."""
        return self._joined("adjoint", y, self.rows, self.columns)

    def row_sizes(self, x: Array) -> Array | None:
        """Part by part; None if the entries of one are not known."""
        return self._joined("row_sizes", x, self.columns, self.rows)

    def column_sizes(self, y: Array) -> Array | None:
        """The same."""
        return self._joined("column_sizes", y, self.rows, self.columns)

    def _joined(self, product: str, v: Array, given: Places, wanted: Places) -> Any:
        """What all parts make of v: side by side, or added up if all have the same place."""
        found = [getattr(part, product)(v[a:b]) for part, (a, b) in zip(self.parts, given, strict=True)]
        if any(one is None for one in found):
            return None
        return functools.reduce(jnp.add, found) if len(set(wanted)) == 1 else jnp.concatenate(found)


@pytree()
class FactorsMap:
    """diag(rows)·M·diag(columns)."""

    inner: Any
    rows: Array
    columns: Array

    def forward(self, x: Array) -> Array:
        """rows·M(columns·x)."""
        return self.rows.astype(x.dtype) * self.inner.forward(self.columns.astype(x.dtype) * x)

    def adjoint(self, y: Array) -> Array:
        """columns·Mᵀ(rows·y)."""
        return self.columns.astype(y.dtype) * self.inner.adjoint(self.rows.astype(y.dtype) * y)

    def row_sizes(self, x: Array) -> Array | None:
        """|M||x|; the factors are positive."""
        sizes = self.inner.row_sizes(self.columns.astype(x.dtype) * x)
        return None if sizes is None else self.rows.astype(x.dtype) * sizes

    def column_sizes(self, y: Array) -> Array | None:
        """|M|ᵀ|y|."""
        sizes = self.inner.column_sizes(self.rows.astype(y.dtype) * y)
        return None if sizes is None else self.columns.astype(y.dtype) * sizes


@pytree("operator")
class TracedMap:
    """A map of the caller's whose products are written in JAX, or in plain arithmetic."""

    operator: Operator

    def forward(self, x: Array) -> Array:
        """Mx."""
        return jnp.asarray(self.operator.forward(x)).astype(x.dtype)

    def adjoint(self, y: Array) -> Array:
        """Mᵀy."""
        return jnp.asarray(self.operator.adjoint(y)).astype(y.dtype)

    def row_sizes(self, v: Array) -> None:
        """Unknown."""

    column_sizes = row_sizes


def place_map(M: Operator, dtype: Any, name: str = "M") -> Any:
    """The map on the default device, kept with M for later solves; its entries are in `dtype` if that is narrower."""
    kind = np.dtype(np.float32 if M.dtype == np.float32 else dtype)
    return M.memory.once(place_map, kind, lambda: _placed(M, dtype, name))


@singledispatch
def _placed(M: Operator, dtype: Any, name: str) -> Any:
    traced = TracedMap(M)
    for call, size, other in ((traced.forward, M.shape[1], M.shape[0]), (traced.adjoint, M.shape[0], M.shape[1])):
        check_traced(call, [size], (other,), dtype, f"{name} is {type(M).__name__}, whose products JAX cannot trace")
    return traced


@_placed.register
def _(M: Dense, dtype: Any, name: str) -> DenseMap:
    there = M.memory.known(on_device)
    return DenseMap(_entries(M.matrix if there is None else there, dtype))


@_placed.register
def _(M: Sparse, dtype: Any, name: str) -> SparseMap:
    narrow = np.dtype(np.float32) if M.dtype == np.float32 else dtype
    return SparseMap(gathered(M.matrix, narrow), gathered(M.transpose.tocsr(), narrow))


@_placed.register
def _(M: Identity, dtype: Any, name: str) -> IdentityMap:
    return IdentityMap(*M.shape, M.start)


@_placed.register
def _(M: Kronecker, dtype: Any, name: str) -> KroneckerMap:
    return KroneckerMap(M.A.shape[1], _entries(M.A, dtype), None if M.B is None else _entries(M.B, dtype))


@_placed.register
def _(M: BlockDiagonal, dtype: Any, name: str) -> BlocksMap | PartsMap:
    if len({block.shape for block in M.matrices}) == 1:
        return BlocksMap(_entries(M.entries.reshape(-1, *M.matrices[0].shape), dtype))
    parts = tuple(DenseMap(_entries(block, dtype)) for block in M.matrices)
    return PartsMap(_ends(M.row_blocks), _ends(M.column_blocks), parts)


@_placed.register(RowBlocks)
@_placed.register(ColumnBlocks)
def _(M: Operator, dtype: Any, name: str) -> PartsMap:
    parts, rows, columns = zip(*M.placed_parts(), strict=True)
    return PartsMap(_ends(rows), _ends(columns), tuple(place_map(part, dtype, name) for part in parts))


@_placed.register
def _(M: ScaledMap, dtype: Any, name: str) -> FactorsMap:
    return FactorsMap(place_map(M.inner, dtype, name), _entries(M.rows, dtype), _entries(M.scales, dtype))


def check_traced(
    call: Callable[..., Any], sizes: list[int], shape: tuple[int, ...], dtype: Any, complaint: str
) -> None:
    """Raise NotNative if JAX cannot trace a function of vectors, or if its answer has another shape."""
    try:
        found = jax.eval_shape(call, *(jax.ShapeDtypeStruct((size,), dtype) for size in sizes))
    except Exception as error:  # whatever the caller's code raises when it meets a tracer
        raise NotNative(f"{complaint} ({type(error).__name__})") from error
    if getattr(found, "shape", None) != shape:
        raise NotNative(f"{complaint}: it returned {found}, expected shape {shape}")


def _ends(blocks: Iterable[slice]) -> Places:
    return tuple((block.start, block.stop) for block in blocks)


def _entries(matrix: Array, dtype: Any) -> Array:
    """The array on the device, in `dtype` unless it is narrower already."""
    return jnp.asarray(matrix if matrix.dtype == np.float32 else matrix.astype(dtype, copy=False))
