"""Independent references: solutions found without the methods under test."""

from __future__ import annotations

from pathlib import Path

from dapd.arguments import named, number
from dapd.certificate.certify import certify
from dapd.paper.experiments.references import store
from dapd.paper.experiments.references.bounded_residual import bounded_residual
from dapd.paper.experiments.references.equality import newton
from dapd.paper.experiments.references.group_norms import group_norms
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
    known = store.load(place)
    if known is not None:
        try:
            candidate = problem.with_solution(*known)
        except ValueError:  # another shape, so of another problem
            candidate = None
        if candidate is not None and _error(candidate) <= tol:
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
