"""Usual sizes of x and y, which follow from the data: they scale as x and y do if units are changed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dapd.arrays import Array
from dapd.operators.factors import balancing
from dapd.problem.problem import Problem
from dapd.problem.units import ROUNDING


class Usual(NamedTuple):
    """A typical x_j is ξ·c_j and a typical y_i is η·r_i."""

    rows: Array  # r_i, such that rows and columns of r_i|M_ij|c_j are alike; of a row of zeros, what b says
    columns: Array  # c_j; of a column of zeros, what f says
    xi: float
    eta: float

    def x(self, problem: Problem) -> Array:
        """The usual size of each x_j, at least the distance of its bounds from 0."""
        sizes = self.xi * self.columns
        if problem.lower is None or problem.upper is None:
            return sizes
        return np.maximum(sizes, abs(np.clip(0.0, problem.lower, problem.upper)))


def usual(problem: Problem) -> Usual:
    """The usual sizes of a problem without its bounds as rows; computed once."""
    with np.errstate(all="ignore"):
        return problem.memory.once(usual, None, lambda: _usual(problem))


def _usual(problem: Problem) -> Usual:
    r, c = balancing(problem.M)
    held, known = r > 0, c > 0
    r, c = np.where(held, r, 1.0), np.where(known, c, 1.0)
    slopes, curvature = problem.slopes, problem.curvature
    ends, radii = problem.phi.ends(problem.rows)
    bounds = [side / c for side in (problem.lower, problem.upper) if side is not None]
    b = problem.b.astype(np.float64)
    xi = _mean((b * r)[held], (ends * r)[held], *bounds) or _mean(slopes / (curvature * c)) or 1.0
    eta = _mean((slopes * c)[known], radii / r) or _mean((curvature * c * c)[known]) * xi or 1.0
    of_f = np.where(slopes > 0, eta / slopes, np.sqrt(eta / (xi * curvature)))
    r = np.where(held | (b == 0), r, xi / abs(b))
    c = np.where(known | ~(np.isfinite(of_f) & (of_f > 0)), c, of_f)
    return Usual(r, c, xi, eta)


def _mean(*data: Array) -> float:
    """The geometric mean of the data that are not zero, infinite or rounding; 0 if there are none."""
    sizes = abs(np.concatenate([some.ravel() for some in data]))
    sizes = sizes[np.isfinite(sizes)]
    sizes = sizes[sizes > ROUNDING * sizes.max(initial=0.0)]
    return float(np.exp(np.mean(np.log(sizes)))) if sizes.size else 0.0
