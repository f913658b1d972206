"""The QP and conic solvers that dapd is compared with. Tolerances are absolute, also on the gap."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np
import scipy.sparse as sp

from peers.case import Attempt, Case
from peers.conic import Answer, ConicQP

MANY = 1_000_000_000  # iterations: the time limit ends a run


class OneSided:
    """The rows and bounds of a QP as equations Ex = f and inequalities Cx ≤ d, and multipliers back."""

    def __init__(self, qp: ConicQP, *, bounds: bool = True) -> None:
        self.qp, n = qp, len(qp.q)
        one = sp.eye_array(n, format="csr")
        sources = [("y", sp.csr_array(qp.A), qp.l, qp.u)] + ([("z", one, qp.lower, qp.upper)] if bounds else [])
        equal, above, below = [], [], []
        for name, rows, lower, upper in sources:
            same = lower == upper
            equal.append((name, np.flatnonzero(same), rows, upper, 1.0))
            above.append((name, np.flatnonzero(~same & np.isfinite(upper)), rows, upper, 1.0))
            below.append((name, np.flatnonzero(~same & np.isfinite(lower)), rows, lower, -1.0))
        self._pieces = equal + above + below
        self.E, self.f = self._stacked(equal, n)
        self.C, self.d = self._stacked(above + below, n)

    def _stacked(self, pieces: list[Any], n: int) -> tuple[Any, Any]:
        matrices = [sign * rows[at] for _, at, rows, _, sign in pieces]
        return (
            sp.csc_matrix(sp.vstack([sp.csr_array((0, n)), *matrices])),
            np.concatenate([sign * values[at] for _, at, _, values, sign in pieces]),
        )

    def multipliers(self, dual: Any) -> dict[str, Any]:
        """The y and z of an Answer from the multipliers of (E, C)."""
        found = {"y": np.zeros(len(self.qp.l)), "z": np.zeros(len(self.qp.q))}
        start = 0
        for name, at, _, _, sign in self._pieces:
            found[name][at] += sign * dual[start : start + len(at)]
            start += len(at)
        return found


def clarabel(case: Case, tol: float, limit: float) -> Attempt:
    import clarabel as solver

    qp, sides = case.qp, OneSided(case.qp)
    A = sp.csc_matrix(sp.vstack([sides.E, sides.C, -qp.G]))
    b = np.concatenate([sides.f, sides.d, qp.h])
    cones = [solver.ZeroConeT(len(sides.f))] * (len(sides.f) > 0)
    cones += [solver.NonnegativeConeT(len(sides.d))] * (len(sides.d) > 0)
    cones += [
        solver.SecondOrderConeT(k) if kind == "second-order" else solver.ExponentialConeT() for kind, k in qp.cones
    ]
    settings = solver.DefaultSettings()
    settings.verbose, settings.time_limit = False, limit
    settings.tol_feas, settings.tol_gap_abs, settings.tol_gap_rel = tol, tol, 0.0
    P = sp.csc_matrix(sp.triu(qp.P))
    began = perf_counter()
    found = solver.DefaultSolver(P, qp.q, A, b, cones, settings).solve()
    seconds = perf_counter() - began
    dual = np.array(found.z)
    w = dual[len(dual) - len(qp.h) :]
    answer = Answer(np.array(found.x), **sides.multipliers(dual), w=w)
    return Attempt(answer, seconds, str(found.status) == "Solved", str(found.status), found.iterations)


def scs(case: Case, tol: float, limit: float) -> Attempt:
    import scs as solver

    qp, sides = case.qp, OneSided(case.qp)
    data = {
        "P": sp.csc_matrix(sp.triu(qp.P)),
        "A": sp.csc_matrix(sp.vstack([sides.E, sides.C, -qp.G])),
        "b": np.concatenate([sides.f, sides.d, qp.h]),
        "c": qp.q,
    }
    kinds = [kind for kind, _ in qp.cones]
    if kinds != sorted(kinds, reverse=True):
        raise ValueError("SCS takes second-order cones before exponential ones")
    cone = {
        "z": len(sides.f),
        "l": len(sides.d),
        "q": [size for kind, size in qp.cones if kind == "second-order"],
        "ep": kinds.count("exponential"),
    }
    options = {"eps_abs": tol, "eps_rel": 0.0, "time_limit_secs": limit, "max_iters": MANY, "verbose": False}
    began = perf_counter()
    found = solver.SCS(data, cone, **options).solve()
    seconds = perf_counter() - began
    status, dual = found["info"]["status"], found["y"]
    answer = Answer(found["x"], **sides.multipliers(dual), w=dual[len(dual) - len(qp.h) :])
    return Attempt(answer, seconds, status == "solved", status, found["info"]["iter"])


def osqp(case: Case, tol: float, limit: float) -> Attempt:
    import osqp as solver

    qp = case.qp
    bounded = np.flatnonzero(np.isfinite(qp.lower) | np.isfinite(qp.upper))
    A = sp.csc_matrix(sp.vstack([qp.A, sp.eye_array(len(qp.q), format="csr")[bounded]]))
    lower, upper = np.r_[qp.l, qp.lower[bounded]], np.r_[qp.u, qp.upper[bounded]]
    options = {"eps_abs": tol, "eps_rel": 0.0, "max_iter": MANY, "time_limit": limit, "verbose": False}
    P = sp.csc_matrix(sp.triu(qp.P))
    began = perf_counter()
    work = solver.OSQP()
    work.setup(P, qp.q, A, lower, upper, **options)
    found = work.solve(raise_error=False)
    seconds = perf_counter() - began
    z = np.zeros(len(qp.q))
    z[bounded] = found.y[len(qp.l) :]
    answer = Answer(found.x, found.y[: len(qp.l)], z, np.zeros(0))
    return Attempt(answer, seconds, found.info.status == "solved", found.info.status, found.info.iter)


def piqp(case: Case, tol: float, limit: float) -> Attempt:
    import piqp as solver

    qp = case.qp
    same = qp.l == qp.u
    A, G = (sp.csc_matrix(sp.csr_array(qp.A)[mask]) for mask in (same, ~same))
    work = solver.SparseSolver()
    settings = work.settings
    settings.eps_abs = settings.eps_duality_gap_abs = tol
    settings.eps_rel = settings.eps_duality_gap_rel = 0.0
    settings.check_duality_gap, settings.verbose, settings.max_iter = True, False, 1000
    began = perf_counter()
    work.setup(qp.P, qp.q, A, qp.u[same], G, qp.l[~same], qp.u[~same], qp.lower, qp.upper)
    status = work.solve()
    seconds = perf_counter() - began
    found, y = work.result, np.zeros(len(qp.l))
    y[same], y[~same] = found.y, found.z_u - found.z_l
    answer = Answer(found.x.copy(), y, found.z_bu - found.z_bl, np.zeros(0))
    return Attempt(answer, seconds, status == solver.PIQP_SOLVED, str(status).partition("PIQP_")[2], found.info.iter)


def proxqp(case: Case, tol: float, limit: float) -> Attempt:
    """Dense up to 300 variables and rows, sparse beyond."""
    from proxsuite import proxqp as solver

    qp = case.qp
    same = qp.l == qp.u
    bounded = np.flatnonzero(np.isfinite(qp.lower) | np.isfinite(qp.upper))
    rows = sp.csr_array(qp.A)
    A = sp.csc_matrix(rows[same])
    C = sp.csc_matrix(sp.vstack([rows[~same], sp.eye_array(len(qp.q), format="csr")[bounded]]))
    lower, upper = np.r_[qp.l[~same], qp.lower[bounded]], np.r_[qp.u[~same], qp.upper[bounded]]
    dense = len(qp.q) <= 300 and len(qp.l) <= 300
    matrices = [v.toarray() if dense else v for v in (qp.P, A, C)]
    began = perf_counter()
    work = (solver.dense if dense else solver.sparse).QP(len(qp.q), A.shape[0], C.shape[0])
    work.settings.eps_abs = work.settings.eps_duality_gap_abs = tol
    work.settings.eps_rel = work.settings.eps_duality_gap_rel = 0.0
    work.settings.check_duality_gap, work.settings.max_iter = True, 100_000
    work.init(matrices[0], qp.q, matrices[1], qp.u[same], matrices[2], lower, upper)
    work.solve()
    seconds = perf_counter() - began
    found, y, z = work.results, np.zeros(len(qp.l)), np.zeros(len(qp.q))
    inner = int((~same).sum())
    y[same], y[~same], z[bounded] = found.y, found.z[:inner], found.z[inner:]
    status = str(found.info.status).rpartition(".")[2]
    solved = found.info.status == solver.QPSolverOutput.PROXQP_SOLVED
    return Attempt(Answer(np.array(found.x), y, z, np.zeros(0)), seconds, solved, status, found.info.iter)


def highs(case: Case, tol: float, limit: float) -> Attempt:
    """HiGHS's active-set method; the builds on PyPI have no interior point (HiPO) for QPs."""
    import highspy

    qp, inf = case.qp, highspy.kHighsInf
    model = highspy.HighsModel()
    lp, hessian, triangle = model.lp_, model.hessian_, sp.csc_matrix(sp.tril(qp.P))
    lp.num_col_, lp.num_row_ = len(qp.q), len(qp.l)
    lp.col_cost_ = qp.q
    lp.col_lower_, lp.col_upper_ = np.maximum(qp.lower, -inf), np.minimum(qp.upper, inf)
    lp.row_lower_, lp.row_upper_ = np.maximum(qp.l, -inf), np.minimum(qp.u, inf)
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = qp.A.indptr, qp.A.indices, qp.A.data
    hessian.dim_ = len(qp.q)
    hessian.start_, hessian.index_, hessian.value_ = triangle.indptr, triangle.indices, triangle.data
    began = perf_counter()
    work = highspy.Highs()
    work.setOptionValue("output_flag", False)
    work.setOptionValue("time_limit", limit)
    work.setOptionValue("qp_regularization_value", min(1e-7, 1e-3 * tol))  # its effect is not in HiGHS's own residuals
    for name in (
        "kkt_tolerance",
        "primal_feasibility_tolerance",
        "dual_feasibility_tolerance",
        "ipm_optimality_tolerance",
    ):
        work.setOptionValue(name, max(tol, 1e-10))
    work.passModel(model)
    work.run()
    seconds = perf_counter() - began
    found, status = work.getSolution(), work.getModelStatus()
    # in HiGHS the multipliers are slopes of the objective, so they have the other sign
    y, z = -np.array(found.row_dual), -np.array(found.col_dual)
    complete = found.value_valid and found.dual_valid
    answer = Answer(np.array(found.col_value), y, z, np.zeros(0)) if complete else None
    name, solved = work.modelStatusToString(status), status == highspy.HighsModelStatus.kOptimal
    return Attempt(answer, seconds, solved, name, work.getInfo().qp_iteration_count)
