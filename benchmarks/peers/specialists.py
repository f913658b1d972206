"""Solvers for some of the models: SciPy and PyProximal. They work on the model itself, not on its conic form."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np
import scipy.optimize
import scipy.sparse as sp

from peers import model as m
from peers.case import Attempt, Case
from peers.conic import Answer, residuals

SMALL = 300  # variables and rows up to which SciPy's general solver is tried


def squared_distance(model: m.Model) -> Any:
    """The z of f(x) = ½‖x − z‖² + constant; None if f is another function."""
    cost = model.costs[0][0]
    plain = len(model.costs) == 1 and isinstance(cost, m.Quadratic) and np.ndim(cost.P) == 1 and (cost.P == 1).all()
    return -cost.q if plain else None


def trust_constr(case: Case, tol: float, limit: float) -> Attempt:
    """SciPy's interior point for small QPs."""
    qp = case.qp
    P, rows = qp.P.toarray(), qp.A.toarray()
    constraints = [scipy.optimize.LinearConstraint(rows, qp.l, qp.u)] if len(rows) else []
    bounds = scipy.optimize.Bounds(qp.lower, qp.upper)
    bounded = bool(np.isfinite(np.r_[qp.lower, qp.upper]).any())
    started = perf_counter()

    def out_of_time(*_: Any) -> bool:
        return perf_counter() - started > limit

    found = scipy.optimize.minimize(
        lambda x: 0.5 * x @ P @ x + qp.q @ x,
        np.clip(np.zeros(len(qp.q)), qp.lower, qp.upper),
        jac=lambda x: P @ x + qp.q,
        hess=lambda x: P,
        method="trust-constr",
        constraints=constraints,
        bounds=bounds if bounded else None,
        callback=out_of_time,
        options={"gtol": tol, "xtol": 1e-3 * tol, "barrier_tol": 1e-3 * tol, "maxiter": 100_000},
    )
    seconds = perf_counter() - started
    v = [*found.v, np.zeros(len(qp.q))]
    y, z = (v[0], v[1]) if len(rows) else (np.zeros(0), v[0])
    return Attempt(case_answer(case, found.x, y, z), seconds, found.status in (1, 2), found.message, found.nit)


def case_answer(case: Case, x: Any, y: Any, z: Any) -> Any:
    """An answer of a QP without cones."""
    return Answer(x, y, z, np.zeros(len(case.qp.h)))


def small_qp(model: m.Model) -> bool:
    plain = all(isinstance(cost, m.Quadratic) for cost, _ in model.costs)
    return (
        plain and all(isinstance(part, m.Within) for part in model.parts) and max(model.variables, model.rows) <= SMALL
    )


def isotonic_regression(case: Case, tol: float, limit: float) -> Attempt:
    """SciPy's pool-adjacent-violators algorithm, which is exact."""
    z = squared_distance(case.model)
    began = perf_counter()
    x = scipy.optimize.isotonic_regression(z).x
    seconds = perf_counter() - began
    y = np.maximum(np.cumsum(z - x)[:-1], 0.0)  # row i is x_i − x_{i+1} ≤ 0
    return Attempt(case.canonical.lift(x, y, np.zeros(len(x))), seconds, True, "exact")


def is_isotonic(model: m.Model) -> bool:
    return model.family == "isotonic" and squared_distance(model) is not None


def proximal_steps(case: Case, tol: float, limit: float) -> Attempt:
    """FISTA if M is the identity, otherwise Chambolle–Pock; ever more iterations, the time of the last run."""
    import pyproximal  # noqa: F401  takes seconds, which are not those of a solve

    model, count, spent = case.model, 100, 0.0
    while True:
        began = perf_counter()
        x, y = (fista if is_identity(model) else chambolle_pock)(model, count)
        seconds = perf_counter() - began
        spent += seconds
        answer = case.canonical.lift(x, y, np.zeros(len(x)))
        met = residuals(case.qp, answer).worst <= tol
        if met or spent + 4 * seconds > limit:
            return Attempt(answer, seconds, met, "met" if met else "time limit", count)
        count *= 4


def is_identity(model: m.Model) -> bool:
    square = model.rows == model.variables
    return square and sp.issparse(model.M) and (model.M - sp.eye_array(model.rows)).count_nonzero() == 0


def fits_pyproximal(model: m.Model) -> bool:
    """½‖x − z‖² with symmetric slopes, or least squares with symmetric slopes or norms of x."""
    if len(model.parts) != 1 or model.bounded or np.any(model.b):
        return False
    part, cost = model.parts[0], model.costs[0][0]
    symmetric = isinstance(part, m.Slopes) and np.array_equal(part.lower, -part.upper)
    if isinstance(cost, m.Squares):
        return is_identity(model) and (symmetric or isinstance(part, m.Norms))
    return symmetric and squared_distance(model) is not None


def fista(model: m.Model, count: int) -> tuple[Any, Any]:
    import pylops
    import pyproximal as solver

    cost, part = model.costs[0][0], model.parts[0]
    step = 1.0 / np.linalg.norm(cost.A, 2) ** 2
    smooth = solver.L2(Op=pylops.MatrixMult(cost.A), b=cost.d)
    if isinstance(part, m.Slopes):
        penalty: Any = solver.L1(sigma=float(part.upper[0]))
    else:
        penalty = BlockNorms(solver.Euclidean(sigma=float(part.radius[0])), part.sizes)
    start = np.zeros(model.variables)
    options = {"tau": step, "niter": count, "acceleration": "fista"}
    x = solver.optimization.primal.ProximalGradient(smooth, penalty, start, **options)
    return x, -(cost.A.T @ (cost.A @ x - cost.d))


class BlockNorms:
    """Σ_g σ‖x_g‖₂ for groups of equal size, which PyProximal has only one group at a time."""

    def __init__(self, norm: Any, sizes: Any) -> None:
        self.sigma, self.size = norm.sigma, int(sizes[0])

    def __call__(self, x: Any) -> float:
        """The sum."""
        return float(self.sigma * np.linalg.norm(x.reshape(-1, self.size), axis=1).sum())

    def prox(self, x: Any, tau: float) -> Any:
        """Each group moved towards zero by στ."""
        groups = x.reshape(-1, self.size)
        length = np.maximum(np.linalg.norm(groups, axis=1, keepdims=True), 1e-300)
        return (groups * np.maximum(1 - self.sigma * tau / length, 0)).ravel()


def chambolle_pock(model: m.Model, count: int) -> tuple[Any, Any]:
    import pylops
    import pyproximal as solver

    z, part = squared_distance(model), model.parts[0]
    M = pylops.MatrixMult(sp.csr_matrix(model.M))
    size = np.sqrt(abs(model.M).sum(axis=0).max() * abs(model.M).sum(axis=1).max())  # ≥ ‖M‖₂
    start = np.zeros(model.variables)
    prox = solver.L2(b=z), solver.L1(sigma=float(part.upper[0]))
    options = {"tau": 1 / size, "mu": 1 / size, "niter": count, "returny": True}
    return solver.optimization.primaldual.PrimalDual(*prox, M, start, **options)
