"""The front door: check what was asked, choose the candidates, let them race, hand over the result."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np

from dapd.arguments import TimeUp, named
from dapd.arrays import Array
from dapd.certificate.certify import SOLUTION, certify, completed
from dapd.engines import bind, on_mesh, precision
from dapd.engines.protocol import CannotRun, Engine, Runner
from dapd.machine.clock import is_cancelled, perf_counter
from dapd.methods import METHODS
from dapd.methods.block import BlockMethod
from dapd.problem import ask
from dapd.problem.problem import Problem
from dapd.solving.answer import (
    AT_THE_START,
    ENDED_EARLY,
    NO_BLOCKS,
    NO_POINT,
    Spent,
    answer,
    in_kind_of,
    what_is_left,
    who_ran,
    why_it_ended,
)
from dapd.solving.checkpoint import Checkpoint
from dapd.solving.choice import AutoChoice
from dapd.solving.progress import display
from dapd.solving.race import Ended, Race, Watch
from dapd.solving.result import Result
from dapd.solving.settings import Settings, explains_options
from dapd.solving.side_questions import SideQuestions
from dapd.spectrum.estimate import Spectrum
from dapd.ways.base import Choice
from dapd.ways.blocks import BlockComparison, compare_blocks
from dapd.ways.causes import STATUSES, Cause
from dapd.ways.kept import Kept, Learnt
from dapd.ways.named import Named, NamedChoice
from dapd.ways.search import Info, Search

LIMIT = 1_000_000  # passes over M allowed if no limit is given
AT_BOUND = 1e-6  # relative distance from a bound at which x0 may have a multiplier
NOTHING_RAN = Engine("python", "the set-up ended before any engine could run")


@named
@explains_options
def solve(
    problem: Problem,
    method: str = "auto",
    *,
    tol: float | None = None,
    tol_absolute: float | None = None,
    accuracy: str = SOLUTION,
    max_iterations: int | None = None,
    time_limit: float | None = None,
    x0: Any = None,
    y0: Any = None,
    spectrum: Spectrum | None = None,
    parameters: Any = None,
    engine: str = "auto",
    direct: bool = True,
    seed: int | None = None,
    shared_sample: bool = False,
    callback: Callable[[Info], object] | None = None,
    progress: bool = False,
    history: bool = False,
    mesh: Any = None,
    checkpoint: Any = None,
) -> Result:
    """Solve a problem; no step size to choose.

    Parameters
    ----------
    problem : Problem
    OPTIONS
    """
    began, given = perf_counter(), locals()
    del given["problem"]
    return Solve(problem, Settings(**given).fitting(problem), began).run()


class Solve:
    """One solve of a problem, with settings that fit it; `kept` holds the set-ups of earlier solves."""

    def __init__(
        self, problem: Problem, settings: Settings, began: float, *, z0: Array | None = None, kept: Kept | None = None
    ) -> None:
        self.problem, self.settings, self.began, self.kept = problem, settings, began, kept
        self.learnt = Learnt() if kept is None else kept.learnt
        self.deadline = math.inf if settings.time_limit is None else began + settings.time_limit
        self.callback, self.saved = settings.callback, None
        if problem.lower is not None and self.callback is not None:
            self.callback = _split_for(self.callback, problem)
        self.x0, self.y0 = settings.x0, settings.y0
        if self.y0 is not None and problem.lower is not None:
            self.y0 = self._with_bounds(self.y0, z0)
        if settings.checkpoint is not None:
            self.saved = Checkpoint(
                settings.checkpoint, problem, self.learnt, None if kept is None else kept.checkpoints
            )
            self.x0, self.y0 = self.saved.start() or (self.x0, self.y0)
            self.callback = self.saved.watching(self.callback)

    def _with_bounds(self, y0: Array, z0: Array | None) -> Array:
        """The first y, and after it the first multipliers of the bounds."""
        problem, settings = self.problem, self.settings
        if z0 is None:
            z0 = np.zeros(problem.columns, problem.dtype)
            if settings.method == "auto" and settings.x0 is not None:
                z0 = implied_multipliers(problem, settings.x0, y0).astype(problem.dtype)
        return np.concatenate([y0, z0])

    def run(self) -> Result:
        """The result, whatever happens."""
        problem, settings = self.problem, self.settings
        try:
            context = precision(settings.engine) if settings.engine == "jax" else nullcontext()  # may import JAX
        except KeyboardInterrupt:
            return in_kind_of(problem, self._at_the_start(Cause.ctrl_c))
        mesh = nullcontext() if settings.mesh is None else on_mesh(settings.mesh, problem.stacked.M)
        with context, mesh:
            try:
                result = self._by_auto() if settings.method == "auto" else self._by_name()
            except TimeUp:
                result = self._at_the_start(Cause.ctrl_c if is_cancelled() else Cause.deadline)
            except KeyboardInterrupt:
                result = self._at_the_start(Cause.ctrl_c)
            if self.saved is not None:
                self.saved.write(result.x, np.concatenate([result.y, result.z][: 1 + (problem.lower is not None)]))
        return in_kind_of(problem, result)

    def _by_name(self) -> Result:
        problem, spectrum, kind = self.problem, self.settings.spectrum, METHODS[self.settings.method]
        if kind.is_proximal:  # bounds are no rows, so they have no multipliers to start from
            self.y0 = None if self.y0 is None else self.y0[: problem.rows]
            runner, spectrum = self._bound(problem, kind, spectrum)
            return self._alone(runner, None if spectrum is None else problem.stacked_spectrum(spectrum), [])
        spectrum = None if spectrum is None else problem.stacked_spectrum(spectrum)
        return self._alone(*self._bound(problem.stacked, kind, spectrum), [])

    def _bound(self, problem: Problem, kind: Any, spectrum: Spectrum | None) -> tuple[Runner, Spectrum | None]:
        """The named method with its parameters and an engine."""
        x0 = self.problem.start() if self.x0 is None else self.x0
        settings, options = self.settings, {"x0": x0, "y0": self.y0}
        if issubclass(kind, BlockMethod):
            options |= {"seed": settings.seed, "shared_sample": settings.shared_sample}
        elif settings.shared_sample:
            able = ", ".join(key for key, method in METHODS.items() if issubclass(method, BlockMethod))
            raise ValueError(f"shared_sample is for the block-coordinate methods ({able}), not for {kind.name!r}")
        if settings.parameters is not None:
            return bind(kind(problem, settings.parameters, **options), settings.engine), spectrum
        kind.check(problem)
        kind.constants_of(problem)
        spectrum = kind.spectrum_of(problem, spectrum, deadline=self.deadline)
        return bind(kind.from_theory(problem, spectrum=spectrum, **options), settings.engine), spectrum

    def _alone(self, runner: Runner, spectrum: Spectrum | None, notes: list[str], *, by_passes: bool = False) -> Result:
        settings, method = self.settings, runner.method
        if spectrum is not None and not spectrum.resolved:
            notes = [*notes, f"s_min = {spectrum.s_min:.2g} is a guess, so the rate is not certain."]
        if isinstance(method, BlockMethod) and method.own_seed:
            notes = [*notes, f"Blocks were drawn with seed={method.seed}."]
        by_passes = by_passes or settings.max_iterations is None
        search = self._search(spectrum, runner.engine, method.round if by_passes else 1)
        candidate = Named(search, runner, is_recorded=settings.history)
        return self._raced(
            search, NamedChoice(search, candidate), None, (method.x0, method.y0), spectrum, lambda *_: notes
        )

    def _search(self, spectrum: Spectrum | None, engine: str, rounds: int = 1) -> Search:
        settings = self.settings
        limit = rounds * (LIMIT if settings.max_iterations is None else settings.max_iterations)
        return Search(
            self.problem,
            settings.tolerances,
            limit,
            self.deadline,
            spectrum,
            self.kept,
            engine,
            settings.accuracy,
            self.learnt,
        )

    def _by_auto(self) -> Result:
        problem, settings, spectrum = self.problem, self.settings, self.settings.spectrum
        blocks = self._compared_blocks(problem, spectrum)
        spectrum = blocks.spectrum
        if blocks.winner is not None:
            options = {"seed": settings.seed, "shared_sample": settings.shared_sample}
            runner = blocks.runner(problem, {"x0": self.x0, "y0": self.y0}, options, settings.engine)
            return self._alone(runner, spectrum, [blocks.sentence], by_passes=True)
        search = self._search(spectrum, settings.engine)
        with np.errstate(all="ignore"):
            choice = AutoChoice(search, settings.engine, settings.direct)
            choice.choose()
        start = first_point(self.problem, self.x0, self.y0)

        def notes(race: Race, ended: Ended) -> list[str]:
            by = race.found_by or choice.first
            said = [f"Chose {by.title}: {by.why}." if by.why else f"Chose {by.title}.", blocks.sentence]
            if len(search.seconds) > 1 or (search.seconds and STATUSES[ended.cause] in ENDED_EARLY):
                said.append(who_ran(search.seconds))
            return [*said, NO_BLOCKS] if settings.shared_sample else said

        return self._raced(search, choice, lambda: SideQuestions(search, start, self._aside), start, spectrum, notes)

    def _compared_blocks(self, problem: Problem, spectrum: Spectrum | None) -> BlockComparison:
        """Whether blocks pay off: as for the last problem, if f and M are the same."""
        if problem.blocks is None:
            return BlockComparison(problem.f, problem.M, None, None, spectrum, "")
        kept = self.kept or Kept()
        if kept.blocks is None or not kept.blocks.fits(problem):
            kept.blocks = compare_blocks(problem, spectrum, self.settings.engine, self.deadline)
        return kept.blocks

    def _aside(self, search: Search, start: tuple[Array, Array]) -> Array | None:
        """Run a search for its own sake, by any engine if the given one cannot; a Farkas ray if it finds one."""
        engine = "auto" if self.settings.engine == "native" else self.settings.engine
        try:
            return _ray_of(search, start, engine, self.settings.direct)
        except CannotRun:
            return _ray_of(search, start, "auto", self.settings.direct)

    def _raced(
        self,
        search: Search,
        choice: Choice,
        questions: Callable[[], SideQuestions] | None,
        start: tuple[Array, Array],
        spectrum: Spectrum | None,
        notes: Callable[[Race, Ended], list[str]],
    ) -> Result:
        settings = self.settings
        search.began = perf_counter()
        setup_time = search.began - self.began
        with (
            display(choice.title, settings.tolerances, search.limit) if settings.progress else nullcontext() as shown,
            np.errstate(all="ignore"),
            choice.with_threads(),
        ):
            watch = Watch(shown, self.callback, is_recorded=settings.history, x_star=search.problem.x_star)
            race = Race(search, choice, watch, questions)
            ended = race.run(start)
            point = search.complete(ended.point)
        seconds, by = choice.seconds(), race.found_by or choice.first
        if ended.is_early:
            setup_time, seconds = setup_time + seconds, 0.0
        choice.remember(by if ended.cause is Cause.certificate else None)
        if not choice.is_named:
            spectrum = spectrum or self.problem.spectrum
            spectrum = None if spectrum is None else self.problem.stacked_spectrum(spectrum)
        return answer(
            self.problem,
            point,
            ended.cause,
            [*self._sentences(race, ended, point, spectrum), *notes(race, ended)],
            method=by.name,
            engine=by.ran,
            tolerances=settings.tolerances,
            spent=Spent(search.iterations, search.gradients, search.products, search.block_products),
            solve_time=seconds,
            setup_time=setup_time,
            value=search.judging.objective,
            history=watch.history(),
            parameters=by.parameters,
            spectrum=spectrum,
            ray=ended.ray,
            errors=np.array(watch.errors),
        )

    def _sentences(self, race: Race, ended: Ended, point: Info, spectrum: Spectrum | None) -> list[str]:
        """Why it ended, and what is left."""
        search, choice, cause, status = race.search, race.choice, ended.cause, STATUSES[ended.cause]
        if ended.is_early:
            said = AT_THE_START[cause]
        elif cause is Cause.limit and search.limit and not search.iterations:
            said = f"One step of {choice.title} takes {choice.least:,} iterations, more than the limit allows."
        else:
            passes = search.iterations // choice.round
            said = why_it_ended(
                cause, point.certificate, self.problem, spectrum, passes, self.deadline, is_named=choice.is_named
            )
        sentences = [said, what_is_left(status, point.certificate, search.tolerances)]
        if race.falling is not None and ended.ray is None and cause is not Cause.certificate:
            sentences.append(NO_POINT)
        return sentences

    def _at_the_start(self, cause: Cause) -> Result:
        """The start, for want of time to do more, or after Ctrl-C."""
        problem = self.problem
        x, dual = first_point(problem, self.x0, self.y0)
        with np.errstate(all="ignore"):
            x = problem.within_bounds(x, dual)
            certificate = certify(problem, x, dual, accuracy=self.settings.accuracy)
        return answer(
            problem,
            Info(0, 0.0, x, dual, certificate),
            cause,
            [AT_THE_START[cause]],
            method=self.settings.method,
            engine=NOTHING_RAN,
            tolerances=(0.0, 0.0),
            spent=Spent(),
            solve_time=0.0,
            setup_time=perf_counter() - self.began,
        )


def _ray_of(search: Search, start: tuple[Array, Array], engine: str, use_direct: bool) -> Array | None:
    choice = AutoChoice(search, engine, use_direct)
    choice.add_all()
    ended = Race(search, choice, Watch(None), None, seeks_descent=False).run(start)
    return ended.ray if ended.cause is Cause.contradiction else None


def first_point(problem: Problem, x: Array | None, y: Array | None) -> tuple[Array, Array]:
    """Where to start if nothing is given."""
    return problem.start() if x is None else x, np.zeros(problem.multipliers, problem.dtype) if y is None else y


def implied_multipliers(problem: Problem, x: Array, y: Array) -> Array:
    """The z of the bounds that x is at with ∇f(x) + Mᵀy + z = 0, where its sign is right; zero elsewhere."""
    z = -(ask.gradient(problem.f, x) + problem.M.adjoint(y))
    at_lower, at_upper = (abs(x - end) <= AT_BOUND * (1 + abs(end)) for end in problem.bounds)
    return np.where(at_lower & (z < 0) | at_upper & (z > 0), z, 0.0)


def _split_for(callback: Callable[[Info], object], problem: Problem) -> Callable[[Info], object]:
    """The callback, told the multipliers of the bounds apart from y."""

    def told(info: Info) -> object:
        y, z = completed(problem, info.x, info.y)
        return callback(info._replace(y=y, z=z))

    return told
