"""Portfolios."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from dapd import Box, Identity, Problem, Quadratic, RowBlocks, Stack, Zero
from dapd.arguments import named, number, numbers, vector
from dapd.problems.quadratic import as_csr, full


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
    wanted = f" for {n} assets; give a number, or one entry per asset"
    lower, upper = (full("bounds", *end, n, wanted) for end in zip(bounds, (-np.inf, np.inf), strict=True))
    limits = np.append(lower, np.full(k, -np.inf)), np.append(upper, np.full(k, np.inf))
    if not np.any(trading_cost):
        return Problem(f, M, b, bounds=limits)
    cost = numbers("trading_cost", trading_cost)
    if np.any(np.asarray(cost) < 0):
        raise ValueError("trading_cost must be >= 0; some entry is not")
    before = np.zeros(n) if previous is None else vector("previous", previous, n)
    phi = Stack([Zero(), Box.between(-cost, cost)], sizes=[k + 1, n])
    return Problem(f, RowBlocks([M, Identity(n + k, rows=n)]), np.append(b, before), phi, bounds=limits)
