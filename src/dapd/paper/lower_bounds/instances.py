"""The hard instances of min f(x) subject to Mx = 0: one chain (`affine`) or N copies of it (`block`)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse as sp

from dapd import Problem, Quadratic, Spectrum
from dapd.arguments import named, number, whole
from dapd.paper.lower_bounds.chain import LOSS, Bounded, Chain, distance_to_one, representable, zero_chain

ACCURACY = 1e-6  # relative to ‖y*‖: the accuracy that the bound reaches if n is not given
MOST = 10**8  # rows that are made without an explicit n: about 30 GB
RATIO = "(L/mu)·(s_max/s_min)²"


class HardProblem(Bounded, Problem):
    """min (L/2)‖x₁‖² + (μ/2)‖x₂‖² − hᵀx₂ subject to −s_min·x₁ + ŝAx₂ = 0, in N copies; h = ŝ(1 − q)𝟙.

    A `Problem` with its solution (`x_star`, `y_star`), its `spectrum` and lower bounds for every method: `bound`,
    `iterations_needed` and `tail`. It has the paper's `alpha`, `q` and `s_hat` (ŝ).
    """

    def __init__(self, L: float, mu: float, s_max: float, s_min: float, n: int | None, N: int) -> None:
        L, mu, s_max, s_min = _constants(L, mu, s_max, s_min)
        N = whole("N", N, least=1)
        if n is None:
            n = affordable(N * dimension(L=L, mu=mu, s_max=s_max, s_min=s_min), ACCURACY, "pass n=")
        n = whole("n", n, least=N)
        if n % N:
            raise ValueError(f"n must be a multiple of N = {N}, found {n}; use {n - n % N} or {n - n % N + N}")
        copy = n // N
        self.s_hat = half_width(s_max, s_min)
        self.alpha = _alpha(L, mu, s_max, s_min)
        self.concavity = representable("s_min²/L", s_min / L * s_min)
        chain = Chain(1 / self.alpha, copy, RATIO)
        self.q, self.theta = chain.q, chain.theta
        y = chain.solution()
        H = np.repeat([L, mu], copy)
        c = np.repeat([0.0, self.s_hat * chain.gap], copy)
        x = np.concatenate([s_min / L * y, representable("s_max/mu", self.s_hat / mu) * chain.complement()])
        M = sp.hstack([sp.diags_array(np.full(copy, -s_min)), self.s_hat * zero_chain(copy)], format="csr")
        Problem.__init__(
            self,
            Quadratic(np.tile(H, N), np.tile(c, N)),
            M if N == 1 else sp.kron(sp.eye_array(N), M, format="csr"),
            np.zeros(n),
            blocks=N,
            x_star=np.tile(x, N),
            y_star=np.tile(y, N),
            spectrum=Spectrum(s_max, s_min, s_max),
        )
        self.N = N
        self.scale = LOSS * float(np.linalg.norm(self.y_star))
        self.lag = 0
        self.reach = n - N

    def required_dimension(self, k: int) -> int:
        """The n for which the paper's theorem covers k rounds: N·max{2 log_{1/q}((2 + 2√2)α), 1 + k/N}, rounded up.

        The 1 is the gradient that the paper counts. The first term covers the difference between y* and the geometric
        q^i. With the exact y* it is not needed: `bound` holds for every k ≤ n − N.
        """
        k = whole("k", k, least=1)
        settled = 2 * math.log((2 + math.sqrt(8)) * self.alpha) / self.theta
        return self.N * max(math.ceil(settled), 1 + math.ceil(k / self.N))


@named
def affine(*, L: float, mu: float, s_max: float, s_min: float, n: int | None = None) -> HardProblem:
    """Make the instance on which every deterministic method needs Ω((s_max/s_min)√(L/μ) log(1/ε)) rounds.

    Parameters
    ----------
    L, mu : float
        Smoothness and strong convexity of f, L ≥ μ > 0.
    s_max, s_min : float
        The singular values of M lie in (s_min, s_max]; s_max ≥ √5·s_min > 0.
    n : int, optional
        Rows of M; x has 2n entries. By default just enough for the bound to reach 1e-6·‖y*‖.
    """
    return HardProblem(L, mu, s_max, s_min, n, 1)


@named
def block(*, L: float, mu: float, s_max: float, s_min: float, n: int | None = None, N: int) -> HardProblem:
    """Make the instance on which block-coordinate methods need Ω(N(s̄_max/s_min)√(L/μ) log(1/ε)) block rounds.

    It consists of N copies of `affine`, one per block of x; a round touches one block.

    Parameters
    ----------
    L, mu : float
        Smoothness and strong convexity of each f_i.
    s_max, s_min : float
        s̄_max, the bound on the norm of each block (here also on ‖M‖), and the least singular value of M.
    n : int, optional
        Rows of M, a multiple of N; x has 2n entries.
    N : int
        The number of blocks.
    """
    return HardProblem(L, mu, s_max, s_min, n, N)


@named
def dimension(*, L: float, mu: float, s_max: float, s_min: float, eps: float = ACCURACY) -> int:
    """An n for which the bound of `affine` reaches eps·‖y*‖: 2 log_{1/q}(1/(√8·eps)), rounded up, plus 2."""
    constants = _constants(L, mu, s_max, s_min)
    rate = -math.log1p(-distance_to_one(1 / _alpha(*constants), RATIO))
    # one for the free gradient, and one because iterations_needed may round up
    return max(2, 2 + math.ceil(2 * math.log(LOSS / number("eps", eps, above=0.0)) / rate))


def affordable(rows: int, eps: float, advice: str) -> int:
    """Return `rows`, the number computed for eps; raise ValueError if there are too many to make without asking."""
    if rows > MOST:
        raise ValueError(
            f"n would be {rows:,} for the bound to reach eps = {eps:g}, and more than {MOST:,} rows are not made "
            f"by default; {advice}"
        )
    return rows


def half_width(s_max: float, s_min: float) -> float:
    """ŝ = √(s_max² − s_min²)/2."""
    return math.sqrt(representable("s_max² − s_min²", (s_max - s_min) * (s_max + s_min))) / 2


def half_ratio(s_max: float, s_min: float) -> float:
    """ŝ/s_min; raise ValueError if doubles cannot represent its fourth power."""
    ratio = representable("s_max/s_min", s_max / s_min)
    width = math.sqrt((ratio - 1) * (ratio + 1)) / 2
    representable("(s_max/s_min)⁴", width * width * width * width)
    return width


def checked_coupling(s_max: Any, s_min: Any) -> tuple[float, float]:
    """Return s_max and s_min; raise ValueError unless s_max ≥ √5·s_min > 0."""
    s_max, s_min = number("s_max", s_max, above=0.0), number("s_min", s_min, above=0.0)
    if s_max < math.sqrt(5) * s_min * (1 - 1e-12):
        raise ValueError(
            f"s_max must be >= √5·s_min for the theorems, found s_max = {s_max:g} and s_min = {s_min:g}; "
            f"choose s_max = {math.sqrt(5) * s_min:.6g} or more"
        )
    return s_max, s_min


def _alpha(L: float, mu: float, s_max: float, s_min: float) -> float:
    """α = (L/μ)(ŝ/s_min)²."""
    return representable(RATIO, representable("L/mu", L / mu) * half_ratio(s_max, s_min) ** 2)


def _constants(L: Any, mu: Any, s_max: Any, s_min: Any) -> tuple[float, float, float, float]:
    L, mu = number("L", L, above=0.0), number("mu", mu, above=0.0)
    if mu > L:
        raise ValueError(f"L must be >= mu, found L = {L:g} and mu = {mu:g}")
    return L, mu, *checked_coupling(s_max, s_min)
