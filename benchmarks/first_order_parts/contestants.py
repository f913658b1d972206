"""First-order solvers under the same terms: a case, a tolerance, a time limit and a setting of their own.

Each solver is asked for its own criterion at the tolerance; `contest.py` judges the answer, and asks for more if it
must.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

import dapd
from dapd.engines.native.threads import available
from first_order_parts.instances import dapd_problem
from first_order_parts.judges import Judge, absolute
from peers.case import Attempt, Case
from peers.conic import Answer
from peers.solvers import MANY, OneSided
from peers.with_dapd import known_options


class Goal(NamedTuple):
    """What an answer must reach."""

    tol: float
    judge: Judge

    @property
    def relative(self) -> float:
        """The relative tolerance to ask for beside the absolute one: none if the judge is absolute."""
        return 0.0 if self.judge is absolute else self.tol


Run = Callable[[Case, Goal, float, dict[str, Any]], Attempt]  # case, goal, time limit, setting


class Contestant(NamedTuple):
    """A solver, what must be installed for it, and the settings of which the best counts."""

    module: str
    run: Run
    applies: Callable[[Case], bool]
    settings: tuple[dict[str, Any], ...] = ({},)
    for_lps: tuple[dict[str, Any], ...] = ()  # other settings, which only linear programs have

    @property
    def installed(self) -> bool:
        """Whether its package can be imported."""
        return find_spec(self.module) is not None

    def settings_for(self, case: Case) -> list[dict[str, Any]]:
        """The settings to try; none if the solver does not take the case."""
        if not self.applies(case):
            return []
        return [*self.settings, *(self.for_lps if linear(case) else ())]


def anything(case: Case) -> bool:
    return True


def without_cones(case: Case) -> bool:
    return not case.qp.cones


def linear(case: Case) -> bool:
    return without_cones(case) and case.qp.P.nnz == 0


def diagonal(case: Case) -> bool:
    """Whether there are no cones, and P has no entry off the diagonal."""
    return without_cones(case) and (case.qp.P - sp.diags_array(case.qp.P.diagonal())).count_nonzero() == 0


def first_order(case: Case, limit: float, **options: Any) -> tuple[Any, Answer, float]:
    """First-order steps alone; the problem is built outside the time, as the peers' data are."""
    problem = dapd_problem(case.model)
    began = perf_counter()
    found = dapd.solve(problem, engine="native", direct=False, time_limit=limit, max_iterations=MANY, **options)
    seconds = perf_counter() - began
    return found, lifted(case, found), seconds


def lifted(case: Case, point: Any) -> Answer:
    """The x, y and z of a result, or of what a callback receives, as an answer of the conic form."""
    return case.canonical.lift(point.x, point.y, np.zeros(len(point.x)) if point.z is None else point.z)


def by_dapd(case: Case, goal: Goal, limit: float, setting: dict[str, Any]) -> Attempt:
    """Until the package's own certificate meets the tolerance."""
    tolerances = {"tol": goal.relative} if goal.relative else {"tol": 0.0, "tol_absolute": goal.tol}
    found, answer, seconds = first_order(case, limit, **tolerances, **setting)
    return Attempt(answer, seconds, found.converged, str(found.status), found.iterations)


def by_dapd_until_judged(case: Case, goal: Goal, limit: float, setting: dict[str, Any]) -> Attempt:
    """Until the judge accepts the point of a convergence check; the time of the judge counts too."""
    accepts = partial(accepted_by, case, goal)
    found, answer, seconds = first_order(case, limit, tol=FINEST, callback=accepts, **setting)
    return Attempt(answer, seconds, goal.judge(case, answer) <= goal.tol, str(found.status), found.iterations)


def accepted_by(case: Case, goal: Goal, point: Any) -> bool:
    """Whether a point reaches the goal."""
    return goal.judge(case, lifted(case, point)) <= goal.tol


def by_ortools(case: Case, goal: Goal, limit: float, setting: dict[str, Any]) -> Attempt:
    """OR-tools' PDLP."""
    from ortools.pdlp import solve_log_pb2, solvers_pb2
    from ortools.pdlp.python import pdlp

    qp, program, params = case.qp, pdlp.QuadraticProgram(), solvers_pb2.PrimalDualHybridGradientParams()
    program.objective_vector, program.constraint_matrix = qp.q, sp.csc_matrix(qp.A)
    program.variable_lower_bounds, program.variable_upper_bounds = qp.lower, qp.upper
    program.constraint_lower_bounds, program.constraint_upper_bounds = qp.l, qp.u
    if qp.P.nnz:
        program.set_objective_matrix_diagonal(qp.P.diagonal())
    params.num_threads = available()
    params.presolve_options.use_glop = setting.get("presolve", False)
    if setting.get("polishing", False):
        params.use_feasibility_polishing = True
        params.handle_some_primal_gradients_on_finite_bounds_as_residuals = False  # as polishing asks
    params.termination_criteria.time_sec_limit = limit
    criteria = params.termination_criteria.simple_optimality_criteria
    criteria.eps_optimal_absolute, criteria.eps_optimal_relative = goal.tol, goal.relative
    began = perf_counter()
    found = pdlp.primal_dual_hybrid_gradient(program, params)
    seconds = perf_counter() - began
    reason = solve_log_pb2.TerminationReason.Name(found.solve_log.termination_reason).removeprefix(
        "TERMINATION_REASON_"
    )
    answer = None
    if len(found.primal_solution) == len(qp.q):
        answer = Answer(found.primal_solution, -found.dual_solution, -found.reduced_costs, np.zeros(0))
    return Attempt(answer, seconds, reason == "OPTIMAL", reason.lower(), found.solve_log.iteration_count)


def by_highs(case: Case, goal: Goal, limit: float, setting: dict[str, Any]) -> Attempt:
    """HiGHS' PDLP, and its newer one with Halpern restarts (`hipdlp`)."""
    import highspy

    qp, model, inf = case.qp, highspy.HighsModel(), highspy.kHighsInf
    lp, A = model.lp_, sp.csc_matrix(qp.A)
    lp.num_col_, lp.num_row_, lp.col_cost_ = len(qp.q), len(qp.l), qp.q
    lp.col_lower_, lp.col_upper_ = np.maximum(qp.lower, -inf), np.minimum(qp.upper, inf)
    lp.row_lower_, lp.row_upper_ = np.maximum(qp.l, -inf), np.minimum(qp.u, inf)
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = A.indptr, A.indices, A.data
    work = highspy.Highs()
    options = {"solver": "pdlp", "pdlp_optimality_tolerance": max(goal.tol, 1e-10), "run_crossover": "off", **setting}
    for name, value in {"output_flag": False, "time_limit": limit, **options}.items():
        work.setOptionValue(name, value)
    began = perf_counter()
    work.passModel(model)
    work.run()
    seconds = perf_counter() - began
    found, status = work.getSolution(), work.getModelStatus()
    answer = None
    if found.value_valid and found.dual_valid:
        answer = Answer(np.array(found.col_value), -np.array(found.row_dual), -np.array(found.col_dual), np.zeros(0))
    name, iterations = work.modelStatusToString(status), work.getInfo().pdlp_iteration_count
    return Attempt(answer, seconds, status == highspy.HighsModelStatus.kOptimal, name, iterations)


def by_scs(case: Case, goal: Goal, limit: float, setting: dict[str, Any]) -> Attempt:
    """SCS, with its direct linear systems."""
    import scs

    qp, sides = case.qp, OneSided(case.qp)
    data = {
        "P": sp.csc_matrix(sp.triu(qp.P)),
        "A": sp.csc_matrix(sp.vstack([sides.E, sides.C, -qp.G])),
        "b": np.concatenate([sides.f, sides.d, qp.h]),
        "c": qp.q,
    }
    kinds = [kind for kind, _ in qp.cones]
    cone = {"z": len(sides.f), "l": len(sides.d), "q": [size for kind, size in qp.cones if kind == "second-order"]}
    cone["ep"] = kinds.count("exponential")
    tolerances = {"eps_abs": goal.tol, "eps_rel": goal.relative}
    began = perf_counter()
    work = scs.SCS(data, cone, time_limit_secs=limit, max_iters=MANY, verbose=False, **tolerances, **setting)
    found = work.solve()
    seconds = perf_counter() - began
    dual, info = found["y"], found["info"]
    answer = Answer(found["x"], **sides.multipliers(dual), w=dual[len(dual) - len(qp.h) :])
    return Attempt(answer, seconds, info["status"] == "solved", info["status"], info["iter"])


def by_osqp(case: Case, goal: Goal, limit: float, setting: dict[str, Any]) -> Attempt:
    """OSQP, with its direct linear systems."""
    import osqp

    qp = case.qp
    bounded = np.flatnonzero(np.isfinite(qp.lower) | np.isfinite(qp.upper))
    A = sp.csc_matrix(sp.vstack([qp.A, sp.eye_array(len(qp.q), format="csr")[bounded]]))
    lower, upper = np.r_[qp.l, qp.lower[bounded]], np.r_[qp.u, qp.upper[bounded]]
    tolerances = {"eps_abs": goal.tol, "eps_rel": goal.relative}
    P = sp.csc_matrix(sp.triu(qp.P))
    began = perf_counter()
    work = osqp.OSQP()
    work.setup(P, qp.q, A, lower, upper, max_iter=MANY, time_limit=limit, verbose=False, **tolerances, **setting)
    found = work.solve(raise_error=False)
    seconds = perf_counter() - began
    z = np.zeros(len(qp.q))
    z[bounded] = found.y[len(qp.l) :]
    answer = Answer(found.x, found.y[: len(qp.l)], z, np.zeros(0))
    return Attempt(answer, seconds, found.info.status == "solved", found.info.status, found.info.iter)


FINEST = 1e-13  # the tolerance of a run that an outside judge ends
HALPERN = {"solver": "hipdlp", "pdlp_restart_strategy": 3}
CONTESTANTS: dict[str, Contestant] = {
    "dapd": Contestant("dapd", by_dapd, anything),
    "dapd, objective": Contestant(
        "dapd", by_dapd, anything, tuple(filter(None, [known_options({"accuracy": "objective"})]))
    ),
    "dapd, until judged": Contestant("dapd", by_dapd_until_judged, anything),
    "OR-tools' PDLP": Contestant("ortools", by_ortools, diagonal, for_lps=({"presolve": True}, {"polishing": True})),
    "HiGHS' PDLP": Contestant("highspy", by_highs, linear, for_lps=({"presolve": "off"}, HALPERN)),
    "SCS": Contestant("scs", by_scs, anything, ({}, {"acceleration_lookback": 0})),
    "OSQP": Contestant("osqp", by_osqp, without_cones, ({}, {"polishing": True})),
}
