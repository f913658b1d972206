"""System identification: find the sparse matrix of a linear system from a trajectory with occasional disturbances."""

from __future__ import annotations

import numpy as np

from dapd.arguments import named, number, whole
from dapd.arrays import Array
from dapd.functions import PseudoHuber
from dapd.kinds.by_rows import GroupBall
from dapd.operators.structured import Kronecker
from dapd.problem.problem import Problem


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
