"""Which candidates take part in a solve, and whose turn it is."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property, partial
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import numpy as np

from dapd import ways
from dapd.machine.blas import MANY, SMALL, single_blas
from dapd.machine.clock import seconds_left
from dapd.machine.rates import FACTORISATION
from dapd.newton.costs import filled_seconds
from dapd.ways.base import CANDIDATES, OVERRUN, SOON, Asked, Candidate, Choice, entries_are_scattered
from dapd.ways.clarabel.candidate import TRIVIAL, Clarabel
from dapd.ways.first_order import FirstOrder
from dapd.ways.named import STALLED
from dapd.ways.newton import SecondOrder
from dapd.ways.search import Search

TRIAL = 0.1  # seconds of estimates above which first-order steps begin without them, if fill-in is likely
FORESIGHT = 5.0  # seconds of Clarabel up to which its time is estimated closely, since to count entries takes time too
NO_BETTER = 60  # points without a better one, beside as many as it took to get there, after which a solve has stalled

for _file in iter_modules(ways.__path__):  # every candidate takes part by existing
    import_module(f"{ways.__name__}.{_file.name}")


class AutoChoice(Choice):
    """Candidates that are set up when they are needed."""

    def __init__(self, search: Search, engine: str, use_direct: bool) -> None:
        super().__init__(search)
        self.active: list[Candidate] = []
        problem = search.problem
        M, unknowns = problem.M, problem.multipliers + problem.columns
        # seconds that it takes to find out what a factorisation costs
        self.examining = FACTORISATION.examining * (M.work + unknowns) if entries_are_scattered(M) else 0.0
        self.on_trial = False  # whether first-order steps began because it would take long to examine the others
        self.asked = Asked(search, engine, use_direct, self._limit, self._reliable_limit)
        self.waiting: dict[str, Callable[[], Candidate]] = {FirstOrder.name: lambda: self.first_order}
        # whether there is no time to examine the others
        self.is_hurried = search.deadline < math.inf and self.examining >= seconds_left(search.deadline)
        if not self.is_hurried:
            for name, kind in CANDIDATES.items():
                if name not in self.waiting and not kind.why_not(self.asked):
                    self.waiting[name] = partial(kind, self.asked)

    @cached_property
    def first_order(self) -> FirstOrder:
        """Restarts, by whose estimate others are examined."""
        return FirstOrder(self.asked)

    def _limit(self) -> float:
        """Seconds beyond which another candidate need not be examined closely."""
        return max(0.02, self.first_order.estimate())

    def _reliable_limit(self) -> float:
        """The same of Clarabel, whose estimate is more reliable than that of restarts."""
        return self._limit() if self.first_order.certain else min(max(1.0, self._limit()), FORESIGHT)

    def choose(self) -> None:
        """Begin with the one that solved the last problem; without one, with all, the most promising first."""
        self._choose()
        self.first = self.active[0]

    def _choose(self) -> None:
        kept = self.search.kept.candidate
        fresh = not kept and not self.search.repeated
        if fresh and self.would_fill_in():
            self.on_trial, kept = True, FirstOrder.name
        elif fresh and Clarabel.name in self.waiting:
            direct = self.waiting[Clarabel.name]()
            self.waiting[Clarabel.name] = lambda: direct
            kept = Clarabel.name if direct.estimate() < TRIVIAL else ""  # to set up the others takes as long
        if kept in self.waiting:
            known = self.waiting.pop(kept)()
            if math.isfinite(known.estimate()):
                self.active = [known]
                return
        self.add_all()

    def would_fill_in(self) -> bool:
        """Whether it would take long to find out what factorisations cost, which is probably too much."""
        M = self.search.problem.M.sparse() if self.examining > TRIAL and len(self.waiting) > 1 else None
        return M is not None and filled_seconds(M) > self.examining

    def are_due(self) -> bool:
        """Whether the others should be asked: those at work have had their time, and are not nearly there."""
        if not self.waiting:
            return False
        if self.on_trial:
            return all(one.spent > self.examining and one.left() > self.examining for one in self.active)
        return all(one.spent > max(SOON, OVERRUN * one.estimate()) for one in self.active)

    def add_all(self) -> None:
        """Add those that were not asked for yet, the most promising first."""
        repeated, found = self.search.repeated, [make() for make in self.waiting.values()]
        self.waiting.clear()
        steady = min((one.estimate() for one in found if one.is_steady), default=math.inf)
        if repeated or math.isinf(steady):
            for one in found:
                one.assume_best(first=repeated)  # what it sets up, later solves use again
        best = min((one.estimate() for one in found), default=math.inf)
        for one in found:
            one.note_rivals(steady, best)
        self.active += sorted((one for one in found if one.is_possible), key=lambda one: one.expected())

    def next(self) -> Candidate:
        if len(self.active) == 1:
            return self.active[0]
        return min(self.active, key=lambda one: one.expected())

    def note(self, candidate: Candidate, *, is_exhausted: bool) -> None:
        """After some progress: a candidate that is far behind starts anew from the best point."""
        error = candidate.left_at = self.search.error
        for other in self.active:
            if other is not candidate and error < 0.1 * other.left_at:
                other.share()
        if is_exhausted:
            self.active.remove(candidate)
            for other in self.active:
                other.assume_best()

    def is_exhausted(self) -> bool:
        if self.are_due():
            self.add_all()
        search = self.search
        if not self.active:
            return True
        if not any(search.tolerances) or search.judged <= NO_BETTER + 2 * search.judged_at_best:
            return False
        small = search.point.certificate.error <= STALLED * float(np.finfo(search.problem.dtype).eps)
        return small or search.is_rounding(NO_BETTER)

    def with_threads(self) -> AbstractContextManager[Any]:
        problem = self.search.problem
        # long vectors count too: several threads gain nothing on them, and wait for each other on a busy machine
        heaviest = 8.0 * (problem.multipliers + problem.columns)
        for one in self.active:
            heaviest = max(heaviest, one.work)
        return single_blas(heaviest, MANY) if heaviest >= SMALL else nullcontext()

    def close(self) -> None:
        for one in self.active:
            one.under_way = None
        self.waiting.clear()
        del self.asked  # which refers to this choice

    def remember(self, solved: Candidate | None) -> None:
        """Note what to try first next time: what solved the problem, or after a cold start second-order steps."""
        kept = self.search.kept
        warm, kept.candidate = bool(kept.candidate), ""
        if solved is not None:
            kept.candidate = solved.name if warm or kept.newton is None else SecondOrder.name
        elif kept.newton is not None:
            kept.newton.forget()
