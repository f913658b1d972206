"""Many problems on the device as one tree of arrays, and their certificates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dapd.arrays import Array
from dapd.certificate.certify import Certificate
from dapd.engines.jax.batch.lockstep import Axes
from dapd.engines.jax.judge import Measured, certificate_of, measured_of, multipliers, within_bounds
from dapd.engines.jax.runner import place
from dapd.kinds.by_rows import Rows
from dapd.problem.problem import Problem
from dapd.problem.sizes import Limits, Sizes
from dapd.spectrum.deadline import check_deadline

F64 = np.dtype(np.float64)


class Certified(NamedTuple):
    """Points between their bounds, one row per problem, and their certificates."""

    x: Array
    z: Array
    certificate: Certificate


class Stacked(NamedTuple):
    """Many problems as one tree, and along which axis each of its arrays counts them (None: all share it)."""

    measured: Measured
    axes: Any

    def certify(self, x: Array, y: Array, accuracy: str) -> Certified:
        """All certificates."""
        with jax.enable_x64(True):
            x, z, numbers = _certify(Axes(self.axes))(self.measured, x, y)
            return Certified(np.array(x), np.array(z), Certificate.of_numbers(map(np.array, numbers), accuracy))


@lru_cache(maxsize=64)
def _certify(axes: Axes) -> Any:
    def found(measured: Measured, x: Array, y: Array) -> tuple[Array, Array, tuple[Array, ...]]:
        x = within_bounds(measured, x, y)
        wide = x.astype(F64), y.astype(F64)
        return x, multipliers(measured, *wide).astype(y.dtype), certificate_of(measured, *wide).numbers

    return jax.jit(jax.vmap(found, in_axes=(axes.tree, 0, 0)))


def stacked_like(
    first: Problem, rows: Rows, b: Array, c: Array | None, sizes: Sequence[Array], limits: Limits | None
) -> Stacked:
    """Problems that differ from the first in φ's ends, b, perhaps c and the bounds.

    `sizes` are those of their data, and `limits` those of their bounds.
    """
    with jax.enable_x64(True):
        placed = place(first, F64)
        phi, phi_axes = _rows_of(rows)
        f, f_axes = placed.f, _shared(placed.f)
        if c is not None:
            f, f_axes = f.with_c(jnp.asarray(c, F64)), f_axes.with_c(0)
        bounds = None if limits is None else Limits(*map(jnp.asarray, limits))
        measured = Measured(placed.M, f, phi, jnp.asarray(b), Sizes(*map(jnp.asarray, sizes)), bounds)
        own_bounds = None if limits is None else Limits(*(0 for _ in limits))
        axes = Measured(_shared(placed.M), f_axes, phi_axes, 0, Sizes(*(0 for _ in sizes)), own_bounds)
    return Stacked(measured, axes)


def _shared(tree: Any) -> Any:
    return jax.tree.map(lambda _: None, tree)


def _rows_of(rows: Rows) -> tuple[Rows, Any]:
    """φ on the device, and which of its arrays have a row per problem."""
    phi = rows.with_parameters({name: jnp.asarray(value) for name, value in rows.parameters().items()})
    return phi, jax.tree.map(lambda leaf: None if leaf.ndim == 1 else 0, phi)


def stacked_list(problems: Sequence[Problem], deadline: float) -> Stacked | None:
    """Problems of the same structure; None if they have not."""
    with jax.enable_x64(True):
        trees = []
        for problem in problems:
            check_deadline(deadline)
            trees.append(measured_of(problem))
        structures = {jax.tree.structure(tree) for tree in trees}
        shapes = {tuple(jnp.shape(leaf) for leaf in jax.tree.leaves(tree)) for tree in trees}
        if len(structures) > 1 or len(shapes) > 1 or not trees[0].phi.runs_on_device:
            return None
        columns = list(zip(*(jax.tree.leaves(tree) for tree in trees), strict=True))
        same = [all(leaf is column[0] for leaf in column) for column in columns]
        leaves = [column[0] if one else jnp.stack(column) for column, one in zip(columns, same, strict=True)]
        structure = structures.pop()
        measured = jax.tree.unflatten(structure, leaves)
    return Stacked(measured, jax.tree.unflatten(structure, [None if one else 0 for one in same]))


def computed_there(call: Callable[..., Any], *given: Any) -> Any:
    """What a function returns that computes with the array functions that it is given last: those of JAX."""
    with jax.enable_x64(True):
        return call(*given, jnp)


def in_double(call: Callable[..., Any]) -> Callable[..., Any]:
    """A function of arrays, computed on the device in float64."""

    def there(*arrays: Array) -> Any:
        with jax.enable_x64(True):
            return call(*map(jnp.asarray, arrays))

    return there
