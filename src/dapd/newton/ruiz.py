"""Factors that bring the rows and columns of [P Aᵀ Mᵀ; A 0 0; M 0 0] to entries of about 1 (Ruiz)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from dapd.arrays import Array
from dapd.kinds.table import Table
from dapd.newton.curvature import Curvature
from dapd.operators.factors import Entries, damped

ROUNDS, FEW_ROUNDS = 10, 3  # rounds of scaling for sparse matrices, and if one is dense


class Factors(NamedTuple):
    """x = columns·x̂, y = rows·ŷ/cost: the scaled problem is in x̂ and ŷ, and its f is `cost` times as large."""

    columns: Array
    rows: Array
    cost: float


def ruiz(f: Curvature, M: Any, rows: Table) -> Factors:
    """The factors for f and M; rows of a group get one factor."""
    P, coupling, losses = Entries(sp.diags_array(f.P).tocsr() if f.P.ndim == 1 else f.P), Entries(M), Entries(f.A)
    d, e, ones = np.ones(f.size), np.ones(M.shape[0]), np.ones(f.rows)
    for _ in range(ROUNDS if coupling.sparse and P.sparse else FEW_ROUNDS):
        heights, widths = coupling.peaks(e, d)
        widths = np.maximum(np.maximum(widths, P.peaks(d, d)[1]), losses.peaks(ones, d)[1])
        d, e = d * damped(widths), rows.averaged(e * damped(heights))
    start = f.gradient(np.zeros(f.size), np.zeros(f.rows))
    curvature = P.peaks(d, d)[1]
    if f.rows:
        squares = f.A.power(2).T if losses.sparse else f.A.T**2
        curvature = curvature + d * d * (squares @ f.curvatures(np.zeros(f.rows)))
    size = max(float(np.mean(curvature)), float(abs(d * start).max(initial=0.0)))
    return Factors(d, e, 1.0 / size if size > 0 else 1.0)
