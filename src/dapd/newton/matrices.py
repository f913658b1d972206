"""Explicit matrices of linear maps, and their rows and columns with a single entry, which need no factorisation."""

from __future__ import annotations

from functools import singledispatch
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from dapd.arrays import Array
from dapd.machine.clock import perf_counter
from dapd.operators.base import PROBED, Operator
from dapd.operators.blocks import ColumnBlocks, RowBlocks
from dapd.operators.structured import BlockDiagonal, Kronecker

Matrix = Any  # a dense array or a CSR array, in float64
DENSE = 0.25  # part of the entries that must be nonzero for a matrix to be treated as dense
MOST_PROBED = 1 << 22  # entries of a map that only has products, up to which its matrix may be found by them
NONE = np.zeros(0, np.intp)


class NotExplicit(Exception):
    """The entries of a map are not known."""


class TooExpensive(Exception):
    """No factorisation is expected to end in time."""


@singledispatch
def explicit(M: Operator, seconds: float = 0.0) -> Matrix:
    """The matrix of a map, dense or CSR; if it is not stored, by products, if they take no longer than `seconds`."""
    sparse = M.sparse()
    if sparse is not None:
        known = isinstance(sparse, sp.csr_array) and sparse.dtype == np.float64
        return sparse if known else sp.csr_array(sparse, dtype=np.float64)
    return _probed(M, seconds) if M.probes else np.asarray(M.dense(), np.float64)


@explicit.register
def _(M: RowBlocks, seconds: float = 0.0) -> Matrix:
    return stack([explicit(part, seconds) for part in M.operators], M.shape[1])


@explicit.register
def _(M: ColumnBlocks, seconds: float = 0.0) -> Matrix:
    parts = [explicit(part, seconds) for part in M.operators]
    if not any(sp.issparse(part) for part in parts):
        return np.concatenate(parts, axis=1)
    return sp.csr_array(sp.hstack([sp.csr_array(part) for part in parts], format="csr"))


@explicit.register
def _(M: Kronecker, seconds: float = 0.0) -> Matrix:
    whole = sp.csr_array(M.formed(), dtype=np.float64)
    return whole.toarray() if whole.nnz > DENSE * whole.shape[0] * whole.shape[1] else whole


@explicit.register
def _(M: BlockDiagonal, seconds: float = 0.0) -> Matrix:
    return sp.csr_array(M.formed(), dtype=np.float64)


def _probed(M: Operator, seconds: float) -> Array:
    """The matrix of a map that does not store it, by products with unit vectors; kept."""

    def find() -> Array:
        if not seconds or M.shape[0] * M.shape[1] > MOST_PROBED:
            raise NotExplicit(f"{type(M).__name__} does not store its matrix")
        expected = M.probes * _seconds_of_product(M)
        if expected > seconds:
            raise TooExpensive(f"{M.probes} products to find the entries of M would take {expected:.2g} s")
        matrix = np.asarray(M.dense(), np.float64)
        if not np.isfinite(matrix).all():
            raise NotExplicit(f"products of {type(M).__name__} with unit vectors are not finite")
        return matrix

    return M.memory.once(PROBED, None, find)


def probes(M: Operator) -> int:
    """The products with unit vectors that found entries of M."""
    return sum(part.probes for part, _, _ in M.leaves() if part.memory.known(PROBED) is not None)


def _seconds_of_product(M: Operator) -> float:
    """The time of one product: the less of two, since the first may include a set-up."""
    times, ones = [], np.ones(M.shape[1])
    for _ in range(2):
        began = perf_counter()
        M.forward(ones)
        times.append(perf_counter() - began)
    return min(times)


def csr_of(M: Operator) -> Any:
    """The matrix of a map as CSR."""
    matrix = explicit(M)
    return matrix if sp.issparse(matrix) else _filled(matrix)


def _filled(matrix: Array) -> Any:
    """A dense matrix as CSR, without a search for its zeros if it has none."""
    rows, columns = matrix.shape
    if not np.all(matrix):
        return sp.csr_array(matrix, dtype=np.float64)
    indices = np.tile(np.arange(columns, dtype=np.int32), rows)
    indptr = np.arange(0, rows * columns + 1, columns)
    return sp.csr_array((matrix.astype(np.float64).ravel(), indices, indptr), shape=matrix.shape)


def stack(matrices: list[Matrix], columns: int) -> Matrix:
    """Matrices on top of each other: dense if most of the entries are, else CSR."""
    if not matrices:
        return sp.csr_array((0, columns))
    if len(matrices) == 1:
        return matrices[0]
    stored = sum(m.nnz if sp.issparse(m) else m.size for m in matrices)
    if stored > DENSE * columns * sum(m.shape[0] for m in matrices):
        return np.concatenate([m.toarray() if sp.issparse(m) else m for m in matrices])
    return stack_rows([m if sp.issparse(m) else _filled(m) for m in matrices], columns)


def stack_rows(parts: list[Any], columns: int) -> Any:
    """CSR matrices on top of each other."""
    starts = np.cumsum([0, *(part.nnz for part in parts)])
    indptr = np.concatenate([[0], *(start + part.indptr[1:] for start, part in zip(starts, parts, strict=False))])
    data, indices = (np.concatenate([getattr(part, name) for part in parts]) for name in ("data", "indices"))
    return sp.csr_array((data, indices, indptr), shape=(len(indptr) - 1, columns))


def scaled(matrix: Matrix, rows: Array, columns: Array) -> Matrix:
    """The matrix with its rows and columns multiplied by factors."""
    if not sp.issparse(matrix):
        return rows[:, None] * matrix * columns
    row_of = np.repeat(rows, np.diff(matrix.indptr))
    return sp.csr_array(
        (row_of * matrix.data * columns[matrix.indices], matrix.indices, matrix.indptr), shape=matrix.shape
    )


def same_pattern(first: Matrix, second: Matrix) -> bool:
    """Whether two matrices, or diagonals, are stored alike and differ at most in their numbers."""
    if first.shape != second.shape or sp.issparse(first) != sp.issparse(second):
        return False
    if not sp.issparse(first):
        return True
    return np.array_equal(first.indptr, second.indptr) and np.array_equal(first.indices, second.indices)


class Split(NamedTuple):
    """Rows with one entry, and the others."""

    single: Array  # rows with one entry
    column: Array  # where that is
    value: Array  # and what
    general: Array  # the other rows
    matrix: Matrix  # those rows


def split(matrix: Matrix, keep: Array) -> Split:
    """Take the rows with one entry out, except those marked in `keep`."""
    one = (np.diff(matrix.indptr) == 1) & ~keep if sp.issparse(matrix) else np.zeros(matrix.shape[0], bool)
    if not one.any():
        return Split(NONE, NONE, np.zeros(0), np.arange(matrix.shape[0]), matrix)
    single, general = np.flatnonzero(one), np.flatnonzero(~one)
    at, rest = matrix.indptr[single], matrix[general]
    if rest.nnz > DENSE * rest.shape[0] * rest.shape[1]:
        rest = rest.toarray()
    return Split(single, matrix.indices[at], matrix.data[at], general, rest)


class Slacks(NamedTuple):
    """The slack columns of a matrix of rows, and what is left without them."""

    columns: Array
    row: Array  # of the entry of each
    value: Array  # and what it is
    diagonal: Array  # of P
    others: Array  # the other columns
    P: Any  # of these
    matrix: Any


def no_slacks(P: Any, matrix: Any) -> Slacks:
    """None of the columns."""
    return Slacks(NONE, NONE, np.zeros(0), np.zeros(0), np.arange(matrix.shape[1]), P, matrix)


def slacks_of(P: Any, matrix: Any, grouped: Array) -> Slacks:
    """The slack columns of a Newton system: those with one entry, which can be eliminated without fill.

    In [P + diag(h), Bᵀ; B, −I], a column j with the single entry β in row i, and only its diagonal in P, adds
    β²/(P_jj + h_j) to the 1 of that row. Without such columns, a system is smaller, and a minimum degree ordering of it
    takes far less time. A row of a group has none, since its group would have to be scaled as a whole.
    """
    if not sp.issparse(matrix) or not (P.ndim == 1 or sp.issparse(P)):
        return no_slacks(P, matrix)
    slack = np.bincount(matrix.indices, minlength=matrix.shape[1]) == 1
    slack[matrix[grouped].indices] = False
    if P.ndim == 2:
        i, j = sp.coo_array(P).coords
        slack[i[i != j]] = False
    if not slack.any():
        return no_slacks(P, matrix)
    inside = slack[matrix.indices]
    found, others = matrix.indices[inside], np.flatnonzero(~slack)
    row = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))[inside]
    diagonal = (P if P.ndim == 1 else P.diagonal())[found]
    P = P[others] if P.ndim == 1 else sp.csr_array(P)[others][:, others]
    return Slacks(found, row, matrix.data[inside], diagonal, others, P, sp.csr_array(matrix[:, others]))
