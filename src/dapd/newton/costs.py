"""Which linear algebra solves the Newton systems of a problem fastest, and what a sparse factorisation would cost."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import reverse_cuthill_mckee
from scipy.sparse.linalg import splu

from dapd.arrays import Array
from dapd.functions.terms import Terms
from dapd.machine.core import load
from dapd.machine.rates import FACTORISATION, NEWTON
from dapd.newton.matrices import Split, TooExpensive, slacks_of
from dapd.newton.systems import BandedSystem, DualSystem, NormalSystem, SparseSystem, System, banded_seconds
from dapd.newton.weights import Groups, Pattern, joined_with_groups
from dapd.problem.problem import Problem

MEMORY = 2e8  # entries of the largest dense matrix that is stored
NEARBY = 0.1  # mean reach of rows, as a part of all columns, or width of a band, below which there is little fill-in
GROWTH = 4  # most times the entries that rows of groups may have if they get a common pattern
SLOW = 3_000  # unknowns from which SuperLU may take more than a second


def overhead(sparse: float, dense: float, unknowns: float) -> float:
    """Seconds that a step takes beside its factorisation, with so many entries in matrices of both kinds."""
    return NEWTON.step + NEWTON.sparse_entry * sparse + NEWTON.dense_entry * dense + NEWTON.unknown * unknowns


def dense_multiplications(problem: Problem) -> float:
    """Those of a dense factorisation, whose order is the number of columns or of rows; inf if large."""
    n, k = problem.columns, problem.rows
    by_columns = n**3 / 3 + float(n) * n * k
    is_diagonal = all(part.terms.H is None or part.terms.H.ndim == 1 for part in problem.terms or [])
    by_rows = k**3 / 3 + float(k) * k * n if is_diagonal else np.inf
    return min(by_columns if n * n <= MEMORY else np.inf, by_rows if k * k <= MEMORY else np.inf)


def dense_seconds(problem: Problem, *, scattered: bool) -> float:
    """Seconds of a step with a dense factorisation; whether the entries of M are scattered."""
    bounds = problem.multipliers - problem.rows
    sparse = problem.M.work + bounds if scattered else 0.0
    dense = problem.M.work + bounds + problem.f.work - sparse
    beside = overhead(sparse, dense, problem.multipliers + problem.columns)
    return beside + dense_multiplications(problem) / FACTORISATION.dense


def banded_step_seconds(problem: Problem) -> float:
    """Seconds of a step with a banded factorisation of M's rows; inf if it is impossible, or the band not narrow."""
    M, parts = problem.M.sparse(), problem.terms or []
    only_equations = problem.phi.is_linear and problem.lower is None
    if M is None or len(parts) != 1 or not _bends_by_variable(parts[0].terms) or only_equations:
        return np.inf
    once, places = banded_seconds(M)
    narrow = places <= min(MEMORY, NEARBY * M.shape[0] ** 2)
    return overhead(M.nnz, 0.0, problem.multipliers + problem.columns) + once if narrow else np.inf


def _bends_by_variable(f: Terms) -> bool:
    """Whether f is quadratic with a diagonal Hessian."""
    A = None if f.A is None else f.A.sparse()
    single = f.A is None or (A is not None and int(np.diff(sp.csr_array(A).indptr).max(initial=0)) <= 1)
    return f.is_quadratic and single and np.ndim(f.H) < 2


def filled_seconds(M: Any) -> float:
    """What a factorisation takes that fills in, as it does if rows of a sparse M couple columns far apart, else 0.

    Rows and columns with one entry couple nothing.
    """
    M = sp.csr_array(M)
    lengths = np.diff(M.indptr)
    indices = M.indices[np.repeat(lengths > 1, lengths)]
    lengths = lengths[lengths > 1]
    starts = np.cumsum(lengths) - lengths
    if starts.size == 0:
        return 0.0
    reach = np.maximum.reduceat(indices, starts) - np.minimum.reduceat(indices, starts)
    if float(np.mean(reach)) < NEARBY * M.shape[1]:
        return 0.0
    coupled = min(lengths.size, int(np.count_nonzero(np.bincount(indices) > 1)))
    return float(coupled) ** 3 / 3 / FACTORISATION.dense


class Choice(NamedTuple):
    """A kind of system and what it costs."""

    kind: type[System]
    seconds: float  # of a step
    multiplications: float  # by BLAS, in a factorisation


def choose_system(P: Any, rows: Split, groups: Groups, seconds: float) -> Choice:
    """The kind of system whose steps are fastest; raise if they take more seconds than allowed."""
    inside = groups._replace(rows=np.searchsorted(rows.general, groups.rows))
    slacks = slacks_of(P, rows.matrix, inside.rows)
    P, matrix = slacks.P, slacks.matrix
    k, n = matrix.shape
    sparse = sum(part.nnz for part in (P, rows.matrix) if sp.issparse(part))
    filled = sum(part.size for part in (P, rows.matrix) if not sp.issparse(part))
    beside = overhead(sparse, filled, sum(rows.matrix.shape) + rows.single.size)
    gram, outer = _products(matrix)
    by_rows = [(DualSystem, k, outer)] if P.ndim == 1 else []
    dense: list[tuple[type[System], int, float]] = [(NormalSystem, n, gram), *by_rows]
    counts = [(kind, size**3 / 3 + product) for kind, size, product in dense if size * size <= MEMORY]
    found = [Choice(kind, beside + count / FACTORISATION.dense, count) for kind, count in counts]
    if P.ndim == 1 and sp.issparse(rows.matrix) and not groups.rows.size:
        once, places = banded_seconds(rows.matrix)
        if places <= MEMORY:
            found.append(Choice(BandedSystem, beside + once, 0.0))
    within = min([seconds, *(one.seconds for one in found)])
    if P.ndim == 1 or sp.issparse(P):
        found.append(Choice(SparseSystem, beside + _sparse_cost(P, matrix, inside, within - beside), 0.0))
    best = min(found, key=lambda one: one.seconds) if found else None
    if best is None or best.seconds > seconds:
        raise TooExpensive(f"a factorisation would take more than {seconds:.2g} s")
    return best


def _sparse_cost(P: Any, matrix: Any, groups: Groups, within: float) -> float:
    """Seconds of a sparse factorisation; inf if they are more than `within`."""
    matrix = sp.csr_array(matrix)
    if groups.owner.size:
        lengths, sizes = np.diff(matrix.indptr)[groups.rows], np.bincount(groups.owner)
        if float(sizes @ np.bincount(groups.owner, lengths)) > GROWTH * (matrix.nnz + 1):
            return np.inf
        matrix = joined_with_groups(matrix, groups)
    if (matrix.nnz + (P.nnz if sp.issparse(P) else P.size)) * FACTORISATION.entry > within:
        return np.inf
    found = cost(Pattern(P, matrix).matrix, within * FACTORISATION.sparse, fill_limit=within / FACTORISATION.entry)
    return found.flops / FACTORISATION.sparse + found.fill * FACTORISATION.entry if found.complete else np.inf


def _products(matrix: Any) -> tuple[float, float]:
    """Multiplications of BᵀB and of BBᵀ."""
    k, n = matrix.shape
    if not sp.issparse(matrix):
        return float(n) * n * k, float(k) * k * n
    by_row, by_column = np.diff(matrix.indptr).astype(float), np.bincount(matrix.indices, minlength=n).astype(float)
    gram = min(FACTORISATION.sparse_product * float(by_row @ by_row), float(n) * n * k)
    return gram, FACTORISATION.sparse_product * float(by_column @ by_column)


class Cost(NamedTuple):
    """The cost of K = PᵀLDLᵀP with an approximate minimum degree ordering P."""

    fill: float  # entries of L below its diagonal
    flops: float  # Σ (entries in a column of L)²
    complete: bool  # False if a limit was passed: then both are only what was counted until then


def cost(matrix: Any, limit: float = math.inf, *, fill_limit: float = math.inf) -> Cost:
    """Count entries and flops of L for a symmetric sparse matrix, of which one triangle is enough.

    Parameters
    ----------
    matrix : sparse matrix
        Only its pattern is used, and no pivot counts as zero.
    limit, fill_limit : float
        Stop as soon as there are more flops or more entries.

    Returns
    -------
    Cost
        As for AMD's ordering, up to ties. Rows with very many entries are ordered last, and then both numbers are
        upper bounds; without the native core, so they are for more than 3,000 unknowns, and SuperLU's ordering counts
        for fewer.
    """
    pattern = matrix if sp.issparse(matrix) and matrix.format in ("csr", "csc") else sp.csr_array(matrix)
    if pattern.shape[0] != pattern.shape[1]:
        raise ValueError(f"matrix must be square, found shape {pattern.shape}")
    core = load()
    if core is None:
        return _cost_by_scipy(pattern, limit, fill_limit)
    indptr, indices = pattern.indptr.astype(np.int64), pattern.indices.astype(np.int32)
    return Cost(*core.symbolic_cost(indptr, indices, fill_limit, limit))


def _cost_by_scipy(pattern: Any, limit: float, fill_limit: float) -> Cost:
    n = pattern.shape[0]
    ones = sp.csr_array((np.ones(pattern.nnz), pattern.indices, pattern.indptr), shape=(n, n))
    whole = (ones + ones.T).tocsr()
    dense = np.diff(whole.indptr) > most_entries(n)
    rest = whole[~dense][:, ~dense]
    columns = (columns_of_band(rest) if n > SLOW else _columns_of_superlu(rest)) + float(dense.sum())
    columns = np.concatenate([[0.0], columns, np.arange(dense.sum())])
    fill, flops = np.cumsum(columns), np.cumsum(columns**2)
    beyond = np.flatnonzero((fill > fill_limit) | (flops > limit))
    end = beyond[0] if beyond.size else n
    return Cost(float(fill[end]), float(flops[end]), not beyond.size)


def _columns_of_superlu(pattern: Any) -> Array:
    """The entries of L below its diagonal, column by column, for numbers that need no pivots."""
    if not pattern.shape[0]:
        return np.zeros(0)
    diagonal = sp.diags_array(3.0 * np.diff(pattern.indptr) + 1.0)
    options = {"SymmetricMode": True}
    factor = splu(sp.csc_matrix(diagonal - pattern), "MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=options)
    return np.diff(factor.L.indptr) - 1.0


def columns_of_band(pattern: Any) -> Array:
    """Upper bounds on the entries of L in each column, from the band of the reverse Cuthill–McKee ordering."""
    order = reverse_cuthill_mckee(pattern, symmetric_mode=True) if pattern.shape[0] else np.zeros(0, np.int32)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    entries, first = pattern.tocoo(), np.arange(len(order))
    np.minimum.at(first, place[entries.row], place[entries.col])
    return np.arange(len(order)) - first


def most_entries(size: int) -> float:
    """The number of entries above which a row counts as dense."""
    return max(16.0, 4 * math.sqrt(size))
