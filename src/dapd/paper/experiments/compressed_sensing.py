"""Compressed sensing: recover a sparse x from Mx = b with a smooth, strongly convex stand-in for ‖x‖₁."""

from __future__ import annotations

import numpy as np

from dapd.arguments import named, number, whole
from dapd.functions import PseudoHuber
from dapd.paper.experiments.matrices import with_singular_values
from dapd.problem.problem import Problem


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
