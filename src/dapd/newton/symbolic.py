"""What a sparse LDLᵀ factorisation would cost, before any of it is computed."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from dapd.core import load
from dapd.newton.ordering import MinimumDegree, envelope

SLOW = 3_000  # unknowns for which the ordering in plain Python takes about a second


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
        upper bounds; without the native core, so they are for more than 3,000 unknowns (from a band ordering).
    """
    pattern = matrix if sp.issparse(matrix) and matrix.format in ("csr", "csc") else sp.csr_array(matrix)
    if pattern.shape[0] != pattern.shape[1]:
        raise ValueError(f"matrix must be square, found shape {pattern.shape}")
    indptr, indices = pattern.indptr.astype(np.int64), pattern.indices.astype(np.int32)
    core = load()
    if core is None and len(indptr) > SLOW:
        fill, flops = envelope(indptr, indices)
        return Cost(fill, flops, fill <= fill_limit and flops <= limit)
    if core is None:
        return Cost(*MinimumDegree(indptr, indices).run(fill_limit, limit))
    return Cost(*core.symbolic_cost(indptr, indices, fill_limit, limit))
