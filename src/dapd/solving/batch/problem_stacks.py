"""The problems of a batch stacked as the device takes them: their rows, and the sizes of their data."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dapd.arguments import SAFE
from dapd.arrays import Array, namespace
from dapd.engines.jax.batch.problem_tree import F64, Stacked, compiled_there, repeated, stacked_like
from dapd.kinds.by_rows import Rows
from dapd.kinds.sets import least_positive
from dapd.problem.problem import Problem
from dapd.problem.sizes import Limits, Sizes, limits_of, sizes_of
from dapd.problem.units import (
    HOPS,
    Data,
    Units,
    is_wide,
    natural_units,
    of_dense,
    units_along,
    without_small_slopes,
)
from dapd.solving.batch.condensed import Condensed
from dapd.solving.batch.family import Family

MOST_ENTRIES = 1 << 24  # of an M whose magnitudes are summed as those of a dense matrix


class Numbers(NamedTuple):
    """The data of a family beside M: with a row for each problem, or one that all share."""

    b: Array
    lower: Array  # of the intervals of Mx − b, or of the multipliers
    upper: Array
    interval: Array  # which of the two
    bounds: Sequence[Array]  # on x
    slopes: Array
    curvature: Array


class Found(NamedTuple):
    """What a certificate compares residuals with."""

    sizes: Sizes
    limits: Limits


def stacked_condensed(form: Condensed) -> Stacked:
    """The condensed family."""
    first, table = form.first, form.basis.rows
    zero, curvature = np.zeros(first.columns), np.ones(first.columns)
    numbers = Numbers(form.b, form.lower, form.upper, table.interval, (zero, zero), zero, curvature)
    rows = Rows.between(form.lower, form.upper, table.of_y)
    return stacked_like(first, rows, form.b, None, _found(numbers, first).sizes, None)


def stacked_family(family: Family) -> Stacked | None:
    """The family as it is given; None if groups of rows stand in the way."""
    first, count = family.first, len(family)
    table = first.phi_table
    if table is None or table.grouped.any() or (family.c is not None and first.terms is None):
        return None
    b = np.broadcast_to(first.b if family.b is None else family.b, (count, first.rows)).astype(F64)
    bounds = family.bounds or first.bounds
    slopes: Array = first.slopes if family.c is None else abs(family.c.astype(F64))
    found = _found(Numbers(b, table.lower, table.upper, table.interval, bounds, slopes, first.curvature), first)
    limits = None if first.lower is None else found.limits
    rows = Rows.between(table.lower, table.upper, table.of_y)
    return stacked_like(first, rows, b, family.c, found.sizes, limits)


def _found(numbers: Numbers, first: Problem) -> Found:
    """The sizes and limits of all problems, by the device unless some data may be rounding."""
    M, dtype = first.M, first.dtype
    if M.probes == 0 and M.shape[0] * M.shape[1] <= MOST_ENTRIES:
        found, wide = compiled_there(_by_device(dtype), numbers, M.dense())
        if not wide:
            return Found(*found)
    b, lower, upper = (np.asarray(part) for part in numbers[:3])
    numbers = numbers._replace(b=b, lower=lower, upper=upper)
    data = _data(numbers)
    return _compared(numbers, data, natural_units(data, M), dtype)


@functools.cache
def _by_device(dtype: np.dtype[Any]) -> Any:
    """A function of the numbers and M: the sizes and limits, and whether some data may be rounding."""

    def found(numbers: Numbers, M: Array) -> tuple[Found, Array]:
        given = _data(numbers)
        data = without_small_slopes(given)
        units = units_along(data, *of_dense(M), turns=repeated(HOPS))
        return _compared(numbers, given, units, dtype), is_wide(data)

    return found


def _data(numbers: Numbers) -> Data:
    """The magnitudes of the data, with a row for each problem."""
    b, xp = numbers.b, namespace(numbers.b)
    ends = [xp.where(abs(side) < SAFE, side, 0.0) for side in (numbers.lower, numbers.upper)]
    data = Data(
        rows=least_positive(b, *(xp.where(numbers.interval, side, 0.0) for side in ends)),
        duals=least_positive(*(xp.where(numbers.interval, 0.0, side) for side in ends)),
        primal=least_positive(*numbers.bounds, most=SAFE),
        slopes=numbers.slopes,
        curvature=numbers.curvature,
    )
    return Data(*(xp.broadcast_to(part, (len(b), part.shape[-1])) for part in data))


def _compared(numbers: Numbers, data: Data, units: Units, dtype: np.dtype[Any]) -> Found:
    """What the units say."""
    xp = namespace(units.x)
    lower, upper = (xp.broadcast_to(side, units.x.shape) for side in numbers.bounds)
    sizes = sizes_of(numbers.b, data.slopes, data.curvature, (lower, upper), units)
    return Found(sizes, limits_of(lower, upper, units, dtype))
