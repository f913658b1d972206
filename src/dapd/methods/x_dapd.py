"""x-DAPD: acceleration on the primal side, for problems in which the conditioning of f dominates."""

from __future__ import annotations

from typing import Any, NamedTuple

from dapd import theory
from dapd.arrays import Array, Dual, Primal
from dapd.methods.base import Method

Parameters = theory.XDapd


class State(NamedTuple):
    """One iterate."""

    x: Primal
    z: Primal  # x with momentum, the point of the gradient
    y: Dual
    Mty: Primal  # Mᵀy


def init(p: Parameters, o: Any, x: Array, y: Array) -> State:
    """Start with z⁰ = x⁰."""
    return State(x, x, y, o.adjoint(y))


def step(p: Parameters, o: Any, s: State) -> State:
    """One iteration of Algorithm 1."""
    g = o.grad(s.z)
    x_hat = p.xi * s.z - (p.xi - 1) * s.x
    r = p.chi * p.s
    y, Mty = o.dual_step(r * x_hat - p.s_hat * (s.Mty + g), s.y - r * o.b, r)
    x = s.z - p.t * (g + Mty)
    z = (1 + p.gamma) * x - p.gamma * s.x
    return State(x, z, y, Mty)


class XDAPD(Method):
    """x-side directly accelerated primal–dual method."""

    name = "x-dapd"
    title = "x-DAPD"
    reference = "Li and Grigas 2026, Algorithm 1"
    record = Parameters
    settings = staticmethod(theory.x_dapd)
    first = staticmethod(init)
    update = staticmethod(step)
