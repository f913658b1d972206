"""x-DAPD and y-DAPD: their parameters, and which of them a problem favours."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from dapd.arguments import named
from dapd.arrays import Array
from dapd.theory.constants import checked_constants, x_alpha, x_rounds, x_side, y_side
from dapd.theory.saddle_point import SaddlePoint


class XDapd(NamedTuple):
    """x-DAPD (Algorithm 1, full version of Theorem 2.3 in the appendix)."""

    t: float  # primal step
    s: float  # dual step
    s_hat: float  # weight of the dual correction, 1/s_max²
    chi: float  # damping of the dual step
    xi: float  # extrapolation in the dual step
    gamma: float  # primal momentum
    tau: float  # v = (1 + tau)z − tau·x
    alpha: float
    Pi: float  # 1/(1 − rate)
    Xi_f: float  # weights of Ψ
    Xi_y: float
    Xi_v: float

    def lyapunov(self, at: SaddlePoint, x: Array, v: Array, y: Array) -> Any:
        """Ψ at (x, v, y)."""
        dual = at.dual(y, (1 - 2 * self.alpha) * self.s_hat)
        return self.Xi_y * dual + self.Xi_f * at.bregman_f(x) + self.Xi_v * at.primal(v)


class YDapd(NamedTuple):
    """y-DAPD (Algorithm 2, full version of Theorem 2.4 in the appendix)."""

    t: float
    t_tilde: float  # primal step
    s: float  # dual step
    s_hat: float  # weight of the dual correction, 1/s_max²
    xi: float
    gamma: float  # dual momentum: w = (1 + gamma)y⁺ − gamma·y
    tau: float  # u = (1 + tau)w − tau·y
    alpha: float
    Pi: float
    Xi_h: float
    Xi_u: float
    Xi_x: float

    def lyapunov(self, at: SaddlePoint, x: Array, y: Array, u: Array) -> Any:
        """Ψ at (x, y, u)."""
        primal = at.primal(x) - 2 * (self.t - self.t_tilde) * at.bregman_f(x)
        dual = self.Xi_h * at.coupled(y) / 2 + at.bregman_phi(y) / self.t
        return self.Xi_x * primal + dual + self.Xi_u * at.dual(u, self.alpha * self.s_hat)


@named
def x_dapd(*, L: float, mu: float, s_max: float, s_min: float, sharp: bool = False) -> XDapd:
    """Parameters of x-DAPD: those of the theorem or, with `sharp`, those with the smallest Pi that its proof allows."""
    L, mu, s_max, s_min = checked_constants(L, mu, s_max, s_min)
    ratio = s_max / s_min
    s_hat = 1 / s_max**2
    alpha = x_alpha(ratio**2, L / mu) if sharp else min(1 / 5, ratio * math.sqrt(mu / (8 * L)))
    t = (1 - 4 * alpha) / (L + 4 * L * alpha)
    smooth = x_rounds(alpha, L / mu) if sharp else math.sqrt(1 / (mu * t)) + L / mu * 4 * alpha
    Pi = max(ratio**2 / (2 * alpha), smooth)
    return XDapd(alpha=alpha, Pi=Pi, Xi_f=1.0, **x_side(t, s_hat, Pi, 4 * L * alpha * t))


@named
def y_dapd(*, L: float, mu: float, s_max: float, s_min: float) -> YDapd:
    """Parameters of y-DAPD."""
    L, mu, s_max, s_min = checked_constants(L, mu, s_max, s_min)
    ratio = s_max / s_min
    xi = max(1.0, ratio * math.sqrt(mu / (2 * L)))
    Pi = max(2 / xi * ratio**2, 4 * xi * L / mu)
    tau = (xi - 1) / (1 - 1 / Pi)
    return YDapd(gamma=(xi - 1) / (tau + 1), tau=tau, **y_side(L, 1 / s_max**2, xi, Pi))


class Side(NamedTuple):
    """Which deterministic method a problem favours."""

    method: str  # "x-dapd" or "y-dapd"
    factor: float  # how many times fewer iterations it needs than the other side, according to the theorems
    x: XDapd
    y: YDapd


@named
def favoured(*, L: float, mu: float, s_max: float, s_min: float) -> Side:
    """Compare the rates of x-DAPD and y-DAPD."""
    x = x_dapd(L=L, mu=mu, s_max=s_max, s_min=s_min)
    y = y_dapd(L=L, mu=mu, s_max=s_max, s_min=s_min)
    if x.Pi <= y.Pi:
        return Side("x-dapd", y.Pi / x.Pi, x, y)
    return Side("y-dapd", x.Pi / y.Pi, x, y)
