"""Which linear algebra solves the Newton systems of a problem fastest."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from dapd.second_order.matrices import Split
from dapd.second_order.systems import Dual, Normal, Sparse, System
from dapd.second_order.weights import Groups

DENSE_RATE, SPARSE_RATE = 1e10, 7e8  # operations per second of a dense and a sparse factorisation
MEMORY = 2e8  # entries of a dense matrix
OVERHEAD = 3e-4  # seconds


def choose_system(P: Any, rows: Split, groups: Groups, seconds: float) -> System:
    """The fastest system of the three, if a factorisation is expected to take at most so long."""
    matrix = rows.matrix
    n, k = matrix.shape[1], matrix.shape[0]
    costs: dict[type[Normal] | type[Dual] | type[Sparse], float] = {}
    gram, outer = _products(matrix)
    if n * n <= MEMORY:
        costs[Normal] = (n**3 / 3 + gram) / DENSE_RATE
    if P.ndim == 1 and k * k <= MEMORY:
        costs[Dual] = (k**3 / 3 + outer) / DENSE_RATE
    if sp.issparse(matrix) and (P.ndim == 1 or sp.issparse(P)):
        costs[Sparse] = OVERHEAD + (n + k + matrix.nnz) * 1e-7 + (1e3 if groups.rows.size > 50 * max(1,groups.starts.size) else 0)
    kind = min(costs, key=lambda one: costs[one])
    return kind(P, rows, groups)


def _products(matrix: Any) -> tuple[float, float]:
    """Multiplications of BᵀB and of BBᵀ."""
    k, n = matrix.shape
    if not sp.issparse(matrix):
        return float(n) * n * k, float(k) * k * n
    by_row, by_column = np.diff(matrix.indptr).astype(float), np.bincount(matrix.indices, minlength=n).astype(float)
    return 20.0 * float(by_row @ by_row), 20.0 * float(by_column @ by_column)  # sparse products are slower
