"""A problem with quadratic (or pseudo-Huber) f, rows, boxes and balls in conic form: min ½vᵀPv + qᵀv, h − Gv ∈ K.

v holds x, then residuals r = Bx − d of least squares, then the heights of epigraphs, max(w, 0) ≤ t and ‖w‖ ≤ t, with
w = Mx − b. K is a product of zeros, half-lines and second-order cones. Its multipliers u ∈ K* satisfy Pv + q + Gᵀu = 0,
and y, with the multipliers of the bounds on x after it, is affine in them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from dapd.arrays import Array
from dapd.functions import Function, Quadratic
from dapd.kinds.base import Phi
from dapd.kinds.composed import Stack
from dapd.kinds.sets import GroupBall
from dapd.kinds.table import Table
from dapd.newton.matrices import csr_of, stack_rows
from dapd.newton.parts import QuadraticForm, quadratic
from dapd.operators.blocks import RowBlocks
from dapd.problem.problem import Problem

SMALL = 1 << 14  # entries of rows up to which they are chosen from an array
SMALL_CONE = 4  # Clarabel keeps the scaling of a second-order cone with so many rows as a dense block


class Columns(NamedTuple):
    """A matrix by columns, as Clarabel reads it: for a small one, SciPy's checks take longer than its solve."""

    data: Array
    indices: Array
    indptr: Array
    shape: tuple[int, int]
    has_canonical_format: bool = True

    @classmethod
    def of(cls, matrix: Array) -> Columns:
        """The entries of an array that are not zero."""
        entries, (height, width) = matrix.ravel("F"), matrix.shape
        at = np.flatnonzero(entries)
        ends = np.searchsorted(at, height * np.arange(width + 1))
        return cls(entries[at], (at % height).astype(np.int32), ends.astype(np.int32), matrix.shape)


class Conic(NamedTuple):
    """The conic form, and how y is read from its multipliers."""

    P: Any  # by columns, the upper triangle
    q: Array
    G: Any  # by columns
    h: Array
    zeros: int  # the first rows are equations,
    nonnegative: int  # the next inequalities,
    cones: Array  # the rest second-order cones with so many rows, the height first
    offset: Array  # y = offset, with signs·u added in its rows
    rows: Array  # of y, by row of G; −1 if none
    signs: Array
    bounded: Array  # which y are bounded, so no ray moves them
    pull: Array  # q without that of f
    right: Array  # h without b

    def y(self, u: Array) -> Array:
        """The dual point of multipliers u."""
        return np.asarray(self.offset + self._in_y(u))

    def dual_ray(self, u: Array) -> Array:
        """The direction in which y moves along a ray of multipliers."""
        return np.where(self.bounded, 0.0, self._in_y(u))

    def _in_y(self, u: Array) -> Array:
        return np.bincount(self.rows + 1, self.signs * u, minlength=len(self.offset) + 1)[1:]

    def kkt(self) -> Any:
        """The pattern of what an interior point factorises, [P + δI, Gᵀ; G, −W²], without its upper right part."""
        v, size = len(self.q), len(self.q) + len(self.h)
        pairs = [(self.P.indices, _column_of(self.P)), (v + self.G.indices, _column_of(self.G))]
        owner = np.repeat(np.arange(len(self.cones)), self.cones)
        row = v + self.zeros + self.nonnegative + np.arange(len(owner))
        for step in range(1, SMALL_CONE if len(owner) else 1):
            together = (owner[step:] == owner[:-step]) & (self.cones[owner[step:]] <= SMALL_CONE)
            pairs.append((row[step:][together], row[:-step][together]))
        large = self.cones > SMALL_CONE  # W² is diagonal with two terms of rank one, each an unknown more
        extra = size + 2 * (np.cumsum(large) - 1)
        inside = large[owner]
        pairs += [(extra[owner[inside]] + k, row[inside]) for k in (0, 1)]
        rows, columns = (np.concatenate(side) for side in zip(*pairs, strict=True))
        size += 2 * int(large.sum())
        return sp.csr_array((np.ones(len(rows), np.int8), (rows, columns)), shape=(size, size))


class _Rows(NamedTuple):
    """φ*(w) = offset·w + width·max(w, 0) if lower ≤ w ≤ upper, row by row; rows of balls are free here."""

    lower: Array
    upper: Array
    offset: Array
    width: Array
    bounded: Array  # whether y is


class _Balls(NamedTuple):
    """Groups of rows: radius‖w‖ is added to f, or ‖w‖ ≤ radius required."""

    rows: Array  # their numbers, group after group
    sizes: Array
    radii: Array
    added: Array

    def cones(self, empty: int) -> tuple[Array, Array, Array]:
        """The rows of M in all cones, with an `empty` one for each height; h without b; where heights are."""
        if not len(self.sizes):
            return self.rows, self.radii, self.sizes
        heights = np.cumsum(self.sizes + 1) - (self.sizes + 1)
        inside = np.ones(len(self.rows) + len(self.sizes), bool)
        inside[heights] = False
        numbers, right = np.full(len(inside), empty), np.zeros(len(inside))
        numbers[inside] = self.rows
        right[heights] = np.where(self.added, 0.0, self.radii)
        return numbers, right, heights


NO_BALLS = _Balls(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0), np.zeros(0, bool))


def entries_of(problem: Problem) -> int | None:
    """How many entries the matrices of the problem have; None if it has no conic form."""
    known = problem.M.entry_count
    if known is None or problem.phi_table is None:
        return None
    return known + problem.f.work + (0 if problem.lower is None else problem.columns)


class _Before(NamedTuple):
    """The conic form of the last small problem with some M, and its parts."""

    f: Function
    phi: Phi
    lower: Array | None
    upper: Array | None
    form: Conic

    def again(self, problem: Problem) -> Conic | None:
        """That of another problem, if it differs in b and c only."""
        form = self.form
        if not (problem.phi is self.phi and problem.lower is self.lower and problem.upper is self.upper):
            return None
        if problem.f is not self.f:
            f = quadratic(problem) if problem.f.differs_in_c(self.f) else None
            if f is None:
                return None
            form = form._replace(q=form.pull + np.append(f.q, np.zeros(len(form.q) - len(f.q))))
        return form._replace(h=_right(problem, form.right, form.signs, form.rows))


def conic(problem: Problem) -> Conic | None:
    """The conic form; None if f is not quadratic, a part of φ is of another kind, or M is matrix-free."""
    table = problem.phi_table
    if table is None or problem.M.entry_count is None:
        return None
    before: _Before | None = problem.M.memory.known(_Before)
    form = None if before is None else before.again(problem)
    if form is not None:
        return form
    f = quadratic(problem)
    return _of_norms(problem) if f is None else _assembled(problem, f, _rows(table, problem), _balls(table))


def _of_norms(problem: Problem) -> Conic | None:
    """A loss that is the norm of (u − d, e), which a ball of radius 1 in y adds to f; None for any other loss."""
    parts = problem.terms or []
    terms = parts[0].terms if len(parts) == 1 else None
    e = None if terms is None or terms.loss is None else terms.loss.norm_with()
    if terms is None or e is None or terms.H is not None or (terms.A is not None and terms.A.entry_count is None):
        return None
    n = problem.columns
    A = sp.eye_array(n, format="csr") if terms.A is None else csr_of(terms.A)
    count = A.shape[0]
    indptr = np.append(np.repeat(A.indptr[:-1], 2), A.indptr[-1])
    indptr[1::2] = A.indptr[1:]  # every second row is empty
    norms = sp.csr_array((A.data, A.indices, indptr), shape=(2 * count, n))
    b = np.full(2 * count, -e)
    b[::2] = 0.0 if terms.d is None else terms.d
    rest = Quadratic(np.full(n, terms.ridge), terms.c, mu=terms.ridge, L=terms.ridge)
    whole = Problem(
        rest,
        RowBlocks([problem.M, norms] if problem.rows else [norms]),
        np.concatenate([problem.b, b]),
        Stack([problem.phi, GroupBall(1.0, 2)], sizes=[problem.rows, 2 * count]) if problem.rows else GroupBall(1.0, 2),
    )
    form = conic(whole if problem.lower is None else whole.replaced(limits=problem.bounds))  # they were checked before
    if form is None:
        return None
    m, added = problem.rows, slice(problem.rows, problem.rows + 2 * count)  # rows of y that the given problem lacks
    own = np.where(form.rows < m, form.rows, np.where(form.rows < added.stop, -1, form.rows - 2 * count))
    offset, bounded = (np.delete(v, added) for v in (form.offset, form.bounded))
    return form._replace(offset=offset, rows=own, bounded=bounded)


def _rows(table: Table, problem: Problem) -> _Rows:
    (lower, upper), (least, most) = table.of_residual, table.of_dual
    boxed, low, high = table.boxed, least > -np.inf, most < np.inf
    offset = np.where(low, least, np.where(high, most, 0.0))
    # w ≤ 0 if y may grow without end, w ≥ 0 if it may fall
    rows = _Rows(
        lower=np.where(table.grouped | (boxed & low), -np.inf, lower),
        upper=np.where(table.grouped | (boxed & high), np.inf, upper),
        offset=offset,
        width=np.where(low & high, most, offset) - offset,
        bounded=np.where(table.grouped, table.of_y, low & high),
    )
    if problem.lower is None:
        return rows
    zero = np.zeros(problem.columns)
    of_bounds = _Rows(*problem.bounds, zero, zero, zero.astype(bool))
    return _Rows(*map(np.concatenate, zip(rows, of_bounds, strict=True)))


def _balls(table: Table) -> _Balls:
    if not table.members.size:
        return NO_BALLS
    return _Balls(table.members, np.bincount(table.owner, minlength=table.starts.size), table.radii, table.inside)


def _assembled(problem: Problem, f: QuadraticForm, rows: _Rows, balls: _Balls) -> Conic:
    n, m, M = problem.columns, problem.multipliers, _stacked(problem, f)
    residuals, empty = len(f.d), m + len(f.d)  # numbers: the rows of M, bounds, those of B, then one without entries
    filled = (M != 0).any(axis=1) if isinstance(M, np.ndarray) else np.diff(M.indptr) > 0
    equation, says_something = rows.lower == rows.upper, filled[:m]
    is_filled = bool(says_something.all())
    if not is_filled:  # else any multiplier would do
        b = np.append(problem.b, np.zeros(m - problem.rows))
        says_something = says_something | (rows.lower > -b) | (-b > rows.upper)
    equal = np.flatnonzero(equation & says_something)
    below = np.flatnonzero((rows.upper < np.inf) & ~equation & says_something)
    above = np.flatnonzero((rows.lower > -np.inf) & ~equation & says_something)
    hinge = np.flatnonzero(rows.width > 0)
    in_cones, cones_h, heights = balls.cones(empty)
    parts = [  # rows of G: their numbers, their sign, the right-hand side without b
        (equal, 1.0, rows.lower[equal]),
        (m + np.arange(residuals), 1.0, f.d),
        (below, 1.0, rows.upper[below]),
        (above, -1.0, -rows.lower[above]),
        (hinge, 1.0, np.zeros(len(hinge))),
        (np.full(len(hinge), empty), 1.0, np.zeros(len(hinge))),
        (in_cones, -1.0, cones_h),
    ]
    every, sides, right = zip(*parts, strict=True)
    lengths = [*map(len, every)]
    ends = np.cumsum(lengths)
    numbers, signs = np.concatenate(every), np.repeat(sides, lengths)
    # a residual or a height has −1 in its rows: one, or both of a hinge
    others = residuals + len(hinge) + int(balls.added.sum())
    own = n + np.arange(others)
    at, column = np.zeros(0, np.intp), own
    if others:
        spans = [np.arange(ends[k] - lengths[k], ends[k]) for k in (1, 4, 5)]
        at = np.concatenate([*spans, ends[5] + heights[balls.added]]).astype(np.intp)
        column = np.concatenate([own[: residuals + len(hinge)], own[residuals:]])
    slope = M[: len(rows.offset)].T @ rows.offset if rows.offset.any() else np.zeros(n)
    pull = np.concatenate([slope, np.zeros(residuals), rows.width[hinge], balls.radii[balls.added]])
    of_y, without_b = np.where(numbers < m, numbers, -1), np.concatenate(right)
    form = Conic(
        P=_upper(f.P, residuals, n + others),
        q=pull + np.append(f.q, np.zeros(others)),
        G=_chosen_rows(M, numbers, signs, at, column, n + others),
        h=_right(problem, without_b, signs, of_y),
        zeros=int(ends[1]),
        nonnegative=int(ends[5] - ends[1]),
        cones=balls.sizes + 1,
        offset=rows.offset,
        rows=of_y,
        signs=signs,
        bounded=rows.bounded,
        pull=pull,
        right=without_b,
    )
    if is_filled and isinstance(form.G, Columns) and problem.f.work <= SMALL:  # f is kept, too
        problem.M.memory.keep(_Before, None, _Before(problem.f, problem.phi, problem.lower, problem.upper, form))
    return form


def _right(problem: Problem, without_b: Array, signs: Array, rows: Array) -> Array:
    """h, from b and the rows of y that belong to those of G."""
    b = np.append(problem.b, np.zeros(problem.multipliers - problem.rows + 1))  # bounds have none, nor has row −1
    return np.asarray(without_b + signs * b[rows])


def _stacked(problem: Problem, f: QuadraticForm) -> Any:
    """The rows of M, of the identity if x has bounds, and of B: an array if they are few and dense, else in CSR."""
    n, matrix, has_bounds = problem.columns, problem.M.stored_matrix, problem.lower is not None
    if f.B is None and isinstance(matrix, np.ndarray) and (matrix.shape[0] + n) * n <= SMALL:
        matrix = matrix.astype(np.float64, copy=False)
        return np.concatenate([matrix, np.eye(n)]) if has_bounds else matrix
    parts = [csr_of(problem.M)]
    if has_bounds:
        parts.append(sp.eye_array(n, format="csr"))
    if f.B is not None:
        parts.append(f.B)
    return parts[0] if len(parts) == 1 else stack_rows(parts, n)


def _chosen_rows(matrix: Any, numbers: Array, signs: Array, at: Array, column: Array, width: int) -> Any:
    """Some rows of a matrix with signs, and −1 in a further column of the rows `at`, by columns.

    A number beyond the last row stands for a row without entries.
    """
    if isinstance(matrix, np.ndarray):
        full, inside = np.zeros((len(numbers), width)), numbers < len(matrix)
        full[inside, : matrix.shape[1]] = signs[inside, None] * matrix[numbers[inside]]
        full[at, column] = -1.0
        return Columns.of(full)
    length = np.append(np.diff(matrix.indptr), 0)[numbers]
    more = np.zeros(len(numbers), np.int32)
    more[at] = 1
    indptr = np.zeros(len(numbers) + 1, np.int32)
    np.cumsum(length + more, out=indptr[1:])
    ends = np.cumsum(length)
    steps = np.arange(ends[-1] if len(ends) else 0)
    source = steps + np.repeat(matrix.indptr[numbers] - ends + length, length)
    target = steps + np.repeat(indptr[:-1] - ends + length, length)
    data, indices = np.full(indptr[-1], -1.0), np.empty(indptr[-1], np.int32)
    data[target], indices[target] = matrix.data[source] * np.repeat(signs, length), matrix.indices[source]
    indices[indptr[1:][at] - 1] = column
    return sp.csr_array((data, indices, indptr), shape=(len(numbers), width)).tocsc()


def _column_of(matrix: Any) -> Array:
    """The column of each entry of a matrix by columns."""
    return np.repeat(np.arange(matrix.shape[1], dtype=np.int32), np.diff(matrix.indptr))


@lru_cache(64)
def _triangle(n: int) -> tuple[Array, Array, Array]:
    """The columns and rows of an upper triangle, column by column, and the lengths of the columns."""
    columns, rows = np.tril_indices(n)
    return columns, rows.astype(np.int32), np.arange(1, n + 1)


def _upper(P: Any, ones: int, size: int) -> Columns:
    """The upper triangle of P, then a diagonal of ones, then of zeros up to the size."""
    if isinstance(P, np.ndarray):
        n = len(P)
        if P.ndim == 1:
            indices = np.flatnonzero(P).astype(np.int32)
            data, counts = P[indices], P != 0
        elif np.count_nonzero(P) == P.size:
            columns, indices, counts = _triangle(n)
            data = P[indices, columns]
        else:
            data, indices, ends, _ = Columns.of(np.triu(P))[:4]
            counts = np.diff(ends)
    else:
        P, n = P if P.has_sorted_indices else P.sorted_indices(), P.shape[0]
        above = P.indices <= _column_of(P)
        data, indices = P.data[above], P.indices[above]
        counts = np.diff(np.append(0, np.cumsum(above))[P.indptr])
    indptr = np.zeros(size + 1, np.int32)
    np.cumsum(np.concatenate([counts, np.ones(ones, int), np.zeros(size - n - ones, int)]), out=indptr[1:])
    if ones:
        data = np.append(data, np.ones(ones))
        indices = np.append(indices, np.arange(n, n + ones, dtype=np.int32))
    return Columns(data, indices, indptr, (size, size))
