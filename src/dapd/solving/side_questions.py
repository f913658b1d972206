"""Infeasibility and unboundedness tests of a slow search.

The answers are directions, which the race then checks. Contradictions are found by SciPy's linear programming (HiGHS).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from dapd.arrays import Array, on_host
from dapd.certificate.rays import NEARLY, nearly_feasible, proves_infeasible, row_terms
from dapd.functions import Quadratic
from dapd.kinds.base import is_own
from dapd.kinds.by_rows import Zero
from dapd.kinds.composed import Stack
from dapd.machine.clock import perf_counter, seconds_left
from dapd.machine.rates import LINEAR_PROGRAM
from dapd.newton.matrices import NotExplicit, TooExpensive, explicit
from dapd.newton.parts import quadratic
from dapd.presolve.maps import scaled_map, stacked_maps
from dapd.problem import ask
from dapd.problem.problem import Problem
from dapd.problem.sizes import usual
from dapd.solving.race import Settled
from dapd.ways.base import Moved
from dapd.ways.search import OnHost, Search

SLOW = 4  # steps of progress that do not halve the error before an infeasibility test
AFTER = 0.1  # seconds after which a test that takes a solve of its own may begin
AFTER_ON_DEVICE = 1.0  # the same on a device, whose solves take longer to set up than most take in all
SHARE, LATER = 0.25, 4  # part of the time so far that such a test may take, and factor of the time to the next one
WAIT = 0.3  # seconds after which a test that usually takes much less may begin
ACCURACY = 1e-6  # relative error of the solves of tests
WIDEST = 1e30  # greatest ratio of weights, which float32 can hold
FEASIBILITY = 0.1 * NEARLY  # violation of a row, relative to its usual terms, of a point that is to be feasible
MOST_ENTRIES, PROBED_ENTRIES = 1 << 22, 1 << 19  # most entries of a matrix, and of one that is found by products
PRODUCT_SECONDS = 0.1  # seconds that products may take, if they are needed to find the entries of M
EXACT = 1e-9  # violation of a row in its usual terms up to which it counts as satisfied

RunSearch = Callable[[Search, tuple[Array, Array]], Array | None]  # runs a search; a Farkas ray if that is how it ends


class Least(NamedTuple):
    """The least that rows must be violated, all in all."""

    x: Array  # that violates them so
    ray: Array  # the multipliers of the rows: a Farkas ray if no x satisfies all of them


class SideQuestions:
    """The tests of one search, each repeated until it has an answer."""

    def __init__(self, search: Search, start: tuple[Array, Array], solve: RunSearch) -> None:
        self.search, self.start, self.solve = search, start, solve
        self.slow = 0
        self.least: Least | None = None
        self.least_at = 0.0  # seconds after which to ask for it
        after = AFTER if isinstance(search.judging, OnHost) else AFTER_ON_DEVICE
        self.descent_at = np.inf if search.problem.f.mu > 0 else after
        self.feasibility_at = 0.0

    def ask(self, *, descent: bool) -> Moved:
        """After some progress that did not halve the error: a direction that may be a ray, of x if `descent`."""
        self.slow += 1
        if self.slow < SLOW:
            return Moved()
        elapsed = perf_counter() - self.search.began
        if not self.least_at:
            self.least_at = WAIT + violation_seconds(self.search.problem) / SHARE
        if elapsed >= self.least_at and self.least is None:
            self._violate_least(elapsed)
            return Moved() if self.least is None else Moved(dy=self.least.ray)
        if elapsed >= self.descent_at and descent:
            self.descent_at = LATER * elapsed
            return Moved(self._descent())
        return Moved()

    def _violate_least(self, elapsed: float) -> None:
        """Find the x that violates rows least, in a part of the time so far."""
        self.least_at = LATER * elapsed
        left = seconds_left(self.search.deadline)
        if left > WAIT:
            self.least = least_violation(self.search.problem, min(left, max(WAIT, SHARE * elapsed)))

    def _descent(self) -> Array | None:
        problem = descent_problem(self.search.problem)
        if problem is None:
            self.descent_at = np.inf
            return None
        other = self._search(problem)
        self._run(other, (np.zeros(problem.columns), np.zeros(problem.multipliers)))
        if other.done:
            self.descent_at = np.inf
        return usual(self.search.problem).columns * on_host(other.point.x)

    def feasibility(self, *, last: bool = False) -> Settled | None:
        """Whether any x satisfies the constraints, if the objective falls along a ray; None if that takes too long.

        It does not depend on f, so f is replaced by a multiple of ‖x − x₀‖², in the units of the data, with which
        every feasible problem has a solution, if a linear program has not said it before. There is no limit of its own
        on what the `last` answer may take.
        """
        given, point = self.search.problem, self.search.point.x
        if nearly_feasible(given, point):
            return Settled(None, point)
        elapsed = perf_counter() - self.search.began
        if not (last or elapsed >= self.feasibility_at):
            return None
        self.feasibility_at = LATER * elapsed
        if self.least is None and violation_seconds(given) <= max(AFTER, SHARE * elapsed):
            self._violate_least(elapsed)
        if self.least is not None:
            ray = proves_infeasible(given, self.least.x, self.least.ray, self.search.deadline)
            if ray is not None:
                return Settled(ray, None)
            if nearly_feasible(given, self.least.x):
                return Settled(None, self.least.x)
        weights = 1 / usual(given).columns ** 2
        weights = np.clip(weights / np.exp(np.mean(np.log(weights))), 1 / WIDEST, WIDEST)
        curvature = weights.astype(given.dtype)
        problem = given.replaced(f=Quadratic(curvature, curvature * self.start[0]))
        other = self._search(problem, FEASIBILITY, np.inf if last else 0.0)
        ray = self._run(other, self.start)
        if ray is not None:
            return Settled(ray, None)
        return Settled(None, other.point.x) if nearly_feasible(given, other.point.x) else None

    def _search(self, problem: Problem, accuracy: float = ACCURACY, seconds: float = 0.0) -> Search:
        search = self.search
        end = perf_counter() + max(AFTER, SHARE * (perf_counter() - search.began), seconds)
        allowed = max(1, search.limit - search.iterations)
        return Search(problem, (accuracy, 0.0), allowed, min(search.deadline, end), None)

    def _run(self, other: Search, start: tuple[Array, Array]) -> Array | None:
        ray = self.solve(other, start)
        self.search.iterations += other.iterations
        self.search.gradients += other.gradients
        self.search.products += other.products
        return ray


def descent_problem(problem: Problem) -> Problem | None:
    """The problem whose solution is the steepest ray of x in its usual sizes c, or zero if there is none.

    It is min ½‖v̂‖² + (∇f(0)ᵀv + φ*∞(Mv))/u over the v = c·v̂ along which f does not bend and no bound is met, with
    u = max_j |∇f_j(0)|c_j. φ*∞ is the support function of dom φ. None if f is not quadratic.
    """
    columns = usual(problem).columns
    slope = columns * np.asarray(ask.gradient(problem.f, np.zeros(problem.columns)), np.float64)
    size = float(np.max(abs(slope), initial=0.0)) or 1.0
    table = problem.phi_table
    if table is None or quadratic(problem) is None:
        return None
    phi = table.domain(size)
    maps = [scaled_map(problem.M, np.ones(problem.rows), columns)] if problem.rows else []
    curved = [one for one in problem.f.curved_maps(problem.columns) if np.any(one.row_norms)]
    for one in curved:
        sizes = row_terms(one, columns)
        maps.append(scaled_map(one, 1 / np.where(sizes > 0, sizes, 1.0), columns))
    M = stacked_maps(maps, problem.columns)
    if curved:
        phi = Stack([phi, Zero()], sizes=[problem.rows, M.shape[0] - problem.rows]) if problem.rows else Zero()
    bounds = None
    if problem.lower is not None and problem.upper is not None:
        bounds = np.where(np.isinf(problem.lower), -np.inf, 0.0), np.where(np.isinf(problem.upper), np.inf, 0.0)
    return Problem(Quadratic(np.ones(problem.columns), -slope / size), M, np.zeros(M.shape[0]), phi, bounds=bounds)


def violation_seconds(problem: Problem) -> float:
    """About what `least_violation` takes at least; inf if M is too large, or φ is only available in Python."""
    count = problem.M.entry_count
    if not problem.rows or not is_own(problem.phi, "prox"):
        return math.inf
    most = MOST_ENTRIES
    if count is None:
        count, most = problem.rows * problem.columns, PROBED_ENTRIES
    if count > most:
        return math.inf
    return LINEAR_PROGRAM.entry * count + LINEAR_PROGRAM.unknown * (problem.rows + problem.columns)


def least_violation(problem: Problem, limit: float) -> Least | None:
    """The least Σ r_i·dist(M_i x − b_i, dom φ*_i) within the bounds; None if it is not found in `limit` seconds.

    r are the factors of the rows in the units of the data. Rows in groups take no part.
    """
    from scipy.optimize import linprog  # slow to import, and rarely needed

    rows = problem.phi_table
    if rows is None or not limit > 0:
        return None
    try:
        M = explicit(problem.M, PRODUCT_SECONDS)
    except (NotExplicit, TooExpensive, TypeError, ValueError):
        return None
    units = usual(problem)
    (low, high), (least, most) = rows.of_residual, rows.of_dual
    lower = np.where(~rows.grouped & (least == -np.inf), low, -np.inf)
    upper = np.where(~rows.grouped & (most == np.inf), high, np.inf)
    kept = np.flatnonzero(np.isfinite(lower) | np.isfinite(upper))
    if not kept.size:
        return None
    # Mx − b = z + above − below in the units of the data, with lower ≤ z ≤ upper
    r, sizes, one = units.rows[kept], units.xi * units.columns, sp.eye_array(kept.size)
    scaled = sp.diags_array(r / units.xi) @ sp.csr_array(M)[kept] @ sp.diags_array(sizes)
    ends = np.concatenate([side / sizes for side in problem.bounds]).reshape(2, -1)
    intervals = np.stack([lower[kept], upper[kept]]) * r / units.xi
    slack = np.stack([np.zeros(2 * kept.size), np.full(2 * kept.size, np.inf)])
    found = linprog(
        np.concatenate([np.zeros(problem.columns + kept.size), np.ones(2 * kept.size)]),
        A_eq=sp.hstack([scaled, -one, -one, one], format="csc"),
        b_eq=problem.b[kept].astype(np.float64) * r / units.xi,
        bounds=np.concatenate([ends, intervals, slack], axis=1).T,
        method="highs",
        options={"time_limit": limit, "primal_feasibility_tolerance": EXACT, "dual_feasibility_tolerance": EXACT},
    )
    if found.status != 0:
        return None
    ray = np.zeros(problem.rows)
    ray[kept] = -found.eqlin.marginals * r
    return Least(sizes * found.x[: problem.columns], ray)
