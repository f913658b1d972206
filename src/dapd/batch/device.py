"""A batch on the device of JAX: stacked problems, their lock step, and their certificates."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dapd.arrays import Array
from dapd.batch.condensed import Condensed, condensed, stacked_rows
from dapd.batch.family import Family
from dapd.batch.lockstep import Axes, Constants, Lockstep
from dapd.engines.jax import Placed, place
from dapd.engines.jax_functions import PhiOf, RowsOf, TermsOf
from dapd.engines.jax_maps import DenseMap
from dapd.model.problem import Problem, least_slope
from dapd.presolve.rows import PhiTable
from dapd.solving.jax_certificate import Measured, certificate_of
from dapd.spectrum.deadline import check_deadline

F64 = np.dtype(np.float64)


class Stacked(NamedTuple):
    """Many problems as one tree, and along which axis each of its arrays counts them (None: all share it)."""

    measured: Measured
    axes: Any

    def certify(self, x: Array, y: Array) -> Array:
        """The numbers of all certificates, one row per problem."""
        with jax.enable_x64(True):
            return np.array(_certify(Axes(self.axes))(self.measured, x, y))

    def lockstep(self, known: Constants) -> Lockstep:
        """The batch, ready to run."""
        return Lockstep(self.measured, self.axes, known)


@lru_cache(maxsize=64)
def _certify(axes: Axes) -> Any:
    def numbers(measured: Measured, x: Array, y: Array) -> Array:
        return certificate_of(measured, x.astype(F64), y.astype(F64))

    return jax.jit(jax.vmap(numbers, in_axes=(axes.tree, 0, 0)))


def _shared(tree: Any) -> Any:
    return jax.tree.map(lambda _: None, tree)


def _rows_of(table: PhiTable, lower: Array, upper: Array) -> tuple[PhiOf, Any]:
    """φ by rows, with bounds that all problems share, or with a row per problem."""
    phi = PhiOf((RowsOf(None, len(table.code), jnp.asarray(table.code), jnp.asarray(lower), jnp.asarray(upper)),))
    bounds = (None, None) if lower.ndim == 1 else (0, 0)
    return phi, PhiOf((RowsOf(None, len(table.code), None, *bounds),))


def stacked_condensed(form: Condensed) -> Stacked:
    """The condensed family."""
    with jax.enable_x64(True):
        phi, phi_axes = _rows_of(form.rows, form.lower, form.upper)
        f = TermsOf(None, None, None, jnp.zeros(()), jnp.ones(()), None, None, None)
        placed = Placed(DenseMap(jnp.asarray(form.M)), f, phi, jnp.asarray(form.b))
        axes = Placed(_shared(placed.M), _shared(f), phi_axes, 0)
        norms = np.linalg.norm(form.M, axis=1)
        size = abs(placed.b) + norms
        duals = jnp.asarray(1 / np.where(norms > 0, norms, 1.0))
        rows = jnp.where(size > 0, size, 1.0)
        measured = Measured(placed, rows, duals, jnp.ones(form.M.shape[1]), jnp.ones(()))
    return Stacked(measured, Measured(axes, 0, None, None, None))


def condensed_there(family: Family) -> Condensed | None:
    """The change of variables, computed on the device."""
    with jax.enable_x64(True):
        return condensed(family, jnp)


def way_back(form: Condensed) -> Any:
    """`form.back`, computed on the device."""
    numbers = ("at", "W", "D", "H", "c", "M_I", "to_y")
    with jax.enable_x64(True):
        moved: dict[str, Any] = {name: jnp.asarray(getattr(form, name)) for name in numbers}
        placed = form._replace(**moved)

    def back(v: Array, y: Array) -> tuple[Array, Array]:
        with jax.enable_x64(True):
            return placed.back(jnp.asarray(v), jnp.asarray(y))

    return back


def stacked_family(family: Family) -> Stacked | None:
    """The family as it is given; None if groups of rows stand in the way."""
    first = family.first.stacked
    table = PhiTable.of(first)
    if table is None or table.balls.any():
        return None
    start = np.asarray(first.f.grad(np.zeros(first.columns)), np.float64)
    if family.c is not None:
        start = -family.c.astype(np.float64)
    unit: Any = np.maximum(first.f.mu, least_slope(np.where(start != 0, abs(start), first.curvature)))
    unit = np.where(unit == 0, first.f.L or 1.0, unit)
    norms = first.M.row_norms
    with jax.enable_x64(True):
        b, lower, upper = stacked_rows(family, table, jnp)
        b = jnp.broadcast_to(b, (len(family), first.rows))
        size = abs(b) + norms
        placed = place(first, F64)
        phi, phi_axes = _rows_of(table, lower, upper)
        f, f_axes = placed.f, _shared(placed.f)
        if family.c is not None and isinstance(f, TermsOf):
            f = TermsOf(**{**vars(f), "c": jnp.asarray(family.c, F64)})
            f_axes = TermsOf(**{**vars(f_axes), "c": 0})
        placed = Placed(placed.M, f, phi, b)
        axes = Placed(_shared(placed.M), f_axes, phi_axes, 0)
        many = 0 if np.ndim(unit) else None
        measured = Measured(
            placed,
            jnp.where(size > 0, size, 1.0),
            jnp.asarray(unit[..., None] / np.where(norms > 0, norms, 1.0)),
            jnp.asarray(abs(start) + unit[..., None]),
            jnp.asarray(unit),
        )
    columns_axis = 0 if measured.columns.ndim == 2 else None
    duals = 0 if measured.duals.ndim == 2 else None
    return Stacked(measured, Measured(axes, 0, duals, columns_axis, many))


def stacked_list(problems: Sequence[Problem], deadline: float) -> Stacked | None:
    """Problems of the same structure; None if they have not."""
    with jax.enable_x64(True):
        trees = []
        for problem in problems:
            check_deadline(deadline)
            trees.append(_measured(problem))
        structures = {jax.tree.structure(tree) for tree in trees}
        shapes = {tuple(jnp.shape(leaf) for leaf in jax.tree.leaves(tree)) for tree in trees}
        if len(structures) > 1 or len(shapes) > 1 or not isinstance(trees[0].placed.phi, PhiOf):
            return None
        columns = list(zip(*(jax.tree.leaves(tree) for tree in trees), strict=True))
        same = [all(leaf is column[0] for leaf in column) for column in columns]
        leaves = [column[0] if one else jnp.stack(column) for column, one in zip(columns, same, strict=True)]
        structure = structures.pop()
        measured = jax.tree.unflatten(structure, leaves)
    return Stacked(measured, jax.tree.unflatten(structure, [None if one else 0 for one in same]))


def _measured(problem: Problem) -> Measured:
    sizes = problem.sizes
    return Measured(place(problem, F64), *(jnp.asarray(part, F64) for part in sizes))
