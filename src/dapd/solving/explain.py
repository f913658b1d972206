"""What `auto` would do with a problem, and why, without solving it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dapd import theory
from dapd.arguments import TimeUp, named
from dapd.clock import perf_counter
from dapd.presolve import Presolve
from dapd.problem.problem import Problem
from dapd.solving.auto import Possible
from dapd.solving.settings import check_settings
from dapd.solving.solver import DEFAULTS
from dapd.spectrum.estimate import Spectrum, estimate_range, known_range
from dapd.ways.base import Way
from dapd.ways.blocks import BlockComparison, compare_blocks
from dapd.ways.clarabel import attempts as clarabel
from dapd.ways.clarabel.candidate import Direct
from dapd.ways.first_order import TRANSFORMS, FirstOrder
from dapd.ways.newton import SecondOrder
from dapd.ways.search import Search

CHEAP = 1e9  # multiplications that a decomposition of M may take here
PRESOLVE = 10.0  # seconds that the transforms may take here


class Prospect(NamedTuple):
    """One way to solve the problem."""

    name: str
    seconds: float  # predicted; inf if this way is impossible or was not examined, nan if it is not predicted alone
    why: str


@dataclass(frozen=True, repr=False)
class Explanation:
    """The ways to solve a problem, with their predictions; shown as a table."""

    problem: str
    prospects: tuple[Prospect, ...]  # the fastest first
    transforms: tuple[str, ...]  # sentences: what is done to the problem before first-order iterations
    choice: str  # the name of the way that is tried first
    sentence: str

    def __repr__(self) -> str:
        rows = [("way", "predicted", "why"), *((p.name, _time(p.seconds), p.why) for p in self.prospects)]
        widths = [max(len(row[k]) for row in rows) for k in (0, 1)]
        table = [f"{name:<{widths[0]}}  {time:>{widths[1]}}  {why}".rstrip() for name, time, why in rows]
        before = " ".join(self.transforms) or "The problem is left as it is."
        return "\n".join([self.problem, "", *table, "", f"Before first-order iterations: {before}", self.sentence])


@named
def explain(
    problem: Problem,
    *,
    tol: float | None = None,
    tol_absolute: float | None = None,
    time_limit: float | None = None,
    spectrum: Spectrum | None = None,
    engine: str = "auto",
    direct: bool = True,
) -> Explanation:
    """Predict how long each way to solve the problem would take, and which one `auto` would try first.

    Parameters
    ----------
    problem : Problem
    tol, tol_absolute, time_limit, spectrum, engine, direct
        As for `dapd.solve`.

    Returns
    -------
    Explanation
        A table, if it is printed.
    """
    given = {"tol": tol, "tol_absolute": tol_absolute, "time_limit": time_limit, "spectrum": spectrum}
    settings = check_settings(problem, **{**DEFAULTS, **given, "engine": engine, "direct": direct})
    deadline = math.inf if settings.time_limit is None else perf_counter() + settings.time_limit
    stacked = problem.stacked
    spectrum = None if spectrum is None else problem.stacked_spectrum(spectrum)
    blocks = compare_blocks(stacked, spectrum, engine, math.inf)
    search = Search(stacked, settings.tolerances, 1, deadline, blocks.spectrum)
    with np.errstate(all="ignore"):
        possible = Possible(search, engine, direct)
        on_trial = possible.would_fill_in()
        ways = possible.rest()
        chosen = next(way for way in ways if isinstance(way, FirstOrder)) if on_trial else _first(ways)
        prospects = [
            *_of_ways(ways, engine, direct),
            *_of_theorems(stacked, blocks.spectrum, max(settings.tolerances), ways),
        ]
    if blocks.sentence:
        prospects.append(Prospect("blocks", math.nan, blocks.sentence))
    return Explanation(
        repr(problem),
        tuple(sorted(prospects, key=lambda one: math.inf if math.isnan(one.seconds) else one.seconds)),
        _transforms(stacked),
        chosen.name if blocks.winner is None else blocks.winner.name,
        _sentence(chosen, blocks),
    )


def _first(ways: list[Way]) -> Way:
    """The way that `auto` makes progress with first: second-order steps are set up when they seem fastest."""
    while True:
        way = min(ways, key=lambda one: one.expected())
        if not isinstance(way, SecondOrder) or way.is_set_up:
            return way
        way.set_up()


def _of_ways(ways: list[Way], engine: str, use_direct: bool) -> list[Prospect]:
    """Those that were examined, and why others were not."""
    for way in ways:
        if isinstance(way, SecondOrder) and not way.is_set_up:
            way.set_up()
    known = {way.name: Prospect(way.title, way.predict(), way.why) for way in ways}
    second = known.get(SecondOrder.name)
    if second is not None and math.isfinite(second.seconds):
        usual = next(way.usual for way in ways if isinstance(way, SecondOrder))
        known[SecondOrder.name] = second._replace(why=f"{second.why}, and {usual} are usual")
    if engine != "auto":
        reason = f"engine={engine!r} leaves only first-order methods"
        known[SecondOrder.name] = Prospect(SecondOrder.title, math.inf, reason)
        known[Direct.name] = Prospect(Direct.title, math.inf, reason)
    elif second is None:
        reason = "the time limit is too short to examine it"
        known[SecondOrder.name] = Prospect(SecondOrder.title, math.inf, reason)
        known[Direct.name] = Prospect(Direct.title, math.inf, reason)
    elif Direct.name not in known:
        known[Direct.name] = Prospect(Direct.title, math.inf, _no_clarabel(use_direct))
    return list(known.values())


def _no_clarabel(use_direct: bool) -> str:
    if not use_direct:
        return "direct=False"
    if not clarabel.is_installed():
        return "clarabel is not installed"
    return "the problem has no conic form: it needs a quadratic f, rows, boxes or balls, and an explicit M"


def _of_theorems(problem: Problem, spectrum: Spectrum | None, tol: float, ways: list[Way]) -> list[Prospect]:
    """x-DAPD and y-DAPD with the constants of their theorems, if these are known or cheap."""
    f, names = problem.f, ("x-DAPD, theorem constants", "y-DAPD, theorem constants")
    if not f.mu or f.L is None:
        why = "f is not strongly convex" if not f.mu else "L is not known"
        return [Prospect(name, math.inf, why) for name in names]
    spectrum = spectrum or problem.spectrum or known_range(problem.M, positive=problem.phi.is_linear)
    if spectrum is None and not problem.M.probes and min(problem.M.shape) ** 2 * max(problem.M.shape) <= CHEAP:
        spectrum = estimate_range(problem.M, positive=problem.phi.is_linear)
    if spectrum is None or not spectrum.s_min:
        return [Prospect(name, math.inf, _no_constants(problem, spectrum)) for name in names]
    side = theory.favoured(L=f.L, mu=f.mu, s_max=spectrum.s_max, s_min=spectrum.s_min)
    usual = next(way.usual for way in ways if isinstance(way, FirstOrder))
    found = []
    sides: tuple[theory.HasPi, theory.HasPi] = (side.x, side.y)
    for name, parameters in zip(names, sides, strict=True):
        steps = theory.iterations(parameters, tol or 1e-6)
        why = f"Π = {parameters.Pi:.3g}, so about {steps:,.0f} iterations; restarted DAPD tries these constants, too"
        found.append(Prospect(name, steps * usual, why))
    return found


def _no_constants(problem: Problem, spectrum: Spectrum | None) -> str:
    if problem.unstacked is not problem and problem.unstacked.rows:
        return "the theorems have no bounds, and bounds as rows depend on the rows of M: s_min = 0"
    return "the singular values of M are not known" if spectrum is None else "rows of M depend on each other: s_min = 0"


def _transforms(problem: Problem) -> tuple[str, ...]:
    try:
        with np.errstate(all="ignore"):
            done = Presolve.apply(problem, TRANSFORMS, perf_counter() + PRESOLVE)
    except TimeUp:
        return (f"Transforms take more than {PRESOLVE:g} s.",)
    return tuple(transform.why for transform in done.transforms)


def _sentence(chosen: Way, blocks: BlockComparison) -> str:
    if blocks.winner is not None:
        return blocks.sentence
    return f"auto tries {chosen.title} first: {chosen.why}."


def _time(seconds: float) -> str:
    if not math.isfinite(seconds):
        return "–"
    size, unit = (seconds, "s") if seconds >= 1 else (1e3 * seconds, "ms")
    return f"{size:.2g} {unit}" if size < 10 else f"{size:,.0f} {unit}"
