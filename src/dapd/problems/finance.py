"""Portfolios."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from dapd.arguments import named, number, numbers, vector
from dapd.functions import Quadratic
from dapd.kinds.by_rows import Box, Zero
from dapd.kinds.composed import Stack
from dapd.operators.blocks import RowBlocks
from dapd.operators.structured import Identity
from dapd.problem.problem import Problem
from dapd.problems.rows import as_csr


@named
def portfolio(
    mean: Any,
    factors: Any,
    specific: Any,
    *,
    aversion: float = 1.0,
    budget: float = 1.0,
    bounds: Any = (0.0, None),
    previous: Any = None,
    trading_cost: Any = 0.0,
) -> Problem:
    """(aversion/2)·xᵀΣx − meanᵀx + trading_cost·‖x − previous‖₁ subject to Σxᵢ = budget and to bounds on x.

    The covariance is Σ = FFᵀ + diag(specific), which is never formed: the variables are (x, e) with e = Fᵀx the
    exposures to the factors. x, the portfolio, is the first part of `result.x`, one entry per asset. The multiplier of
    the budget is `result.y[0]`.

    Parameters
    ----------
    mean : vector, one entry per asset
        Expected returns.
    factors : matrix, assets × factors, dense or sparse
        F, scaled so the factors are uncorrelated with variance 1.
    specific : vector of positive numbers, one entry per asset
        The variances that the factors do not explain.
    aversion : float
    budget : float
    bounds : pair (lower, upper)
        On x: numbers, or one entry per asset. No short positions by default.
    previous : vector, optional
        The portfolio that one has; zero by default.
    trading_cost : float or vector
        Per unit bought or sold.
    """
    mean = vector("mean", mean)
    n = len(mean)
    specific = vector("specific", specific, n)
    if np.any(specific < 0):
        raise ValueError("specific holds variances, which must be >= 0; some entry is not")
    F = as_csr("factors", factors)
    if F.shape[0] != n:
        raise ValueError(f"factors has {F.shape[0]} rows for {n} assets; give one row per asset")
    k = F.shape[1]
    aversion = number("aversion", aversion, above=0.0)
    f = Quadratic(aversion * np.append(specific, np.ones(k)), np.append(mean, np.zeros(k)))
    M = sp.block_array([[np.ones((1, n)), None], [F.T, -sp.eye_array(k)]], format="csr")
    b = np.append(number("budget", budget), np.zeros(k))
    lower, upper = bounds
    limits = (_padded(lower, -np.inf, n, k), _padded(upper, np.inf, n, k))
    if not np.any(trading_cost):
        return Problem(f, M, b, bounds=limits)
    cost = numbers("trading_cost", trading_cost)
    if np.any(np.asarray(cost) < 0):
        raise ValueError("trading_cost must be >= 0; some entry is not")
    before = np.zeros(n) if previous is None else vector("previous", previous, n)
    phi = Stack([Zero(), Box.between(-cost, cost)], sizes=[k + 1, n])
    return Problem(f, RowBlocks([M, Identity(n + k, rows=n)]), np.append(b, before), phi, bounds=limits)


def _padded(limit: Any, absent: float, n: int, k: int) -> Any:
    """The limit on x, and none on the exposures."""
    given = np.asarray(absent if limit is None else numbers("bounds", limit))
    if given.ndim and given.size != n:
        raise ValueError(f"bounds has {given.size} entries for {n} assets; give a number, or one entry per asset")
    return np.append(np.broadcast_to(given, n), np.full(k, absent))
