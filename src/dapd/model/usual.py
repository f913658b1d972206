"""Usual sizes of x and y, which follow from the data: they scale as x and y do if units are changed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dapd.arrays import Array
from dapd.model.problem import Problem

SWEEPS = 10  # of scaling, each of which leaves the root of how uneven rows and columns are
EVEN = 2.0  # ratio of the sums of rows, and of columns, up to which no other sweep is worth its time
ROUNDED = 1e-13  # of the greatest datum, below which one may be rounding


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
    found: Usual | None = problem.memory.get("usual")
    if found is None:
        with np.errstate(all="ignore"):
            found = problem.memory["usual"] = _usual(problem)
    return found


def _usual(problem: Problem) -> Usual:
    r, c, held, known = _factors(problem)
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


def _factors(problem: Problem) -> tuple[Array, Array, Array, Array]:
    """The factors r and c, and for which rows and columns M says what they are."""
    M = problem.M
    r, c = np.ones(problem.rows), np.ones(problem.columns)
    if not problem.rows:
        return r, c, np.zeros(0, bool), np.zeros(problem.columns, bool)
    heights, widths = M.row_sizes(c), M.column_sizes(r)
    if heights is None or widths is None:  # M only has products
        norms = M.row_norms
        return 1 / np.where(norms > 0, norms, 1.0), c, norms > 0, np.ones(problem.columns, bool)
    held, known = heights > 0, widths > 0
    for _ in range(SWEEPS):
        even = _ratio(r * heights) <= EVEN and _ratio(c * widths) <= EVEN
        r, c = r * _damped(r * heights), c * _damped(c * widths)
        if even:
            break
        heights, widths = (np.asarray(some, np.float64) for some in (M.row_sizes(c), M.column_sizes(r)))
    return r, c, held, known


def _ratio(sizes: Array) -> float:
    """The greatest over the least that is not zero."""
    some = sizes[sizes > 0]
    return float(some.max() / some.min()) if some.size else 1.0


def _damped(sizes: Array) -> Array:
    return 1.0 / np.sqrt(np.where(sizes > 0, sizes, 1.0))


def _mean(*data: Array) -> float:
    """The geometric mean of the data that are not zero, infinite or rounding; 0 if there are none."""
    sizes = abs(np.concatenate([some.ravel() for some in data]))
    sizes = sizes[np.isfinite(sizes)]
    sizes = sizes[sizes > ROUNDED * sizes.max(initial=0.0)]
    return float(np.exp(np.mean(np.log(sizes)))) if sizes.size else 0.0
