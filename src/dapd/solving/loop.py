"""The one loop: chunks of steps, looks at the certificate, limits, interrupt, history."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from dapd.arrays import Array, on_host, owned, wait_for
from dapd.certificate.certify import SOLUTION, Certificate, blame
from dapd.certificate.rays import proves_infeasible, proves_unbounded
from dapd.clock import perf_counter
from dapd.engines.protocol import Runner
from dapd.solving.progress import Display
from dapd.solving.result import History, Status
from dapd.spectrum.estimate import Spectrum
from dapd.ways.judge import judge_of
from dapd.ways.search import Info

GLANCE = 20  # passes over M before the first look; later looks come every tenth of the way
RECORD = 20  # a history has a point every twentieth of the way
PULSE = 0.05  # seconds of steps between two looks at the clock
RUNAWAY = 1e10  # growth of a residual since the start from which it may be divergence
STEEP, STEEP_LOOKS = 8, 3  # power of the iteration that it must outgrow, and looks in a row at which it must
STALLED = 1e4  # roundings within which an error that no longer falls is called stalled
THOROUGH = 4  # times the logarithm of a rounding that the distance to the solution must have fallen by, in theory
PATIENCE = 1_000  # passes over M that such an error may stand still
STRAIGHT, STEADY = 0.9, 0.7  # cosine and ratio of two velocities from which they may be those of a run along a ray
LATER = 1.25  # times the iterations at which a direction was no ray, until the next one is asked for


class Past(NamedTuple):
    """What is kept of the look before the last."""

    iteration: int
    x: Array | None  # None if f is strongly convex, so x cannot run away
    y: Array
    certificate: Certificate


class Drift:
    """How x or y moves from look to look: at a constant velocity if it runs away along a ray."""

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


class Loop:
    """The state of one solve."""

    def __init__(
        self,
        runner: Runner,
        tolerances: tuple[float, float],
        limit: int,
        deadline: float,
        callback: Callable[[Info], object] | None,
        history: bool,
        spectrum: Spectrum | None = None,
        accuracy: str = SOLUTION,
    ) -> None:
        self.runner, self.method, self.limit = runner, runner.method, limit
        self.tolerances = tolerances  # relative and absolute; 0 is none
        self.deadline = deadline  # on the performance counter
        self.callback = callback
        self.spectrum = spectrum  # what the caller knows of M
        self.judging = judge_of(self.method.problem, runner.engine, accuracy=accuracy)
        self.iteration = 0
        self.seconds = 0.0
        self.reason = ""  # said instead of the status's own sentence
        self.ray: Array | None = None  # the proof of `infeasible` or `unbounded`
        self.drift_of_x, self.drift_of_y = Drift(), Drift()
        self.pace = 64.0  # steps per pulse
        self.residuals: list[tuple[int, float]] = []  # iteration and greater residual at each look
        self.errors: list[tuple[int, float]] = []  # iteration and relative error at each look
        self.looks: list[tuple[int, float, Certificate, float]] | None = [] if history else None

    def run(self, shown: Display) -> tuple[Status, Info]:
        """Step and look until something says stop."""
        best: Info | None = None
        try:
            began = perf_counter()
            self.runner.start()
            self.seconds += perf_counter() - began
            best = look = self._look()
            if not math.isfinite(look.certificate.error):
                blame(self.method.problem, on_host(look.x), on_host(look.y))
            # its errors must come before the work
            self.judging.objective(look.x, look.y, satisfied=True)
            before = None
            while True:
                shown.show(look.iteration, look.time, look.certificate, self._remaining(before, look))
                status = self._judge(before, best, look)
                if status is not None:
                    worse = status in (Status.interrupted, Status.diverged)
                    return status, best if worse else look
                self._advance(self._stride(before, look))
                if self.iteration == look.iteration:  # the first step was given up
                    return Status.time_limit, look
                x = None if self.method.problem.f.mu else look.x
                before = Past(look.iteration, x, look.y, look.certificate)
                del look  # if it is not the best, its x may go before there is a new one
                look = self._look()
                best = look if look.certificate.error < best.certificate.error else best
        except KeyboardInterrupt:
            if best is None:  # not even one point to give back
                raise
            return Status.interrupted, best

    def _advance(self, steps: int) -> None:
        """Take `steps` steps, or as many as the time limit allows."""
        while steps and perf_counter() < self.deadline:
            chunk = min(steps, max(1, int(self.pace)))
            began = perf_counter()
            done = self.runner.advance(chunk, self.deadline)
            self.iteration += done * self.method.iterations_per_step
            steps = steps - chunk if done == chunk else 0
            elapsed = perf_counter() - began
            self.seconds += elapsed
            self.pace = min(2 * self.pace, chunk * PULSE / max(elapsed, 1e-9))

    def _look(self) -> Info:
        """Certify the point of the state; off the clock when it is recorded in a history."""
        began = perf_counter()
        x, y = self.runner.point()
        if self.looks is not None:
            wait_for(x)
            self.seconds += perf_counter() - began
        x, y, certificate = self.judging.look(x, y, self.spectrum)
        self.residuals.append((self.iteration, max(certificate.stationarity, certificate.feasibility)))
        self.errors.append((self.iteration, certificate.error))
        if self.looks is None:
            self.seconds += perf_counter() - began
        else:
            self.looks.append((self.iteration, self.seconds, certificate, self._error(x)))
        return Info(self.iteration, self.seconds, x, y, certificate)

    def _error(self, x: Array) -> float:
        star = self.method.problem.x_star
        return math.nan if star is None else float(np.linalg.norm(on_host(x) - star) / (np.linalg.norm(star) or 1.0))

    def _judge(self, before: Past | None, best: Info, look: Info) -> Status | None:
        stop = self.callback is not None and self.callback(look._replace(x=owned(look.x), y=owned(look.y)))
        if look.certificate.meets(*self.tolerances):
            return Status.optimal
        if not math.isfinite(look.certificate.error) or runs_away(self.residuals):
            return Status.diverged
        problem, at, judging = self.method.problem, look.x, self.judging
        if before is not None:
            away, since = look.y - before.y, (before.iteration, look.iteration)
            if self.drift_of_y.persists(away, *since) and judging.may_be_ray(away):
                self.ray = proves_infeasible(problem, at, away, self.deadline)
                self.drift_of_y.ask_at = LATER * look.iteration
            if self.ray is not None:
                return Status.infeasible
            gone = None if before.x is None else at - before.x
            if gone is not None and self.drift_of_x.persists(gone, *since) and judging.may_descend(at, gone):
                self.ray = proves_unbounded(problem, at, gone, self.deadline)
                self.drift_of_x.ask_at = LATER * look.iteration
            if self.ray is not None:
                return Status.unbounded
        if stop:
            self.reason = "Stopped by the callback; this is the best point seen so far."
            return Status.interrupted
        if perf_counter() >= self.deadline:
            return Status.time_limit
        a_step = self.method.iterations_per_step
        if self.iteration + a_step > self.limit:
            if self.limit and not self.iteration:
                self.reason = (
                    f"One step of {self.method.title} takes {a_step:,} iterations, more than the limit allows."
                )
            return Status.iteration_limit
        if self._stalled(best, look):
            remedy = "a larger tol" if problem.dtype == np.float64 else "float64, or a larger tol"
            error = best.certificate.error
            wrong = "" if error <= STALLED * float(np.finfo(problem.dtype).eps) else ", unless mu or L of f is wrong"
            self.reason = (
                f"Stopped by rounding in {problem.dtype}, which keeps the error at {error:.1e}{wrong}: it "
                f"has not fallen for half of the iterations. This is the best point seen; use {remedy}."
            )
            return Status.interrupted
        return None

    def _stalled(self, best: Info, look: Info) -> bool:
        """Whether the error has not fallen for as long as it took to get there, and only rounding can explain that.

        It can if the error is as small as rounding, or if the method's theorem has promised less than rounding by now.
        """
        rounding = float(np.finfo(self.method.problem.dtype).eps)
        still = look.iteration - best.iteration
        if not any(self.tolerances) or still <= best.iteration + PATIENCE * self.method.round:
            return False
        promised = getattr(self.method.parameters, "Pi", math.inf) * THOROUGH * math.log(1 / rounding)
        return best.certificate.error <= STALLED * rounding or look.iteration > promised

    def _remaining(self, before: Past | None, look: Info) -> float:
        """Iterations to the tolerance if the error goes on falling as since the last look; nan if it does not."""
        if before is None or not any(self.tolerances):
            return math.nan
        old, new = (some.certificate.excess(*self.tolerances) for some in (before, look))
        falls = math.log(old / new) if 0 < new < old else 0.0  # 0 too if the two differ only by rounding
        return (look.iteration - before.iteration) * math.log(new) / falls if falls else math.nan

    def _stride(self, before: Past | None, look: Info) -> int:
        """Steps to the next look: a part of the way so far, or fewer if the end is near."""
        # a look costs passes over M, so looks must be rounds apart
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


def runs_away(residuals: list[tuple[int, float]]) -> bool:
    """Whether residuals grow as no convergent method's do: far beyond the start, and faster than any small power.

    Growth by itself proves nothing: on the way to a large x the residuals of a feasible problem grow with a power of
    the iteration. Divergence is geometric, so it outgrows every power.
    """
    if len(residuals) <= STEEP_LOOKS + 1 or not residuals[-1][1] > RUNAWAY * residuals[0][1]:
        return False
    last = residuals[-STEEP_LOOKS - 1 :]
    return all(later > old * (k / before) ** STEEP for (before, old), (k, later) in itertools.pairwise(last))
