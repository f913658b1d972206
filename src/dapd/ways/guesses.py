"""Epochs of x- or y-DAPD with guessed constants, and the method of the theorem with the true ones.

A walk over guesses of μ and s_min is led by how fast the error falls; docs/restarts.md has its rules.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Generator, Iterator
from typing import NamedTuple

from dapd import theory
from dapd.arrays import Array
from dapd.methods.base import Method
from dapd.methods.guesses import (
    FIRST,
    MU_DOWN,
    MU_UP,
    S_DOWN,
    S_UP,
    SHORTEST,
    Guess,
    ends_early,
    epoch_length,
    is_good,
    lowest_guess,
    reduction,
)
from dapd.methods.x_dapd import XDAPD
from dapd.methods.y_dapd import YDAPD
from dapd.ways.leaps import Leaps, error_fell
from dapd.ways.tracks import FARTHER, Bench, Curvature, Judged, Track

LONG, LONGER = 1000, 4  # iterations that any epoch may last, and how many times all iterations so far it may last
LOOKS = 3  # convergence checks in an epoch of a guess
BETTER = 1.2  # ratio of rates from which another guess replaces a good one
BLOWN_UP = 1e3  # growth of the error in an epoch from which an estimated L counts as too small
CONSTANT = 1e-3  # change of the error, as a logarithm, up to which it stays the same
LONGEST_WAIT = 8  # good epochs between two trials of other guesses
FAST = 0.1  # part of the fastest straight move from which another entry takes part in a leap

LATE = 4.0  # iterations, in Π of the constants of the theorem, before these take part
TURN = 4  # the theorem's constants get one in so many iterations


class EpochProgress(NamedTuple):
    """What an epoch achieved."""

    reduction: float  # logarithm of the factor by which the error fell
    steps: int

    @property
    def rate(self) -> float:
        """Reduction per iteration."""
        return self.reduction / max(1, self.steps)


@functools.lru_cache(256)
def favoured_side(L: float, mu: float, s_max: float, s_min: float) -> theory.Side:
    """`theory.favoured`, kept: an epoch asks several times, and guesses return."""
    return theory.favoured(L=L, mu=mu, s_max=s_max, s_min=s_min)


class Dapd:
    """x- and y-DAPD with constants taken for true."""

    def __init__(self, bench: Bench, curvature: Curvature) -> None:
        self.bench, self.curvature, self.mu = bench, curvature, float(bench.problem.f.mu)

    @property
    def lowest(self) -> Guess:
        """The guess of what is known."""
        bench = self.bench
        known = lowest_guess(float(self.curvature.L), self.mu, bench.s_max, bench.form.s_min or 0.0)
        return Guess(*map(float, known))

    def constants(self, guess: Guess) -> tuple[float, float]:
        """μ̂ and ŝ_min."""
        return max(self.mu, self.curvature.L * math.exp(guess.mu)), self.bench.s_max * math.exp(guess.s)

    def _favoured(self, guess: Guess) -> theory.Side:
        mu, s_min = self.constants(guess)
        return favoured_side(self.curvature.L, mu, self.bench.s_max, s_min)

    def steps(self, guess: Guess) -> int:
        """How long an epoch of the guess lasts."""
        best = self._favoured(guess)
        return int(epoch_length(min(best.x.Pi, best.y.Pi)))

    def method(self, guess: Guess, x: Array, y: Array) -> Method:
        """x- or y-DAPD, whichever the guess favours."""
        best = self._favoured(guess)
        if best.method == "x-dapd":
            return XDAPD(self.bench.problem, best.x, x0=x, y0=y)
        return YDAPD(self.bench.problem, best.y, x0=x, y0=y)


class Guesses(Track):
    """A walk over guesses of μ and s_min, led by how fast the error fell per iteration."""

    kind = "guess"

    def __init__(self, bench: Bench, dapd: Dapd) -> None:
        self.dapd, self.at = dapd, bench.best
        self.guess = self.ran = bench.work.learnt.guess or FIRST
        self.method: Method | None = None
        self.seen = bench.best  # at the last but one look
        self.hopeful = True  # whether the last leap succeeded: else only a whole epoch without a change starts one
        self.leaps = Leaps(bench)
        super().__init__(bench)

    def adopt(self, x: Array, y: Array) -> None:
        super().adopt(x, y)
        self.at, self.method = self.bench.best, None

    @property
    def is_ready(self) -> bool:
        """Whether f has shown some curvature."""
        return self.dapd.curvature.L > 0

    def _moved(self, by: Guess) -> Guess:
        """The guess next to the current one, or that itself if the other is not possible or its epoch too long."""
        other = self.guess.next_to(by, self.dapd.lowest)
        longest = max(LONG, LONGER * self.bench.iterations)
        return other if self.dapd.steps(other) <= longest else self.guess

    def _epoch(self, guess: Guess) -> Generator[None, None, EpochProgress]:
        """Run a guess from the current point, or go on with it if it ran last."""
        bench = self.bench
        if self.at.error > FARTHER * bench.best.error:
            self.at, self.method = bench.best, None
        before, done = self.at, bench.iterations
        after = self._run_epoch(guess, before)
        while self.dapd.curvature.was_too_small(before, after, BLOWN_UP) and not bench.over:
            self.method, before = None, bench.best
            after = self._run_epoch(guess, before)
        while self._drifts(self.seen if self.hopeful else before, after) and self.leaps.may_be_tried:
            leapt = self.leaps.leap(after, FAST)
            self.hopeful = leapt is not None
            if leapt is None:
                break
            self.method = None
            yield
            before, done = leapt, bench.iterations
            after = self._run_epoch(guess, leapt)
        made = EpochProgress(error_fell(before, after), bench.iterations - done)
        self.at = after
        if after.error > FARTHER * bench.best.error:
            self.at, self.method = bench.best, None
        yield
        return made

    def _drifts(self, before: Judged, after: Judged) -> bool:
        """Whether the error stayed the same, near a solution."""
        return self.leaps.is_near(after) and before is not after and abs(error_fell(before, after)) < CONSTANT

    def _run_epoch(self, guess: Guess, before: Judged) -> Judged:
        bench = self.bench
        if self.method is None or not bench.runs(self.method) or guess != self.ran:
            self.method, self.ran = self.dapd.method(guess, before.x, before.y), guess
            bench.take(self.method)
        after, left = before, self.dapd.steps(guess)
        often = max(SHORTEST, left // LOOKS)
        while left > 0 and not bench.over:
            piece = often if left >= often + SHORTEST else left
            self.seen, after, left = after, bench.advance(piece), left - piece
            if ends_early(reduction(before.error, after.error), after.error):
                break
            if self.hopeful and self._drifts(self.seen, after):
                break
        return after

    def _run(self) -> Iterator[None]:
        others, wait, patience = [S_DOWN, MU_DOWN, S_UP, MU_UP], 0, 1
        made: EpochProgress | None = None  # of the current guess, if that is fresh
        while True:
            self.bench.work.learnt.guess = self.guess
            if made is None:
                made = yield from self._epoch(self.guess)
            if not is_good(made.reduction):  # too optimistic: go down where it falls faster
                self.guess, made = yield from self._down()
                wait, patience = 0, 1
                continue
            wait -= 1
            if wait > 0:
                made = None
                continue
            by = next((by for by in others if self._moved(by) != self.guess), others[0])
            other = self._moved(by)
            trial = yield from self._epoch(other)
            if trial.rate > BETTER * made.rate:
                self.guess, made, wait, patience = other, trial, 0, 1
            else:
                others.remove(by)
                others.append(by)
                patience = min(LONGEST_WAIT, 2 * patience)
                made, wait = None, patience

    def _down(self) -> Generator[None, None, tuple[Guess, EpochProgress | None]]:
        """Try the lower neighbours until one is good, else take the better one."""
        tried: list[tuple[float, Guess, EpochProgress | None]] = []
        for by in (S_DOWN, MU_DOWN):
            other = self._moved(by)
            if other == self.guess:
                continue
            made = yield from self._epoch(other)
            # a trial that was refused would only repeat itself
            fresh = made if is_good(made.reduction) or self.method is None else None
            tried.append((made.rate, other, fresh))
            if is_good(made.reduction):
                break
        if not tried:  # as low as can be
            yield from self._epoch(self.guess)
            return self.guess, None
        _, guess, fresh = max(tried, key=lambda trial: trial[0])
        return guess, fresh


class Theorem(Track):
    """The method of the theorem from the start, undisturbed; it gets a fixed share of the work."""

    kind = "theorem"

    def __init__(self, bench: Bench, dapd: Dapd) -> None:
        true = dapd.lowest
        self.method = dapd.method(true, bench.best.x, bench.best.y)
        super().__init__(bench)

    @property
    def Pi(self) -> float:
        """That of the theorem."""
        return float(self.method.parameters.Pi)

    @property
    def is_due(self) -> bool:
        """Whether its share is not used up."""
        return bool(TURN * self.done < self.bench.iterations - LATE * self.Pi)

    def _run(self) -> Iterator[None]:
        state, steps = None, max(SHORTEST, int(self.Pi / TURN))
        while True:
            _, state = self.bench.resume(self.method, state, steps)
            yield
