"""Products with a sparse matrix on a device: gathers of x, row by row."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dapd.arrays import Array
from dapd.engines.jax.pytree import pytree

WASTE = 1.5  # greatest ratio of the entries of padded rows and the given ones
SMALL = 1 << 12  # entries of padded rows that cost no more than the launch of a second kernel
SMALL_ON_GPU = 1 << 22  # entries of padded rows that cost no more than the launch of a second kernel on a GPU
LONGEST_ROW = 64  # entries of a row that one thread of a GPU adds up; several share a longer one
UNROLLED = 8  # entries of a row whose sum is written out


def _same(terms: Array) -> Array:
    return terms


@pytree("width", "rows")
class Padded:
    """Rows of at most `width` entries, padded with zeros; entry k of all rows lies side by side, as a GPU reads it."""

    width: int
    rows: int
    indices: Array  # (width, rows)
    values: Array  # (width, rows)

    def apply(self, x: Array, change: Callable[[Array], Array] = _same) -> Array:
        """Σ_k change(values[k]·x[indices[k]])."""
        values = self.values.astype(x.dtype)
        if self.width == 0:
            return jnp.zeros(self.rows, x.dtype)
        if self.width <= UNROLLED:
            terms = [change(values[k] * x[self.indices[k]]) for k in range(self.width)]
            return functools.reduce(jnp.add, terms)
        return jnp.sum(change(values * x[self.indices]), axis=0)


@pytree()
class Wide:
    """Long rows, padded with zeros; the entries of each row lie side by side, and several threads read them."""

    indices: Array  # (rows, width)
    values: Array  # (rows, width)

    def apply(self, x: Array, change: Callable[[Array], Array] = _same) -> Array:
        """Σ_k change(values[:, k]·x[indices[:, k]])."""
        return jnp.sum(change(self.values.astype(x.dtype) * x[self.indices]), axis=1)


@pytree("count")
class Segments:
    """Entries in the order of their rows."""

    count: int
    rows: Array
    indices: Array
    values: Array

    def apply(self, x: Array, change: Callable[[Array], Array] = _same) -> Array:
        """The sum of each row, of its terms as `change` leaves them."""
        terms = change(self.values.astype(x.dtype) * x[self.indices])
        return jax.ops.segment_sum(terms, self.rows, num_segments=self.count, indices_are_sorted=True)


@pytree()
class Gathered:
    """One direction of a sparse product: rows sorted by length, a few lengths padded to one."""

    parts: tuple[Any, ...]
    order: Array | None  # where each row is among the sorted ones; None if they are in order

    def apply(self, x: Array, change: Callable[[Array], Array] = _same) -> Array:
        """The sum of each row, of its terms as `change` leaves them."""
        found = [part.apply(x, change) for part in self.parts]
        joined = found[0] if len(found) == 1 else jnp.concatenate(found)
        return joined if self.order is None else joined[self.order]


def gathered(matrix: Any, dtype: Any) -> Gathered:
    """A CSR matrix, its rows grouped by length."""
    lengths = np.diff(matrix.indptr)
    rows, longest = len(lengths), int(lengths.max(initial=0))
    if may_be_padded(longest, rows, matrix.nnz):
        return Gathered(
            (Padded(longest, rows, *map(jnp.asarray, padded(matrix, np.arange(rows), longest, dtype))),), None
        )
    widths = [0, 1, 2, 3, 4]
    while widths[-1] < longest:
        widths.append(widths[-1] + max(1, widths[-1] // 3))
    edges = np.searchsorted(widths, lengths)  # the least width that is enough
    order = np.argsort(edges, kind="stable")
    parts: list[Any] = []
    for k in np.unique(edges):
        some = order[edges[order] == k]
        width = int(lengths[some].max())
        if width <= LONGEST_ROW:
            parts.append(Padded(width, len(some), *map(jnp.asarray, padded(matrix, some, width, dtype))))
        else:
            parts.append(Wide(*map(jnp.asarray, wide(matrix[some], width, dtype))))
    if np.all(order == np.arange(rows)):
        return Gathered(tuple(parts), None)
    place = np.empty(rows, np.int32)
    place[order] = np.arange(rows, dtype=np.int32)
    return Gathered(tuple(parts), jnp.asarray(place))


def may_be_padded(longest: int, rows: int, entries: int) -> bool:
    """Whether all rows may be padded to the length of the longest."""
    small = SMALL_ON_GPU if jax.default_backend() == "gpu" else SMALL
    return longest <= LONGEST_ROW and longest * rows <= max(WASTE * entries, small)


def padded(matrix: Any, rows: Array, width: int, dtype: Any) -> tuple[Array, Array]:
    """Indices and values of some rows of a CSR matrix, (width, rows), with zeros at their ends."""
    indices, values = np.zeros((width, len(rows)), np.int32), np.zeros((width, len(rows)), dtype)
    start, length = matrix.indptr[rows], np.diff(matrix.indptr)[rows]
    for k in range(width):
        here = np.flatnonzero(length > k)
        at = start[here] + k
        indices[k, here], values[k, here] = matrix.indices[at], matrix.data[at]
    return indices, values


def wide(matrix: Any, width: int, dtype: Any) -> tuple[Array, Array]:
    """Indices and values of a CSR matrix, (rows, width), with zeros at the ends of rows."""
    there = np.arange(width) < np.diff(matrix.indptr)[:, None]
    indices, values = np.zeros(there.shape, np.int32), np.zeros(there.shape, dtype)
    indices[there], values[there] = matrix.indices, matrix.data
    return indices, values


def in_order(matrix: Any, dtype: Any) -> tuple[Array, Array, Array]:
    """Rows, columns and values of the entries of a CSR matrix."""
    owner = np.repeat(np.arange(matrix.shape[0], dtype=np.int32), np.diff(matrix.indptr))
    return owner, matrix.indices.astype(np.int32), matrix.data.astype(dtype)


def segments(matrix: Any, dtype: Any) -> Segments:
    """A CSR matrix by its entries."""
    return Segments(matrix.shape[0], *map(jnp.asarray, in_order(matrix, dtype)))
