"""A method by itself: exactly the iterates of its paper, judged as they are, ever more rarely."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import numpy as np

from dapd.arguments import TimeUp
from dapd.arrays import Array, wait_for
from dapd.engines.protocol import Engine, Runner
from dapd.machine.blas import single_blas
from dapd.machine.clock import is_over, perf_counter
from dapd.ways.base import Asked, Candidate, Choice, Moved, Progress
from dapd.ways.causes import Cause, Status
from dapd.ways.search import Info, Search

FIRST = 20  # passes over M before the second convergence check; later ones come every tenth of the way
RECORDED = 20  # checks come every twentieth of the way if there is a history
PULSE = 0.05  # seconds of steps between two readings of the clock
RUNAWAY = 1e10  # growth of a residual since the start from which it may be divergence
STEEP, STEEP_CHECKS = 8, 3  # power of the iteration that a diverging residual outgrows, and checks in a row
STALLED = 1e4  # roundings up to which an error that no longer falls is that of the arithmetic
THOROUGH = 4  # power of a rounding below which the theorem's bound must be before an error counts as stalled
PATIENCE = 1_000  # passes over M without progress after which an error counts as stalled
STRAIGHT, STEADY = 0.9, 0.7  # cosine and ratio of two velocities from which iterates may run along a ray
LATER = 1.25  # ratio of the iterations at two checks of a direction, if the first one was no ray


class Drift:
    """How x or y moves from check to check: at a constant velocity if it runs away along a ray."""

    def __init__(self) -> None:
        self.last: Array | None = None
        self.ask_at = 0.0  # iteration

    def persists(self, move: Array, start: int, end: int) -> bool:
        """Whether a move between two iterations goes on as the one before did, and it is time to ask for a proof."""
        before, now = self.last, move / (end - start)
        self.last = now
        if before is None or end < self.ask_at:
            return False
        old, new = (math.sqrt(float((v * v).sum())) for v in (before, now))
        return new >= STEADY * old and float((before * now).sum()) >= STRAIGHT * old * new


class Past(NamedTuple):
    """What is kept of the check before the last."""

    iteration: int
    x: Array | None  # None if f is strongly convex, so x cannot run away
    y: Array
    excess: float


class Named(Candidate):
    """One method, from its start to the end."""

    finds_rays = True

    def __init__(self, search: Search, runner: Runner, *, is_recorded: bool) -> None:
        super().__init__(Asked(search))
        self.runner, self.method, self.is_recorded = runner, runner.method, is_recorded
        self.name, self.title, self.parameters = self.method.name, self.method.title, self.method.parameters
        self.least = self.method.iterations_per_step
        self.seconds = 0.0  # without what recording a history takes
        self.latest: Info | None = None
        self.before: Past | None = None
        self.drifts = Drift(), Drift()  # of x and of y
        self.pace = 64.0  # steps per pulse
        self.residuals: list[tuple[int, float]] = []  # iteration and greater residual at each check

    @property
    def ran(self) -> Engine:
        return Engine(self.runner.engine, self.runner.reason)

    @property
    def current(self) -> Info:
        """The last iterate that was judged."""
        assert self.latest is not None
        return self.latest

    def begin(self) -> Progress:
        """Judge the method's first iterate."""
        began = perf_counter()
        self.runner.start()
        self.seconds += perf_counter() - began
        self._judge()
        return Progress(cause=self._cause())

    def start(self) -> Iterator[Progress]:
        """Steps, and then a convergence check; ever more steps."""
        while True:
            info = self.current
            self._advance(self._stride())
            if self.search.iterations == info.iteration:  # the first step was given up
                raise TimeUp
            x = None if self.method.problem.f.mu else info.x
            self.before = Past(info.iteration, x, info.y, self._excess(info))
            self.latest = None  # if it is not the best, its x may go before there is a new one
            del info
            self._judge()
            yield Progress(self._moved, self._cause())

    def _advance(self, steps: int) -> None:
        """Take `steps` steps, or as many as the time limit allows."""
        search = self.search
        while steps and not is_over(search.deadline):
            chunk = min(steps, max(1, int(self.pace)))
            began = perf_counter()
            done = self.runner.advance(chunk, search.deadline)
            search.iterations += done * self.least
            steps = steps - chunk if done == chunk else 0
            elapsed = perf_counter() - began
            self.seconds += elapsed
            self.pace = min(2 * self.pace, chunk * PULSE / max(elapsed, 1e-9))

    def _judge(self) -> None:
        """Certify the point of the state; off the clock when it is recorded in a history."""
        search, began = self.search, perf_counter()
        x, y = self.runner.point()
        if self.is_recorded:
            wait_for(x)
            self.seconds += perf_counter() - began
        x, y, certificate = search.judging.check(x, y)
        if not self.is_recorded:
            self.seconds += perf_counter() - began
        counts = self.runner.counts
        search.gradients, search.products = counts.gradients, counts.products
        search.block_products = counts.block_products
        self.residuals.append((search.iterations, max(certificate.stationarity, certificate.feasibility)))
        self.latest = Info(search.iterations, self.seconds, x, y, certificate)
        search.note(self.latest)

    def _cause(self) -> Cause | None:
        finite = math.isfinite(self.current.certificate.error)
        # epochs of r²HPDHG take large steps on the way to a ray, and what diverges is soon infinite
        runaway = not self.method.is_restarted and runs_away(self.residuals)
        return None if finite and not runaway else Cause.divergence

    def _moved(self) -> Moved:
        """How x and y moved since the last check, as far as they go on as before."""
        info, before, judging = self.current, self.before, self.search.judging
        assert before is not None
        since = before.iteration, info.iteration
        of_x, of_y = self.drifts
        dx, dy = None if before.x is None else info.x - before.x, info.y - before.y
        if of_y.persists(dy, *since) and judging.may_be_ray(dy):
            of_y.ask_at = LATER * info.iteration
        else:
            dy = None
        if dx is not None and of_x.persists(dx, *since) and judging.may_descend(info.x, dx):
            of_x.ask_at = LATER * info.iteration
        else:
            dx = None
        return Moved(dx, dy)

    @property
    def is_stalled(self) -> bool:
        """Whether the error has not fallen for as long as it took to get there, and only rounding can explain that.

        It can if the error is as small as rounding, or if the method's theorem has promised less than rounding by now.
        """
        info, best = self.current, self.search.point
        rounding = float(np.finfo(self.method.problem.dtype).eps)
        still = info.iteration - best.iteration
        if not any(self.search.tolerances) or still <= best.iteration + PATIENCE * self.method.round:
            return False
        promised = getattr(self.parameters, "Pi", math.inf) * THOROUGH * math.log(1 / rounding)
        return best.certificate.error <= STALLED * rounding or info.iteration > promised

    def _excess(self, info: Info) -> float:
        return info.certificate.excess(*self.search.tolerances)

    def remaining(self) -> float:
        """Iterations to the tolerance if the error goes on falling as since the last check; nan if it does not."""
        if self.before is None or not any(self.search.tolerances):
            return math.nan
        old, new = self.before.excess, self._excess(self.current)
        falls = math.log(old / new) if 0 < new < old else 0.0  # 0 too if the two differ only by rounding
        return (self.current.iteration - self.before.iteration) * math.log(new) / falls if falls else math.nan

    def _stride(self) -> int:
        """Steps to the next check: a part of the way so far, or fewer if the end is near."""
        # a check costs passes over M, so checks must be rounds apart
        shortest = self.method.round * (1 if self.is_recorded else FIRST)
        done = self.search.iterations
        wait = max(shortest, done // (RECORDED if self.is_recorded else 10))
        remaining = self.remaining()
        if remaining < wait:
            wait = max(shortest, math.ceil(remaining))
        return max(1, min(math.ceil(wait / self.least), (self.search.limit - done) // self.least))


class NamedChoice(Choice):
    """One method that was named, or a block-coordinate one that was chosen."""

    is_named = True

    def __init__(self, search: Search, candidate: Named) -> None:
        super().__init__(search)
        self.candidate = self.first = candidate
        self.title, self.least, self.round = candidate.title, candidate.least, candidate.method.round

    def begin(self, start: tuple[Array, Array]) -> Progress:
        return self.candidate.begin()

    def current(self) -> tuple[Info, float]:
        return self.candidate.current, self.candidate.remaining()

    def is_exhausted(self) -> bool:
        return self.candidate.is_stalled

    def returned(self, cause: Cause) -> Info:
        """The last iterate, but the best one if the method did not get to an end of its own."""
        worse = cause.status in (Status.interrupted, Status.diverged)
        return self.search.point if worse or self.candidate.latest is None else self.candidate.current

    def with_threads(self) -> AbstractContextManager[Any]:
        problem = self.candidate.method.problem
        return single_blas(problem.M.work + problem.f.work) if self.candidate.ran.name == "native" else nullcontext()

    def seconds(self) -> float:
        return self.candidate.seconds


def runs_away(residuals: list[tuple[int, float]]) -> bool:
    """Whether residuals grow as no convergent method's do: far beyond the start, and faster than any small power.

    Growth by itself proves nothing: on the way to a large x the residuals of a feasible problem grow with a power of
    the iteration. Divergence is geometric, so it outgrows every power.
    """
    if len(residuals) <= STEEP_CHECKS + 1 or not residuals[-1][1] > RUNAWAY * residuals[0][1]:
        return False
    last = residuals[-STEEP_CHECKS - 1 :]
    return all(later > old * (k / before) ** STEEP for (before, old), (k, later) in itertools.pairwise(last))
