"""M and φ on several devices: for the steps, whose y may be in sections, and M for y as a single vector."""

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
from dapd.engines.jax.functions import place_kinds
from dapd.engines.jax.layout import Layout, whole_on_mesh
from dapd.engines.jax.maps import Sized, product_of
from dapd.engines.jax.pytree import pytree
from dapd.kinds.base import Phi, kinds_of
from dapd.operators.base import Operator
from dapd.problem.problem import Problem


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

    def __abs__(self) -> Sections:
        return Sections(tuple(map(abs, self.parts)))

    def __gt__(self, other: Any) -> Sections:
        return self._each(lambda a, b: a > b, other)

    def sum(self) -> Array:
        """Of all entries."""
        return functools.reduce(jnp.add, (part.sum() for part in self.parts))

    @property
    def dtype(self) -> Any:
        """That of all sections."""
        return self.parts[0].dtype


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

        sections = self._call(own, self._x, self._sections)(self.parts, x)
        return sections[0] if self.is_plain else Sections(sections)

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


@pytree()
class SectionsPhi:
    """φ, section by section."""

    parts: tuple[Any, ...]

    def prox(self, v: Sections, step: Any) -> Sections:
        """The prox of each section."""
        return Sections(tuple(part.prox(own, step) for part, own in zip(self.parts, v.parts, strict=True)))


def sections_of_phi(problem: Problem, M: MeshMap) -> SectionsPhi:
    """φ for the sections of y, in the problem's dtype."""
    found = zip(cut(kinds_of(problem.phi, problem.rows), M.rows), M.shardings, strict=True)
    return SectionsPhi(
        tuple(
            place_kinds(own, problem.dtype, functools.partial(whole_on_mesh, sharding=sharding))
            for own, sharding in found
        )
    )


def cut(kinds: list[tuple[Phi, int]], sections: tuple[int, ...]) -> list[list[tuple[Phi, int]]]:
    """The canonical kinds for the rows of each section."""
    left, found = list(kinds), []
    for rows in sections:
        own: list[tuple[Phi, int]] = []
        while rows:
            kind, length = left.pop(0)
            if length > rows:
                left.insert(0, (_part_of(kind, slice(rows, length), length), length - rows))
                kind, length = _part_of(kind, slice(0, rows), length), rows
            own.append((kind, length))
            rows -= length
        found.append(own)
    return found


def _part_of(kind: Phi, at: slice, rows: int) -> Phi:
    part = kind.part(at, rows)
    if part is not None:
        return part
    if kind.runs_on_device:
        raise ValueError(
            "a group of φ has rows in two parts of M, which lie differently on the devices of mesh; give the rows "
            "of a group in one part of M"
        )
    raise ValueError(
        f"φ = {kind.kind} is only known by its prox, and on a mesh the parts of M lie differently; "
        "give dapd.Stack with a φ for each part of M"
    )


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

    def _product(self, name: str, v: Array, power: float | None = None) -> Array:
        with jax.enable_x64(True):
            return on_host(product_of(self.placed, name, np.asarray(v, np.float64), power))

    def forward(self, x: Array) -> Array:
        return self._product("forward", x)

    def adjoint(self, y: Array) -> Array:
        return self._product("adjoint", y)

    @cached_property
    def row_norms(self) -> Array:
        return np.sqrt(self.row_sizes(np.ones(self.shape[1]), 2))

    def row_sizes(self, x: Array, power: float = 1) -> Array:
        """Σ_j |M_ij|^power |x_j| of each row."""
        return self._product("forward", abs(x), power)

    def column_sizes(self, y: Array, power: float = 1) -> Array:
        """Σ_i |M_ij|^power |y_i| of each column."""
        return self._product("adjoint", abs(y), power)
