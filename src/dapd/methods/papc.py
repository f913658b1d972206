"""PAPC: the proximal alternating predictor–corrector, which is also PD3O and PDDY without a primal prox."""

from __future__ import annotations

from typing import Any, NamedTuple

from dapd import theory
from dapd.arrays import Array, Dual, Primal
from dapd.methods.base import Method

Parameters = theory.Papc


class State(NamedTuple):
    """One iterate."""

    x: Primal
    y: Dual
    Mty: Primal  # Mᵀy


def init(p: Parameters, o: Any, x: Array, y: Array) -> State:
    """Start from any x⁰ and y⁰."""
    return State(x, y, o.adjoint(y))


def step(p: Parameters, o: Any, s: State) -> State:
    """Predict x, step in y, correct x."""
    g = o.grad(s.x)
    predicted = s.x - p.t * (g + s.Mty)
    y, Mty = o.dual_step(p.s * predicted, s.y - p.s * o.b, p.s)
    return State(s.x - p.t * (g + Mty), y, Mty)


class PAPC(Method):
    """Proximal alternating predictor–corrector."""

    name = "papc"
    title = "PAPC"
    reference = "Drori, Sabach and Teboulle 2015; step sizes of Salim, Condat, Mishchenko and Richtárik 2022"
    needs_s_min = False
    needs_mu = False
    record = Parameters
    settings = staticmethod(theory.papc)
    first = staticmethod(init)
    update = staticmethod(step)
