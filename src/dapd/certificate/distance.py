"""A proven bound on ‖x − x*‖₂, from strong convexity and either the gap or the residuals."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dapd.arrays import EPSILON, Array
from dapd.certificate.sums import norm, norm_of_sum
from dapd.problem import ask
from dapd.problem.problem import Problem
from dapd.spectrum.estimate import Spectrum

SAFETY = 8.0  # a sum of n terms is wrong by at most this times √n roundings of their sizes


class Evaluated(NamedTuple):
    """A point and what was evaluated there, in float64."""

    x: Array
    y: Array
    grad: Array  # ∇f(x)
    residual: Array  # Mx − b
    stationarity: float  # ‖∇f(x) + Mᵀy‖₂


class Rounding(NamedTuple):
    """What rounding may have added to a result, as norms."""

    gradient: float  # to ∇f(x)
    residual: float  # to Mx − b
    adjoint: float  # to Mᵀp, per unit of ‖p‖
    terms: float  # to a sum, per unit of its terms' absolute values

    def slope(self, p: Array, computed: float) -> float:
        """‖∇f(x) + Mᵀp‖ at most, if it was computed as this."""
        return computed + self.gradient + self.adjoint * norm(p)


def distance(problem: Problem, at: Evaluated, spectrum: Spectrum | None) -> float:
    """An upper bound on d = ‖x − x*‖₂; inf if μ = 0, or if too little is known.

    (a) If dom φ is bounded, P(x) is finite and P(x) − P* ≥ (μ/2)d². The dual objective at y ∈ dom φ is at least its
    Lagrangian value at x less ‖g‖²/(2μ), g = ∇f(x) + Mᵀy. So (μ/2)d² ≤ φ*(Mx − b) + φ(y) − yᵀ(Mx − b) + ‖g‖²/(2μ).

    (b) If s_min > 0, let p = prox_{sφ}(y + s(Mx − b)), r = (y − p)/s and g = ∇f(x) + Mᵀp. Then Mx − b + r ∈ ∂φ(p), and
    since ∂φ is monotone μd² ≤ ‖g‖d + ‖r‖‖p − y*‖, with s_min‖p − y*‖ ≤ ‖Mᵀ(p − y*)‖ ≤ ‖g‖ + L·d.
    """
    f, phi = problem.f, problem.phi
    if not f.mu or f.L is None:
        return math.inf
    slack = _rounding(problem, at, f.L, spectrum)
    if not problem.rows:
        return (norm(at.grad) + slack.gradient) / f.mu
    found = []
    duals = [(at.y, at.stationarity)] if np.array_equal(phi.project(at.y), at.y) else []
    if spectrum is not None and spectrum.resolved and spectrum.s_min > 0:
        s = f.L / (spectrum.s_max * spectrum.s_min)
        p = np.asarray(ask.prox(phi, at.y + s * at.residual, s), np.float64)
        duals.append((p, norm_of_sum(at.grad, problem.M.adjoint(p))))
        r = norm(at.y - p) / s + slack.residual + 4 * EPSILON * ((norm(at.y) + norm(p)) / s + norm(at.residual))
        found.append(_from_residuals(slack.slope(*duals[-1]), r, f.mu, f.L, spectrum.s_min))
    if math.isfinite(phi.reach(problem.rows)):
        found += [_from_gap(problem, at.residual, y, slack.slope(y, slope), slack) for y, slope in duals]
    return min((bound for bound in found if bound >= 0), default=math.inf)  # nan is no bound


def _from_residuals(g: float, r: float, mu: float, L: float, s_min: float) -> float:
    """The greatest d with μd² ≤ g·d + (r/s_min)(g + L·d)."""
    slope, rest = g + r * L / s_min, r * g / s_min
    return (slope + math.sqrt(slope * slope + 4 * mu * rest)) / (2 * mu)


def _from_gap(problem: Problem, residual: Array, y: Array, g: float, slack: Rounding) -> float:
    """The greatest d with (μ/2)d² ≤ φ*(Mx − b) + φ(y) − yᵀ(Mx − b) + g²/(2μ)."""
    values = [float(problem.phi.conjugate(residual)), float(problem.phi.value(y)), -float(y @ residual)]
    terms = abs(values[0]) + abs(values[1]) + float(abs(y) @ abs(residual))
    rounding = slack.terms * terms + 2 * problem.phi.reach(problem.rows) * slack.residual
    mu = problem.f.mu
    return math.sqrt(2 / mu * (max(0.0, sum(values)) + rounding + g * g / (2 * mu)))


def _rounding(problem: Problem, at: Evaluated, L: float, spectrum: Spectrum | None) -> Rounding:
    M = problem.M
    s_max = norm(M.row_norms) if spectrum is None else spectrum.s_max
    # the products of a matrix-free map may be in its own precision
    product = float(np.finfo(M.dtype).eps) if M.probes else EPSILON
    often = SAFETY * max(M.shape) ** 0.5
    length = norm(at.x)
    return Rounding(
        gradient=often * EPSILON * (_gradient_terms(problem, L, length) + norm(at.grad)),
        residual=often * product * (s_max * length + norm(problem.b.astype(np.float64, copy=False))),
        adjoint=often * product * s_max,
        terms=often * EPSILON,
    )


def _gradient_terms(problem: Problem, L: float, length: float) -> float:
    """The size of the terms that are added up to ∇f(x), ‖x‖ = length."""
    total = L * length
    if problem.terms is None:
        return total + norm(problem.slopes)
    for terms in (part.terms for part in problem.terms):
        total += 0.0 if terms.c is None else norm(terms.c.astype(np.float64, copy=False))
        if terms.loss is not None and terms.d is not None:
            if terms.loss.greatest_curvature() is None:
                return total + norm(problem.slopes)
            # of a loss of Ax: ‖A‖ is at most √L, or 2√L if the loss is logistic
            total += 2 * L**0.5 * norm(terms.d.astype(np.float64, copy=False))
    return total
