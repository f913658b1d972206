"""x-SBC-DAPD for an f that does not separate: block partial gradients, and momentum in every block."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from dapd import theory
from dapd.arrays import Array
from dapd.methods.block import BlockMethod, Draw
from dapd.problem.problem import Problem

Parameters = theory.XSbcNonseparable


class State(NamedTuple):
    """One iterate, in variables of which only one block changes per iteration.

    With e = z − x, an iteration that moves block j by d is e⁺ = γe + ((1+γ)ω − 1)d and z⁺ = z + γe + (1+γ)ωd. So
    c = z + γ/(1−γ)·e changes only in block j. So does ε in e = scale·ε, where scale is the power of γ:

        z = c − γ/(1−γ)·scale·ε,    x = c − 1/(1−γ)·scale·ε,    x̂ = c + (ξ − 1/(1−γ))·scale·ε.
    """

    c: Array  # the limit of x and z if no block moves any more
    e: Array  # ε
    y: Array
    Mc: Array
    Me: Array
    scale: Array  # one number, the power of γ in e = scale·ε
    reach: float  # 1/(1 − γ)
    k: int  # iterations so far

    @property
    def x(self) -> Array:
        """The paper's x."""
        return self.c - self.reach * float(self.scale[0]) * self.e

    @property
    def z(self) -> Array:
        """The paper's z."""
        return self.c - (self.reach - 1) * float(self.scale[0]) * self.e


def init(p: Parameters, o: Any, x: Array, y: Array) -> State:
    """Start with z⁰ = v⁰ = x⁰, so e = 0."""
    Mx = o.image(x)
    return State(x.copy(), np.zeros_like(x), y.copy(), Mx, np.zeros_like(Mx), np.ones(1), 1 / (1 - p.gamma), 0)


def step(p: Parameters, o: Any, s: State, drawn: Draw) -> None:
    """One iteration of the appendix's last algorithm, in place."""
    i, j = drawn.i, o.blocks[drawn.j]
    z = s.z
    g_i = o.partial(i, z)
    g_j = g_i if drawn.j == i else o.partial(drawn.j, z)
    scale = float(s.scale[0])
    Mx_hat = s.Mc + (p.xi - s.reach) * scale * s.Me
    s.y[:] = s.y + p.chi * p.s / p.N * (Mx_hat - o.b) - p.s_hat * o.forward(i, o.adjoint(i, s.y) + g_i)
    d = -p.t * (g_j + o.adjoint(drawn.j, s.y))
    Md = o.forward(drawn.j, d)
    e_moves = (1 + p.gamma) * p.omega - 1
    c_moves = (1 + p.gamma) * p.omega + (s.reach - 1) * e_moves
    s.scale[0] = p.gamma * scale
    e_moves = e_moves / (p.gamma * scale)
    s.c[j] += c_moves * d
    s.e[j] += e_moves * d
    s.Mc[:] += c_moves * Md
    s.Me[:] += e_moves * Md


def rebase(s: State) -> None:
    """Multiply ε by the power of γ, and reset that to 1."""
    for part in (s.e, s.Me):
        part *= float(s.scale[0])
    s.scale[0] = 1.0


def refresh(p: Parameters, o: Any, s: State) -> None:
    """Recompute Mc and Mε."""
    s.Mc[:], s.Me[:] = o.image(s.c), o.image(s.e)


class XSBCNonseparable(BlockMethod):
    """x-side stochastic block-coordinate method for an f that does not separate; with N = 1 it is x-DAPD."""

    name = "x-sbc-dapd-nonseparable"
    title = "x-SBC-DAPD (nonseparable)"
    reference = "Li and Grigas 2026, the appendix's last algorithm"
    separable = False
    record = Parameters
    settings = staticmethod(theory.x_sbc_nonseparable)
    first = staticmethod(init)
    update = staticmethod(step)
    refresh = staticmethod(refresh)
    rebase = staticmethod(rebase)

    @classmethod
    def check(cls, problem: Problem) -> None:
        """Also require partial gradients of a block, which are tried once."""
        super().check(problem)
        block = (problem.blocks or [])[0]
        found = np.shape(problem.f.block_grad(np.zeros(problem.columns, problem.dtype), block))
        if found != (block.stop - block.start,):
            raise ValueError(f"f.block_grad(x, {block}) has shape {found}, expected {(block.stop - block.start,)}")

    def _rebase(self, period: int) -> int:
        """The number of iterations after which the power of γ is multiplied into ε, well before it underflows."""
        if not 0 < self.parameters.gamma < 1:
            raise ValueError(f"parameters.gamma must lie between 0 and 1, found {self.parameters.gamma:g}")
        least = float(np.finfo(self.problem.dtype).tiny) ** 0.5
        return min(period, max(1, int(math.log(least) / math.log(self.parameters.gamma))))
