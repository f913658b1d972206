"""Proximal epochs: x-DAPD and y-DAPD with a slack u that makes their theorems hold for every convex problem.

Around a centre (x_k, y_k), with u_k = r·y_k/c and δ = r²/c, they solve

    min_{x,u} max_y  f(x) + (μ̂/2)‖x − x_k‖² + (c/2)‖u − u_k‖² + yᵀ(Mx + r·u − b) − φ(y).

The smooth part has the curvatures μ + μ̂ … L + μ̂ if c lies between them, and [M, r·I] has the singular values
r … √(s_max² + r²), whatever M is. The solution is the proximal-point step min_x max_y f(x) + (μ̂/2)‖x − x_k‖² +
yᵀ(Mx − b) − φ(y) − (δ/2)‖y − y_k‖². docs/restarts.md has the theorem that follows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from dapd import theory
from dapd.arrays import Array, Dual, Primal
from dapd.methods import x_dapd, y_dapd
from dapd.methods.base import Method


class Parameters(NamedTuple):
    """The theorem's parameters for the augmented problem, and what it is augmented by."""

    side: Any  # theory.XDapd or theory.YDapd
    mu: float  # μ̂
    c: float  # curvature along u
    r: float  # u's factor in the coupling

    @property
    def delta(self) -> float:
        """The weight of the proximal term of y."""
        return self.r * self.r / self.c

    @property
    def Pi(self) -> float:
        """Ψ of the augmented problem shrinks by the factor 1 − 1/Pi per iteration."""
        return float(self.side.Pi)


def parameters(*, L: float, mu: float, s_max: float, mu_hat: float, delta: float) -> tuple[type[Proximal], Parameters]:
    """The favoured side and its parameters; c is the mean of the curvatures at which neither side of u is worse."""
    most, least = L + mu_hat, mu + mu_hat
    c = math.sqrt(most * least)
    r = math.sqrt(delta * c)
    best = theory.favoured(L=most, mu=least, s_max=math.hypot(s_max, r), s_min=r)
    if best.method == "x-dapd":
        return XProximal, Parameters(best.x, mu_hat, c, r)
    return YProximal, Parameters(best.y, mu_hat, c, r)


class Pair:
    """(x, u), a primal vector of the augmented problem."""

    __array_ufunc__ = None  # NumPy's numbers leave arithmetic with a pair to the pair

    def __init__(self, x: Any, u: Any) -> None:
        self.x, self.u = x, u

    def __add__(self, other: Pair) -> Pair:
        return Pair(self.x + other.x, self.u + other.u)

    def __sub__(self, other: Pair) -> Pair:
        return Pair(self.x - other.x, self.u - other.u)

    def __rmul__(self, factor: Any) -> Pair:
        return Pair(factor * self.x, factor * self.u)


class Augmented:
    """The oracle of the augmented problem, made of the oracle of the given one."""

    def __init__(self, p: Parameters, oracle: Any, x_k: Any, u_k: Any) -> None:
        self.p, self.oracle, self.centre = p, oracle, Pair(x_k, u_k)
        self.b = oracle.b

    def grad(self, z: Pair) -> Pair:
        """The gradient of f(x) + (μ̂/2)‖x − x_k‖² + (c/2)‖u − u_k‖²."""
        away = z - self.centre
        return Pair(self.oracle.grad(z.x) + self.p.mu * away.x, self.p.c * away.u)

    def dual_step(self, v: Pair, base: Any, step: Any) -> tuple[Any, Pair]:
        """prox_{step·φ}(base + Mv + r·u) and [M, r·I]ᵀ of it."""
        y, Mty = self.oracle.dual_step(v.x, base + self.p.r * v.u, step)
        return y, self.image(y, Mty)

    def image(self, y: Any, Mty: Any) -> Pair:
        """[M, r·I]ᵀy."""
        return Pair(Mty, self.p.r * y)


class XState(NamedTuple):
    """One iterate of x-DAPD, and the centre."""

    x: Primal
    u: Dual
    z: Primal
    z_u: Dual
    y: Dual
    Mty: Primal
    x_k: Primal
    u_k: Dual


class YState(NamedTuple):
    """One iterate of y-DAPD, and the centre."""

    x: Primal
    u: Dual
    y: Dual
    w: Dual
    Mty: Primal
    Mtw: Primal
    x_k: Primal
    u_k: Dual


def x_init(p: Parameters, o: Any, x: Array, y: Array) -> XState:
    """Start at the centre; u = 0 solves its own part of the problem for y = y_k."""
    u_k = (p.r / p.c) * y
    u = 0 * u_k
    return XState(x, u, x, u, y, o.adjoint(y), x, u_k)


def x_step(p: Parameters, o: Any, s: XState) -> XState:
    """One iteration of x-DAPD on the augmented problem."""
    a = Augmented(p, o, s.x_k, s.u_k)
    n: Any = x_dapd.State(Pair(s.x, s.u), Pair(s.z, s.z_u), s.y, a.image(s.y, s.Mty))
    n = x_dapd.step(p.side, a, n)
    return XState(n.x.x, n.x.u, n.z.x, n.z.u, n.y, n.Mty.x, s.x_k, s.u_k)


def y_init(p: Parameters, o: Any, x: Array, y: Array) -> YState:
    """Start at the centre; u = 0 solves its own part of the problem for y = y_k."""
    u_k, Mty = (p.r / p.c) * y, o.adjoint(y)
    return YState(x, 0 * u_k, y, y, Mty, Mty, x, u_k)


def y_step(p: Parameters, o: Any, s: YState) -> YState:
    """One iteration of y-DAPD on the augmented problem."""
    a = Augmented(p, o, s.x_k, s.u_k)
    n: Any = y_dapd.State(Pair(s.x, s.u), s.y, s.w, a.image(s.y, s.Mty), a.image(s.w, s.Mtw))
    n = y_dapd.step(p.side, a, n)
    return YState(n.x.x, n.x.u, n.y, n.w, n.Mty.x, n.Mtw.x, s.x_k, s.u_k)


class Proximal(Method):
    """A proximal epoch around its start."""

    is_listed = False  # restarts alone use it

    reference = "Rockafellar 1976; Li and Grigas 2026"
    record = Parameters
    settings = staticmethod(parameters)


class XProximal(Proximal):
    """x-DAPD on the augmented problem."""

    name = "proximal x-dapd"
    title = "proximal x-DAPD"
    first = staticmethod(x_init)
    update = staticmethod(x_step)


class YProximal(Proximal):
    """y-DAPD on the augmented problem."""

    name = "proximal y-dapd"
    title = "proximal y-DAPD"
    first = staticmethod(y_init)
    update = staticmethod(y_step)


class Oracles(NamedTuple):
    """What a proximal-point step is measured with, on the host or on a device."""

    gradient: Callable[[Array], Array]
    prox: Callable[[Array, Any], Array]
    M: Any
    b: Array


def step_of(o: Oracles, mu: Any, delta: Any, x: Array, x_k: Array, y_k: Array) -> tuple[Array, list[Any]]:
    """The y that belongs to x, and the squares of v, of the sizes of its terms, of x − x_k and of y − y_k."""
    y = o.prox(y_k + (o.M.forward(x) - o.b) / delta, 1 / delta)
    grad, Mty, away = o.gradient(x), o.M.adjoint(y), x - x_k
    left, terms = grad + Mty + mu * away, abs(grad) + abs(Mty) + mu * (abs(x) + abs(x_k))
    return y, [v @ v for v in (left, terms, away, y - y_k)]
