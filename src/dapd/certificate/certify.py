"""Optimality, measured in float64 at the point that is returned, independently of the method."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from dapd.arrays import EPSILON, Array, namespace
from dapd.certificate.distance import Evaluated, distance
from dapd.certificate.sums import (
    NUMPY,
    ByNumPy,
    ColumnSums,
    Measurable,
    RowSums,
    balanced_step,
    measure_columns,
    measure_rows,
    norm,
    products_of,
)
from dapd.problem import ask
from dapd.problem.problem import Problem
from dapd.problem.sizes import multipliers_of_bounds
from dapd.spectrum.estimate import Spectrum

GUARD = 8 * EPSILON  # part of its terms, those of f included, that rounding may add to the gap
SOLUTION, OBJECTIVE = "solution", "objective"  # what the accuracy of a solve may be measured by


class Certificate(NamedTuple):
    """How far (x, y) is from optimal; of many points, each number is an array, and `error_of` judges them."""

    stationarity: float  # ‖∇f(x) + Mᵀy + z‖₂
    feasibility: float  # ‖y − prox_φ(y + Mx − b)‖₂, with the bounds on x
    gap: float  # |primal − dual objective|, see `certify`; nan if φ or φ* has no value
    stationarity_error: float  # the worst coordinate of ∇f(x) + Mᵀy + z, relative to its own size
    feasibility_error: float  # the worst distance of Mx − b from dom φ*, y from dom φ, x from its bounds, relatively
    complementarity_error: float  # the worst row of Mx − b ∈ ∂φ(y), or bound, relative to its own size
    gap_error: float  # the gap, relative to the sizes of its terms
    primal: float  # distance of Mx − b from dom φ*, and of x from its bounds, ∞-norm
    dual: float  # the greater of ‖∇f(x) + Mᵀy + z‖∞ and the distance of y from dom φ, ∞-norm
    typical_error: float  # the root mean square of these errors over the columns, or the rows if that is greater
    distance: float  # a proven bound on ‖x − x*‖₂; inf if too little is known
    accuracy: str = SOLUTION  # what `error` counts

    @property
    def error(self) -> float:
        """The greatest of the relative errors, which `tol` bounds; inf if a residual is not finite.

        With accuracy "solution", complementarity counts, which feasibility follows from; with "objective", feasibility
        counts by itself, and complementarity only if the gap is not known.
        """
        known = not math.isnan(self.gap_error)
        rows = self.feasibility_error if self.accuracy == OBJECTIVE and known else self.complementarity_error
        residuals = max(self.stationarity_error, rows)
        return max(residuals, self.gap_error) if known else residuals

    @property
    def solution_error(self) -> float:
        """The error with accuracy "solution", by which points are compared whatever ends an iteration."""
        return self.error if self.accuracy == SOLUTION else self._replace(accuracy=SOLUTION).error

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

    @property
    def numbers(self) -> tuple[float, ...]:
        """All numbers but the distance, which devices do not compute."""
        return self[:-2]

    @classmethod
    def of_numbers(cls, numbers: Iterable[Any], accuracy: str = SOLUTION) -> Certificate:
        """The certificate with these numbers, and without a distance."""
        return cls._make((*numbers, math.inf, accuracy))

    @classmethod
    def unknown(cls, count: int, accuracy: str) -> Certificate:
        """Of so many points of which nothing is known yet: every number is infinite."""
        return cls.of_numbers(np.full((len(cls._fields) - 2, count), math.inf), accuracy)

    def at(self, k: int) -> Certificate:
        """The certificate of point k of many."""
        return self.of_numbers((float(v[k]) for v in self.numbers), self.accuracy)  # type: ignore[index]  # of many points, numbers are arrays


class CheckedPoint(NamedTuple):
    """A point of the given problem, x between its bounds, and its certificate."""

    x: Array
    y: Array
    certificate: Certificate


def error_of(many: Certificate) -> Array:
    """`Certificate.error` of many points, whose numbers are arrays."""
    gap, xp = many.gap_error, namespace(many.gap_error)
    with_all = xp.maximum(many.stationarity_error, many.complementarity_error)
    counted = with_all if many.accuracy == SOLUTION else xp.maximum(many.stationarity_error, many.feasibility_error)
    return xp.where(xp.isnan(gap), with_all, xp.maximum(counted, gap))


def excess_of(many: Certificate, tol: float, tol_absolute: float) -> Array:
    """`Certificate.excess` of many points."""
    found = np.full(np.shape(many.gap), np.inf)
    if tol > 0:
        found = error_of(many) / tol
    if tol_absolute > 0:
        gap = np.where(np.isnan(many.gap), many.feasibility, many.gap)
        worst = np.maximum(np.maximum(many.primal, many.dual), gap)
        found = np.fmin(found, np.where(np.isfinite(worst), worst, np.inf) / tol_absolute)
    return found


def certify(
    problem: Problem,
    x: Array,
    y: Array,
    *,
    accuracy: str = SOLUTION,
    spectrum: Spectrum | None = None,
    with_distance: bool = True,
) -> Certificate:
    """Measure (x, y); of a dual vector with multipliers of the bounds after y, only y counts.

    Each coordinate and each row is judged by itself, relative to the terms that meet in it, before they cancel:

        R_i = |b_i| + Σ_j |M_ij x_j| + θρ_i,    S_j = |∇f_j(0)| + |∇f_j(x)| + Σ_i |M_ij y_i| + θσ_j,
        Y_i = |y_i| + θη_i,                     X_j = |x_j| + |bound_j| + θξ_j,

    with θ = 10⁻³ and what is typical of the row, the column, y_i and x_j by the data (`problem.units`).

    - `stationarity_error` is the greatest |∇f(x) + Mᵀy + z|_j / S_j. The multipliers z of the bounds are those that
      stationarity asks for, see `problem.sizes.multipliers_of_bounds`.
    - `feasibility_error` is the greatest distance of (Mx − b)_i from dom φ* relative to R_i, of y_i from dom φ relative
      to Y_i, and of x_j from its bounds relative to X_j.
    - `complementarity_error` is the greatest |y_i − p_i| / Y_i with p = prox_{sφ}(y + s(Mx − b)) at s_i = Y_i/R_i, and
      of the bounds the greatest min(|z_j|/S_j, |x_j − bound_j|/X_j).
    - `gap_error` is the gap relative to the sizes of its terms. With r and q the points of dom φ* and dom φ nearest to
      Mx − b and y, and with f* at ∇f(x) instead of −Mᵀy − z,

          gap = |P − D| = |φ*(r) + φ(q) + bᵀq + xᵀ∇f(x) + Σ_j bound_j z_j|.

    The rows of a group are measured together. A φ of the user's own takes one step for all rows, s = ‖Y‖/‖R‖, so each
    row is held to both |y_i − p_i| ≤ tol·Y_i and ≤ tol·s·R_i. An error of at most tol means that (x, y, z) solves a
    problem each of whose numbers differs by about tol, relatively (`docs/certificate.md`).

    `distance` needs μ > 0, and bounds on the singular values of M (`spectrum`; by default the problem's own, or those
    of an earlier estimate) unless dom φ is bounded. It is inf if it is not wanted.
    """
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    if x.shape != (problem.columns,):
        raise ValueError(f"x must be a vector of {problem.columns} entries, found shape {x.shape}")
    if y.shape != (problem.rows,) and y.shape != (problem.multipliers,):
        either = "" if problem.lower is None else f" (or {problem.multipliers}, with those of the bounds)"
        raise ValueError(f"y must be a vector of {problem.rows} entries{either}, found shape {y.shape}")
    y = y[: problem.rows]
    grad, at = np.asarray(ask.gradient(problem.f, x), np.float64), products_of(problem, x, y)
    rows, columns = measure_rows(problem, y, at), measure_columns(problem, x, grad, at)
    bound = math.inf
    if with_distance and _can_be_known(problem, spectrum):
        residual, pull = at.Mx - problem.b, at.Mty
        del at  # long vectors
        bound = _distance(problem, x, y, grad, residual, pull, spectrum)
    return certificate_of(problem, x, rows, columns, bound, accuracy)


def certificate_of(
    problem: Measurable,
    x: Array,
    rows: RowSums,
    columns: ColumnSums,
    distance: float = math.inf,
    accuracy: str = SOLUTION,
    by: ByNumPy = NUMPY,
) -> Certificate:
    """The certificate of a point, from the sums over its rows and columns."""
    size = abs(rows.conjugate) + abs(rows.value) + rows.sizes + columns.sizes
    rounding = GUARD * (size + problem.sizes.curvature @ (x * x))
    gap = by.known(abs(rows.conjugate + rows.value + rows.product + columns.product) + rounding)
    return Certificate(
        stationarity=columns.norm,
        feasibility=by.length(rows.feasibility, columns.natural, columns.primal),
        gap=gap,
        stationarity_error=columns.stationarity,
        feasibility_error=by.most(rows.outside, columns.outside),
        complementarity_error=by.most(rows.complementarity, columns.complementarity, columns.outside),
        gap_error=by.known(gap / (by.least(size, problem.sizes.most) + problem.sizes.objective)),
        primal=by.most(rows.primal, columns.primal),
        dual=by.most(columns.greatest, rows.dual),
        typical_error=by.most(columns.errors, rows.errors),
        distance=distance,
        accuracy=accuracy,
    )


def distance_at(problem: Problem, x: Array, y: Array, spectrum: Spectrum | None) -> float:
    """The `distance` of the certificate of a point, by itself."""
    if not _can_be_known(problem, spectrum):
        return math.inf
    x, y = x.astype(np.float64, copy=False), y[: problem.rows].astype(np.float64, copy=False)
    grad, at = np.asarray(ask.gradient(problem.f, x), np.float64), products_of(problem, x, y)
    residual, pull = at.Mx - problem.b, at.Mty
    del at  # long vectors
    return _distance(problem, x, y, grad, residual, pull, spectrum)


def _distance(
    problem: Problem, x: Array, y: Array, grad: Array, residual: Array, pull: Array, spectrum: Spectrum | None
) -> float:
    """The same, of a point whose ∇f(x), Mx − b and Mᵀy are known."""
    left, dual = grad + pull, y
    if problem.lower is not None and problem.upper is not None:  # and no rows, see `_can_be_known`
        dual, _ = multipliers_of_bounds(x, left, problem.lower, problem.upper)
        residual, left = x, np.where(dual != 0, 0.0, left)
        problem, spectrum = problem.stacked, None if spectrum is None else problem.stacked_spectrum(spectrum)
    return distance(problem, Evaluated(x, dual, grad, residual, norm(left)), spectrum or problem.known_spectrum)


def _can_be_known(problem: Problem, spectrum: Spectrum | None) -> bool:
    """Whether enough is known for a distance to be finite."""
    if not problem.f.mu or problem.f.L is None:
        return False
    if problem.lower is not None:
        return not problem.rows  # else bounds and rows depend on each other
    if not problem.rows or math.isfinite(problem.phi.reach(problem.rows)):
        return True
    known = spectrum or problem.known_spectrum
    return known is not None and known.resolved and known.s_min > 0


def completed(problem: Problem, x: Array, dual: Array) -> tuple[Array, Array]:
    """The multipliers of the rows, and those of the bounds that stationarity asks for; zero if there are no bounds."""
    y = dual[: problem.rows]
    if problem.lower is None or problem.upper is None:
        return y.copy(), np.zeros(problem.columns, y.dtype)
    with np.errstate(all="ignore"):
        u, v = x.astype(np.float64, copy=False), y.astype(np.float64, copy=False)
        slopes = np.asarray(ask.gradient(problem.f, u), np.float64) + problem.M.adjoint(v)
        z, _ = multipliers_of_bounds(u, slopes, problem.lower, problem.upper)
    return y.copy(), z.astype(y.dtype, copy=False)


def blame(problem: Problem, x: Array, y: Array) -> None:
    """Raise an error that names what gives NaN or infinite numbers at (x, y), if there is such a thing."""
    x, y = x.astype(np.float64, copy=False), y[: problem.rows].astype(np.float64, copy=False)
    where = f"returned NaN or infinite numbers at the {'start' if x.any() or y.any() else 'start, x = 0 and y = 0'}"
    if not np.isfinite(ask.gradient(problem.f, x)).all():
        raise ValueError(
            f"f.grad {where}; give x0=, where f has a gradient, or check f with dapd.testing.check_gradient"
        )
    Mx = problem.M.forward(x)
    if not (np.isfinite(Mx).all() and np.isfinite(problem.M.adjoint(y)).all()):
        raise ValueError(f"a product with M or its transpose {where}; check M with dapd.testing.check_adjoint")
    if not np.isfinite(ask.prox(problem.phi, y + Mx - problem.b, 1.0)).all():
        raise ValueError(f"phi.prox {where}; check φ with dapd.testing.check_prox")


def objective(problem: Problem, x: Array, y: Array, satisfied: bool) -> float:
    """f(x) + φ*(Mx − b); if the residual counts as `satisfied`, at the nearest point at which φ* is finite."""
    x, y = x.astype(np.float64, copy=False), y[: problem.rows].astype(np.float64, copy=False)
    residual = problem.M.forward(x) - problem.b
    rest = float(problem.phi.conjugate(residual))
    if satisfied and not math.isfinite(rest):
        rest = float(problem.phi.conjugate(problem.phi.project_conjugate(residual)))
        if not math.isfinite(rest):
            balance = balanced_step(problem, y, products_of(problem, x, y))
            rest = problem.phi.conjugate_near(y + balance.steps * residual, balance.steps)
    return ask.value(problem.f, x) + rest
