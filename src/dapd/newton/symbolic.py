"""What a sparse LDLᵀ factorisation would cost, before any of it is computed."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import reverse_cuthill_mckee
from scipy.sparse.linalg import splu

from dapd.arrays import Array
from dapd.machine.core import load

SLOW = 3_000  # unknowns from which SuperLU may take more than a second


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
    """The same without the native core."""
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
    """Upper bounds on these entries, from the band in which the reverse Cuthill–McKee ordering keeps L."""
    order = reverse_cuthill_mckee(pattern, symmetric_mode=True) if pattern.shape[0] else np.zeros(0, np.int32)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    entries, first = pattern.tocoo(), np.arange(len(order))
    np.minimum.at(first, place[entries.row], place[entries.col])
    return np.arange(len(order)) - first


def most_entries(size: int) -> float:
    """A row with more entries counts as dense."""
    return max(16.0, 4 * math.sqrt(size))
