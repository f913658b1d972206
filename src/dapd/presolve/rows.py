"""Fewer rows: those that say nothing of x are removed, and those that are multiples of another one join it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp

from dapd.arrays import Array
from dapd.kinds.table import Table
from dapd.operators.base import Operator
from dapd.presolve.maps import rows_of, stacked_maps
from dapd.presolve.transform import Transform, rebuilt_problem
from dapd.problem.problem import Problem

FREE_PART = 0.5  # part of the rows of an identity that must be free for it to be divided
ROUNDINGS = 4  # roundings of b within which a bound counts as met
SAME = 4e-15  # relative difference up to which two rows count as multiples of each other
SAME_EQUATION = 1e-12  # relative distance up to which two equations count as the same
SHARE = 0.25  # rows with one entry, per column, from which bounds are worth it if there are none yet


class EmptyRows(Transform):
    """The problem without these rows; their y solves −b ∈ ∂φ(y), or is 0 if the row has no bound."""

    name = "empty rows"

    def __init__(self, problem: Problem, table: Table, removed: Array, duals: Array) -> None:
        self.kept = np.append(np.flatnonzero(~removed), np.arange(problem.rows, problem.multipliers))
        self.duals = np.append(np.where(removed, duals, 0.0), np.zeros(problem.multipliers - problem.rows))
        self.problem = _with_rows(problem, ~removed, table, problem.b)
        self.why = f"Empty or free rows were removed: {int(removed.sum())}."

    @classmethod
    def apply(cls, problem: Problem) -> Self | None:
        """Remove empty and free rows; None if there are none. A row that no x satisfies stays."""
        table = problem.phi_table
        if table is None:
            return None
        free = table.interval & (table.lower == -np.inf) & (table.upper == np.inf)
        solvable, duals = _empty_duals(table, problem.b.astype(np.float64))
        removed = np.zeros(problem.rows, bool)
        for M, at in problem.M.bands():
            if not M.divisible:
                continue
            if M.identity_start is not None:  # with gaps it would need a matrix, so few free bounds stay
                removed[at] = free[at] if free[at].mean() >= FREE_PART else False
            else:
                removed[at] = free[at] | (solvable[at] & (M.row_norms == 0))
        # of a group, all rows or none
        removed = table.pooled(~removed * 1.0) == 0
        return cls(problem, table, removed, np.where(free, 0.0, duals)) if removed.any() else None

    def start(self, x: Array, y: Array) -> tuple[Array, Array]:
        """(x, the y of the rows that are left)."""
        return x, y[self.kept]

    def back(self, x: Array, y: Array) -> tuple[Array, Array]:
        """(x, y with those of the removed rows)."""
        full = self.duals.astype(y.dtype)
        full[self.kept] = y
        return x, full


def _empty_duals(table: Table, b: Array) -> tuple[Array, Array]:
    """For each row whether −b ∈ ∂φ(y) for some y, and that y."""
    duals = np.zeros(len(b))
    slack = ROUNDINGS * np.finfo(np.float64).eps * abs(b)
    solvable = table.interval & (table.lower <= -b + slack) & (-b - slack <= table.upper)

    clip = table.boxed
    at_bound = np.where(b < 0, table.upper, np.where(b > 0, table.lower, np.clip(0.0, table.lower, table.upper)))
    duals[clip] = at_bound[clip]
    solvable |= clip & np.isfinite(at_bound)
    ball, shrink_ball = table.grouped & table.of_y, table.grouped & ~table.of_y
    if not table.grouped.any():
        return solvable, duals
    first, group = np.unique(table.unit, return_inverse=True)
    norms = np.sqrt(np.bincount(group, b * b, len(first)))[group]
    duals[ball] = -b[ball] * table.lower[ball] / np.where(norms > 0, norms, 1.0)[ball]
    return solvable | ball | (shrink_ball & (norms <= table.lower)), duals


class Multiples(NamedTuple):
    """Row `row` of M is `ratio` times row `of`; below M, rows of an identity stand for the bounds on x."""

    row: Array
    of: Array
    ratio: Array

    @classmethod
    def joined(cls, *several: tuple[Array, Array, Array]) -> Multiples:
        """All of them."""
        some = [np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0)]
        return cls(*(np.concatenate([none, *parts]) for none, *parts in zip(some, *several, strict=True)))


class MergedRows(Transform):
    """Each row that others are multiples of gets the intersection of their intervals.

    Its y goes to the row whose bound is the tighter one, and to the first of several. A row with one entry is a
    multiple of a row of an identity, so it becomes a bound on x.
    """

    name = "merged rows"

    def __init__(self, problem: Problem, table: Table, found: Multiples) -> None:
        rows, given = problem.rows, problem.b.astype(np.float64)
        ends = problem.bounds if problem.lower is not None or (found.of >= rows).any() else (np.zeros(0), np.zeros(0))
        lower, upper = (
            np.append(side + given, end) for side, end in zip((table.lower, table.upper), ends, strict=True)
        )
        low, high = lower[found.row] / found.ratio, upper[found.row] / found.ratio
        low, high = np.where(found.ratio > 0, low, high), np.where(found.ratio > 0, high, low)
        own = np.arange(len(lower))
        self.lower_row, self.upper_row, self.ratio = own.copy(), own.copy(), np.ones(len(own))
        self.ratio[found.row] = found.ratio
        for bound, owner, values, better in (
            (lower, self.lower_row, low, np.greater),
            (upper, self.upper_row, high, np.less),
        ):
            order = np.argsort(values if better is np.less else -values, kind="stable")
            target, first = np.unique(found.of[order], return_index=True)
            best = order[first]
            tighter = better(values[best], bound[target])
            bound[target[tighter]] = values[best[tighter]]
            owner[target[tighter]] = found.row[best[tighter]]
        close = (lower > upper) & (lower - upper <= SAME_EQUATION * (abs(lower) + abs(upper)))
        lower[close] = upper[close]
        self.feasible = not np.any(lower > upper)
        if not self.feasible:
            return
        self.multipliers, self.found = problem.multipliers, found
        left = np.ones(len(own), bool)
        left[found.row] = False
        self.kept, left = np.flatnonzero(left), left[:rows]
        changed = ((self.lower_row != own) | (self.upper_row != own) | close)[:rows]
        of_rows = lower[:rows], upper[:rows]
        b = np.where(changed, _side(*of_rows), given)  # not a difference of ends, which may be rounding
        low, high = (
            np.where(changed, side - b, old) for side, old in zip(of_rows, (table.lower, table.upper), strict=True)
        )
        bounds = (lower[rows:], upper[rows:]) if len(own) > rows else None
        self.problem = _with_rows(problem, left, replace(table, lower=low, upper=high), b, bounds)
        self.why = f"Rows that became bounds or joined parallel rows: {len(found.row)}."

    @classmethod
    def apply(cls, problem: Problem) -> Self | None:
        """Merge rows; None if there are none to merge, or if their intervals do not meet."""
        table = problem.phi_table
        if table is None:
            return None
        single, parallel = _single_entries(problem, table), _parallel(problem.M, table)
        other = ~np.isin(parallel.row, single.row) & ~np.isin(parallel.of, single.row)
        found = Multiples.joined(single, tuple(part[other] for part in parallel))
        if len(found.row) == 0:
            return None
        merged = cls(problem, table, found)
        return merged if merged.feasible else None

    def start(self, x: Array, y: Array) -> tuple[Array, Array]:
        """(x, the sum of ratio·y over the rows that were merged)."""
        full = np.append(y, np.zeros(len(self.ratio) - len(y), y.dtype))
        np.add.at(full, self.found.of, self.found.ratio * full[self.found.row])
        return x, full[self.kept]

    def back(self, x: Array, y: Array) -> tuple[Array, Array]:
        """(x, each y at the row whose bound it belongs to)."""
        owner = np.where(y < 0, self.lower_row[self.kept], self.upper_row[self.kept])
        full = np.zeros(len(self.ratio), y.dtype)
        full[owner] = y / self.ratio[owner]
        return x, full[: self.multipliers]


def _with_rows(
    problem: Problem, left: Array, table: Table, b: Array, bounds: tuple[Array, Array] | None = None
) -> Problem:
    """The problem with these of its rows, as the table and b have them, and perhaps other bounds."""
    return rebuilt_problem(
        problem,
        M=stacked_maps(rows_of(problem.M, left), problem.columns),
        b=b[left].astype(problem.b.dtype),
        phi=table.take(np.flatnonzero(left)).phi(),
        bounds=bounds,
    )


def _side(lower: Array, upper: Array) -> Array:
    """The only end of an interval; 0 if it has two."""
    only = np.where(np.isfinite(upper), upper, lower)
    return np.where(np.isfinite(lower) & np.isfinite(upper) & (lower != upper), 0.0, only)


def _single_entries(problem: Problem, table: Table) -> Multiples:
    """Rows of a sparse part or an identity, as multiples of bounds on x; none if these are few and x has no bounds."""
    found = []
    for part, at in problem.M.bands():
        matrix = part.sparse() if part.identity_start is not None else part.stored_matrix
        if not sp.issparse(matrix):
            continue
        single = np.flatnonzero((np.diff(matrix.indptr) == 1) & table.interval[at])
        entry = matrix.indptr[single]
        single, entry = single[matrix.data[entry] != 0], entry[matrix.data[entry] != 0]
        ratio = matrix.data[entry].astype(np.float64)
        found.append((at.start + single, problem.rows + matrix.indices[entry], ratio))
    few = problem.lower is None and sum(len(row) for row, _, _ in found) < max(1, SHARE * problem.columns)
    return Multiples.joined() if few else Multiples.joined(*found)


def _parallel(M: Operator, table: Table) -> Multiples:
    """Rows of a dense or sparse part that are multiples of an earlier row of the same part."""
    found = []
    for part, at in M.bands():
        if part.stored_matrix is not None:
            row, leader = _candidates(part, np.flatnonzero(table.interval[at] & (part.row_norms > 0)))
            ratio = _ratios(part.stored_matrix, row, leader)
            same = ratio != 0
            found.append((at.start + row[same], at.start + leader[same], ratio[same]))
    return Multiples.joined(*found)


def _candidates(part: Operator, usable: Array) -> tuple[Array, Array]:
    """Pairs of rows whose products with two random vectors are the same, up to a factor."""
    probes = np.random.default_rng(0).standard_normal((2, part.shape[1])).astype(part.dtype)
    first, second = (part.forward(v)[usable] / part.row_norms[usable] for v in probes)
    sign = np.where(first < 0, -1.0, 1.0)
    first, second = sign * first, sign * second
    order = np.argsort(first, kind="stable")
    close = 1e-5 if part.dtype == np.float32 else 1e-12
    apart = (abs(np.diff(first[order])) > close) | (abs(np.diff(second[order])) > close)
    run = np.concatenate([[0], np.cumsum(apart)]) if len(order) else order
    leaders = np.full(len(usable), part.shape[0])
    np.minimum.at(leaders, run, usable[order])
    row, leader = usable[order], leaders[run]
    return row[row != leader], leader[row != leader]


def _ratios(matrix: Any, row: Array, leader: Array) -> Array:
    """The factor of each pair; 0 if the rows are not multiples of each other."""
    if len(row) == 0:
        return np.zeros(0)
    if not sp.issparse(matrix):
        others = matrix[leader].astype(np.float64)
        own = matrix[row].astype(np.float64)
        at = abs(others).argmax(axis=1)
        ratio = own[np.arange(len(row)), at] / others[np.arange(len(row)), at]
        same = np.all(abs(own - ratio[:, None] * others) <= SAME * abs(own), axis=1)
        return np.where(same, ratio, 0.0)
    matrix = matrix.astype(np.float64)
    entries = (matrix.data[matrix.indptr[row]], matrix.data[matrix.indptr[leader]])
    ratio = np.divide(*entries, out=np.zeros(len(row)), where=entries[1] != 0)
    own = matrix[row]
    excess = (abs(own - sp.diags_array(ratio) @ matrix[leader]) - SAME * abs(own)).tocoo()
    ratio[excess.row[excess.data > 0]] = 0.0
    return ratio
