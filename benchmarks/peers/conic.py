"""Conic quadratic programs and the residuals of an answer. This module knows no solver and nothing of dapd."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np


@dataclass(frozen=True)
class ConicQP:
    """min ½xᵀPx + qᵀx subject to l ≤ Ax ≤ u, lower ≤ x ≤ upper and Gx + h ∈ K.

    K is the product of `cones`, each ("second-order", size), {(t, v): ‖v‖₂ ≤ t}, or ("exponential", 3), the closure of
    {(a, c, e): c > 0, c·exp(a/c) ≤ e}.
    """

    P: Any
    q: Any
    A: Any
    l: Any  # noqa: E741  the name that every QP solver uses
    u: Any
    lower: Any
    upper: Any
    G: Any
    h: Any
    cones: list[tuple[str, int]] = field(default_factory=list)

    @property
    def nonzeros(self) -> int:
        """Stored entries of P, A and G."""
        return int(self.P.nnz + self.A.nnz + self.G.nnz)


@dataclass(frozen=True)
class Answer:
    """A point and its multipliers: Px + q + Aᵀy + z − Gᵀw = 0, y and z positive at an upper bound, w ∈ K*."""

    x: Any
    y: Any
    z: Any
    w: Any


class Residuals(NamedTuple):
    """How far an answer is from optimal."""

    primal: float  # greatest violation of a row, a bound or a cone
    dual: float  # greatest entry of Px + q + Aᵀy + z − Gᵀw, or of a multiplier with the wrong sign
    gap: float  # |xᵀPx + qᵀx + sup yᵀ[l, u] + sup zᵀ[lower, upper] + hᵀw|: primal minus dual objective
    scales: tuple[float, float, float] = (1.0, 1.0, 1.0)  # greatest term in each of the three, at least 1

    @property
    def worst(self) -> float:
        """The greatest of the three; inf if one is not a number."""
        return greatest(*self[:3])

    @property
    def relative(self) -> float:
        """The greatest of the three, each divided by its scale."""
        return greatest(*(value / scale for value, scale in zip(self[:3], self.scales, strict=True)))


def greatest(*values: float) -> float:
    """The greatest of numbers; inf if one of them is not a number."""
    found = max(values, default=0.0)
    return float(found) if np.isfinite(values).all() else np.inf


def residuals(qp: ConicQP, answer: Answer) -> Residuals:
    """Measure an answer, in absolute terms and the ∞-norm."""
    x, y, z, w = answer.x, answer.y, answer.z, answer.w
    with np.errstate(all="ignore"):
        Px, Ax, Gx, Aty, Gtw = qp.P @ x, qp.A @ x, qp.G @ x, qp.A.T @ y, qp.G.T @ w
        primal = greatest(
            largest(outside(Ax, qp.l, qp.u)),
            largest(outside(x, qp.lower, qp.upper)),
            largest(cone_violations(Gx + qp.h, qp.cones)),
        )
        dual = greatest(
            largest(Px + qp.q + Aty + z - Gtw),
            largest(wrong_sign(y, qp.l, qp.u)),
            largest(wrong_sign(z, qp.lower, qp.upper)),
            largest(cone_violations(w, qp.cones, dual=True)),
        )
        terms = [x @ Px, qp.q @ x, support(y, qp.l, qp.u), support(z, qp.lower, qp.upper), qp.h @ w]
        scales = (
            greatest(1.0, largest(Ax), finite_size(qp.l), finite_size(qp.u), largest(Gx), largest(qp.h)),
            greatest(1.0, largest(Px), largest(qp.q), largest(Aty), largest(z), largest(Gtw)),
            greatest(1.0, *map(abs, terms)),
        )
        return Residuals(primal, dual, abs(float(sum(terms))), scales)


def largest(v: Any) -> float:
    """‖v‖∞; inf if an entry is not a number."""
    return greatest(float(np.max(np.abs(v)))) if np.size(v) else 0.0


def finite_size(v: Any) -> float:
    """The greatest finite |v_i|."""
    return largest(v[np.isfinite(v)])


def outside(v: Any, lower: Any, upper: Any) -> Any:
    """Distance of each v_i from [lower_i, upper_i]."""
    return np.maximum(lower - v, 0.0) + np.maximum(v - upper, 0.0)


def wrong_sign(y: Any, lower: Any, upper: Any) -> Any:
    """The part of each multiplier that pushes against an infinite bound."""
    return np.where(np.isinf(upper), np.maximum(y, 0.0), 0.0) + np.where(np.isinf(lower), np.maximum(-y, 0.0), 0.0)


def support(y: Any, lower: Any, upper: Any) -> float:
    """sup{yᵀv : lower ≤ v ≤ upper} over the finite bounds; `wrong_sign` counts the rest."""
    up, down = (y > 0) & np.isfinite(upper), (y < 0) & np.isfinite(lower)
    return float(y[up] @ upper[up] + y[down] @ lower[down])


def cone_violations(v: Any, cones: list[tuple[str, int]], *, dual: bool = False) -> Any:
    """How much each part of v violates its cone, or the dual of its cone."""
    if not cones:
        return np.zeros(0)
    sizes = np.array([size for _, size in cones])
    starts = np.cumsum(sizes) - sizes
    round_ones = np.array([kind == "second-order" for kind, _ in cones])
    squares = v * v
    squares[starts] = 0.0
    found = np.where(round_ones, np.sqrt(np.add.reduceat(squares, starts)) - v[starts], 0.0)
    at = starts[~round_ones]
    if len(at):
        violation = dual_exponential_violation if dual else exponential_violation
        found[~round_ones] = violation(v[at], v[at + 1], v[at + 2])
    return np.maximum(found, 0.0)


def exponential_violation(a: Any, c: Any, e: Any) -> Any:
    """c·exp(a/c) − e if c > 0, otherwise how far c, −a and e are from the cone's edge c = 0, a ≤ 0, e ≥ 0."""
    edge = np.maximum(np.maximum(-c, a), -e)
    return np.where(c > 0, c * np.exp(a / np.where(c > 0, c, 1.0)) - e, edge)


def dual_exponential_violation(a: Any, c: Any, e: Any) -> Any:
    """−a·exp(c/a − 1) − e if a < 0, otherwise how far a, c and e are from the edge a = 0, c ≥ 0, e ≥ 0."""
    edge = np.maximum(np.maximum(a, -c), -e)
    return np.where(a < 0, -a * np.exp(c / np.where(a < 0, a, -1.0) - 1.0) - e, edge)
