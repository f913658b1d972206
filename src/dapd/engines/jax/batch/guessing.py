"""Epochs of x- or y-DAPD with guessed constants, as the problems of a lock step take them.

Epochs are those of `methods.guesses`: some Π of a guess of μ and s_min around the last point. Guesses lie on a grid, so
the parameters of the theorem are computed once for the grid and looked up on the device.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dapd import theory
from dapd.arrays import Array
from dapd.engines.jax.batch.known import LOOK, Best, Constants
from dapd.engines.jax.epochs import chosen
from dapd.engines.jax.runner import Oracle
from dapd.methods import METHODS
from dapd.methods.guesses import (
    FIRST,
    MU_STEP,
    S_STEP,
    Guess,
    ends_early,
    epoch_length,
    is_good,
    lowest_guess,
    reduction,
)

PLENTY = 2.5  # reduction of the error, as a logarithm, from which a guess is raised by a level
DOWN = 4  # levels between neighbouring guesses of a restart, by which a guess is lowered
MU_LEVEL, S_LEVEL = MU_STEP / DOWN, S_STEP / DOWN  # logarithms of the factors between two levels
MU_LEVELS, S_LEVELS = 54, 100  # levels, down to 1e-8 of L and 3e-8 of s_max


class Guesses(NamedTuple):
    """Where the epochs of a problem are."""

    state: Any
    guess: Guess  # its levels, 0 and below
    turn: Array  # epochs that were not good
    left: Array  # convergence checks until the epoch ends
    start: Array  # error at the start of the epoch


class LevelTable(NamedTuple):
    """Parameters of the theorem for L = s_max = 1, by the levels of μ and s_min."""

    parameters: Any  # a record of arrays (levels of μ, levels of s_min)
    powers: list[tuple[float, float]]  # of L and s_max by which each of them scales


@functools.cache
def table(name: str) -> LevelTable:
    """The grid of x-DAPD or y-DAPD."""

    def at(L: float, s_max: float, mu: float, s: float) -> Any:
        known = {"L": L, "mu": L * math.exp(-mu * MU_LEVEL), "s_max": s_max, "s_min": s_max * math.exp(-s * S_LEVEL)}
        return METHODS[name].settings(**known)

    grid = [[at(1.0, 1.0, i, j) for j in range(S_LEVELS)] for i in range(MU_LEVELS)]
    fields = np.moveaxis(np.array(grid), 2, 0)
    one, other_L, other_s = (np.array(at(L, s, 4, 8)) for L, s in ((1.0, 1.0), (2.0, 1.0), (1.0, 2.0)))
    with np.errstate(all="ignore"):
        powers = [np.where(one > 0, np.round(np.log2(other / one)), 0.0) for other in (other_L, other_s)]
    return LevelTable(type(grid[0][0])(*fields), list(zip(*powers, strict=True)))


def favoured(known: Constants) -> str:
    """The method for problems with these constants."""
    ratio = float(np.median(np.where(known.s_min > 0, known.s_min, 0.3 * known.s_max) / known.s_max))
    kappa = float(np.median(known.mu / known.L))
    return theory.favoured(L=1.0, mu=max(kappa, 1e-8), s_max=1.0, s_min=max(ratio, 1e-7)).method


class Guessing:
    """The steps and the guesses of one problem."""

    def __init__(self, name: str) -> None:
        self.method, self.grid = METHODS[name], table(name)

    def begin(self, placed: Any, known: Constants, best: Best) -> Guesses:
        """The first guess, at this point."""
        zero = jnp.zeros((), int)
        start = Guess(zero, zero + round(FIRST.s / S_LEVEL))
        guess = start.next_to(Guess(0, 0), self._lowest(known))
        return Guesses(self._first(placed, known, guess, best.x, best.y), guess, zero, self._checks(guess), best.error)

    def steps(self, placed: Any, known: Constants, now: Guesses) -> tuple[Guesses, Array, Array]:
        """`LOOK` iterations, and the point after them."""
        p, oracle = self._parameters(known, now.guess), Oracle(placed)
        state = jax.lax.fori_loop(0, LOOK, lambda _, s: self.method.update(p, oracle, s), now.state)
        return now._replace(state=state), *self.method.point(state)

    def checked(self, placed: Any, known: Constants, now: Guesses, last: Best, best: Best) -> Guesses:
        """After a convergence check of the last point: perhaps another guess, from there or from the best point."""
        fell, left = reduction(now.start, last.error), now.left - 1
        ended, lower = (left <= 0) | ends_early(fell, last.error), last.error < now.start
        guess = chosen(ended, self._next(now, fell, self._lowest(known)), now.guess)
        anew = ended & ((guess.mu != now.guess.mu) | (guess.s != now.guess.s) | ~lower)
        fresh = self._first(placed, known, guess, jnp.where(lower, last.x, best.x), jnp.where(lower, last.y, best.y))
        return Guesses(
            state=chosen(anew, fresh, now.state),
            guess=guess,
            turn=now.turn + (ended & ~is_good(fell)),
            left=jnp.where(ended, self._checks(guess), left),
            start=jnp.where(ended, jnp.where(anew & ~lower, best.error, last.error), now.start),
        )

    def _parameters(self, known: Constants, guess: Guess) -> Any:
        at, levels = (-guess.mu, -guess.s), self.grid.parameters
        each = zip(levels, self.grid.powers, strict=True)
        return type(levels)(*(jnp.asarray(values)[at] * known.L**a * known.s_max**b for values, (a, b) in each))

    def _lowest(self, known: Constants) -> Guess:
        """The levels of what is known."""
        least = lowest_guess(known.L, known.mu, known.s_max, known.s_min)
        mu, s = jnp.floor(least.mu / MU_LEVEL), jnp.floor(least.s / S_LEVEL)
        return Guess(jnp.clip(mu, 1 - MU_LEVELS, 0).astype(int), jnp.clip(s, 1 - S_LEVELS, 0).astype(int))

    def _checks(self, guess: Guess) -> Array:
        """How many times `LOOK` iterations an epoch lasts."""
        return jnp.ceil(epoch_length(jnp.asarray(self.grid.parameters.Pi)[-guess.mu, -guess.s]) / LOOK).astype(int)

    def _first(self, placed: Any, known: Constants, guess: Guess, x: Array, y: Array) -> Any:
        return self.method.first(self._parameters(known, guess), Oracle(placed), x, y)

    def _next(self, now: Guesses, fell: Array, lowest: Guess) -> Guess:
        """The guess after an epoch: μ and s_min are lowered by turns."""
        by_mu = (now.turn % 2 == 1) & (now.guess.mu > lowest.mu) | (now.guess.s <= lowest.s)
        up, bad = (fell > PLENTY).astype(int), ~is_good(fell)
        by = Guess(jnp.where(bad & by_mu, -DOWN, up), jnp.where(bad & ~by_mu, -DOWN, up))
        return now.guess.next_to(by, lowest)
