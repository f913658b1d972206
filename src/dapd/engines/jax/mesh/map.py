"""M on several devices: a map for the steps, whose y may be in sections, and one with y as a single vector."""

from __future__ import annotations

import functools
from collections.abc import Callable
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from dapd.arrays import Array, on_host
from dapd.engines.jax.layout import Layout, whole_on_mesh
from dapd.engines.jax.maps import Sized, changed
from dapd.engines.jax.pytree import pytree
from dapd.operators.base import Operator


@pytree()
class Sections:
    """A vector as long as y in sections that lie differently on the devices; a step computes with it as with y."""

    __array_ufunc__ = None  # NumPy's numbers leave arithmetic with sections to them

    parts: tuple[Array, ...]

    def _each(self, call: Callable[..., Array], other: Any) -> Sections:
        others = other.parts if isinstance(other, Sections) else (other,) * len(self.parts)
        return Sections(tuple(map(call, self.parts, others)))

    def __add__(self, other: Any) -> Sections:
        return self._each(lambda a, b: a + b, other)

    def __sub__(self, other: Any) -> Sections:
        return self._each(lambda a, b: a - b, other)

    def __mul__(self, other: Any) -> Sections:
        return self._each(lambda a, b: a * b, other)

    def __truediv__(self, other: Any) -> Sections:
        return self._each(lambda a, b: a / b, other)

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> Sections:
        return self * -1


@pytree("layout", "rows", "as_x")
class MeshMap(Sized):
    """Maps on top of each other, of which each device has its own columns, or rows; one sum over all for a product."""

    layout: Layout
    rows: tuple[int, ...]  # of each part
    as_x: tuple[bool, ...]  # whether its rows lie as x does, so that its products need no sum
    parts: tuple[Any, ...]  # if not, its arrays have one more axis in front: the devices

    @property
    def is_plain(self) -> bool:
        """Whether y is one array."""
        return self.as_x == (False,)

    def forward(self, x: Array) -> Any:
        """Mx: with blocks of columns, a sum over the devices."""
        axes, by_columns = self.layout.mesh.axis_names, self.layout.by_columns

        def own(parts: Any, x: Array) -> tuple[Array, ...]:
            found = [part.forward(x) for part in self._of_device(parts)]
            summed = [k for k, free in enumerate(self.as_x) if not free]
            if summed and by_columns:
                total = jax.lax.psum(jnp.concatenate([found[k] for k in summed]), axes)
                ends = list(accumulate(self.rows[k] for k in summed))[:-1]
                for k, some in zip(summed, jnp.split(total, ends), strict=True):
                    found[k] = some
            return tuple(found)

        return self._wrapped(self._call(own, self._x, self._sections)(self.parts, x))

    def adjoint(self, y: Any) -> Array:
        """Mᵀy: with blocks of rows, a sum over the devices."""
        axes, by_columns = self.layout.mesh.axis_names, self.layout.by_columns

        def own(parts: Any, sections: tuple[Array, ...]) -> Array:
            found = [part.adjoint(v) for part, v in zip(self._of_device(parts), sections, strict=True)]
            summed = [some for some, free in zip(found, self.as_x, strict=True) if not free]
            if summed:
                total = functools.reduce(jnp.add, summed)
                summed = [total if by_columns else jax.lax.psum(total, axes)]
            return functools.reduce(jnp.add, summed + [v for v, free in zip(found, self.as_x, strict=True) if free])

        sections = (y,) if self.is_plain else y.parts
        found: Array = self._call(own, self._sections, self._x)(self.parts, sections)
        return found

    def _call(self, own: Callable[..., Any], given: Any, wanted: Any) -> Callable[..., Any]:
        """A function of the parts and a vector, on each device."""
        mesh = self.layout.mesh
        parts = tuple(self._x if free else PartitionSpec(mesh.axis_names) for free in self.as_x)
        return jax.shard_map(own, mesh=mesh, in_specs=(parts, given), out_specs=wanted)

    def _of_device(self, parts: Any) -> list[Any]:
        """The maps of the device that asks."""
        return [
            part if free else jax.tree.map(lambda entries: entries[0], part)
            for part, free in zip(parts, self.as_x, strict=True)
        ]

    @property
    def shardings(self) -> list[NamedSharding]:
        """How the sections of y lie on the devices."""
        return [self.layout.spread(dual=not free) for free in self.as_x]

    @property
    def _x(self) -> PartitionSpec:
        return self.layout.spread(dual=False).spec

    @property
    def _sections(self) -> tuple[PartitionSpec, ...]:
        return tuple(sharding.spec for sharding in self.shardings)

    def _wrapped(self, sections: tuple[Array, ...]) -> Any:
        return sections[0] if self.is_plain else Sections(sections)

    def cut(self, y: Array, place: Callable[[Array, NamedSharding], Array]) -> Any:
        """A vector as long as y in sections that `place` puts where they belong."""
        if self.is_plain:
            return y
        ends = pairwise(accumulate(self.rows, initial=0))
        return Sections(tuple(place(y[a:b], at) for (a, b), at in zip(ends, self.shardings, strict=True)))

    def divided(self, y: Array) -> Any:
        """A vector of the devices as long as y, in its sections."""
        return self.cut(y, jax.lax.with_sharding_constraint)

    def put(self, y: Array) -> Any:
        """A vector of the host as long as y, in its sections on the devices."""
        return self.cut(y, whole_on_mesh)

    def joined(self, y: Any) -> Array:
        """The vector of which these are the sections, on every device."""
        if self.is_plain:
            return y
        everywhere = self.layout.everywhere
        return jnp.concatenate([jax.lax.with_sharding_constraint(v, everywhere) for v in y.parts])


@pytree()
class FlatMap(Sized):
    """The same map with y as a single vector, for all but the steps."""

    inner: MeshMap

    def forward(self, x: Array) -> Array:
        """Mx, on every device."""
        return self.inner.joined(self.inner.forward(x))

    def adjoint(self, y: Array) -> Array:
        """Mᵀy."""
        # said here, else XLA might divide y itself
        return self.inner.adjoint(self.inner.divided(jax.lax.with_sharding_constraint(y, self.inner.layout.everywhere)))


class Sharded(Operator):
    """A matrix that lies on the devices of a mesh only, never as a whole on one host."""

    def __init__(self, placed: MeshMap, shape: tuple[int, int], dtype: Any, entries: int) -> None:
        self.placed, self.entries = placed, entries
        self.shape, self.dtype = shape, np.dtype(dtype)

    @property
    def probes(self) -> int:
        return min(self.shape)

    @property
    def work(self) -> int:
        return self.entries

    def forward(self, x: Array) -> Array:
        with jax.enable_x64(True):
            return on_host(_times(self.placed, np.asarray(x, np.float64)))

    def adjoint(self, y: Array) -> Array:
        with jax.enable_x64(True):
            return on_host(_transposed_times(self.placed, np.asarray(y, np.float64)))

    @cached_property
    def row_norms(self) -> Array:
        with jax.enable_x64(True):
            return np.sqrt(on_host(_raised(self.placed, 2, np.ones(self.shape[1]))))

    def row_sizes(self, x: Array, power: float = 1) -> Array:
        """Σ_j |M_ij|^power |x_j| of each row."""
        with jax.enable_x64(True):
            return on_host(_raised(self.placed, power, np.asarray(abs(x), np.float64)))

    def column_sizes(self, y: Array, power: float = 1) -> Array:
        """Σ_i |M_ij|^power |y_i| of each column."""
        with jax.enable_x64(True):
            return on_host(_raised_transpose(self.placed, power, np.asarray(abs(y), np.float64)))


_times = jax.jit(lambda M, x: M.forward(x))
_transposed_times = jax.jit(lambda M, y: M.adjoint(y))


def _to_power(M: MeshMap, power: float) -> Any:
    """|M|, entry by entry to a power."""
    return changed(M, lambda entries: (abs(entries.astype(jnp.float64)) ** power) * (entries != 0))


_raised = jax.jit(lambda M, power, x: _to_power(M, power).forward(x), static_argnums=1)
_raised_transpose = jax.jit(lambda M, power, y: _to_power(M, power).adjoint(y), static_argnums=1)
