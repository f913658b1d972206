"""The stochastic block-coordinate methods: their parameters."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from dapd.arguments import named
from dapd.arrays import Array
from dapd.theory.constants import checked_block_constants, x_constants, x_side, y_constants, y_side
from dapd.theory.saddle_point import SaddlePoint


class XSbc(NamedTuple):
    """x-SBC-DAPD (Algorithm 3, the corollary of its theorem in the appendix)."""

    t: float
    s: float
    s_hat: float
    chi: float
    xi: float
    gamma: float
    tau: float
    alpha: float
    Pi: float
    Xi_f: float
    Xi_y: float
    Xi_v: float
    N: int  # number of blocks

    def lyapunov(self, at: SaddlePoint, x: Array, v: Array, y: Array) -> Any:
        """Ψ at (x, v, y)."""
        dual = at.dual(y, (1 - 2 * self.alpha) * self.s_hat / self.N)
        return self.Xi_y * dual + self.Xi_f * at.bregman_f(x) + self.Xi_v * at.primal(v)


class XSbcNonseparable(NamedTuple):
    """x-SBC-DAPD for a nonseparable f (the appendix's last algorithm)."""

    t: float
    s: float
    s_hat: float
    chi: float
    xi: float
    gamma: float
    tau: float
    alpha: float
    omega: float  # how far z follows the block that moved
    Pi: float
    Xi_f: float
    Xi_y: float
    Xi_v: float
    N: int

    def lyapunov(self, at: SaddlePoint, x: Array, v: Array, y: Array) -> Any:
        """Ψ at (x, v, y), with the same terms as for x-SBC-DAPD."""
        return XSbc.lyapunov(self, at, x, v, y)  # type: ignore[arg-type]  # the same fields


class YSbc(NamedTuple):
    """y-SBC-DAPD (Algorithm 4, the corollary of its theorem in the appendix)."""

    t: float
    t_tilde: float
    s: float
    s_hat: float
    xi: float
    tau: float
    alpha: float
    Pi: float
    Xi_h: float
    Xi_u: float
    Xi_x: float
    N: int

    def lyapunov(self, at: SaddlePoint, x: Array, y: Array, u: Array) -> Any:
        """Ψ at (x, y, u)."""
        primal = at.primal(x) - 2 * (self.t - self.t_tilde) * at.bregman_f(x)
        dual = self.Xi_h * at.coupled(y) / 2 + self.Xi_u * at.dual(u, self.alpha * self.s_hat / self.N)
        return self.Xi_x * primal + dual


@named
def x_sbc(*, L: float, mu: float, s_bar_max: float, s_min: float, N: int, sharp: bool = False) -> XSbc:
    """Parameters of x-SBC-DAPD; L is the largest over the blocks.

    They are those of the corollary or, with `sharp`, those with the smallest Pi that the theorem allows.
    """
    L, mu, s_bar_max, ratio, N = checked_block_constants(L, mu, s_bar_max, s_min, N)
    if sharp:
        best = x_constants(ratio**2, L / mu)
        side = x_side(best.Lt / L, best.a / s_bar_max**2, best.rounds, 4 * best.alpha * best.Lt)
        return XSbc(alpha=best.alpha, Pi=N * best.rounds, Xi_f=1.0, N=N, **side)
    alpha = min(1 / 10, math.sqrt(4 / 7) * ratio * math.sqrt(mu / L))
    t = (1 - 8 * alpha) / (2 + 8 * alpha) / L
    round_Pi = max(ratio**2 * 16 / (7 * alpha), math.sqrt(14 * L / mu) + L / mu * 4 * alpha)
    side = x_side(t, 7 / 32 / s_bar_max**2, round_Pi, 4 * L * alpha * t)
    return XSbc(alpha=alpha, Pi=N * round_Pi, Xi_f=1.0, N=N, **side)


@named
def x_sbc_nonseparable(
    *, L: float, mu: float, s_bar_max: float, s_min: float, N: int, sharp: bool = False
) -> XSbcNonseparable:
    """Parameters of x-SBC-DAPD for a nonseparable f.

    The paper leaves alpha, beta and s_hat free here. We use those of the separable case, which satisfy its conditions,
    or with `sharp` those with the smallest Pi.
    """
    L, mu, s_bar_max, ratio, N = checked_block_constants(L, mu, s_bar_max, s_min, N)
    if sharp:
        best = x_constants(ratio**2, L / mu, N)
        alpha, s_hat, t, Pi = best.alpha, best.a / s_bar_max**2, best.Lt / L, N * best.rounds
    else:
        alpha = min(1 / 10, math.sqrt(4 / 7) * ratio * math.sqrt(mu / L))
        s_hat = 7 / 32 / s_bar_max**2
        t = (1 / 2 - 4 * alpha) / (L + 4 * L * alpha / N)
        Pi = N * max(ratio**2 * 16 / (7 * alpha), math.sqrt(1 / (mu * t)) + L / mu * 4 * alpha)
    side = x_side(t, s_hat, Pi, 4 * L * alpha / N * t)
    # v moves N times as far as in the separable case, and only one block of x moves
    Xi_v = N**2 * side.pop("Xi_v")
    chi = N * side.pop("chi")
    omega = (side["tau"] + side["xi"] / N) / ((1 + side["gamma"]) * (1 + side["tau"]))
    return XSbcNonseparable(alpha=alpha, omega=omega, Pi=Pi, Xi_f=1.0, Xi_v=Xi_v, chi=chi, N=N, **side)


@named
def y_sbc(*, L: float, mu: float, s_bar_max: float, s_min: float, N: int, sharp: bool = False) -> YSbc:
    """Parameters of y-SBC-DAPD; L and `sharp` are as for x-SBC-DAPD."""
    L, mu, s_bar_max, ratio, N = checked_block_constants(L, mu, s_bar_max, s_min, N)
    if sharp:
        best = y_constants(ratio**2, L / mu, N)
        Pi = N * best.rounds
        s_hat = 1 / (1 + 1 / best.beta) / s_bar_max**2
        return YSbc(tau=(best.xi - 1) / (1 - 1 / Pi), N=N, **y_side(L, s_hat, best.xi, Pi, best.alpha))
    xi = max(1 / (1 - math.sqrt(2 / 3)), math.sqrt(2) * ratio * math.sqrt(mu / L))
    Pi = N * max(8 / xi * ratio**2, 4 * xi * L / mu)
    return YSbc(tau=(xi - 1) / (1 - 1 / Pi), N=N, **y_side(L, 1 / 4 / s_bar_max**2, xi, Pi))
