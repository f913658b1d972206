"""M on the devices of a mesh: part by part, each device with a map of its own columns, or rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch
from typing import Any

import jax
import numpy as np
import scipy.sparse as sp
from jax.sharding import Mesh

from dapd.arrays import Array
from dapd.engines.jax.gathers import Gathered, Padded, Segments, in_order, may_be_padded, padded
from dapd.engines.jax.layout import Layout, whole_on_mesh
from dapd.engines.jax.maps import BlocksMap, DenseMap, FactorsMap, KroneckerMap, SparseMap
from dapd.engines.jax.mesh.map import FlatMap, MeshMap, Sharded
from dapd.engines.jax.mesh.rows import as_matrix, divisible_parts, lies_as_x
from dapd.engines.jax.pytree import pytree
from dapd.operators.base import Operator
from dapd.operators.explicit import Sparse
from dapd.operators.factors import ScaledMap
from dapd.operators.structured import BlockDiagonal, Kronecker


def mesh_map(M: Operator, dtype: Any, layout: Layout) -> MeshMap | FlatMap | DenseMap:
    """M on the devices of a mesh, for vectors y in one piece."""
    if not M.shape[0]:
        return DenseMap(whole_on_mesh(np.zeros(M.shape, dtype), layout.everywhere))
    devices, by_columns = layout.mesh.size, layout.by_columns
    found, rows, as_x = list[Any](), list[int](), list[bool]()
    for part in divisible_parts(M, layout):
        free = lies_as_x(part, devices, by_columns=by_columns)
        kind = np.dtype(np.float32) if part.dtype == np.float32 else np.dtype(dtype)
        known, placed = part.memory.known(mesh_map, kind) or (None, None)
        if known != layout:  # only those of one mesh are kept
            placed = (place_as_x if free else place_part)(part, kind, layout)
            part.memory.keep(mesh_map, kind, (layout, placed))
        found.append(placed)
        rows.append(part.shape[0])
        as_x.append(free)
    made = MeshMap(layout, tuple(rows), tuple(as_x), tuple(found))
    return made if made.is_plain else FlatMap(made)


def load_shards(load: Callable[[slice, slice], Any], shape: tuple[int, int], mesh: Mesh, dtype: Any = float) -> Sharded:
    """M for `dapd.Problem`, each process loading only the blocks of its own devices.

    Parameters
    ----------
    load : function of two slices
        Returns the rows and columns of M that they name: an array, or a SciPy sparse matrix, always the same kind.
    shape : pair of int
        Rows and columns of M.
    mesh : jax.sharding.Mesh
        The mesh of the solve.
    dtype : float32 or float64
    """
    shape = int(shape[0]), int(shape[1])
    layout = Layout(mesh, shape)
    places = layout.blocks(shape)

    def block(k: int) -> Any:
        rows, columns = places[k]
        found = load(rows, columns)
        found = sp.csr_array(found, dtype=dtype) if sp.issparse(found) else np.asarray(found, dtype)
        wanted = rows.stop - rows.start, columns.stop - columns.start
        if found.shape != wanted:
            raise ValueError(f"load({rows}, {columns}) returned shape {found.shape}, expected {wanted}")
        return found

    def made(part: DenseMap | SparseMap, entries: int) -> Sharded:
        return Sharded(MeshMap(layout, (shape[0],), (False,), (part,)), shape, dtype, entries)

    first = min(places)
    known = {first: block(first)}  # tells the kind; a dense one is forgotten when it is on its device
    with jax.enable_x64(True):
        if sp.issparse(known[first]):
            known |= {k: block(k) for k in places if k != first}
            (entries,) = over_processes(np.sum, sum(found.nnz for found in known.values()))
            return made(sparse_part(known, dtype, layout), entries)

        def once(k: int) -> Array:
            return known.pop(k) if k in known else block(k)

        return made(dense_part(once, shape, layout), shape[0] * shape[1])


@pytree()
class DiagonalMap:
    """diag(values), or the identity."""

    values: Array | None

    def forward(self, x: Array) -> Array:
        """Entry by entry."""
        return x if self.values is None else self.values.astype(x.dtype) * x

    adjoint = forward


@singledispatch
def place_as_x(M: Operator, dtype: Any, layout: Layout) -> DiagonalMap | BlocksMap:
    """A part whose rows lie as x does; so do its arrays."""
    return DiagonalMap(None)


@place_as_x.register
def _(M: BlockDiagonal, dtype: Any, layout: Layout) -> BlocksMap:
    blocks = M.entries.reshape(-1, *M.matrices[0].shape).astype(dtype, copy=False)
    return BlocksMap(whole_on_mesh(blocks, layout.spread(dual=False)))


@place_as_x.register
def _(M: Sparse, dtype: Any, layout: Layout) -> DiagonalMap:
    return DiagonalMap(whole_on_mesh(M.matrix.data.astype(dtype, copy=False), layout.spread(dual=False)))


@singledispatch
def place_part(M: Operator, dtype: Any, layout: Layout) -> Any:
    """A part that needs a sum over the devices; its arrays have one more axis in front: the devices."""
    matrix = as_matrix(M).stored_matrix
    places = layout.blocks(M.shape)
    if sp.issparse(matrix):
        return sparse_part({k: sp.csr_array(matrix[place]) for k, place in places.items()}, dtype, layout)
    return dense_part(lambda k: matrix[places[k]].astype(dtype, copy=False), M.shape, layout)


@place_part.register
def _(M: Sharded, dtype: Any, layout: Layout) -> Any:
    loaded = M.placed.layout
    if (loaded.mesh, loaded.by_columns) != (layout.mesh, layout.by_columns):
        raise ValueError(
            "mesh is not the one that M was loaded for, or other rows of M change what is divided "
            f"({'columns' if layout.by_columns else 'rows'}); give load_shards the mesh of the solve and all rows"
        )
    return M.placed.parts[0]


@place_part.register
def _(M: ScaledMap, dtype: Any, layout: Layout) -> FactorsMap:
    rows, columns = (
        _each(layout, factors.astype(dtype), divided=dual != layout.by_columns)
        for factors, dual in ((M.rows, True), (M.scales, False))
    )
    return FactorsMap(place_part(M.inner, dtype, layout), rows, columns)


@place_part.register
def _(M: Kronecker, dtype: Any, layout: Layout) -> Any:
    if M.A.shape[1 if layout.by_columns else 0] % layout.mesh.size:
        return place_part(as_matrix(M), dtype, layout)
    B = None if M.B is None else M.B.astype(dtype, copy=False)
    places, A = layout.blocks(M.A.shape), M.A.astype(dtype, copy=False)
    rows, columns = next(iter(places.values()))
    shape = rows.stop - rows.start, columns.stop - columns.start
    own = layout.stacked(shape, lambda k: A[places[k]])
    return KroneckerMap(shape[1], own, None if B is None else _each(layout, B, divided=False))


def _each(layout: Layout, v: Array, *, divided: bool) -> Array:
    """An array for each device: its part of `v`, or all of it."""
    if not divided:
        return layout.stacked(v.shape, lambda _: v)
    each = len(v) // layout.mesh.size
    return layout.stacked((each,), lambda k: v[k * each : (k + 1) * each])


def dense_part(block: Callable[[int], Array], shape: tuple[int, int], layout: Layout) -> DenseMap:
    """The map, from a function that makes the block of a device."""
    devices = layout.mesh.size
    rows, columns = (shape[0], shape[1] // devices) if layout.by_columns else (shape[0] // devices, shape[1])
    return DenseMap(layout.stacked((rows, columns), block))


def sparse_part(blocks: dict[int, Any], dtype: Any, layout: Layout) -> SparseMap:
    """The map, from the CSR matrices of this process's devices."""
    columns = {k: matrix.T.tocsr() for k, matrix in blocks.items()}
    return SparseMap(*(Gathered((_stacked(some, dtype, layout),), None) for some in (blocks, columns)))


def _stacked(blocks: dict[int, Any], dtype: Any, layout: Layout) -> Padded | Segments:
    """One direction of the products: rows padded to one length if that wastes little, else entries with their rows."""
    rows = next(iter(blocks.values())).shape[0]
    longest = max(int(np.diff(matrix.indptr).max(initial=0)) for matrix in blocks.values())
    longest, entries = over_processes(np.max, longest, max(matrix.nnz for matrix in blocks.values()))
    pad = may_be_padded(longest, rows, entries)
    parts = {
        k: padded(matrix, np.arange(rows), longest, dtype) if pad else _with_zeros(matrix, entries, dtype)
        for k, matrix in blocks.items()
    }

    def together(which: int) -> Array:
        return layout.stacked(next(iter(parts.values()))[which].shape, lambda k: parts[k][which])

    arrays = [together(which) for which in range(2 if pad else 3)]
    return Padded(longest, rows, *arrays) if pad else Segments(rows, *arrays)


def _with_zeros(matrix: Any, entries: int, dtype: Any) -> tuple[Array, ...]:
    """Rows, indices and values of the entries, and then zeros in the last row."""
    last = max(0, matrix.shape[0] - 1)
    return tuple(
        np.pad(part, (0, entries - matrix.nnz), constant_values=end)
        for part, end in zip(in_order(matrix, dtype), (last, 0, 0), strict=True)
    )


def over_processes(join: Callable[..., Any], *numbers: int) -> tuple[int, ...]:
    """The largest (np.max) or the sum (np.sum) of numbers that each process has."""
    if jax.process_count() == 1:
        return numbers
    from jax.experimental import multihost_utils

    found = multihost_utils.process_allgather(np.array(numbers))
    return tuple(int(n) for n in join(found, axis=0))
