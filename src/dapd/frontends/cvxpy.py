"""CVXPY: prob.solve(solver=dapd.cvxpy.DAPD()), or solver="DAPD" after dapd.cvxpy.register()."""

from __future__ import annotations

from typing import Any, NamedTuple

import cvxpy.settings as s
import numpy as np
import scipy.sparse as sp
from cvxpy.constraints import PSD, SOC, ExpCone, NonNeg, NonPos, PowCone3D, PowConeND, Zero
from cvxpy.error import SolverError
from cvxpy.reductions.solution import Solution, failure_solution
from cvxpy.reductions.solvers import defines
from cvxpy.reductions.solvers.qp_solvers.qp_solver import QpSolver
from cvxpy.reductions.solvers.utilities import extract_dual_value, get_dual_values

from dapd import Interval, Result, Solver, Status
from dapd.arrays import Array
from dapd.frontends.rows import as_limits
from dapd.problems.quadratic import qp

TOL = 1e-8  # as tight as CVXPY's other accurate solvers; pass tol= to change it
NEARLY = 1e-4  # up to this relative error, an answer that rounding or Ctrl-C stopped counts as inaccurate

FOR_CVXPY = ("use_quad_obj",)  # options that CVXPY reads itself

STATUSES = {
    Status.optimal: s.OPTIMAL,
    Status.iteration_limit: s.USER_LIMIT,
    Status.time_limit: s.USER_LIMIT,
    Status.infeasible: s.INFEASIBLE,
    Status.unbounded: s.UNBOUNDED,
}

ROWS = {Zero, NonNeg, NonPos}  # cones that are rows of a QP
CONES = {
    SOC: "second-order cones (norms that are not squared, quadratic constraints)",
    ExpCone: "exponential cones (exp, log, entropies, logistic losses)",
    PSD: "semidefinite matrices",
    PowCone3D: "power cones",
    PowConeND: "power cones",
}
WITHOUT_CVXPY = {  # what dapd itself has for some of them
    SOC: ", or dapd.Problem, where sums of norms are dapd.GroupBall",
    ExpCone: ", or dapd.Problem, where smooth functions are dapd.Logistic or dapd.Smooth",
}

CITATION = """@article{LiGrigas2026,
  author = {Meng Li and Paul Grigas},
  title = {Direct Spectral Acceleration of First-Order Methods for Saddle Point Problems with Bilinear Coupling},
  year = {2026}
}"""


class Model(NamedTuple):
    """½xᵀPx + qᵀx subject to lower ≤ Mx ≤ upper and least ≤ x ≤ most, from the rows Ax = b and Fx ≤ g.

    The rows of F with one entry are bounds; of several for one bound, the tightest has its multiplier.
    """

    P: Any
    q: Array
    M: Any
    lower: Array
    upper: Array
    least: Array
    most: Array
    kept: Array  # which rows of A and F are in M
    bounding: Array  # rows of A and F that are bounds
    variables: Array  # whose bounds
    entries: Array  # of these rows: positive for an upper bound, negative for a lower one

    def duals(self, y: Array, z: Array) -> Array:
        """The multipliers of all rows of A and F, from those of M and of the bounds."""
        found = np.zeros(self.kept.size)
        found[self.kept] = y
        found[self.bounding] = np.maximum(z[self.variables] * np.sign(self.entries), 0) / abs(self.entries)
        return found


class CvxpyAnswer(NamedTuple):
    """What the solver hands over to CVXPY."""

    status: str
    x: Array
    value: float  # ½xᵀPx + qᵀx, finite even if x breaks a constraint
    duals: Array  # of the rows, or the proof that there is no x
    attributes: dict[str, Any]


class DAPD(QpSolver):  # type: ignore[misc]  # CVXPY has no types
    """Solves every problem that CVXPY can write as a QP. Options of `prob.solve` are those of `dapd.solve`.

    `prob.solver_stats.extra_stats` is the `dapd.Result`. While only parameters change, the set-up and the last answer
    are used again, unless `warm_start=False`.
    """

    # CVXPY 1.9.3 may give false bounds on its auxiliary variables to a solver that takes bounds: the range of Xw for a
    # free w is nan there, since 0·inf is, and a multiple of it 0. So bounds come as rows, and become bounds again here.
    BOUNDED_VARIABLES = False

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

    def can_solve(self, problem_form: Any) -> bool:
        """True for a QP; for anything else a SolverError says what is not one, and what to do."""
        if problem_form.is_mixed_integer():
            raise SolverError("DAPD solves convex problems, but some variables are integer; use cp.HIGHS or cp.SCIP")
        if super().can_solve(problem_form):
            return True
        cones = problem_form.cones(quad_obj=problem_form.has_quadratic_objective()) - ROWS
        found = " and ".join(sorted({CONES.get(cone, cone.__name__) for cone in cones}))
        more = "".join(WITHOUT_CVXPY.get(cone, "") for cone in cones) if len(cones) == 1 else ""
        raise SolverError(
            f"DAPD solves what CVXPY can write as a QP, but this problem has {found}; use cp.CLARABEL or cp.SCS{more}"
        )

    def cite(self, data: Any) -> str:
        """The paper, as BibTeX."""
        return CITATION

    def solve_via_data(
        self, data: Any, warm_start: bool, verbose: bool, solver_opts: dict[str, Any], solver_cache: Any = None
    ) -> CvxpyAnswer:
        """Solve ½xᵀPx + qᵀx subject to Ax = b and Fx ≤ g."""
        model = _model(data)
        if np.any(model.least > model.most):
            return _contradiction(model)
        cache: dict[str, Any] = {} if solver_cache is None else solver_cache
        known: tuple[Solver, Model] | None = cache.get(self.name()) if warm_start else None
        if known is not None and _update(*known, model):
            solver = known[0]
        else:
            solver = Solver(qp(model.P, model.q, model.M, model.lower, model.upper, model.least, model.most))
        cache[self.name()] = solver, model
        options = {name: value for name, value in solver_opts.items() if name not in FOR_CVXPY}
        result = solver.solve(**{"tol": TOL, "progress": verbose, **options})
        attributes = {
            s.SOLVE_TIME: result.solve_time,
            s.SETUP_TIME: result.setup_time,
            s.NUM_ITERS: result.iterations,
            s.EXTRA_STATS: result,
        }
        y, z = (result.y, result.z) if result.status != Status.infeasible else (result.ray, -(result.ray @ model.M))
        return CvxpyAnswer(_status(result), result.x, solver.problem.f.value(result.x), model.duals(y, z), attributes)

    def invert(self, solution: CvxpyAnswer, inverse_data: Any) -> Solution:
        """CVXPY's solution."""
        status, attributes = solution.status, solution.attributes
        if status == s.INFEASIBLE:
            return failure_solution(status, attributes, _by_constraint(solution.duals, inverse_data))
        if status not in s.SOLUTION_PRESENT:
            return failure_solution(status, attributes)
        value, primal = solution.value + inverse_data[s.OFFSET], {self.VAR_ID: solution.x}
        return Solution(status, value, primal, _by_constraint(solution.duals, inverse_data), attributes)


def register() -> None:
    """Make "DAPD" a solver of CVXPY: prob.solve(solver="DAPD")."""
    defines.SOLVER_MAP_QP[DAPD().name()] = DAPD()


def _status(result: Result) -> Any:
    if result.status in STATUSES:
        return STATUSES[result.status]
    return s.OPTIMAL_INACCURATE if result.certificate.error <= NEARLY else s.SOLVER_ERROR


def _by_constraint(duals: Array, inverse_data: Any) -> dict[int, Any]:
    """The multipliers by constraint: equations first, then inequalities."""
    equations = inverse_data[QpSolver.DIMS].zero
    return {
        **get_dual_values(duals[:equations], extract_dual_value, inverse_data[QpSolver.EQ_CONSTR]),
        **get_dual_values(duals[equations:], extract_dual_value, inverse_data[QpSolver.NEQ_CONSTR]),
    }


def _model(data: Any) -> Model:
    F, g, equations, size = sp.csr_array(data[s.F]), as_limits("g", data[s.G]), data[s.A].shape[0], data[s.Q].size
    single = np.flatnonzero(np.diff(F.indptr) == 1)
    single = single[F.data[F.indptr[single]] != 0]
    variables, entries = F.indices[F.indptr[single]], F.data[F.indptr[single]]
    limits, above = g[single] / entries, entries > 0
    least, most = np.full(size, -np.inf), np.full(size, np.inf)
    np.maximum.at(least, variables[~above], limits[~above])
    np.minimum.at(most, variables[above], limits[above])
    tight = np.flatnonzero(limits == np.where(above, most[variables], least[variables]))
    first = tight[np.unique(2 * variables[tight] + above[tight], return_index=True)[1]]
    kept = np.full(equations + F.shape[0], True)
    kept[equations + single] = False
    rows = kept[equations:]
    return Model(
        data[s.P],
        data[s.Q],
        sp.vstack([data[s.A], F[rows]], format="csr"),
        np.concatenate([data[s.B], np.full(int(rows.sum()), -np.inf)]),
        np.concatenate([data[s.B], g[rows]]),
        least,
        most,
        kept,
        equations + single[first],
        variables[first],
        entries[first],
    )


def _contradiction(model: Model) -> CvxpyAnswer:
    """The sum of two rows that are contradicting bounds of one variable is the proof."""
    apart = (model.least > model.most)[model.variables]
    proof = np.zeros(model.kept.size)
    proof[model.bounding[apart]] = 1 / abs(model.entries[apart])
    return CvxpyAnswer(s.INFEASIBLE, model.least, np.inf, proof, {})


def _update(solver: Solver, old: Model, new: Model) -> bool:
    """Give the solver what changed; False if the shapes did."""
    if old.P.shape != new.P.shape or old.M.shape != new.M.shape:
        return False
    changes: dict[str, Any] = {}
    if not np.array_equal(old.q, new.q):
        changes["c"] = -new.q
    if _differ(old.P, new.P):
        changes["H"] = new.P
    if _differ(old.M, new.M):
        changes["M"] = new.M
    if not (np.array_equal(old.lower, new.lower) and np.array_equal(old.upper, new.upper)):
        changes["phi"] = Interval(new.lower, new.upper)
    if not (np.array_equal(old.least, new.least) and np.array_equal(old.most, new.most)):
        changes["bounds"] = new.least, new.most
    solver.update(**changes)
    return True


def _differ(old: Any, new: Any) -> bool:
    return old.nnz != new.nnz or bool((old != new).nnz)
