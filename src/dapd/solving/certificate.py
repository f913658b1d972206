"""Optimality, measured in float64 at the point that is returned, independently of the method."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dapd.arrays import EPSILON, Array, namespace
from dapd.model import ask
from dapd.model.problem import Problem
from dapd.solving.distance import Evaluated, distance
from dapd.solving.sums import ColumnSums, RowSums, balanced_step, measure_columns, measure_rows
from dapd.spectrum.estimate import Spectrum


class Certificate(NamedTuple):
    """How far (x, y) is from optimal."""

    stationarity: float  # ‖∇f(x) + Mᵀy‖₂
    feasibility: float  # ‖y − prox_φ(y + Mx − b)‖₂
    gap: float  # |primal − dual objective|, see `certify`; nan if φ or φ* has no value
    stationarity_error: float  # the worst coordinate of ∇f(x) + Mᵀy, relative to its own size
    feasibility_error: float  # the worst row of Mx − b ∈ ∂φ(y), relative to its own size
    gap_error: float  # the gap, relative to the sizes of its terms
    primal: float  # distance of Mx − b from dom φ*, ∞-norm
    dual: float  # the greater of ‖∇f(x) + Mᵀy‖∞ and the distance of y from dom φ, ∞-norm
    distance: float  # a proven bound on ‖x − x*‖₂; inf if too little is known

    @property
    def error(self) -> float:
        """The greatest of the relative errors, which `tol` bounds; inf if a residual is not finite."""
        residuals = max(self.stationarity_error, self.feasibility_error)
        return residuals if math.isnan(self.gap_error) else max(residuals, self.gap_error)

    def excess(self, tol: float, tol_absolute: float) -> float:
        """How many times too large the certificate is for the tolerances, of which the easier counts.

        `tol` bounds `error`, and `tol_absolute` bounds `primal`, `dual` and `gap` (`feasibility` if the gap is
        unknown). A tolerance of 0 is no tolerance.
        """
        found = [math.inf]
        if tol > 0:
            found.append(self.error / tol)
        if tol_absolute > 0:
            parts = (self.primal, self.dual, self.feasibility if math.isnan(self.gap) else self.gap)
            found.append(max(parts) / tol_absolute if all(map(math.isfinite, parts)) else math.inf)
        return min(found)

    def meets(self, tol: float, tol_absolute: float) -> bool:
        """Whether error ≤ tol, or primal, dual and gap ≤ tol_absolute."""
        return self.excess(tol, tol_absolute) <= 1


def error_of(numbers: Array) -> Array:
    """`Certificate.error` of many certificates, whose numbers are along the last axis."""
    xp, gap = namespace(numbers), numbers[..., 5]
    residuals = xp.maximum(numbers[..., 3], numbers[..., 4])
    return xp.where(xp.isnan(gap), residuals, xp.maximum(residuals, gap))


def excess_of(numbers: Array, tol: float, tol_absolute: float) -> Array:
    """`Certificate.excess` of many certificates."""
    found = np.full(numbers.shape[:-1], np.inf)
    if tol > 0:
        found = error_of(numbers) / tol
    if tol_absolute > 0:
        feasibility, gap, primal, dual = (numbers[..., k] for k in (1, 2, 6, 7))
        worst = np.maximum(np.maximum(primal, dual), np.where(np.isnan(gap), feasibility, gap))
        found = np.fmin(found, np.where(np.isfinite(worst), worst, np.inf) / tol_absolute)
    return found


def certify(
    problem: Problem,
    x: Array,
    y: Array,
    z: Array | None = None,
    *,
    spectrum: Spectrum | None = None,
    with_distance: bool = True,
) -> Certificate:
    """Measure (x, y), or (x, y, z) if x has bounds; z is zero by default.

    Each coordinate and each row is judged by itself. With the sizes

        S_j = |∇f_j(0)| + |∇f_j(x)| + |(Mᵀy)_j| + u,    R_i = |b_i| + Σ_j|M_ij x_j| + ‖M_i‖₂,    Y_i = |y_i| + u/‖M_i‖₂,

    u = `Sizes.unit`, and p_i = prox_{s_iφ}(y + s(Mx − b))_i at the steps s_i = Y_i/R_i,
    `stationarity_error` is the greatest |∇f(x) + Mᵀy|_j / S_j and `feasibility_error` the greatest |y_i − p_i| / Y_i.
    An error of at most tol means that Mx − b, moved by at most tol·R_i, lies in ∂φ(p), that p_i is within tol·Y_i of
    y_i, and that ∇f(x) + Mᵀy is within tol·S_j of 0. The error stays the same if a row of M and b, or all data, is
    multiplied by a constant. The rows of a group of a GroupBall are measured together. A φ of the user's own takes one
    step s for all rows, so its rows are held to both |y_i − p_i| ≤ tol·Y_i and |y_i − p_i| ≤ tol·s·R_i.

    With r and q the points of dom φ* and dom φ nearest to Mx − b and y, and with f* at ∇f(x) instead of −Mᵀy,

        gap = |P − D| = |φ*(r) + φ(q) + bᵀq + xᵀ∇f(x)|,

    and `gap_error` is the gap relative to |φ*(r)| + |φ(q)| + Σ_i|b_i q_i| + Σ_j|x_j ∇f_j(x)| + u.

    `distance` needs μ > 0, and bounds on the singular values of M (`spectrum`; by default the problem's own, or those
    of an earlier estimate) unless dom φ is bounded. It is inf if it is not wanted.
    """
    if problem.lower is not None:
        y = np.concatenate([y, np.zeros(problem.columns) if z is None else z])
        spectrum = None if spectrum is None else problem.stacked_spectrum(spectrum)
        problem = problem.stacked
    x, y = x.astype(np.float64, copy=False), y.astype(np.float64, copy=False)
    grad = np.asarray(ask.gradient(problem.f, x), np.float64)
    Mx = problem.M.forward(x)
    rows = measure_rows(problem, x, y, Mx)
    columns = measure_columns(problem, x, grad, problem.M.adjoint(y))
    gap, gap_error = _gap(problem, rows, columns)
    bound = math.inf
    if with_distance:
        bound = distance(problem, Evaluated(x, y, grad, Mx - problem.b, columns.norm), spectrum)
    return Certificate(
        stationarity=columns.norm,
        feasibility=rows.feasibility,
        gap=gap,
        stationarity_error=columns.worst,
        feasibility_error=rows.error,
        gap_error=gap_error,
        primal=rows.primal,
        dual=max(columns.greatest, rows.dual),
        distance=bound,
    )


def _gap(problem: Problem, rows: RowSums, columns: ColumnSums) -> tuple[float, float]:
    """|P − D| with the rounding of its terms, and the same relative to them; nan if φ or φ* has no value."""
    gap = abs(rows.conjugate + rows.value + rows.product + columns.product)
    if not math.isfinite(gap):
        return math.nan, math.nan
    size = abs(rows.conjugate) + abs(rows.value) + rows.sizes + columns.sizes
    gap += EPSILON * size  # another order of summation would give another last digit
    return gap, gap / (size + problem.sizes.unit)


def blame(problem: Problem, x: Array, y: Array) -> None:
    """Raise an error that names what gives NaN or infinite numbers at (x, y), if there is such a thing."""
    x, y = x.astype(np.float64, copy=False), y.astype(np.float64, copy=False)
    where = f"returned NaN or infinite numbers at the {'start' if x.any() or y.any() else 'start, x = 0 and y = 0'}"
    if not np.isfinite(ask.gradient(problem.f, x)).all():
        raise ValueError(f"f.grad {where}; check f with dapd.testing.check_gradient")
    Mx = problem.M.forward(x)
    if not (np.isfinite(Mx).all() and np.isfinite(problem.M.adjoint(y)).all()):
        raise ValueError(f"a product with M or its transpose {where}; check M with dapd.testing.check_adjoint")
    if not np.isfinite(ask.prox(problem.phi, y + Mx - problem.b, 1.0)).all():
        raise ValueError(f"phi.prox {where}; check φ with dapd.testing.check_prox")


def objective(problem: Problem, x: Array, y: Array, satisfied: bool) -> float:
    """f(x) + φ*(Mx − b); if the residual counts as `satisfied`, at the nearest point at which φ* is finite."""
    x, y = x.astype(np.float64, copy=False), y.astype(np.float64, copy=False)
    Mx = problem.M.forward(x)
    residual = Mx - problem.b
    rest = float(problem.phi.conjugate(residual))
    if satisfied and not math.isfinite(rest):
        steps = balanced_step(problem, x, y, Mx).steps
        rest = problem.phi.conjugate_near(y + steps * residual, steps)
    return ask.value(problem.f, x) + rest
