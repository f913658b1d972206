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
from dapd.engines.jax.batch.known import Constants
from dapd.engines.jax.batch.lockstep import Axes, Lockstep, Together
from dapd.engines.jax.judge import Measured, certificate_of, measured_of, multipliers, within_bounds
from dapd.engines.jax.program import plain
from dapd.engines.jax.runner import place
from dapd.functions.proximable import PrimalProx
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
    prox: PrimalProx | None = None  # of f, if all of it has one
    prox_axes: PrimalProx | None = None

    def lockstep(self, known: Constants) -> Lockstep:
        """They in lock step."""
        own = Constants(*(0 for _ in known))
        return Lockstep(Together(self.measured, self.prox, known), Together(self.axes, self.prox_axes, own))

    def certify(self, x: Array, y: Array, accuracy: str) -> Certified:
        """All certificates."""
        with jax.enable_x64(True):
            x, z, numbers = _certify(Axes(self.axes))(self.measured, x, y)
            return Certified(x, z, Certificate.of_numbers(map(np.array, numbers), accuracy))


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
        prox = _prox_of([first]) if c is None and first.lower is None else None
    return Stacked(measured, axes, prox, _shared(prox))


def _prox_of(problems: Sequence[Problem]) -> PrimalProx | None:
    """The prox of problems, each part stacked if they differ; None if some part of an f has none."""
    if any(problem.proximable.rest is not None for problem in problems):
        return None
    each = [problem.primal_prox for problem in problems]
    if len({tuple(part is None for part in prox) for prox in each}) > 1:
        return None
    parts = (list(part) for part in zip(*each, strict=True))
    if len(problems) == 1:
        return PrimalProx(*(None if part[0] is None else jnp.asarray(part[0], F64) for part in parts))
    return PrimalProx(*(None if part[0] is None else jnp.asarray(np.stack(part), F64) for part in parts))


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
        prox = _prox_of(problems)
        own = None if prox is None else PrimalProx(*(None if part is None else 0 for part in prox))
    axes = jax.tree.unflatten(structure, [None if one else 0 for one in same])
    return Stacked(measured, axes, prox, own)


def computed_there(call: Callable[..., Any], *given: Any) -> Any:
    """What a function returns that is given the array functions of JAX last, and what compiles a function."""
    with jax.enable_x64(True):
        return call(*given, jnp, plain)


def repeated(count: int) -> Callable[[Callable[[Array], Array], Array], Array]:
    """So many turns of a function, as a loop of a compiled program."""

    def turns(body: Callable[[Array], Array], v: Array) -> Array:
        return jax.lax.fori_loop(0, count, lambda _, v: body(v), v)

    return turns


def compiled_there(call: Callable[..., Any], *given: Any) -> Any:
    """What a function of arrays returns, compiled for the device, in float64."""
    with jax.enable_x64(True):
        return plain(call)(*given)
