"""Columns in the order of their first rows: a product of a sparse M then reads x nearly as it lies in memory."""

from __future__ import annotations

from typing import Self

import numpy as np
import scipy.sparse as sp

from dapd.arrays import Array
from dapd.functions import Composite, Function
from dapd.functions.terms import Part
from dapd.operators.explicit import Sparse
from dapd.presolve.terms import parts_of
from dapd.presolve.transform import Transform, rebuilt_problem
from dapd.problem.problem import Problem
from dapd.problem.way_back import WayBack

MANY = 1 << 20  # columns from which sorting pays off, since a shorter x stays in the cache of a GPU
UNSORTED = 0.25  # part of the columns that start above the one before them; it is half in a random order


class SortedColumns(Transform):
    """x̂ = x[order], with its bounds; rows keep their places.

    It helps products on a GPU, where reading x here and there is what takes the time. Only the jax engine uses it.
    """

    name = "sorted columns"
    why = "Columns were sorted by their first rows."

    def __init__(self, problem: Problem, part: Part, order: Array) -> None:
        self.order, places = order, _inverse(order)
        bounded, rows = problem.lower is not None, np.arange(problem.rows, dtype=order.dtype)
        self.way_back = WayBack(x_places=places, y_places=np.append(rows, problem.rows + places) if bounded else None)
        self.problem = rebuilt_problem(
            problem,
            f=_sorted_function(part, order),
            M=_sorted_map(problem.M.stored_matrix, places),
            bounds=(problem.bounds[0][order], problem.bounds[1][order]) if bounded else None,
            keep_blocks=False,
            spectrum=problem.spectrum,
        )

    @classmethod
    def apply(cls, problem: Problem) -> Self | None:
        """Sort the columns; None if that does not pay off, if M is not sparse, or if f is no sum over entries of x."""
        matrix, parts = problem.M.stored_matrix, parts_of(problem)
        if problem.columns < MANY or not sp.issparse(matrix):
            return None
        if parts is None or len(parts) > 1 or not parts[0].terms.is_by_entry:
            return None
        first = _first_rows(matrix)
        falls = np.count_nonzero(first[1:] < first[:-1])
        return cls(problem, parts[0], _order_of(first, problem.rows)) if falls >= UNSORTED * len(first) else None

    def new_b(self, b: Array) -> Array:
        """The same, since rows keep their places."""
        return b


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


def _sorted_map(matrix: sp.csr_array, places: Array) -> Sparse:
    narrow = matrix.nnz <= np.iinfo(np.int32).max  # so indices are not widened
    ends = matrix.indptr.astype(np.int32) if narrow else matrix.indptr
    moved = sp.csr_array((matrix.data.copy(), places[matrix.indices], ends), shape=matrix.shape)
    moved.sort_indices()  # in place
    return Sparse(moved)


def _sorted_function(part: Part, order: Array) -> Function:
    moved = {name: v[order] for name in ("d", "H", "c") if (v := getattr(part.terms, name)) is not None}
    return Composite(part.terms._replace(**moved), len(order), part.mu, part.L)
