"""`auto`: the way that is predicted to be fastest, and another if it takes longer than that."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from dapd.arguments import TimeUp
from dapd.arrays import Array, on_host, owned
from dapd.blas import MANY, single_blas
from dapd.certificate.certify import blame, completed
from dapd.certificate.rays import falling_ray, proves_infeasible
from dapd.clock import perf_counter
from dapd.engines.protocol import CannotRun
from dapd.kinds.lowered import has_valid_lowering
from dapd.newton.costs import filled_seconds
from dapd.problem.problem import Problem
from dapd.solving.loop import STALLED
from dapd.solving.progress import Display, display
from dapd.solving.request import (
    ENDED_EARLY,
    Request,
    explained,
    first_point,
    run_method,
    satisfied,
)
from dapd.solving.result import History, Result, Status
from dapd.solving.side_questions import Doubts
from dapd.spectrum.estimate import Spectrum
from dapd.ways.base import OVERRUN, SOON, Moved, Way, entries_are_scattered
from dapd.ways.blocks import BlockComparison, compare_blocks
from dapd.ways.clarabel.candidate import TRIVIAL, Direct
from dapd.ways.first_order import FirstOrder
from dapd.ways.newton import FACTORISATIONS, SecondOrder
from dapd.ways.search import Info, Search

TRIAL = 0.1  # seconds of such a prediction from which it comes later, if factorisations will probably fill in
EXAMINE = 1.2e-6  # seconds per entry of a sparse M, row and column that it takes to predict what factorisations cost
COMPARED = 0.5  # seconds of another way from which it pays off to find out whether second-order steps are faster
UNCERTAIN = 2.5  # times what is usual: what second-order steps may take, whose number varies more than Clarabel's
VARIED = 1.5  # times what is usual: what restarts may take if Clarabel, whose iterations vary less, is nearly as fast
FORESIGHT = 5.0  # seconds of Clarabel that are predicted closely: to count the entries of a factor takes time too
CHECKING = 0.15  # part of the time that may go into checks of whether iterates run away along a ray
NO_BETTER = 60  # points that may be no better than such a one, beside as many as it took to get there

STOPPED = "Stopped by the callback; this is the best point seen so far."
TOO_LATE = "The time limit passed during the set-up, so this is the start."
NO_PROGRESS = "No algorithm makes progress any more; this is the best point seen so far."
NO_POINT = (
    "The objective falls without end along a direction that keeps the constraints, but no x that satisfies them was "
    "found: if there is one, there is no minimum."
)
NO_BLOCKS = "shared_sample had no block method to act on."


def solve_auto(
    asked: Request,
    spectrum: Spectrum | None,
    start: dict[str, Any],
    options: dict[str, Any],
    engine: str,
    use_direct: bool,
    kept: dict[str, Any] | None = None,
) -> Result:
    """Solve by whatever is fastest.

    `kept` holds set-ups for later solves of problems of the same shape. The way that solved the last one is tried
    first, and the others are set up only if it takes longer than predicted.
    """
    problem = asked.problem
    blocks = _blocks(problem.stacked, spectrum, engine, asked.deadline, kept)
    spectrum = blocks.spectrum
    if blocks.winner is not None:
        runner = blocks.runner(problem.stacked, start, options, engine)
        return run_method(asked._replace(by_passes=True), runner, spectrum, [blocks.sentence])
    search = Search(
        problem.stacked, asked.tolerances, asked.limit, asked.deadline, spectrum, kept, engine, asked.accuracy
    )
    looks: list[Info] = []
    errors: list[tuple[int, float]] = []  # iteration and relative error at each look

    def record(look: Info) -> None:
        errors.append((look.iteration, look.certificate.error))
        if asked.history:
            looks.append(look)

    point = first_point(problem, start)
    with np.errstate(all="ignore"):
        possible = Possible(search, engine, use_direct)
        ways = possible.first()
        compared = ways.copy()
        search.began = perf_counter()
        setup_time = search.began - asked.began
        # long vectors count too: several threads gain nothing on them, and wait for each other on a busy machine
        heaviest = max([way.work for way in ways] + [8.0 * (search.problem.rows + search.problem.columns)])
        with display(asked.progress, "auto", asked.tolerances, asked.limit) as shown, single_blas(heaviest, MANY):
            aside = "auto" if engine == "native" else engine  # the core may be unable to run what is asked on the side
            doubts = Doubts(search, point, lambda other, first: _aside(other, first, aside, use_direct))
            ended = run(search, ways, possible, point, asked.callback, shown, record, doubts)
            look = search.complete(ended.point or search.point)
            good_enough = satisfied(look.certificate, *asked.tolerances)
            value = search.judging.objective(look.x, look.y, satisfied=good_enough)
            x = owned(look.x)
            y, z = completed(problem, x, on_host(look.y))
    seconds = perf_counter() - search.began
    if ended.reason == TOO_LATE:
        setup_time, seconds = setup_time + seconds, 0.0
    chosen = ended.way or compared[0]
    possible.remember(chosen if ended.status is Status.optimal else None)
    given = spectrum or problem.stacked.spectrum
    said = explained(ended.status, ended.reason, look.certificate, asked, given, search.iterations)
    note = [f"Chose {chosen.title}: {chosen.why}." if chosen.why else f"Chose {chosen.title}.", blocks.sentence]
    if doubts.falling is not None and ended.ray is None and ended.status is not Status.optimal:
        note.insert(0, NO_POINT)
    if len(search.seconds) > 1 or (search.seconds and ended.status in ENDED_EARLY):
        note.append(_took(search.seconds))
    if options["shared_sample"]:
        note.append(NO_BLOCKS)
    return Result(
        x=x,
        y=y,
        z=z,
        status=ended.status,
        message=" ".join(part for part in [*said, *note] if part),
        iterations=search.iterations,
        gradients=search.gradients,
        products=search.products,
        block_products=0,
        certificate=look.certificate,
        objective=-math.inf if ended.status is Status.unbounded else value,
        solve_time=seconds,
        setup_time=setup_time,
        history=_history(looks, search.problem.x_star) if asked.history else None,
        method=chosen.name,
        parameters=None,
        spectrum=spectrum or problem.stacked.spectrum,
        engine=chosen.ran,
        ray=ended.ray,
        errors=np.array(errors),
    )


def _history(looks: list[Info], star: Array | None) -> History:
    """What was seen at each look."""
    size = 1.0 if star is None else float(np.linalg.norm(star)) or 1.0
    return History(
        np.array([look.iteration for look in looks]),
        np.array([look.time for look in looks]),
        np.array([look.certificate.stationarity for look in looks]),
        np.array([look.certificate.feasibility for look in looks]),
        None if star is None else np.array([float(np.linalg.norm(on_host(look.x) - star)) / size for look in looks]),
    )


class Ended(NamedTuple):
    """How it ended."""

    status: Status
    ray: Array | None
    way: Way | None  # that found the best point
    reason: str
    point: Info | None = None  # to return instead of the best


def _blocks(
    problem: Problem, spectrum: Spectrum | None, engine: str, deadline: float, kept: dict[str, Any] | None
) -> BlockComparison:
    """Whether blocks pay off: as for the last problem, if f and M are the same."""
    known: BlockComparison | None = None if kept is None else kept.get("blocks")
    if known is not None and known.fits(problem):
        return known
    found = compare_blocks(problem, spectrum, engine, deadline)
    if kept is not None:
        kept["blocks"] = found
    return found


class Possible:
    """The ways that are possible, set up when they are asked for."""

    def __init__(self, search: Search, engine: str, use_direct: bool) -> None:
        self.search = search
        first = FirstOrder(search, engine, search.spectrum)
        limit = max(0.02, first.predict())
        self.waiting: dict[str, Callable[[], Way]] = {first.name: lambda: first}
        M = search.problem.M
        self.examining = EXAMINE * (M.work + sum(M.shape)) if entries_are_scattered(M) else 0.0  # seconds
        self.on_trial = False  # whether first-order steps began because it would take long to examine the others
        if engine == "auto" and self.examining < search.deadline - perf_counter():
            self.waiting[SecondOrder.name] = lambda: SecondOrder(search, max(0.1, limit / 10))
            if use_direct:
                self.waiting[Direct.name] = lambda: Direct(
                    search, limit if first.certain else min(max(1.0, limit), FORESIGHT)
                )

    def first(self) -> list[Way]:
        """The one that solved the last problem; if there is none, all of them, the most promising first."""
        known = self.search.kept.get("way")
        if known is None and not self.search.repeated and self.would_fill_in():
            self.on_trial, known = True, FirstOrder.name
        if known is None and not self.search.repeated and Direct.name in self.waiting:
            direct = self.waiting[Direct.name]()
            self.waiting[Direct.name] = lambda: direct
            known = Direct.name if direct.predict() < TRIVIAL else None  # to set up the others takes as long
        if known not in self.waiting:
            return self.rest()
        way = self.waiting.pop(known)()
        return [way] if math.isfinite(way.predict()) else self.rest()

    def would_fill_in(self) -> bool:
        """Whether it would take long to find out what factorisations cost, which is probably too much."""
        M = self.search.problem.M.sparse() if self.examining > TRIAL and len(self.waiting) > 1 else None
        return M is not None and filled_seconds(M) > self.examining

    def are_due(self, ways: list[Way]) -> bool:
        """Whether the others should be asked: the ways at work have had their time, and are not nearly there."""
        if not self.waiting:
            return False
        if self.on_trial:
            return all(way.spent > self.examining and way.left() > self.examining for way in ways)
        return all(way.spent > max(SOON, OVERRUN * way.predict()) for way in ways)

    def rest(self) -> list[Way]:
        """Those that were not asked for yet, the most promising first."""
        ways = [make() for make in self.waiting.values()]
        self.waiting.clear()
        if self.search.repeated or not any(way.name == Direct.name and math.isfinite(way.predict()) for way in ways):
            for way in ways:
                way.insist(first=self.search.repeated)  # what it sets up, later solves use again
        best = min(ways, key=lambda way: way.predict())
        sure = min((way.predict() for way in ways if isinstance(way, Direct)), default=math.inf)
        for way in ways:
            if isinstance(way, FirstOrder) and not way.certain and math.isfinite(sure):
                way.doubt = VARIED
        if best.predict() > COMPARED:
            within = best.predict() / FACTORISATIONS
            for way in ways:
                if isinstance(way, SecondOrder):
                    if not way.is_set_up:
                        way.set_up(within=within)
                    way.doubt = UNCERTAIN if sure < UNCERTAIN * way.predict() and not way.is_predictable else 1.0
        return sorted((way for way in ways if way.is_possible), key=lambda way: way.expected())

    def remember(self, solved: Way | None) -> None:
        """Note what to try first next time: what solved the problem, or after a cold start second-order steps."""
        kept = self.search.kept
        warm = kept.pop("way", None) is not None
        if solved is not None:
            kept["way"] = solved.name if warm or "newton" not in kept else SecondOrder.name
        elif "newton" in kept:
            kept["newton"].forget()


def run(
    search: Search,
    ways: list[Way],
    possible: Possible,
    start: tuple[Array, Array],
    callback: Callable[[Info], object] | None,
    shown: Display,
    record: Callable[[Info], None],
    doubts: Doubts | None = None,
) -> Ended:
    """Advance the way with the best prospects until something says stop."""
    problem = search.problem
    search.judge(*start)
    if not math.isfinite(search.point.certificate.error):
        blame(problem, *start)
    known = has_valid_lowering(problem.f, "value") and has_valid_lowering(problem.phi, "prox", "conjugate")
    if "way" not in search.kept and not known:
        # errors of the user's own functions must come before the work
        search.judging.objective(search.point.x, search.point.y, satisfied=True)
    found_by: Way | None = None
    checking, checked = 0.0, False  # seconds of all checks but the first of a direction, which may compile programs
    try:
        while True:
            look = search.point._replace(iteration=search.iterations, time=perf_counter() - search.began)
            shown.show(search.iterations, look.time, look.certificate, math.nan)
            record(look)
            stop = callback is not None and callback(search.complete(look)._replace(x=owned(look.x), y=owned(look.y)))
            if search.done:
                return Ended(Status.optimal, None, found_by, "")
            if stop:
                return Ended(Status.interrupted, None, found_by, STOPPED)
            if perf_counter() >= search.deadline:
                return Ended(Status.time_limit, None, found_by, "" if search.judged > 1 else TOO_LATE)
            if search.iterations >= search.limit:
                return Ended(Status.iteration_limit, None, found_by, "")
            if possible.are_due(ways):
                ways += possible.rest()
            over = _stalled(search) or not ways
            settled = _settled(search, doubts, found_by, last=over)
            if settled is not None:
                return settled
            if over:
                return Ended(Status.interrupted, None, found_by, _rounding(search))
            way = min(ways, key=lambda one: one.expected())
            before, measured = search.error, way.measured
            try:
                moved = way.advance()
            except TimeUp:
                return Ended(Status.time_limit, None, found_by, "" if search.judged > 1 else TOO_LATE)
            finally:
                search.seconds[way.title] = search.seconds.get(way.title, 0.0) + way.measured - measured
            way.left_at = search.error
            if search.error < before:
                found_by = way
            for other in ways:  # a way that is far behind starts anew from the best point
                if other is not way and search.error < 0.1 * other.left_at:
                    other.renew()
            if moved is None:
                ways.remove(way)
                for other in ways:
                    other.insist()
            elif search.error > 0.5 * before:
                began = perf_counter()
                usual = moved() if isinstance(way, Direct) or checking <= CHECKING * (began - search.began) else None
                in_time = isinstance(way, SecondOrder) and way.is_in_time  # its error need not fall until then
                for found in (usual, None if doubts is None or in_time else doubts.ask()):
                    ended = _ray(search, found, found_by, doubts)
                    if ended is not None:
                        return ended
                first = not checked and usual is not None and (usual.dx is not None or usual.dy is not None)
                checking, checked = checking + (0.0 if first else perf_counter() - began), checked or first
    except KeyboardInterrupt:
        return Ended(Status.interrupted, None, found_by, "")


def _aside(search: Search, start: tuple[Array, Array], engine: str, use_direct: bool) -> Array | None:
    """Run a search for its own sake, by any engine if the given one cannot; a Farkas ray if it finds one."""
    possible = Possible(search, engine, use_direct)
    try:
        ended = run(search, possible.rest(), possible, start, None, Display(), lambda look: None)
    except CannotRun:
        return _aside(search, start, "auto", use_direct)
    return ended.ray if ended.status is Status.infeasible else None


def _ray(search: Search, moved: Moved | None, found_by: Way | None, doubts: Doubts | None) -> Ended | None:
    """A proof that no x is feasible, if y runs away along a ray; a ray of x leaves the question whether any x is."""
    if moved is None:
        return None
    judging = search.judging
    dx = None if moved.dx is None or not judging.may_descend(search.point.x, moved.dx) else moved.dx
    dy = None if moved.dy is None or not judging.may_be_ray(moved.dy) else moved.dy
    with np.errstate(all="ignore"):
        if dy is not None:
            ray = proves_infeasible(search.problem, search.point.x, dy, search.deadline)
            if ray is not None:
                return Ended(Status.infeasible, ray, found_by, "")
        if dx is not None and doubts is not None and doubts.falling is None:
            doubts.falling = falling_ray(search.problem, dx, search.deadline)
    return None


def _settled(search: Search, doubts: Doubts | None, found_by: Way | None, *, last: bool) -> Ended | None:
    """How a search ends whose objective falls along a ray, as soon as it is known whether any x is feasible."""
    if doubts is None or doubts.falling is None:
        return None
    found = doubts.feasibility(last=last)
    if found is None:
        return Ended(Status.interrupted, None, found_by, NO_PROGRESS) if last else None
    if found.x is None:
        return Ended(Status.infeasible, found.ray, found_by, "")
    look = search.judging.look(found.x, search.point.y, with_distance=False)
    point = search.point._replace(x=look.x, y=look.y, certificate=look.certificate)
    return Ended(Status.unbounded, doubts.falling, found_by, "", point)


def _took(seconds: dict[str, float]) -> str:
    """Which ways ran, and for how long."""
    ran = [f"{title} for {time:.2g} s" for title, time in sorted(seconds.items(), key=lambda pair: -pair[1])]
    return f"Ran {ran[0]}." if len(ran) == 1 else f"Ran {', '.join(ran[:-1])} and {ran[-1]}."


def _stalled(search: Search) -> bool:
    """Whether only rounding can explain that there is no better point."""
    if not any(search.tolerances) or search.judged <= NO_BETTER + 2 * search.judged_at_best:
        return False
    small = search.point.certificate.error <= STALLED * float(np.finfo(search.problem.dtype).eps)
    return small or search.is_rounding(NO_BETTER)


def _rounding(search: Search) -> str:
    dtype = search.problem.dtype
    remedy = "a larger tol" if dtype == np.float64 else "float64, or a larger tol"
    return (
        f"Stopped by rounding in {dtype}, which keeps the error at {search.point.certificate.error:.1e}. "
        f"This is the best point seen; use {remedy}."
    )
