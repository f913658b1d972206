"""Regression and classification: f measures Ax − d or margins, and x has a penalty or constraints."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from dapd import (
    L1,
    Box,
    Function,
    GroupBall,
    Identity,
    LeastSquares,
    Logistic,
    NonNegative,
    Problem,
    Quadratic,
    RowBlocks,
    Stack,
    Zero,
)
from dapd.arguments import named, number, numbers, renamed, vector
from dapd.arrays import Array
from dapd.operators.convert import as_operator, matrix_of
from dapd.problems.quadratic import as_csr, between


@named
def ridge(
    A: Any,
    d: Any,
    weight: float = 0.0,
    *,
    C: Any = None,
    l: Any = None,  # noqa: E741
    u: Any = None,
    bounds: Any = None,
) -> Problem:
    """½‖Ax − d‖² + (weight/2)‖x‖² subject to l ≤ Cx ≤ u and to bounds on x: least squares with linear constraints.

    Parameters
    ----------
    A : matrix of any kind that a coupling may have
    d : vector, one entry for each row of A
    weight : float
    C : matrix, optional
    l, u : number or vector, optional
        Limits on Cx; infinite or None if there is none, equal for an equation.
    bounds : pair (lower, upper), optional
        As in `Problem`.
    """
    f = LeastSquares(A, d, weight)
    return Problem(f, *between(C, l, u, f.size), bounds=bounds)


@named
def nnls(A: Any, d: Any, weight: float = 0.0) -> Problem:
    """½‖Ax − d‖² + (weight/2)‖x‖² subject to x ≥ 0: nonnegative least squares."""
    return ridge(A, d, weight, bounds=(0.0, None))


@named
def lasso(A: Any, d: Any, weight: Any) -> Problem:
    """½‖Ax − d‖² + weight·‖x‖₁.

    Parameters
    ----------
    A : matrix of any kind that a coupling may have
    d : vector, one entry for each row of A
    weight : float or vector
        One for all entries of x, or one each; 0 for an entry without penalty, such as an intercept.
    """
    with renamed(l1="weight"):
        return elastic_net(A, d, weight, 0.0)


@named
def elastic_net(A: Any, d: Any, l1: Any, l2: float) -> Problem:
    """½‖Ax − d‖² + l1·‖x‖₁ + (l2/2)‖x‖².

    Parameters
    ----------
    A : matrix of any kind that a coupling may have
    d : vector, one entry for each row of A
    l1 : float or vector
        One for all entries of x, or one each.
    l2 : float
    """
    with renamed(ridge="l2"):
        f = LeastSquares(A, d, l2)
    return _absolute(f, numbers("l1", l1))


@named
def group_lasso(A: Any, d: Any, weight: Any, groups: int | list[slice]) -> Problem:
    """½‖Ax − d‖² + Σ_g weight·‖x_g‖₂.

    Parameters
    ----------
    A : matrix of any kind that a coupling may have
    d : vector, one entry for each row of A
    weight : float or vector
        One for all groups, or one each; a common choice is a constant times the root of the size of the group.
    groups : int or list of slices
        The size of consecutive equal groups, or the groups themselves (consecutive, covering all of x).
    """
    f = LeastSquares(A, d)
    n = f.size or 0
    return Problem(f, Identity(n), np.zeros(n), GroupBall(weight, groups))


@named
def logistic(
    A: Any,
    labels: Any,
    weight: float = 0.0,
    *,
    l1: Any = None,
    bounds: Any = None,
    C: Any = None,
    l: Any = None,  # noqa: E741
    u: Any = None,
) -> Problem:
    """Σᵢ log(1 + exp(−labelᵢ·aᵢᵀx)) + (weight/2)‖x‖² [+ l1·‖x‖₁] subject to l ≤ Cx ≤ u and to bounds on x.

    Parameters
    ----------
    A : matrix of any kind that a coupling may have
        For an intercept, append a column of ones.
    labels : vector of +1 and −1
    weight : float
        Without a penalty, labels that can be separated have no finite solution.
    l1 : float or vector, optional
        Weight of ‖x‖₁; it cannot be combined with C.
    bounds, C, l, u : optional
        As in `ridge`.
    """
    f = Logistic(A, labels, weight)
    if l1 is None:
        return Problem(f, *between(C, l, u, f.size), bounds=bounds)
    if C is not None:
        raise ValueError("l1 and C are both given; write the problem with RowBlocks and Stack, or leave one out")
    return _absolute(f, numbers("l1", l1), bounds)


@named
def least_absolute_deviations(A: Any, d: Any, weight: float = 0.0) -> Problem:
    """‖Ax − d‖₁ + (weight/2)‖x‖²: regression that a few wrong entries of d do not disturb."""
    return _with_slopes(A, d, -1.0, 1.0, weight)


@named
def quantile(A: Any, d: Any, level: float = 0.5, weight: float = 0.0) -> Problem:
    """Σᵢ ρ(dᵢ − aᵢᵀx) + (weight/2)‖x‖² with ρ(r) = level·r if r ≥ 0, else (level − 1)·r: quantile regression.

    Parameters
    ----------
    A : matrix of any kind that a coupling may have
        For an intercept, append a column of ones.
    d : vector, one entry for each row of A
    level : float
        Between 0 and 1: the part of the entries of d that should lie below Ax.
    weight : float
    """
    if not 0.0 < number("level", level) < 1.0:
        raise ValueError(f"level must be between 0 and 1, found {level:g}")
    return _with_slopes(A, d, -level, 1.0 - level, weight)


@named
def huber(A: Any, d: Any, delta: float = 1.0, weight: float = 0.0) -> Problem:
    """Σᵢ h(aᵢᵀx − dᵢ) + (weight/2)‖x‖², with h(r) = ½r² if |r| ≤ delta, else delta·|r| − ½delta².

    The variables are (x, v) with h(r) = min_v ½v² + delta·|r − v|: x is the first part of `result.x`, one entry for
    each column of A, and v are the residuals without the outliers.
    """
    matrix = as_csr("A", A)
    m, n = matrix.shape
    delta, weight = number("delta", delta, above=0.0), number("weight", weight, least=0.0)
    f = Quadratic(np.append(np.full(n, weight), np.ones(m)))
    M = sp.hstack([matrix, -sp.eye_array(m)], format="csr")
    return Problem(f, M, vector("d", d, m), Box.between(-delta, delta))


@named
def chebyshev_fit(A: Any, d: Any) -> Problem:
    """‖Ax − d‖_∞, the worst residual.

    The variables are (x, t): minimise t subject to −t ≤ Ax − d ≤ t. x is the first part of `result.x`, one entry for
    each column of A, and t, the worst residual, its last entry.
    """
    matrix = as_csr("A", A)
    m, n = matrix.shape
    d = vector("d", d, m)
    one = -np.ones((m, 1))
    M = sp.block_array([[matrix, one], [-matrix, one]], format="csr")
    return Problem(Quadratic(None, np.append(np.zeros(n), -1.0)), M, np.concatenate([d, -d]), NonNegative())


@named
def basis_pursuit(A: Any, b: Any, *, noise: Any = 0.0, weight: float = 0.0) -> Problem:
    """‖x‖₁ + (weight/2)‖x‖² subject to |Ax − b| ≤ noise, row by row (Ax = b if noise is 0).

    Parameters
    ----------
    A : matrix of any kind that a coupling may have
    b : vector, one entry for each row of A
    noise : float or vector
        One for all rows, or one each.
    weight : float
        A little of it makes the solution unique and the solve faster.
    """
    operator = as_operator(A, name="A")
    m, n = operator.shape
    f = Quadratic(np.full(n, number("weight", weight, least=0.0)))
    with renamed(nu="noise"):
        rows = Zero() if not np.any(noise) else L1(noise)
    phi = Stack([rows, Box(-1.0, 1.0)], sizes=[m, n])
    return Problem(f, RowBlocks([operator, Identity(n)]), np.concatenate([vector("b", b, m), np.zeros(n)]), phi)


@named
def svm(A: Any, labels: Any, penalty: Any = 1.0, *, intercept: bool = False) -> Problem:
    """½‖x‖² + penalty·Σᵢ max(0, 1 − labelᵢ·aᵢᵀx): the linear support vector machine.

    Parameters
    ----------
    A : matrix, dense or sparse, one row per sample
    labels : vector of +1 and −1
    penalty : float or vector
        One for all samples, or one each.
    intercept : bool
        Whether the plane need not go through the origin: aᵢᵀx + c instead of aᵢᵀx, with c the last entry of `result.x`.
    """
    matrix = as_csr("A", A) if sp.issparse(A) else matrix_of("A", A)
    m, n = matrix.shape
    labels = vector("labels", labels, m)
    if not np.all(np.abs(labels) == 1):
        raise ValueError(f"labels must be +1 or -1, found {np.unique(labels)[:5]}")
    penalty = numbers("penalty", penalty)
    if np.any(np.asarray(penalty) <= 0):
        raise ValueError("penalty must be > 0; some entry is not")
    offset = -labels[:, None]
    if sp.issparse(A):
        M = sp.diags_array(-labels) @ matrix
        M = sp.hstack([M, offset], format="csr") if intercept else M
    else:
        M = offset * matrix
        M = np.hstack([M, offset]) if intercept else M
    curvature = np.append(np.ones(n), 0.0) if intercept else np.ones(n)
    return Problem(Quadratic(curvature), M, -np.ones(m), Box.between(0.0, penalty))


def _absolute(f: Function, weight: float | Array, bounds: Any = None) -> Problem:
    """F + weight·‖x‖₁."""
    n = f.size or 0
    if np.any(np.asarray(weight) < 0):
        raise ValueError("the weight of ‖x‖₁ must be >= 0; some entry is not")
    return Problem(f, Identity(n), np.zeros(n), Box.between(-weight, weight), bounds=bounds)


def _with_slopes(A: Any, d: Any, lower: float, upper: float, weight: float) -> Problem:
    """Σ of the hinges with these slopes at Ax − d, and a ridge."""
    operator = as_operator(A, name="A")
    n = operator.shape[1]
    return Problem(Quadratic(np.full(n, number("weight", weight, least=0.0))), operator, d, Box(lower, upper))
