"""The problems of a batch stacked as the device takes them: their rows, and the sizes of their data."""

from __future__ import annotations

import numpy as np

from dapd.arguments import SAFE
from dapd.arrays import Array
from dapd.engines.jax.batch.problem_tree import F64, Stacked, stacked_like
from dapd.kinds.by_rows import Rows
from dapd.kinds.sets import least_positive
from dapd.kinds.table import Table
from dapd.operators.base import Operator
from dapd.problem.sizes import Sizes, limits_of, sizes_of
from dapd.problem.units import Data, Units, natural_units
from dapd.solving.batch.condensed import Condensed
from dapd.solving.batch.family import Family


def stacked_condensed(form: Condensed) -> Stacked:
    """The condensed family."""
    first, table = form.first, form.basis.rows
    zero, curvature = np.zeros(first.columns), np.ones(first.columns)
    data = _data(table, form.b, form.lower, form.upper)._replace(slopes=zero, primal=zero, curvature=curvature)
    sizes, _ = _sizes_and_units(data, first.M, form.b, (zero, zero))
    return stacked_like(first, Rows.between(form.lower, form.upper, table.of_y), form.b, None, sizes, None)


def stacked_family(family: Family) -> Stacked | None:
    """The family as it is given; None if groups of rows stand in the way."""
    first, count = family.first, len(family)
    table = first.phi_table
    if table is None or table.grouped.any() or (family.c is not None and first.terms is None):
        return None
    b = np.broadcast_to(first.b if family.b is None else family.b, (count, first.rows)).astype(F64)
    lower, upper = (np.broadcast_to(side, (count, first.columns)) for side in family.bounds or first.bounds)
    slopes: Array = first.slopes if family.c is None else abs(family.c.astype(F64))
    data = _data(table, b, table.lower, table.upper)._replace(
        primal=least_positive(lower, upper, most=SAFE), slopes=slopes, curvature=first.curvature
    )
    sizes, units = _sizes_and_units(data, first.M, b, (lower, upper))
    limits = None if first.lower is None else limits_of(lower, upper, units, first.dtype)
    rows = Rows.between(table.lower, table.upper, table.of_y)
    return stacked_like(first, rows, b, family.c, sizes, limits)


def _data(table: Table, b: Array, lower: Array, upper: Array) -> Data:
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


def _sizes_and_units(data: Data, M: Operator, b: Array, bounds: tuple[Array, Array]) -> tuple[Sizes, Units]:
    """The sizes of the data of all problems, and their units."""
    data = Data(*(np.broadcast_to(np.asarray(part), (len(b), np.shape(part)[-1])) for part in data))
    units = natural_units(data, M)
    return sizes_of(np.asarray(b), data.slopes, data.curvature, bounds, units), units
