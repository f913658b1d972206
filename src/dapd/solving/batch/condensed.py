"""One change of variables for a whole family of quadratic problems: equations and Hessian disappear.

With the columns of Z an orthonormal basis of the null space of the equations Ex = e, RᵀR = ZᵀHZ, W = ZR⁻¹ and x_k the
minimiser of f on the equations, x = x_k + Wv gives f = ½‖v‖² + constant and no equations. The other rows and the bounds
become D·M_I·W with rows of norm one. All of that is computed once, and per problem it takes products with matrices.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from dapd.arrays import Array, namespace
from dapd.functions import Quadratic
from dapd.functions.terms import Part
from dapd.kinds.table import Table
from dapd.machine.blas import MANY, single_blas
from dapd.newton.parts import Curvature, linear_part
from dapd.presolve.terms import parts_of
from dapd.problem.problem import Problem
from dapd.solving.batch.family import Family
from dapd.spectrum.estimate import Spectrum

WIDEST = 2_000  # variables and equations up to which the dense factorisations are made
RANK = 1e-8  # least pivot of the equations, relative to the greatest, from which they count as independent
SINGULAR = 1e-10  # least squared pivot of R, relative to the greatest, from which the Hessian counts as regular
NOTHING = 1e-10  # norm of a row of M_I·W, relative to the row of M_I, that counts as zero


class Basis(NamedTuple):
    """What all problems of a family share: the factorisations, and what is made of them."""

    M: Array  # D·M_I·W
    rows: Table  # φ of these rows
    s_max: float
    W: Array
    D: Array
    factor: Array  # of the bounds of the other rows
    H: Array
    M_I: Array
    inverse: Array  # E⁺
    equations: Array  # places of the equations among all rows
    others: Array

    @property
    def change(self) -> Change:
        """The arrays of the change of variables."""
        return Change(self.W, self.D, self.factor, self.H, self.M_I, self.inverse, self.equations, self.others)


class Change(NamedTuple):
    """The arrays of `Basis` that points and numbers of a problem are multiplied by."""

    W: Array
    D: Array
    factor: Array
    H: Array
    M_I: Array
    inverse: Array
    equations: Array
    others: Array

    def of_data(self, b: Array, lower: Array, upper: Array, c: Array) -> tuple[Array, Array, Array, Array]:
        """The numbers b, lower and upper of the other rows, and x_k."""
        xp = namespace(b)
        e = (b[:, self.equations] + xp.atleast_2d(lower)[:, self.equations]) @ self.inverse.T
        at = e - ((e @ self.H - c) @ self.W) @ self.W.T
        b = (b[:, self.others] - at @ self.M_I.T) * self.D
        return b, lower[..., self.others] * self.factor, upper[..., self.others] * self.factor, at

    def back(self, at: Array, c: Array, v: Array, y: Array) -> tuple[Array, Array]:
        """(x, y) of the given problems, of a point in the new variables."""
        x = at + v @ self.W.T
        y_I = y * self.D
        y_E = (c - x @ self.H - y_I @ self.M_I) @ self.inverse
        place = namespace(y).argsort(namespace(y).concat([self.equations, self.others]))
        return x, namespace(y).concat([y_E, y_I], axis=1)[:, place]


class Condensed(NamedTuple):
    """The family in the new variables, and the way back."""

    basis: Basis
    b: Array  # (problems, rows)
    lower: Array  # (problems, rows) or (rows,)
    upper: Array
    at: Array  # x_k, (problems, columns)
    c: Array  # (problems, columns) or (columns,)

    @property
    def first(self) -> Problem:
        """The first problem, in the new variables."""
        M, rows, s_max, *_ = self.basis
        f = Quadratic(np.ones(M.shape[1]))
        return Problem(f, M, np.asarray(self.b[0]), rows.phi(), spectrum=Spectrum(s_max, 0.0))

    def back(self, v: Array, y: Array) -> tuple[Array, Array]:
        """(x, y) of the given problems; of NumPy or JAX arrays."""
        return self.basis.change.back(self.at, self.c, v, y)


def same(function: Any) -> Any:
    """The function itself."""
    return function


def condensed(family: Family, xp: Any = np, compiled: Any = same) -> Condensed | None:
    """The change of variables; None if f is not quadratic, or too large, or not strongly convex on the equations.

    What differs from problem to problem is computed with the arrays of `xp`, NumPy's or JAX's, perhaps compiled.
    """
    n = family.first.columns
    with single_blas(float(n) ** 3, MANY):
        return _condensed(family, xp, compiled) if n <= WIDEST else None


def _condensed(family: Family, xp: Any, compiled: Any) -> Condensed | None:
    first = family.first
    parts, table = parts_of(first), first.phi_table
    if parts is None or len(parts) > 1 or table is None or first.M.probes:
        return None
    terms = parts[0].terms
    if terms.loss is not None or terms.has_products_only:
        return None
    if first.lower is not None:  # in the new variables they are rows like others
        table = table.joined(Table.intervals(first.columns, *first.bounds))
    b, lower, upper = _rows(family, table, xp)
    equal = lower == upper
    equation = table.interval & np.asarray(equal if equal.ndim == 1 else equal.all(axis=0))
    # kept with the problem for later batches
    basis = first.memory.once(Basis, equation.tobytes(), lambda: _basis(first, parts, table, equation))
    if basis is None:
        return None
    c = linear_part(parts) if family.c is None else family.c.astype(np.float64)
    b, lower, upper, at = compiled(Change.of_data)(basis.change, b, lower, upper, c)
    if at.shape[0] == 1:
        at = xp.broadcast_to(at, (len(family), first.columns))
    return Condensed(
        basis=basis,
        b=b,
        lower=lower,
        upper=upper,
        at=at,
        c=c,
    )


def _basis(first: Problem, parts: list[Part], table: Table, equation: Array) -> Basis | None:
    n = first.columns
    equations, others = np.flatnonzero(equation), np.flatnonzero(~equation)
    if len(equations) > WIDEST or len(others) == 0:
        return None
    M = first.M.dense().astype(np.float64)
    if first.lower is not None:
        M = np.concatenate([M, np.eye(n)])
    P = Curvature(parts).P
    H = np.diag(P) if P.ndim == 1 else P.toarray() if sp.issparse(P) else P
    E, M_I = M[equations], M[others]
    Z, inverse = _null_space(E)
    if Z.shape[1] == 0:
        return None
    try:
        R = scipy.linalg.cholesky(Z.T @ H @ Z)
    except np.linalg.LinAlgError:
        return None
    pivots = R.diagonal() ** 2
    if not pivots.min() > SINGULAR * pivots.max():
        return None
    W = scipy.linalg.solve_triangular(R, Z.T, trans=1).T
    image = M_I @ W
    norms, sizes = np.linalg.norm(image, axis=1), np.linalg.norm(M_I, axis=1) * _norm(W)
    image[norms <= NOTHING * sizes] = 0.0
    rest = table.take(others)
    pooled = rest.pooled(np.where(norms > NOTHING * sizes, norms, 0.0))
    D = 1 / np.where(pooled > 0, pooled, 1.0)
    scaled = image * D[:, None]
    return Basis(
        M=scaled,
        rows=rest.scaled(D),
        s_max=_norm(scaled) * (1 + 1e-10) or 1.0,
        W=W,
        D=D,
        factor=rest.factors(D),
        H=H,
        M_I=M_I,
        inverse=inverse,
        equations=equations,
        others=others,
    )


def _norm(matrix: Array) -> float:
    """‖matrix‖₂."""
    small = matrix.T @ matrix if matrix.shape[0] >= matrix.shape[1] else matrix @ matrix.T
    return math.sqrt(max(float(scipy.linalg.eigvalsh(small, check_finite=False)[-1]), 0.0))


def _null_space(E: Array) -> tuple[Array, Array]:
    """An orthonormal basis of the null space of E, and its pseudoinverse."""
    rows, columns = E.shape
    if rows == 0:
        return np.eye(columns), np.zeros((columns, 0))
    if rows <= columns:
        Q, R = scipy.linalg.qr(E.T, check_finite=False)
        pivots = abs(R.diagonal())
        if pivots.min() > RANK * pivots.max():
            return Q[:, rows:], scipy.linalg.solve_triangular(R[:rows], Q[:, :rows].T, check_finite=False).T
    return scipy.linalg.null_space(E), np.linalg.pinv(E)


def _rows(family: Family, table: Table, xp: Any) -> tuple[Array, Array, Array]:
    """What b and the bounds of all rows are, as arrays of `xp`, with a row per problem; shared bounds are vectors."""
    first = family.first
    b = xp.atleast_2d(xp.asarray(first.b if family.b is None else family.b, np.float64))
    lower, upper = table.lower, table.upper
    if first.lower is not None:
        b = xp.concatenate([b, xp.zeros((len(b), first.columns))], axis=1)
        if family.bounds is not None:
            shape = len(family), first.rows
            lower, upper = (
                xp.concatenate([xp.broadcast_to(of_rows[: first.rows], shape), xp.asarray(of_x)], axis=1)
                for of_rows, of_x in zip((lower, upper), family.bounds, strict=True)
            )
    return b, lower, upper
