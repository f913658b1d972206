"""Norms and worst entries of long vectors, without copies of them."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from scipy.linalg.blas import dnrm2

from dapd.arrays import Array, namespace

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


def relative(errors: Array, sizes: Array) -> Array:
    """Errors relative to their sizes; inf where one is not finite."""
    found = errors / sizes
    if isinstance(found, np.ndarray) and math.isfinite(found @ sizes):  # so all are
        return found
    xp = namespace(found)
    return xp.where(xp.isfinite(found) & xp.isfinite(sizes), found, xp.inf)


def norm(v: Array) -> float:
    """‖v‖₂, whose squares neither overflow nor underflow."""
    return float(dnrm2(v)) if v.size else 0.0
