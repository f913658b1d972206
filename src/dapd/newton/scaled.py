"""A problem as Newton's method has it: scaled, with its matrices explicit, and the system of its steps."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import partial

import numpy as np
import scipy.sparse as sp

from dapd.arrays import Array
from dapd.kinds.table import NONE, Derivative, Table
from dapd.newton.costs import choose_system
from dapd.newton.matrices import Matrix, probes, same_pattern, scaled, split, stack
from dapd.newton.parts import Curvature, explicit_parts, linear_part, right_of, rows_of, ruiz, same_matrices, terms_of
from dapd.newton.systems import CORRECTIONS, Singular, System
from dapd.newton.weights import Groups, Weights, weigh
from dapd.problem.problem import Problem

PROBING = 10  # seconds, in factorisations, that products may take to find the entries of a matrix-free M
FIRMER = (1.0, 1e2, 1e4, 1e6)  # factors of δ, tried in turn until a factorisation succeeds

Solve = Callable[[Array, Array], tuple[Array, Array]]


class ScaledProblem:
    """Rows, f, M and b of x̂ and ŷ, with x = columns·x̂ and y = rows·ŷ/cost, and a Newton system for them."""

    def __init__(self, problem: Problem, *, seconds: float = np.inf) -> None:
        known = probes(problem.M)
        rows, curvature, M = explicit_parts(problem, PROBING * seconds)
        self.products = probes(problem.M) - known  # made for the entries of M
        self.problem = problem
        self.groups = Groups(curvature.rows + rows.members, rows.starts, rows.owner)
        self.keep = np.zeros(curvature.rows + problem.multipliers, bool)
        self.keep[self.groups.rows] = True
        stacked = stack([curvature.A, M] if curvature.rows else [M], problem.columns)
        chosen = choose_system(curvature.P, split(stacked, self.keep), self.groups, seconds)
        self.made_by, self.cost, self.work = chosen  # the cost is in seconds, the work in multiplications by BLAS
        self.kind = (self.made_by.__doc__ or self.made_by.__name__).partition(",")[0]
        self.factors = ruiz(curvature, M, rows)
        self._set(rows, curvature, M)
        self.system = self._assembled()
        self.factorizations = 0
        self.factored: tuple[Derivative, Array, float] | None = None  # what the system was last factorised for

    def _set(self, rows: Table, curvature: Curvature, M: Matrix) -> None:
        d, e, cost = self.factors
        self.rows, self.f, self.M = rows.scaled(e, cost), curvature.scaled(d, cost), scaled(M, e, d)
        self.Mt = self.M.T.tocsr() if sp.issparse(self.M) else self.M.T
        self.b = e * right_of(self.problem)

    def _assembled(self) -> System:
        matrix = stack([self.f.A, self.M] if self.f.rows else [self.M], self.f.size)
        return self.made_by(self.f.P, split(matrix, self.keep), self.groups)

    def update(self, problem: Problem) -> bool:
        """Take the numbers of a problem of the same pattern, keeping scaling, ordering and σ; False if it has another.

        As long as f's matrices and M are the same objects, the last factorisation stays valid too.
        """
        before = self.problem
        if problem is before:
            return True
        new_f, new_M = problem.f is not before.f, problem.M is not before.M
        if new_M or (new_f and not same_matrices(before, problem)):
            rows, curvature, M = explicit_parts(problem)
            pairs = ((curvature.P, self.f.P), (curvature.A, self.f.A), (M, self.M))
            if not (rows.same_groups(self.rows) and all(same_pattern(*pair) for pair in pairs)):
                return False
            self.problem = problem
            self._set(rows, curvature, M)
            system = self._assembled()
            system.adopt(self.system)
            self.system, self.factored = system, None
            return True
        d, e, cost = self.factors
        if any(getattr(problem, name) is not getattr(before, name) for name in ("phi", "lower", "upper")):
            rows = rows_of(problem)
            if not rows.same_groups(self.rows):
                return False
            self.rows = rows.scaled(e, cost)
        if new_f:
            self.f = copy(self.f)
            self.f.c = cost * d * linear_part(terms_of(problem))
        self.problem, self.b = problem, e * right_of(problem)
        return True

    def unscaled(self, x: Array, y: Array) -> tuple[Array, Array]:
        """The x and y of the problem itself."""
        d, e, cost = self.factors
        return d * x, e * y / cost

    def residuals(self, x: Array, y: Array) -> tuple[Array, Array]:
        """−(∇f(x) + Mᵀy), and Mx − b."""
        return -(self.f.gradient(x, self.f.image(x)) + self.Mt @ y), self.M @ x - self.b

    def weighted(self, weights: Array, delta: float) -> Solve:
        """A function that gives (d, dy) with (∇²f + δ)d + Mᵀdy = r and dy = weights·Md + s for any (r, s)."""
        across = np.sqrt(np.concatenate([self.f.curvatures(np.zeros(self.f.rows)), weights]))
        self.weights, self.factored = Weights(across, NONE, NONE, self.groups), None
        self.factorizations += 1
        self.system.factor(np.full(self.f.size, delta), self.weights)
        return partial(self.solve, corrections=0)

    def factor(self, image: Array, derivative: Derivative, steps: Array, delta: float) -> None:
        """Prepare to solve with ∇²f at this image, this derivative of the prox with the steps σ, and δ."""
        known = self.factored
        same = known is not None and known[1] is steps and known[2] == delta
        if self.f.quadratic and known is not None and same and derivative.same_rows(known[0]):
            return
        self.factored = (derivative, steps, delta)
        self.weights = weigh(self.f.curvatures(image), derivative, steps, self.rows, self.groups)
        for more in FIRMER:
            self.factorizations += 1
            try:
                return self.system.factor(np.full(self.f.size, more * delta), self.weights)
            except Singular:  # rounding hides δ; with more of it, steps are only shorter
                if more == FIRMER[-1]:
                    self.factored = None
                    raise

    def solve(self, r: Array, s: Array | None = None, corrections: int = CORRECTIONS) -> tuple[Array, Array]:
        """(d, dy) with (∇²f + δ)d + Mᵀdy = r and dy = σDMd + s; if there is no s, only d."""
        losses, q = self.f.rows, np.zeros(self.weights.across.size)
        if s is None:
            return self.system.solve(r, q, corrections=corrections)[0], NONE
        q[losses:] = s
        q, null = self.weights.divided(q)
        r = r - self.Mt @ null[losses:] if null.any() else r
        d, z = self.system.solve(r, q, corrections=corrections)
        return d, (self.weights.times(z) + null)[losses:]
