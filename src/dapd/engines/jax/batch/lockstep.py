"""Restarted DAPD on many problems in lock step: all take their steps together, and each has its own guesses.

Epochs are those of `methods.guesses`: some Π of a guess of μ and s_min around the last point. Guesses lie on a grid, so
the parameters of the theorem are computed once for the grid and looked up on the device. Every `LOOK` steps all points
are judged; a problem whose epoch is over then changes its guess and starts anew, alone. Problems that are done leave
the batch as soon as a quarter is left.
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
from dapd.certificate.certify import error_of
from dapd.engines.jax.judge import Measured, certificate_of
from dapd.engines.jax.runner import Oracle
from dapd.machine.clock import is_over, perf_counter, seconds_left
from dapd.machine.rates import COMPILATION
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

LOOK = 25  # iterations between two convergence checks
PLENTY = 2.5  # reduction of the error, as a logarithm, from which a guess is raised by a level
DOWN = 4  # levels between neighbouring guesses of a restart, by which a guess is lowered
MU_LEVEL, S_LEVEL = MU_STEP / DOWN, S_STEP / DOWN  # logarithms of the factors between two levels
MU_LEVELS, S_LEVELS = 54, 100  # levels, down to 1e-8 of L and 3e-8 of s_max
LEFT = 4  # the batch is made smaller if one problem in so many is left
SMALLEST = 64  # problems in a batch that is not made smaller
PULSE = 0.3  # seconds between two decisions of the host
SHRUNK: set[Any] = set()  # batches whose programs for fewer problems were compiled


class Constants(NamedTuple):
    """What is known of each problem, one number each."""

    L: Array
    mu: Array
    s_max: Array
    s_min: Array  # 0 if unknown


class LockStepState(NamedTuple):
    """Where each problem is."""

    state: Any
    guess: Guess  # its levels, 0 and below
    turn: Array  # epochs that were not good
    left: Array  # looks until the epoch ends
    start: Array  # error at the start of the epoch
    error: Array  # least error so far
    x: Array  # the best point
    y: Array
    iterations: Array  # until the best point
    tol: Array


class Found(NamedTuple):
    """The best point of each problem, on the device."""

    x: Array
    y: Array
    error: Array
    iterations: Array


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


class Lockstep:
    """A batch on the device."""

    def __init__(self, measured: Measured, axes: Any, known: Constants) -> None:
        self.measured, self.axes, self.known = measured, axes, known
        ratio = float(np.median(np.where(known.s_min > 0, known.s_min, 0.3 * known.s_max) / known.s_max))
        kappa = float(np.median(known.mu / known.L))
        self.method = theory.favoured(L=1.0, mu=max(kappa, 1e-8), s_max=1.0, s_min=max(ratio, 1e-7)).method
        self.interrupted = False

    def origin(self) -> tuple[Array, Array]:
        """Zero for every problem."""
        rows, columns = (v.shape[-1] for v in (self.measured.b, self.measured.sizes.columns))
        with jax.enable_x64(True):
            return jnp.zeros((len(self.known.L), columns)), jnp.zeros((len(self.known.L), rows))

    def run(self, start: tuple[Array, Array], tol: Array, limit: int, deadline: float) -> tuple[Found, int]:
        """Walk until all errors are at most their `tol`, a limit is reached or Ctrl-C ends it; return the steps too."""
        with jax.enable_x64(True):
            return self._run(start, tol, limit, deadline)

    def _run(self, start: tuple[Array, Array], tol: Array, limit: int, deadline: float) -> tuple[Found, int]:
        found, own = None, np.arange(len(tol))  # the best points, and the problem of each place
        data = (self.measured, Constants(*map(jnp.asarray, self.known)))
        axes = Axes((self.axes, Constants(*(0 for _ in self.known))))
        compiled = programs(self.method, axes)
        walk = compiled.begin(data, *start, tol)
        done, looks = 0, 1
        while True:
            began = perf_counter()
            try:
                walk, active, taken = compiled.advance(data, walk, looks, done)
                active, taken = map(int, jax.device_get((active, taken)))  # waits for the device
            except KeyboardInterrupt:
                self.interrupted, active, taken = True, 0, 0
            done += taken * LOOK
            looks = max(1, min(2 * looks, int(max(1, taken) * PULSE / max(perf_counter() - began, 1e-6))))
            looks = max(1, min(looks, (limit - done) // LOOK))
            over = active == 0 or done + LOOK > limit or is_over(deadline)
            size = max(SMALLEST, -(-len(own) // LEFT))
            smaller = self.method, axes, start[0].shape, start[1].shape, len(own), size
            shrinks = LEFT * active <= len(own) and len(own) > SMALLEST
            shrinks = shrinks and (smaller in SHRUNK or seconds_left(deadline) > COMPILATION.smaller_batch)
            if over or shrinks:
                here = Found(walk.x, walk.y, walk.error, walk.iterations)
                found = here if found is None else _merged(found, own, here)
                if over:
                    return found, done
                going = np.flatnonzero(np.asarray(walk.error > walk.tol))
                keep = np.resize(going, size)  # repeats some, if fewer are left
                data, walk = compiled.take(data, walk, keep)
                own = own[keep]
                SHRUNK.add(smaller)


@jax.jit
def _merged(found: Found, own: Array, here: Found) -> Found:
    """The best points of all problems after those of some are known better."""
    return Found(*(all_of_them.at[own].set(some) for all_of_them, some in zip(found, here, strict=True)))


class Axes:
    """A tree of axes that can be a key."""

    def __init__(self, tree: Any) -> None:
        self.tree = tree
        leaves, structure = jax.tree.flatten(tree, is_leaf=lambda axis: axis is None)
        self.key = tuple(leaves), structure

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Axes) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


class Programs:
    """What runs on the device, compiled for problems of one structure; the functions with `known` are for one of them.

    `begin` makes the first walk, `advance` takes up to `looks` times `LOOK` iterations of all problems, and `take`
    leaves some of the problems.
    """

    def __init__(self, name: str, axes: Axes) -> None:
        self.method, self.grid, self.axes = METHODS[name], table(name), axes.tree
        self.begin = jax.jit(jax.vmap(self._begin, in_axes=(self.axes, 0, 0, 0)))
        self.step = jax.vmap(self._look, in_axes=(self.axes, 0, None))
        self.advance, self.take = jax.jit(self._advance), jax.jit(self._take)

    def _parameters(self, known: Constants, guess: Guess) -> Any:
        at, levels = (-guess.mu, -guess.s), self.grid.parameters
        each = zip(levels, self.grid.powers, strict=True)
        return type(levels)(*(jnp.asarray(values)[at] * known.L**a * known.s_max**b for values, (a, b) in each))

    def _lowest(self, known: Constants) -> Guess:
        """The levels of what is known."""
        least = lowest_guess(known.L, known.mu, known.s_max, known.s_min)
        mu, s = jnp.floor(least.mu / MU_LEVEL), jnp.floor(least.s / S_LEVEL)
        return Guess(jnp.clip(mu, 1 - MU_LEVELS, 0).astype(int), jnp.clip(s, 1 - S_LEVELS, 0).astype(int))

    def _looks(self, guess: Guess) -> Array:
        """How many times `LOOK` iterations an epoch lasts."""
        return jnp.ceil(epoch_length(jnp.asarray(self.grid.parameters.Pi)[-guess.mu, -guess.s]) / LOOK).astype(int)

    def _first(self, data: Any, guess: Guess, x: Array, y: Array) -> Any:
        measured, known = data
        return self.method.first(self._parameters(known, guess), Oracle(measured), x, y)

    def _begin(self, data: Any, x: Array, y: Array, tol: Array) -> LockStepState:
        zero, error = jnp.zeros((), int), _error(data[0], x, y)
        start = Guess(zero, zero + round(FIRST.s / S_LEVEL))
        guess = start.next_to(Guess(0, 0), self._lowest(data[1]))
        state = self._first(data, guess, x, y)
        return LockStepState(state, guess, zero, self._looks(guess), error, error, x, y, zero, tol)

    def _look(self, data: Any, walk: LockStepState, done: Array) -> LockStepState:
        """`LOOK` iterations and a convergence check."""
        measured, known = data
        p, oracle = self._parameters(known, walk.guess), Oracle(measured)
        state = jax.lax.fori_loop(0, LOOK, lambda _, s: self.method.update(p, oracle, s), walk.state)
        x, y = self.method.point(state)
        error = _error(measured, x, y)
        better = error < walk.error
        best_x, best_y = jnp.where(better, x, walk.x), jnp.where(better, y, walk.y)
        fell, left, least = reduction(walk.start, error), walk.left - 1, jnp.minimum(error, walk.error)
        ended, lower = (left <= 0) | ends_early(fell, error), error < walk.start
        guess = _chosen(ended, self._next(walk, fell, self._lowest(known)), walk.guess)
        anew = ended & ((guess.mu != walk.guess.mu) | (guess.s != walk.guess.s) | ~lower)
        fresh = self._first(data, guess, jnp.where(lower, x, best_x), jnp.where(lower, y, best_y))
        return LockStepState(
            state=_chosen(anew, fresh, state),
            guess=guess,
            turn=walk.turn + (ended & ~is_good(fell)),
            left=jnp.where(ended, self._looks(guess), left),
            start=jnp.where(ended, jnp.where(anew & ~lower, least, error), walk.start),
            error=least,
            x=best_x,
            y=best_y,
            iterations=jnp.where(better, done, walk.iterations),
            tol=walk.tol,
        )

    def _next(self, walk: LockStepState, fell: Array, lowest: Guess) -> Guess:
        """The guess after an epoch: μ and s_min are lowered by turns."""
        by_mu = (walk.turn % 2 == 1) & (walk.guess.mu > lowest.mu) | (walk.guess.s <= lowest.s)
        up, bad = (fell > PLENTY).astype(int), ~is_good(fell)
        by = Guess(jnp.where(bad & by_mu, -DOWN, up), jnp.where(bad & ~by_mu, -DOWN, up))
        return walk.guess.next_to(by, lowest)

    def _advance(
        self, data: Any, walk: LockStepState, looks: Array, before: Array
    ) -> tuple[LockStepState, Array, Array]:
        def going(carry: Any) -> Array:
            k, walk = carry
            active = jnp.sum(walk.error > walk.tol)
            few = (LEFT * active <= walk.tol.size) & (walk.tol.size > SMALLEST)
            return (k < looks) & (active > 0) & ~few

        def one(carry: Any) -> Any:
            k, walk = carry
            return k + 1, self.step(data, walk, before + (k + 1) * LOOK)

        taken, walk = jax.lax.while_loop(going, one, (0, walk))
        return walk, jnp.sum(walk.error > walk.tol), taken

    def _take(self, data: Any, walk: LockStepState, keep: Array) -> tuple[Any, LockStepState]:
        def of(axis: int | None, v: Array) -> Array:
            return v if axis is None else v[keep]

        some = jax.tree.map(of, self.axes, data, is_leaf=lambda axis: axis is None)
        return some, jax.tree.map(lambda v: v[keep], walk)


def _error(measured: Measured, x: Array, y: Array) -> Array:
    worst = error_of(certificate_of(measured, x, y))
    return jnp.where(jnp.isnan(worst), jnp.inf, worst)


def _chosen(first: Array, one: Any, other: Any) -> Any:
    return jax.tree.map(lambda a, b: jnp.where(first, a, b), one, other)


programs = functools.lru_cache(maxsize=64)(Programs)
