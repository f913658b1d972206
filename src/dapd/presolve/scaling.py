"""Other variables: x = columns·x̂ and y = rows·ŷ by factors, and x = R⁻¹x̂ with H = RᵀR for f = ½xᵀHx − cᵀx."""

from __future__ import annotations

import math
from functools import singledispatch
from typing import Self

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from dapd.arguments import LARGEST
from dapd.arrays import Array
from dapd.functions import Function, Quadratic
from dapd.functions.terms import Terms
from dapd.kinds.table import Table
from dapd.machine.blas import MANY, single_blas
from dapd.operators.base import Operator
from dapd.operators.explicit import Dense
from dapd.operators.factors import Entries, damped, spread
from dapd.operators.structured import Kronecker
from dapd.presolve.maps import scaled_map
from dapd.presolve.terms import parts_of, scaled_function
from dapd.presolve.transform import FLOPS, Transform, rebuilt_problem
from dapd.problem.problem import Problem
from dapd.problem.way_back import WayBack

ROUND = 1 + 1e-9  # L/μ up to which f counts as perfectly conditioned
GREATEST = 2.0**60  # greatest factor that is a power of two
UNEVEN = 8.0  # ratio of column factors from which columns are scaled
ROUNDS = 10  # rounds of Ruiz scaling
CONDITION = 1e14  # condition of a diagonal H from which its inverse square root is not trusted
DENSER = 4  # greatest ratio of the entries of M as a dense array and those that are stored
REACH = 1e-7  # least R_kk relative to its row's norm; the condition of H is at most about its inverse square


class _Factors(Transform):
    """A problem scaled by given factors."""

    def __init__(self, problem: Problem, table: Table, rows: Array, columns: Array) -> None:
        parts = parts_of(problem)
        self.rows, self.columns = rows, columns
        keeps_f = bool(np.all(columns == 1.0))
        self.problem = rebuilt_problem(
            problem,
            f=None if keeps_f or parts is None else scaled_function(problem, parts, columns),
            M=scaled_map(problem.M, rows, columns),
            b=self.new_b(problem.b),
            phi=table.scaled(rows).phi(),
            bounds=None if problem.lower is None else (problem.bounds[0] / columns, problem.bounds[1] / columns),
        )
        self.way_back = WayBack(columns, rows if problem.lower is None else np.append(rows, 1 / columns))

    @classmethod
    def of_columns(cls, problem: Problem, table: Table, columns: Array) -> Self | None:
        """Scale the columns, and rows of an identity by the inverse factors; None if some of these are in groups."""
        places = identity_columns(problem.M)
        if np.any(table.grouped & (places >= 0)):
            return None
        return cls(problem, table, np.where(places < 0, 1.0, 1 / columns[np.maximum(places, 0)]), columns)

    def new_b(self, b: Array) -> Array:
        """The same factors for another b."""
        return b * self.rows.astype(b.dtype)


class RowScaling(_Factors):
    """Rows of norm near one; f and x stay as they are."""

    name = "row scaling"
    why = "Rows were scaled."

    @classmethod
    def apply(cls, problem: Problem) -> Self | None:
        """Scale the rows; None if all factors are one."""
        table = problem.phi_table
        if table is None:
            return None
        rows = norm_factors(problem.M, table, problem.lower is not None)
        return None if np.all(rows == 1.0) else cls(problem, table, rows, np.ones(problem.columns))


class DiagonalVariables(_Factors):
    """x = H^{−1/2}x̂ for f = ½xᵀHx − cᵀx with a diagonal H > 0: the new f has κ = 1."""

    name = "change of variables"
    why = "Variables were scaled to make the Hessian the identity."

    @classmethod
    def apply(cls, problem: Problem) -> Self | None:
        """Change the variables; None if f is another function, or H is no diagonal, singular, or a multiple of one."""
        table, parts = problem.phi_table, parts_of(problem)
        if table is None or parts is None:
            return None
        if any(part.terms.loss is not None or not part.terms.is_by_entry for part in parts):
            return None
        diagonal = problem.curvature
        low, high = float(diagonal.min()), float(diagonal.max())
        if not low * CONDITION > high or low == high:
            return None
        return cls.of_columns(problem, table, diagonal**-0.5)


class ColumnScaling(_Factors):
    """Variables in units in which f and M have entries of about one; rows keep their factors, bounds stay bounds."""

    name = "column scaling"
    why = "Columns were scaled."

    @classmethod
    def apply(cls, problem: Problem) -> Self | None:
        """Scale the columns; None if they are alike, if their entries are not known, or if f would lose from it."""
        table, parts, f = problem.phi_table, parts_of(problem), problem.f
        if table is None or parts is None or not all(part.terms.is_scalable for part in parts):
            return None
        if problem.phi.is_linear and problem.lower is None and f.L is not None and 0 < f.L <= ROUND * f.mu:
            return None  # f would lose more than equations gain, whose rows may become orthonormal too
        columns = column_factors(problem.M, table, problem.curvature)
        if columns is None or not _keeps_range(f, columns):
            return None
        return cls.of_columns(problem, table, columns)


class Equilibrated(_Factors):
    """Rows and columns alike, for steps whose prox takes any curvature of x: Ruiz's rounds, and then one of sums."""

    name = "equilibration"
    why = "Rows and columns were scaled."

    @classmethod
    def apply(cls, problem: Problem) -> Self | None:
        """Scale both; None if M is not explicit or f keeps its units."""
        table, parts, M = problem.phi_table, parts_of(problem), problem.M
        explicit = _entries_of(M)
        if table is None or parts is None or explicit is None or not problem.rows:
            return None
        if not all(part.terms.is_scalable for part in parts):
            return None
        places, h = identity_columns(M), problem.proximable.curvature
        if np.any(table.grouped & (places >= 0)):
            return None
        curvature = np.zeros(problem.columns) if h is None else h
        rows, columns = np.where(places < 0, 1.0, 0.0), np.ones(problem.columns)
        for _ in range(ROUNDS):
            heights, widths = _peaks(explicit, rows, columns)
            widths = np.maximum(widths, curvature * columns * columns)
            rows, columns = rows * damped(table.pooled(heights)), columns * damped(widths)
        heights, widths = M.row_sizes(columns), M.column_sizes(rows)
        assert heights is not None  # M is explicit
        assert widths is not None
        rows = rows * damped(table.pooled(rows * heights))
        columns = columns * damped(columns * widths)
        if not _keeps_range(problem.f, columns):
            return None
        return cls(problem, table, np.where(places < 0, rows, 1 / columns[np.maximum(places, 0)]), columns)


def _keeps_range(f: Function, columns: Array) -> bool:
    """Whether the constants of the scaled f have squares that neither overflow nor underflow."""
    known = [value for value in (f.mu, f.L) if value]
    changed = [value * float(factor) ** 2 for value in known for factor in (columns.min(), columns.max())]
    return all(1 / LARGEST < value < LARGEST for value in changed)


def identity_columns(M: Operator) -> Array:
    """The column of each row that belongs to an identity; −1 for other rows."""
    found = np.full(M.shape[0], -1)
    for part, at in M.bands():
        if part.identity_start is not None:
            found[at] = part.identity_start + np.arange(part.shape[0])
    return found


def norm_factors(M: Operator, rows: Table, with_bounds: bool) -> Array:
    """Factors that bring the norms of the rows near one, one for all rows of a ball; all are one if they are alike.

    With bounds they are alike only if they are near one, the norms of the rows of bounds.
    """
    norms = np.empty(M.shape[0])
    for part, at in M.bands():
        norms[at] = _norms(part)
    norms = rows.pooled(norms)
    factors = 1 / powers_of_two(norms)
    known = factors[norms > 0]
    return np.ones(M.shape[0]) if known.size == 0 or (np.ptp(known) == 0 and not with_bounds) else factors


@singledispatch
def _norms(part: Operator) -> Array:
    return part.row_norms


@_norms.register
def _(part: Kronecker) -> Array:
    norms = [powers_of_two(factor.row_norms) for factor in part.factors()]  # so the structure stays
    return np.kron(norms[0], norms[1] if len(norms) == 2 else np.ones(part.shape[0] // len(norms[0])))


def powers_of_two(values: Array) -> Array:
    """The nearest powers of two, within limits; one for zero."""
    return np.clip(2.0 ** np.round(np.log2(np.where(values > 0, values, 1.0))), 1 / GREATEST, GREATEST)


def column_factors(M: Operator, rows: Table, curvature: Array) -> Array | None:
    """Factors for the columns of M and a Hessian with this diagonal; None if they are alike, or M is not explicit.

    Ruiz's rounds bring the greatest entry of each row and column near one, and one step of Pock and Chambolle their
    sums. Bounds on x take no part, and a factor of f makes no difference: its unit is such that f and M ask for the
    same factors on average.
    """
    parts = _entries_of(M)
    if parts is None:
        return None
    curved, bent = curvature > 0, math.sqrt(spread(curvature))
    if max([bent, *(entries.spread for entries, _, _ in parts)]) < UNEVEN:
        return None  # whatever the rows are divided by
    d, e = np.ones(M.shape[1]), np.where(identity_columns(M) < 0, 1.0, 0.0)
    heights = rows.pooled(_peaks(parts, e, d)[0])
    widths = _peaks(parts, e / np.where(heights > 0, heights, 1.0), d)[1]
    if max(spread(widths), bent) < UNEVEN:
        return None
    known = curved | (widths > 0)
    for diagonal in (np.zeros_like(curvature), curvature) if curved.any() else (curvature,):
        unit = math.exp(-np.mean(np.log((diagonal * d * d)[curved]))) if diagonal.any() else 1.0
        for _ in range(ROUNDS):
            heights, widths = _peaks(parts, e, d)
            d, e = d * damped(np.maximum(widths, unit * diagonal * d * d)), e * damped(rows.pooled(heights))
    if spread(d[known]) < UNEVEN:
        return None
    sums = M.column_sizes(e)
    assert sums is not None  # M is explicit
    return powers_of_two(d * damped(d * sums + unit * curvature * d * d))


def _entries_of(M: Operator) -> list[tuple[Entries, slice, slice]] | None:
    """The matrices that M consists of, and where they lie; None if some entries are not stored."""
    found = []
    for part, rows, columns in M.leaves():
        if part.stored_matrix is not None:
            found.append((Entries(part.stored_matrix), rows, columns))
        elif part.identity_start is None:
            return None
    return found


def _peaks(parts: list[tuple[Entries, slice, slice]], rows: Array, columns: Array) -> tuple[Array, Array]:
    """The greatest entries of the rows and of the columns, multiplied with these factors."""
    heights, widths = np.zeros(rows.size), np.zeros(columns.size)
    for entries, i, j in parts:
        high, wide = entries.peaks(rows[i], columns[j])
        heights[i], widths[j] = np.maximum(heights[i], high), np.maximum(widths[j], wide)
    return heights, widths


class ChangeOfVariables(Transform):
    """x = R⁻¹x̂ with the Cholesky factor R of H, of a quadratic f or of a least-squares one: the new f has κ = 1."""

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
