"""A batch on the device of JAX: stacked problems, their lock step, and their certificates."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dapd.arguments import SAFE
from dapd.arrays import Array
from dapd.engines.jax.certificate import Measured, certificate_of, multipliers, within_bounds
from dapd.engines.jax.functions import TermsOf
from dapd.engines.jax.judge import measured_of
from dapd.engines.jax.maps import DenseMap
from dapd.engines.jax.phi import PhiOf, RowsOf
from dapd.engines.jax.runner import Placed, place
from dapd.kinds.base import least_positive
from dapd.operators.base import Operator
from dapd.operators.explicit import Dense
from dapd.presolve.row_table import PhiTable
from dapd.problem.problem import Problem
from dapd.problem.sizes import Limits, limits_of, sizes_of
from dapd.problem.units import Data, Units, natural_units
from dapd.solving.batch.condensed import Condensed, condensed
from dapd.solving.batch.family import Family
from dapd.solving.batch.lockstep import Axes, Constants, Lockstep
from dapd.spectrum.deadline import check_deadline

F64 = np.dtype(np.float64)


class Certified(NamedTuple):
    """Points between their bounds, and their certificates, one row per problem."""

    x: Array
    z: Array
    numbers: Array


class Stacked(NamedTuple):
    """Many problems as one tree, and along which axis each of its arrays counts them (None: all share it)."""

    measured: Measured
    axes: Any

    def certify(self, x: Array, y: Array) -> Certified:
        """All certificates."""
        with jax.enable_x64(True):
            return Certified(*map(np.array, _certify(Axes(self.axes))(self.measured, x, y)))

    def lockstep(self, known: Constants) -> Lockstep:
        """The batch, ready to run."""
        return Lockstep(self.measured, self.axes, known)


@lru_cache(maxsize=64)
def _certify(axes: Axes) -> Any:
    def found(measured: Measured, x: Array, y: Array) -> tuple[Array, Array, Array]:
        x = within_bounds(measured, x, y)
        wide = x.astype(F64), y.astype(F64)
        return x, multipliers(measured, *wide).astype(y.dtype), certificate_of(measured, *wide)

    return jax.jit(jax.vmap(found, in_axes=(axes.tree, 0, 0)))


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
        zero, curvature = np.zeros(form.M.shape[1]), np.ones(form.M.shape[1])
        data = _data(form.rows, form.b, form.lower, form.upper)._replace(slopes=zero, primal=zero, curvature=curvature)
        sizes = _sizes(_units(data, Dense(np.asarray(form.M)), len(form.b)), data, form.b, (zero, zero))
    return Stacked(_measured(placed, sizes, None), _measured(axes, _first_axes(sizes), None))


def _data(table: PhiTable, b: Array, lower: Array, upper: Array) -> Data:
    """What the rows are compared with, a row per problem."""
    b, lower, upper = (np.asarray(v) for v in np.broadcast_arrays(b, lower, upper))
    none = np.zeros(b.shape)
    ends = [np.where(abs(side) < SAFE, side, 0.0) for side in (lower, upper)]
    return Data(
        rows=least_positive(b, *(np.where(table.interval, side, 0.0) for side in ends)),
        duals=least_positive(*(np.where(table.interval, 0.0, side) for side in ends)),
        primal=none,
        slopes=none,
        curvature=none,
    )


def _units(data: Data, M: Operator, count: int) -> Units:
    """The units of all problems."""
    return natural_units(Data(*(np.broadcast_to(np.asarray(part), (count, np.shape(part)[-1])) for part in data)), M)


def _sizes(units: Units, data: Data, b: Array, bounds: tuple[Array, Array]) -> list[Array]:
    """The sizes of the data of all problems, in the order of `Measured`."""
    slopes, curvature = (np.broadcast_to(v, (len(b), v.shape[-1])) for v in (data.slopes, data.curvature))
    return [jnp.asarray(part) for part in sizes_of(np.asarray(b), slopes, curvature, bounds, units)]


def _measured(placed: Placed, sizes: Sequence[Any], limits: Limits | None) -> Measured:
    rows, duals, columns, slopes, objective, most, curvature = sizes
    return Measured(placed, rows, duals, columns, slopes, objective, most, curvature, limits)


def _first_axes(arrays: list[Array]) -> list[int]:
    return [0] * len(arrays)


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
    first, count = family.first, len(family)
    table = PhiTable.of(first)
    if table is None or table.balls.any():
        return None
    b = np.broadcast_to(first.b if family.b is None else family.b, (count, first.rows)).astype(F64)
    own_bounds = family.lower is not None and family.upper is not None
    bounds = (family.lower, family.upper) if own_bounds else first.bounds
    lower, upper = (np.broadcast_to(np.asarray(side), (count, first.columns)) for side in bounds)
    slopes: Array = first.slopes if family.c is None else abs(family.c.astype(F64))
    data = _data(table, b, table.lower, table.upper)._replace(
        primal=least_positive(lower, upper, most=SAFE), slopes=slopes, curvature=first.curvature
    )
    with jax.enable_x64(True):
        placed = place(first, F64)
        phi, phi_axes = _rows_of(table, jnp.asarray(table.lower), jnp.asarray(table.upper))
        f, f_axes = placed.f, _shared(placed.f)
        if family.c is not None and isinstance(f, TermsOf):
            f = TermsOf(**{**vars(f), "c": jnp.asarray(family.c, F64)})
            f_axes = TermsOf(**{**vars(f_axes), "c": 0})
        placed = Placed(placed.M, f, phi, jnp.asarray(b))
        axes = Placed(_shared(placed.M), f_axes, phi_axes, 0)
        units = _units(data, first.M, count)
        sizes, limits = _sizes(units, data, b, (lower, upper)), None
        if first.lower is not None:
            limits = Limits(*map(jnp.asarray, limits_of(lower, upper, units, first.dtype)))
        limits_axes = None if limits is None else Limits(*_first_axes(list(limits)))
    return Stacked(_measured(placed, sizes, limits), _measured(axes, _first_axes(sizes), limits_axes))


def stacked_list(problems: Sequence[Problem], deadline: float) -> Stacked | None:
    """Problems of the same structure; None if they have not."""
    with jax.enable_x64(True):
        trees = []
        for problem in problems:
            check_deadline(deadline)
            trees.append(measured_of(problem))
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
