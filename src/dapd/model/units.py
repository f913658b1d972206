"""Natural units of a problem: how large its rows, columns and multipliers typically are, by its data alone.

A residual counts relative to the terms that meet in its row or column. Where these are all near zero something else
must say what is small, and that may not be a unit of x: nobody knows the unit in which x is given. So every x_j and y_i
has a unit of its own, from the numbers that it meets: multiply a row, a column, the objective or all of x by a
constant, and the units follow exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from dapd.arrays import Array
from dapd.operators.base import Operator
from dapd.operators.explicit import Dense, to_power
from dapd.operators.sizes import SHEET

ROUNDING = 1e-13  # part of the greatest number of its kind below which a number may be rounding
SPREAD = 1e-9  # least part of the greatest number from which none needs that comparison
HOPS = 10  # rows and columns that a unit travels to where there are no data
POWER = 0.25  # of the mean of what several numbers say: near the geometric one, and needs no logarithms of M

Sizes = Callable[[Array, float], Array]  # (v, power) ↦ Σ_j |M_ij|^power v_j, or the same with Mᵀ


class Units(NamedTuple):
    """What is typical, by the data; of several problems with the same M, a row for each."""

    x: Array  # of x_j
    y: Array  # of y_i
    rows: Array  # of the terms of row i of Mx − b
    columns: Array  # of the terms of entry j of ∇f(x) + Mᵀy
    objective: Array  # of the terms of the objective, a number


class Data(NamedTuple):
    """The magnitudes in a problem, beside those of M; 0 where there is none."""

    rows: Array  # least positive number that the terms of a row of Mx meet: in b, or an end of an interval
    duals: Array  # the same of y_i
    primal: Array  # the same of x_j: a bound
    slopes: Array  # |∇f_j(0)|
    curvature: Array  # how much ∇f_j changes with a unit of x_j


def natural_units(data: Data, M: Operator) -> Units:
    """The units of a problem.

    A number that belongs to x_j, y_i, a row or a column is a unit there. Others follow from M by means over the entries
    of a column or row: rows with units β_i give x_j the mean of β_i/|M_ij|, and columns with units ξ_j give row i the
    mean of |M_ij|·ξ_j. Of two that x_j or y_i gets, the lesser counts; of two that a row or column gets, the greater.
    """
    along_rows, along_columns = _sizes_of(M)
    rows, curvature, curved = data.rows, data.curvature, data.curvature > 0
    depths = _ratio(data.slopes, np.sqrt(curvature))  # of what f falls along a column: twice its root
    small = curved & (depths < ROUNDING * depths.max(axis=-1, keepdims=True, initial=0.0))
    slopes = np.where(small, 0.0, data.slopes)
    x = _least(data.primal, _spread(rows, along_rows, along_columns, M.shape[1]))
    x = np.where((x == 0) & curved, _ratio(slopes, curvature), x)
    energy = _typical(x * np.maximum(slopes, curvature * x))
    alone = np.where(curved, np.sqrt(_ratio(energy, curvature)), _ratio(energy, slopes))
    x, rows = _travelled(x, rows, alone, along_rows, along_columns)
    y = _least(data.duals, _spread(slopes, along_columns, along_rows, M.shape[0]))
    bent = np.where(slopes > 0, 0.0, data.curvature * x)
    y = np.where(y > 0, y, _mean(bent, along_rows, -1))
    y, columns = _travelled(y, slopes, _ratio(energy, rows), along_columns, along_rows)
    columns = np.maximum(columns, bent)
    objective = _typical(columns * x)[..., 0]
    rows, columns = (np.where(v > 0, v, 1.0) for v in (rows, columns))  # some meet nothing at all
    return Units(x, y, rows, columns, objective)


def _typical(numbers: Array) -> Array:
    """The mean of the numbers that are not zero, as above; 1 if all are."""
    known = numbers > 0
    powers = np.where(known, numbers, 0.0) ** POWER
    means = powers.sum(axis=-1, keepdims=True) / np.maximum(1, known.sum(axis=-1, keepdims=True))
    return np.where(means > 0, means, 1.0) ** (1 / POWER)


def _sizes_of(M: Operator) -> tuple[Sizes, Sizes]:
    """Sums over the rows and over the columns of |M|; if entries are not known, of a map with rows as long as M's."""
    height, width = M.shape
    matrix = M.sparse()
    if matrix is None and isinstance(M, Dense) and M.matrix.size <= SHEET:
        matrix = M.matrix
    if matrix is not None:  # the powers are made once, and let go afterwards
        powers = {k: to_power(matrix, k) for k in (0, POWER)}
        return lambda v, power: (powers[power] @ v.T).T, lambda v, power: (powers[power].T @ v.T).T
    if M.row_sizes(np.zeros(width)) is not None and M.column_sizes(np.zeros(height)) is not None:
        return _each(M.row_sizes), _each(M.column_sizes)
    entries = M.row_norms / max(1, width) ** 0.5
    return _each(lambda v, power: entries**power * v.sum()), _each(lambda v, power: np.full(width, entries**power @ v))


def _each(sizes: Callable[[Array, float], Array | None]) -> Sizes:
    """The sums for one vector, or for each row of an array."""

    def of(v: Array, power: float) -> Array:
        return np.asarray(sizes(v, power) if v.ndim == 1 else [sizes(row, power) for row in v])

    return of


def _mean(numbers: Array, along: Sizes, sign: int) -> Array:
    """The means of |M_ij|·numbers_j over the known numbers of each row, or with sign −1 of numbers_j/|M_ij|.

    0 if none is known.
    """
    known = numbers > 0
    most = float(numbers.max(initial=0.0)) or 1.0
    powers = np.where(known, (np.where(known, numbers, most) / most) ** (sign * POWER), 0.0)
    means = _ratio(along(powers, POWER), along(known.astype(np.float64), 0))
    return most * np.where(means > 0, means, 1.0) ** (sign / POWER) * (means > 0)


def _travelled(x: Array, rows: Array, others: Array, along_rows: Sizes, along_columns: Sizes) -> tuple[Array, Array]:
    """The units of all x and rows, from those that are known; where none arrives, `others`, or a mean, or 1."""
    known = rows > 0
    for _ in range(HOPS):
        if (x > 0).all():
            break
        found = _mean(np.where(known, rows, _mean(x, along_rows, 1)), along_columns, -1)
        if not (found[x == 0] > 0).any():
            break
        x = np.where(x > 0, x, found)
    x = np.where(x > 0, x, others)
    x = np.where(x > 0, x, _typical(x))
    return x, np.maximum(rows, _mean(x, along_rows, 1))


def _spread(numbers: Array, along: Sizes, across: Sizes, entries: int) -> Array:
    """The units that numbers give across M; numbers that may be rounding count only where there are no others.

    They are small beside the greatest, relative to the entries of M that they meet.
    """
    known = numbers > 0
    if not known.any() or numbers[known].min() > SPREAD * numbers.max():
        return _mean(numbers, across, -1)
    relative = _ratio(numbers, _mean(np.ones((*numbers.shape[:-1], entries)), along, 1))
    small = relative < ROUNDING * relative.max(axis=-1, keepdims=True)
    units = _mean(np.where(small, 0.0, numbers), across, -1)
    return np.where(units > 0, units, _mean(numbers, across, -1))


def _least(one: Array, other: Array) -> Array:
    """The lesser of two units where both are known, else the one that is."""
    return np.where((one > 0) & ((other == 0) | (one < other)), one, other)


def _ratio(v: Array, w: Array) -> Array:
    """V/w, and 0 where w is 0."""
    return v / np.where(w > 0, w, np.inf)
