"""Independent references: solutions found without the methods under test."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import numpy as np
import scipy.linalg

from dapd.arguments import named, number
from dapd.certificate.certify import certify
from dapd.paper.experiments import store
from dapd.paper.experiments.interior_point import bounded_residual, group_norms
from dapd.problem.problem import Problem

__all__ = ["newton", "reference"]


@named
def reference(problem: Problem, *, tol: float = 1e-10, cache: Path | None = None) -> Problem:
    """Return the problem with its solution, found by a solver other than those under test.

    PseudoHuber with Mx = b is solved by Newton. PseudoHuber with group norms, and a quadratic with a bounded residual,
    are solved by Clarabel's interior point followed by Newton. A problem that already has a solution keeps it. The
    solution is accepted if both residuals of the KKT system, relative to their scales, are at most `tol`. It is stored
    on disk under a digest of the problem.

    Parameters
    ----------
    problem : Problem
        The problem to solve.
    tol : float
        The tolerance for the KKT residuals.
    cache : Path, optional
        The folder for solutions; by default the user's cache directory.
    """
    tol = number("tol", tol, above=0.0)
    if problem.x_star is not None and problem.y_star is not None:
        return problem
    place = store.path(problem, cache)
    if (known := store.load(place)) is not None:
        with suppress(ValueError):  # another shape, so of another problem
            candidate = problem.with_solution(*known)
            if _error(candidate) <= tol:
                return candidate
    solved = _solve(problem, tol)
    if not (error := _error(solved)) <= tol:
        raise ArithmeticError(f"the reference did not reach {tol:g}: its KKT residual is {error:.1e}")
    store.save(place, solved.x_star, solved.y_star)
    return solved


def _solve(problem: Problem, tol: float) -> Problem:
    if problem.phi.is_zero:
        return newton(problem, tol=tol)
    rows = problem.phi_table
    if rows is not None and rows.grouped.all():
        return problem.with_solution(*group_norms(problem, tol=tol))
    if rows is not None and rows.interval.all():
        return problem.with_solution(*bounded_residual(problem, tol=tol))
    raise ValueError(f"there is no independent reference for {problem!r}; give the problem x_star and y_star")


def _error(problem: Problem) -> float:
    return certify(problem, problem.x_star, problem.y_star).error


def newton(problem: Problem, *, tol: float = 1e-10) -> Problem:
    """Solve min Σ h(x_i) subject to Mx = b by Newton on the KKT system; return the problem with its solution.

    The start is feasible, so every step stays feasible and only has to decrease f. A solution is accepted if both
    residuals of the KKT system are at most `tol`.
    """
    f, b, terms = problem.f, problem.b, problem.f.known_terms()
    if terms is None or not (terms.is_by_entry and problem.phi.is_zero):
        raise ValueError(f"newton solves a sum over the entries of x with phi = Zero(), found {problem!r}")
    M = problem.M.dense()
    x = np.linalg.lstsq(M, b)[0]
    y = np.zeros(problem.rows)
    for _ in range(200):
        D = terms.curvature_by_entry(x)
        g = f.grad(x)
        # [D Mᵀ; M 0][dx; y] = [−g; b − Mx], by the Schur complement of D
        schur = scipy.linalg.cho_factor((M / D) @ M.T)
        y = scipy.linalg.cho_solve(schur, M @ x - b - M @ (g / D))
        residual = g + M.T @ y
        # one correction of y recovers the digits that the ill-conditioned complement loses
        y -= scipy.linalg.cho_solve(schur, M @ (residual / D) - (M @ x - b))
        dx = -(g + M.T @ y) / D
        decrease = g @ dx
        if (certificate := certify(problem, x, y)).stationarity <= tol and certificate.feasibility <= tol:
            return problem.with_solution(x, y)
        step = 1.0
        while f.value(x + step * dx) > f.value(x) + 1e-4 * step * decrease + 1e-14 * abs(f.value(x)) and step > 1e-12:
            step /= 2
        x = x + step * dx
    raise ArithmeticError(
        f"Newton did not reach {tol:g}: residuals {certificate.stationarity:.1e}, {certificate.feasibility:.1e}"
    )
