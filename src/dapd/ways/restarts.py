"""Restarts: epochs of x- or y-DAPD with guessed constants, or anchored ones, backed by two tracks that are provable.

Guesses and anchors are for speed. Their safeguards are the theorem's own constants, if they are known, and proximal
epochs, which converge whenever there is a saddle point. docs/restarts.md states what follows and proves it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator
from typing import NamedTuple

import numpy as np

from dapd.arrays import Array
from dapd.engines import in_one_program
from dapd.engines.protocol import Engine
from dapd.methods.anchored import Anchored, residuals
from dapd.methods.anchored import parameters as anchored_parameters
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
    is_good,
    lowest_guess,
    reduction,
)
from dapd.methods.proximal import parameters
from dapd.problem.problem import Problem
from dapd.ways.epochs import Bench, EpochProgress, Judged, accuracy, lengths, moved, straight_moves

LONG, LONGER = 1000, 4  # iterations that any epoch may last, and how many times all iterations so far it may last
LOOKS = 3  # convergence checks in an epoch of a guess
BETTER = 1.2  # ratio of rates from which another guess replaces a good one
FARTHER = 10.0  # ratio to the best error at which a guess goes back to the best point
CONSTANT, STILL = 1e-3, 0.02  # changes of the error, as logarithms: one that starts a leap, and one that ends it
LEAP_NEAR = 0.1  # greatest error at which a leap may start; larger relative errors may stay constant without a reason
LEAPS = 8  # leaps without a better point after which no other is tried until there is one
FEWEST_MOVES, FARTHEST = 8, 2.0**20  # moves of the shortest leap that counts, and of the longest one
LONGEST_WAIT = 8  # good epochs between two trials of other guesses

GROWTH = 4  # a piece of an anchored epoch is one in so many of its iterations so far
RARELY, OFTEN = 60, 10  # iterations between two checks of anchored steps: so many at least, and one in so many of all
BALANCE = 0.8  # power of the change of the weight that an epoch suggests
FALLEN_FAR, FALLEN = 0.2, 0.8  # parts of the first residual at which an anchored epoch ends: now, and if it rises
MOST_CHANGE = 1e4  # greatest factor by which an epoch may suggest to change the weight
FARTHEST_WEIGHT = 1e8  # greatest ratio of a weight and the first one; where x or y ends at zero, its moves say nothing
LONGEST_PART = 0.36  # longest anchored epoch as a part of all anchored iterations

LATE = 4.0  # iterations, in Π of the constants of the theorem, before these take part
TURN = 4  # the theorem's constants, and proximal epochs, get one in so many iterations
FRUITLESS = 12  # epochs that did not reduce the error by e, after which proximal epochs take part
LOOSENESS = 0.5  # error of the first proximal step, as a part of its length
SUMMABLE = 1.1  # power of the number of the proximal step by which this part falls
WEAKENING = 4.0  # factor by which the proximal terms fall after a step that was no shorter by e than the one before
MODERATE = Guess(math.log(1e-3), math.log(1e-2))  # least guess of which the first proximal terms are made
WEAKEST = 1e-8  # least proximal terms relative to the first ones


class Epoch(NamedTuple):
    """The best point after an epoch, and what it took."""

    x: Array
    y: Array
    error: float
    iterations: int
    gradients: int
    products: int
    kind: str  # "start", "guess", "anchored", "theorem" or "proximal"
    mu: float  # the μ that the epoch assumed or added
    s_min: float  # the s_min that it assumed or added
    engine: Engine  # that ran it
    last: tuple[Array, Array]  # where the epoch ended, best or not; runs away along a ray if there is no solution


def restarts(
    problem: Problem,
    judge: Callable[[Array, Array], float],
    *,
    s_max: float,
    s_min: float | None = None,
    start: tuple[Array, Array] | None = None,
    start_error: float | None = None,
    engine: str = "auto",
    deadline: float = math.inf,
    tol: float = 0.0,
    allowed: Callable[[], float] = lambda: math.inf,
    typical: Callable[[], tuple[Array, Array]] | None = None,
) -> Iterator[Epoch]:
    """Yield the best point after each epoch until its error is at most `tol` or a limit is reached.

    Parameters
    ----------
    problem : Problem
        f with any mu, and L known, zero or None; M and φ without assumptions.
    judge : function of x and y
        The relative error of a point: at most about 1, and as small as one likes near every solution.
    s_max : float
        A bound on ‖M‖.
    s_min : float, optional
        With f.mu > 0, a positive value lets the theorem's constants take part.
    start : pair of vectors, optional
        The first x and y, zero by default.
    start_error : float, optional
        Their error, if it is known.
    engine : str
        As for `dapd.solve`.
    deadline : float
        A value of `time.perf_counter()`.
    allowed : function without arguments
        How many iterations there may be in all; it may change from one call to the next.
    typical : function without arguments, optional
        Usual sizes of x and y, for the first unit of a linear f; by default those that the data of `problem` give.
    """
    start = start or (np.zeros(problem.columns), np.zeros(problem.rows))
    bench = Bench(problem, judge, s_max, start, engine, deadline, tol, allowed, start_error, typical)
    lowest = Guess(*map(float, lowest_guess(float(bench.L), bench.mu, bench.s_max, s_min or 0.0)))
    guesses = _Guesses(bench, lowest)
    proximal = _Proximal(bench, guesses)
    tracks: list[_Track] = [guesses, _Anchored(bench), proximal]
    if s_min and bench.mu > 0 and bench.L_known:
        tracks.append(_Theorem(bench, Guess(lowest.mu, lowest.s)))
    yield _record(bench, None)
    stall = _Stall(bench)
    while not bench.over:
        track = next((track for track in reversed(tracks) if track.is_due(stall)), guesses)
        before = bench.iterations
        next(track.epochs)
        track.work += bench.iterations - before
        stall.note(track)
        yield _record(bench, track)


def _record(bench: Bench, track: _Track | None) -> Epoch:
    kind, used = ("start", (0.0, 0.0)) if track is None else (track.kind, track.used)
    last = bench.last.x, bench.last.y
    return Epoch(*bench.best, bench.iterations, *bench.counts(), kind, *used, bench.ran, last)


class _Stall:
    """How long guesses have not reduced the best error by a factor of e."""

    def __init__(self, bench: Bench) -> None:
        self.bench, self.error, self.since, self.epochs = bench, bench.best.error, 0, 0

    def note(self, track: _Track) -> None:
        """Count an epoch, or start again after a good one; what a proximal epoch gained does not count.

        Nor do the parts of anchored epochs, of which there are many.
        """
        error = self.bench.best.error
        if track.kind == "proximal":
            self.error = min(self.error, error)
        elif error < self.error / math.e:
            self.error, self.since, self.epochs = error, self.bench.iterations, 0
        elif track.kind != "anchored":
            self.epochs += 1

    @property
    def lasts(self) -> bool:
        """Whether it is time for something else."""
        return self.epochs > FRUITLESS or self.bench.iterations > max(LONG, LONGER * self.since)


class _Track:
    """One way to choose epochs; `epochs` yields after each."""

    kind: str

    def __init__(self, bench: Bench) -> None:
        self.bench, self.work, self.used = bench, 0, (0.0, 0.0)
        self.epochs = self._run()

    def _run(self) -> Iterator[None]:
        raise NotImplementedError

    def is_due(self, stall: _Stall) -> bool:
        """Whether its next epoch has its turn now."""
        return False


class _Guesses(_Track):
    """A walk over guesses of μ and s_min, led by how fast the error fell per iteration."""

    kind = "guess"

    def __init__(self, bench: Bench, lowest: Guess) -> None:
        self.guess, self.lowest, self.at, self.ran = FIRST, lowest, bench.best, FIRST
        self.method: Method | None = None
        self.seen = bench.best  # at the last but one look
        self.hopeful = True  # whether the last leap succeeded: else only a whole epoch without a change starts one
        self.in_vain, self.leapt_at = 0, math.inf  # leaps since there was a better point, and its error
        super().__init__(bench)

    def _moved(self, by: Guess) -> Guess:
        """The guess next to the current one, or that itself if the other is not possible or its epoch too long."""
        other = self.guess.next_to(by, self.lowest)
        longest = max(LONG, LONGER * self.bench.iterations)
        return other if self.bench.steps(other) <= longest else self.guess

    def _epoch(self, guess: Guess) -> Generator[None, None, EpochProgress]:
        """Run a guess from the current point, or go on with it if it ran last."""
        bench = self.bench
        if self.at.error > FARTHER * bench.best.error:
            self.at, self.method = bench.best, None
        before, done = self.at, bench.iterations
        after = self._run_epoch(guess, before)
        while bench.L_was_too_small(before, after) and not bench.over:
            self.method, before = None, bench.best
            after = self._run_epoch(guess, before)
        while self._drifts(self.seen if self.hopeful else before, after) and self._may_leap():
            leapt = self._leap(after)
            self.hopeful = leapt is not None
            if leapt is None:
                break
            yield
            before, done = leapt, bench.iterations
            after = self._run_epoch(guess, leapt)
        made = EpochProgress(_reduction(before, after), bench.iterations - done)
        self.at = after
        if after.error > FARTHER * bench.best.error:
            self.at, self.method = bench.best, None
        yield
        return made

    def _drifts(self, before: Judged, after: Judged) -> bool:
        """Whether the error stayed the same, near a solution."""
        near = after.error <= min(LEAP_NEAR, self.bench.best.error * math.exp(STILL)) and not self.bench.over
        return near and before is not after and abs(_reduction(before, after)) < CONSTANT

    def _may_leap(self) -> bool:
        """Whether the last few leaps led to a better point; else they lead nowhere."""
        if self.bench.best.error < self.leapt_at * math.exp(-STILL):
            self.in_vain, self.leapt_at = 0, self.bench.best.error
        self.in_vain += 1
        return self.in_vain <= LEAPS

    def _leap(self, at: Judged) -> Judged | None:
        """Move along what moves in a straight line, until that changes the error; None if it does so soon.

        If an error stays the same, a few multipliers are on their way to where a constraint lets go, with a speed as
        small as the error. Entries whose moves in two pieces of the same length differ are not among them.
        """
        bench, pieces = self.bench, [at]
        while len(pieces) < 3:
            if bench.over:
                return None
            pieces.append(bench.advance(SHORTEST))
        start = pieces[-1]
        *moves, straight = in_one_program(straight_moves, *(piece[k] for k in (0, 1) for piece in pieces))
        if not straight:
            return None
        found, reached, step, growing = start, 0.0, 1.0, True
        while step >= 1 and not bench.over:
            tried = bench.keep(*in_one_program(moved, start.x, start.y, *moves, reached + step))
            fell = _reduction(start, tried)
            if fell > -STILL:
                found, reached = tried, reached + step
            if fell > STILL:
                break
            growing = growing and fell > -STILL and step < FARTHEST
            step = 2 * step if growing else step / 2
        if reached < FEWEST_MOVES:
            return None
        self.method = None
        return found

    def _run_epoch(self, guess: Guess, before: Judged) -> Judged:
        bench, self.used = self.bench, self.bench.constants(guess)
        if self.method is None or not bench.runs(self.method) or guess != self.ran:
            self.method, self.ran = bench.of_guess(guess, before.x, before.y), guess
            bench.take(self.method)
        after, left = before, bench.steps(guess)
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


class _Anchored(_Track):
    """Anchored epochs, which guess neither μ nor s_min: the main track if f is linear, else for guesses that stall."""

    kind = "anchored"

    def is_due(self, stall: _Stall) -> bool:
        """Whether it is time for it: always if f is linear, else for half of the work while guesses stall."""
        bench = self.bench
        return bench.L == 0 or (bench.L_known and stall.lasts and 2 * self.work <= bench.iterations)

    def _run(self) -> Iterator[None]:
        bench, first = self.bench, self.bench.unit / self.bench.s_max
        weight = first
        at, done, least = bench.best, 0, math.inf  # the last point, iterations, and the least error
        residual = None  # T(z) − z at the last look, as the lengths of its x and y
        while True:
            if not math.isfinite(at.error) or bench.best.error * FARTHER < least:  # others are ahead
                at = bench.best
            anchor, state, taken, last = at, None, 0, math.inf
            began = math.inf if residual is None else _weighed(weight, *residual)
            self.used = weight * bench.s_max, 0.0
            while True:
                piece = max(SHORTEST, taken // GROWTH)
                beta = 1 / (taken + piece / 2 + 2)
                p = anchored_parameters(L=bench.L, s_max=bench.s_max, weight=weight, beta=beta)
                method = Anchored(bench.problem, p, x0=anchor.x, y0=anchor.y)
                state = bench.run(method, state, piece)
                taken, done = taken + piece, done + piece
                residual = tuple(map(float, in_one_program(residuals, state, p.ahead, p.beta)))
                now = _weighed(weight, *residual)
                began = now if math.isinf(began) else began
                rises = now <= FALLEN * began and now > last
                long = taken > max(2 * SHORTEST, LONGEST_PART * done)
                ends = now <= FALLEN_FAR * began or rises or long or not math.isfinite(now)
                last = now
                if ends or bench.over or not bench.L_known or bench.unseen >= max(RARELY, bench.iterations // OFTEN):
                    at = bench.look()
                    least = min(least, at.error)
                    yield
                if ends or bench.L_was_too_small(anchor, at):
                    break
            if math.isfinite(at.error):
                of_x, of_y = map(float, in_one_program(lengths, at.x, anchor.x, at.y, anchor.y))
                weight = _balanced(weight, of_x, of_y)
                weight = min(max(weight, first / FARTHEST_WEIGHT), first * FARTHEST_WEIGHT)


def _weighed(weight: float, of_x: float, of_y: float) -> float:
    """The length of a move whose x and y are this long, in the norm of anchored steps but for its cross term."""
    return math.sqrt(weight) * math.hypot(of_x, of_y / weight)


def _balanced(weight: float, of_x: float, of_y: float) -> float:
    """A weight nearer to that of moves this long; one of few values, so that programs for it are found again."""
    if of_x == of_y == 0:
        return weight
    change = MOST_CHANGE if MOST_CHANGE * weight * of_x <= of_y else max(1 / MOST_CHANGE, of_y / (weight * of_x))
    return math.exp2(round(math.log2(weight * change**BALANCE)))


class _Theorem(_Track):
    """The method of the theorem from the start, undisturbed; it gets a fixed share of the work."""

    kind = "theorem"

    def __init__(self, bench: Bench, true: Guess) -> None:
        self.method = bench.of_guess(true, bench.best.x, bench.best.y)
        super().__init__(bench)
        self.used = bench.constants(true)

    def is_due(self, stall: _Stall) -> bool:
        """Whether its share is not used up."""
        return bool(TURN * self.work < self.bench.iterations - LATE * self.method.parameters.Pi)

    def _run(self) -> Iterator[None]:
        state, steps = None, max(SHORTEST, int(self.method.parameters.Pi / TURN))
        while True:
            _, state = self.bench.resume(self.method, state, steps)
            yield


class _Proximal(_Track):
    """The inexact proximal point method, each step an instance of the theorem (Rockafellar 1976)."""

    kind = "proximal"

    def __init__(self, bench: Bench, guesses: _Guesses) -> None:
        self.guesses = guesses
        super().__init__(bench)

    def is_due(self, stall: _Stall) -> bool:
        """Whether the guesses have stalled and this track's share is not used up."""
        return stall.lasts and TURN * self.work <= self.bench.iterations

    def _run(self) -> Iterator[None]:
        bench = self.bench
        moved_at = math.inf
        at, number, weaker, mu, delta = bench.best, 0, 1.0, 0.0, 0.0
        while True:
            if bench.best.error <= 0.5 * moved_at and bench.best.error <= at.error:
                at, moved_at, number, weaker = bench.best, bench.best.error, 0, 1.0
                before = math.inf
                guess = self.guesses.guess
                mu, s = bench.constants(Guess(max(guess.mu, MODERATE.mu), max(guess.s, MODERATE.s)))
                delta = s * s / math.sqrt((bench.L + mu) * (bench.mu + mu))
            at, length = yield from self._step(at, weaker * mu, weaker * delta, LOOSENESS * (number + 1) ** -SUMMABLE)
            if math.isinf(at.error):  # only wrong constants of the user's own f can do that
                at, moved_at = bench.best, math.inf
            length = length / math.sqrt(weaker)
            if length * math.e > before:
                weaker = max(WEAKEST, weaker / WEAKENING)
            before = length
            number += 1

    def _step(
        self, centre: Judged, mu: float, delta: float, looseness: float
    ) -> Generator[None, None, tuple[Judged, float]]:
        """An approximate proximal-point step whose error is at most `looseness` times its length."""
        bench, problem, patience = self.bench, self.bench.problem, 40.0
        while True:
            kind, p = parameters(L=bench.L, mu=bench.mu, s_max=bench.s_max, mu_hat=mu, delta=delta)
            self.used = mu, p.r
            method, state, began = kind(problem, p, x0=centre.x, y0=centre.y), None, self.work
            while bench.L_known or self.work - began < patience * p.Pi:
                piece = max(SHORTEST, min(int(p.Pi), bench.iterations // TURN))
                found, state = bench.resume(method, state, piece)
                yield
                if bench.L_was_too_small(centre, found):
                    break
                with np.errstate(all="ignore"):
                    made = accuracy(problem, p, found.x, centre.x, centre.y)
                bench.asked[0], bench.asked[1] = bench.asked[0] + 1, bench.asked[1] + 2
                if made.error <= max(looseness * made.length, made.rounding):
                    return bench.keep(found.x, made.y.astype(problem.dtype)), made.length
            else:
                bench.learn_L(2 * bench.unit)
            patience *= 2


def _reduction(before: Judged, after: Judged) -> float:
    return float(reduction(before.error, after.error))
