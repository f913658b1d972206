"""Parameters, rates and Lyapunov functions, theorem by theorem, in the paper's letters.

The source is Li and Grigas, "Direct Spectral Acceleration of First-Order Methods for Saddle Point Problems with
Bilinear Coupling" (2026), whose appendix holds the full settings. Every record that belongs to a theorem has its Pi:
Ψ shrinks by the factor 1 − 1/Pi per iteration (in expectation for the block-coordinate methods; CAPD: per outer one).
`counts` predicts the products and gradients of a number of iterations.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Protocol

import numpy as np

from dapd.arguments import named, number, whole
from dapd.arrays import Array
from dapd.theory.sharp import x_alpha, x_constants, x_rounds, y_constants


class SaddlePoint:
    """The distances from a solution (x*, y*) of a problem that make up the Lyapunov functions."""

    def __init__(self, problem: Any, x: Array, y: Array) -> None:
        self.problem, self.x, self.y = problem, x, y
        self._grad = problem.f.grad(x)
        self._slope = problem.M.forward(x) - problem.b  # g* ∈ ∂φ(y*)

    def bregman_f(self, x: Array) -> Any:
        """D_f(x, x*)."""
        f = self.problem.f
        return f.value(x) - f.value(self.x) - self._grad @ (x - self.x)

    def bregman_phi(self, y: Array) -> Any:
        """D_φ(y, y*)."""
        phi = self.problem.phi
        return phi.value(y) - phi.value(self.y) - self._slope @ (y - self.y)

    def primal(self, x: Array) -> Any:
        """‖x − x*‖²."""
        d = x - self.x
        return d @ d

    def coupled(self, y: Array) -> Any:
        """‖Mᵀ(y − y*)‖²."""
        d = self.problem.M.adjoint(y - self.y)
        return d @ d

    def dual(self, y: Array, c: Any) -> Any:
        """‖y − y*‖² in the norm of I − cMMᵀ."""
        d = y - self.y
        return d @ d - c * self.coupled(y)


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


class HasPi(Protocol):
    """A record that belongs to a theorem."""

    @property
    def Pi(self) -> float:
        """1/(1 − rate)."""


def iterations(parameters: HasPi, accuracy: float) -> float:
    """The number of iterations (CAPD: inner ones) after which the theorem guarantees Ψ ≤ accuracy·Ψ⁰."""
    accuracy = number("accuracy", accuracy, above=0.0)
    inner = parameters.N if isinstance(parameters, Capd) else 1
    if accuracy >= 1:
        return 0.0
    if math.isinf(parameters.Pi):
        return math.inf
    if parameters.Pi <= 1:  # one step suffices
        return float(inner)
    return float(inner * math.ceil(math.log(accuracy) / math.log1p(-1 / parameters.Pi)))


class Counts(NamedTuple):
    """What a method asks of a problem, as a `Result` counts it."""

    gradients: float  # of f, or of one block
    products: float  # with M and with Mᵀ, each counted
    block_products: float  # with one block of M or its transpose


@named
def counts(parameters: Any, iterations: float, *, stored_gram: bool = True, shared_sample: bool = False) -> Counts:
    """Predict the gradients and products of a number of iterations, without those of the start.

    Parameters
    ----------
    parameters : record of `dapd.theory`
    iterations : float
        For CAPD inner ones, as everywhere.
    stored_gram : bool
        Whether y-SBC-DAPD stores MMᵀ, so moving its anchor takes no product. Otherwise that takes 2N of them with
        probability 1/N: the paper counts 6 per iteration instead of 4.
    shared_sample : bool
        Whether both steps of a block-coordinate method draw the same block.
    """
    k = number("iterations", iterations, least=0.0)
    if isinstance(parameters, XSbcNonseparable):  # one partial gradient if both steps draw the same block, else two
        return Counts(k if shared_sample else (2 - 1 / parameters.N) * k, 0, 4 * k)
    if isinstance(parameters, XSbc | YSbc):
        anchor = 0 if stored_gram or isinstance(parameters, XSbc) else 2
        return Counts(k, 0, (4 + anchor) * k)
    return Counts(k / parameters.N if isinstance(parameters, Capd) else k, 2 * k, 0)


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


@named
def x_dapd(*, L: float, mu: float, s_max: float, s_min: float, sharp: bool = False) -> XDapd:
    """Parameters of x-DAPD: those of the theorem or, with `sharp`, those with the smallest Pi that its proof allows."""
    L, mu, s_max, s_min = _constants(L, mu, s_max, s_min)
    ratio = s_max / s_min
    s_hat = 1 / s_max**2
    alpha = x_alpha(ratio**2, L / mu) if sharp else min(1 / 5, ratio * math.sqrt(mu / (8 * L)))
    t = (1 - 4 * alpha) / (L + 4 * L * alpha)
    smooth = x_rounds(alpha, L / mu) if sharp else math.sqrt(1 / (mu * t)) + L / mu * 4 * alpha
    Pi = max(ratio**2 / (2 * alpha), smooth)
    return XDapd(alpha=alpha, Pi=Pi, Xi_f=1.0, **_x_side(t, s_hat, Pi, 4 * L * alpha * t))


@named
def y_dapd(*, L: float, mu: float, s_max: float, s_min: float) -> YDapd:
    """Parameters of y-DAPD."""
    L, mu, s_max, s_min = _constants(L, mu, s_max, s_min)
    ratio = s_max / s_min
    xi = max(1.0, ratio * math.sqrt(mu / (2 * L)))
    Pi = max(2 / xi * ratio**2, 4 * xi * L / mu)
    tau = (xi - 1) / (1 - 1 / Pi)
    return YDapd(gamma=(xi - 1) / (tau + 1), tau=tau, **_y_side(L, 1 / s_max**2, xi, Pi))


@named
def x_sbc(*, L: float, mu: float, s_bar_max: float, s_min: float, N: int, sharp: bool = False) -> XSbc:
    """Parameters of x-SBC-DAPD; L is the largest over the blocks.

    They are those of the corollary or, with `sharp`, those with the smallest Pi that the theorem allows.
    """
    L, mu, s_bar_max, s_min, N = _block_constants(L, mu, s_bar_max, s_min, N)
    ratio = s_bar_max / s_min
    if sharp:
        best = x_constants(ratio**2, L / mu)
        side = _x_side(best.Lt / L, best.a / s_bar_max**2, best.rounds, 4 * best.alpha * best.Lt)
        return XSbc(alpha=best.alpha, Pi=N * best.rounds, Xi_f=1.0, N=N, **side)
    alpha = min(1 / 10, math.sqrt(4 / 7) * ratio * math.sqrt(mu / L))
    t = (1 - 8 * alpha) / (2 + 8 * alpha) / L
    round_Pi = max(ratio**2 * 16 / (7 * alpha), math.sqrt(14 * L / mu) + L / mu * 4 * alpha)
    side = _x_side(t, 7 / 32 / s_bar_max**2, round_Pi, 4 * L * alpha * t)
    return XSbc(alpha=alpha, Pi=N * round_Pi, Xi_f=1.0, N=N, **side)


@named
def x_sbc_nonseparable(
    *, L: float, mu: float, s_bar_max: float, s_min: float, N: int, sharp: bool = False
) -> XSbcNonseparable:
    """Parameters of x-SBC-DAPD for a nonseparable f.

    The paper leaves alpha, beta and s_hat free here. We use those of the separable case, which satisfy its conditions,
    or with `sharp` those with the smallest Pi.
    """
    L, mu, s_bar_max, s_min, N = _block_constants(L, mu, s_bar_max, s_min, N)
    ratio = s_bar_max / s_min
    if sharp:
        best = x_constants(ratio**2, L / mu, N)
        alpha, s_hat, t, Pi = best.alpha, best.a / s_bar_max**2, best.Lt / L, N * best.rounds
    else:
        alpha = min(1 / 10, math.sqrt(4 / 7) * ratio * math.sqrt(mu / L))
        s_hat = 7 / 32 / s_bar_max**2
        t = (1 / 2 - 4 * alpha) / (L + 4 * L * alpha / N)
        Pi = N * max(ratio**2 * 16 / (7 * alpha), math.sqrt(1 / (mu * t)) + L / mu * 4 * alpha)
    side = _x_side(t, s_hat, Pi, 4 * L * alpha / N * t)
    # v moves N times as far as in the separable case, and only one block of x moves
    Xi_v = N**2 * side.pop("Xi_v")
    chi = N * side.pop("chi")
    omega = (side["tau"] + side["xi"] / N) / ((1 + side["gamma"]) * (1 + side["tau"]))
    return XSbcNonseparable(alpha=alpha, omega=omega, Pi=Pi, Xi_f=1.0, Xi_v=Xi_v, chi=chi, N=N, **side)


@named
def y_sbc(*, L: float, mu: float, s_bar_max: float, s_min: float, N: int, sharp: bool = False) -> YSbc:
    """Parameters of y-SBC-DAPD; L is the largest over the blocks.

    They are those of the corollary or, with `sharp`, those with the smallest Pi that the theorem allows.
    """
    L, mu, s_bar_max, s_min, N = _block_constants(L, mu, s_bar_max, s_min, N)
    ratio = s_bar_max / s_min
    if sharp:
        best = y_constants(ratio**2, L / mu, N)
        Pi = N * best.rounds
        s_hat = 1 / (1 + 1 / best.beta) / s_bar_max**2
        return YSbc(tau=(best.xi - 1) / (1 - 1 / Pi), N=N, **_y_side(L, s_hat, best.xi, Pi, best.alpha))
    xi = max(1 / (1 - math.sqrt(2 / 3)), math.sqrt(2) * ratio * math.sqrt(mu / L))
    Pi = N * max(8 / xi * ratio**2, 4 * xi * L / mu)
    return YSbc(tau=(xi - 1) / (1 - 1 / Pi), N=N, **_y_side(L, 1 / 4 / s_bar_max**2, xi, Pi))


@named
def papc(*, L: float, mu: float, s_max: float, s_min: float = 0.0) -> Papc:
    """Parameters of PAPC; only the rate depends on mu and s_min."""
    L, mu, s_max, s_min = _constants(L, mu, s_max, s_min, independent=False)
    progress = min(1 - (1 - mu / L) ** 2, (s_min / s_max) ** 2)
    return Papc(t=1 / L, s=L / s_max**2, Pi=1 / progress if progress > 0 else math.inf)


@named
def condat_vu(*, L: float, mu: float, s_max: float, s_min: float = 0.0) -> CondatVu:
    """Parameters of Condat–Vũ, which depend only on L and s_max."""
    L, mu, s_max, s_min = _constants(L, mu, s_max, s_min, independent=False)
    return CondatVu(t=1 / L, s=L / (2 * s_max**2))


@named
def apapc(*, L: float, mu: float, s_max: float, s_min: float) -> Apapc:
    """Parameters of accelerated PAPC."""
    L, mu, s_max, s_min = _constants(L, mu, s_max, s_min)
    tau = min(1.0, 0.5 * s_max / s_min * math.sqrt(mu / L))
    eta = 1 / (4 * tau * L)
    Pi = 1 + 4 * s_max / s_min * max(math.sqrt(L / mu), s_max / s_min)
    return Apapc(tau=tau, eta=eta, theta=1 / (eta * s_max**2), alpha=mu, Pi=Pi)


@named
def capd(*, L: float, mu: float, s_max: float, s_min: float) -> Capd:
    """Parameters of CAPD."""
    L, mu, s_max, s_min = _constants(L, mu, s_max, s_min)
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


def _x_side(t: float, s_hat: float, Pi: float, excess: float) -> dict[str, float]:
    """What the x-side theorems share; `excess` is their 4Lαt. If f is separable, Pi counts rounds of N iterations."""
    xi = (1 + excess) / (1 / Pi + excess)
    tau = (xi - 1) / (1 - 1 / Pi)
    Xi_v = (1 + excess) / (2 * xi**2 * t)
    s = s_hat / t
    return {
        "t": t, "s": s, "s_hat": s_hat, "xi": xi, "tau": tau, "gamma": (xi - 1) / (tau + 1),
        "chi": 2 * Xi_v * xi * t, "Xi_y": 1 / (2 * s), "Xi_v": Xi_v,
    }  # fmt: skip


def _y_side(L: float, s_hat: float, xi: float, Pi: float, alpha: float = 0.5) -> dict[str, float]:
    """What the y-side theorems share."""
    t = 1 / (2 * L)
    return {
        "t": t, "t_tilde": alpha * t / xi, "s": s_hat / t, "s_hat": s_hat, "xi": xi, "alpha": alpha, "Pi": Pi,
        "Xi_h": 1.0, "Xi_u": 1 / (2 * xi**2 * s_hat), "Xi_x": 1 / (2 * alpha * t**2),
    }  # fmt: skip


def _positive(**values: Any) -> list[float]:
    return [number(name, value, above=0.0) for name, value in values.items()]


def _constants(L: Any, mu: Any, s_max: Any, s_min: Any, *, independent: bool = True) -> list[float]:
    L, s_max = _positive(L=L, s_max=s_max)
    if independent:
        mu, s_min = _positive(mu=mu, s_min=s_min)
    else:
        mu, s_min = number("mu", mu, least=0.0), number("s_min", s_min, least=0.0)
    _ordered(L=L, mu=mu)
    _ordered(s_max=s_max, s_min=s_min)
    return [L, mu, s_max, s_min]


def _block_constants(L: Any, mu: Any, s_bar_max: Any, s_min: Any, N: Any) -> tuple[float, float, float, float, int]:
    L, mu, s_bar_max, s_min = _positive(L=L, mu=mu, s_bar_max=s_bar_max, s_min=s_min)
    _ordered(L=L, mu=mu)
    N = whole("N", N, least=1)
    if s_bar_max * np.sqrt(N) < s_min * (1 - 1e-12):
        raise ValueError(
            f"s_bar_max·√N = {s_bar_max * N**0.5:g} must be >= s_min = {s_min:g}, since ‖M‖² <= N·s_bar_max²"
        )
    return L, mu, s_bar_max, s_min, N


def _ordered(**pair: float) -> None:
    (upper, high), (lower, low) = pair.items()
    if high < low:
        raise ValueError(f"{upper} must be >= {lower}, found {upper} = {high:g} and {lower} = {low:g}")
