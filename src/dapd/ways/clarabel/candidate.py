"""The direct way: Clarabel's interior point for problems that have a conic form, if it is installed."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from dapd.arrays import Array
from dapd.engines.protocol import Engine
from dapd.machine.clock import cancellation, is_over, perf_counter, seconds_left
from dapd.machine.core import MISSING, load
from dapd.machine.rates import CLARABEL
from dapd.newton.costs import cost
from dapd.problem.problem import Problem
from dapd.ways.base import Asked, Candidate, Moved, Progress
from dapd.ways.clarabel.conic import Conic, conic, entries_of

TRIVIAL = 5e-3  # seconds that are not worth a closer prediction
UNKNOWN = 10  # ratio to the limit of an estimate that was given up
AHEAD, FAR_AHEAD = 8, 1e5  # factor by which the limit of an estimate rises at last, and its greatest value in seconds
RAN, RAN_ALONE = Engine("clarabel"), Engine("clarabel", MISSING)  # with the core, and without

FRACTION = 0.1  # Clarabel gets a tenth of the tolerance, since it measures other norms than the certificate
GAP_MARGIN = 1e-6  # Clarabel's gap relative to the tolerance; the error of a degenerate x is a root of the gap
FURTHER = 1  # iterations of the first attempt after its answer is good enough, since another attempt takes many
FINEST = 1e-15  # tolerance below which rounding decides
RAY = 1e-12  # tolerance of a ray; with 1e-8, its default, Clarabel calls feasible problems infeasible

DENSE_ROW = 15.0  # entries of a row, as a part of √n, from which Clarabel does not order it with the others
PANELS = 200  # flops per entry of L from which Clarabel's other factorisation, by dense panels, is faster
ITERATIONS, MOST_ITERATIONS = 20, 100  # iterations that Clarabel usually takes, and the most in one attempt
MOST_ENTRIES = 1 << 26  # entries of the data above which they are not converted

# Clarabel's words for how an attempt ended, in ours; any other means that it stalled
OUTCOMES = {
    "Solved": "optimal",
    "PrimalInfeasible": "infeasible",
    "DualInfeasible": "unbounded",
    "MaxTime": "time_limit",
    "MaxIterations": "iteration_limit",
}

# Settings tried in turn until the answer is good. Steps that solve their equations as a regularised factorisation does,
# without refinement, take a sixth less time, and longer steps are fewer; where there is one step only, it is refined.
# Regularised, the LISWET problems stall; scaled, QSIERRA does.
ONE_STEP: dict[str, Any] = {"iterative_refinement_reltol": 1e-8, "iterative_refinement_abstol": 1e-8}
WITHOUT_CONES: tuple[dict[str, Any], ...] = (
    {"iterative_refinement_enable": False, "max_step_fraction": 0.999},
    {"static_regularization_enable": False, "tol_gap_rel": FINEST},
    {"equilibrate_enable": False, "tol_gap_rel": FINEST},
)
# Near the boundary of a second-order cone, full steps end at about the root of the rounding.
WITH_CONES: tuple[dict[str, Any], ...] = ({}, {"max_step_fraction": 0.9, "tol_gap_rel": FINEST})


class Answer(NamedTuple):
    """What Clarabel says, in the problem's own x and y; whether it is true, the certificate decides."""

    x: Array
    y: Array
    status: str
    iterations: int
    ray: Array | None  # in y if infeasible, in x if unbounded; to Clarabel's accuracy


def is_installed() -> bool:
    """Whether Clarabel is installed."""
    return importlib.util.find_spec("clarabel") is not None


def least_seconds(problem: Problem, entries: int) -> float:
    """Seconds that `solve` takes at least, if the factor has no more entries than the matrices."""
    rows = problem.rows if problem.lower is None else problem.rows + problem.columns
    once = CLARABEL.unknown * (problem.columns + 2 * rows) + CLARABEL.entry * entries
    return CLARABEL.call + _usual_iterations(problem) * once


def _usual_iterations(problem: Problem) -> int:
    """One for a quadratic f under equations: the first system that Clarabel solves is the whole problem."""
    return 1 if problem.lower is None and problem.phi.is_linear and problem.f.is_quadratic else ITERATIONS


class Forecast(NamedTuple):
    """What `solve` is expected to do."""

    seconds: float
    by_columns: bool  # whether qdldl, which factorises column by column, is expected to be the faster of its two


def predict(problem: Problem, limit: float = math.inf, *, form: Conic | None = None) -> Forecast | None:
    """What `solve` will take, from the symbolic cost of its factorisation; None if there is no conic form.

    Infinite if the factorisations alone take more than `limit`, or if the data are too many to try. `form` saves the
    conversion.
    """
    count = entries_of(problem)
    if count is None:
        return None
    iterations = _usual_iterations(problem)
    if count > MOST_ENTRIES or count * CLARABEL.entry * iterations > limit:
        return Forecast(math.inf, False)
    form = form or conic(problem)
    if form is None:
        return None
    kkt = form.kkt()
    found = cost(kkt, limit / (iterations * CLARABEL.flop_in_panels), fill_limit=limit / (iterations * CLARABEL.entry))
    by_columns = found.flops < PANELS * found.fill
    per_flop = CLARABEL.flop if by_columns else CLARABEL.flop_in_panels
    once = CLARABEL.unknown * kkt.shape[0] + CLARABEL.entry * found.fill + per_flop * found.flops
    return Forecast(CLARABEL.call + _ordering(kkt) + iterations * once if found.complete else math.inf, by_columns)


def _ordering(kkt: Any) -> float:
    """Seconds that Clarabel takes to order the unknowns; it sets rows with very many entries apart."""
    size = kkt.shape[0]
    degrees = np.diff(kkt.indptr) + np.bincount(kkt.indices, minlength=size).astype(np.float64)
    return CLARABEL.ordering * float(np.sum(degrees[degrees < DENSE_ROW * math.sqrt(size)] ** 2))


def attempts(
    problem: Problem,
    *,
    tol: float = 1e-9,
    tol_absolute: float = 0.0,
    deadline: float = math.inf,
    max_iterations: int = 300,
    form: Conic | None = None,
    by_columns: bool = False,
) -> Iterator[Answer]:
    """Solve with Clarabel, and again with other settings for as long as another answer is asked for.

    Parameters
    ----------
    problem : Problem
        With a conic form.
    tol, tol_absolute : float
        What the certificate should meet, relative and absolute; 0 is no tolerance.
    deadline : float
        A value of `dapd.machine.clock.perf_counter()`, looked at once per iteration.
    max_iterations : int
        Factorisations in all attempts.
    form : Conic, optional
        `conic(problem)`, if it is known already.
    by_columns : bool
        Factorise with qdldl; by default Clarabel chooses.

    Yields
    ------
    Answer
        Of each attempt, not checked here. If it is infeasible or unbounded, it has the ray, and x and y are zero.
    """
    form = form or conic(problem)
    if form is None:
        raise TypeError("the problem has no conic form; it needs a quadratic f, rows, boxes or balls, an explicit M")
    chosen = {"direct_solve_method": "qdldl"} if by_columns else {}
    iterations = 0
    for changes in _settings_in_turn(form):
        left = max_iterations - iterations, seconds_left(deadline)
        found = _attempt(problem, form, (tol, tol_absolute), *left, changes | chosen)
        iterations += found.iterations
        yield found
        if iterations >= max_iterations or is_over(deadline):
            return


def _settings_in_turn(form: Conic) -> tuple[dict[str, Any], ...]:
    if form.cones.size:
        return WITH_CONES
    return WITHOUT_CONES if form.nonnegative else (ONE_STEP, *WITHOUT_CONES[1:])


def _attempt(
    problem: Problem, form: Conic, tolerances: tuple[float, float], limit: int, seconds: float, changes: dict[str, Any]
) -> Answer:
    import clarabel

    cones = [clarabel.ZeroConeT(form.zeros)] if form.zeros else []
    cones += [clarabel.NonnegativeConeT(form.nonnegative)] if form.nonnegative else []
    cones += [clarabel.SecondOrderConeT(int(size)) for size in form.cones]
    residual, absolute = _residual(form, *tolerances), FRACTION * tolerances[1]
    decides = "tol_gap_rel" not in changes  # `_Enough`, and not Clarabel, when the gap is small
    settings = clarabel.DefaultSettings()
    chosen = {
        "verbose": False,
        "tol_infeas_rel": RAY,
        "tol_infeas_abs": RAY,
        "tol_feas": residual,
        "tol_gap_rel": FINEST,
        "tol_gap_abs": 0.0 if decides else absolute,
        "max_iter": min(limit, MOST_ITERATIONS),
        "time_limit": max(seconds, 0.0),
    }
    for name, value in (chosen | changes).items():
        setattr(settings, name, value)
    solver = clarabel.DefaultSolver(form.P, form.q, form.G, form.h, cones, settings)
    if decides:
        solver.set_termination_callback(_Enough(residual, max(GAP_MARGIN * tolerances[0], FINEST), absolute))
    found = solver.solve()
    outcome, v, u = OUTCOMES.get(str(found.status), "stalled"), np.array(found.x), np.array(found.z)
    x, y, ray = v[: problem.columns], np.zeros(len(form.offset)), None
    if outcome in ("infeasible", "unbounded"):
        x, ray = np.zeros(problem.columns), form.dual_ray(u) if outcome == "infeasible" else x
    else:
        y = _in_domain(problem, form.y(u))
    return Answer(x, y, outcome, int(found.iterations), ray)


def _residual(form: Conic, tol: float, tol_absolute: float) -> float:
    """The residuals that Clarabel should reach, in its norm; the certificate may meet either tolerance."""
    if tol_absolute:
        size = max(1.0, float(np.max(abs(form.h), initial=0.0)), float(np.max(abs(form.q), initial=0.0)))
        tol = max(tol, tol_absolute / size)
    return max(FRACTION * tol, FINEST)


def _in_domain(problem: Problem, dual: Array) -> Array:
    """The nearest multipliers of rows at which φ is finite, and of bounds that are there."""
    y = problem.phi.project(dual[: problem.rows])
    if problem.lower is None or problem.upper is None:
        return y
    low, high = np.where(np.isinf(problem.lower), 0.0, -np.inf), np.where(np.isinf(problem.upper), 0.0, np.inf)
    return np.concatenate([y, np.clip(dual[problem.rows :], low, high)])


class _Enough:
    """Ends an attempt soon after Clarabel's residuals and gap met what usually suffices."""

    def __init__(self, residual: float, gap: float, gap_absolute: float) -> None:
        self.residual, self.gap, self.gap_absolute, self.last = residual, gap, gap_absolute, math.inf
        self.cancellation = cancellation()

    def __call__(self, info: Any) -> bool:
        """Whether to stop; each iteration may give another digit or two of the multipliers."""
        small = info.gap_rel < self.gap or info.gap_abs < self.gap_absolute
        if self.last == math.inf and small and max(info.res_primal, info.res_dual) < self.residual:
            self.last = info.iterations + FURTHER
        return bool(info.iterations >= self.last) or (self.cancellation is not None and self.cancellation.asked)


class Clarabel(Candidate):
    """Clarabel's interior point."""

    is_steady = finds_rays = True

    name, title = "clarabel", "Clarabel"
    needs = "the problem has no conic form: it needs a quadratic f, rows, boxes or balls, and an explicit M"

    @classmethod
    def why_not(cls, asked: Asked) -> str:
        if not asked.direct:
            return "direct=False"
        return super().why_not(asked) or ("" if is_installed() else "clarabel is not installed")

    def __init__(self, asked: Asked) -> None:
        super().__init__(asked)
        self.form: Conic | None = None
        self.seconds: float | None = None
        self.by_columns, self.limit = False, 0.0
        self.attempted: float | None = None  # seconds of the last attempt
        count = entries_of(self.problem)
        if count is not None:
            least = least_seconds(self.problem, count)
            if least < TRIVIAL:  # the symbolic cost takes longer than it can save
                self.form, self.limit = conic(self.problem), TRIVIAL
                self.seconds = None if self.form is None else least
            else:
                self.limit, self.seconds = asked.reliable_limit(), math.inf
                if least < self.limit:
                    self._predict()
        if self.seconds is not None:
            self.why = f"predicted to take {self.estimate():.2g} s by the size of its factorisation"

    def _predict(self) -> None:
        """By the symbolic cost of a factorisation, up to the limit of all of them."""
        self.form = self.form or conic(self.problem)
        found = predict(self.problem, self.limit, form=self.form)
        self.seconds, self.by_columns = (None, False) if found is None else found

    @property
    def ran(self) -> Engine:
        return RAN if load() else RAN_ALONE

    def estimate(self) -> float:
        """From the symbolic cost of its factorisation."""
        if self.seconds is None:
            return math.inf
        return self.seconds if math.isfinite(self.seconds) else UNKNOWN * self.limit

    def expected(self) -> float:
        return super().expected() if self.attempted is None else self.attempted

    def start(self) -> Iterator[Progress]:
        """Attempt after attempt, as soon as it is known how long the first one takes."""
        search = self.search
        while self.seconds == math.inf and self.limit < FAR_AHEAD:
            self.limit *= AHEAD
            self._predict()
            yield Progress()
        self.form = self.form or conic(self.problem)
        if self.form is None:
            self.seconds = None
            return
        began = perf_counter()
        for answer in attempts(
            self.problem,
            tol=search.tolerances[0],
            tol_absolute=search.tolerances[1],
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
            yield Progress(partial(Moved, *rays.get(answer.status, (None, None))))
        self.seconds = self.attempted = None  # it will not do better
