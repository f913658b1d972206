"""Independent checks of what a solver says of a model: a solution, no solution, or no bound."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from peers import model as m
from peers.canonical import Canonical
from peers.conic import Residuals, largest, residuals, wrong_sign
from peers.generated import growth, joint_interval, supremum

REACH = 1e6  # a ray must exclude all x up to this size
SLIGHT = 1e-6  # what a direction may be off by, as a part of its slope


def check_answer(model: m.Model, x: Any, y: Any, z: Any) -> Residuals:
    """Primal residual, dual residual and gap of a solution."""
    canonical = Canonical(model)
    return residuals(canonical.qp, canonical.lift(x, y, z))


class FarkasCheck(NamedTuple):
    """What multipliers (y, z) prove."""

    value: float  # bᵀy + sup yᵀ[rows] + sup zᵀ[bounds], negative for a proof
    residual: float  # ‖Mᵀy + z‖∞
    against: float  # greatest multiplier whose sign is wrong, or that a row cannot have

    @property
    def reach(self) -> float:
        """No x with ‖x‖₁ below this is feasible."""
        return np.inf if self.residual == 0 else -self.value / self.residual

    @property
    def valid(self) -> bool:
        """Whether this is a proof, up to points very far out."""
        return self.value < 0 and self.against == 0 and self.reach >= REACH


def check_infeasible(model: m.Model, y: Any, z: Any) -> FarkasCheck:
    """Whether the multipliers (y, z) show that no x satisfies the rows and bounds.

    A feasible x has yᵀ(Mx − b) ≤ sup yᵀ[rows] and zᵀx ≤ sup zᵀ[bounds], so 0 ≤ bᵀy + both + ‖Mᵀy + z‖∞‖x‖₁.
    """
    lower, upper = joint_interval(model.parts)
    size = max(largest(y), largest(z)) or 1.0
    y, z = clean(y / size), clean(z / size)
    against = max(largest(wrong_sign(y, lower, upper)), largest(wrong_sign(z, model.lower, model.upper)))
    if against:
        return FarkasCheck(np.inf, np.inf, against)
    value = float(model.b @ y) + supremum(y, lower, upper) + supremum(z, model.lower, model.upper)
    return FarkasCheck(value, largest(model.M.T @ y + z), 0.0)


def clean(v: Any) -> Any:
    """Multipliers without those that are rounding."""
    return np.where(abs(v) < 1e-12, 0.0, v)


class DirectionCheck(NamedTuple):
    """What a direction v proves."""

    slope: float  # of the objective along v, far out; negative for a proof
    violation: float  # greatest constraint that v leaves, or curvature of f along v

    @property
    def valid(self) -> bool:
        """Whether the objective falls along v for ever."""
        return self.slope < 0 and self.violation <= SLIGHT * min(1.0, -self.slope)


def check_unbounded(model: m.Model, direction: Any) -> DirectionCheck:
    """Whether the objective falls for ever along a direction that leaves no constraint."""
    v = direction / (largest(direction) or 1.0)
    r = model.M @ v
    lower, upper = joint_interval(model.parts)
    violation = max(leaving(r, lower, upper), leaving(v, model.lower, model.upper))
    slope, start = growth(model.parts, r), 0
    for cost, size in model.costs:
        own = v[start : start + size]
        start += size
        falls, bends = along(cost, own)
        slope, violation = slope + falls, max(violation, bends)
    return DirectionCheck(slope, violation)


def leaving(v: Any, lower: Any, upper: Any) -> float:
    """How fast v leaves [lower, upper]."""
    return largest(
        np.where(np.isfinite(upper), np.maximum(v, 0), 0) + np.where(np.isfinite(lower), np.maximum(-v, 0), 0)
    )


def along(cost: m.Cost, v: Any) -> tuple[float, float]:
    """The slope of f along v far out, and the size of what bends it."""
    if isinstance(cost, m.Quadratic):
        bent = cost.P @ v if sp.issparse(cost.P) or np.ndim(cost.P) == 2 else cost.P * v
        return float(cost.q @ v), largest(bent)
    if isinstance(cost, m.Squares):
        return 0.0, max(largest(cost.A @ v), cost.ridge * largest(v))
    if isinstance(cost, m.Logistic):
        return float(np.maximum(-cost.labels * (cost.A @ v), 0).sum()), cost.ridge * largest(v)
    return float(abs(v).sum()), cost.e * largest(v)
