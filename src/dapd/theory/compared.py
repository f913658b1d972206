"""The methods that the paper compares with: their parameters."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from dapd.arguments import named, number
from dapd.arrays import Array
from dapd.theory.constants import checked_constants
from dapd.theory.saddle_point import SaddlePoint

SURE = 0.98  # part of the longest steps of r²HPDHG at which their norm is surely one


class Papc(NamedTuple):
    """PAPC with t = 1/L, s = 1/(t·s_max²).

    From ‖x⁺−x*‖² + (t/s)‖y⁺−y*‖² ≤ ‖(x−t∇f(x)) − (x*−t∇f(x*))‖² + (t/s)‖y−y*‖² in the norm of I − stMMᵀ, the rate is
    max((1 − tμ)², 1 − st·s_min²).
    """

    t: float
    s: float
    Pi: float  # inf if the rows of M are dependent: then the method converges without a rate

    def lyapunov(self, at: SaddlePoint, x: Array, y: Array) -> Any:
        """Ψ at (x, y)."""
        return at.primal(x) + self.t / self.s * at.dual(y, 0)


class CondatVu(NamedTuple):
    """Condat–Vũ without a primal prox, with the largest step sizes, 1/t − s·s_max² = L/2."""

    t: float
    s: float


class R2Hpdhg(NamedTuple):
    """r²HPDHG: with weight w, s = √0.98·w/s_max and 1/t = L + s·s_max²/0.98, where L is that of the linearised part.

    For a saddle point z* and every k, ‖z_k − T(z_k)‖ ≤ 2‖z₀ − z*‖/((1 + ρ)(k + 1)) in the norm of
    [[1/t, −Mᵀ], [−M, 1/s]], k steps after the anchor z₀ (Lieder 2021). There is no rate for the distance to z*.
    """

    t: float
    s: float
    rho: float  # how far steps are reflected: 1, or 1/2 if a part of f is linearised
    L: float
    s_max: float
    weight: float


class Apapc(NamedTuple):
    """Accelerated PAPC (Salim et al. 2022, Algorithm 3), with a prox in the dual step if φ is not zero.

    The rate 1/(1 + min(1/√(κχ), 1/χ)/4) of its Proposition 1 holds for every φ: the prox adds the scalar product of
    y⁺ − y* with a difference of subgradients, which is not negative. As for x-DAPD, M then needs full row rank.
    """

    tau: float
    eta: float  # primal step
    theta: float  # dual step
    alpha: float  # μ
    Pi: float

    def lyapunov(self, at: SaddlePoint, x: Array, x_f: Array, y: Array) -> Any:
        """Ψ at (x, x_f, y)."""
        coupled = self.eta / (1 + self.eta * self.alpha) - min(self.eta / 4, self.tau * self.eta / 2)
        dual = at.dual(y, coupled * self.theta) / self.theta
        primal = (1 / self.eta + self.alpha) * at.primal(x)
        return primal + dual + (2 - self.tau) / self.tau * at.bregman_f(x_f)


class Capd(NamedTuple):
    """CAPD (Salim et al. 2022, Algorithm 1): accelerated PAPC on a Chebyshev polynomial of MᵀM."""

    tau: float
    eta: float
    theta: float
    alpha: float
    N: int  # inner Chebyshev iterations
    rho: float  # (λmax − λmin)²/16 of MᵀM's positive spectrum
    nu: float  # (λmax + λmin)/2
    Pi: float  # of outer iterations


@named
def papc(*, L: float, mu: float, s_max: float, s_min: float = 0.0) -> Papc:
    """Parameters of PAPC; only the rate depends on mu and s_min."""
    L, mu, s_max, s_min = checked_constants(L, mu, s_max, s_min, independent=False)
    progress = min(1 - (1 - mu / L) ** 2, (s_min / s_max) ** 2)
    return Papc(t=1 / L, s=L / s_max**2, Pi=1 / progress if progress > 0 else math.inf)


@named
def condat_vu(*, L: float, mu: float, s_max: float, s_min: float = 0.0) -> CondatVu:
    """Parameters of Condat–Vũ, which depend only on L and s_max."""
    L, mu, s_max, s_min = checked_constants(L, mu, s_max, s_min, independent=False)
    return CondatVu(t=1 / L, s=L / (2 * s_max**2))


@named
def r2hpdhg(*, L: float, s_max: float, weight: float = 1.0, s_min: float = 0.0) -> R2Hpdhg:
    """Parameters of r²HPDHG for an L, perhaps zero, of what is linearised, and a weight of y against x."""
    L = number("L", L, least=0.0)
    s_max, weight = number("s_max", s_max, above=0.0), number("weight", weight, above=0.0)
    return r2hpdhg_steps(L, s_max, weight, SURE**0.5, 0.5 if L > 0 else 1.0)


def r2hpdhg_steps(L: Any, s_max: Any, weight: Any, step: Any, rho: Any) -> R2Hpdhg:
    """The parameters for any product of t and s, step² but for L; of many problems, an array for each."""
    return R2Hpdhg(1 / (L + weight * s_max / step), step * weight / s_max, rho, L, s_max, weight)


@named
def apapc(*, L: float, mu: float, s_max: float, s_min: float) -> Apapc:
    """Parameters of accelerated PAPC."""
    L, mu, s_max, s_min = checked_constants(L, mu, s_max, s_min)
    tau = min(1.0, 0.5 * s_max / s_min * math.sqrt(mu / L))
    eta = 1 / (4 * tau * L)
    Pi = 1 + 4 * s_max / s_min * max(math.sqrt(L / mu), s_max / s_min)
    return Apapc(tau=tau, eta=eta, theta=1 / (eta * s_max**2), alpha=mu, Pi=Pi)


@named
def capd(*, L: float, mu: float, s_max: float, s_min: float) -> Capd:
    """Parameters of CAPD."""
    L, mu, s_max, s_min = checked_constants(L, mu, s_max, s_min)
    tau = min(1.0, 0.5 * math.sqrt(19 / 15 * mu / L))
    eta = 1 / (4 * tau * L)
    # the margin keeps the 1000 of a ratio that is a bound, 1.1e-7 too large, from becoming 1001. N may be 0.17 % less
    # than the ratio: the positive eigenvalues of the polynomial then still lie in [11/15, 19/15]
    N = max(1, math.ceil(s_max / s_min * (1 - 1e-6)))
    theta, high, low = 15 / (19 * eta), s_max**2, s_min**2
    least = 1 - 1 / math.cosh(min(700.0, N * math.acosh((high + low) / (high - low)))) if high > low else 1.0
    # how much each term of Ψ shrinks, as for accelerated PAPC with this polynomial instead of MᵀM
    shrink = min(eta * mu, tau / (2 - 2 * tau), theta * least * eta * min(1 / 4, tau / 2))
    return Capd(
        tau=tau, eta=eta, theta=theta, alpha=mu, N=N, rho=(high - low) ** 2 / 16, nu=(high + low) / 2, Pi=1 + 1 / shrink
    )
