"""What `auto` would do with a problem, and why, without solving it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dapd import theory
from dapd.arguments import TimeUp, named
from dapd.machine.clock import perf_counter
from dapd.presolve import CLEANING, Presolve
from dapd.problem.problem import Problem
from dapd.solving.choice import AutoChoice
from dapd.solving.settings import Settings
from dapd.spectrum.estimate import Spectrum, estimate_range
from dapd.ways.base import CANDIDATES, Candidate
from dapd.ways.blocks import compare_blocks
from dapd.ways.first_order import STEPS, FirstOrder
from dapd.ways.search import Search

CHEAP = 1e9  # multiplications that a decomposition of M may take here
HURRIED = "the time limit is too short to examine it"
PRESOLVE = 10.0  # seconds that the transforms may take here


class Prospect(NamedTuple):
    """The prediction for one algorithm."""

    name: str
    seconds: float  # predicted; inf if it cannot solve the problem or was not examined, nan if it is not predicted
    why: str


@dataclass(frozen=True, repr=False)
class Explanation:
    """The algorithms that could solve a problem, with their predictions; shown as a table."""

    problem: str
    prospects: tuple[Prospect, ...]  # the fastest first
    transforms: tuple[str, ...]  # sentences: what is done to the problem before first-order iterations
    choice: str  # the name of the algorithm that is tried first
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
    """Predict how long each algorithm would take, and which one `auto` would try first.

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
    settings = Settings(
        tol=tol, tol_absolute=tol_absolute, time_limit=time_limit, spectrum=spectrum, engine=engine, direct=direct
    ).fitting(problem)
    deadline = math.inf if settings.time_limit is None else perf_counter() + settings.time_limit
    blocks = compare_blocks(problem, spectrum, engine, math.inf)
    search = Search(problem, settings.tolerances, 1, deadline, blocks.spectrum)
    with np.errstate(all="ignore"):
        choice = AutoChoice(search, engine, direct)
        on_trial = choice.would_fill_in()
        first_order = choice.waiting[FirstOrder.name]()
        choice.add_all()
        chosen = first_order if on_trial else _first(choice.active)
        prospects = [
            *_of_candidates(choice),
            *_of_theorems(problem, blocks.spectrum, max(settings.tolerances), first_order),
        ]
    if blocks.sentence:
        prospects.append(Prospect("blocks", math.nan, blocks.sentence))
    return Explanation(
        repr(problem),
        tuple(sorted(prospects, key=lambda one: math.inf if math.isnan(one.seconds) else one.seconds)),
        _transforms(problem),
        chosen.name if blocks.winner is None else blocks.winner.name,
        f"auto tries {chosen.title} first: {chosen.why}." if blocks.winner is None else blocks.sentence,
    )


def _first(candidates: list[Candidate]) -> Candidate:
    """The candidate that `auto` makes progress with first: some are set up when they seem fastest."""
    while True:
        best = min(candidates, key=lambda one: one.expected())
        if not best.examine():
            return best


def _of_candidates(choice: AutoChoice) -> list[Prospect]:
    """Those that were examined, and why others were not."""
    for one in choice.active:
        one.examine()
    known = {one.name: Prospect(one.title, one.estimate(), one.explanation) for one in choice.active}
    for kind in CANDIDATES.values():
        if kind.name not in known:
            reason = HURRIED if choice.is_hurried else kind.needs
            known[kind.name] = Prospect(kind.title, math.inf, kind.why_not(choice.asked) or reason)
    return list(known.values())


def _of_theorems(problem: Problem, spectrum: Spectrum | None, tol: float, first_order: Candidate) -> list[Prospect]:
    """x-DAPD and y-DAPD with the constants of their theorems, if these are known or cheap."""
    f, names = problem.f, ("x-DAPD, theorem constants", "y-DAPD, theorem constants")
    if not f.mu or f.L is None:
        why = "f is not strongly convex" if not f.mu else "L is not known"
        return [Prospect(name, math.inf, why) for name in names]
    stacked = problem.stacked
    spectrum = None if spectrum is None else problem.stacked_spectrum(spectrum)
    M = stacked.M
    spectrum = spectrum or stacked.known_spectrum
    if spectrum is None and not M.probes and min(M.shape) ** 2 * max(M.shape) <= CHEAP:
        spectrum = estimate_range(M, positive=stacked.phi.is_linear)
    if spectrum is None or not spectrum.s_min:
        return [Prospect(name, math.inf, _no_constants(problem, spectrum)) for name in names]
    side = theory.favoured(L=f.L, mu=f.mu, s_max=spectrum.s_max, s_min=spectrum.s_min)
    found = []
    sides: tuple[theory.HasPi, theory.HasPi] = (side.x, side.y)
    for name, parameters in zip(names, sides, strict=True):
        steps = theory.iterations(parameters, tol or 1e-6)
        why = f"Π = {parameters.Pi:.3g}, so about {steps:,.0f} iterations; restarts try these constants, too"
        found.append(Prospect(name, steps * first_order.per_iteration, why))
    return found


def _no_constants(problem: Problem, spectrum: Spectrum | None) -> str:
    if problem.lower is not None and problem.rows:
        return "the theorems have no bounds, and bounds as rows depend on the rows of M: s_min = 0"
    return "the singular values of M are not known" if spectrum is None else "rows of M depend on each other: s_min = 0"


def _transforms(problem: Problem) -> tuple[str, ...]:
    try:
        with np.errstate(all="ignore"):
            equations = problem.phi.is_linear and problem.lower is None and problem.f.mu > 0
            kind = "anchored" if problem.f.is_quadratic and not equations else "guess"  # who probably begins
            done = Presolve.apply(problem, (*CLEANING, *STEPS[kind]), perf_counter() + PRESOLVE)
    except TimeUp:
        return (f"Transforms take more than {PRESOLVE:g} s.",)
    return tuple(transform.why for transform in done.transforms)


def _time(seconds: float) -> str:
    if not math.isfinite(seconds):
        return "–"
    size, unit = (seconds, "s") if seconds >= 1 else (1e3 * seconds, "ms")
    return f"{size:.2g} {unit}" if size < 10 else f"{size:,.0f} {unit}"
