"""Which linear algebra solves the Newton systems of a problem fastest."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from dapd.second_order.matrices import Split, TooExpensive
from dapd.second_order.pattern import Pattern, joined
from dapd.second_order.slacks import slacks_of
from dapd.second_order.symbolic import cost
from dapd.second_order.systems import Dual, Normal, Sparse
from dapd.second_order.weights import Groups

DENSE_RATE, SPARSE_RATE = 1e10, 1e9  # operations per second of a dense and of a sparse factorisation
SPARSE_PRODUCT, DENSE_PRODUCT = 30.0, 0.5  # what a multiplication counts in products of sparse and of dense matrices
ENTRY = 2e-8  # seconds per entry of a sparse factor
MEMORY = 2e8  # entries of a dense matrix
OVERHEAD = 6e-4  # seconds that a step takes beside its factorisation
GROWTH = 4  # times as many entries, at most, if the rows of groups get a common pattern


Kind = type[Normal] | type[Dual] | type[Sparse]


def choose_system(P: Any, rows: Split, groups: Groups, seconds: float) -> tuple[Kind, float]:
    """The fastest kind of system, and the seconds that its factorisation takes; raise if they are more than allowed."""
    inside = groups._replace(rows=np.searchsorted(rows.general, groups.rows))
    slacks = slacks_of(P, rows.matrix, inside.rows)
    P, matrix = slacks.P, slacks.matrix
    k, n = matrix.shape
    costs: dict[Kind, float] = {}
    gram, outer = _products(matrix)
    if n * n <= MEMORY:
        costs[Normal] = OVERHEAD + (n**3 / 3 + gram) / DENSE_RATE
    if P.ndim == 1 and k * k <= MEMORY:
        costs[Dual] = OVERHEAD + (k**3 / 3 + outer) / DENSE_RATE
    within = min([seconds, *costs.values()])
    dense = P.ndim == 2 and not sp.issparse(P)
    by_sparse = np.inf if dense else _sparse_cost(P, matrix, inside, within)
    if by_sparse <= within:
        costs[Sparse] = by_sparse
    kind = min(costs, key=lambda one: costs[one]) if costs else None
    if kind is None or costs[kind] > seconds:
        raise TooExpensive(f"a factorisation would take more than {seconds:.2g} s")
    return kind, costs[kind]


def _sparse_cost(P: Any, matrix: Any, groups: Groups, within: float) -> float:
    """Seconds of a sparse factorisation; inf if they are more than `within`."""
    matrix = sp.csr_array(matrix)
    if groups.owner.size:
        lengths, sizes = np.diff(matrix.indptr)[groups.rows], np.bincount(groups.owner)
        if float(sizes @ np.bincount(groups.owner, lengths)) > GROWTH * (matrix.nnz + 1):
            return np.inf
        matrix = joined(matrix, groups)
    if (matrix.nnz + (P.nnz if sp.issparse(P) else P.size)) * ENTRY > within:
        return np.inf
    found = cost(Pattern(P, matrix).matrix, within * SPARSE_RATE, fill_limit=within / ENTRY)
    return OVERHEAD + found.flops / SPARSE_RATE + found.fill * ENTRY if found.complete else np.inf


def _products(matrix: Any) -> tuple[float, float]:
    """Multiplications of BᵀB and of BBᵀ."""
    k, n = matrix.shape
    if not sp.issparse(matrix):
        return float(n) * n * k, float(k) * k * n
    by_row, by_column = np.diff(matrix.indptr).astype(float), np.bincount(matrix.indices, minlength=n).astype(float)
    gram = min(SPARSE_PRODUCT * float(by_row @ by_row), DENSE_PRODUCT * float(n) * n * k)
    return gram, SPARSE_PRODUCT * float(by_column @ by_column)
