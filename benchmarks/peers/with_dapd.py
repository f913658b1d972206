"""Models as dapd problems, and dapd as one of the solvers."""

from __future__ import annotations

import inspect
from time import perf_counter
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, aslinearoperator

import dapd
from peers import model as m
from peers.case import Attempt, Case, peak_megabytes

# The settings that are compared: keywords of `dapd.solve`. Those it does not know are left out.
SETTINGS: dict[str, dict[str, Any]] = {"dapd": {}, "dapd, no direct": {"direct": False}}

# What this version of dapd has; looked up here, since that takes longer than to solve a small problem
HAS_BOUNDS = "bounds" in inspect.signature(dapd.Problem.__init__).parameters
OPTIONS = inspect.signature(dapd.solve).parameters


def problem_of(model: m.Model) -> dapd.Problem:
    """The model as a user would write it; bounds as rows if Problem has no `bounds`."""
    f = function_of(model.costs)
    phis = [phi_of(part) for part in model.parts]
    phi = dapd.Zero() if not phis else phis[0] if len(phis) == 1 else dapd.Stack(phis, sizes=part_sizes(model))
    M = matrix_of(model)
    if not model.bounded:
        return dapd.Problem(f, M, model.b, phi)
    if HAS_BOUNDS:
        return dapd.Problem(f, M, model.b, phi, bounds=(model.lower, model.upper))
    bounds = dapd.Interval(model.lower, model.upper)
    if not model.rows:
        return dapd.Problem(f, dapd.Identity(model.variables), np.zeros(model.variables), bounds)
    stacked = dapd.RowBlocks([M, dapd.Identity(model.variables)])
    phi = dapd.Stack([phi, bounds], sizes=[model.rows, model.variables])
    return dapd.Problem(f, stacked, np.r_[model.b, np.zeros(model.variables)], phi)


def part_sizes(model: m.Model) -> list[int]:
    return [part.rows for part in model.parts]


def function_of(costs: list[tuple[m.Cost, int]]) -> dapd.Function:
    functions = [one_function(cost) for cost, _ in costs]
    return functions[0] if len(functions) == 1 else dapd.Separable(functions, sizes=[size for _, size in costs])


def one_function(cost: m.Cost) -> dapd.Function:
    if isinstance(cost, m.Quadratic):
        return dapd.Quadratic(cost.P, -cost.q)
    if isinstance(cost, m.Squares):
        return dapd.LeastSquares(cost.A, cost.d, cost.ridge)
    if isinstance(cost, m.Logistic):
        return dapd.Logistic(cost.A, cost.labels, cost.ridge)
    return dapd.PseudoHuber(cost.e)


def phi_of(part: m.Part) -> dapd.Phi:
    """The φ that a user would choose: Zero, NonNegative and L1 before Interval."""
    if isinstance(part, m.Slopes):
        return dapd.Box(part.lower, part.upper)
    if isinstance(part, m.Norms):
        ends = np.cumsum(part.sizes)
        equal = len(set(np.asarray(part.sizes).tolist())) == 1
        starts = ends - part.sizes
        groups: Any = (
            int(part.sizes[0]) if equal else [slice(int(a), int(b)) for a, b in zip(starts, ends, strict=True)]
        )
        return dapd.GroupBall(np.array(part.radius, float), groups)
    lower, upper = part.lower, part.upper
    if not lower.any() and not upper.any():
        return dapd.Zero()
    if not upper.any() and np.all(lower == -np.inf):
        return dapd.NonNegative()
    if np.isfinite(upper).all() and np.array_equal(lower, -upper):
        return dapd.L1(np.array(upper))
    return dapd.Interval(lower, upper)


def matrix_of(model: m.Model) -> Any:
    if model.form == "kronecker":
        return dapd.Kronecker(*model.factors)
    if model.form == "matrix-free":
        return opaque(model.M)
    if model.form == "row blocks":
        half = model.rows // 2
        dense = model.M.toarray() if sp.issparse(model.M) else model.M
        return dapd.RowBlocks([dense[:half], sp.csr_array(dense[half:])])
    return model.M


def opaque(M: Any) -> LinearOperator:
    """A map that shows its products only."""
    inner = aslinearoperator(M)
    return LinearOperator(inner.shape, matvec=inner.matvec, rmatvec=inner.rmatvec, dtype=float)


def known_options(options: dict[str, Any]) -> dict[str, Any]:
    """The options that this version of `dapd.solve` has."""
    return {name: value for name, value in options.items() if name in OPTIONS}


def tolerance(tol: float) -> dict[str, float]:
    """An absolute tolerance on primal, dual and gap; a relative one in versions that have no other."""
    return {"tol_absolute": tol, "tol": 0.0} if "tol_absolute" in OPTIONS else {"tol": tol}


def split(model: m.Model, y: Any, z: Any) -> tuple[Any, Any]:
    """The multipliers of the rows and of the bounds."""
    if z is None:  # bounds were rows, or there were none
        padded = np.concatenate([y, np.zeros(model.rows + model.variables - len(y))])
        return padded[: model.rows], padded[model.rows :]
    return y, z


def run(case: Case, tol: float, limit: float, setting: str) -> Attempt:
    """Build the problem and solve it; both count, since the constructors find constants."""
    options = known_options(SETTINGS[setting])
    began = perf_counter()
    try:
        problem = problem_of(case.model)
        result = dapd.solve(problem, time_limit=limit, **tolerance(tol), **options)
    except (ValueError, TypeError) as error:  # how this version says that a problem is outside its scope
        return Attempt(None, perf_counter() - began, False, f"refused: {str(error)[:120]}")
    seconds, peak = perf_counter() - began, peak_megabytes()  # before the conic form is built
    y, z = split(case.model, result.y, getattr(result, "z", None))
    answer = case.canonical.lift(result.x, y, z)
    status = f"{result.status} ({result.method})"
    return Attempt(answer, seconds, result.converged, status, result.iterations, peak)
