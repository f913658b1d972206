"""What all candidates of a solve share: an estimate, steps of progress, and what is left as that progress says."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

from dapd.arrays import Array
from dapd.engines.protocol import Engine
from dapd.machine.clock import perf_counter
from dapd.operators.base import Operator
from dapd.ways.causes import Cause
from dapd.ways.search import Info, Search

AT_ONCE = 0.02  # seconds that a candidate may take in any case
SOON = 0.3  # seconds until which the work of a candidate counts as estimated, and then as measured
OVERRUN = 2.0  # ratio to another candidate's estimate up to which a candidate may run before the other has its turn
STUCK = 8.0  # ratio of the time that is left and the time spent, for a candidate whose error does not fall
CAUTION = 2.0  # factor of the time that progress suggests is left, since most errors fall more slowly later on


class Moved(NamedTuple):
    """How x and y moved in the last progress: near a ray if the problem has no solution."""

    dx: Array | None = None
    dy: Array | None = None


class Progress(NamedTuple):
    """What a candidate did until it let the others have their turn."""

    moved: Callable[[], Moved] = Moved  # asked only if a ray is looked for
    cause: Cause | None = None  # why the candidate ends the solve, if it does


def entries_are_scattered(M: Operator) -> bool:
    """Whether products read x here and there, which takes longer than to read a dense matrix."""
    bands = M.bands()
    most = bands[0][0] if len(bands) == 1 else max((part for part, _ in bands), key=lambda part: part.work)
    return most.sparse() is not None


class Asked(NamedTuple):
    """What a candidate is made for."""

    search: Search
    engine: str = "auto"
    direct: bool = True  # whether other solvers may take part
    limit: Callable[[], float] = lambda: math.inf  # seconds beyond which a candidate need not be examined closely
    reliable_limit: Callable[[], float] = lambda: math.inf  # the same of a candidate whose estimate is reliable


CANDIDATES: dict[str, type[Candidate]] = {}


class Candidate:
    """An algorithm that takes part in a solve.

    A subclass gives `name`, `title`, `ran`, `estimate` and `start`; the rest has defaults. A class with a name takes
    part in every solve by `auto` that its `why_not` does not rule out.
    """

    name: str
    title: str
    needs = "the problem is not of the kind that it solves"  # said if its estimate is infinite
    is_steady = False  # whether its estimate is reliable
    finds_rays = False  # whether `moved` is worth a check whenever it made progress
    least = 1  # iterations of the shortest turn
    parameters: Any = None
    per_iteration = math.nan  # seconds, as estimated

    def __init_subclass__(cls) -> None:
        if "name" in vars(cls):
            CANDIDATES[cls.name] = cls

    @classmethod
    def why_not(cls, asked: Asked) -> str:
        """Why it may not take part, whatever the problem is; empty if it may."""
        return "" if asked.engine == "auto" else f"engine={asked.engine!r} leaves only first-order methods"

    def __init__(self, asked: Asked) -> None:
        self.search, self.problem = asked.search, asked.search.problem
        self.counted, self.measured = 0.0, 0.0  # seconds of what was done, as estimated and as measured
        self.patience = SOON  # seconds that may be spent in any case
        self.left_at = math.inf  # the error when another candidate took over
        self.progress: list[tuple[float, float]] = []  # seconds spent, and how many times too large the error was
        self.doubt = 1.0  # times its estimate: what it may well take if another candidate is more certain
        self.why = ""
        self.under_way: Iterator[Progress] | None = None

    @property
    def ran(self) -> Engine:
        """What computed the steps."""
        raise NotImplementedError

    def estimate(self) -> float:
        """Seconds to the solution; inf if this candidate cannot solve the problem."""
        raise NotImplementedError

    @property
    def explanation(self) -> str:
        """Why the estimate is what it is."""
        return self.why

    @property
    def is_possible(self) -> bool:
        """Whether this candidate may turn out to solve the problem."""
        return math.isfinite(self.estimate())

    @property
    def work(self) -> float:
        """Multiplications in one product or factorisation."""
        return 0.0

    @property
    def is_in_time(self) -> bool:
        """Whether its error need not fall yet."""
        return False

    @property
    def spent(self) -> float:
        """Seconds; at first those that were estimated for what was done, so two runs decide alike."""
        return min(self.counted, SOON) if self.measured <= SOON else self.measured

    def assume_best(self, *, first: bool = False) -> None:
        """Assume the best, if only a trial can tell what this candidate takes; `first`: be tried before all others."""

    def note_rivals(self, steady: float, best: float) -> None:
        """Take note of the least estimate of the steady candidates, and of all."""

    def examine(self) -> bool:
        """Find out more about its own cost, if that takes a set-up; whether there was anything to find out."""
        return False

    def start(self) -> Iterator[Progress]:
        """Make progress from the best point on, step by step."""
        raise NotImplementedError

    def advance(self) -> Progress | None:
        """Make some progress; None if there is no more to come."""
        if self.under_way is None:
            self.under_way = self.start()
        began = perf_counter()
        try:
            return next(self.under_way, None)
        finally:
            self.measured += perf_counter() - began
            self.progress.append((self.spent, self.search.excess))

    def expected(self) -> float:
        """Seconds that this candidate takes in all, as estimated, and after a while those that are left.

        What is left is the rest of the estimate, or twice what was spent if that is more (eight times without any
        progress), or what progress says.
        """
        estimate = self.estimate()
        if math.isinf(estimate):
            return math.inf
        if self.spent <= min(self.patience, max(AT_ONCE, OVERRUN * estimate)):
            return self.search.slowdown * self.doubt * estimate
        left = self.left()
        more = (OVERRUN if left < math.inf else STUCK) * self.spent
        return min(max(estimate - self.spent, more), CAUTION * left)

    def share(self) -> None:
        """Start anew from a much better point that another candidate has found."""
        self.under_way = None

    def left(self) -> float:
        """The time until the error meets the tolerance, if it goes on falling as in the last half of the time."""
        half = bisect_left(self.progress, (0.5 * self.spent,))
        then = self.progress[half][1] if half < len(self.progress) else math.inf
        now = self.search.excess
        if not 1.0 < now < then < math.inf:
            return math.inf
        return 0.5 * self.spent * math.log(now) / math.log(then / now)


class Choice:
    """Which candidates take part in a solve, and whose turn it is."""

    is_named = False  # whether it is one method, whose iterates are all that counts
    title = "auto"
    least = 1  # iterations of the shortest turn
    round = 1  # iterations of a pass over M
    first: Candidate  # that began

    def __init__(self, search: Search) -> None:
        self.search = search

    def begin(self, start: tuple[Array, Array]) -> Progress:
        """Judge the start."""
        self.search.judge(*start)
        return Progress()

    def current(self) -> tuple[Info, float]:
        """The point to show, and the iterations to go; nan if unknown."""
        search = self.search
        return search.point._replace(iteration=search.iterations, time=perf_counter() - search.began), math.nan

    def next(self) -> Candidate:
        """The candidate with the best prospects."""
        return self.first

    def note(self, candidate: Candidate, *, is_exhausted: bool) -> None:
        """Take note of some progress."""

    def is_exhausted(self) -> bool:
        """Whether nobody can go on, or only rounding can explain that there is no better point."""
        raise NotImplementedError

    def returned(self, cause: Cause) -> Info:
        """The point to return."""
        return self.search.point

    def seconds(self) -> float:
        """The seconds that the solve took."""
        return perf_counter() - self.search.began

    def with_threads(self) -> AbstractContextManager[Any]:
        """A context in which BLAS uses as many threads as pay off."""
        return nullcontext()

    def remember(self, solved: Candidate | None) -> None:
        """Note for the next solve what solved the problem."""

    def close(self) -> None:
        """Let go of the generators, which refer to their candidates, so both would wait for the garbage collector."""
        self.first.under_way = None
