"""y-SBC-DAPD: y-DAPD by blocks, around a dual anchor y that moves with probability 1/N (variance reduction)."""

from __future__ import annotations

from typing import Any, NamedTuple

from dapd import theory
from dapd.arrays import Array
from dapd.methods.block import BlockMethod, Draw

Parameters = theory.YSbc


class State(NamedTuple):
    """One iterate."""

    x: Array
    g: Array  # ∇f(x)
    y: Array  # the anchor
    w: Array  # the anchor with momentum; u = (1 + τ)w − τy
    forward: Array  # M(x − t∇f(x)); s·Mx − ŝ·M∇f(x) is s times it
    MMty: Array  # MMᵀy
    k: int  # iterations so far


def init(p: Parameters, o: Any, x: Array, y: Array) -> State:
    """Start with w⁰ = u⁰ = y⁰."""
    g = o.all_grads(x)
    return State(x.copy(), g, y.copy(), y.copy(), o.image(x - p.t * g), o.gram(y), 0)


def step(p: Parameters, o: Any, s: State, drawn: Draw) -> None:
    """One iteration of Algorithm 4, in place."""
    j = o.blocks[drawn.j]
    variance = o.forward(drawn.i, o.adjoint(drawn.i, s.w - s.y))
    y = s.w + p.s / p.N * (s.forward - o.b) - p.s_hat / p.N * s.MMty - p.s_hat * variance
    u = p.xi * y - (p.xi - 1) * s.y
    if drawn.coin:
        s.y[:] = y
        s.MMty[:] = o.gram(y)
    s.w[:] = p.tau / (1 + p.tau) * s.y + 1 / (1 + p.tau) * u
    x = s.x[j] - p.t_tilde * (s.g[j] + o.adjoint(drawn.j, u))
    g = o.grad(drawn.j, x)
    s.forward[:] = s.forward + o.forward(drawn.j, (x - s.x[j]) - p.t * (g - s.g[j]))
    s.x[j], s.g[j] = x, g


def refresh(p: Parameters, o: Any, s: State) -> None:
    """Recompute M(x − t∇f(x)); MMᵀy is recomputed whenever y moves."""
    s.forward[:] = o.image(s.x - p.t * s.g)


class YSBC(BlockMethod):
    """y-side stochastic block-coordinate directly accelerated primal–dual method; with N = 1 it is y-DAPD."""

    name = "y-sbc-dapd"
    title = "y-SBC-DAPD"
    reference = "Li and Grigas 2026, Algorithm 4"
    record = Parameters
    settings = staticmethod(theory.y_sbc)
    first = staticmethod(init)
    update = staticmethod(step)
    refresh = staticmethod(refresh)
