"""The paper's problems: compressed sensing, system identification and two quadratic programs."""

from __future__ import annotations

import numpy as np

from dapd.arguments import named, number, whole
from dapd.arrays import Array
from dapd.functions import PseudoHuber, Quadratic
from dapd.kinds.by_rows import L1, GroupBall, NonNegative
from dapd.operators.structured import Kronecker
from dapd.problem.problem import Problem


def spread(rng: np.random.Generator, count: int, low: float, high: float) -> Array:
    """Uniform draws mapped affinely onto [low, high], both ends attained (if there are two or more)."""
    drawn = rng.uniform(size=count)
    return low + (drawn - drawn.min()) / (np.ptp(drawn) or 1.0) * (high - low)


def with_singular_values(rng: np.random.Generator, n: int, m: int, s_min: float, s_max: float) -> Array:
    """A Gaussian matrix, its singular values replaced by uniform ones mapped onto [s_min, s_max], ends included."""
    U, _, Vt = np.linalg.svd(rng.standard_normal((n, m)), full_matrices=False)
    return (U * spread(rng, min(n, m), s_min, s_max)) @ Vt


def with_eigenvalues(rng: np.random.Generator, m: int, mu: float, L: float) -> Array:
    """PΛPᵀ with P from the QR decomposition of a Gaussian matrix and Λ uniform, mapped onto [mu, L], ends included."""
    P = np.linalg.qr(rng.standard_normal((m, m)))[0]
    H = (P * spread(rng, m, mu, L)) @ P.T
    return (H + H.T) / 2


@named
def compressed_sensing(
    seed: int = 0,
    *,
    n: int = 250,
    m: int = 1000,
    nonzeros: int = 50,
    coupling_condition: float = 1e5,
    condition: float = 1e4,
    blocks: int | None = None,
) -> Problem:
    """Make the paper's compressed-sensing problem, min Σ √(x²+e²) + (e/2)x² subject to Mx = b.

    Parameters
    ----------
    seed : int
        Seed of the random numbers.
    n, m : int
        Rows and columns of M.
    nonzeros : int
        Number of entries of the hidden x that are one; b = Mx.
    coupling_condition : float
        s_max²/s_min², with s_max = 1.
    condition : float
        L/μ of the objective.
    blocks : int, optional
        The number of blocks of x.
    """
    whole("nonzeros", nonzeros, least=1)
    rng = np.random.default_rng(seed)
    M = with_singular_values(rng, n, m, number("coupling_condition", coupling_condition, least=1.0) ** -0.5, 1.0)
    hidden = np.zeros(m)
    hidden[rng.choice(m, nonzeros, replace=False)] = 1.0
    return Problem(PseudoHuber.with_condition(condition), M, M @ hidden, blocks=blocks)


@named
def system_identification(
    seed: int = 0,
    *,
    p: int = 40,
    T: int = 10,
    condition: float = 1e9,
    disturbed: float = 0.7,
    penalty: float = 1000.0,
) -> Problem:
    """Make the paper's non-smooth estimator (NSE), min f(X) + penalty·Σ_t ‖s_t − X s_{t−1}‖₂.

    f is PseudoHuber; x holds the columns of X one after the other, and M = −(S₀ᵀ ⊗ I), b = −vec(S₁) with
    S₀ = (s_0 … s_{T−1}), S₁ = (s_1 … s_T), so group t of Mx − b is s_t − X s_{t−1}. The solution is not known in closed
    form, and differs from the system that made the trajectory: `dapd.experiments.reference` finds it.

    Parameters
    ----------
    seed : int
        Seed of the random numbers.
    p, T : int
        Order of the system and length of the trajectory, T ≤ p.
    condition : float
        L/μ of f.
    disturbed : float
        Probability of a disturbance at each step.
    penalty : float
        The paper's λ.
    """
    length = whole("T", T, least=1)
    if length > whole("p", p, least=1):
        raise ValueError(f"T must be <= p, otherwise the rows of M are dependent; found T = {length} and p = {p}")
    if not 0.0 <= number("disturbed", disturbed) <= 1.0:
        raise ValueError(f"disturbed must be a probability, found {disturbed:g}; choose it in [0, 1]")
    S = disturbed_trajectory(np.random.default_rng(seed), p, length, disturbed)
    f = PseudoHuber.with_condition(condition)
    return Problem(f, Kronecker(-S[:-1], p), -S[1:].ravel(), GroupBall(number("penalty", penalty, above=0.0), p))


def disturbed_trajectory(rng: np.random.Generator, p: int, length: int, disturbed: float) -> Array:
    """The states s_0 … s_length, one per row, of a random system with about 20 % nonzero entries and ‖X‖₂ = 1."""
    X = np.where(rng.uniform(size=(p, p)) < 0.2, rng.standard_normal((p, p)), 0.0)
    X /= np.linalg.norm(X, 2) or 1.0  # a tiny system may have no nonzero entry at all
    states = [rng.standard_normal(p)]
    for _ in range(length):
        s = states[-1]
        deviation = min(float(np.linalg.norm(s)), p**-0.5)
        direction = rng.standard_normal(p)
        push = rng.normal(0.0, deviation) / np.linalg.norm(direction) if rng.uniform() < disturbed else 0.0
        states.append(X @ s + push * direction)
    return np.array(states)


@named
def qp_l1(
    seed: int = 0,
    *,
    m: int = 300,
    n: int = 100,
    L: float = 1000.0,
    mu: float = 1.0,
    s_max: float = 1000.0,
    s_min: float = 1.0,
    nu: float = 0.01,
) -> Problem:
    """Make the paper's QP with an ℓ₁ norm on the dual: min ½xᵀHx − cᵀx subject to ‖Mx − b‖_∞ ≤ nu.

    H and M have uniform spectra on [mu, L] and [s_min, s_max]; b and c are Gaussian. The solution is not known in
    closed form: `dapd.experiments.reference` finds it.

    Parameters
    ----------
    seed : int
        Seed of the random numbers.
    m, n : int
        Columns and rows of M, n ≤ m.
    L, mu, s_max, s_min : float
        The ranges of the spectra.
    nu : float
        The bound, which is the weight of ‖y‖₁.
    """
    _sizes(m, n=n)
    rng = np.random.default_rng(seed)
    H = with_eigenvalues(rng, m, number("mu", mu, above=0.0), number("L", L, least=mu))
    M = with_singular_values(rng, n, m, number("s_min", s_min, above=0.0), number("s_max", s_max, least=s_min))
    b, c = rng.standard_normal(n), rng.standard_normal(m)
    return Problem(Quadratic(H, c, mu=mu, L=L), M, b, L1(nu))


@named
def qp_inequality(
    seed: int = 0,
    *,
    m: int = 300,
    active: int = 50,
    inactive: int = 50,
    L: float = 1000.0,
    mu: float = 1.0,
    s_max: float = 1000.0,
    s_min: float = 1.0,
) -> Problem:
    """Make the paper's QP with inequalities, min ½xᵀHx − cᵀx subject to Mx ≤ b, from a solution chosen beforehand.

    The first `active` rows hold with equality at x* and have y* > 0. The others have b = Mx* + |ε·Mx*| with ε Gaussian,
    and y* = 0. Each part of M has its singular values on [s_min, s_max].

    Parameters
    ----------
    seed : int
        Seed of the random numbers.
    m, active, inactive : int
        Columns of M, and rows of its two parts; active + inactive ≤ m.
    L, mu, s_max, s_min : float
        The ranges of the spectra.
    """
    _sizes(m, active=active, inactive=inactive)
    rng = np.random.default_rng(seed)
    H = with_eigenvalues(rng, m, number("mu", mu, above=0.0), number("L", L, least=mu))
    number("s_min", s_min, above=0.0)
    number("s_max", s_max, least=s_min)
    M = np.concatenate([with_singular_values(rng, rows, m, s_min, s_max) for rows in (active, inactive)])
    x = rng.standard_normal(m)
    y = np.concatenate([np.abs(rng.standard_normal(active)), np.zeros(inactive)])
    b = M @ x
    b[active:] += np.abs(rng.standard_normal(inactive) * b[active:])
    return Problem(Quadratic(H, H @ x + M.T @ y, mu=mu, L=L), M, b, NonNegative(), x_star=x, y_star=y)


def _sizes(m: int, **rows: int) -> None:
    whole("m", m, least=1)
    total = sum(whole(name, count, least=1) for name, count in rows.items())
    if total > m:
        raise ValueError(f"{' + '.join(rows)} must be <= m for full row rank, found {total} rows and m = {m}")
