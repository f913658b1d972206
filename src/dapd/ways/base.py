"""What all ways to solve a problem share: a prediction, pieces of progress, and what is left as that progress says."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import NamedTuple

from dapd.arrays import Array
from dapd.clock import perf_counter
from dapd.engines.protocol import Engine
from dapd.operators.base import Operator
from dapd.ways.search import Search

AT_ONCE = 0.02  # seconds that a way may take in any case,
SOON = 0.3  # and if it was not predicted to take less; until then what it did counts as predicted, not as measured
OVERRUN = 2.0  # a way that has taken this much longer than another's prediction gives way to it
STUCK = 8.0  # and this much longer if its error does not fall
CAUTION = 2.0  # times what is left as progress says: most errors fall more slowly later on


class Moved(NamedTuple):
    """How x and y moved in the last piece of progress: near a ray if the problem has no solution."""

    dx: Array | None
    dy: Array | None


Advance = Callable[[], Moved]  # a piece of progress, which says how x and y moved if it is asked


def entries_are_scattered(M: Operator) -> bool:
    """Whether products read x here and there, which takes longer than to read a dense matrix."""
    return max((part for part, _ in M.bands()), key=lambda part: part.work).sparse() is not None


class Way:
    """One way to solve the problem."""

    name: str
    title: str

    def __init__(self, search: Search) -> None:
        self.search = search
        self.counted, self.measured = 0.0, 0.0  # seconds of what was done, as predicted and as measured
        self.patience = SOON  # seconds that may be spent in any case
        self.left_at = math.inf  # the error when another way took over
        self.progress: list[tuple[float, float]] = []  # seconds spent, and how many times too large the error was
        self.doubt = 1.0  # times its prediction: what it may well take if another way is more certain
        self.why = ""
        self.pieces: Iterator[Advance] | None = None

    @property
    def ran(self) -> Engine:
        """What computed the steps."""
        raise NotImplementedError

    def predict(self) -> float:
        """Seconds to the solution; inf if this way is impossible."""
        raise NotImplementedError

    @property
    def is_possible(self) -> bool:
        """Whether this way may turn out possible."""
        return math.isfinite(self.predict())

    @property
    def work(self) -> float:
        """Multiplications in one product or factorisation."""
        return 0.0

    @property
    def spent(self) -> float:
        """Seconds; at first those that were predicted for what was done, so two runs decide alike."""
        return min(self.counted, SOON) if self.measured <= SOON else self.measured

    def insist(self, *, first: bool = False) -> None:
        """Assume the best, if only a trial can tell what this way costs; `first`: be tried before all others."""

    def start(self) -> Iterator[Advance]:
        """Make progress from the best point on, a piece at a time."""
        raise NotImplementedError

    def advance(self) -> Advance | None:
        """Make a piece of progress; None if there is no more to come."""
        if self.pieces is None:
            self.pieces = self.start()
        began = perf_counter()
        try:
            return next(self.pieces, None)
        finally:
            self.measured += perf_counter() - began
            self.progress.append((self.spent, self.search.excess))

    def expected(self) -> float:
        """Seconds that this way takes in all, as predicted, and after a while those that are left.

        What is left is the rest of the prediction, or twice what was spent if that is more (eight times without any
        progress), or what progress says.
        """
        if math.isinf(self.predict()):
            return math.inf
        if self.spent <= min(self.patience, max(AT_ONCE, OVERRUN * self.predict())):
            return self.search.slowdown * self.doubt * self.predict()
        left = self.left()
        more = (OVERRUN if left < math.inf else STUCK) * self.spent
        return min(max(self.predict() - self.spent, more), CAUTION * left)

    def renew(self) -> None:
        """Start anew from a much better point that another way has found."""
        self.pieces = None

    def left(self) -> float:
        """The time until the error meets the tolerance, if it goes on falling as in the last half of the time."""
        half = bisect_left(self.progress, (0.5 * self.spent,))
        then = self.progress[half][1] if half < len(self.progress) else math.inf
        now = self.search.excess
        if not 1.0 < now < then < math.inf:
            return math.inf
        return 0.5 * self.spent * math.log(now) / math.log(then / now)
