"""What the data contribute to the sizes that residuals are measured against, and the bounds as points are held to them.

Of several problems with the same M, all arrays have a row for each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dapd.arrays import Array, namespace
from dapd.operators.factors import balancing
from dapd.problem.units import ROUNDING, Units, ratio

if TYPE_CHECKING:
    from dapd.problem.problem import Problem

THETA = 1e-3  # part of the typical size that is added to the terms of a row or a column
FARTHEST = 30.0  # greatest ratio of the terms of the objective and what the data say of them
NEXT = 1e-3  # distance from a bound, relative to the typical size of x_j, up to which x_j is next to it


class Sizes(NamedTuple):
    """The part of the sizes of `certify` that does not depend on the point."""

    rows: Array  # |b_i| + θ·(typical term of row i)
    duals: Array  # θ·(typical y_i)
    columns: Array  # |∇f_j(0)| + θ·(typical term of ∇f_j + (Mᵀy)_j)
    slopes: Array  # |∇f_j(0)|
    objective: Array  # θ·(typical term of the objective), a number
    most: Array  # what terms of the objective count at most in all, a number: a point is not optimal for being far out
    curvature: Array  # of f, with which rounding grows far out; 0 where it is not known


class Limits(NamedTuple):
    """The bounds on x, and what is next to them."""

    lower: Array  # in float64
    upper: Array
    inner_lower: Array  # the same in the precision of the problem, rounded inwards
    inner_upper: Array
    next_lower: Array  # distances from the bounds that are next to them
    next_upper: Array
    ratio: Array  # typical x_j per typical slope
    primal: Array  # θ·(typical x_j)


def sizes_of(b: Array, slopes: Array, curvature: Array, bounds: tuple[Array, Array], units: Units) -> Sizes:
    """The sizes, for |∇f(0)| = slopes and the curvature of f, 0 where that is not known."""
    xp = namespace(units.x)
    reach = xp.minimum(ratio(slopes, curvature), xp.maximum(*map(abs, bounds)))  # how far x_j goes for f alone
    terms = xp.sum(units.columns * units.x + slopes * reach, axis=-1) + xp.sum(units.y * units.rows, axis=-1)
    return Sizes(
        rows=abs(b.astype(np.float64)) + THETA * units.rows,
        duals=THETA * units.y,
        columns=slopes + THETA * units.columns,
        slopes=slopes,
        objective=THETA * units.objective,
        most=FARTHEST * terms,
        curvature=curvature,
    )


def limits_of(lower: Array, upper: Array, units: Units, dtype: np.dtype[Any]) -> Limits:
    """The bounds of a problem of this precision. Where no number of it lies between them, the nearest ones serve."""
    low, high, xp = lower.astype(dtype), upper.astype(dtype), namespace(units.x)
    up = xp.where(low < lower, xp.nextafter(low, dtype.type(np.inf)), low)
    down = xp.where(high > upper, xp.nextafter(high, dtype.type(-np.inf)), high)
    near = [NEXT * (units.x + xp.where(xp.isfinite(side), abs(side), 0.0)) for side in (lower, upper)]
    return Limits(
        lower=lower,
        upper=upper,
        inner_lower=xp.where(up <= down, up, low),
        inner_upper=xp.where(up <= down, down, high),
        next_lower=near[0].astype(dtype),
        next_upper=near[1].astype(dtype),
        ratio=(units.x / units.columns).astype(dtype),
        primal=THETA * units.x,
    )


def within_bounds(limits: Limits, x: Array, z: Array | None) -> Array:
    """The point between the bounds that is nearest to x, to the last bit of x's own precision.

    An x_j that is next to a bound is at it if its multiplier z_j says so: if that is a greater part of what is typical
    than the distance.
    """
    xp, lower, upper = namespace(x), limits.inner_lower, limits.inner_upper
    if z is not None:
        pushed = x + limits.ratio * z
        at_lower = (x - lower <= limits.next_lower) & (pushed <= lower)
        at_upper = (upper - x <= limits.next_upper) & (pushed >= upper)
        x = xp.where(at_lower, lower, xp.where(at_upper, upper, x))
    return xp.minimum(xp.maximum(x, lower), upper)


def multipliers_of_bounds(x: Array, slopes: Array, lower: Array, upper: Array) -> tuple[Array, Array]:
    """The multipliers z of the bounds that stationarity asks for, ∇f + Mᵀy + z = 0, and the bound that each is of.

    z_j = −(∇f + Mᵀy)_j if that is the sign of a bound that is there and no farther from x_j than x_j from zero; else
    z_j = 0, and the slope counts as it is. A far bound must not make every slope that is near zero a large gap.
    """
    xp = namespace(x)
    end = xp.where(slopes > 0, lower, upper)
    takes = (slopes != 0) & (abs(x - end) <= abs(x))
    return xp.where(takes, -slopes, 0.0), xp.where(takes, end, 0.0)


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
