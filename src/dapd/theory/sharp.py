"""The free constants of the theorems, chosen to minimise Π rather than as in the paper.

Rounds are Π/N, for r² = (s_bar_max/s_min)² (s_max if there are no blocks) and κ = L/μ.
"""

from __future__ import annotations

import math
from typing import NamedTuple


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
