"""The reference for system identification: Clarabel's interior point, polished by Newton on the KKT system.

At the solution a group of rows, r_t = (Mx − b)_t, is either *fitted* (r_t = 0, ‖y_t‖ ≤ λ) or *violated* (r_t = c_t y_t,
c_t ≥ 0, ‖y_t‖ = λ). Once the kinds are known, the KKT system is smooth, and each Newton step doubles the digits.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from dapd.arrays import Array
from dapd.certificate.certify import certify
from dapd.operators.structured import Kronecker
from dapd.paper.experiments.references.interior_point import interior_point
from dapd.problem.problem import Problem

ROUNDS = 40  # limit on the Newton steps; a group may change its kind after each


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
        radius = float(rows.radii[0])
        self.problem, self.terms, self.e, self.A, self.radius = problem, terms, e, M.A, radius
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
            head = sp.csr_array((np.array([-1.0]), ([0], [2 * n + t])), shape=(1, 2 * n + T))
            body = sp.hstack([-sp.kron(self.A[t : t + 1], sp.eye_array(q)), sp.csr_array((q, n + T))])
            groups += [head, body]
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
        r = self.A @ x - self.b
        c = np.linalg.norm(r, axis=1) / self.radius
        slack = self.radius - np.linalg.norm(y, axis=1)
        violated = self.radius * c > slack
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
