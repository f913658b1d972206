"""Optimality, measured in float64 by code that knows no method, at the very point that is returned."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from dapd.arrays import Array
from dapd.model.problem import Problem
from dapd.spectrum.estimate import Spectrum

FAR = 1e6  # a point this many times farther out than x is no answer: no x nearer is feasible
SLIGHT = 1e-9  # part of s_max below which Mᵀd counts as zero


class Certificate(NamedTuple):
    """How far (x, y) is from optimal."""

    stationarity: float  # ‖∇f(x) + Mᵀy‖₂
    feasibility: float  # ‖y − prox_φ(y + Mx − b)‖₂
    gap: float  # bound on the distance between primal and dual objective, see `certify`
    balanced: float  # feasibility with a prox step that brings Mx − b to the size of y, divided by that step
    stationarity_scale: float  # 1 + max(‖∇f(x)‖, ‖Mᵀy‖)
    feasibility_scale: float  # 1 + max(‖Mx‖, ‖b‖)

    @property
    def error(self) -> float:
        """The greater residual, each beside its scale: what `tol` bounds, absolutely and relatively at once."""
        infeasibility = max(self.feasibility, self.balanced)
        return max(self.stationarity / self.stationarity_scale, infeasibility / self.feasibility_scale)


def certify(problem: Problem, x: Array, y: Array) -> Certificate:
    """Measure (x, y).

    With y⁺ = prox_φ(y + Mx − b), the point r⁺ = Mx − b + y − y⁺ lies in ∂φ(y⁺), so f(x) + φ*(r⁺) is finite: the primal
    objective with the residual moved by `feasibility`. The dual objective at y⁺ is within ‖∇f(x) + Mᵀy⁺‖²/(2μ) of its
    Lagrangian value, and the two differ by y⁺ᵀ(y − y⁺); `gap` is the sum of both, in absolute value.

    Where φ keeps y in a bounded set, ‖y − y⁺‖ is bounded however wrong Mx − b is, and beside a large b it would look
    small. So the error also counts `balanced`, ‖y − prox_{sφ}(y + s(Mx − b))‖/s with
    s = (1 + ‖y‖)/(1 + max(‖Mx‖, ‖b‖)), which is ‖Mx − b‖ again where φ ≡ 0.
    """
    x, y = x.astype(np.float64, copy=False), y.astype(np.float64, copy=False)
    grad = np.asarray(problem.f.grad(x), np.float64)
    Mty = problem.M.adjoint(y)
    Mx = problem.M.forward(x)
    residual = Mx - problem.b
    fixed = problem.phi.prox(y + residual, 1.0)
    slope = _norm(grad + problem.M.adjoint(fixed))
    feasibility_scale = 1 + max(_norm(Mx), _norm(problem.b))
    step = (1 + _norm(y)) / feasibility_scale
    return Certificate(
        stationarity=_norm(grad + Mty),
        feasibility=_norm(y - fixed),
        gap=abs(float(fixed @ (y - fixed))) + slope**2 / (2 * problem.f.mu),
        balanced=_norm(y - problem.phi.prox(y + step * residual, step)) / step,
        stationarity_scale=1 + max(_norm(grad), _norm(Mty)),
        feasibility_scale=feasibility_scale,
    )


def proves_infeasible(problem: Problem, spectrum: Spectrum | None, x: Array, direction: Array) -> bool:
    """Whether a direction d in which y runs away shows that no x within FAR times ‖x‖ satisfies the constraints.

    For every feasible x, −bᵀd − φ∞(d) ≤ ‖Mᵀd‖‖x‖. Independent rows can always be satisfied, so d must be one of their
    dependences: Mᵀd must be nothing beside s_max, and beside the least positive singular value where that is known.
    """
    if spectrum is None or (spectrum.s_min > 0 and not problem.phi.is_zero):
        return False
    d = direction.astype(np.float64)
    length = float(np.max(np.abs(d), initial=0.0))
    if length == 0.0 or not math.isfinite(length):
        return False
    d = np.where(np.abs(d) < 1e-9 * length, 0.0, d / length)
    violation = -float(problem.b @ d) - problem.phi.recession(d)
    if not violation > 1e-9 * _norm(problem.b) * _norm(d):
        return False
    image = _norm(problem.M.adjoint(d))
    slight = min(SLIGHT * spectrum.s_max, 0.1 * spectrum.s_min if problem.phi.is_zero else np.inf)
    return image <= slight * _norm(d) and violation > FAR * (1 + _norm(x)) * image


def _norm(v: Any) -> float:
    return float(np.linalg.norm(v))
