"""Guesses of μ and s_min: how long an epoch of one lasts, when it is over, and which guesses may follow.

Restarts of one problem and batches in lock step decide by the same rules, on numbers and on arrays of many problems.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from dapd.arrays import Array, namespace

LENGTH = 3.0  # length of an epoch in Π of its guess
SHORTEST = 20  # iterations of the shortest epoch, and between two convergence checks
ENOUGH = 1.0  # reduction of the error, as a logarithm, from which a guess counts as good
EARLY = 3.0  # reduction, as a logarithm, that ends an epoch before its length
LOWEST = math.log(1e-16)  # least logarithm of a guess if the constant is unknown
MU_STEP, S_STEP = math.log(4), math.log(2)  # logarithms of the factors between neighbouring guesses


class Guess(NamedTuple):
    """Constants that an epoch takes for true, as logarithms; or their places on a grid of such, 0 and below."""

    mu: Any  # of μ̂ relative to L, or to a data-based unit if f is linear
    s: Any  # of ŝ_min relative to s_max

    def next_to(self, by: Guess, lowest: Guess) -> Guess:
        """The guess moved by `by`, within what is possible."""
        xp = namespace(self.mu)
        return Guess(xp.clip(self.mu + by.mu, lowest.mu, 0), xp.clip(self.s + by.s, lowest.s, 0))


FIRST = Guess(mu=0.0, s=math.log(0.3))
MU_DOWN, S_DOWN = Guess(-MU_STEP, 0.0), Guess(0.0, -S_STEP)
MU_UP, S_UP = Guess(MU_STEP, 0.0), Guess(0.0, S_STEP)


def lowest_guess(L: Array, mu: Array, s_max: Array, s_min: Array) -> Guess:
    """The guess of what is known, below which there need be none; a constant of 0 is unknown."""
    return Guess(_lowest(mu, L), _lowest(s_min, s_max))


def _lowest(known: Array, unit: Array) -> Array:
    xp = namespace(known)
    return xp.where(known > 0, xp.log(xp.where(known > 0, known, 1.0) / xp.where(known > 0, unit, 1.0)), LOWEST)


def epoch_length(Pi: Array) -> Array:
    """Iterations of an epoch of a guess with this Π."""
    return namespace(Pi).maximum(SHORTEST, LENGTH * Pi)


def reduction(before: Array, after: Array) -> Array:
    """How far the error fell, as a logarithm; −inf if both are infinite, or zero."""
    xp = namespace(after)
    with np.errstate(all="ignore"):
        fell = xp.log(xp.divide(before, after))
    return xp.where(xp.isnan(fell), -math.inf, fell)


def ends_early(fell: Array, error: Array) -> Array:
    """Whether an epoch with this reduction ends before its length."""
    return (fell > EARLY) | (error == math.inf)


def is_good(fell: Array) -> Array:
    """Whether the guess of an epoch with this reduction was good."""
    return fell >= ENOUGH
