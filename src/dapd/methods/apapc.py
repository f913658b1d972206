"""Accelerated PAPC: the method that x-DAPD extends; printed for Mx = b, here with the prox of φ in its dual step."""

from __future__ import annotations

from typing import Any, NamedTuple

from dapd import theory
from dapd.arrays import Array, Dual, Primal
from dapd.methods.base import Method

Parameters = theory.Apapc


class State(NamedTuple):
    """One iterate."""

    x: Primal
    x_f: Primal  # the averaged iterate, which is the answer
    y: Dual
    Mty: Primal  # Mᵀy


def init(p: Parameters, o: Any, x: Array, y: Array) -> State:
    """Start with x_f⁰ = x⁰."""
    return State(x, x, y, o.adjoint(y))


def step(p: Parameters, o: Any, s: State) -> State:
    """One iteration of Algorithm 3 of Salim et al., with a prox."""
    x_g = p.tau * s.x + (1 - p.tau) * s.x_f
    shrink = 1 / (1 + p.eta * p.alpha)
    x_half = shrink * (s.x - p.eta * (o.grad(x_g) - p.alpha * x_g + s.Mty))
    y, Mty = o.dual_step(p.theta * x_half, s.y - p.theta * o.b, p.theta)
    x = x_half - p.eta * shrink * (Mty - s.Mty)
    x_f = x_g + 2 * p.tau / (2 - p.tau) * (x - s.x)
    return State(x, x_f, y, Mty)


def point(state: State) -> tuple[Array, Array]:
    """(x_f, y)."""
    return state.x_f, state.y


class APAPC(Method):
    """Accelerated proximal alternating predictor–corrector."""

    name = "apapc"
    title = "APAPC"
    reference = "Salim, Condat, Kovalev and Richtárik 2022, Algorithm 3"
    record = Parameters
    settings = staticmethod(theory.apapc)
    first = staticmethod(init)
    update = staticmethod(step)
    point = staticmethod(point)
