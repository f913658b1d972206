"""The ways in which `auto` may solve a problem: Clarabel, second-order steps, and restarted first-order methods.

Each says how long it will probably take, and makes progress a piece at a time, so `auto` may change its mind.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from dapd import theory
from dapd.arrays import Array
from dapd.blas import MANY
from dapd.clock import perf_counter
from dapd.engines import is_on_mesh
from dapd.engines.native import MISSING, load
from dapd.engines.protocol import Engine
from dapd.model.lowered import has_valid_lowering
from dapd.model.smooth import LeastSquares, Quadratic
from dapd.operators.base import Dense, Operator
from dapd.operators.stacked import RowBlocks
from dapd.presolve import CLEANING, CONDITIONING, SCALING, Presolve
from dapd.second_order import direct
from dapd.second_order.choose import DENSE_RATE, ENTRY, overhead
from dapd.second_order.conic import Conic, conic, entries_of
from dapd.second_order.matrices import TooExpensive
from dapd.second_order.newton import PROBING, Newton, Unsuitable, dense_multiplications, dense_seconds
from dapd.second_order.systems import Singular
from dapd.solving.device import Judge, judge_of, on_the_device
from dapd.solving.restarts import restarts
from dapd.solving.search import Search
from dapd.spectrum.estimate import Spectrum, estimate_norm

DIGITS = 6.0  # times Π: the iterations to a usual accuracy
EPOCHS, EQUATIONS = 5_000, 2_000  # first-order iterations that a problem usually takes, and one with equations only
CALL, PER_ENTRY = 8e-6, 1e-9  # seconds per iteration, looks included, and per entry of x and y in it
DENSE_PRODUCT, SPARSE_PRODUCT = 1e-10, 5e-10  # seconds per multiplication with M or a matrix of f
IN_PYTHON = 10  # times as slow
FACTORISATIONS, FEW = 40, 10  # of second-order steps: usually, and near a solution
AGAIN, ONCE = 3, 1.2  # and from the solution of nearly the same problem, and of a quadratic one under equations only
SET_UP = 2e-3  # seconds to set them up at least,
SET_UP_ENTRY = 3e-8  # per entry,
SET_UP_ROW = 1e-6  # and per row or column
BEGIN = 3e-3  # seconds that first-order steps take to be set up and judged
NEAR = 1e-6  # relative error from which a point is near
TRIVIAL = 5e-3  # seconds that are not worth a closer prediction
AT_ONCE = 0.02  # seconds that a way may take in any case,
SOON = 0.3  # and if it was not predicted to take less
BRIEFLY = 4  # times its prediction: what a way may take that starts anew from a better point
SLOWEST = 3.0  # times: how much slower than predictions second-order steps may prove this machine to be
LITTLE = 0.2  # of the time spent: what a better answer than asked for may take
OVERRUN = 2.0  # a way that has taken this much longer than another's prediction gives way to it
CAUTION = 2.0  # times what is left as progress says: most errors fall more slowly later on
UNKNOWN = 10  # times the limit: what a way is thought to take that was not examined because it would take longer
RETRY = 8  # times the seconds that a factorisation may take, after a way turned out too expensive
ANALYSIS = 1e-7  # seconds per entry of a sparse factor that it takes to count them
IN_NUMPY = "second-order steps run in NumPy, SciPy and qdldl"
TRANSFORMS = CLEANING + CONDITIONING
Point = tuple[Array, Array]


class Moved(NamedTuple):
    """How x and y moved in the last piece of progress: near a ray if the problem has no solution."""

    dx: Array | None
    dy: Array | None


Piece = Callable[[], Moved]  # a piece of progress, which says how x and y moved if it is asked


def entries_are_scattered(M: Operator) -> bool:
    """Whether products read x here and there, which takes longer than to read a dense matrix."""
    if isinstance(M, RowBlocks):
        return max(M.operators, key=lambda part: part.work).sparse() is not None
    return M.sparse() is not None


class Way:
    """One way to solve the problem."""

    name: str
    title: str

    def __init__(self, search: Search) -> None:
        self.search = search
        self.spent, self.patience = 0.0, SOON  # seconds, and how many may be spent in any case
        self.left_at = math.inf  # the error when another way took over
        self.progress: list[tuple[float, float]] = []  # seconds spent, and how many times too large the error was
        self.why = ""
        self.pieces: Iterator[Piece] | None = None

    @property
    def ran(self) -> Engine:
        """What computed the steps."""
        raise NotImplementedError

    def predict(self) -> float:
        """Seconds to the solution; inf if this way is impossible."""
        raise NotImplementedError

    @property
    def work(self) -> float:
        """Multiplications in one product or factorisation."""
        return 0.0

    def insist(self, *, first: bool = False) -> None:
        """Assume the best, if only a trial can tell what this way costs; `first`: be tried before all others."""

    def start(self) -> Iterator[Piece]:
        """Make progress from the best point on, a piece at a time."""
        raise NotImplementedError

    def advance(self) -> Piece | None:
        """Make a piece of progress; None if there is no more to come."""
        if self.pieces is None:
            self.pieces = self.start()
        began = perf_counter()
        try:
            return next(self.pieces, None)
        finally:
            self.spent += perf_counter() - began
            self.progress.append((self.spent, self.search.excess))

    def expected(self) -> float:
        """Seconds that this way takes: as predicted, then rather what is left as its progress says."""
        if self.spent <= min(self.patience, max(AT_ONCE, OVERRUN * self.predict())):
            return self.search.slowdown * self.predict()
        return min(max(self.predict() - self.spent, OVERRUN * self.spent), CAUTION * self._left())

    def renew(self) -> None:
        """Start anew from a much better point that another way has found."""
        self.pieces = None

    def _left(self) -> float:
        """The time until the error meets the tolerance, if it goes on falling as in the last half of the time."""
        half = bisect_left(self.progress, (0.5 * self.spent,))
        then = self.progress[half][1] if half < len(self.progress) else math.inf
        now = self.search.excess
        if not 1.0 < now < then < math.inf:
            return math.inf
        return 0.5 * self.spent * math.log(now) / math.log(then / now)


class Direct(Way):
    """Clarabel's interior point."""

    name, title = "clarabel", "Clarabel"

    def __init__(self, search: Search, limit: float) -> None:
        super().__init__(search)
        self.form: Conic | None = None
        self.seconds: float | None = None
        self.by_columns = False
        count = entries_of(search.problem) if direct.available() else None
        if count is not None:
            least = direct.least_seconds(search.problem, count)
            if least < limit:
                self.form = conic(search.problem)
                # below a few milliseconds the symbolic cost takes longer than it can save
                cheap = self.form is not None and least < TRIVIAL
                found = None if cheap else direct.predict(search.problem, limit, form=self.form)
                self.seconds = least if cheap else found and found.seconds
                self.by_columns = found is not None and found.by_columns
            else:
                self.seconds = math.inf
        self.limit = limit
        if self.seconds is not None:
            self.why = f"predicted to take {self.predict():.2g} s by the size of its factorisation"

    @property
    def ran(self) -> Engine:
        """Clarabel itself."""
        return Engine("clarabel", "" if load() else MISSING)

    def predict(self) -> float:
        """From the symbolic cost of its factorisation."""
        if self.seconds is None:
            return math.inf
        return self.seconds if math.isfinite(self.seconds) else UNKNOWN * self.limit

    def _excess(self, found: direct.Answer) -> float:
        """How an answer is ranked; above 1, another is wanted."""
        if found.ray is not None:
            return math.inf
        error = self.search.judge(found.x, found.y)
        return 1.0 + error if error else 0.0

    def start(self) -> Iterator[Piece]:
        """One call."""
        search = self.search
        self.form = self.form or conic(search.problem)
        if self.form is None:
            self.seconds = None
            return
        tol, tol_absolute = search.tolerances
        answer = direct.solve(
            search.problem,
            tol=tol,
            tol_absolute=tol_absolute,
            time_limit=search.deadline - perf_counter(),
            max_iterations=search.limit - search.iterations,
            excess=self._excess,
            form=self.form,
            by_columns=self.by_columns,
        )
        search.iterations += answer.iterations
        self.seconds = None  # it will not do better
        if answer.status == "infeasible":
            yield partial(Moved, None, answer.ray)
        elif answer.status == "unbounded":
            yield partial(Moved, answer.ray, None)
        else:
            yield partial(Moved, None, None)


class SecondOrder(Way):
    """The proximal method of multipliers with semismooth Newton."""

    name, title = "newton", "second-order steps"

    def __init__(self, search: Search, limit: float) -> None:
        super().__init__(search)
        self.limit = limit
        self.impossible = False
        known: Newton | None = search.kept.get("newton")
        self.newton = known if known is not None and known.update(search.problem) else None
        self.why = "" if self.newton is None else self._cost()
        scattered = entries_are_scattered(search.problem.M)
        self.guess = dense_seconds(search.problem, scattered=scattered)  # without a set-up

    def renew(self) -> None:
        """Start anew, as if nothing had been spent: near a solution, these steps are fast."""
        super().renew()
        self.spent, self.patience = 0.0, min(SOON, BRIEFLY * self.predict())
        self.progress.clear()

    def insist(self, *, first: bool = False) -> None:
        """Hope that a factor has no more entries than the matrices: only a set-up tells what it costs."""
        problem = self.search.problem
        entries = problem.M.work + problem.f.work
        hoped = 0.0 if first else overhead(0.0, entries, problem.rows + problem.columns) + ENTRY * entries
        self.guess = min(self.guess, hoped)

    def _cost(self) -> str:
        assert self.newton is not None
        return f"a factorisation takes about {self.newton.cost:.2g} s ({self.newton.kind})"

    @property
    def is_set_up(self) -> bool:
        """Whether it is known what a factorisation costs, or that there can be none."""
        return self.newton is not None or self.impossible

    @property
    def is_in_time(self) -> bool:
        """Whether it has not taken much longer than usual."""
        return self.newton is not None and self.spent <= OVERRUN * FACTORISATIONS * self.newton.cost

    def set_up(self, within: float = math.inf) -> None:
        """Find out what a factorisation costs, if that is within so many seconds and the limit; the next is higher."""
        allowed = min(self.limit, within)
        try:
            left = self.search.deadline - perf_counter()
            self.newton = self.search.kept["newton"] = Newton(self.search.problem, seconds=min(allowed, left / PROBING))
            self.search.products += self.newton.products
            self.why = self._cost()
        except TooExpensive as error:
            self.why, self.guess = str(error), 2 * allowed
        except Unsuitable as error:
            self.impossible, self.why = True, str(error)
        if allowed == self.limit:
            self.limit *= RETRY

    @property
    def ran(self) -> Engine:
        """Always Python."""
        return Engine("python", "; ".join([*([] if load() else [MISSING]), IN_NUMPY]))

    def predict(self) -> float:
        """Factorisations, times what one takes."""
        if self.impossible:
            return math.inf
        once = self.guess if self.newton is None else self.newton.cost
        if self.search.repeated:  # later solves are what counts
            return AGAIN * once
        problem = self.search.problem
        before = 0.0
        if self.newton is None:
            entries = problem.M.work + problem.f.work
            before = SET_UP + SET_UP_ENTRY * entries + SET_UP_ROW * (problem.rows + problem.columns)
        if problem.phi.is_linear and isinstance(problem.f, (Quadratic, LeastSquares)):
            return before + ONCE * once
        best = self.search.best
        if self.newton is None or best is None:
            return before + FACTORISATIONS * once
        digits = -math.log10(min(max(best.certificate.error, NEAR), 1.0))
        return (FACTORISATIONS + (FEW - FACTORISATIONS) * digits / -math.log10(NEAR)) * once

    @property
    def work(self) -> float:
        """Multiplications in a dense factorisation, which BLAS would do on several threads."""
        if self.newton is None:
            dense = dense_multiplications(self.search.problem)
            return dense if dense < MANY else 0.0  # beyond that it will be a sparse one, if any
        return self.newton.work

    def _analysis(self) -> float:
        """Seconds that a set-up takes at most."""
        problem = self.search.problem
        whole = (problem.rows + problem.columns) ** 2 / 2
        return ANALYSIS * min(whole, self.limit / ENTRY)

    def start(self) -> Iterator[Piece]:
        """Proximal steps."""
        search = self.search
        while not self.is_set_up:
            if self._analysis() > search.deadline - perf_counter():
                return
            self.set_up()
            yield partial(Moved, None, None)
        if self.newton is None:
            return
        newton, best, first = self.newton, search.point, self.newton.factorizations
        newton.finer = finer = not search.repeated
        points = newton.run(best.x, best.y, search.judge, search.deadline, tol=max(search.tolerances))
        while newton.cost <= search.deadline - perf_counter():
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
            made = newton.factorizations - first
            if self.spent > SOON and made:
                search.slowdown = min(max(1.0, self.spent / made / newton.cost), SLOWEST)
            if search.done and finer and FEW * newton.cost < LITTLE * (perf_counter() - search.began):
                finer = False  # one more step is worth several digits
                continue
            yield partial(Moved, None, None) if reached is None else partial(Moved, reached.dx, reached.dy)


class FirstOrder(Way):
    """Restarted x-DAPD and y-DAPD."""

    name, title = "restarts", "restarted DAPD"

    def __init__(self, search: Search, engine: str, spectrum: Spectrum | None) -> None:
        super().__init__(search)
        self.engine, self.spectrum = engine, spectrum
        self.used: Engine | None = None
        problem = search.problem
        native = engine != "python" and load() is not None and has_valid_lowering(problem.f, "grad")
        native = native and has_valid_lowering(problem.phi, "prox")
        products = 2 * (problem.M.work or problem.rows * problem.columns) + problem.f.work
        per_product = SPARSE_PRODUCT if entries_are_scattered(problem.M) else DENSE_PRODUCT
        once = CALL + per_product * products + PER_ENTRY * (problem.rows + problem.columns)
        self.usual = once * (1 if native else IN_PYTHON)  # seconds per iteration
        iterations: float = EQUATIONS if problem.phi.is_linear else EPOCHS
        self.seconds = BEGIN + iterations * self.usual
        self.why = f"about {iterations:,} iterations are usual"
        self.certain = False  # whether a theorem says how many
        f = problem.f
        if problem.phi.is_linear and isinstance(problem.M, Dense) and f.mu > 0 and f.L is not None:
            # rows are made orthonormal, and then the theorem of x-DAPD says how many iterations there will be
            iterations = DIGITS * theory.x_dapd(L=f.L, mu=f.mu, s_max=1.0, s_min=1.0).Pi
            changed = 4.0 * min(problem.M.shape) ** 2 * max(problem.M.shape) / DENSE_RATE
            if BEGIN + iterations * self.usual + changed < self.seconds:
                self.certain = True
                self.seconds = BEGIN + iterations * self.usual + changed
                self.why = f"with orthonormal rows the theorem asks for about {iterations:,.0f} iterations"

    @property
    def ran(self) -> Engine:
        """The engine of the first-order steps."""
        return self.used or Engine("python", "no step was taken")

    def predict(self) -> float:
        """Iterations, times what one takes."""
        return self.seconds

    @property
    def work(self) -> float:
        """Multiplications with M and with f's matrices."""
        return self.search.problem.M.work + self.search.problem.f.work

    def _transform(self) -> Presolve:
        """Scaled rows and orthonormal equations: those of the last problem, if only b is new."""
        problem, kept = self.search.problem, self.search.kept
        known: Presolve | None = kept.get("transform")
        found = None if known is None else known.again(problem)
        if found is None:
            # the devices of a mesh divide M as it was given
            found = Presolve.apply(problem, SCALING if is_on_mesh() else TRANSFORMS, self.search.deadline)
        kept["transform"] = found
        return found

    def start(self) -> Iterator[Piece]:
        """Epochs on a problem with scaled rows, judged by the certificate of the given one."""
        search = self.search
        transform = self._transform()
        problem = transform.problem
        spectrum = problem.spectrum or (None if transform.transforms else self.spectrum)
        if spectrum is None:
            device = on_the_device(problem, self.engine)
            spectrum = estimate_norm(problem.M if device is None else device, deadline=search.deadline)
        best, judging = search.point, judge_of(search.problem, self.engine, transform)

        before: dict[str, Point] = {}  # where epochs of each kind ended
        made = [0, 0, 0]
        for epoch in restarts(
            problem,
            lambda x, y: search.judge(x, y, judging),
            s_max=spectrum.s_max,
            s_min=spectrum.s_min or None,
            start=judging.start(best.x, best.y),
            engine=self.engine,
            deadline=search.deadline,
            allowed=lambda: search.limit - (search.iterations - made[0]),
        ):
            search.iterations += epoch.iterations - made[0]
            search.gradients += epoch.gradients - made[1]
            search.products += epoch.products - made[2]
            if self.spent > SOON and epoch.iterations:
                search.slowdown = max(1.0, self.spent / epoch.iterations / self.usual)
            made[:] = epoch.iterations, epoch.gradients, epoch.products
            self.used = epoch.engine
            yield partial(_moved, judging, epoch.last, before.get(epoch.kind, epoch.last))
            before[epoch.kind] = epoch.last


def _moved(judging: Judge, now: Point, before: Point) -> Moved:
    return Moved(*judging.move(now, before))
