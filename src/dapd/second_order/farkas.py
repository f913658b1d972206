"""Multipliers that show that rows contradict each other, by nonnegative least squares, for problems that are small."""

from __future__ import annotations

import math

import numpy as np
import scipy.sparse as sp

from dapd.arrays import Array
from dapd.model.lowered import has_valid_lowering, pieces_of
from dapd.model.problem import Problem
from dapd.second_order.matrices import NotExplicit, TooExpensive, explicit
from dapd.second_order.rows import ProxRows

DENSE_ENTRIES = 1 << 19  # entries of M, with the rows of bounds
OPERATION = 1e-9  # seconds per entry of M, times a row or column
ACTIVE_SET_STEPS = 500  # of the active-set method
PRODUCT_SECONDS = 0.1  # seconds that products may take, if they are needed to find the entries of M


def seconds(problem: Problem) -> float:
    """About how long `contradiction` takes; inf if the problem is too large, or φ is only available in Python."""
    rows, columns = problem.rows, problem.columns
    if rows * columns > DENSE_ENTRIES or not has_valid_lowering(problem.phi, "prox"):
        return math.inf
    return OPERATION * rows * columns * (rows + columns)


def contradiction(problem: Problem) -> Array | None:
    """The d that minimises ‖Mᵀd‖² + (1 + bᵀd + φ∞(d))²: a Farkas ray if that is 0; None if it cannot be found.

    With d split into rows that push up and rows that push down, φ∞ is linear, so this is a least-squares problem in
    nonnegative variables (Lawson & Hanson 1974, ch. 23). Rows in groups take no part. Columns of M have length 1 first.
    """
    from scipy.optimize import nnls  # slow to import, and rarely needed

    pieces = pieces_of(problem.phi, problem.rows)
    if pieces is None:
        return None
    try:
        M = explicit(problem.M, PRODUCT_SECONDS)
        rows = ProxRows(pieces)
    except (NotExplicit, TooExpensive, TypeError, ValueError):
        return None
    b = problem.b.astype(np.float64)
    dense = M.toarray() if sp.issparse(M) else M
    alone = np.ones(problem.rows, bool)
    alone[rows.grouped] = False
    up = np.flatnonzero(alone & (rows.most == np.inf) & (rows.upper < np.inf))
    down = np.flatnonzero(alone & (rows.least == -np.inf) & (rows.lower > -np.inf))
    pull = np.concatenate([dense[up], -dense[down]]).T
    gains = np.concatenate([-(b + rows.upper)[up], (b + rows.lower)[down]])
    lengths = np.hypot(np.linalg.norm(pull, axis=0), abs(gains))
    kept = np.flatnonzero(lengths)
    if not kept.size:
        return None
    pull, gains = pull[:, kept] / lengths[kept], gains[kept] / lengths[kept]
    heights = np.linalg.norm(pull, axis=1)
    pull = pull[heights > 0] / heights[heights > 0][:, None]
    t = np.zeros(lengths.size)
    try:
        found, _ = nnls(np.vstack([pull, gains]), np.append(np.zeros(len(pull)), 1.0), maxiter=ACTIVE_SET_STEPS)
    except RuntimeError:  # too many iterations
        return None
    t[kept] = found / lengths[kept]
    d = np.zeros(problem.rows)
    d[up] += t[: up.size]
    d[down] -= t[up.size :]
    return d
