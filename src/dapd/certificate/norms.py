"""Norms and worst entries of long vectors, without copies of them."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from scipy.linalg.blas import dnrm2

from dapd.arrays import Array

PIECE = 1 << 16  # coordinates that are converted at a time


def norm_of_sum(v: Array, w: Array) -> float:
    """‖v + w‖₂."""
    return norm(np.array([norm(v[piece] + w[piece]) for piece in pieces(v.size)]))


def greatest(v: Array) -> float:
    """‖v‖∞, nan if an entry is."""
    return float(max(-v.min(), v.max())) + 0.0 if v.size else 0.0  # 0, not −0, if all entries are 0


def pieces(size: int) -> Iterator[slice]:
    """Parts of a vector, since x may be long: what is computed of a part takes no memory to speak of."""
    return (slice(start, start + PIECE) for start in range(0, size, PIECE))


def worst(errors: Array, sizes: Array) -> float:
    """The greatest error relative to its size; inf if one of them is not finite."""
    relative = errors / sizes
    finite = math.isfinite(float(relative @ sizes))  # not so if either has an entry that is not
    return (float(relative.max()) if relative.size else 0.0) if finite else math.inf


def norm(v: Array) -> float:
    """‖v‖₂, whose squares neither overflow nor underflow."""
    return float(dnrm2(v)) if v.size else 0.0
