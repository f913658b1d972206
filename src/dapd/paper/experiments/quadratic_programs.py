"""Quadratic programs: one with a bound on ‖Mx − b‖_∞, one with inequalities whose solution is chosen beforehand."""

from __future__ import annotations

import numpy as np

from dapd.arguments import named, number, whole
from dapd.functions import Quadratic
from dapd.kinds.by_rows import L1, NonNegative
from dapd.paper.experiments.matrices import with_eigenvalues, with_singular_values
from dapd.problem.problem import Problem


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
    parts = [with_singular_values(rng, rows, m, s_min, s_max) for rows in (active, inactive)]
    M = np.concatenate(parts)
    x = rng.standard_normal(m)
    y = np.concatenate([np.abs(rng.standard_normal(active)), np.zeros(inactive)])
    b = M @ x
    b[active:] += np.abs(rng.standard_normal(inactive) * b[active:])
    c = H @ x + M.T @ y
    return Problem(Quadratic(H, c, mu=mu, L=L), M, b, NonNegative(), x_star=x, y_star=y)


def _sizes(m: int, **rows: int) -> None:
    whole("m", m, least=1)
    total = sum(whole(name, count, least=1) for name, count in rows.items())
    if total > m:
        raise ValueError(f"{' + '.join(rows)} must be <= m for full row rank, found {total} rows and m = {m}")
