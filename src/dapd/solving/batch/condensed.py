"""One change of variables for a whole family of quadratic problems: equations and Hessian disappear.

With the columns of Z an orthonormal basis of the null space of the equations Ex = e, RᵀR = ZᵀHZ, W = ZR⁻¹ and x_k the
minimiser of f on the equations, x = x_k + Wv gives f = ½‖v‖² + constant and no equations. The other rows become
D·M_I·W with rows of norm one. All of that is computed once, and per problem it takes products with matrices.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from dapd.arrays import Array, namespace
from dapd.functions.terms import Terms
from dapd.kinds.table import Table
from dapd.machine.blas import MANY, single_blas
from dapd.presolve.tables import table_of
from dapd.presolve.terms import parts_of
from dapd.problem.problem import Problem
from dapd.solving.batch.family import Family

WIDEST = 2_000  # variables and equations up to which the dense factorisations are made
RANK = 1e-8  # least pivot of the equations, relative to the greatest, from which they count as independent
SINGULAR = 1e-10  # least squared pivot of R, relative to the greatest, from which the Hessian counts as regular
NOTHING = 1e-10  # norm of a row of M_I·W, relative to the row of M_I, that counts as zero


class Condensed(NamedTuple):
    """The family in the new variables, and the way back."""

    M: Array  # D·M_I·W
    rows: Table  # φ of these rows
    b: Array  # (problems, rows)
    lower: Array  # (problems, rows) or (rows,)
    upper: Array
    s_max: float
    at: Array  # x_k, (problems, columns)
    W: Array
    D: Array
    H: Array
    c: Array  # (problems, columns) or (columns,)
    M_I: Array
    to_y: Array  # −(Eᵀ)⁺, transposed
    equations: Array  # places of the equations among all rows
    others: Array

    def back(self, v: Array, y: Array) -> tuple[Array, Array]:
        """(x, y) of the given problems; of NumPy or JAX arrays."""
        x = self.at + v @ self.W.T
        y_I = y * self.D
        y_E = (x @ self.H - self.c + y_I @ self.M_I) @ self.to_y
        place = np.argsort(np.concatenate([self.equations, self.others]))
        return x, namespace(y).concat([y_E, y_I], axis=1)[:, place]


class Basis(NamedTuple):
    """What all problems of a family share of `Condensed`: the factorisations, and what is made of them."""

    M: Array  # D·M_I·W
    rows: Table
    s_max: float
    W: Array
    D: Array
    factor: Array  # of the bounds of the other rows
    H: Array
    M_I: Array
    inverse: Array  # E⁺
    equations: Array
    others: Array


def condensed(family: Family, xp: Any = np) -> Condensed | None:
    """The change of variables; None if f is not quadratic, or too large, or not strongly convex on the equations.

    What differs from problem to problem is computed with the arrays of `xp`, NumPy's or JAX's.
    """
    n = family.first.columns
    with single_blas(float(n) ** 3, MANY):
        return _condensed(family, xp) if n <= WIDEST else None


def _condensed(family: Family, xp: Any) -> Condensed | None:
    first = family.first.stacked
    parts, table = parts_of(first), table_of(first)
    if parts is None or len(parts) > 1 or table is None or first.M.probes:
        return None
    terms = parts[0].terms
    if terms.loss is not None or terms.has_products_only:
        return None
    rows = stacked_rows(family, table, xp)
    basis = _basis(first, terms, table, _equations(table, rows))
    if basis is None:
        return None
    equations, others, W = basis.equations, basis.others, basis.W
    linear = np.zeros(first.columns) if terms.c is None else terms.c.astype(np.float64)
    c = linear if family.c is None else family.c.astype(np.float64)
    e = (rows.b[:, equations] + xp.atleast_2d(rows.lower)[:, equations]) @ basis.inverse.T
    at = e - ((e @ basis.H - c) @ W) @ W.T
    if at.shape[0] == 1:
        at = xp.broadcast_to(at, (len(family), first.columns))
    return Condensed(
        M=basis.M,
        rows=basis.rows,
        b=(rows.b[:, others] - at @ basis.M_I.T) * basis.D,
        lower=rows.lower[..., others] * basis.factor,
        upper=rows.upper[..., others] * basis.factor,
        s_max=basis.s_max,
        at=at,
        W=W,
        D=basis.D,
        H=basis.H,
        c=c,
        M_I=basis.M_I,
        to_y=-basis.inverse,
        equations=equations,
        others=others,
    )


def _equations(table: Table, rows: StackedRows) -> Array:
    """Which rows are equations of every problem."""
    equal = rows.lower == rows.upper
    return table.interval & np.asarray(equal if equal.ndim == 1 else equal.all(axis=0))


def _basis(first: Problem, terms: Terms, table: Table, equation: Array) -> Basis | None:
    """The factorisations, kept with the problem for later batches."""
    return first.memory.once(_basis, equation.tobytes(), lambda: _factorised(first, terms, table, equation))


def _factorised(first: Problem, terms: Terms, table: Table, equation: Array) -> Basis | None:
    n = first.columns
    equations, others = np.flatnonzero(equation), np.flatnonzero(~equation)
    if len(equations) > WIDEST or len(others) == 0:
        return None
    M = first.M.dense().astype(np.float64)
    H = np.zeros((n, n)) if terms.H is None else terms.H.toarray() if sp.issparse(terms.H) else np.asarray(terms.H)
    H = (np.diag(H) if H.ndim == 1 else H.astype(np.float64)) + terms.ridge * np.eye(n)
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


class StackedRows(NamedTuple):
    """b and the bounds of all rows, with a row per problem, or with one for all."""

    b: Array
    lower: Array
    upper: Array


def stacked_rows(family: Family, table: Table, xp: Any = np) -> StackedRows:
    """The rows of the stacked problems, as arrays of `xp`; bounds that all share are vectors."""
    first = family.first
    b = xp.atleast_2d(xp.asarray(first.b if family.b is None else family.b, np.float64))
    lower, upper = table.lower, table.upper
    if first.lower is not None:
        b = xp.concatenate([b, xp.zeros((len(b), first.columns))], axis=1)
        if family.lower is not None and family.upper is not None:
            own = [xp.broadcast_to(side[: first.rows], (len(family), first.rows)) for side in (lower, upper)]
            lower = xp.concatenate([own[0], xp.asarray(family.lower)], axis=1)
            upper = xp.concatenate([own[1], xp.asarray(family.upper)], axis=1)
    return StackedRows(b, lower, upper)
