"""Which linear algebra solves the Newton systems of a problem fastest."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from dapd.functions.terms import Terms
from dapd.machine.rates import FACTORISATION, NEWTON
from dapd.newton.banded import BandedSystem, banded_seconds
from dapd.newton.matrices import Split, TooExpensive
from dapd.newton.pattern import Pattern, joined_with_groups
from dapd.newton.slacks import slacks_of
from dapd.newton.symbolic import cost
from dapd.newton.systems import DualSystem, NormalSystem, SparseSystem
from dapd.newton.weights import Groups
from dapd.problem.problem import Problem

MEMORY = 2e8  # entries of the largest dense matrix that is stored
NEARBY = 0.1  # mean reach of rows, as a part of all columns, or width of a band, below which there is little fill-in
GROWTH = 4  # most times the entries that rows of groups may have if they get a common pattern


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


Kind = type[NormalSystem] | type[DualSystem] | type[SparseSystem] | type[BandedSystem]


class Choice(NamedTuple):
    """A kind of system and what it costs."""

    kind: Kind
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
    dense: dict[Kind, float] = {}  # multiplications
    gram, outer = _products(matrix)
    if n * n <= MEMORY:
        dense[NormalSystem] = n**3 / 3 + gram
    if P.ndim == 1 and k * k <= MEMORY:
        dense[DualSystem] = k**3 / 3 + outer
    found = [Choice(kind, beside + count / FACTORISATION.dense, count) for kind, count in dense.items()]
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
