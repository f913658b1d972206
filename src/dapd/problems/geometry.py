"""Points, polyhedra and distances."""

from __future__ import annotations

from typing import Any

import numpy as np

from dapd import GroupBall, Identity, Kronecker, LeastSquares, NonNegative, Problem, Quadratic
from dapd.arguments import named, numbers, real, vector
from dapd.operators.explicit import Dense
from dapd.operators.sizes import norms_of_rows
from dapd.problems.quadratic import between


@named
def projection(point: Any, C: Any = None, l: Any = None, u: Any = None, *, bounds: Any = None) -> Problem:  # noqa: E741
    """½‖x − point‖² subject to l ≤ Cx ≤ u and to bounds on x: the nearest point of a polyhedron.

    Parameters
    ----------
    point : vector
    C, l, u, bounds : optional
        As in `ridge`.
    """
    point = vector("point", point)
    return Problem(LeastSquares(Identity(len(point)), point), *between(C, l, u, len(point)), bounds=bounds)


@named
def chebyshev_centre(C: Any, u: Any) -> Problem:
    """−r subject to Cx + r·‖C_i‖₂ ≤ u in each row i: the centre of the largest ball inside the polyhedron Cx ≤ u.

    The variables are (x, r): x is `result.x[:-1]` and r, the radius, `result.x[-1]`. Without a ball the problem is
    infeasible; if balls of any size fit, it is unbounded.
    """
    C = real("C", C)
    if C.ndim != 2:
        raise ValueError(f"C must be a matrix, found shape {C.shape}")
    n = C.shape[1]
    f = Quadratic(None, np.append(np.zeros(n), 1.0))
    lower = np.append(np.full(n, -np.inf), 0.0)
    M = np.column_stack([C, norms_of_rows(C)])
    return Problem(f, Dense(M), vector("u", u, len(C)), NonNegative(), bounds=(lower, None))


@named
def geometric_median(points: Any, *, weights: Any = 1.0) -> Problem:
    """Σᵢ weightᵢ·‖x − pointᵢ‖₂: a centre that far points do not pull away.

    Parameters
    ----------
    points : array, one row per point
    weights : float or vector of positive numbers
    """
    points = real("points", points)
    if points.ndim != 2:
        raise ValueError(f"points must be an array with one row per point, found shape {points.shape}")
    count, size = points.shape
    M = Kronecker(np.ones((count, 1)), size)
    return Problem(Quadratic(np.zeros(size)), M, points.ravel(), GroupBall(numbers("weights", weights), size))
