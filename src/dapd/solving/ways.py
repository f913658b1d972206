"""The ways in which `auto` may solve a problem: Clarabel, second-order steps, and restarted first-order methods.

Each says how long it will probably take, and makes progress a piece at a time, so `auto` may change its mind.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from time import perf_counter
from typing import Any, NamedTuple

from dapd.arrays import Array
from dapd.engines.protocol import Engine
from dapd.model.lowered import has_valid_lowering
from dapd.presolve import DiagonalVariables, OrthonormalRows, Presolve, RowScaling
from dapd.second_order import direct
from dapd.second_order.choose import DENSE_RATE, TooExpensive
from dapd.second_order.conic import Conic, conic, entries_of
from dapd.second_order.newton import Newton, Unsuitable, dense_seconds
from dapd.solving.restarts import restarts
from dapd.solving.search import Search
from dapd.spectrum.estimate import Spectrum, estimate_norm

EPOCHS = 3_000  # first-order iterations that a problem usually takes
CALL, OPERATION = 4e-6, 3e-10  # seconds per iteration, and per multiplication in it
IN_PYTHON = 10  # times as slow
FACTORISATIONS, FEW = 40, 10  # of second-order steps: usually, and near a solution
AGAIN = 3  # and from the solution of nearly the same problem
NEAR = 1e-3  # relative error from which a point is near
TRIVIAL = 3e-3  # seconds that are not worth a closer prediction
RETRY = 8  # times the seconds that a factorisation may take, after a way turned out too expensive
CONDITIONING = (DiagonalVariables.apply, OrthonormalRows.apply, RowScaling.apply)


class Moved(NamedTuple):
    """How x and y moved in the last piece of progress: near a ray if the problem has no solution."""

    dx: Array | None
    dy: Array | None


class Way:
    """One way to solve the problem."""

    name: str
    title: str

    def __init__(self, search: Search) -> None:
        self.search = search
        self.spent = 0.0
        self.why = ""
        self.pieces: Iterator[Moved] | None = None
        self.ran = Engine("python", "")

    def predict(self) -> float:
        """Seconds to the solution; inf if this way is impossible."""
        raise NotImplementedError

    @property
    def work(self) -> float:
        """Multiplications in one product or factorisation."""
        return 0.0

    def insist(self) -> None:
        """Become the first to be tried, if this way can tell what it costs only then."""

    def start(self) -> Iterator[Moved]:
        """Make progress from the best point on, a piece at a time."""
        raise NotImplementedError

    def advance(self) -> Moved | None:
        """Make a piece of progress; None if there is no more to come."""
        if self.pieces is None:
            self.pieces = self.start()
        return next(self.pieces, None)


class Direct(Way):
    """Clarabel's interior point."""

    name, title = "clarabel", "Clarabel"

    def __init__(self, search: Search, limit: float) -> None:
        super().__init__(search)
        self.form: Conic | None = None
        self.seconds: float | None = None
        count = entries_of(search.problem) if direct.available() else None
        if count is not None:
            least = direct.least_seconds(search.problem, count)
            if least < limit:
                self.form = conic(search.problem)
                if self.form is not None:
                    # below a few milliseconds the symbolic cost takes longer than it can save
                    self.seconds = least if least < TRIVIAL else direct.predict(search.problem, limit, form=self.form)
            else:
                self.seconds = math.inf
        self.limit = limit

    def predict(self) -> float:
        """From the symbolic cost of its factorisation."""
        if self.seconds is None:
            return math.inf
        return self.seconds if math.isfinite(self.seconds) else 2 * self.limit

    def start(self) -> Iterator[Moved]:
        """One call."""
        search = self.search
        tol, tol_absolute = search.tolerances
        answer = direct.solve(
            search.problem,
            tol=tol,
            tol_absolute=tol_absolute,
            time_limit=search.deadline - perf_counter(),
            max_iterations=max(1, min(100, search.limit - search.iterations)),
            excess=lambda found: math.inf if found.ray is not None else search.judge(found.x, found.y),
            form=self.form,
        )
        search.iterations += answer.iterations
        self.seconds = None  # it will not do better
        if answer.status == "infeasible":
            yield Moved(None, answer.ray)
        elif answer.status == "unbounded":
            yield Moved(answer.ray, None)
        else:
            yield Moved(None, None)


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
        self.guess = dense_seconds(search.problem)  # without a set-up

    def insist(self) -> None:
        """Set it up before anything else: only then is it known what a sparse factorisation costs."""
        self.guess = 0.0

    def _cost(self) -> str:
        assert self.newton is not None
        return f"a factorisation takes about {self.newton.cost:.2g} s ({self.newton.kind})"

    def _set_up(self) -> None:
        try:
            self.newton = self.search.kept["newton"] = Newton(self.search.problem, seconds=self.limit)
            self.why = self._cost()
        except TooExpensive as error:
            self.why, self.guess = str(error), 2 * self.limit
        except Unsuitable as error:
            self.impossible, self.why = True, str(error)

    def predict(self) -> float:
        """Factorisations, times what one takes."""
        if self.impossible:
            return math.inf
        if self.newton is None:
            return FACTORISATIONS * self.guess
        if self.search.repeated:  # later solves are what counts
            return AGAIN * self.newton.cost
        near = self.search.best is not None and self.search.best.certificate.error < NEAR
        return (FEW if near else FACTORISATIONS) * self.newton.cost

    @property
    def work(self) -> float:
        """Multiplications in a dense factorisation."""
        return 0.0 if self.newton is None or self.newton.is_sparse else self.newton.cost * DENSE_RATE

    def start(self) -> Iterator[Moved]:
        """Proximal steps."""
        search = self.search
        while self.newton is None and not self.impossible:
            self._set_up()
            self.limit *= RETRY
            yield Moved(None, None)
        if self.newton is None:
            return
        best, counted = search.point, self.newton.factorizations
        for look in self.newton.run(best.x, best.y, search.judge, search.deadline, tol=max(search.tolerances)):
            search.iterations += look.factorizations - counted
            counted = look.factorizations
            yield Moved(look.dx, look.dy)


class FirstOrder(Way):
    """Restarted x-DAPD and y-DAPD."""

    name, title = "restarts", "restarted DAPD"

    def __init__(self, search: Search, engine: str, spectrum: Spectrum | None) -> None:
        super().__init__(search)
        self.engine, self.spectrum = engine, spectrum
        problem = search.problem
        native = has_valid_lowering(problem.f, "grad") and has_valid_lowering(problem.phi, "prox")
        operations = 2 * (problem.M.work or problem.rows * problem.columns) + problem.f.work
        operations += 10 * (problem.rows + problem.columns)
        self.seconds = EPOCHS * (CALL + OPERATION * operations) * (1 if native else IN_PYTHON)
        self.why = f"about {EPOCHS:,} iterations are usual"

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
        kept["transform"] = Presolve.apply(problem, CONDITIONING) if found is None else found
        return kept["transform"]  # type: ignore[no-any-return]

    def start(self) -> Iterator[Moved]:
        """Epochs on a problem with scaled rows, judged by the certificate of the given one."""
        search = self.search
        transform = self._transform()
        problem = transform.problem
        spectrum = problem.spectrum or (self.spectrum if not transform.transforms else None)
        if spectrum is None:
            spectrum = estimate_norm(problem.M, deadline=search.deadline)
        best = search.point
        start = transform.start(best.x, best.y)

        def judge(x: Array, y: Array) -> float:
            return search.judge(*transform.back(x, y))

        before: Any = None
        made = (0, 0, 0)
        for epoch in restarts(
            problem,
            judge,
            s_max=spectrum.s_max,
            s_min=spectrum.s_min or None,
            start=start,
            engine=self.engine,
            deadline=search.deadline,
        ):
            search.iterations += epoch.iterations - made[0]
            search.gradients += epoch.gradients - made[1]
            search.products += epoch.products - made[2]
            made = epoch.iterations, epoch.gradients, epoch.products
            there = transform.back(epoch.x, epoch.y)
            yield Moved(None, None) if before is None else Moved(there[0] - before[0], there[1] - before[1])
            before = there
