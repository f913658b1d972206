"""Matrices on several devices: maps for the steps, and operators for what the host asks of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jax.sharding import Mesh

from dapd.arrays import Array, on_host
from dapd.engines.jax_layout import Layout, put, whole_on_mesh
from dapd.engines.jax_maps import FactorsMap, product, pytree
from dapd.engines.jax_mesh_sparse import MeshSparse, mesh_sparse, over_processes
from dapd.engines.protocol import NotNative
from dapd.operators.base import Operator
from dapd.operators.explicit import Dense, Sparse
from dapd.operators.scaled import ScaledMap


@pytree("layout")
class MeshMap:
    """A dense matrix whose blocks lie on different devices."""

    layout: Layout
    matrix: Array

    def forward(self, x: Array) -> Array:
        """Mx: with blocks of columns, a sum over the devices."""
        found = product(self.matrix.astype(x.dtype), x)
        return jax.lax.with_sharding_constraint(found, self.layout.spread(dual=True))

    def adjoint(self, y: Array) -> Array:
        """Mᵀy: with blocks of rows, a sum over the devices."""
        found = product(y, self.matrix.astype(y.dtype))
        return jax.lax.with_sharding_constraint(found, self.layout.spread(dual=False))

    def changed(self, to: Callable[[Array], Array]) -> MeshMap:
        """The same with other entries, such as abs(entries)."""
        return MeshMap(self.layout, to(self.matrix))

    def magnitudes(self) -> MeshMap:
        """|M|."""
        return self.changed(abs)


class Sharded(Operator):
    """A matrix that lies on the devices of a mesh only, never as a whole on one host."""

    def __init__(self, placed: MeshMap | MeshSparse, shape: tuple[int, int], dtype: Any, entries: int) -> None:
        self.placed, self.entries = placed, entries
        self.shape, self.dtype = shape, np.dtype(dtype)

    @property
    def probes(self) -> int:
        """Each product takes all devices."""
        return min(self.shape)

    @property
    def work(self) -> int:
        """One per entry."""
        return self.entries

    def forward(self, x: Array) -> Array:
        """Mx, to and from NumPy."""
        with jax.enable_x64(True):
            return on_host(_times(self.placed, np.asarray(x, np.float64)))

    def adjoint(self, y: Array) -> Array:
        """Mᵀy, to and from NumPy."""
        with jax.enable_x64(True):
            return on_host(_transposed_times(self.placed, np.asarray(y, np.float64)))

    @cached_property
    def row_norms(self) -> Array:
        """‖M_i‖₂ of each row."""
        with jax.enable_x64(True):
            return np.sqrt(on_host(_squares(self.placed, np.ones(self.shape[1]))))


_times = jax.jit(lambda M, x: M.forward(x))
_transposed_times = jax.jit(lambda M, y: M.adjoint(y))
_squares = jax.jit(lambda M, x: M.changed(lambda entries: entries.astype(jnp.float64) ** 2).forward(x))


def mesh_map(M: Operator, dtype: Any, placed: Layout) -> Any:
    """M on the devices of a mesh."""
    if isinstance(M, ScaledMap):
        rows, columns = put(M.rows, dtype, dual=True), put(M.scales, dtype, dual=False)
        return FactorsMap(mesh_map(M.inner, dtype, placed), rows, columns)
    if isinstance(M, Sharded):
        if M.placed.layout != placed:
            raise ValueError("mesh is not the one that M was loaded for; give load_shards the mesh of the solve")
        return M.placed
    if not isinstance(M, Dense | Sparse):
        raise NotNative(
            f"M is {type(M).__name__}, and a mesh divides arrays and sparse matrices; give one of these, or what "
            "dapd.jax.load_shards returns"
        )
    kind = np.dtype(np.float32) if M.dtype == np.float32 else dtype
    key = f"on {placed.matrix} as {kind}"
    if key not in M.memory:
        if isinstance(M, Sparse):
            blocks = {k: sp.csr_array(M.matrix[part]) for k, part in placed.blocks().items()}
            M.memory[key] = mesh_sparse(blocks, kind, placed)
        else:
            M.memory[key] = MeshMap(placed, whole_on_mesh(M.matrix.astype(kind, copy=False), placed.matrix))
    return M.memory[key]


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
    placed = Layout(mesh, shape)
    places = placed.blocks()

    def block(k: int) -> Any:
        rows, columns = places[k]
        found = load(rows, columns)
        found = sp.csr_array(found, dtype=dtype) if sp.issparse(found) else np.asarray(found, dtype)
        wanted = rows.stop - rows.start, columns.stop - columns.start
        if found.shape != wanted:
            raise ValueError(f"load({rows}, {columns}) returned shape {found.shape}, expected {wanted}")
        return found

    first = min(places)
    known = {first: block(first)}  # tells the kind; a dense one is forgotten when it is on its device
    with jax.enable_x64(True):
        if sp.issparse(known[first]):
            known |= {k: block(k) for k in places if k != first}
            (entries,) = over_processes(np.sum, sum(found.nnz for found in known.values()))
            return Sharded(mesh_sparse(known, dtype, placed), shape, dtype, entries)

        def on(index: Any) -> Array:
            k = placed.holder(index)
            return known.pop(k) if k in known else block(k)

        array = jax.make_array_from_callback(shape, placed.matrix, on)
        return Sharded(MeshMap(placed, array), shape, dtype, shape[0] * shape[1])
