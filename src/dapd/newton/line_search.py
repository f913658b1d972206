"""The minimum of a convex function along a line, by Newton on its slope within a bracket."""

from __future__ import annotations

import math
from collections.abc import Callable

TRIALS = 40  # most trials of a step length
AT_ONCE, EXACT = 1e-3, 1e-10  # slopes relative to that at 0 which are small enough: at t = 1, and at any other t


def least_along(slopes: Callable[[float], tuple[float, float]], start: float) -> float:
    """The t > 0 at which the first derivative vanishes; `slopes` gives the first and second, `start` is that at 0."""
    low, high, t = 0.0, math.inf, 1.0
    for trial in range(TRIALS):
        slope, curve = slopes(t)
        if abs(slope) <= (AT_ONCE if trial == 0 else EXACT) * abs(start):
            break
        low, high = (low, t) if slope > 0 else (t, high)
        guess = t - slope / curve if curve > 0 else math.inf
        if not low < guess < high:
            guess = 2.0 * t if high == math.inf else 0.5 * (low + high)
        if abs(guess - t) <= 1e-14 * t:
            break
        t = guess
    return t
