"""Restarted DAPD on many problems in lock step: all take their steps together, and each has its own guesses.

An epoch is as in `solving.restarts`: some Π of a guess of μ and s_min around the last point. Guesses lie on a grid, so
the parameters of the theorem are computed once for the grid and looked up on the device. Every `LOOK` steps all points
are judged; a problem whose epoch is over then changes its guess and starts anew, alone. Problems that are done leave
the batch as soon as a quarter is left.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dapd import theory
from dapd.arrays import Array
from dapd.certificate.certify import error_of
from dapd.clock import is_over, perf_counter, seconds_left
from dapd.engines.jax.certificate import Measured, certificate_of
from dapd.engines.jax.runner import Oracle, Placed
from dapd.methods.base import Method
from dapd.methods.x_dapd import XDAPD
from dapd.methods.y_dapd import YDAPD
from dapd.ways.epochs import LENGTH, SHORTEST
from dapd.ways.restarts import EARLY, ENOUGH

LOOK = 25  # steps between two looks
PLENTY = 2.5  # reduction that is so good that a guess may be raised
DOWN = 4  # levels by which a guess is lowered
MU_LEVEL, S_LEVEL = math.log(4) / 4, math.log(2) / 4  # logarithms of the factors between two levels
MU_LEVELS, S_LEVELS = 54, 100  # down to 1e-8 of L and 3e-8 of s_max
FIRST_S = round(-math.log(0.3) / S_LEVEL)
LEFT = 4  # the batch is made smaller when this part of it is left
SMALLEST = 64  # problems from which it is not made smaller
PULSE = 0.3  # seconds between two looks of the host
SHRINKING = 1.5  # seconds that it usually takes to compile the programs of a smaller batch
SHRUNK: set[Any] = set()  # batches for which that was done


class Constants(NamedTuple):
    """What is known of each problem, one number each."""

    L: Array
    mu: Array
    s_max: Array
    s_min: Array  # 0 if unknown


class LockStepState(NamedTuple):
    """Where each problem is."""

    state: Any
    mu: Array  # level of its guess of μ
    s: Array  # level of its guess of s_min
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
    Pi: Array
    powers: Any  # of L and s_max by which each parameter scales


@functools.cache
def table(side: str) -> LevelTable:
    """The grid of a side."""
    sides: dict[str, Callable[..., Any]] = {"x-dapd": theory.x_dapd, "y-dapd": theory.y_dapd}
    settings = sides[side]

    def at(L: float, s_max: float, mu: float, s: float) -> Any:
        return settings(L=L, mu=L * math.exp(-mu * MU_LEVEL), s_max=s_max, s_min=s_max * math.exp(-s * S_LEVEL))

    grid = [[at(1.0, 1.0, i, j) for j in range(S_LEVELS)] for i in range(MU_LEVELS)]
    kind = type(grid[0][0])
    values = np.array(grid)  # (levels, levels, fields)
    one, other_L, other_s = (np.array(at(L, s, 4, 8)) for L, s in ((1.0, 1.0), (2.0, 1.0), (1.0, 2.0)))
    with np.errstate(all="ignore"):
        powers = [np.where(one > 0, np.round(np.log2(other / one)), 0.0) for other in (other_L, other_s)]
    columns = [np.asarray(values[:, :, k]) for k in range(values.shape[2])]
    record = kind(*columns)
    return LevelTable(record, record.Pi, kind(*zip(*powers, strict=True)))


class Lockstep:
    """A batch on the device."""

    def __init__(self, measured: Measured, axes: Any, known: Constants) -> None:
        self.measured, self.axes, self.known = measured, axes, known
        ratio = float(np.median(np.where(known.s_min > 0, known.s_min, 0.3 * known.s_max) / known.s_max))
        kappa = float(np.median(known.mu / known.L))
        best = theory.favoured(L=1.0, mu=max(kappa, 1e-8), s_max=1.0, s_min=max(ratio, 1e-7))
        self.interrupted = False
        self.method: type[Method] = XDAPD if best.method == "x-dapd" else YDAPD

    def origin(self) -> tuple[Array, Array]:
        """Zero for every problem."""
        count, (rows, columns) = len(self.known.L), (v.shape[-1] for v in (self.measured.rows, self.measured.columns))
        with jax.enable_x64(True):
            return jnp.zeros((count, columns)), jnp.zeros((count, rows))

    def run(self, start: tuple[Array, Array], tol: Array, limit: int, deadline: float) -> tuple[Found, int]:
        """Walk until all errors are at most their `tol`, a limit is reached or Ctrl-C ends it; return the steps too."""
        with jax.enable_x64(True):
            return self._run(start, tol, limit, deadline)

    def _run(self, start: tuple[Array, Array], tol: Array, limit: int, deadline: float) -> tuple[Found, int]:
        found, own = None, np.arange(len(tol))  # the best points, and the problem of each place
        data = (self.measured, Constants(*map(jnp.asarray, self.known)))
        axes = (self.axes, Constants(*(0 for _ in self.known)))
        begin, advance = programs(self.method.name, Axes(axes))
        walk = begin(data, *start, tol)
        done, looks = 0, 1
        while True:
            began = perf_counter()
            try:
                walk, active, taken = advance(data, walk, looks, done)
                active, taken = map(int, jax.device_get((active, taken)))  # waits for the device
            except KeyboardInterrupt:
                self.interrupted, active, taken = True, 0, 0
            done += taken * LOOK
            looks = max(1, min(2 * looks, int(max(1, taken) * PULSE / max(perf_counter() - began, 1e-6))))
            looks = max(1, min(looks, (limit - done) // LOOK))
            over = active == 0 or done + LOOK > limit or is_over(deadline)
            size = max(SMALLEST, -(-len(own) // LEFT))
            smaller = self.method.name, Axes(axes), start[0].shape, start[1].shape, len(own), size
            shrinks = LEFT * active <= len(own) and len(own) > SMALLEST
            shrinks = shrinks and (smaller in SHRUNK or seconds_left(deadline) > SHRINKING)
            if over or shrinks:
                here = Found(walk.x, walk.y, walk.error, walk.iterations)
                found = here if found is None else _merged(found, own, here)
                if over:
                    return found, done
                going = np.flatnonzero(np.asarray(walk.error > walk.tol))
                keep = np.resize(going, size)  # repeats some, if fewer are left
                data, walk = taken_by(Axes(axes))(data, walk, keep)
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


@functools.lru_cache(maxsize=64)
def taken_by(axes: Axes) -> Callable[..., Any]:
    """A function that takes some of the problems, given their data and where they are."""

    def take(data: Any, walk: Any, keep: Array) -> Any:
        some = jax.tree.map(
            lambda axis, v: v if axis is None else v[keep], axes.tree, data, is_leaf=lambda axis: axis is None
        )
        return some, jax.tree.map(lambda v: v[keep], walk)

    return jax.jit(take)


@functools.lru_cache(maxsize=64)
def programs(name: str, axes: Axes) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The first walk, and `looks` looks of all problems, compiled for problems of one structure."""
    grid = table(name)
    method: type[Method] = XDAPD if name == XDAPD.name else YDAPD

    def parameters(known: Constants, mu: Array, s: Array) -> Any:
        by_L, by_s = (type(grid.parameters)(*part) for part in zip(*grid.powers, strict=True))
        kinds = zip(grid.parameters, by_L, by_s, strict=True)
        scaled = [jnp.asarray(values)[mu, s] * known.L**a * known.s_max**b for values, a, b in kinds]
        return type(grid.parameters)(*scaled)

    def lowest(known: Constants) -> tuple[Array, Array]:
        """The levels of what is known; a guess need not be lower."""
        mu = jnp.where(known.mu > 0, jnp.ceil(jnp.log(known.L / known.mu) / MU_LEVEL), MU_LEVELS - 1)
        s = jnp.where(known.s_min > 0, jnp.ceil(jnp.log(known.s_max / known.s_min) / S_LEVEL), S_LEVELS - 1)
        return jnp.clip(mu, 0, MU_LEVELS - 1).astype(int), jnp.clip(s, 0, S_LEVELS - 1).astype(int)

    def length(mu: Array, s: Array) -> Array:
        steps = jnp.maximum(SHORTEST, LENGTH * jnp.asarray(grid.Pi)[mu, s])
        return jnp.ceil(steps / LOOK).astype(int)

    def first(placed: Placed, known: Constants, mu: Array, s: Array, x: Array, y: Array) -> Any:
        return method.first(parameters(known, mu, s), Oracle(placed), x, y)

    def error(measured: Measured, x: Array, y: Array) -> Array:
        worst = error_of(certificate_of(measured, x, y))
        return jnp.where(jnp.isnan(worst), jnp.inf, worst)

    def begin(data: Any, x: Array, y: Array, tol: Array) -> LockStepState:
        measured, known = data
        placed = measured.placed
        mu_most, s_most = lowest(known)
        mu, s = jnp.minimum(0, mu_most), jnp.minimum(FIRST_S, s_most)
        e = error(measured, x, y)
        zero = jnp.zeros((), int)
        return LockStepState(first(placed, known, mu, s, x, y), mu, s, zero, length(mu, s), e, e, x, y, zero, tol)

    def look(data: Any, walk: LockStepState, done: Array) -> LockStepState:
        """LOOK steps and a look, of one problem."""
        measured, known = data
        placed = measured.placed
        p = parameters(known, walk.mu, walk.s)
        state = jax.lax.fori_loop(0, LOOK, lambda _, s: method.update(p, Oracle(placed), s), walk.state)
        x, y = method.point(state)
        e = error(measured, x, y)
        better = e < walk.error
        best_x, best_y = jnp.where(better, x, walk.x), jnp.where(better, y, walk.y)
        iterations = jnp.where(better, done, walk.iterations)
        reduction = jnp.log(walk.start / e)
        left = walk.left - 1
        ended = (left <= 0) | (reduction > EARLY) | ~jnp.isfinite(e)
        mu_most, s_most = lowest(known)
        bad, plenty = reduction < ENOUGH, reduction > PLENTY
        by_mu = (walk.turn % 2 == 1) & (walk.mu < mu_most) | (walk.s >= s_most)
        mu = jnp.where(bad & by_mu, walk.mu + DOWN, jnp.where(plenty, walk.mu - 1, walk.mu))
        s = jnp.where(bad & ~by_mu, walk.s + DOWN, jnp.where(plenty, walk.s - 1, walk.s))
        mu, s = jnp.clip(mu, 0, mu_most), jnp.clip(s, 0, s_most)
        mu, s = jnp.where(ended, mu, walk.mu), jnp.where(ended, s, walk.s)
        anew = ended & ((mu != walk.mu) | (s != walk.s) | ~(e < walk.start))
        from_x, from_y = jnp.where(e < walk.start, x, best_x), jnp.where(e < walk.start, y, best_y)
        fresh = first(placed, known, mu, s, from_x, from_y)
        state = jax.tree.map(lambda new, old: jnp.where(anew, new, old), fresh, state)
        least = jnp.minimum(e, walk.error)
        return LockStepState(
            state=state,
            mu=mu,
            s=s,
            turn=walk.turn + (ended & bad),
            left=jnp.where(ended, length(mu, s), left),
            start=jnp.where(ended, jnp.where(anew & ~(e < walk.start), least, e), walk.start),
            error=least,
            x=best_x,
            y=best_y,
            iterations=iterations,
            tol=walk.tol,
        )

    over = jax.vmap(begin, in_axes=(axes.tree, 0, 0, 0))
    step = jax.vmap(look, in_axes=(axes.tree, 0, None))

    def advance(data: Any, walk: LockStepState, looks: Array, before: Array) -> tuple[LockStepState, Array, Array]:
        def going(carry: Any) -> Array:
            k, walk = carry
            active = jnp.sum(walk.error > walk.tol)
            few = (LEFT * active <= walk.tol.size) & (walk.tol.size > SMALLEST)
            return (k < looks) & (active > 0) & ~few

        def one(carry: Any) -> Any:
            k, walk = carry
            return k + 1, step(data, walk, before + (k + 1) * LOOK)

        taken, walk = jax.lax.while_loop(going, one, (0, walk))
        return walk, jnp.sum(walk.error > walk.tol), taken

    return jax.jit(over), jax.jit(advance)
