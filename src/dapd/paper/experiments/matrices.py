"""Random matrices with a chosen range of singular values or eigenvalues."""

from __future__ import annotations

import numpy as np

from dapd.arrays import Array


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
