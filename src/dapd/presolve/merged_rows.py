"""Rows that are multiples of another row: their intervals intersect.

A row with one entry is a multiple of a row of the identity, so it becomes a bound on x.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp

from dapd.arrays import Array
from dapd.kinds.table import Table
from dapd.operators.base import Operator
from dapd.operators.structured import Identity
from dapd.presolve.equilibrate import identity_columns
from dapd.presolve.maps import restricted, stacked_maps
from dapd.presolve.tables import table_of
from dapd.presolve.transform import rebuilt_problem
from dapd.problem.problem import Problem

SAME = 4e-15  # relative difference up to which two rows count as multiples of each other
SAME_EQUATION = 1e-12  # relative distance up to which two equations count as the same
SHARE = 0.25  # rows with one entry, per column, from which an identity for their bounds is worth it


class Multiples(NamedTuple):
    """Row `row` of M is `ratio` times row `of`."""

    row: Array
    of: Array
    ratio: Array


class MergedRows:
    """Each row that others are multiples of gets the intersection of their intervals.

    Its y goes to the row whose bound is the tighter one, and to the first of several.
    """

    name = "merged rows"

    def __init__(self, problem: Problem, M: Operator, table: Table, found: Multiples) -> None:
        b = np.concatenate([problem.b.astype(np.float64), np.zeros(M.shape[0] - problem.rows)])
        lower, upper = table.lower + b, table.upper + b
        low, high = lower[found.row] / found.ratio, upper[found.row] / found.ratio
        low, high = np.where(found.ratio > 0, low, high), np.where(found.ratio > 0, high, low)
        self.lower_row, self.upper_row = np.arange(len(b)), np.arange(len(b))
        self.ratio = np.ones(len(b))
        self.ratio[found.row] = found.ratio
        lower, upper = lower.copy(), upper.copy()
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
        self.rows, self.found = problem.rows, found
        removed = np.zeros(len(b), bool)
        removed[found.row] = True
        self.kept = np.flatnonzero(~removed)
        changed = (self.lower_row != np.arange(len(b))) | (self.upper_row != np.arange(len(b))) | close
        b = np.where(changed, _side(lower, upper), b)  # not a difference of ends, which may be rounding
        table = replace(
            table,
            lower=np.where(changed, lower - b, table.lower),
            upper=np.where(changed, upper - b, table.upper),
        )
        every = np.ones(problem.columns, bool)
        parts = [restricted(part, ~removed[at], every) if removed[at].any() else part for part, at in M.bands()]
        self.problem = rebuilt_problem(
            problem,
            M=stacked_maps(parts, problem.columns),
            b=b[self.kept].astype(problem.b.dtype),
            phi=table.take(self.kept).phi(),
        )
        self.why = f"{len(found.row)} rows became bounds or joined parallel rows."

    @classmethod
    def apply(cls, problem: Problem) -> Self | None:
        """Merge rows; None if there are none to merge, or if their intervals do not meet."""
        table = table_of(problem)
        if table is None:
            return None
        M, table = _with_identity(problem, table)
        single, parallel = _single_entries(M, table), _parallel(M, table)
        other = ~np.isin(parallel.row, single.row) & ~np.isin(parallel.of, single.row)
        found = Multiples(*(np.concatenate([a, b[other]]) for a, b in zip(single, parallel, strict=True)))
        if len(found.row) == 0:
            return None
        merged = cls(problem, M, table, found)
        return merged if merged.feasible else None

    def start(self, x: Array, y: Array) -> tuple[Array, Array]:
        """(x, the sum of ratio·y over the rows that were merged)."""
        full = np.concatenate([y, np.zeros(len(self.ratio) - self.rows, y.dtype)])
        np.add.at(full, self.found.of, self.found.ratio * full[self.found.row])
        return x, full[self.kept]

    def back(self, x: Array, y: Array) -> tuple[Array, Array]:
        """(x, each y at the row whose bound it belongs to)."""
        owner = np.where(y < 0, self.lower_row[self.kept], self.upper_row[self.kept])
        full = np.zeros(len(self.ratio), y.dtype)
        full[owner] = y / self.ratio[owner]
        return x, full[: self.rows]


def _side(lower: Array, upper: Array) -> Array:
    """The only end of an interval; 0 if it has two."""
    only = np.where(np.isfinite(upper), upper, lower)
    return np.where(np.isfinite(lower) & np.isfinite(upper) & (lower != upper), 0.0, only)


def _with_identity(problem: Problem, table: Table) -> tuple[Operator, Table]:
    """M and φ with free bounds on x below, if there are none yet and enough rows have one entry."""
    n = problem.columns
    if any(M.identity_start == 0 and M.shape[0] == n and table.interval[at].all() for M, at in problem.M.bands()):
        return problem.M, table
    count = sum(
        int(np.sum(table.interval[at] & (np.diff(M.stored_matrix.indptr) == 1)))
        for M, at in problem.M.bands()
        if sp.issparse(M.stored_matrix)
    )
    if count < max(1, SHARE * n):
        return problem.M, table
    return stacked_maps([problem.M, Identity(n)], n), table.joined(Table.intervals(n, -np.inf, np.inf))


def _single_entries(M: Operator, table: Table) -> Multiples:
    """Rows of a sparse part with one entry, as multiples of bounds on x."""
    places = identity_columns(M)
    bound_of = np.full(M.shape[1], -1)
    usable = np.flatnonzero((places >= 0) & table.interval)
    bound_of[places[usable][::-1]] = usable[::-1]
    rows, of, ratios = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], [np.zeros(0)]
    for part, at in M.bands():
        matrix = part.stored_matrix
        if not sp.issparse(matrix):
            continue
        single = np.flatnonzero((np.diff(matrix.indptr) == 1) & table.interval[at])
        entry = matrix.indptr[single]
        target, ratio = bound_of[matrix.indices[entry]], matrix.data[entry].astype(np.float64)
        fits = (target >= 0) & (ratio != 0)
        rows.append(at.start + single[fits])
        of.append(target[fits])
        ratios.append(ratio[fits])
    return Multiples(np.concatenate(rows), np.concatenate(of), np.concatenate(ratios))


def _parallel(M: Operator, table: Table) -> Multiples:
    """Rows of a dense or sparse part that are multiples of an earlier row of the same part."""
    rows, of, ratios = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], [np.zeros(0)]
    for part, at in M.bands():
        if part.stored_matrix is None:
            continue
        row, leader = _candidates(part, np.flatnonzero(table.interval[at] & (part.row_norms > 0)))
        ratio = _ratios(part.stored_matrix, row, leader)
        rows.append(at.start + row[ratio != 0])
        of.append(at.start + leader[ratio != 0])
        ratios.append(ratio[ratio != 0])
    return Multiples(np.concatenate(rows), np.concatenate(of), np.concatenate(ratios))


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
