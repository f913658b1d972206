"""Several devices: blocks of columns (or rows) of M on each, and one vector summed over all of them per iteration.

With blocks of columns, x is divided like the columns and y is on every device; Mv is a sum over the devices, and Mᵀy
needs none. With blocks of rows it is the other way round. The shorter of the two vectors is the one that is summed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from dapd.arrays import Array, on_device, on_host
from dapd.clock import agreeing
from dapd.engines.jax_maps import product, pytree
from dapd.engines.protocol import NotNative
from dapd.operators.base import Dense, Operator
from dapd.operators.scaled import ScaledMap

# what XLA's collectives say when a process has gone
LOST = ("Gloo", "closed by peer", "Connection reset", "NCCL", "UNAVAILABLE", "heartbeat")
LOST_PEER = (
    "a process of this solve was lost, so the others cannot go on; start all of them again. With checkpoint=path the "
    "solve goes on from the last point that was saved"
)

_layout: ContextVar[Layout | None] = ContextVar("layout", default=None)


class Layout:
    """Which vectors are divided among the devices of a mesh."""

    def __init__(self, mesh: Mesh, shape: tuple[int, int]) -> None:
        self.mesh, self.by_columns = mesh, shape[0] <= shape[1]
        divided = shape[1] if self.by_columns else shape[0]
        if divided % mesh.size:
            what = "columns" if self.by_columns else "rows"
            raise ValueError(
                f"M has {divided} {what}, which the {mesh.size} devices of mesh cannot divide evenly; append "
                f"{'variables that M does not touch' if self.by_columns else 'zero rows'}, or use fewer devices"
            )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Layout) and (self.mesh, self.by_columns) == (other.mesh, other.by_columns)

    def __hash__(self) -> int:
        return hash((self.mesh, self.by_columns))

    def spread(self, *, dual: bool) -> NamedSharding:
        """How a vector as long as x, or as y, lies on the devices."""
        divided = dual != self.by_columns
        return NamedSharding(self.mesh, PartitionSpec(self.mesh.axis_names) if divided else PartitionSpec())

    @property
    def matrix(self) -> NamedSharding:
        """How M lies on the devices."""
        axes = self.mesh.axis_names
        return NamedSharding(self.mesh, PartitionSpec(None, axes) if self.by_columns else PartitionSpec(axes, None))


def layout() -> Layout | None:
    """The layout of the solve in progress; None if it uses one device."""
    return _layout.get()


@contextmanager
def using(mesh: Any, shape: tuple[int, int]) -> Iterator[None]:
    """Divide what is placed within the block over a mesh; None: over nothing."""
    if mesh is None:
        yield
        return
    if not isinstance(mesh, Mesh):
        raise TypeError(f"mesh must be a jax.sharding.Mesh, found {type(mesh).__name__}")
    token = _layout.set(Layout(mesh, shape))
    try:
        if jax.process_count() > 1:
            with agreeing(Agreed().read):
                try:
                    yield
                except (RuntimeError, ValueError) as error:
                    if not any(word in str(error) for word in LOST):
                        raise
                    raise RuntimeError(LOST_PEER) from error
        else:
            yield
    finally:
        _layout.reset(token)


class Agreed:
    """The clock of process 0, read by all processes together."""

    def read(self) -> float:
        """Seconds."""
        from jax.experimental import multihost_utils

        return float(multihost_utils.broadcast_one_to_all(np.float64(time.perf_counter())))


def put(v: Any, dtype: Any, *, dual: bool) -> Array:
    """A vector as long as x, or as y, where the layout wants it; numbers and other lengths are on every device."""
    placed = layout()
    if placed is None:
        return jnp.asarray(v, dtype)
    if on_device(v) and not v.is_fully_addressable:
        return v.astype(dtype)
    host = np.asarray(v, dtype)
    return whole(host, placed.spread(dual=dual) if host.ndim else NamedSharding(placed.mesh, PartitionSpec()))


def whole(host: Array, sharding: NamedSharding) -> Array:
    """An array that every process has, divided among the devices."""
    return jax.make_array_from_callback(host.shape, sharding, lambda index: host[index])


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

    def magnitudes(self) -> MeshMap:
        """|M|."""
        return MeshMap(self.layout, abs(self.matrix))


class Sharded(Operator):
    """A matrix that lies on the devices of a mesh only, never as a whole on one host."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self.shape, self.dtype = array.shape, np.dtype(array.dtype)

    @property
    def probes(self) -> int:
        """Each product takes all devices."""
        return min(self.shape)

    @property
    def work(self) -> int:
        """One per entry."""
        return int(self.shape[0]) * int(self.shape[1])

    def _replicated(self, found: Any) -> Array:
        return on_host(found)

    def forward(self, x: Array) -> Array:
        """Mx, to and from NumPy."""
        with jax.enable_x64(True):
            return self._replicated(_times(self.array, np.asarray(x)))

    def adjoint(self, y: Array) -> Array:
        """Mᵀy, to and from NumPy."""
        with jax.enable_x64(True):
            return self._replicated(_transposed_times(self.array, np.asarray(y)))

    @cached_property
    def row_norms(self) -> Array:
        """‖M_i‖₂ of each row."""
        with jax.enable_x64(True):
            return self._replicated(_row_norms(self.array))


_times = jax.jit(lambda M, x: product(M.astype(jnp.float64), x))
_transposed_times = jax.jit(lambda M, y: product(y, M.astype(jnp.float64)))
_row_norms = jax.jit(lambda M: jnp.sqrt(jnp.sum(M.astype(jnp.float64) ** 2, axis=1)))


def mesh_map(M: Operator, dtype: Any, placed: Layout) -> Any:
    """M on the devices of a mesh."""
    from dapd.engines.jax_maps import FactorsMap

    if isinstance(M, ScaledMap):
        rows, columns = put(M.rows, dtype, dual=True), put(M.scales, dtype, dual=False)
        return FactorsMap(mesh_map(M.inner, dtype, placed), rows, columns)
    if isinstance(M, Sharded):
        return MeshMap(placed, jax.device_put(M.array, placed.matrix))
    if isinstance(M, Dense):
        kind = np.dtype(np.float32) if M.dtype == np.float32 else dtype
        key = f"on {placed.matrix} as {kind}"
        if key not in M.memory:
            M.memory[key] = whole(M.matrix.astype(kind, copy=False), placed.matrix)
        return MeshMap(placed, M.memory[key])
    raise NotNative(
        f"M is {type(M).__name__}, and a mesh divides dense matrices; give an array, or one from dapd.jax.load_shards"
    )


def load_shards(load: Callable[[slice, slice], Any], shape: tuple[int, int], mesh: Mesh, dtype: Any = float) -> Sharded:
    """M for `dapd.Problem`, each process loading only the blocks of its own devices.

    Parameters
    ----------
    load : function of two slices
        Returns the rows and columns of M that they name, as an array.
    shape : pair of int
        Rows and columns of M.
    mesh : jax.sharding.Mesh
        The mesh of the solve.
    dtype : float32 or float64
    """
    rows, columns = (int(size) for size in shape)
    placed = Layout(mesh, (rows, columns))

    def block(index: Any) -> Array:
        sides = [slice(*part.indices(size)[:2]) for part, size in zip(index, (rows, columns), strict=True)]
        found = np.asarray(load(*sides), dtype)
        wanted = tuple(side.stop - side.start for side in sides)
        if found.shape != wanted:
            raise ValueError(f"load({sides[0]}, {sides[1]}) returned shape {found.shape}, expected {wanted}")
        return found

    with jax.enable_x64(True):
        return Sharded(jax.make_array_from_callback((rows, columns), placed.matrix, block))
