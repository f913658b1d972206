"""qpsolvers: after dapd.qpsolvers.register(), solve_qp(..., solver="dapd")."""

from __future__ import annotations

import sys
from time import perf_counter
from typing import Any

import numpy as np
import qpsolvers
from qpsolvers.solvers import solve_function

from dapd.arguments import real, renamed
from dapd.arrays import Array
from dapd.frontends.rows import LinearRows, as_limits, joined, matrix_for
from dapd.problems.quadratic import qp
from dapd.solving.solve import solve

NAME = "dapd"
TOL = 1e-8  # unless tol= or tol_absolute= is given


def register() -> None:
    """Make "dapd" a solver of qpsolvers, and of qpbenchmark if that was imported before."""
    solve_function[NAME] = solve_problem
    for names in (qpsolvers.available_solvers, qpsolvers.dense_solvers, qpsolvers.sparse_solvers):
        if NAME not in names:
            names.append(NAME)
    benchmark = sys.modules.get("qpbenchmark.solver_settings")
    if benchmark is not None:
        benchmark.SolverSettings.IMPLEMENTED_SOLVERS.add(NAME)


def solve_problem(
    problem: qpsolvers.Problem, initvals: Any = None, verbose: bool = False, **options: Any
) -> qpsolvers.Solution:
    """½xᵀPx + qᵀx subject to Gx ≤ h, Ax = b and lb ≤ x ≤ ub.

    Parameters
    ----------
    problem : qpsolvers.Problem
    initvals : vector, optional
        The first x.
    verbose : bool
        Show the progress.
    **options
        Those of `dapd.solve`.

    Returns
    -------
    qpsolvers.Solution
        `extras["result"]` is the `dapd.Result`. If no solution was found, x, y, z and z_box are None.
    """
    began = perf_counter()
    solution = qpsolvers.Solution(problem, found=False)
    P, q, G, h, A, b, lb, ub = problem.unpack()
    columns, equations = np.size(q), 0 if b is None else np.size(b)
    try:
        lower, upper = (_bound(name, given, columns) for name, given in (("lb", lb), ("ub", ub)))
        if lower is not None and upper is not None and np.any(lower > upper):
            solution.extras = {"status": "infeasible", "message": "a lower bound on x is above an upper one"}
            return solution
        with renamed(l="b or h", u="b or h"):
            model = qp(P, q, *_rows(A, b, G, h, columns), lower, upper)
    except (TypeError, ValueError) as error:
        raise qpsolvers.ProblemError(str(error)) from error
    built = perf_counter()
    if not options.keys() & {"tol", "tol_absolute"}:
        options["tol"] = TOL
    try:
        result = solve(model, x0=initvals, progress=verbose, **options)
    except (TypeError, ValueError) as error:
        raise qpsolvers.ParamError(str(error)) from error
    solution.build_time, solution.solve_time = built - began, perf_counter() - built
    solution.extras = {"status": str(result.status), "iterations": result.iterations, "result": result}
    if result.converged:
        solution.found = True
        solution.x, solution.obj = result.x, result.objective
        solution.y, solution.z = result.y[:equations], result.y[equations:]
        solution.z_box = result.z if lb is not None or ub is not None else np.empty(0)
    return solution


def _bound(name: str, given: Any, columns: int) -> Array | None:
    return None if given is None else _sized(name, as_limits(name, given), columns, "variables")


def _rows(A: Any, b: Any, G: Any, h: Any, columns: int) -> tuple[Any, Any, Any]:
    """The rows of A and then those of G, with their limits."""
    rows = []
    if A is not None:
        matrix = matrix_for(columns, "A", A)
        sides = _sized("b", real("b", b, empty=True), matrix.shape[0], "rows of A")
        rows.append(LinearRows(matrix, sides, sides))
    if G is not None:
        matrix = matrix_for(columns, "G", G)
        upper = _sized("h", as_limits("h", h), matrix.shape[0], "rows of G")
        if np.any(upper == -np.inf):
            raise ValueError("h must be above -1e20 in every row")
        rows.append(LinearRows(matrix, np.full(upper.size, -np.inf), upper))
    return joined(rows) or (None, None, None)


def _sized(name: str, vector: Array, size: int, what: str) -> Array:
    if vector.size != size:
        raise ValueError(f"{name} has {vector.size} entries, expected {size}, the number of {what}")
    return vector.ravel()
