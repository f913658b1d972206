"""A sparse matrix on the devices of a mesh: each device has the entries of its own columns, or rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.sharding import PartitionSpec

from dapd.arrays import Array
from dapd.engines.jax_layout import Layout
from dapd.engines.jax_maps import Padded, Segments, in_order, may_be_padded, padded, pytree


@pytree("layout")
class MeshSparse:
    """One product per device with its own block; where blocks share their results, the sum of these."""

    layout: Layout
    by_rows: Padded | Segments  # arrays with one more axis in front: the devices
    by_columns: Padded | Segments

    def forward(self, x: Array) -> Array:
        """Mx: with blocks of columns, a sum over the devices."""
        return self._each(self.by_rows, x, dual=True)

    def adjoint(self, y: Array) -> Array:
        """Mᵀy: with blocks of rows, a sum over the devices."""
        return self._each(self.by_columns, y, dual=False)

    def _each(self, blocks: Any, v: Array, *, dual: bool) -> Array:
        """The products of all devices; `dual`: they are as long as y."""
        mesh, given, wanted = self.layout.mesh, *(self.layout.spread(dual=end).spec for end in (not dual, dual))

        def own(blocks: Any, v: Array) -> Array:
            found = jax.tree.map(lambda entries: entries[0], blocks).apply(v)
            return jax.lax.psum(found, mesh.axis_names) if wanted == PartitionSpec() else found

        devices = PartitionSpec(mesh.axis_names)
        return jax.shard_map(own, mesh=mesh, in_specs=(devices, given), out_specs=wanted)(blocks, v)

    def changed(self, to: Callable[[Array], Array]) -> MeshSparse:
        """The same with other entries, such as abs(entries)."""
        blocks = [type(part)(**{**vars(part), "values": to(part.values)}) for part in (self.by_rows, self.by_columns)]
        return MeshSparse(self.layout, *blocks)

    def magnitudes(self) -> MeshSparse:
        """|M|."""
        return self.changed(abs)


def mesh_sparse(blocks: dict[int, Any], dtype: Any, layout: Layout) -> MeshSparse:
    """The map, from the CSR matrices of this process's devices."""
    columns = {k: matrix.T.tocsr() for k, matrix in blocks.items()}
    return MeshSparse(layout, _stacked(blocks, dtype, layout), _stacked(columns, dtype, layout))


def _stacked(blocks: dict[int, Any], dtype: Any, layout: Layout) -> Padded | Segments:
    """One direction of the products: rows padded to one length if that wastes little, else entries with their rows."""
    rows = next(iter(blocks.values())).shape[0]
    longest = max(int(np.diff(matrix.indptr).max(initial=0)) for matrix in blocks.values())
    longest, entries = over_processes(np.max, longest, max(matrix.nnz for matrix in blocks.values()))
    pad = may_be_padded(longest, rows, entries)
    make = _whole if pad else _with_zeros
    parts = {k: make(matrix, longest if pad else entries, dtype) for k, matrix in blocks.items()}

    def together(which: int) -> Array:
        shape = (layout.mesh.size, *next(iter(parts.values()))[which].shape)

        def on(index: Any) -> Array:
            return parts[index[0].start or 0][which][None]

        return jax.make_array_from_callback(shape, layout.devices, on)

    if pad:
        return Padded(longest, rows, together(0), together(1))
    return Segments(rows, together(0), together(1), together(2))


def _whole(matrix: Any, width: int, dtype: Any) -> tuple[Array, ...]:
    """Indices and values of all rows."""
    return padded(matrix, np.arange(matrix.shape[0]), width, dtype)


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
