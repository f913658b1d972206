"""The linear system behind a derivative: that of the optimality conditions at the solution, in NumPy and float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import qdldl
import scipy.linalg
import scipy.sparse as sp

from dapd.arrays import Array
from dapd.blas import MANY, single_blas
from dapd.model.lowered import pieces_of
from dapd.model.problem import Problem
from dapd.model.terms import Terms
from dapd.second_order.curvature import Curvature
from dapd.second_order.matrices import Matrix, explicit
from dapd.second_order.rows import ProxRows
from dapd.solving.rows import balanced_step

Point = tuple[Array, Array]  # x, and y or (y, z)
Hessian = Callable[[Array], Array]

SHIFT = 1e-9  # of the eigenvalues of the scaled system, which may be singular
REFINEMENTS = 20
ACCURATE, INCONSISTENT = 1e-15, 1e-7  # relative residuals, at which to stop, and which mean that there is no solution
DENSE_SIZE = 100  # systems up to this size are factorised as dense ones


class Conditions:
    """The optimality conditions of a problem, with its bounds as rows: what of them does not depend on the point."""

    def __init__(self, problem: Problem, hessian: Hessian | None = None) -> None:
        problem = problem.stacked
        pieces = pieces_of(problem.phi, problem.rows)
        if pieces is None:
            raise TypeError(f"the derivative of the prox of {type(problem.phi).__name__} is not known")
        self.problem, self.rows = problem, ProxRows(pieces)
        self.M = explicit(problem.M, np.inf)
        self.hessian = _hessian_of(problem) if hessian is None else hessian

    def steps(self, x: Array, w: Array) -> Array:
        """The prox steps at which w and Mx − b count alike near (x, w), equal in the rows of a group."""
        problem = self.problem
        return np.full(w.size, balanced_step(problem, x, w, problem.M.forward(x)).steps)

    def at(self, x: Array, w: Array, steps: Array) -> Linearised:
        """Their derivative at (x, w)."""
        with single_blas((x.size + w.size) ** 3, MANY):
            return Linearised(self, x, w, steps)


class Linearised:
    """The derivative J of the optimality conditions at (x, w), w the multipliers of all rows, bounds included.

    With S the steps and D the derivative of the prox at w + S(Mx − b), J(dx, dw) = (∇²f·dx + Mᵀdw, dw − D(dw + SM·dx)).
    To solve J(dx, dw) = (r, q), set dw = q + Du. Then, since S and D commute,

        [ ∇²f       MᵀD      ] [dx]   [r − Mᵀq]
        [ DM    −S⁻¹D(I − D) ] [u ] = [ −S⁻¹Dq ],

    which is symmetric, so the transpose of J needs no other factorisation. Rows with D = 0 are left out.
    """

    def __init__(self, conditions: Conditions, x: Array, w: Array, steps: Array) -> None:
        problem, self.M, self.steps = conditions.problem, conditions.M, steps
        v = w + steps * (self.M @ x - problem.b)
        self.slope = problem.f.grad(x) + self.M.T @ w
        self.shift = conditions.rows.prox(v, steps) - w
        self.D = _ProxDerivative(conditions.rows, v, steps)
        self.system = _Symmetric(conditions.hessian(x), *self.D.coupling(self.M, steps))

    def newton_step(self) -> Point:
        """The step to the root of the linearised conditions."""
        return self.solve(-self.slope, self.shift)

    def solve(self, r: Array, q: Array) -> Point:
        """J⁻¹(r, q); if J is singular, from the least-squares solution of least norm of the symmetric system."""
        dx, u = self.system.solve(r - self.M.T @ q, -(self.D.times(q) / self.steps)[self.D.active])
        return dx, q + self.D.spread(u)

    def solve_transpose(self, r: Array, q: Array) -> Point:
        """J⁻ᵀ(r, q)."""
        dx, u = self.system.solve(r, self.D.times(q)[self.D.active])
        return dx, q - self.M @ dx - self.D.spread(u) / self.steps


class _ProxDerivative:
    """D of the prox at v: 0 or 1 in rows by themselves, symmetric with eigenvalues in [0, 1] in groups."""

    def __init__(self, rows: ProxRows, v: Array, steps: Array) -> None:
        found = rows.derivative(v, steps)
        self.across = found.across
        self.active = np.flatnonzero(self.across)
        self.units: Any = None  # the direction v̂ of each group
        if rows.grouped.size:
            of_group = found.across[rows.grouped[rows.starts]]
            self.units = sp.csr_array((found.unit, (rows.grouped, rows.owner)), shape=(v.size, len(rows.starts)))
            self.extra = found.along - of_group  # D = across + Σ extra·v̂v̂ᵀ
            self.lost = ((found.along == 0) & (of_group > 0)).astype(np.float64)  # directions that D maps to zero

    def times(self, u: Array) -> Array:
        """Du."""
        rest = 0.0 if self.units is None else self.units @ (self.extra * (self.units.T @ u))
        return self.across * u + rest

    def spread(self, u: Array) -> Array:
        """Du, from the active rows."""
        whole = np.zeros(self.across.size)
        whole[self.active] = u
        return self.times(whole)

    def coupling(self, M: Matrix, steps: Array) -> tuple[Matrix, Matrix]:
        """DM and S⁻¹D(I − D) of the active rows, the latter made regular in the directions that D maps to zero."""
        if self.units is None:
            return M[self.active], sp.csr_array((self.active.size,) * 2)
        units = self.units[self.active]
        D = sp.diags_array(self.across[self.active]) + units @ sp.diags_array(self.extra) @ units.T
        regular = D - D @ D + units @ sp.diags_array(self.lost) @ units.T
        return D @ M[self.active], sp.csr_array(sp.diags_array(1 / steps[self.active]) @ regular)


def _hessian_of(problem: Problem) -> Callable[[Array], Matrix]:
    """∇²f as a function of x."""
    terms = problem.f.lowered()
    if terms is None:
        raise TypeError(f"the Hessian of {type(problem.f).__name__} is not known")
    whole = isinstance(terms, Terms)
    sizes = [problem.columns] if whole else [block.stop - block.start for block in problem.blocks or []]
    curvature = Curvature(terms, sizes)
    P = sp.diags_array(curvature.P, format="csr") if curvature.P.ndim == 1 else curvature.P

    def at(x: Array) -> Matrix:
        if not curvature.rows:
            return P
        A, weights = curvature.A, curvature.curvatures(curvature.image(x))
        return A.T @ (sp.diags_array(weights) @ A if sp.issparse(A) else weights[:, None] * A) + P

    if not curvature.quadratic:
        return at
    constant = at(np.zeros(problem.columns))
    return lambda x: constant


class _Symmetric:
    """[H Bᵀ; B −C] with positive semidefinite H and C, possibly singular.

    The factorised matrix is that with H + δI and C + δI, which is quasidefinite. Refinement makes up for δ. The null
    space of the matrix is a product of one in x and one in u, so refinement from zero gives the solution of least norm.
    """

    def __init__(self, H: Matrix, B: Matrix, C: Matrix) -> None:
        self.columns = H.shape[0]
        size = self.columns + B.shape[0]
        sparse = all(map(sp.issparse, (H, B, C))) and size > DENSE_SIZE
        if sparse:
            K = sp.block_array([[H, B.T], [B, -C]], format="csc")
            greatest = abs(K).max(axis=0).toarray().ravel()
        else:
            H, B, C = (part.toarray() if sp.issparse(part) else part for part in (H, B, C))
            K = np.block([[H, B.T], [B, -C]])
            greatest = abs(K).max(axis=0, initial=0.0)
        self.scale = 1 / np.sqrt(np.where(greatest > 0, greatest, 1.0))
        self.signs = np.concatenate([np.ones(self.columns), -np.ones(size - self.columns)])
        if sparse:
            around = sp.diags_array(self.scale)
            self.K = sp.csc_array(around @ K @ around)
            self._solve: Callable[[Array], Array] = qdldl.Solver(
                sp.csc_matrix(self.K + SHIFT * sp.diags_array(self.signs))
            ).solve
        else:
            self.K = self.scale[:, None] * K * self.scale
            factors = scipy.linalg.lu_factor(self.K + SHIFT * np.diag(self.signs), check_finite=False)
            self._solve = lambda r: scipy.linalg.lu_solve(factors, r, check_finite=False)

    def solve(self, r: Array, q: Array) -> Point:
        """The solution of least norm, of the least-squares problem if there is none (in scaled variables)."""
        rhs = self.scale * np.concatenate([r, q])
        found, left = self._refined(rhs)
        if left > INCONSISTENT * np.linalg.norm(rhs):
            for _ in range(3):  # again, for what rounding leaves
                rhs = rhs - self._null_part(rhs)
            found, _ = self._refined(rhs)
        found = self.scale * found
        return found[: self.columns], found[self.columns :]

    def _null_part(self, rhs: Array) -> Array:
        """The part in the null space, on which the factorised matrix is ±δ; elsewhere each pass divides by λ/δ."""
        for _ in range(4):
            rhs = SHIFT * self.signs * self._solve(rhs)
        return rhs

    def _refined(self, rhs: Array) -> tuple[Array, float]:
        """The solution from zero on, and the norm of what is left of the right-hand side."""
        found, left = np.zeros(rhs.size), rhs
        norm = size = float(np.linalg.norm(rhs))
        for _ in range(REFINEMENTS):
            if norm <= ACCURATE * size:
                break
            more = found + self._solve(left)
            left = rhs - self.K @ more
            last, norm = norm, float(np.linalg.norm(left))
            if not norm < last:
                return found, last
            found = more
            if norm > 0.5 * last:
                break
        return found, norm
