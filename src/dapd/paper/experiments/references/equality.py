"""The reference for equality constraints: Newton on the KKT system."""

from __future__ import annotations

import numpy as np
import scipy.linalg

from dapd.certificate.certify import certify
from dapd.problem.problem import Problem


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
