"""The supervisor of every solve: candidates take turns until one of them, a limit or the user says stop."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np

from dapd.arguments import TimeUp
from dapd.arrays import Array, on_host, owned
from dapd.certificate.certify import blame
from dapd.certificate.rays import falling_ray, nearly_feasible, proves_infeasible
from dapd.kinds.base import is_own
from dapd.machine.clock import is_cancelled, is_over, perf_counter
from dapd.solving.progress import Display
from dapd.solving.result import History
from dapd.ways.base import Candidate, Choice, Moved, Progress
from dapd.ways.causes import Cause
from dapd.ways.search import Info, Search

CHECKING = 0.15  # part of the time that may go into checks of whether iterates run away along a ray


class Watch:
    """Whoever looks on while a solve runs: shows, records and hands on each convergence check."""

    def __init__(
        self,
        shown: Display | None,
        callback: Callable[[Info], object] | None = None,
        *,
        is_recorded: bool = False,
        x_star: Array | None = None,
    ) -> None:
        self.shown, self.callback, self.is_recorded, self.x_star = shown, callback, is_recorded, x_star
        self.errors: list[tuple[int, float]] = []  # iteration and relative error
        self.rows: list[tuple[int, float, float, float, float]] = []  # of the history

    def show(self, info: Info, remaining: float, complete: Callable[[Info], Info]) -> bool:
        """Whether the callback says stop; `complete` adds to a point what only a callback may read."""
        c = info.certificate
        if self.shown is not None:
            self.shown.show(info.iteration, info.time, c, remaining)
        self.errors.append((info.iteration, c.error))
        if self.is_recorded:
            self.rows.append((info.iteration, info.time, c.stationarity, c.feasibility, self._error(info.x)))
        if self.callback is None:
            return False
        return bool(self.callback(complete(info)._replace(x=owned(info.x), y=owned(info.y))))

    def _error(self, x: Array) -> float:
        star = self.x_star
        return math.nan if star is None else float(np.linalg.norm(on_host(x) - star) / (np.linalg.norm(star) or 1.0))

    def history(self) -> History | None:
        """What was recorded."""
        if not self.is_recorded:
            return None
        iterations, time, stationarity, feasibility, errors = map(np.array, zip(*self.rows, strict=True))
        return History(iterations, time, stationarity, feasibility, None if self.x_star is None else errors)


class Settled(NamedTuple):
    """Whether the constraints can be satisfied."""

    ray: Array | None  # a proof that they cannot
    x: Array | None  # a point that nearly satisfies them


class Questions(Protocol):
    """The tests for infeasibility and unboundedness that a slow solve runs."""

    def ask(self, *, descent: bool) -> Moved:
        """A direction that may be a ray, of x if `descent`."""

    def feasibility(self, *, last: bool) -> Settled | None:
        """Whether any x satisfies the constraints; None if that takes too long."""


class Ended(NamedTuple):
    """How a race ended."""

    cause: Cause
    point: Info  # to return
    ray: Array | None = None  # the proof of a contradiction, or of a descent without end
    is_early: bool = False  # whether the start is all that there is


class Race:
    """The rounds of one solve: candidates make progress, points are judged, and somebody may say stop."""

    def __init__(
        self,
        search: Search,
        choice: Choice,
        watch: Watch,
        questions: Callable[[], Questions] | None,
        *,
        seeks_descent: bool = True,
    ) -> None:
        self.search, self.choice, self.watch = search, choice, watch
        self._questions = questions  # made when the first of them is asked
        self.seeks_descent = seeks_descent  # whether to look for rays of x; those of y are always looked for
        self.falling: Array | None = None  # a ray of x along which the objective falls, if some x is feasible
        self.found_by: Candidate | None = None
        self.turn: Candidate | None = None  # that made the last progress
        self.before, self.made = math.inf, False  # the error before it, and whether there was one
        self.checking, self.has_checked = 0.0, False  # seconds of the checks of directions, but for the first

    @cached_property
    def questions(self) -> Questions | None:
        """These tests; None if the solve runs none."""
        return None if self._questions is None else self._questions()

    def run(self, start: tuple[Array, Array]) -> Ended:
        """Advance the candidate with the best prospects until something says stop."""
        search = self.search
        try:
            progress = self._begin(start)
            while True:
                ended = self._decided(progress)
                if ended is not None:
                    return ended
                progress = self._advance(self.choice.next())
        except (TimeUp, KeyboardInterrupt) as stopped:
            if search.best is None:  # not even one point to give back
                raise
            interrupted = is_cancelled() or isinstance(stopped, KeyboardInterrupt)
            return self._ended(Cause.ctrl_c if interrupted else Cause.deadline)
        finally:
            self.choice.close()

    def _begin(self, start: tuple[Array, Array]) -> Progress:
        """Judge the start; errors of the user's own functions must come before the work."""
        search = self.search
        problem, progress = search.problem, self.choice.begin(start)
        point = search.point
        if math.isinf(search.error):
            blame(problem, *start)
        known = problem.terms is not None and is_own(problem.phi, "prox", "conjugate")
        if not (known or search.kept.candidate):
            search.judging.objective(point.x, point.y, satisfied=True)
        return progress

    def _ended(self, cause: Cause, ray: Array | None = None, point: Info | None = None) -> Ended:
        early = cause is Cause.deadline and self.search.judged <= 1 and not self.choice.is_named
        return Ended(cause, point or self.choice.returned(cause), ray, early)

    def _decided(self, progress: Progress) -> Ended | None:
        """How the solve ends, if it does now: by the first of these causes that holds."""
        search, choice = self.search, self.choice
        stop = self.watch.show(*choice.current(), search.complete)
        if search.done:
            return self._ended(Cause.certificate)
        if progress.cause is not None:
            return self._ended(progress.cause)
        ended = self._ray(progress)
        if ended is not None:
            return ended
        if stop:
            return self._ended(Cause.callback)
        if is_over(search.deadline):
            return self._ended(Cause.ctrl_c if is_cancelled() else Cause.deadline)
        if search.iterations + choice.least > search.limit:
            return self._ended(Cause.limit)
        last = choice.is_exhausted()
        if self.falling is not None:
            return self._settled(last=last)
        return self._ended(Cause.rounding) if last else None

    def _advance(self, candidate: Candidate) -> Progress:
        """Some progress, after which others may start anew from a better point."""
        search = self.search
        self.before, measured = search.error, candidate.measured
        try:
            progress = candidate.advance()
        finally:
            search.seconds[candidate.title] = search.seconds.get(candidate.title, 0.0) + candidate.measured - measured
        self.turn, self.made = candidate, progress is not None
        if search.error < self.before:
            self.found_by = candidate
        self.choice.note(candidate, is_exhausted=progress is None)
        return progress or Progress()

    def _ray(self, progress: Progress) -> Ended | None:
        """Check the directions of the last progress, and those that a slow search asks for."""
        search, turn = self.search, self.turn
        if turn is None or not self.made or not (self.choice.is_named or search.error > 0.5 * self.before):
            return None
        began, found = perf_counter(), list[Moved]()
        if turn.finds_rays or self.checking <= CHECKING * (began - search.began):
            found.append(progress.moved())
        is_first = not self.has_checked and any(part is not None for moved in found for part in moved)
        if not (self.choice.is_named or turn.is_in_time) and self.questions is not None:
            found.append(self.questions.ask(descent=self.falling is None))
        ended = None
        for moved in found:
            ended = ended or self._checked(moved)
        if is_first:  # programs may have to be compiled
            self.has_checked = True
        else:
            self.checking += perf_counter() - began
        return ended

    def _checked(self, moved: Moved) -> Ended | None:
        """A proof that no x is feasible, if y runs away; of a ray of x it is still asked whether some x is feasible."""
        search, at, named = self.search, self.choice.current()[0].x, self.choice.is_named
        problem, judging = search.problem, search.judging
        dx, dy = moved
        if dx is not None and (self.falling is not None or not self.seeks_descent):
            dx = None
        with np.errstate(all="ignore"):
            if dy is not None and (named or judging.may_be_ray(dy)):
                ray = proves_infeasible(problem, at, dy, search.deadline)
                if ray is not None:
                    return self._ended(Cause.contradiction, ray)
            if dx is not None and (nearly_feasible(problem, at) if named else judging.may_descend(at, dx)):
                self.falling = falling_ray(problem, dx, search.deadline)
                if named and self.falling is not None:
                    return self._ended(Cause.descent, self.falling)
        return None

    def _settled(self, *, last: bool) -> Ended | None:
        """How a search ends whose objective falls along a ray, as soon as it is known whether any x is feasible."""
        search = self.search
        found = None if self.questions is None else self.questions.feasibility(last=last)
        if found is None:
            return self._ended(Cause.no_progress) if last else None
        if found.x is None:
            return self._ended(Cause.contradiction, found.ray)
        checked = search.judging.check(found.x, search.point.y)
        return self._ended(Cause.descent, self.falling, search.point._replace(**checked._asdict()))
