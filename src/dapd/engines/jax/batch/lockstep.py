"""Restarted first-order steps on many problems in lock step: all take their steps together, each has its own epochs.

Where all of f has a prox, they are r²HPDHG's (`anchoring.py`), else those of x- or y-DAPD with guesses (`guessing.py`).
Every `LOOK` steps all points are judged; a problem whose epoch is over then begins another one, alone. Problems that
are done leave the batch as soon as a small part is left.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from dapd.arrays import Array
from dapd.certificate.certify import error_of
from dapd.engines.jax.batch.anchoring import Anchoring
from dapd.engines.jax.batch.guessing import Guessing, favoured
from dapd.engines.jax.batch.known import LOOK, Best, Constants
from dapd.engines.jax.epochs import chosen
from dapd.engines.jax.judge import Measured, certificate_of
from dapd.engines.jax.runner import WithProx
from dapd.functions.proximable import PrimalProx
from dapd.machine.clock import is_over, perf_counter, seconds_left
from dapd.machine.rates import COMPILATION

LEFT = 8  # the batch is made smaller if one problem in so many is left
SMALLEST, SMALLEST_ON_GPU = 64, 1024  # problems of a batch that takes no longer than a smaller one
WORTH = 2  # least factor by which a batch is made smaller
PULSE = 0.3  # seconds between two decisions of the host
SHRUNK: set[Any] = set()  # batches whose programs for fewer problems were compiled


class Together(NamedTuple):
    """Many problems as trees of arrays, or along which axis each of these counts them (None: all share it)."""

    measured: Measured
    prox: PrimalProx | None  # of f, if all of it has one
    known: Constants


class LockStepState(NamedTuple):
    """Where each problem is."""

    epochs: Any
    best: Best
    iterations: Array  # until the best point
    tol: Array


class Found(NamedTuple):
    """The best point of each problem, on the device."""

    x: Array
    y: Array
    error: Array
    iterations: Array


class Lockstep:
    """A batch on the device."""

    def __init__(self, problems: Together, axes: Together) -> None:
        self.problems, self.axes = problems, axes
        self.method = "r2hpdhg" if problems.prox is not None else favoured(problems.known)
        self.interrupted = False

    def __len__(self) -> int:
        return len(self.problems.known.L)

    def origin(self) -> tuple[Array, Array]:
        """Zero for every problem."""
        measured = self.problems.measured
        rows, columns = (v.shape[-1] for v in (measured.b, measured.sizes.columns))
        with jax.enable_x64(True):
            return jnp.zeros((len(self), columns)), jnp.zeros((len(self), rows))

    def run(self, start: tuple[Array, Array], tol: Array, limit: int, deadline: float) -> tuple[Found, int]:
        """Walk until all errors are at most their `tol`, a limit is reached or Ctrl-C ends it; return the steps too."""
        with jax.enable_x64(True):
            return self._run(start, tol, limit, deadline)

    def _run(self, start: tuple[Array, Array], tol: Array, limit: int, deadline: float) -> tuple[Found, int]:
        found, own = None, np.arange(len(tol))  # the best points, and the problem of each place
        data = self.problems._replace(known=Constants(*map(jnp.asarray, self.problems.known)))
        axes = Axes(self.axes)
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
            size = smaller(len(own))
            kind = self.method, axes, start[0].shape, start[1].shape, len(own), size
            shrinks = LEFT * active <= len(own) and size < len(own)
            shrinks = shrinks and (kind in SHRUNK or seconds_left(deadline) > COMPILATION.smaller_batch)
            if over or shrinks:
                here = Found(walk.best.x, walk.best.y, walk.best.error, walk.iterations)
                found = here if found is None else _merged(found, own, here)
                if over:
                    return found, done
                going = np.flatnonzero(np.asarray(walk.best.error > walk.tol))
                keep = np.resize(going, size)  # repeats some, if fewer are left
                data, walk = compiled.take(data, walk, keep)
                own = own[keep]
                SHRUNK.add(kind)


def smaller(count: int) -> int:
    """The problems of a batch that is made smaller; as many as before if that is not worth it."""
    least = SMALLEST_ON_GPU if jax.default_backend() == "gpu" else SMALLEST
    size = max(least, -(-count // LEFT))
    return size if WORTH * size <= count else count


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
        self.steps: Any = Anchoring() if name == "r2hpdhg" else Guessing(name)
        self.axes = axes.tree
        self.begin = jax.jit(jax.vmap(self._begin, in_axes=(self.axes, 0, 0, 0)))
        self.step = jax.vmap(self._look, in_axes=(self.axes, 0, None))
        self.advance, self.take = jax.jit(self._advance), jax.jit(self._take)

    def _begin(self, problem: Together, x: Array, y: Array, tol: Array) -> LockStepState:
        best = Best(x, y, _error(problem.measured, x, y))
        epochs = self.steps.begin(_placed(problem), problem.known, best)
        return LockStepState(epochs, best, jnp.zeros((), int), tol)

    def _look(self, problem: Together, walk: LockStepState, done: Array) -> LockStepState:
        """`LOOK` iterations and a convergence check."""
        placed, known = _placed(problem), problem.known
        epochs, x, y = self.steps.steps(placed, known, walk.epochs)
        last = Best(x, y, _error(problem.measured, x, y))
        better = last.error < walk.best.error
        best = chosen(better, last, walk.best)
        epochs = self.steps.checked(placed, known, epochs, last, best)
        return LockStepState(epochs, best, jnp.where(better, done, walk.iterations), walk.tol)

    def _advance(
        self, data: Any, walk: LockStepState, looks: Array, before: Array
    ) -> tuple[LockStepState, Array, Array]:
        def going(carry: Any) -> Array:
            k, walk = carry
            active = jnp.sum(walk.best.error > walk.tol)
            few = (LEFT * active <= walk.tol.size) & (smaller(walk.tol.size) < walk.tol.size)
            return (k < looks) & (active > 0) & ~few

        def one(carry: Any) -> Any:
            k, walk = carry
            return k + 1, self.step(data, walk, before + (k + 1) * LOOK)

        taken, walk = jax.lax.while_loop(going, one, (0, walk))
        return walk, jnp.sum(walk.best.error > walk.tol), taken

    def _take(self, data: Any, walk: LockStepState, keep: Array) -> tuple[Any, LockStepState]:
        def of(axis: int | None, v: Array) -> Array:
            return v if axis is None else v[keep]

        some = jax.tree.map(of, self.axes, data, is_leaf=lambda axis: axis is None)
        return some, jax.tree.map(lambda v: v[keep], walk)


def _error(measured: Measured, x: Array, y: Array) -> Array:
    worst = error_of(certificate_of(measured, x, y))
    return jnp.where(jnp.isnan(worst), jnp.inf, worst)


def _placed(problem: Together) -> Any:
    """One problem as steps take it."""
    measured = problem.measured
    return measured if problem.prox is None else WithProx(measured.M, None, measured.phi, measured.b, problem.prox)


programs = functools.lru_cache(maxsize=64)(Programs)
