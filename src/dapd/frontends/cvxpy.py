"""CVXPY: prob.solve(solver=dapd.cvxpy.DAPD())."""

from __future__ import annotations

from typing import Any, NamedTuple

import cvxpy.settings as s
import numpy as np
import scipy.sparse as sp
from cvxpy.reductions.solution import Solution, failure_solution
from cvxpy.reductions.solvers.qp_solvers.qp_solver import QpSolver
from cvxpy.reductions.solvers.utilities import extract_dual_value, get_dual_values

from dapd.arrays import Array
from dapd.model.proximal import Interval
from dapd.problems.quadratic import qp
from dapd.solving.result import Result, Status
from dapd.solving.solver import Solver

TOL = 1e-8  # as tight as CVXPY's other accurate solvers; pass tol= to change it
NEARLY = (
    1e-4  # an answer stopped by rounding or Ctrl-C counts as inaccurate up to this relative error, then as an error
)

STATUSES = {
    Status.optimal: s.OPTIMAL,
    Status.iteration_limit: s.USER_LIMIT,
    Status.time_limit: s.USER_LIMIT,
    Status.infeasible: s.INFEASIBLE,
    Status.unbounded: s.UNBOUNDED,
}

CITATION = """@article{LiGrigas2026,
  author = {Meng Li and Paul Grigas},
  title = {Direct Spectral Acceleration of First-Order Methods for Saddle Point Problems with Bilinear Coupling},
  year = {2026}
}"""


class Answer(NamedTuple):
    """What the solver hands over to CVXPY."""

    result: Result | None  # None if a lower bound is above an upper one
    value: float  # ½xᵀPx + qᵀx, finite even if x breaks a constraint


class DAPD(QpSolver):  # type: ignore[misc]  # CVXPY has no types
    """Solves every problem that CVXPY can write as a QP. Options of `prob.solve` are those of `dapd.solve`.

    `prob.solver_stats.extra_stats` is the `dapd.Result`. While only parameters change, the set-up and the last answer
    are used again, unless `warm_start=False`.
    """

    BOUNDED_VARIABLES = True

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        # CVXPY keeps a compiled problem only for a solver that equals the last one
        return hash(type(self))

    def name(self) -> str:
        """The name in messages and in CVXPY's cache."""
        return "DAPD"

    def import_solver(self) -> None:
        """Nothing to import: this is dapd."""

    def cite(self, data: Any) -> str:
        """The paper, as BibTeX."""
        return CITATION

    def solve_via_data(
        self, data: Any, warm_start: bool, verbose: bool, solver_opts: dict[str, Any], solver_cache: Any = None
    ) -> Answer:
        """Solve ½xᵀPx + qᵀx subject to Ax = b, Fx ≤ g and bounds."""
        lower, upper = data[s.LOWER_BOUNDS], data[s.UPPER_BOUNDS]
        if lower is not None and upper is not None and np.any(lower > upper):
            return Answer(None, np.inf)
        cache = {} if solver_cache is None else solver_cache
        solver, old = cache.get(self.name(), (None, None)) if warm_start else (None, None)
        if solver is None or not _update(solver, old, data):
            solver = _solver(data)
        cache[self.name()] = solver, data
        result = solver.solve(**{"tol": TOL, "progress": verbose, **solver_opts})
        return Answer(result, solver.problem.f.value(result.x))

    def invert(self, solution: Answer, inverse_data: Any) -> Solution:
        """CVXPY's solution."""
        result = solution.result
        if result is None:
            return failure_solution(s.INFEASIBLE)
        attributes = {
            s.SOLVE_TIME: result.solve_time,
            s.SETUP_TIME: result.setup_time,
            s.NUM_ITERS: result.iterations,
            s.EXTRA_STATS: result,
        }
        status = STATUSES.get(result.status)
        if status is None:
            status = s.OPTIMAL_INACCURATE if result.certificate.error <= NEARLY else s.SOLVER_ERROR
        if status == s.INFEASIBLE:
            return failure_solution(status, attributes, _duals(result.ray, inverse_data))
        if status not in s.SOLUTION_PRESENT:
            return failure_solution(status, attributes)
        value = solution.value + inverse_data[s.OFFSET]
        return Solution(status, value, {self.VAR_ID: result.x}, _duals(result.y, inverse_data), attributes)


def _duals(y: Array, inverse_data: Any) -> dict[int, Any]:
    """The multipliers by constraint: equations first, then inequalities."""
    equations = inverse_data[QpSolver.DIMS].zero
    return {
        **get_dual_values(y[:equations], extract_dual_value, inverse_data[QpSolver.EQ_CONSTR]),
        **get_dual_values(y[equations:], extract_dual_value, inverse_data[QpSolver.NEQ_CONSTR]),
    }


def _rows(data: Any) -> Any:
    return sp.vstack([data[s.A], data[s.F]], format="csr")


def _limits(data: Any) -> tuple[Array, Array]:
    return np.concatenate([data[s.B], np.full(data[s.G].shape, -np.inf)]), np.concatenate([data[s.B], data[s.G]])


def _solver(data: Any) -> Solver:
    rows = _rows(data)
    lower, upper = _limits(data) if rows.shape[0] else (None, None)
    return Solver(qp(data[s.P], data[s.Q], rows, lower, upper, data[s.LOWER_BOUNDS], data[s.UPPER_BOUNDS]))


def _update(solver: Solver, old: Any, data: Any) -> bool:
    """Give the solver what changed; False if the shapes did."""
    if any(old[key].shape != data[key].shape for key in (s.P, s.A, s.F)):
        return False
    changes: dict[str, Any] = {}
    if not np.array_equal(old[s.Q], data[s.Q]):
        changes["c"] = -data[s.Q]
    if _differ(old[s.P], data[s.P]):
        changes["H"] = data[s.P]
    if _differ(old[s.A], data[s.A]) or _differ(old[s.F], data[s.F]):
        changes["M"] = _rows(data)
    if not (np.array_equal(old[s.B], data[s.B]) and np.array_equal(old[s.G], data[s.G])):
        changes["phi"] = Interval(*_limits(data))
    bounds = data[s.LOWER_BOUNDS], data[s.UPPER_BOUNDS]
    if not all(np.array_equal(a, b) for a, b in zip((old[s.LOWER_BOUNDS], old[s.UPPER_BOUNDS]), bounds, strict=True)):
        changes["bounds"] = bounds
    solver.update(**changes)
    return True


def _differ(old: Any, new: Any) -> bool:
    return old.nnz != new.nnz or bool((old != new).nnz)
