"""The direct way: Clarabel's interior point."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial

from dapd.engines.protocol import Engine
from dapd.machine.clock import perf_counter
from dapd.machine.core import MISSING, load
from dapd.ways.base import Asked, Candidate, Moved, Piece
from dapd.ways.clarabel import attempts as direct
from dapd.ways.clarabel.conic import Conic, conic, entries_of
from dapd.ways.search import Search

TRIVIAL = 5e-3  # seconds that are not worth a closer prediction
UNKNOWN = 10  # ratio to the limit of an estimate that was given up
AHEAD, FAR_AHEAD = 8, 1e5  # factor by which the limit of an estimate rises at last, and its greatest value in seconds


class Clarabel(Candidate):
    """Clarabel's interior point."""

    is_steady = finds_rays = True

    name, title = "clarabel", "Clarabel"
    needs = "the problem has no conic form: it needs a quadratic f, rows, boxes or balls, and an explicit M"

    @classmethod
    def why_not(cls, asked: Asked) -> str:
        """It may not be wanted, or not be installed."""
        if not asked.direct:
            return "direct=False"
        return super().why_not(asked) or ("" if direct.is_installed() else "clarabel is not installed")

    @classmethod
    def of(cls, asked: Asked) -> Clarabel:
        """With the seconds up to which it is worth a close estimate."""
        return cls(asked.search, asked.foresight)

    def __init__(self, search: Search, foresight: Callable[[], float]) -> None:
        super().__init__(search)
        self.form: Conic | None = None
        self.seconds: float | None = None
        self.by_columns, self.limit = False, 0.0
        self.attempted: float | None = None  # seconds of the last attempt
        count = entries_of(self.problem)
        if count is not None:
            least = direct.least_seconds(self.problem, count)
            if least < TRIVIAL:  # the symbolic cost takes longer than it can save
                self.form, self.limit = conic(self.problem), TRIVIAL
                self.seconds = None if self.form is None else least
            else:
                self._predict(least, foresight())
        if self.seconds is not None:
            self.why = f"predicted to take {self.estimate():.2g} s by the size of its factorisation"

    def _predict(self, least: float, limit: float) -> None:
        """By the symbolic cost of a factorisation, up to `limit` seconds of all of them."""
        self.limit = limit
        if least >= limit:
            self.seconds = math.inf
            return
        self.form = conic(self.problem)
        found = direct.predict(self.problem, limit, form=self.form)
        if found is not None:
            self.seconds, self.by_columns = found

    @property
    def ran(self) -> Engine:
        return Engine("clarabel", "" if load() else MISSING)

    def estimate(self) -> float:
        """From the symbolic cost of its factorisation."""
        if self.seconds is None:
            return math.inf
        return self.seconds if math.isfinite(self.seconds) else UNKNOWN * self.limit

    def expected(self) -> float:
        return super().expected() if self.attempted is None else self.attempted

    def start(self) -> Iterator[Piece]:
        """Attempt after attempt, as soon as it is known how long the first one takes."""
        search = self.search
        self.form = self.form or conic(self.problem)
        while self.seconds == math.inf and self.limit < FAR_AHEAD:
            self.limit *= AHEAD
            found = direct.predict(self.problem, self.limit, form=self.form)
            self.seconds, self.by_columns = (None, False) if found is None else found
            yield Piece()
        if self.form is None:
            self.seconds = None
            return
        tol, tol_absolute = search.tolerances
        began = perf_counter()
        for answer in direct.attempts(
            self.problem,
            tol=tol,
            tol_absolute=tol_absolute,
            deadline=search.deadline,
            max_iterations=search.limit - search.iterations,
            form=self.form,
            by_columns=self.by_columns,
        ):
            search.iterations += answer.iterations
            if answer.ray is None:
                search.judge(answer.x, answer.y)
            self.attempted, began = perf_counter() - began, perf_counter()
            rays = {"infeasible": (None, answer.ray), "unbounded": (answer.ray, None)}
            yield Piece(partial(Moved, *rays.get(answer.status, (None, None))))
        self.seconds = self.attempted = None  # it will not do better
