"""Natural units of a problem: how large its rows, columns and multipliers typically are, by its data alone.

A residual counts relative to the terms that meet in its row or column. Where these are all near zero something else
must say what is small, and that may not be a unit of x: nobody knows the unit in which x is given. So every x_j and y_i
has a unit of its own, from the numbers that it meets: multiply a row, a column, the objective or all of x by a
constant, and the units follow exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from dapd.arguments import SAFE
from dapd.arrays import Array, is_foreign, namespace
from dapd.machine.core import load
from dapd.operators.base import Operator
from dapd.operators.explicit import record_of, to_power
from dapd.operators.factors import balancing
from dapd.operators.sizes import SHEET

ROUNDING = 2.0**-49  # ratio to the greatest number up to which another may be what is left of such numbers that cancel
REST = 1e-13  # ratio to the greatest number of its kind up to which a number may be what is left of a long sum
DIGITS = 20  # binary digits of a number that may be left of others, fewer than those of data in float32
SPREAD = 1e-9  # ratio to the greatest number from which no number is what others left
SWEEPS = 40  # most sweeps over rows and columns that make their entries alike
SETTLED = 0.1  # change of the binary logarithms of the factors at which the sweeps end
HOPS = 10  # most rows and columns that a unit travels to where there are no data
POWER = 0.25  # power of the mean of several numbers, near the geometric one and without logarithms of M


Turns = Callable[[Callable[[Array], Array], Array], Array]


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
    """The units of a problem; by the native core if it can, since `plain_units` takes many calls."""
    core, record = load(), record_of(M)
    if core is None or record is None or data.rows.ndim > 1 or record[-1 if record[0] == "csr" else 1].size > SHEET:
        return plain_units(data, M)
    height, width = M.shape
    x, y, rows, columns = found = [np.empty(length) for length in (width, height, height, width)]
    numbers = [np.ascontiguousarray(part, np.float64) for part in data]
    objective = core.units_of_data(record, numbers, found, ROUNDING, SPREAD, HOPS)
    return plain_units(data, M) if objective is None else Units(x, y, rows, columns, np.float64(objective))


def plain_units(data: Data, M: Operator) -> Units:
    """The units of a problem, by NumPy, for any M.

    A number that belongs to x_j, y_i, a row or a column is a unit there. Others follow from M by means over the entries
    of a column or row: rows with units β_i give x_j the mean of β_i/|M_ij|, and columns with units ξ_j give row i the
    mean of |M_ij|·ξ_j. Of what x_j or y_i gets, the least counts; of what a row or column gets, the greater.
    """
    data = without_small_slopes(data)
    if is_wide(data):
        rows, duals, primal, slopes, curvature = data
        alone = ratio(slopes, curvature)
        (r, c), parts = _evening(M), _unconnected(M)
        rows, primal = _without_rounding(rows, primal, (r, ratio(1.0, c)), np.maximum(primal, alone), parts)
        duals, slopes = _without_rounding(duals, slopes, (ratio(1.0, r), c), slopes, parts)
        data = Data(rows, duals, primal, slopes, curvature)
    return units_along(data, *_sizes_of(M))


def without_small_slopes(data: Data) -> Data:
    """The data without slopes that are rounding: those along which f falls by nearly nothing."""
    xp = namespace(data.slopes)
    depths = ratio(data.slopes, xp.sqrt(data.curvature))  # of what f falls along a column: twice its root
    small = (data.curvature > 0) & (depths < ROUNDING * depths.max(axis=-1, keepdims=True, initial=0.0))
    return data._replace(slopes=xp.where(small, 0.0, data.slopes))


def is_wide(data: Data) -> Any:
    """Whether some numbers are so much less than others of their kind that they may be rounding."""
    alone = namespace(data.primal).maximum(data.primal, ratio(data.slopes, data.curvature))
    return _is_wide(data.rows, data.primal, alone) | _is_wide(data.slopes, data.duals)


def until_settled(body: Callable[[Array], Array], v: Array) -> Array:
    """A few turns of a function of units, as long as they add any."""
    for _ in range(HOPS):
        before = v
        if (v > 0).all() or np.array_equal(v := body(v), before):
            break
    return v


def units_along(data: Data, along_rows: Along, along_columns: Along, turns: Turns = until_settled) -> Units:
    """The units by data without rounding, of NumPy's or JAX's arrays, whose loop may be another one."""
    rows, duals, primal, slopes, curvature = data
    xp, curved = namespace(rows), curvature > 0
    x = _least(primal, _least_mean(rows, along_columns))
    x = _least(x, ratio(slopes, curvature))
    energy = _typical(x * xp.maximum(slopes, curvature * x))
    others = xp.where(curved, xp.sqrt(ratio(energy, curvature)), ratio(energy, slopes))
    x, rows = _travelled(x, rows, others, along_rows, along_columns, turns)
    y = _least(duals, _least_mean(slopes, along_rows))
    bent = xp.where(slopes > 0, 0.0, curvature * x)
    if not _certainly((y > 0).all()):
        y = xp.where(y > 0, y, _least_mean(bent, along_rows))
    y, columns = _travelled(y, slopes, ratio(energy, rows), along_columns, along_rows, turns)
    columns = xp.maximum(columns, bent)
    objective = _typical(columns * x)[..., 0]
    rows, columns = (xp.where(v > 0, v, 1.0) for v in (rows, columns))  # some meet nothing at all
    return Units(x, y, rows, columns, objective)


def _typical(numbers: Array) -> Array:
    """The mean of the numbers that are not zero, as above; 1 if all are."""
    known, xp = numbers > 0, namespace(numbers)
    sums = _root(xp.where(known, numbers, 0.0)).sum(axis=-1, keepdims=True)
    means = sums / xp.maximum(1, known.sum(axis=-1, keepdims=True))
    return _fourth(xp.where(means > 0, means, 1.0))


def _root(v: Array) -> Array:
    """The power POWER, by two square roots: a general power takes ten times as long."""
    xp = namespace(v)
    return xp.sqrt(xp.sqrt(v))


def _fourth(v: Array) -> Array:
    """Its inverse."""
    xp = namespace(v)
    return xp.square(xp.square(v))


def _certainly(condition: Any) -> bool:
    """Whether a condition holds, as far as it is known before a program runs."""
    return not is_foreign(condition) and bool(condition)


def _most(numbers: Array) -> Any:
    """The greatest number; 1 if all are zero."""
    most = numbers.max(initial=0.0)
    return namespace(numbers).where(most > 0, most, 1.0)


class Along:
    """Sums over the rows of |M| to the power POWER, or over its columns; M may only have such sums for one vector."""

    def __init__(self, roots: Callable[[Array], Array], ones: Callable[[Array], Array], shape: tuple[int, int]) -> None:
        self.roots, self._ones, self.shape = roots, ones, shape

    @cached_property
    def _counts(self) -> Array:
        return self._ones(np.ones(self.shape[1]))

    def counts(self, known: Array) -> Array:
        """How many entries of M that are not zero meet what is known."""
        return self._counts if _certainly(known.all()) else self._ones(known.astype(np.float64))


def _sizes_of(M: Operator) -> tuple[Along, Along]:
    """Sums over the rows and over the columns of |M|; if entries are not known, of a map with rows as long as M's."""
    height, width = M.shape
    matrix = _entries_of(M)
    if matrix is not None:  # the powers are made once, and let go afterwards
        roots, ones = (to_power(matrix, power) for power in (POWER, 0))
        return _of_matrix(roots, ones, (height, width)), _of_matrix(roots.T, ones.T, (width, height))
    if M.row_sizes(np.zeros(width)) is not None and M.column_sizes(np.zeros(height)) is not None:
        return _of_sizes(M.row_sizes, (height, width)), _of_sizes(M.column_sizes, (width, height))
    entries = M.row_norms / max(1, width) ** 0.5
    return (
        _of_sizes(lambda v, power: entries**power * v.sum(), (height, width)),
        _of_sizes(lambda v, power: np.full(width, entries**power @ v), (width, height)),
    )


def of_dense(M: Array) -> tuple[Along, Along]:
    """Sums over the rows and over the columns of a matrix of JAX, of which its transpose is no copy."""
    xp, (height, width) = namespace(M), M.shape
    roots, ones = _root(abs(M)), (M != 0).astype(M.dtype)

    def along(roots: Array, ones: Array, shape: tuple[int, int]) -> Along:
        return Along(lambda v: xp.matmul(v, roots.T), lambda v: xp.matmul(v, ones.T), shape)

    return along(roots, ones, (height, width)), along(roots.T, ones.T, (width, height))


def _of_matrix(roots: Any, ones: Any, shape: tuple[int, int]) -> Along:
    return Along(lambda v: (roots @ v.T).T, lambda v: (ones @ v.T).T, shape)


def _of_sizes(sizes: Callable[..., Array | None], shape: tuple[int, int]) -> Along:
    return Along(_each(partial(sizes, power=POWER)), _each(partial(sizes, power=0)), shape)


def _each(sizes: Callable[[Array], Array | None]) -> Callable[[Array], Array]:
    """The sums for one vector, or for each row of an array."""
    return lambda v: np.asarray(sizes(v) if v.ndim == 1 else [sizes(row) for row in v])


def _mean(numbers: Array, along: Along) -> Array:
    """The means of |M_ij|·numbers_j over the known numbers of each row; 0 if none is known."""
    most = _most(numbers)
    means = ratio(along.roots(_root(numbers / most)), along.counts(numbers > 0))
    return most * _fourth(means)


def _least_mean(numbers: Array, along: Along) -> Array:
    """The same of numbers_j/|M_ij|, of whose inverses it is the mean."""
    known, xp, most = numbers > 0, namespace(numbers), _most(numbers)
    inverses = xp.where(known, 1 / _root(xp.where(known, numbers, most) / most), 0.0)
    return ratio(most, _fourth(ratio(along.roots(inverses), along.counts(known))))


def _travelled(
    x: Array, rows: Array, others: Array, along_rows: Along, along_columns: Along, turns: Turns
) -> tuple[Array, Array]:
    """The units of all x and rows, from those that are known; where none arrives, `others`, or a mean, or 1."""
    known, xp = rows > 0, namespace(rows)

    def farther(x: Array) -> Array:
        found = _least_mean(xp.where(known, rows, _mean(x, along_rows)), along_columns)
        return xp.where(x > 0, x, found)

    x = turns(farther, x)
    x = xp.where(x > 0, x, others)
    x = xp.where(x > 0, x, _typical(x))
    return x, xp.maximum(rows, _mean(x, along_rows))


def _is_wide(*numbers: Array) -> Any:
    """Whether the least of the positive numbers is far less than the greatest."""
    xp = namespace(numbers[0])
    least = [xp.where(some > 0, some, np.inf).min(initial=np.inf) for some in numbers]
    most = [some.max(initial=0.0) for some in numbers]
    return xp.stack(least).min() < SPREAD * xp.stack(most).max()


def _entries_of(M: Operator) -> Any:
    """The matrix in CSR if it is sparse or small; else None."""
    matrix = M.sparse()
    if matrix is None and M.stored_matrix is not None and M.stored_matrix.size <= SHEET:
        return sp.csr_array(M.stored_matrix)
    return matrix


def _evening(M: Operator) -> tuple[Array, Array]:
    """Factors r and c that make entries r_i|M_ij|c_j near 1: the logarithms of each row and each column have mean 0.

    If a row or column of M is multiplied by a constant, its factor is divided by that.
    """
    matrix = _entries_of(M)
    if matrix is None:
        return balancing(M)
    height, width = M.shape
    rows, columns = np.repeat(np.arange(height), np.diff(matrix.indptr)), matrix.indices
    stored = matrix.data != 0
    rows, columns, logs = rows[stored], columns[stored], np.log2(abs(matrix.data[stored]).astype(np.float64))
    in_row, in_column = (np.bincount(*place) for place in ((rows, None, height), (columns, None, width)))
    r, c = np.zeros(height), np.zeros(width)
    for _ in range(SWEEPS):
        before = c
        r = -ratio(np.bincount(rows, logs + c[columns], height), in_row)
        c = -ratio(np.bincount(columns, logs + r[rows], width), in_column)
        if np.max(abs(c - before), initial=0.0) <= SETTLED:
            break
    return np.where(in_row > 0, np.exp2(r), 0.0), np.where(in_column > 0, np.exp2(c), 0.0)


def _unconnected(M: Operator) -> tuple[Array, Array]:
    """The part of M to which each row and each column belongs, parts sharing no entry; all to one if it is unknown."""
    height, width = M.shape
    matrix = _entries_of(M)
    if matrix is None:
        return np.zeros(height, int), np.zeros(width, int)
    starts = np.concatenate([matrix.indptr, np.full(width, matrix.nnz)])
    graph = sp.csr_array((np.ones(matrix.nnz), matrix.indices + height, starts), shape=(height + width,) * 2)
    labels = connected_components(graph, directed=False)[1]
    return labels[:height], labels[height:]


def _without_rounding(
    rows: Array, columns: Array, factors: tuple[Array, Array], others: Array, parts: tuple[Array, Array]
) -> tuple[Array, Array]:
    """The numbers of rows and columns without those that are probably what rounding left of greater ones.

    A number is one of these if it has few binary digits and is less than REST times the greatest number of its kind in
    its part of M, or ROUNDING times the greatest of the rows and of `others`, which belong to the columns. They are
    compared in units in which the entries of M are alike.
    """
    r, c = factors
    sources = np.where(rows < SAFE, rows, 0.0) * r, np.where(others < SAFE, others, 0.0) * c
    greatest = np.max(np.concatenate(sources, axis=-1), axis=-1, keepdims=True, initial=0.0)
    found = []
    for numbers, sizes, part in zip((rows, columns), (rows * r, columns * c), parts, strict=True):
        small = sizes < REST * _greatest_of_parts(np.where(numbers < SAFE, sizes, 0.0), part)[..., part]
        found.append(np.where((small | (sizes < ROUNDING * greatest)) & _has_few_digits(numbers), 0.0, numbers))
    return found[0], found[1]


def _greatest_of_parts(numbers: Array, part: Array) -> Array:
    """The greatest number of each part of M."""
    found = np.zeros((1 + int(part.max(initial=0)), *numbers.shape[:-1]))
    np.maximum.at(found, part, numbers.T)
    return found.T


def _has_few_digits(numbers: Array) -> Array:
    """Whether few binary digits are not zero, as in a difference of numbers that are nearly equal."""
    digits = np.frexp(numbers)[0] * 2.0**DIGITS
    return np.asarray(digits == np.rint(digits))


def _least(one: Array, other: Array) -> Array:
    """The lesser of two units where both are known, else the one that is."""
    return namespace(one).where((one > 0) & ((other == 0) | (one < other)), one, other)


def ratio(v: Array, w: Array) -> Array:
    """V/w, and 0 where w is 0."""
    return v / namespace(w).where(w > 0, w, np.inf)
