"""The one loop: chunks of steps, looks at the certificate, limits, interrupt, history."""

from __future__ import annotations

import math
from collections.abc import Callable
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from dapd.arrays import Array
from dapd.kernels.team import TimeUp
from dapd.methods import Method
from dapd.methods.base import copy_of
from dapd.solving.certificate import Certificate, certify, proves_infeasible
from dapd.solving.progress import Display
from dapd.solving.result import History, Status
from dapd.spectrum.estimate import Spectrum

GLANCE = 20  # passes over M before the first look; later looks come every tenth of the way
RECORD = 20  # a history has a point every twentieth of the way
PULSE = 0.05  # seconds of steps between two looks at the clock
RUNAWAY = 1e10  # growth of a residual that counts as divergence
STALLED = 1e4  # roundings within which an error that no longer falls is called stalled
PATIENCE = 1_000  # passes over M that such an error may stand still


class Info(NamedTuple):
    """A look at the run: what a callback is told."""

    iteration: int
    time: float
    x: Array
    y: Array
    certificate: Certificate


class Past(NamedTuple):
    """What is kept of the look before the last."""

    iteration: int
    y: Array
    certificate: Certificate


class Loop:
    """The state of one solve."""

    def __init__(
        self,
        method: Method,
        spectrum: Spectrum | None,
        tol: float,
        limit: int,
        time_limit: float | None,
        callback: Callable[[Info], object] | None,
        history: bool,
    ) -> None:
        self.method, self.spectrum, self.tol, self.limit = method, spectrum, tol, limit
        self.time_limit = math.inf if time_limit is None else time_limit
        self.callback = callback
        self.iteration = 0
        self.seconds = 0.0
        self.reason = ""  # said instead of the status's own sentence
        self.pace = 1.0  # steps a pulse
        self.looks: list[tuple[int, float, Certificate, float]] | None = [] if history else None

    def run(self, shown: Display) -> tuple[Status, Info]:
        """Step and look until something says stop."""
        best: Info | None = None
        try:
            began = perf_counter()
            state = copy_of(self.method.init())
            self.seconds += perf_counter() - began
            best = look = self._look(state)
            first, before = look.certificate, None
            while True:
                shown.show(look.iteration, look.time, look.certificate, self._remaining(before, look))
                status = self._judge(first, before, best, look)
                if status is not None:
                    worse = status in (Status.interrupted, Status.diverged)
                    return status, best if worse else look
                state = self._advance(state, self._stride(before, look))
                if self.iteration == look.iteration:  # the first step was given up
                    return Status.time_limit, look
                before, look = Past(look.iteration, look.y, look.certificate), self._look(state)
                best = look if look.certificate.error < best.certificate.error else best
        except KeyboardInterrupt:
            if best is None:  # not even one point to give back
                raise
            return Status.interrupted, best

    def _advance(self, state: Any, steps: int) -> Any:
        """Take so many steps, or as many as the time limit allows."""
        long = self.method.iterations_per_step > 1  # a step that may be given up, so that its state must be kept
        advance = self.method.run if long else self.method.advance
        while steps and self.seconds < self.time_limit:
            chunk = min(steps, max(1, int(self.pace)))
            began = perf_counter()
            left = self.time_limit - self.seconds
            self.method.oracle.deadline = began + left if long and chunk == 1 else math.inf
            try:
                state = advance(state, chunk)
                self.iteration += chunk * self.method.iterations_per_step
                steps -= chunk
                elapsed = perf_counter() - began
            except TimeUp:
                elapsed = max(perf_counter() - began, left)
            self.seconds += elapsed
            self.pace = min(2 * self.pace, chunk * PULSE / max(elapsed, 1e-9))
        return state

    def _look(self, state: Any) -> Info:
        """Certify the point of a state; off the clock when it is recorded in a history."""
        began = perf_counter()
        x, y = (part.copy() for part in self.method.point(state))  # compiled steps go on in the state's arrays
        certificate = certify(self.method.problem, x, y)
        if self.looks is None:
            self.seconds += perf_counter() - began
        else:
            self.looks.append((self.iteration, self.seconds, certificate, self._error(x)))
        return Info(self.iteration, self.seconds, x, y, certificate)

    def _error(self, x: Array) -> float:
        star = self.method.problem.x_star
        return math.nan if star is None else float(np.linalg.norm(x - star) / (np.linalg.norm(star) or 1.0))

    def _judge(self, first: Certificate, before: Past | None, best: Info, look: Info) -> Status | None:
        stop = self.callback is not None and self.callback(look._replace(x=look.x.copy(), y=look.y.copy()))
        if look.certificate.error <= self.tol and self.tol > 0:
            return Status.optimal
        if runs_away(first, look.certificate):
            return Status.diverged
        problem = self.method.problem
        if before is not None and proves_infeasible(problem, self.spectrum, look.x, look.y - before.y):
            return Status.infeasible
        if stop:
            self.reason = "Stopped by the callback; this is the best point seen so far."
            return Status.interrupted
        if self.seconds >= self.time_limit:
            return Status.time_limit
        a_step = self.method.iterations_per_step
        if self.iteration + a_step > self.limit:
            if self.limit and not self.iteration:
                self.reason = (
                    f"One step of {self.method.title} takes {a_step:,} iterations, more than the limit allows."
                )
            return Status.iteration_limit
        if self._stalled(best, look):
            self.reason = (
                f"Stopped where rounding in {problem.dtype} keeps the error at {best.certificate.error:.1e}; it has "
                "not fallen for half of the iterations. Use float64, or a larger tol."
            )
            return Status.iteration_limit
        return None

    def _stalled(self, best: Info, look: Info) -> bool:
        """Whether the error has stood still, at a level that rounding explains, for as long as it took to get there."""
        rounding = float(np.finfo(self.method.problem.dtype).eps)
        still = look.iteration - best.iteration
        long = still > best.iteration + PATIENCE * self.method.round
        return self.tol > 0 and long and best.certificate.error <= STALLED * rounding

    def _remaining(self, before: Past | None, look: Info) -> float:
        """Iterations to the tolerance if the error goes on falling as since the last look; nan if it does not."""
        if before is None or self.tol == 0:
            return math.nan
        old, new = before.certificate.error, look.certificate.error
        if not 0 < new < old:
            return math.nan
        return (look.iteration - before.iteration) * math.log(new / self.tol) / math.log(old / new)

    def _stride(self, before: Past | None, look: Info) -> int:
        """Steps to the next look: a part of the way so far, or fewer where the end is near."""
        # a look costs passes over M, so that looks must be rounds apart
        shortest = self.method.round * (GLANCE if self.looks is None else 1)
        wait = max(shortest, self.iteration // (10 if self.looks is None else RECORD))
        remaining = self._remaining(before, look)
        if remaining < wait:
            wait = max(shortest, math.ceil(remaining))
        a_step = self.method.iterations_per_step
        return max(1, min(math.ceil(wait / a_step), (self.limit - self.iteration) // a_step))

    def history(self) -> History | None:
        """What was recorded."""
        if self.looks is None:
            return None
        iterations, time, certificates, errors = zip(*self.looks, strict=True)
        return History(
            np.array(iterations),
            np.array(time),
            np.array([c.stationarity for c in certificates]),
            np.array([c.feasibility for c in certificates]),
            None if self.method.problem.x_star is None else np.array(errors),
        )


def runs_away(first: Certificate, now: Certificate) -> bool:
    """Whether a residual is no number, or has grown beyond all that a start may explain."""
    # the scales of `now` grow with the iterate, so that only those of the start tell
    allowed = RUNAWAY * max(first.stationarity_scale, first.feasibility_scale, first.stationarity, first.feasibility)
    return not max(now.stationarity, now.feasibility) <= allowed
