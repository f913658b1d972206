"""x-SBC-DAPD: x-DAPD with one random block of M in the dual step and one in the primal step."""

from __future__ import annotations

from typing import Any, NamedTuple

from dapd import theory
from dapd.arrays import Array
from dapd.methods.block import BlockMethod, Draw

Parameters = theory.XSbc


class State(NamedTuple):
    """One iterate."""

    x: Array
    z: Array  # x with momentum, the point of the gradient
    g: Array  # ∇f(z)
    y: Array
    Mx_hat: Array  # M(ξz − (ξ−1)x)
    k: int  # iterations so far


def init(p: Parameters, o: Any, x: Array, y: Array) -> State:
    """Start with z⁰ = x⁰."""
    return State(x.copy(), x.copy(), o.all_grads(x), y.copy(), o.image(x), 0)


def step(p: Parameters, o: Any, s: State, drawn: Draw) -> None:
    """One iteration of Algorithm 3, in place."""
    i, j = o.blocks[drawn.i], o.blocks[drawn.j]
    correction = o.forward(drawn.i, o.adjoint(drawn.i, s.y) + s.g[i])
    s.y[:] = s.y + p.chi * p.s / p.N * (s.Mx_hat - o.b) - p.s_hat * correction
    x = s.z[j] - p.t * (s.g[j] + o.adjoint(drawn.j, s.y))
    z = (1 + p.gamma) * x - p.gamma * s.x[j]
    moved = (p.xi * z - (p.xi - 1) * x) - (p.xi * s.z[j] - (p.xi - 1) * s.x[j])
    s.Mx_hat[:] = s.Mx_hat + o.forward(drawn.j, moved)
    s.x[j], s.z[j], s.g[j] = x, z, o.grad(drawn.j, z)


def refresh(p: Parameters, o: Any, s: State) -> None:
    """Recompute Mx̂."""
    s.Mx_hat[:] = o.image(p.xi * s.z - (p.xi - 1) * s.x)


class XSBC(BlockMethod):
    """x-side stochastic block-coordinate directly accelerated primal–dual method; with N = 1 it is x-DAPD."""

    name = "x-sbc-dapd"
    title = "x-SBC-DAPD"
    reference = "Li and Grigas 2026, Algorithm 3"
    record = Parameters
    settings = staticmethod(theory.x_sbc)
    first = staticmethod(init)
    update = staticmethod(step)
    refresh = staticmethod(refresh)
