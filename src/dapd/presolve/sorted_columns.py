"""Columns in the order of their first rows: a product of a sparse M then reads x nearly as it lies in memory."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Self

import numpy as np
import scipy.sparse as sp

from dapd.arrays import Array
from dapd.functions import Composite, Function
from dapd.functions.terms import Part
from dapd.operators.base import Operator
from dapd.operators.explicit import Sparse
from dapd.presolve.maps import stacked_maps
from dapd.presolve.tables import table_of
from dapd.presolve.terms import parts_of
from dapd.presolve.transform import rebuilt_problem
from dapd.problem.problem import Problem
from dapd.problem.way_back import WayBack

MANY = 1 << 20  # columns from which sorting pays off, since a shorter x stays in the cache of a GPU
UNSORTED = 0.25  # part of the columns that start above the one before them; it is half in a random order


class SortedColumns:
    """x̂ = x[order], and the rows of bounds in the same order, so an identity stays one.

    It helps products on a GPU, where reading x here and there is what takes the time. Only the jax engine uses it.
    """

    name = "sorted columns"
    why = "Columns were sorted by their first rows."

    def __init__(self, problem: Problem, order: Array) -> None:
        places = _inverse(order)
        self.order, self.y_order = order, _extended(problem.M, order)
        y_places = None if self.y_order is None else _extended(problem.M, places)
        self.way_back = WayBack(x_places=places, y_places=y_places)
        table, parts = table_of(problem), parts_of(problem)
        if table is None or parts is None:
            raise ValueError("an f or a φ that only Python can evaluate cannot be sorted")
        lower, upper = self._rows_of(table.lower), self._rows_of(table.upper)  # those that move have the same code
        self.problem = rebuilt_problem(
            problem,
            f=_sorted_function(parts[0], order),
            M=_sorted_map(problem.M, places),
            b=self._rows_of(problem.b),
            phi=None if self.y_order is None else replace(table, lower=lower, upper=upper).phi(),
            keep_blocks=False,
            spectrum=problem.spectrum,
        )

    @classmethod
    def apply(cls, problem: Problem) -> Self | None:
        """Sort the columns; None if that does not pay off, or if f, φ or M cannot be sorted."""
        if problem.columns < MANY or not (_has_sortable_rows(problem) and _has_sortable_function(problem)):
            return None
        (matrix,) = _sparse_parts(problem.M)
        first = _first_rows(matrix)
        falls = np.count_nonzero(first[1:] < first[:-1])
        return cls(problem, _order_of(first, matrix.shape[0])) if falls >= UNSORTED * len(first) else None

    def with_b(self, b: Array) -> Self:
        """The same order for another b."""
        other = copy(self)
        other.problem = self.problem.replaced(b=self._rows_of(b))
        return other

    def _rows_of(self, y: Array) -> Array:
        return y if self.y_order is None else y[self.y_order]

    def start(self, x: Array, y: Array) -> tuple[Array, Array]:
        """The point in the new order."""
        return x[self.order], self._rows_of(y)

    def back(self, x: Array, y: Array) -> tuple[Array, Array]:
        """The point in the old order."""
        return self.way_back.of(x, y)


def _has_sortable_rows(problem: Problem) -> bool:
    """Whether M is one sparse matrix, perhaps with bounds on all of x, which φ treats alike but for their values."""
    table = table_of(problem)
    if table is None or len(_sparse_parts(problem.M)) != 1:
        return False
    for part, at in problem.M.bands():
        if part.identity_start is not None:
            of_y = table.of_y[at]
            if part.shape[0] != problem.columns or table.grouped[at].any() or of_y.any() != of_y.all():
                return False
        elif not sp.issparse(part.stored_matrix):
            return False
    return True


def _sparse_parts(M: Operator) -> list[sp.csr_array]:
    return [part.stored_matrix for part, _ in M.bands() if sp.issparse(part.stored_matrix)]


def _has_sortable_function(problem: Problem) -> bool:
    """Whether f is a sum over the entries of x, in one block."""
    parts = parts_of(problem)
    return parts is not None and len(parts) == 1 and parts[0].terms.is_by_entry


def _first_rows(matrix: sp.csr_array) -> Array:
    """The first row of each column that has an entry; of an empty one, the number of rows."""
    rows, columns = matrix.shape
    found = np.full(columns, rows, np.int32)
    owner = np.repeat(np.arange(rows, dtype=np.int32), np.diff(matrix.indptr))
    found[matrix.indices[::-1]] = owner[::-1]  # what is written last stays
    return found


def _order_of(first: Array, rows: int) -> Array:
    """The stable order of numbers up to `rows`, by counting them, which is quicker than `argsort`."""
    ones, ends = np.ones(len(first), np.int8), np.arange(len(first) + 1, dtype=first.dtype)
    return sp.csr_array((ones, first, ends), shape=(len(first), rows + 1)).tocsc().indices


def _inverse(order: Array) -> Array:
    places = np.empty_like(order)
    places[order] = np.arange(len(order), dtype=order.dtype)
    return places


def _extended(M: Operator, order: Array) -> Array | None:
    """An order of x as one of y: rows of an identity move as x does, others stay; None if there is no identity."""
    found, moved = np.arange(M.shape[0], dtype=order.dtype), False
    for part, at in M.bands():
        if part.identity_start is not None:
            found[at], moved = at.start + order, True
    return found if moved else None


def _sorted_map(M: Operator, places: Array) -> Operator:
    return stacked_maps([_sorted_part(part, places) for part, _ in M.bands()], M.shape[1])


def _sorted_part(M: Operator, places: Array) -> Operator:
    matrix = M.stored_matrix
    if not sp.issparse(matrix):
        return M
    narrow = matrix.nnz <= np.iinfo(np.int32).max  # so indices are not widened
    ends = matrix.indptr.astype(np.int32) if narrow else matrix.indptr
    moved = sp.csr_array((matrix.data.copy(), places[matrix.indices], ends), shape=M.shape)
    moved.sort_indices()  # in place
    return Sparse(moved)


def _sorted_function(part: Part, order: Array) -> Function:
    moved = {name: v[order] for name in ("d", "H", "c") if (v := getattr(part.terms, name)) is not None}
    return Composite(part.terms._replace(**moved), len(order), part.mu, part.L)
