"""Multipliers that show that rows contradict each other, by nonnegative least squares, for problems that are small."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.optimize import nnls

from dapd.arrays import Array
from dapd.second_order.matrices import Matrix
from dapd.second_order.rows import Rows

MOST = 1 << 18  # entries of M


def contradiction(M: Matrix, b: Array, rows: Rows) -> Array | None:
    """The d that minimises ‖Mᵀd‖² + (1 + bᵀd + φ∞(d))²: a Farkas ray if that is 0; None if M is too large.

    With d split into rows that push up and rows that push down, φ∞ is linear, so this is a least-squares problem in
    nonnegative variables (Lawson & Hanson 1974, ch. 23). Rows in groups take no part.
    """
    if M.shape[0] * M.shape[1] > MOST:
        return None
    alone = np.ones(M.shape[0], bool)
    alone[rows.grouped] = False
    up = np.flatnonzero(alone & (rows.most == np.inf) & (rows.upper < np.inf))
    down = np.flatnonzero(alone & (rows.least == -np.inf) & (rows.lower > -np.inf))
    dense = M.toarray() if sp.issparse(M) else M
    gains = np.concatenate([-(b + rows.upper)[up], (b + rows.lower)[down]])
    system = np.vstack([np.concatenate([dense[up], -dense[down]]).T, gains])
    lengths = np.linalg.norm(system, axis=0)
    kept = np.flatnonzero(lengths)
    if not kept.size:
        return None
    try:
        t = np.zeros(lengths.size)
        t[kept] = nnls(system[:, kept] / lengths[kept], np.append(np.zeros(M.shape[1]), 1.0))[0] / lengths[kept]
    except RuntimeError:  # too many iterations
        return None
    d = np.zeros(M.shape[0])
    d[up] += t[: up.size]
    d[down] -= t[up.size :]
    return d
