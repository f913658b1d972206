"""The checked constants of a problem, what the theorems of each side make of them, and the free ones at their best."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from dapd.arguments import number, whole


def checked_constants(L: Any, mu: Any, s_max: Any, s_min: Any, *, independent: bool = True) -> list[float]:
    """L, mu, s_max and s_min, all positive; mu and s_min may be 0 unless `independent`."""
    L, s_max = _positive(L=L, s_max=s_max)
    if independent:
        mu, s_min = _positive(mu=mu, s_min=s_min)
    else:
        mu, s_min = number("mu", mu, least=0.0), number("s_min", s_min, least=0.0)
    _ordered(L=L, mu=mu)
    _ordered(s_max=s_max, s_min=s_min)
    return [L, mu, s_max, s_min]


def checked_block_constants(
    L: Any, mu: Any, s_bar_max: Any, s_min: Any, N: Any
) -> tuple[float, float, float, float, int]:
    """L, mu, s_bar_max, s_bar_max/s_min and N of a block-coordinate method, all positive."""
    L, mu, s_bar_max, s_min = _positive(L=L, mu=mu, s_bar_max=s_bar_max, s_min=s_min)
    _ordered(L=L, mu=mu)
    N = whole("N", N, least=1)
    if s_bar_max * np.sqrt(N) < s_min * (1 - 1e-12):
        raise ValueError(
            f"s_bar_max·√N = {s_bar_max * N**0.5:g} must be >= s_min = {s_min:g}, since ‖M‖² <= N·s_bar_max²"
        )
    return L, mu, s_bar_max, s_bar_max / s_min, N


def x_side(t: float, s_hat: float, Pi: float, excess: float) -> dict[str, float]:
    """What the x-side theorems share; `excess` is their 4Lαt. If f is separable, Pi counts rounds of N iterations."""
    xi = (1 + excess) / (1 / Pi + excess)
    tau = (xi - 1) / (1 - 1 / Pi)
    Xi_v = (1 + excess) / (2 * xi**2 * t)
    s = s_hat / t
    return {
        "t": t, "s": s, "s_hat": s_hat, "xi": xi, "tau": tau, "gamma": (xi - 1) / (tau + 1),
        "chi": 2 * Xi_v * xi * t, "Xi_y": 1 / (2 * s), "Xi_v": Xi_v,
    }  # fmt: skip


def y_side(L: float, s_hat: float, xi: float, Pi: float, alpha: float = 0.5) -> dict[str, float]:
    """What the y-side theorems share."""
    t = 1 / (2 * L)
    return {
        "t": t, "t_tilde": alpha * t / xi, "s": s_hat / t, "s_hat": s_hat, "xi": xi, "alpha": alpha, "Pi": Pi,
        "Xi_h": 1.0, "Xi_u": 1 / (2 * xi**2 * s_hat), "Xi_x": 1 / (2 * alpha * t**2),
    }  # fmt: skip


def _positive(**values: Any) -> list[float]:
    return [number(name, value, above=0.0) for name, value in values.items()]


def _ordered(**pair: float) -> None:
    (upper, high), (lower, low) = pair.items()
    if high < low:
        raise ValueError(f"{upper} must be >= {lower}, found {upper} = {high:g} and {lower} = {low:g}")


class XConstants(NamedTuple):
    """The constants of x-SBC-DAPD: the dual condition 1 − a − 2(1+β)a² ≥ 0 holds with equality."""

    alpha: float
    a: float  # ŝ·s_bar_max²
    Lt: float  # L·t = (1 − 4α − 2(1 + 1/β)a)/(1 + 4α/n), with n = N if f is not separable, otherwise 1
    rounds: float  # max(r²/(2αa), √(κ/(Lt)) + 4ακ)


class YConstants(NamedTuple):
    """The constants of y-SBC-DAPD: ξ(ξ−1) ≥ α(1+τ)(ξ−1) + βξ² holds with equality."""

    alpha: float
    beta: float
    xi: float
    rounds: float  # max((1 + 1/β)r²/(ξ(1−α)), 2ξκ/α)


def x_rounds(alpha: float, kappa: float) -> float:
    """The least Π for which the proof of x-DAPD's theorem has Πξμt ≥ 1."""
    Lt = (1 - 4 * alpha) / (1 + 4 * alpha)
    excess, mu_t = 4 * alpha * Lt, Lt / kappa
    return (excess + math.sqrt(excess**2 + 4 * mu_t * (1 + excess))) / (2 * mu_t * (1 + excess))


def x_alpha(r2: float, kappa: float) -> float:
    """The α of x-DAPD at which both terms of Π are equal, or the largest that keeps the primal step from vanishing."""
    from scipy.optimize import brentq  # slow to import, and rarely needed

    def excess(log: float) -> float:
        alpha = math.exp(log)
        return math.log(x_rounds(alpha, kappa)) - math.log(r2 / (2 * alpha))

    most = math.log(0.9 / 4)
    return math.exp(most if excess(most) < 0 else brentq(excess, -200.0, most, xtol=1e-12))


def x_constants(r2: float, kappa: float, n: int = 1) -> XConstants:
    """Minimise the rounds: for each a take the α at which both terms are equal, then the best a."""
    from scipy.optimize import brentq, minimize_scalar  # slow to import, and rarely needed

    def room(a: float) -> float:
        beta = (1 - a) / (2 * a * a) - 1
        return 1 - 2 * (1 + 1 / beta) * a

    def at(a: float) -> XConstants:
        def Lt(alpha: float) -> float:
            return (room(a) - 4 * alpha) / (1 + 4 * alpha / n)

        def excess(alpha: float) -> float:
            return math.sqrt(kappa / Lt(alpha)) + 4 * alpha * kappa - r2 / (2 * alpha * a)

        # a larger α makes the primal step vanish and gains little
        alpha = 0.9 * room(a) / 4
        if excess(alpha) > 0:
            low = 1e-15 * alpha
            while excess(low) > 0:  # if κ is very large, the terms are equal at a smaller α
                low *= 1e-15
            alpha = float(brentq(excess, low, alpha, xtol=1e-300, rtol=1e-12))
        rounds = max(r2 / (2 * alpha * a), math.sqrt(kappa / Lt(alpha)) + 4 * alpha * kappa)
        return XConstants(alpha, a, Lt(alpha), rounds)

    most = brentq(room, 0.1, 0.4)
    found = minimize_scalar(lambda a: at(a).rounds, bounds=(1e-3, most * (1 - 1e-6)), method="bounded")
    return at(float(found.x))


def y_constants(r2: float, kappa: float, N: int) -> YConstants:
    """Minimise the rounds: for each α take the ξ at which both terms are equal, then the best α."""
    from scipy.optimize import brentq, minimize_scalar

    def terms(alpha: float, beta: float, xi: float) -> tuple[float, float]:
        return (1 + 1 / beta) * r2 / (xi * (1 - alpha)), 2 * xi * kappa / alpha

    def at(alpha: float) -> YConstants:
        def excess(log: float) -> float:
            # 1 + τ = ξ up to a term of order 1/Π
            coupling, smooth = terms(alpha, (1 - alpha) * math.exp(log) / (1 + math.exp(log)), 1 + math.exp(log))
            return math.log(coupling / smooth)

        # if one term dominates in this whole range, its end is as good as the ξ at which they are equal
        low, high = -30.0, 50.0
        meeting = low if excess(low) < 0 else high if excess(high) > 0 else brentq(excess, low, high)
        xi = 1 + math.exp(meeting)
        guess = max(terms(alpha, (1 - alpha) * (xi - 1) / xi, xi))
        # τ for a Π that is at most the final one, so the condition holds with a margin of order 1/Π
        tau = (xi - 1) / (1 - 1 / (N * guess))
        beta = (xi - 1) * (xi - alpha * (1 + tau)) / xi**2
        return YConstants(alpha, beta, xi, max(terms(alpha, beta, xi)))

    found = minimize_scalar(lambda alpha: at(alpha).rounds, bounds=(0.01, 0.99), method="bounded")
    return at(float(found.x))
