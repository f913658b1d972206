"""Problems with their M on several devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import scipy.sparse as sp
from jax.sharding import Mesh

from dapd.arrays import Array
from dapd.engines.jax.layout import Layout, whole_on_mesh
from dapd.engines.jax.maps import DenseMap, SparseMap
from dapd.engines.jax.mesh.map import FlatMap, MeshMap, Sharded
from dapd.engines.jax.mesh.parts import dense_part, over_processes, place_as_x, place_part, sparse_part
from dapd.engines.jax.mesh.rows import divisible_parts, lies_as_x
from dapd.operators.base import Operator


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
