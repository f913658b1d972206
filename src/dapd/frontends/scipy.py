"""SciPy: dapd.minimize and dapd.lsq_linear, which return an OptimizeResult."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, OptimizeResult

from dapd.arguments import named, real
from dapd.arrays import Array
from dapd.frontends.rows import stacked
from dapd.model.problem import Problem
from dapd.model.proximal import Interval
from dapd.model.smooth import Function, LeastSquares, Smooth
from dapd.solving.loop import Info
from dapd.solving.result import Result, Status
from dapd.solving.solve import solve

# as scipy.optimize.linprog has them
CODES = {
    Status.optimal: 0,
    Status.iteration_limit: 1,
    Status.time_limit: 1,
    Status.infeasible: 2,
    Status.unbounded: 3,
}
DIFFICULTIES = 4
LINEAR = 1e-6  # part of its size by which a linear constraint may differ from its linearisation
ACTIVE = 1e-8  # part of its size by which x may be away from a bound that is active
NAMES = {"maxiter": "max_iterations", "disp": "progress"}  # SciPy's names of options


class LinearRows(NamedTuple):
    """lower ≤ matrix @ x ≤ upper."""

    matrix: Any
    lower: Array
    upper: Array


@named
def minimize(
    fun: Callable[..., Any],
    x0: Any,
    args: tuple[Any, ...] = (),
    method: str | None = None,
    jac: Callable[..., Any] | bool | None = None,
    hess: Any = None,
    hessp: Any = None,
    bounds: Any = None,
    constraints: Any = (),
    tol: float | None = None,
    callback: Callable[[Array], object] | None = None,
    options: dict[str, Any] | None = None,
) -> OptimizeResult:
    """Minimise a smooth convex function under linear constraints, as `scipy.optimize.minimize` does.

    Parameters
    ----------
    fun : function
        fun(x, *args), a number: convex and smooth. It is also called at points that break the constraints.
    x0 : vector
        Where to start; it may break the constraints.
    args : tuple
        More arguments of fun and jac.
    method : str, optional
        As in `dapd.solve`; "auto" by default.
    jac : function or True, optional
        jac(x, *args) is the gradient; if True, fun returns (value, gradient). Without it, the gradient comes from
        central differences, with two calls of fun per variable.
    hess, hessp : optional
        Not used.
    bounds : scipy.optimize.Bounds or list of pairs (lower, upper), optional
        None or infinite if there is none.
    constraints : scipy.optimize.LinearConstraint, dictionary as for SLSQP, or list of these
        A dictionary must be linear too.
    tol : float, optional
        As in `dapd.solve`; 1e-6 by default.
    callback : function, optional
        Called with x from time to time; a true answer or StopIteration ends the solve.
    options : dictionary, optional
        Further options of `dapd.solve`; also maxiter and disp.

    Returns
    -------
    scipy.optimize.OptimizeResult
        With x, fun, jac, nit, nfev, njev, success, message, status (0: optimal, 1: a limit, 2: infeasible,
        3: unbounded, 4: difficulties), `multipliers`, one vector per constraint, `bound_multipliers`, with
        ∇f(x) + Σ Aᵀy + z = 0, and `result`, the `dapd.Result`.
    """
    start = np.atleast_1d(real("x0", x0)).ravel().astype(np.float64)
    objective = _Objective(fun, jac, args if isinstance(args, tuple) else (args,))
    f = Smooth(objective.value, objective.gradient, size=start.size)
    rows = rows_of(constraints, start)
    settings = {NAMES.get(name, name): value for name, value in (options or {}).items()}
    if callback is not None:
        settings["callback"] = _stopping(callback)
    result = solve(_problem(f, rows, _bounds(bounds, start.size)), method or "auto", tol=tol, x0=start, **settings)
    counts = {"nfev": objective.values, "njev": objective.gradients}
    return _answer(result, rows, fun=objective.value(result.x), jac=objective.gradient(result.x), **counts)


@named
def lsq_linear(
    A: Any,
    b: Any,
    bounds: Any = (-np.inf, np.inf),
    *,
    constraints: Any = (),
    tol: float = 1e-10,
    max_iter: int | None = None,
    verbose: int = 0,
) -> OptimizeResult:
    """½‖Ax − b‖² under bounds, as `scipy.optimize.lsq_linear`, and under linear constraints too.

    Parameters
    ----------
    A : matrix, dense or sparse, or LinearOperator
    b : vector
    bounds : pair (lower, upper) or scipy.optimize.Bounds
        Numbers or vectors.
    constraints : scipy.optimize.LinearConstraint, or list of these
    tol : float
        As in `dapd.solve`.
    max_iter : int, optional
    verbose : int
        Show the progress if it is not 0.

    Returns
    -------
    scipy.optimize.OptimizeResult
        With x, cost (½‖Ax − b‖²), fun (Ax − b), optimality, active_mask, and as in `dapd.minimize`.
    """
    f = LeastSquares(A, b)
    size = f.A.shape[1]
    rows = rows_of(constraints, np.zeros(size))
    problem = _problem(f, rows, _bounds(bounds, size) if isinstance(bounds, Bounds) else bounds)
    result = solve(problem, tol=tol, max_iterations=max_iter, progress=bool(verbose))
    lower, upper = problem.bounds
    below, above = (np.isfinite(end) & (abs(result.x - end) <= ACTIVE * (1 + abs(end))) for end in (lower, upper))
    residual = f.A.forward(result.x) - f.d
    return _answer(
        result,
        rows,
        cost=f.value(result.x),
        fun=residual,
        optimality=result.certificate.stationarity,
        active_mask=np.where(below, -1, np.where(above, 1, 0)),
    )


class _Objective:
    """fun and its gradient, counted."""

    def __init__(self, fun: Callable[..., Any], jac: Any, args: tuple[Any, ...]) -> None:
        if not callable(fun):
            raise TypeError(f"fun must be callable, found {type(fun).__name__}")
        if jac not in (None, True, False) and not callable(jac):
            raise TypeError(f"jac must be a function, True or None (central differences), found {jac!r}")
        self.fun, self.jac, self.args = fun, jac, args
        self.values = self.gradients = 0

    def _call(self, x: Array) -> Any:
        self.values += 1
        return self.fun(x.copy(), *self.args)

    def value(self, x: Array) -> float:
        """fun(x)."""
        found = self._call(x)
        return float(np.squeeze(found[0] if self.jac is True else found))

    def gradient(self, x: Array) -> Array:
        """Given, or by central differences."""
        self.gradients += 1
        if self.jac is True:
            return np.asarray(self._call(x)[1], np.float64)
        if callable(self.jac):
            return np.asarray(self.jac(x.copy(), *self.args), np.float64)
        steps = np.cbrt(np.finfo(np.float64).eps) * np.maximum(1.0, abs(x))
        return np.array([(self.value(x + h) - self.value(x - h)) / (2 * h[k]) for k, h in enumerate(np.diag(steps))])


def _problem(f: Function, rows: list[LinearRows], bounds: Any) -> Problem:
    M = stacked([one.matrix for one in rows])
    if M is None:
        return Problem(f, np.zeros((0, f.size or 0)), np.zeros(0), bounds=bounds)
    lower, upper = (np.concatenate([getattr(one, end) for one in rows]) for end in ("lower", "upper"))
    return Problem(f, M, np.zeros(M.shape[0]), Interval(lower, upper), bounds=bounds)


def _answer(result: Result, rows: list[LinearRows], **more: Any) -> OptimizeResult:
    ends = np.cumsum([len(one.lower) for one in rows])
    return OptimizeResult(
        x=result.x,
        nit=result.iterations,
        success=result.converged,
        status=CODES.get(result.status, DIFFICULTIES),
        message=result.message,
        multipliers=np.split(result.y, ends[:-1]) if rows else [],
        bound_multipliers=result.z,
        result=result,
        **more,
    )


def rows_of(constraints: Any, x: Array) -> list[LinearRows]:
    """One constraint or several, checked to be linear near x and elsewhere."""
    several = constraints if isinstance(constraints, (list, tuple)) else [constraints]
    return [_rows(k, one, x) for k, one in enumerate(several)]


def _rows(number: int, constraint: Any, x: Array) -> LinearRows:
    """A constraint as rows; raise if it is not linear."""
    name = f"constraint {number}"
    if isinstance(constraint, LinearConstraint):
        matrix = constraint.A
        if matrix.shape[1] != x.size:
            raise ValueError(f"{name} is for {matrix.shape[1]} variables, expected {x.size}")
        return LinearRows(matrix, *(np.broadcast_to(end, matrix.shape[:1]) for end in (constraint.lb, constraint.ub)))
    if not isinstance(constraint, dict):
        raise TypeError(
            f"{name} is a {type(constraint).__name__}; only linear constraints are possible: use "
            "scipy.optimize.LinearConstraint or a dictionary whose fun is linear"
        )
    kind = str(constraint.get("type")).lower()
    if kind not in ("eq", "ineq") or not callable(constraint.get("fun")):
        raise ValueError(f"{name} must have the type 'eq' or 'ineq' and a function fun, found {constraint}")
    call, more = constraint["fun"], constraint.get("args", ())

    def value(at: Array) -> Array:
        return np.atleast_1d(np.asarray(call(at, *more), np.float64))

    at_zero = value(np.zeros(x.size))
    matrix = np.column_stack([value(unit) - at_zero for unit in np.eye(x.size)])
    for probe in (x, *np.random.default_rng(0).standard_normal((2, x.size))):
        sizes = abs(matrix) @ abs(probe) + abs(at_zero)
        if not np.all(abs(value(probe) - matrix @ probe - at_zero) <= LINEAR * sizes):
            raise ValueError(f"{name} is not linear, and only linear constraints are possible")
    return LinearRows(matrix, -at_zero, -at_zero if kind == "eq" else np.full(at_zero.shape, np.inf))


def _bounds(bounds: Any, size: int) -> Any:
    """A pair (lower, upper) from any form that SciPy takes."""
    if bounds is None:
        return None
    if isinstance(bounds, Bounds):  # which makes vectors of numbers
        return tuple(end.item() if np.size(end) == 1 else end for end in (bounds.lb, bounds.ub))
    pairs = list(bounds)
    if len(pairs) != size or any(np.size(pair) != 2 for pair in pairs):
        raise ValueError(f"bounds must be scipy.optimize.Bounds or a list of {size} pairs (lower, upper)")
    lower = [-np.inf if low is None else low for low, _ in pairs]
    upper = [np.inf if high is None else high for _, high in pairs]
    return lower, upper


def _stopping(callback: Callable[[Array], object]) -> Callable[[Info], bool]:
    def stops(info: Info) -> bool:
        try:
            return bool(callback(info.x))
        except StopIteration:
            return True

    return stops
