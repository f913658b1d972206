"""References for problems with several cases: Clarabel finds the case, and Newton the digits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from dapd.arrays import Array
from dapd.certificate.certify import certify
from dapd.operators.structured import Kronecker
from dapd.problem.problem import Problem

ACTIVE_SET_ROUNDS = 20  # limit on the changes of the active set
ROUNDS = 40  # limit on the Newton steps; a group may change its kind after each


def interior_point(
    P: Any, q: Array, A: Any, b: Array, *, nonnegative: int = 0, soc: Sequence[int] = ()
) -> tuple[Array, Array]:
    """Solve min ½xᵀPx + qᵀx with b − Ax in a cone of nonnegative entries, then second-order cones; return x and z."""
    try:
        import clarabel
    except ImportError:
        raise ModuleNotFoundError(
            "the reference needs Clarabel, which is not installed; run pip install 'dapd[experiments]'"
        ) from None
    cones = [clarabel.NonnegativeConeT(nonnegative)] if nonnegative else []
    cones += [clarabel.SecondOrderConeT(size) for size in soc]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-9
    solution = clarabel.DefaultSolver(sp.triu(P).tocsc(), q, sp.csc_array(A), b, cones, settings).solve()
    if solution.status not in (clarabel.SolverStatus.Solved, clarabel.SolverStatus.AlmostSolved):
        raise ArithmeticError(f"Clarabel ended with {solution.status} instead of a solution")
    return np.array(solution.x), np.array(solution.z)


def bounded_residual(problem: Problem, *, tol: float = 1e-10) -> tuple[Array, Array]:
    """Return x and y of min ½xᵀHx − cᵀx subject to |Mx − b| ≤ ν, with KKT residuals of at most `tol` if possible."""
    f, rows = problem.f.known_terms(), problem.phi_table
    dense = f is not None and not f.ridge and f.loss is None and isinstance(f.H, np.ndarray) and f.H.ndim == 2
    nu = None if rows is None or not rows.interval.all() or np.any(rows.lower != -rows.upper) else rows.upper
    if f is None or f.c is None or not dense or nu is None:
        raise ValueError(f"bounded_residual solves a dense Quadratic with phi = L1(nu), found {problem!r}")
    M, b, n = problem.M.dense(), problem.b, problem.rows
    both, right = np.concatenate([M, -M]), np.concatenate([b + nu, nu - b])
    _, z = interior_point(sp.csc_array(f.H), -f.c, both, right, nonnegative=2 * n)
    y = z[:n] - z[n:]
    # rows whose multiplier is too close to zero to decide start as inactive; the loop corrects them
    active = np.abs(y) > 1e-6 * np.max(np.abs(y))
    sign = np.sign(y)
    for _ in range(ACTIVE_SET_ROUNDS):
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


class GroupNorms:
    """min Σ √(x²+e²) + (e/2)x² + λ Σ_t ‖(Mx − b)_t‖ with M = A ⊗ I.

    x and y are stored as matrices, x as p × q and y as T × q, so Mx is A x.
    """

    def __init__(self, problem: Problem) -> None:
        terms, M, rows = problem.f.known_terms(), problem.M, problem.phi_table
        e = None if terms is None or terms.loss is None else terms.loss.norm_with()
        if (
            terms is None
            or e is None
            or rows is None
            or not (
                terms.is_by_entry
                and isinstance(M, Kronecker)
                and M.B is None
                and rows.grouped.all()
                and rows.inside.all()
                and np.array_equal(rows.members[rows.starts], np.arange(0, M.shape[0], M.shape[0] // M.A.shape[0]))
                and np.all(rows.radii == rows.radii[0])
            )
        ):
            raise ValueError(f"group_norms solves PseudoHuber with A ⊗ I and one ball per row of A, found {problem!r}")
        self.problem, self.terms, self.e, self.A, self.radius = problem, terms, e, M.A, float(rows.radii[0])
        self.T, self.p = M.A.shape
        self.q = M.shape[1] // self.p
        self.b = problem.b.reshape(self.T, self.q)

    def cone_program(self) -> tuple[Array, Array]:
        """Clarabel's x and y, with u_i ≥ ‖(x_i, e)‖ and v_t ≥ ‖r_t‖ for the nonsmooth terms."""
        n, T, q = self.p * self.q, self.T, self.q
        curvature = np.concatenate([np.full(n, self.terms.ridge), np.zeros(n + T)])
        cost = np.concatenate([np.zeros(n), np.ones(n), np.full(T, self.radius)])
        # rows in the order of the cones, each the slack (length, vector)
        index = np.arange(n)
        lengths = np.concatenate([3 * index, 3 * index + 1]), np.concatenate([n + index, index])
        entries = sp.csr_array((-np.ones(2 * n), lengths), shape=(3 * n, 2 * n + T))
        offsets = np.tile([0.0, 0.0, self.e], n)
        groups: list[Any] = []
        for t in range(T):
            groups.append(sp.csr_array((np.array([-1.0]), ([0], [2 * n + t])), shape=(1, 2 * n + T)))
            groups.append(sp.hstack([-sp.kron(self.A[t : t + 1], sp.eye_array(q)), sp.csr_array((q, n + T))]))
        right = np.concatenate([offsets, np.column_stack([np.zeros(T), -self.b]).ravel()])
        sizes = [3] * n + [q + 1] * T
        x, z = interior_point(sp.diags_array(curvature), cost, sp.vstack([entries, *groups]), right, soc=sizes)
        # the multiplier of the cone is (λ, −y_t)
        return x[:n].reshape(self.p, q), -z[3 * n :].reshape(T, q + 1)[:, 1:]

    def newton_step(self, x: Array, y: Array, c: Array, violated: Array) -> tuple[Array, Array, Array]:
        """One Newton step on the KKT system, with the kind of each group fixed.

        With D = ∇²f, dx = −D⁻¹(∇f + Mᵀ(y + dy)), and the columns of x decouple: column i leaves the T × T system
        (A D_i⁻¹ Aᵀ + diag c) dy_i + (y_t,i dc_t)_t = (Ax − b − c·y)_i − A D_i⁻¹ (∇f + Aᵀy)_i,
        bordered by y_tᵀdy_t = (λ² − ‖y_t‖²)/2 for the violated groups.
        """
        D = self.terms.curvature_by_entry(x)
        slope = self.terms.gradient(x) + self.A.T @ y
        right = self.A @ x - self.b - c[:, None] * y - self.A @ (slope / D)
        blocks = np.einsum("tj,ji,uj->itu", self.A, 1 / D, self.A, optimize=True) + np.diag(c)
        inverse = np.linalg.inv(blocks)
        dy = np.einsum("itu,ui->ti", inverse, right)
        dc = np.zeros_like(c)
        if violated.any():
            border = y[violated]
            inner = inverse[:, violated][:, :, violated]
            schur = np.einsum("ti,itu,ui->tu", border, inner, border, optimize=True)
            miss = np.einsum("ti,ti->t", border, dy[violated])
            miss -= (self.radius**2 - np.einsum("ti,ti->t", border, border)) / 2
            dc[violated] = np.linalg.solve(schur, miss)
            dy -= np.einsum("itu,ui->ti", inverse[:, :, violated], border * dc[violated][:, None])
        dx = -(slope + self.A.T @ dy) / D
        return dx, dy, dc

    def polish(self, x: Array, y: Array, tol: float) -> tuple[Array, Array]:
        """Newton from an approximate solution; a group with the wrong sign changes its kind."""
        c = np.linalg.norm(self.A @ x - self.b, axis=1) / self.radius
        violated = self.radius * c > self.radius - np.linalg.norm(y, axis=1)
        best, answer = np.inf, (x, y)
        for _ in range(ROUNDS):
            c = np.where(violated, c, 0.0)
            dx, dy, dc = self.newton_step(x, y, c, violated)
            x, y, c = x + dx, y + dy, c + dc
            kkt = certify(self.problem, x.ravel(), y.ravel())
            error = max(kkt.stationarity, kkt.feasibility)
            if error < best:
                best, answer = error, (x, y)
            elif best <= tol:
                break  # as exact as rounding allows
            outside = np.linalg.norm(y, axis=1) > self.radius * (1 + 1e-9)
            violated = np.where(violated, c >= 0, outside)
        return answer


def group_norms(problem: Problem, *, tol: float = 1e-10) -> tuple[Array, Array]:
    """Return x and y with KKT residuals of at most `tol` if possible."""
    structure = GroupNorms(problem)
    x, y = structure.polish(*structure.cone_program(), tol)
    return x.ravel(), y.ravel()
