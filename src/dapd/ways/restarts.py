"""Restarts: epochs of r²HPDHG, and of x- or y-DAPD with guessed constants, of which the better ones go on.

Structure decides who begins, and measured progress who goes on. docs/restarts.md states what follows and proves it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

from dapd.arrays import Array
from dapd.engines.protocol import Engine
from dapd.problem.problem import Problem
from dapd.ways.anchored import Anchored
from dapd.ways.guesses import Dapd, Guesses, Theorem
from dapd.ways.kept import Learnt
from dapd.ways.tracks import FARTHER, Bench, Curvature, Form, Judged, Track, Work

LONG, LONGER = 1000, 4  # iterations after which no progress is a stall: in any case, and times those until the last one
LONGEST = 4000  # the same in any case of r²HPDHG if it takes the prox of all of f: its errors often fall late
FRUITLESS = 12  # epochs of guesses that did not reduce the error by e, after which they have stalled
CERTAIN = 64.0  # Π of the theorem up to which its constants are faster than any other steps


class Turn(NamedTuple):
    """Where a turn of a track ended, and what all turns took."""

    best: Judged  # the best point of that track so far
    last: tuple[Array, Array]  # where it ended, best or not; runs away along a ray if there is no solution
    form: Form  # in whose variables both are
    kind: str  # "start", "guess", "anchored" or "theorem"
    error: float  # the least of all
    iterations: int
    gradients: int
    products: int
    engine: Engine  # that ran it


class Restarts:
    """The tracks of a solve, each of which is set up when it has its first turn."""

    def __init__(
        self,
        forms: dict[str, Callable[[], Form]],
        work: Work,
        start: tuple[Array, Array],
        start_error: float | None,
    ) -> None:
        self.forms, self.work, self.start, self.start_error = forms, work, start, start_error
        self.tracks: dict[str, Track] = {}

    def track(self, kind: str) -> Track:
        """The track of this kind, at the best point that is much better than its own."""
        if kind not in self.tracks:
            self.tracks[kind] = self._made(kind)
        track = self.tracks[kind]
        best = min((other.bench for other in self.tracks.values()), key=lambda bench: bench.best.error)
        if best is not track.bench and best.best.error * FARTHER < min(track.bench.best.error, track.adopted):
            track.adopted = best.best.error  # another form may find that point worse, and it is not taken twice
            point = track.bench.form.start(*best.form.back(best.best.x, best.best.y))
            track.adopt(*point)
        return track

    def _made(self, kind: str) -> Track:
        bench = self.tracks["guess"].bench if kind == "theorem" else self._bench(kind)
        if kind == "anchored":
            rest = bench.problem.proximable.rest
            return Anchored(bench, Curvature(rest, bench))
        dapd = Dapd(bench, Curvature(bench.problem.f, bench))
        return Theorem(bench, dapd) if kind == "theorem" else Guesses(bench, dapd)

    def _bench(self, kind: str) -> Bench:
        form = self.forms[kind]()
        return Bench(form, self.work, form.start(*self.start), self.start_error)

    def counts(self) -> tuple[int, int]:
        """Gradients and products of all tracks."""
        made = [bench.counts() for bench in {id(track.bench): track.bench for track in self.tracks.values()}.values()]
        return sum(gradients for gradients, _ in made), sum(products for _, products in made)

    def turn(self, track: Track, kind: str) -> Turn:
        """What there is to say after a turn of the track."""
        bench = track.bench
        last = bench.last.x, bench.last.y
        return Turn(
            bench.best, last, bench.form, kind, self.work.error, self.work.iterations, *self.counts(), bench.ran
        )

    def run(self, problem: Problem) -> Iterator[Turn]:
        """Turns until the best point is good enough or a limit is reached."""
        lead = self._first(problem)
        stall = _Stall(self.work, lead)
        yield self.turn(self.track(lead), "start")
        has_other = problem.f.L != 0  # a linear f has no curvature that could be guessed
        while not self.work.over:
            kind = self._next(stall, has_other=has_other)
            track, before = self.track(kind), self.work.iterations
            next(track.epochs)
            track.done += self.work.iterations - before
            stall.note(kind)
            yield self.turn(track, kind)

    def _next(self, stall: _Stall, *, has_other: bool) -> str:
        """Whose turn it is: the theorem's track has a share, and the other one half of all while the first stalls."""
        theorem = self.tracks.get("theorem")
        if isinstance(theorem, Theorem) and theorem.is_due:
            return "theorem"
        if has_other and stall.lasts:
            other = next(kind for kind in self.forms if kind != stall.lead)
            track = self.track(other)
            if track.is_ready and 2 * track.done <= self.work.iterations:
                return other
        return stall.lead

    def _first(self, problem: Problem) -> str:
        """Who begins: r²HPDHG if nothing of f is linearised, unless the theorem's constants are known and good."""
        if self._may_know_constants(problem):
            form = self.track("guess").bench.form
            if form.s_min and form.problem.f.mu > 0 and form.problem.f.L:
                self.tracks["theorem"] = theorem = self._made("theorem")
                assert isinstance(theorem, Theorem)
                if theorem.Pi <= CERTAIN:
                    return "guess"
        if problem.f.is_quadratic and self.track("anchored").bench.problem.proximable.rest is None:
            return "anchored"
        return "guess" if self.track("guess").is_ready else "anchored"

    @staticmethod
    def _may_know_constants(problem: Problem) -> bool:
        """Whether s_min may be known: if it was given, or if all rows are equations, which may be made orthonormal."""
        if problem.lower is not None or not problem.f.mu > 0 or not problem.f.L:
            return False
        spectrum = problem.spectrum  # an estimate that an earlier solve left would make the next one another
        return problem.phi.is_linear or (spectrum is not None and spectrum.s_min > 0)


class _Stall:
    """How long the first track has not reduced the best error by a factor of e."""

    def __init__(self, work: Work, lead: str) -> None:
        self.work, self.lead = work, lead
        self.patience = LONG if lead == "guess" else LONGEST
        self.error, self.since, self.epochs = work.error, 0, 0

    def note(self, kind: str) -> None:
        """Take note of a turn. The track that has reduced the least error by e is the first one from now on."""
        if self.work.error < self.error / math.e:
            self.error, self.since, self.epochs = self.work.error, self.work.iterations, 0
            self.lead = self.lead if kind == "theorem" else kind
        elif kind == "guess":
            self.epochs += 1

    @property
    def lasts(self) -> bool:
        """Whether it is time for another track."""
        return self.epochs > FRUITLESS or self.work.iterations > max(self.patience, LONGER * self.since)


def restarts(
    anchored: Callable[[], Form],
    guessed: Callable[[], Form],
    problem: Problem,
    *,
    start: tuple[Array, Array],
    start_error: float | None = None,
    engine: str = "auto",
    deadline: float = math.inf,
    tol: float = 0.0,
    allowed: Callable[[], float] = lambda: math.inf,
    learnt: Learnt | None = None,
) -> Iterator[Turn]:
    """Yield what came of each turn until the error of a point is at most `tol` or a limit is reached.

    Parameters
    ----------
    anchored, guessed : functions without arguments
        Make the form in which r²HPDHG runs, perhaps with bounds, and that of x- and y-DAPD, without.
    problem : Problem
        What both are forms of: f with any mu, and L known, zero or None; M and φ without assumptions.
    start : pair of vectors
        The first x, and y with the multipliers of bounds after it, of `problem`.
    start_error : float, optional
        Their error, if it is known.
    engine : str
        As for `dapd.solve`.
    deadline : float
        A value of `time.perf_counter()`.
    allowed : function without arguments
        How many iterations there may be in all; it may change from one call to the next.
    learnt : Learnt, optional
        What an earlier solve has learnt; what this one learns replaces it.
    """
    work = Work(engine, deadline, tol, allowed, learnt or Learnt())
    return Restarts({"anchored": anchored, "guess": guessed}, work, start, start_error).run(problem)
