"""y-DAPD: acceleration on the dual side, for problems in which the conditioning of M dominates."""

from __future__ import annotations

from typing import Any, NamedTuple

from dapd import theory
from dapd.arrays import Array, Dual, Primal
from dapd.methods.base import Method

Parameters = theory.YDapd


class State(NamedTuple):
    """One iterate."""

    x: Primal
    y: Dual
    w: Dual  # y with momentum
    Mty: Primal  # Mᵀy
    Mtw: Primal  # Mᵀw


def init(p: Parameters, o: Any, x: Array, y: Array) -> State:
    """Start with w⁰ = u⁰ = y⁰."""
    Mty = o.adjoint(y)
    return State(x, y, y, Mty, Mty)


def step(p: Parameters, o: Any, s: State) -> State:
    """One iteration of Algorithm 2."""
    g = o.grad(s.x)
    y, Mty = o.dual_step(p.s * s.x - p.s_hat * (s.Mtw + g), s.w - p.s * o.b, p.s)
    w = (1 + p.gamma) * y - p.gamma * s.y
    Mtw = (1 + p.gamma) * Mty - p.gamma * s.Mty
    Mtu = (1 + p.tau) * Mtw - p.tau * Mty
    x = s.x - p.t_tilde * (g + Mtu)
    return State(x, y, w, Mty, Mtw)


class YDAPD(Method):
    """y-side directly accelerated primal–dual method."""

    name = "y-dapd"
    title = "y-DAPD"
    reference = "Li and Grigas 2026, Algorithm 2"
    record = Parameters
    settings = staticmethod(theory.y_dapd)
    first = staticmethod(init)
    update = staticmethod(step)
