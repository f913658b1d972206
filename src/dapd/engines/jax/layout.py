"""Several devices: blocks of columns (or rows) of M on each, and one vector summed over all of them per iteration.

With blocks of columns, x is divided like the columns and y is on every device; Mv is a sum over the devices, and Mᵀy
needs none. With blocks of rows it is the other way round. The shorter of the two vectors is the one that is summed.
The rows of an identity or of a block diagonal need no sum: their part of y lies as x does (see `mesh.rows`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from dapd.arrays import Array, on_device
from dapd.machine.clock import agreeing

# what XLA's collectives say when a process has gone
LOST = ("Gloo", "closed by peer", "Connection reset", "NCCL", "UNAVAILABLE", "heartbeat")
LOST_PEER = (
    "a process of this solve was lost, so the others cannot go on; start all of them again. With checkpoint=path the "
    "solve goes on from the last point that was saved"
)

LONG = 1 << 16  # entries of a vector that takes longer to be sent than to be looked at
_layout: ContextVar[Layout | None] = ContextVar("layout", default=None)


class Layout:
    """Which vectors are divided among the devices of a mesh; `shape` is that of the rows of M that need a sum."""

    def __init__(self, mesh: Mesh, shape: tuple[int, int]) -> None:
        self.mesh, self.shape, self.by_columns = mesh, shape, shape[0] <= shape[1]
        divided = max(shape)
        if divided % mesh.size:
            what = "columns" if self.by_columns else "rows"
            raise ValueError(
                f"M has {divided} {what}, which the {mesh.size} devices of mesh cannot divide evenly; append "
                f"{'variables that M does not touch' if self.by_columns else 'zero rows'}, or use fewer devices"
            )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Layout) and (self.mesh, self.shape) == (other.mesh, other.shape)

    def __hash__(self) -> int:
        return hash((self.mesh, self.shape))

    def spread(self, *, dual: bool) -> NamedSharding:
        """How a vector as long as x, or as y, lies on the devices."""
        divided = dual != self.by_columns
        return NamedSharding(self.mesh, PartitionSpec(self.mesh.axis_names) if divided else PartitionSpec())

    @property
    def everywhere(self) -> NamedSharding:
        """How an array lies that every device has."""
        return NamedSharding(self.mesh, PartitionSpec())

    @property
    def devices(self) -> NamedSharding:
        """How an array with an entry for each device lies on them."""
        return NamedSharding(self.mesh, PartitionSpec(self.mesh.axis_names))

    def blocks(self, shape: tuple[int, int]) -> dict[int, tuple[slice, slice]]:
        """Rows and columns of a matrix on each device of this process, by the number of the device in the mesh."""
        each = shape[1 if self.by_columns else 0] // self.mesh.size
        places = self.devices.addressable_devices_indices_map((self.mesh.size,)).values()
        found = {}
        for k in sorted(range(self.mesh.size)[place[0]][0] for place in places if place is not None):
            some = slice(k * each, (k + 1) * each)
            found[k] = (slice(0, shape[0]), some) if self.by_columns else (some, slice(0, shape[1]))
        return found

    def stacked(self, shape: tuple[int, ...], part: Callable[[int], Array]) -> Array:
        """An array with one more axis in front: the devices, whose parts of this shape are made one after the other."""

        def on(index: Any) -> Array:
            return part(index[0].start or 0)[None]

        return jax.make_array_from_callback((self.mesh.size, *shape), self.devices, on)


def layout() -> Layout | None:
    """The layout of the solve in progress; None if it uses one device."""
    return _layout.get()


@contextmanager
def using(mesh: Mesh, shape: tuple[int, int]) -> Iterator[None]:
    """Divide what is placed within the block over a mesh."""
    token = _layout.set(Layout(mesh, shape))
    try:
        if jax.process_count() > 1:
            with agreeing(_agreed):
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


def _agreed() -> float:
    """The clock of process 0, read by all processes together."""
    from jax.experimental import multihost_utils

    return float(multihost_utils.broadcast_one_to_all(np.float64(time.perf_counter())))


def put(v: Any, dtype: Any, *, dual: bool) -> Array:
    """A vector as long as x, or as y, where the layout wants it; numbers and other lengths are on every device."""
    placed = layout()
    if placed is None:
        if on_device(v) and v.dtype == dtype:
            return v
        # a start of zeros need not be sent
        if isinstance(v, np.ndarray) and v.size >= LONG and jax.default_backend() == "gpu" and not v.any():
            return jnp.zeros(v.shape, dtype)
        return jnp.asarray(v, dtype)
    if on_device(v) and not v.is_fully_addressable:
        return v.astype(dtype)
    host = np.asarray(v, dtype)
    fits = host.ndim and len(host) == placed.shape[0 if dual else 1]
    return whole_on_mesh(host, placed.spread(dual=dual) if fits else placed.everywhere)


def whole_on_mesh(host: Array, sharding: NamedSharding) -> Array:
    """An array that every process has, divided among the devices."""
    return jax.make_array_from_callback(host.shape, sharding, lambda index: host[index])
