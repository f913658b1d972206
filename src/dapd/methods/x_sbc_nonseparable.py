"""x-SBC-DAPD for an f that does not separate: block partial gradients, and momentum in every block."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from dapd import theory
from dapd.arrays import Array
from dapd.kernels.block_function import BlockFunctions, Coupled, couple, tabulate, uncoupled
from dapd.kernels.block_matrix import BlockMatrix, pack, product
from dapd.kernels.x_sbc_nonseparable import chunk
from dapd.methods.block import BlockMethod, Draw
from dapd.operators import pieces
from dapd.problem import Problem
from dapd.smooth import PseudoHuber

Parameters = theory.XSbcNonseparable


class State(NamedTuple):
    """One iterate, in the paper's variables."""

    x: Array
    z: Array  # x with momentum, where the gradients are taken
    y: Array
    Mx: Array
    Mz: Array
    k: int  # iterations so far


class Lazy(NamedTuple):
    """The same iterate in variables that change in one block an iteration; see the kernel."""

    p: Array
    e: Array
    y: Array
    Mp: Array
    Me: Array
    Ap: Array
    Ae: Array
    scale: Array  # one number, the power of γ that e lacks
    reach: float  # 1/(1 − γ)
    k: int

    @property
    def x(self) -> Array:
        """The paper's x."""
        return self.p - self.reach * float(self.scale[0]) * self.e

    @property
    def z(self) -> Array:
        """The paper's z."""
        return self.p - (self.reach - 1) * float(self.scale[0]) * self.e


def init(p: Parameters, o: Any, x: Array, y: Array) -> State:
    """x⁰ = z⁰ = v⁰."""
    Mx = o.image(x)
    return State(x.copy(), x.copy(), y.copy(), Mx, Mx.copy(), 0)


def step(p: Parameters, o: Any, s: State, drawn: Draw) -> None:
    """One iteration of the appendix's last algorithm, in place; momentum makes it O(m) beside the block products."""
    i, j = drawn.i, o.blocks[drawn.j]
    g_i = o.partial(i, s.z)
    g_j = g_i if drawn.j == i else o.partial(drawn.j, s.z)
    Mx_hat = p.xi * s.Mz - (p.xi - 1) * s.Mx
    s.y[:] = s.y + p.chi * p.s / p.N * (Mx_hat - o.b) - p.s_hat * o.forward(i, o.adjoint(i, s.y) + g_i)
    d = -p.t * (g_j + o.adjoint(drawn.j, s.y))
    Md = o.forward(drawn.j, d)
    x, Mx = s.z.copy(), s.Mz + Md
    x[j] += d
    s.z[:] = (1 + p.gamma) * (s.z + p.omega * (x - s.z)) - p.gamma * s.x
    s.Mz[:] = (1 + p.gamma) * (s.Mz + p.omega * Md) - p.gamma * s.Mx
    s.x[:], s.Mx[:] = x, Mx


def refresh(p: Parameters, o: Any, s: State) -> None:
    """Mx and Mz afresh."""
    s.Mx[:], s.Mz[:] = o.image(s.x), o.image(s.z)


class PackedCoupled(NamedTuple):
    """A problem in the layout of the kernel: f is in the table, or coupled."""

    M: BlockMatrix
    f: BlockFunctions | None
    b: Array
    coupled: Coupled


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
    chunk = staticmethod(chunk)

    @classmethod
    def check(cls, problem: Problem) -> None:
        """Block partial gradients, tried once."""
        super().check(problem)
        block = (problem.blocks or [])[0]
        found = np.shape(problem.f.block_grad(np.zeros(problem.columns, problem.dtype), block))
        if found != (block.stop - block.start,):
            raise ValueError(f"f.block_grad(x, {block}) has shape {found}, expected {(block.stop - block.start,)}")

    def _pack(self) -> Any:
        """With f as a table of blocks where it separates, else as one function of Hx or Ax."""
        f, dtype = self.problem.f, self.problem.dtype
        matrices = pieces(self.problem.M, self.blocks)
        table = None if self.functions is None else tabulate(self.functions, self.blocks, dtype)
        coupled = couple(f, self.blocks, dtype) if table is None else uncoupled(self.blocks, dtype)
        if matrices is None or coupled is None:
            return None
        unread = tabulate([PseudoHuber(1.0)] * len(self.blocks), self.blocks, dtype)
        return PackedCoupled(pack(matrices, dtype), table or unread, self.oracle.b, coupled)

    def init(self) -> Any:
        """The first state; x⁰ = z⁰, so e = 0."""
        s = super().init()
        if not self.compiled:
            return s
        A = self.packed.coupled.matrix
        Ap = np.zeros(int(A.rows.max()), self.problem.dtype)
        product(A, s.x, Ap)
        e, Me, Ae = (np.zeros_like(part) for part in (s.x, s.Mx, Ap))
        return Lazy(s.x, e, s.y, s.Mx, Me, Ap, Ae, np.ones(1), 1 / (1 - self.parameters.gamma), 0)

    def _rebase(self, period: int) -> int:
        """Iterations after which the power of γ goes back into e, well before it underflows."""
        least = float(np.finfo(self.problem.dtype).tiny) ** 0.5
        return min(period, max(1, int(math.log(least) / math.log(self.parameters.gamma))))
