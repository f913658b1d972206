"""The reference for the QP with ‖Mx − b‖_∞ ≤ ν: Clarabel finds the active rows, a linear solve gives the solution."""

from __future__ import annotations

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from dapd.arrays import Array
from dapd.certificate.certify import certify
from dapd.paper.experiments.references.interior_point import interior_point
from dapd.problem.problem import Problem

ROUNDS = 20  # limit on the changes of the active set


def bounded_residual(problem: Problem, *, tol: float = 1e-10) -> tuple[Array, Array]:
    """Return x and y of min ½xᵀHx − cᵀx subject to |Mx − b| ≤ ν, with KKT residuals of at most `tol` if possible."""
    f, rows = problem.f.known_terms(), problem.phi_table
    dense = f is not None and not f.ridge and f.loss is None and isinstance(f.H, np.ndarray) and f.H.ndim == 2
    weights = None if rows is None or not rows.interval.all() or np.any(rows.lower != -rows.upper) else rows.upper
    if f is None or f.c is None or not dense or weights is None:
        raise ValueError(f"bounded_residual solves a dense Quadratic with phi = L1(nu), found {problem!r}")
    M, b, n = problem.M.dense(), problem.b, problem.rows
    nu, both, right = weights, np.concatenate([M, -M]), np.concatenate([b + weights, weights - b])
    _, z = interior_point(sp.csc_array(f.H), -f.c, both, right, nonnegative=2 * n)
    y = z[:n] - z[n:]
    # rows whose multiplier is too close to zero to decide start as inactive; the loop corrects them
    active = np.abs(y) > 1e-6 * np.max(np.abs(y))
    sign = np.sign(y)
    for _ in range(ROUNDS):
        x, y = _solve_active(f.H, f.c, M, b + sign * nu, active)
        kkt = certify(problem, x, y)
        if max(kkt.stationarity, kkt.feasibility) <= tol:
            break
        residual = M @ x - b
        wrong, broken = active & (y * sign < 0), ~active & (np.abs(residual) > nu)
        active = (active & ~wrong) | broken
        sign = np.where(broken, np.sign(residual), sign)
    return x, y


def _solve_active(H: Array, c: Array, M: Array, target: Array, active: Array) -> tuple[Array, Array]:
    """Solve Hx + Mᵀy = c with (Mx)ᵢ = targetᵢ on the active rows and yᵢ = 0 on the others."""
    R = M[active]
    size = H.shape[0]
    kkt = np.block([[H, R.T], [R, np.zeros((len(R), len(R)))]])
    right = np.concatenate([c, target[active]])
    factors = scipy.linalg.lu_factor(kkt)
    solution = scipy.linalg.lu_solve(factors, right)
    # corrections in extended precision make x exact to rounding, even if the system is ill-conditioned
    exact = kkt.astype(np.longdouble)
    for _ in range(3):
        solution += scipy.linalg.lu_solve(factors, (right - exact @ solution).astype(np.float64))
    y = np.zeros(len(M))
    y[active] = solution[size:]
    return solution[:size], y
