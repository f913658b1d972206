"""Whether a few products show that given bounds on the singular values of M are wrong, or of little use."""

from __future__ import annotations

import math

import numpy as np

from dapd.arguments import TimeUp
from dapd.arrays import Array, on_host
from dapd.operators.base import Operator
from dapd.spectrum.lanczos import LanczosSearch, extremes, random_start
from dapd.spectrum.record import Spectrum

STEPS = 40  # steps of Lanczos, of two products each
EXCESS = 1.05  # ratio from which a bound counts as exceeded
FAR = 10.0  # ratio to the norm of M from which an s_max is of little use


def doubt_about(M: Operator, spectrum: Spectrum, deadline: float = math.inf) -> str:
    """A sentence if some vector shows that a bound is wrong, or far from M; empty if none is found in time.

    Ritz values of MMᵀ from a start in its range lie between the squares of the positive singular values, so they can
    show that s_max is too small or s_min too large, never that both are right.
    """

    def start(turn: int) -> Array:
        image = np.asarray(on_host(M.forward(random_start(M.shape[1], turn))), np.float64)
        return image / (float(np.linalg.norm(image)) or 1.0)

    def apply(y: Array) -> Array:
        return np.asarray(on_host(M.forward(M.adjoint(y))), np.float64)

    if not min(M.shape):
        return ""
    try:
        low, high, _ = extremes(apply, start, LanczosSearch(STEPS, "M", positive=True, deadline=deadline))
    except (TimeUp, ValueError):  # no time left, or products that overflow
        return ""
    longest, shortest = math.sqrt(max(high.value, 0.0)), math.sqrt(max(low.value, 0.0))
    if longest > EXCESS * spectrum.s_max:
        said = f"is wrong: M stretches some vector {_times(longest / spectrum.s_max)} as much as its s_max allows"
    elif spectrum.resolved and 0 < EXCESS * shortest < spectrum.s_min:
        said = f"is wrong: M shrinks some vector {_times(spectrum.s_min / shortest)} as much as its s_min allows"
    elif spectrum.s_max > FAR * longest > 0:
        said = f"makes steps too short: its s_max is about {_times(spectrum.s_max / longest)} the norm of M"
    else:
        return ""
    return f"The given `spectrum` {said}. Correct it, or leave it out to have it estimated."


def _times(ratio: float) -> str:
    return f"{ratio:.2g} times" if ratio < 10 else f"{ratio:,.0f} times"
