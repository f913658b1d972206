"""x = R⁻¹x̂ with H = RᵀR for f = ½xᵀHx − cᵀx, so the new f is ½‖x̂‖² − ĉᵀx̂."""

from __future__ import annotations

from typing import Self

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from dapd.arrays import Array
from dapd.functions import Quadratic
from dapd.functions.terms import Terms
from dapd.machine.blas import MANY, single_blas
from dapd.operators.explicit import Dense
from dapd.presolve.terms import parts_of
from dapd.presolve.transform import FLOPS, Transform, rebuilt_problem
from dapd.problem.problem import Problem

DENSER = 4  # greatest ratio of the entries of M as a dense array and those that are stored
REACH = 1e-7  # least R_kk relative to its row's norm; the condition of H is at most about its inverse square


class ChangeOfVariables(Transform):
    """By the Cholesky factor of H, of a quadratic f or of a least-squares one."""

    name = "change of variables"
    why = "Variables were changed to make the Hessian the identity."

    def __init__(self, problem: Problem, R: Array, linear: Array) -> None:
        self.R = R
        with single_blas(float(R.size) * problem.rows, MANY):
            c = scipy.linalg.solve_triangular(R, linear, trans=1, check_finite=False)
            M = scipy.linalg.solve_triangular(R, problem.M.dense().T, trans=1, check_finite=False)
        f = Quadratic(np.ones(problem.columns), c, mu=1.0, L=1.0)
        self.problem = rebuilt_problem(problem, f=f, M=Dense(np.ascontiguousarray(M.T)), keep_blocks=False)

    @classmethod
    def apply(cls, problem: Problem) -> Self | None:
        """Change the variables; None if f is another function, H has no good factor, or M would grow too much."""
        parts = parts_of(problem)
        if parts is None or len(parts) > 1 or not _affordable(problem):
            return None
        found = _matrix(parts[0].terms, problem.columns)
        if found is None:
            return None
        H, linear = found
        scales = np.sqrt(np.where(H.diagonal() > 0, H.diagonal(), 1.0))
        try:
            R = scipy.linalg.cholesky(H / scales[:, None] / scales, check_finite=False)
        except np.linalg.LinAlgError:
            return None
        return cls(problem, R * scales, linear) if R.diagonal().min() > REACH else None

    @classmethod
    def apply_to_equations(cls, problem: Problem) -> Self | None:
        """Change the variables if all rows are equations, which can be made orthonormal then; other rows may suffer."""
        return cls.apply(problem) if problem.phi.is_linear else None

    def start(self, x: Array, y: Array) -> tuple[Array, Array]:
        """(Rx, y)."""
        return self.R @ x, y

    def back(self, x: Array, y: Array) -> tuple[Array, Array]:
        """(R⁻¹x, y)."""
        return scipy.linalg.solve_triangular(self.R, x, check_finite=False), y


def _affordable(problem: Problem) -> bool:
    """Whether M is dense, or nearly so, and not too large, and there are no bounds: they would become rows as long."""
    m, n = problem.rows, problem.columns
    if m == 0 or problem.lower is not None or not all(part.stored_matrix is not None for part, _ in problem.M.bands()):
        return False
    return n**3 / 3 + float(m) * n * n <= FLOPS and m * n <= DENSER * max(problem.M.work, 1 << 14)


def _matrix(terms: Terms, n: int) -> tuple[Array, Array] | None:
    """H as an array and the linear part, of a quadratic that is not a diagonal one."""
    linear = np.zeros(n) if terms.c is None else terms.c
    if terms.loss is None and terms.H is not None and not terms.has_products_only and terms.H.ndim == 2:
        H = terms.H.toarray() if sp.issparse(terms.H) else np.array(terms.H, np.float64)
    elif terms.is_quadratic and terms.H is None and isinstance(getattr(terms.A, "stored_matrix", None), np.ndarray):
        if float(terms.A.shape[0]) * n * n > FLOPS or terms.d is None:
            return None
        A = terms.A.stored_matrix.astype(np.float64, copy=False)
        H, linear = A.T @ A, linear + A.T @ terms.d
    else:
        return None
    if terms.ridge:
        H[np.diag_indices_from(H)] += terms.ridge
    return H, linear
