"""A problem with quadratic (or pseudo-Huber) f, rows, boxes and balls in conic form: min ½vᵀPv + qᵀv, h − Gv ∈ K.

v holds x, then residuals r = Bx − d of least squares, then the heights of epigraphs, max(w, 0) ≤ t and ‖w‖ ≤ t, with
w = Mx − b. K is a product of zeros, half-lines and second-order cones. Its multipliers u ∈ K* satisfy Pv + q + Gᵀu = 0,
and y is affine in them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from dapd.arguments import consecutive
from dapd.arrays import Array
from dapd.functions import Quadratic
from dapd.kinds.composed import Stack
from dapd.kinds.groups import GroupBall
from dapd.kinds.table import Table
from dapd.newton.matrices import csr_of, stack_rows
from dapd.newton.quadratic_form import QuadraticForm, quadratic
from dapd.operators.stacked import RowBlocks
from dapd.problem.problem import Problem

SMALL_CONE = 4  # Clarabel keeps the scaling of a second-order cone with so many rows as a dense block


class Conic(NamedTuple):
    """The conic form, and how y is read from its multipliers."""

    P: Any  # CSC, the upper triangle
    q: Array
    G: Any  # CSC
    h: Array
    zeros: int  # the first rows are equations,
    nonnegative: int  # the next inequalities,
    cones: Array  # the rest second-order cones with so many rows, the height first
    offset: Array  # y = offset, with signs·u added in its rows
    rows: Array  # of y, by row of G; −1 if none
    signs: Array
    bounded: Array  # which y are bounded, so no ray moves them

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

    def cones(self, b: Array, empty: int) -> tuple[Array, Array, Array]:
        """The rows of M in all cones, with an `empty` one for each height; the right-hand side; where heights are."""
        heights = np.cumsum(self.sizes + 1) - (self.sizes + 1)
        inside = np.ones(len(self.rows) + len(self.sizes), bool)
        inside[heights] = False
        numbers, right = np.full(len(inside), empty), np.zeros(len(inside))
        numbers[inside], right[inside] = self.rows, -b[self.rows]
        right[heights] = np.where(self.added, 0.0, self.radii)
        return numbers, right, heights


NO_BALLS = _Balls(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0), np.zeros(0, bool))


def entries_of(problem: Problem) -> int | None:
    """How many entries the matrices of the problem have; None if it has no conic form."""
    known = problem.M.entry_count
    return None if known is None or _table(problem) is None else known + problem.f.work


def conic(problem: Problem) -> Conic | None:
    """The conic form; None if f is not quadratic, a piece of φ is of another kind, or M is matrix-free."""
    table = _table(problem)
    if table is None or problem.M.entry_count is None:
        return None
    f = quadratic(problem)
    if f is None:
        return _of_norms(problem)
    return _assembled(problem, f, _rows(table), _balls(table))


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
    form = conic(whole)
    m = problem.rows
    if form is None:
        return None
    own = np.where(form.rows < m, form.rows, -1)
    return form._replace(offset=form.offset[:m], rows=own, bounded=form.bounded[:m])


def _table(problem: Problem) -> Table | None:
    """φ by rows; None if some are neither intervals nor groups, or x has bounds that are not stacked."""
    return None if problem.lower is not None else problem.phi_table


def _rows(table: Table) -> _Rows:
    (lower, upper), (least, most) = table.of_residual, table.of_dual
    boxed, low, high = table.boxed, least > -np.inf, most < np.inf
    offset = np.where(low, least, np.where(high, most, 0.0))
    # w ≤ 0 if y may grow without end, w ≥ 0 if it may fall
    return _Rows(
        lower=np.where(table.grouped | (boxed & low), -np.inf, lower),
        upper=np.where(table.grouped | (boxed & high), np.inf, upper),
        offset=offset,
        width=np.where(low & high, most, offset) - offset,
        bounded=np.where(table.grouped, table.of_y, low & high),
    )


def _balls(table: Table) -> _Balls:
    if not table.members.size:
        return NO_BALLS
    return _Balls(table.members, np.bincount(table.owner, minlength=table.starts.size), table.radii, table.inside)


def _assembled(problem: Problem, f: QuadraticForm, rows: _Rows, balls: _Balls) -> Conic:
    M, b = csr_of(problem.M), problem.b.astype(np.float64)
    m, n = M.shape
    residuals, empty = len(f.d), m + len(f.d)  # numbers: the rows of M, then those of B, then one without entries
    equation = rows.lower == rows.upper
    says_something = (np.diff(M.indptr) > 0) | (rows.lower > -b) | (-b > rows.upper)  # else any multiplier would do
    equal = np.flatnonzero(equation & says_something)
    below = np.flatnonzero((rows.upper < np.inf) & ~equation & says_something)
    above = np.flatnonzero((rows.lower > -np.inf) & ~equation & says_something)
    hinge = np.flatnonzero(rows.width > 0)
    in_cones, cones_h, heights = balls.cones(b, empty)
    parts = [  # rows of G: their numbers, their sign, the right-hand side
        (equal, 1.0, (b + rows.lower)[equal]),
        (m + np.arange(residuals), 1.0, f.d),
        (below, 1.0, (b + rows.upper)[below]),
        (above, -1.0, -(b + rows.lower)[above]),
        (hinge, 1.0, b[hinge]),
        (np.full(len(hinge), empty), 1.0, np.zeros(len(hinge))),
        (in_cones, -1.0, cones_h),
    ]
    places = consecutive(len(numbers) for numbers, _, _ in parts)
    numbers = np.concatenate([numbers for numbers, _, _ in parts])
    signs = np.repeat([sign for _, sign, _ in parts], [len(numbers) for numbers, _, _ in parts])
    # a residual or a height has −1 in its rows: one, or both of a hinge
    at = np.r_[places[1], places[4], places[5], places[6].start + heights[balls.added]].astype(np.intp)
    others = residuals + len(hinge) + int(balls.added.sum())
    own = n + np.arange(others)
    column = np.concatenate([own[: residuals + len(hinge)], own[residuals:]])
    slope = f.q + M.T @ rows.offset if rows.offset.any() else f.q
    return Conic(
        P=_upper(f.P, residuals, n + others),
        q=np.concatenate([slope, np.zeros(residuals), rows.width[hinge], balls.radii[balls.added]]),
        G=_chosen_rows(M if f.B is None else stack_rows([M, f.B], n), numbers, signs, at, column, n + others),
        h=np.concatenate([right for _, _, right in parts]),
        zeros=places[1].stop,
        nonnegative=places[5].stop - places[1].stop,
        cones=balls.sizes + 1,
        offset=rows.offset,
        rows=np.where(numbers < m, numbers, -1),
        signs=signs,
        bounded=rows.bounded,
    )


def _chosen_rows(matrix: Any, numbers: Array, signs: Array, at: Array, column: Array, width: int) -> Any:
    """Some rows of a CSR matrix with signs, and −1 in a further column of the rows `at`; in CSC.

    A number beyond the last row stands for a row without entries.
    """
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
    """The column of each entry of a CSC matrix."""
    return np.repeat(np.arange(matrix.shape[1], dtype=np.int32), np.diff(matrix.indptr))


def _upper(P: Any, ones: int, size: int) -> Any:
    """The upper triangle of P, then a diagonal of ones, then of zeros up to the size, in CSC."""
    P = P if P.has_sorted_indices else P.sorted_indices()
    above = P.indices <= _column_of(P)
    lengths = np.concatenate([np.diff(np.append(0, np.cumsum(above))[P.indptr]), np.ones(ones, int)])
    indptr = np.zeros(size + 1, np.int32)
    np.cumsum(lengths, out=indptr[1 : 1 + len(lengths)])
    indptr[1 + len(lengths) :] = indptr[len(lengths)]
    indices = np.append(P.indices[above], np.arange(P.shape[0], P.shape[0] + ones, dtype=np.int32))
    return sp.csc_array((np.append(P.data[above], np.ones(ones)), indices, indptr), shape=(size, size))
