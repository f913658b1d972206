"""Second-order steps: predicted by what a factorisation costs, which a set-up finds out."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

from dapd.engines.protocol import Engine
from dapd.machine.blas import MANY
from dapd.machine.clock import perf_counter, seconds_left
from dapd.machine.core import MISSING, load
from dapd.machine.rates import FACTORISATION, NEWTON
from dapd.newton.costs import banded_step_seconds, dense_multiplications, dense_seconds, overhead
from dapd.newton.matrices import TooExpensive
from dapd.newton.newton import Newton
from dapd.newton.parts import Unsuitable
from dapd.newton.scaled import PROBING
from dapd.newton.systems import Singular
from dapd.ways.base import AT_ONCE, OVERRUN, SOON, Asked, Candidate, Moved, Progress, entries_are_scattered

FACTORISATIONS, FEW = 40, 10  # factorisations that second-order steps usually take, and that they take near a solution
ON_PATH = 20  # factorisations that an interior-point path usually takes
AGAIN, ONCE = 3, 1.2  # factorisations from the solution of a similar problem, and of a quadratic f under equations
AT_LEAST = 0.5  # part of its estimate that a factorisation counts for while little time was spent
NEAR = 1e-6  # relative error below which a point is near a solution
BRIEFLY = 4  # ratio to the estimate up to which steps may take that start anew from a better point
SLOWEST = 3.0  # greatest factor by which this machine is believed to be slower than the rates say
LITTLE = 0.2  # part of the time of a long solve that a better answer than asked for may take
RETRY = 8  # factor by which the allowed time of a factorisation rises after it turned out too expensive
COMPARED = 0.5  # seconds of the other candidates from which it pays off to find out what a factorisation costs
UNCERTAIN = 2.5  # ratio of the factorisations that a solve may take and those that are usual
IN_NUMPY = "second-order steps run in NumPy, SciPy and qdldl"


class SecondOrder(Candidate):
    """The proximal method of multipliers with semismooth Newton."""

    name, title = "newton", "second-order steps"
    needs = "it needs f and φ of the package, or of such parts, and the entries of M"

    def __init__(self, asked: Asked) -> None:
        super().__init__(asked)
        search, self.impossible = asked.search, False
        self.limit = max(0.1, asked.limit() / 10)  # seconds that a factorisation may take
        known = search.kept.newton
        self.newton = known if known is not None and known.update(self.problem) else None
        self.why = "" if self.newton is None else self._cost()
        scattered = entries_are_scattered(self.problem.M)
        dense, banded = dense_seconds(search.problem, scattered=scattered), banded_step_seconds(search.problem)
        self.guess, self.seems_banded = min(dense, banded), banded < dense  # without a set-up

    def share(self) -> None:
        """Start anew, as if nothing had been spent: near a solution, these steps are fast."""
        super().share()
        self.counted, self.measured, self.patience = 0.0, 0.0, min(SOON, BRIEFLY * self.estimate())
        self.progress.clear()

    def assume_best(self, *, first: bool = False) -> None:
        """Hope that a factor has no more entries than the matrices: only a set-up tells what it costs."""
        entries, unknowns = self._sizes()
        hoped = 0.0 if first else overhead(0.0, entries, unknowns) + FACTORISATION.entry * entries
        self.guess = min(self.guess, hoped)

    def _sizes(self) -> tuple[int, int]:
        """The entries of all matrices, and how many rows and columns there are, bounds counted as rows."""
        problem = self.problem
        entries = problem.M.work + problem.f.work + problem.multipliers - problem.rows
        return entries, problem.multipliers + problem.columns

    def _cost(self) -> str:
        assert self.newton is not None
        return f"a factorisation takes about {self.newton.cost:.2g} s ({self.newton.kind})"

    @property
    def explanation(self) -> str:
        """What a factorisation costs, and how many are usual."""
        return f"{self.why}, and {self.usual} are usual" if math.isfinite(self.estimate()) else self.why

    @property
    def is_set_up(self) -> bool:
        """Whether it is known what a factorisation costs, or that there can be none."""
        return self.newton is not None or self.impossible

    @property
    def is_predictable(self) -> bool:
        """Whether it takes about as many steps as an interior point does."""
        return self.seems_banded if self.newton is None else self.newton.follows_path

    @property
    def is_in_time(self) -> bool:
        """Whether it has not taken much longer than usual."""
        return self.newton is not None and self.spent <= OVERRUN * FACTORISATIONS * self.newton.cost

    def set_up(self, within: float = math.inf) -> None:
        """Find out what a factorisation costs, if that is within so many seconds and the limit; the next is higher."""
        allowed = min(self.limit, within)
        try:
            left = seconds_left(self.search.deadline)
            self.newton = self.search.kept.newton = Newton(self.problem, seconds=min(allowed, left / PROBING))
            self.search.products += self.newton.products
            self.why = self._cost()
            if self.is_predictable:
                self.patience = math.inf  # errors fall at the end of the path
        except TooExpensive as error:
            self.why, self.guess = str(error), 2 * allowed
        except Unsuitable as error:
            self.impossible, self.why = True, str(error)
        if allowed == self.limit:
            self.limit *= RETRY

    @property
    def ran(self) -> Engine:
        return Engine("python", "; ".join([*([] if load() else [MISSING]), IN_NUMPY]))

    def estimate(self) -> float:
        """Factorisations, times what one takes."""
        if self.impossible:
            return math.inf
        once = self.guess if self.newton is None else self.newton.cost
        if self.search.repeated:  # later solves are what counts
            return AGAIN * once
        problem, before = self.problem, 0.0
        if self.newton is None:
            entries, unknowns = self._sizes()
            before = NEWTON.set_up + NEWTON.set_up_entry * entries + NEWTON.set_up_unknown * unknowns
        if problem.phi.is_linear and problem.lower is None and problem.f.is_quadratic:
            return before + ONCE * once
        best = self.search.best
        if self.newton is None or best is None:
            return before + self.usual * once
        digits = -math.log10(min(max(best.certificate.error, NEAR), 1.0))
        return (self.usual + (FEW - self.usual) * digits / -math.log10(NEAR)) * once

    @property
    def usual(self) -> int:
        """How many factorisations are usual."""
        return ON_PATH if self.is_predictable else FACTORISATIONS

    @property
    def is_possible(self) -> bool:
        """Whether its prediction, even if it is infinite, may be wrong."""
        return not self.impossible

    @property
    def work(self) -> float:
        """Multiplications in a dense factorisation, which BLAS would do on several threads."""
        if self.newton is None:
            dense = dense_multiplications(self.search.problem)
            return dense if dense < MANY else 0.0  # beyond that it will be a sparse one, if any
        return self.newton.work

    def note_rivals(self, steady: float, best: float) -> None:
        """Find out what a factorisation costs if the others take long, and doubt a number of them that varies."""
        if best <= COMPARED:
            return
        self.examine(within=best / FACTORISATIONS)
        self.doubt = UNCERTAIN if steady < UNCERTAIN * self.estimate() and not self.is_predictable else 1.0

    def examine(self, within: float = math.inf) -> bool:
        if self.is_set_up:
            return False
        self.set_up(within)
        return True

    def start(self) -> Iterator[Progress]:
        search = self.search
        while not self.is_set_up:
            left, most = seconds_left(search.deadline), min(self._sizes()[1] ** 2 / 2, self.limit / FACTORISATION.entry)
            hurried = FACTORISATION.counting * most > left  # entries of the factor that a set-up counts at most
            self.set_up(within=left * FACTORISATION.entry / FACTORISATION.counting if hurried else math.inf)
            yield Progress()
            if hurried and not self.is_set_up:
                return
        if self.newton is None:
            return
        newton, best, first = self.newton, search.point, self.newton.factorizations
        newton.finer = finer = not search.repeated
        points = newton.run(best.x, best.y, search.judge, search.deadline, tol=max(search.tolerances))
        while newton.cost <= seconds_left(search.deadline):
            counted = newton.factorizations
            newton.most_factorizations = counted + search.limit - search.iterations
            try:
                reached = next(points)
            except StopIteration:
                return
            except Singular:
                self.impossible, self.why = True, "factorisations break down"
                return
            finally:
                search.iterations += newton.factorizations - counted
                self.counted += AT_LEAST * newton.cost * (newton.factorizations - counted)
            made = newton.factorizations - first
            if self.spent > SOON and made:
                search.slowdown = min(max(1.0, self.spent / made / newton.cost), SLOWEST)
            if search.done and finer:
                elapsed = perf_counter() - search.began
                if FEW * newton.cost < (LITTLE * elapsed if elapsed > SOON else AT_ONCE):
                    finer = False  # one more step is worth several digits
                    continue
            yield Progress() if reached is None else Progress(partial(Moved, reached.dx, reached.dy))
