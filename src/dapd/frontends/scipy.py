"""SciPy: dapd.minimize and dapd.lsq_linear, which return an OptimizeResult."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, OptimizeResult

from dapd import Function, Info, Interval, LeastSquares, Problem, Result, Smooth, Status, solve
from dapd.arguments import NO_BOUND, named, real, renamed
from dapd.arrays import Array
from dapd.frontends.rows import LinearRows, as_limits, joined, matrix_for

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
        Where to start; it may break the constraints, and is moved into the bounds.
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
    settings = {NAMES.get(name, name): value for name, value in (options or {}).items()}
    if callback is not None:
        settings["callback"] = _stopping(callback)
    rows, limits = rows_of(constraints, start), _bounds(bounds, start.size)
    return _minimized(objective, rows, limits, start, method=method or "auto", tol=tol, **settings)


def _minimized(
    objective: _Objective, rows: list[LinearRows], limits: Any, start: Array, **settings: Any
) -> OptimizeResult:
    problem = _problem(Smooth(objective.value, objective.gradient, size=start.size), rows, limits)
    start = np.clip(start, *problem.bounds)
    if not np.all(np.isfinite(objective.gradient(start))):
        raise ValueError(f"{objective.name} is not finite at x0 = {start}; choose an x0 where it is")
    result = solve(problem, x0=start, **settings)
    counts = {"nfev": objective.values, "njev": objective.gradients}
    value = objective.value(result.x)
    found = _answer(result, rows, fun=value, jac=objective.gradient(result.x), **counts)
    if not np.isfinite(value):
        found.success, found.status = False, DIFFICULTIES
        found.message = f"fun is {value} at x; it must be finite at the solution. {result.message}"
    return found


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
    with renamed(d="b"):
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

    @property
    def name(self) -> str:
        """Of the gradient, as the caller knows it."""
        if self.jac is True:
            return "the gradient that fun returns"
        return "jac" if callable(self.jac) else "the gradient of fun by central differences"

    def _pair(self, x: Array) -> tuple[Any, Any]:
        found = self._call(x)
        if not isinstance(found, (tuple, list)) or len(found) != 2:
            raise TypeError(f"fun must return a pair (value, gradient), since jac=True; it returned {found!r}")
        return found[0], found[1]

    def value(self, x: Array) -> float:
        """fun(x)."""
        found = self._pair(x)[0] if self.jac is True else self._call(x)
        number = np.asarray(found)
        if number.dtype.kind not in "biuf" or number.size != 1:
            raise TypeError(f"fun must return a number, and returned {found!r}")
        return float(number.item())

    def gradient(self, x: Array) -> Array:
        """Given, or by central differences."""
        self.gradients += 1
        if self.jac is True:
            return self._vector(self._pair(x)[1], x)
        if callable(self.jac):
            return self._vector(self.jac(x.copy(), *self.args), x)
        steps = np.cbrt(np.finfo(np.float64).eps) * np.maximum(1.0, abs(x))
        return np.array([(self.value(x + h) - self.value(x - h)) / (2 * h[k]) for k, h in enumerate(np.diag(steps))])

    def _vector(self, found: Any, x: Array) -> Array:
        vector = np.asarray(found)
        if vector.dtype.kind not in "biuf" or vector.shape != x.shape:
            what = f"shape {vector.shape}" if vector.dtype.kind in "biuf" else repr(found)
            raise TypeError(f"{self.name} must be a vector of {x.size} numbers, found {what}")
        return vector.astype(np.float64)


def _problem(f: Function, rows: list[LinearRows], bounds: Any) -> Problem:
    one = joined(rows)
    if one is None:
        return Problem(f, np.zeros((0, f.size or 0)), np.zeros(0), bounds=bounds)
    return Problem(f, one.matrix, np.zeros(one.lower.size), Interval(one.lower, one.upper), bounds=bounds)


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
        matrix = matrix_for(x.size, f"{name}.A", constraint.A)
        ends = (as_limits(f"{name}.{end}", getattr(constraint, end)) for end in ("lb", "ub"))
        return LinearRows(matrix, *(np.broadcast_to(end, matrix.shape[:1]) for end in ends))
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
        found = np.atleast_1d(np.asarray(call(at, *more)))
        if found.dtype.kind not in "biuf" or found.ndim != 1:
            raise TypeError(f"{name}.fun must return a number or a vector, and returned {found!r}")
        return found.astype(np.float64)

    at_zero = value(np.zeros(x.size))
    none = (at_zero >= NO_BOUND) & (kind == "ineq")  # nothing is computed with such sides
    if not np.all(np.isfinite(at_zero) | none):
        raise ValueError(f"{name}.fun is {at_zero} at x = 0; a linear function is finite everywhere")
    offset = np.where(none, 0.0, at_zero)
    matrix = np.column_stack([np.where(none, 0.0, value(unit)) - offset for unit in np.eye(x.size)])
    for probe in (x, *np.random.default_rng(0).standard_normal((2, x.size))):
        sizes = abs(matrix) @ abs(probe) + abs(offset)
        if not np.all(none | (abs(np.where(none, 0.0, value(probe)) - matrix @ probe - offset) <= LINEAR * sizes)):
            raise ValueError(f"{name} is not linear, and only linear constraints are possible")
    return LinearRows(
        matrix, np.where(none, -np.inf, -offset), -offset if kind == "eq" else np.full(offset.shape, np.inf)
    )


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
