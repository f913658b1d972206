"""The linear system behind a derivative: that of the optimality conditions at the solution, in NumPy and float64."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from copy import copy
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from dapd.arrays import Array
from dapd.certificate.sums import balanced_step, products_of
from dapd.derivatives.front import NotSolved
from dapd.derivatives.hessian import Hessian, hessian_of, squares
from dapd.derivatives.systems import Factorised, Iterated, seconds_of
from dapd.kinds.base import Phi
from dapd.kinds.table import Derivative, Table
from dapd.machine.blas import MANY, single_blas
from dapd.newton.costs import MEMORY
from dapd.newton.matrices import Matrix, NotExplicit, TooExpensive, explicit
from dapd.problem.problem import Problem

Point = tuple[Array, Array]  # x, and y or (y, z)

QUICK, LONGEST = 1.0, 100.0  # seconds of a factorisation that is made at once, and of one that is made if products fail
ROUNDED = 1e-7  # distance of an eigenvalue of a derivative, found by differences, from 0 or 1 that is rounding
FLAT = 1e-10  # part of the greatest entry of ∇²f's diagonal below which another one does not count for the scaling


class Conditions:
    """The optimality conditions of a problem, with its bounds as rows: what of them does not depend on the point."""

    def __init__(self, problem: Problem, hessian: Callable[[Array], Hessian] | None = None) -> None:
        self.given, problem = problem, problem.stacked
        self.problem, self.prox = problem, Prox(problem)
        self.M: Matrix = None  # if its entries are known and not too many
        if (problem.M.entry_count or 0) <= MEMORY:
            with suppress(NotExplicit):
                self.M = explicit(problem.M, np.inf)
        self.hessian = hessian_of(problem) if hessian is None else hessian

    def moved(self, problem: Problem) -> Conditions:
        """Those of a problem that was made of this one by `replaced`, with the same ∇²f and M."""
        other = copy(self)
        other.given, other.problem = problem, problem.stacked
        if other.problem.phi is not self.problem.phi:
            other.prox = Prox(other.problem)
        return other

    def forward(self, x: Array) -> Array:
        """Mx."""
        return self.problem.M.forward(x) if self.M is None else self.M @ x

    def adjoint(self, w: Array) -> Array:
        """Mᵀw."""
        return self.problem.M.adjoint(w) if self.M is None else self.M.T @ w

    def steps(self, x: Array, w: Array) -> Array:
        """The prox steps at which w and Mx − b count alike near (x, w), equal in the rows of a group."""
        problem = self.problem
        return np.full(w.size, balanced_step(problem, w, products_of(problem, x, w)).steps)

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
        problem, self.conditions, self.steps = conditions.problem, conditions, steps
        self.slope = problem.f.grad(x) + conditions.adjoint(w)
        p, self.D = conditions.prox.at(w + steps * (conditions.forward(x) - problem.b), steps)
        self.shift = p - w
        self.hessian = conditions.hessian(x)
        self.factors = self._factorised(QUICK)

    def newton_step(self) -> Point:
        """The step to the root of the linearised conditions."""
        return self.solve(-self.slope, self.shift)

    def solve(self, r: Array, q: Array) -> Point:
        """J⁻¹(r, q); if J is singular, from the least-squares solution of least norm of the symmetric system.

        Raises
        ------
        NotSolved
            If the system is too large to factorise, and products do not solve it.
        """
        dx, u = self._symmetric(r - self.conditions.adjoint(q), -(self.D.times(q) / self.steps)[self.D.active])
        return dx, q + self.D.spread(u)

    def solve_transpose(self, r: Array, q: Array) -> Point:
        """J⁻ᵀ(r, q)."""
        dx, u = self._symmetric(r, self.D.times(q)[self.D.active])
        return dx, q - self.conditions.forward(dx) - self.D.spread(u) / self.steps

    def _symmetric(self, r: Array, q: Array) -> Point:
        """The solution of the symmetric system."""
        rhs, columns = np.concatenate([r, q]), r.size
        if self.factors is None:
            try:
                found = self._iterated().solve(rhs)
                return found[:columns], found[columns:]
            except NotSolved:
                self.factors = self._factorised(LONGEST)
                if self.factors is None:
                    raise
        found = self.factors.solve(rhs)
        return found[:columns], found[columns:]

    def _factorised(self, seconds: float) -> Factorised | None:
        """The factorised system; None if that takes longer, or the entries are not known."""
        if self.conditions.M is None:
            return None
        try:
            parts = self.hessian.entries(seconds), *self.D.coupling(self.conditions.M, self.steps)
        except (NotExplicit, TooExpensive):
            return None
        return Factorised(*parts) if seconds_of(*parts, seconds) <= seconds else None

    def _iterated(self) -> Iterated:
        """The system by its products, scaled by the diagonals of ∇²f and of its Schur complement."""
        D, columns, steps = self.D, self.slope.size, self.steps[self.D.active]

        def times(v: Array) -> Array:
            dx, u = v[:columns], v[columns:]
            slope = self.hessian.times(dx) + self.conditions.adjoint(D.spread(u))
            return np.concatenate([slope, D.times(self.conditions.forward(dx))[D.active] - D.bent(u) / steps])

        curved = self.hessian.sizes
        greatest = float(curved.max(initial=0.0)) or 1.0
        curved = np.where(curved > FLAT * greatest, curved, greatest)
        across = D.sizes[D.active]
        rows = across**2 * squares(self.conditions.problem.M, 1 / curved)[D.active] + (across - across**2) / steps
        return Iterated(times, np.concatenate([curved, rows]))


class Prox:
    """The prox of φ by rows, and its derivative, of which a kind that nobody knows tells by itself."""

    def __init__(self, problem: Problem) -> None:
        self.others: list[tuple[Phi, slice]] = []
        table = problem.phi_table or Table.of(problem.phi, problem.rows, self.others)
        assert table is not None  # since there is a list for others
        self.table = table

    def at(self, v: Array, steps: Array) -> tuple[Array, ProxDerivative]:
        """The prox at v, and its derivative there."""
        p, found = self.table.prox_and_derivative(v, steps)
        D = ProxDerivative(self.table, found)
        for kind, at in self.others:
            own = steps[at] if kind.row_steps else float(steps[at.start])
            p[at] = kind.prox(v[at], own)
            D.put(at, np.asarray(kind.derivative(v[at], own)))
        return p, D


class ProxDerivative:
    """D of the prox, symmetric with eigenvalues in [0, 1]: across + Σ extra·uuᵀ, with a u for each group, or more.

    D(I − D), made regular in the directions that D maps to zero, is across(1 − across) + Σ bends·uuᵀ.
    """

    def __init__(self, rows: Table, found: Derivative) -> None:
        self.across, self.sizes = found.across, found.across.copy()
        self.units: Any = sp.csr_array((found.across.size, 0))  # the directions u, as columns
        self.extra = self.bends = np.zeros(0)
        if rows.members.size:
            of_group = found.across[rows.members[rows.starts]]
            units = sp.csr_array((found.unit, (rows.members, rows.owner)), shape=(rows.unit.size, len(of_group)))
            self._turn(units, found.along, of_group)

    def put(self, at: slice, own: Array) -> None:
        """The derivative in these rows: its diagonal, or a matrix, whose eigenvectors are the directions u."""
        values, vectors = (own, None) if own.ndim == 1 else np.linalg.eigh(own)
        values = np.where(values < ROUNDED, 0.0, np.where(values > 1 - ROUNDED, 1.0, values))
        if vectors is None:
            self.across[at] = self.sizes[at] = values
            return
        self.across[at], self.sizes[at] = 0.0, 1.0
        above, below = (sp.csr_array((rows, len(values))) for rows in (at.start, self.across.size - at.stop))
        self._turn(sp.vstack([above, vectors, below]), values, np.zeros(len(values)))

    def _turn(self, units: Any, values: Array, before: Array) -> None:
        """Give D these eigenvalues in some directions, instead of those on its diagonal."""
        regular = np.where(values == 0, 1.0, values - values**2)
        self.units = sp.csr_array(sp.hstack([self.units, units]))
        self.extra = np.concatenate([self.extra, values - before])
        self.bends = np.concatenate([self.bends, regular - (before - before**2)])

    @cached_property
    def active(self) -> Array:
        """The rows that D does not map to zero."""
        return np.flatnonzero(self.sizes)

    def times(self, u: Array) -> Array:
        """Du."""
        return self.across * u + self._along(self.extra, u)

    def _along(self, weights: Array, u: Array) -> Any:
        return self.units @ (weights * (self.units.T @ u)) if weights.size else 0.0

    def _whole(self, u: Array) -> Array:
        """All rows, from the active ones."""
        whole = np.zeros(self.across.size)
        whole[self.active] = u
        return whole

    def spread(self, u: Array) -> Array:
        """Du, from the active rows."""
        return self.times(self._whole(u))

    def bent(self, u: Array) -> Array:
        """D(I − D)u, made regular; from and to the active rows."""
        whole = self._whole(u)
        return ((self.across - self.across**2) * whole + self._along(self.bends, whole))[self.active]

    def coupling(self, M: Matrix, steps: Array) -> tuple[Matrix, Matrix]:
        """DM and S⁻¹D(I − D) of the active rows, the latter made regular.

        Raises
        ------
        TooExpensive
            If the groups are so large that D, which has a dense block for each, has too many entries.
        """
        across = self.across[self.active]
        if not self.extra.size and np.all(across == 1):
            return M[self.active], sp.csr_array((self.active.size,) * 2)
        units = self.units[self.active]
        if float(units.count_nonzero(axis=0).astype(np.float64) @ units.count_nonzero(axis=0)) > MEMORY:
            raise TooExpensive("the entries of the derivative of the prox")
        D, bent = (
            sp.diags_array(diagonal) + units @ sp.diags_array(weights) @ units.T
            for diagonal, weights in ((across, self.extra), (across - across**2, self.bends))
        )
        return D @ M[self.active], sp.csr_array(sp.diags_array(1 / steps[self.active]) @ bent)
