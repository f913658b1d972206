"""Equations as such, and with orthonormal rows."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property, singledispatch
from typing import Self

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from dapd.arguments import consecutive
from dapd.arrays import Array
from dapd.kinds.table import Table
from dapd.machine.blas import MANY, single_blas
from dapd.operators.base import Operator
from dapd.operators.explicit import Dense
from dapd.operators.structured import BlockDiagonal, Kronecker
from dapd.presolve.maps import rows_of, stacked_maps
from dapd.presolve.transform import FLOPS, Transform, rebuilt_problem
from dapd.problem.problem import Problem
from dapd.problem.way_back import WayBack
from dapd.spectrum.estimate import Spectrum

ROUNDINGS = 4  # roundings of b within which b + l counts as zero
DENSER_PART = 8  # greatest ratio of the entries of a sparse part as a dense array and those that are stored
SQUARABLE = 1e-5  # R_kk relative to its row's norm from which MMᵀ has enough digits
RANK = 1e-11  # R_kk relative to its row's norm up to which the row depends on others
SATISFIED = 1e-9  # relative residual up to which a dependent equation counts as satisfied
ORTHONORMAL = 1e-10  # distance of the new singular values from one


class Equations(Transform):
    """φ(y) = l·y becomes φ(y) = 0, with b + l for b; x and y stay as they are."""

    name = "equations"
    why = "Rows with equal bounds became equations."
    way_back = WayBack()

    def __init__(self, problem: Problem, table: Table) -> None:
        level = np.where(table.equation, table.lower, 0.0)
        lower, upper = (np.where(table.equation, 0.0, bound) for bound in (table.lower, table.upper))
        rows = replace(table, lower=lower, upper=upper)
        b = problem.b + level.astype(problem.b.dtype)
        b[abs(b) <= ROUNDINGS * np.finfo(b.dtype).eps * abs(problem.b)] = 0.0  # what is left of b = −l
        self.problem = rebuilt_problem(problem, b=b, phi=rows.phi())

    @classmethod
    def apply(cls, problem: Problem) -> Self | None:
        """Move l into b; None if no row has equal bounds other than zero."""
        table = problem.phi_table
        return None if table is None or not np.any(table.lower[table.equation]) else cls(problem, table)


class DenseFactor:
    """M = RᵀQᵀ with orthonormal columns in Q, whose map Qᵀ is `Q`.

    By the Cholesky factor of MMᵀ, twice if once is not enough; by QR with pivoting if that would lose digits. Its
    operations take a vector, or the columns of a matrix.
    """

    def __init__(self, matrix: Array) -> None:
        M = matrix.astype(np.float64, copy=False)
        self.size = len(M)
        norms = np.linalg.norm(M, axis=1)
        self.scales = np.where(norms > 0, norms, 1.0)
        self.matrix = M
        with single_blas(float(M.size) * len(M), MANY):
            Q = self._by_squares(M) if len(M) <= M.shape[1] else None
            self.Q = Dense(np.ascontiguousarray(self._by_pivots(M) if Q is None else Q))

    def _by_squares(self, M: Array) -> Array | None:
        """Qᵀ = R⁻ᵀM; None if the rows are nearly dependent. A second pass mends what squaring them loses."""
        rows = M / self.scales[:, None]
        R = np.ones(1)
        for turn in range(2):
            try:
                upper = scipy.linalg.cholesky(rows @ rows.T, check_finite=False)
            except np.linalg.LinAlgError:
                return None
            if not abs(upper.diagonal()).min(initial=1.0) > SQUARABLE:
                return None
            rows = scipy.linalg.solve_triangular(upper, rows, trans=1, check_finite=False, overwrite_b=True)
            R = upper * self.scales if turn == 0 else upper @ R
            if _is_orthonormal(rows):
                break
        self.R, self.order = R, np.arange(self.size)
        return rows

    def _by_pivots(self, M: Array) -> Array:
        Q, R, order = scipy.linalg.qr((M / self.scales[:, None]).T, mode="economic", pivoting=True, check_finite=False)
        diagonal = abs(R.diagonal())
        rank = int(np.sum(diagonal > RANK * max(1.0, float(diagonal.max(initial=0.0)))))
        self.R, self.order = R[:rank] * self.scales[order], order
        return Q[:, :rank].T

    @property
    def rank(self) -> int:
        """Independent rows."""
        return len(self.R)

    def into(self, y: Array) -> Array:
        """Ry, so Q(Ry) = Mᵀy."""
        return self.R @ y[self.order]

    def out(self, y: Array) -> Array:
        """Some w with Rw = y, zero for dependent rows."""
        full = np.zeros((self.size, *y.shape[1:]))
        full[self.order[: self.rank]] = scipy.linalg.solve_triangular(self.R[:, : self.rank], y, check_finite=False)
        return full

    def right(self, b: Array) -> Array | None:
        """The c for which Qᵀx = c and Mx = b are the same; None if no x satisfies Mx = b."""
        own = b[self.order[: self.rank]]
        c = scipy.linalg.solve_triangular(self.R[:, : self.rank], own, trans=1, check_finite=False)
        x = self.Q.matrix.T @ c
        sizes = np.multiply.outer(self.scales, np.linalg.norm(x, axis=0))
        return c if np.all(abs(self.matrix @ x - b) <= SATISFIED * (abs(b) + sizes)) else None


class KroneckerFactor:
    """(A ⊗ B) from the factors of A and B."""

    def __init__(self, M: Kronecker) -> None:
        self.A = DenseFactor(M.A)
        self.B = None if M.B is None else DenseFactor(M.B)
        self.tail = M.shape[0] // len(M.A)
        self.Q = Kronecker(self.A.Q.matrix, self.tail if self.B is None else self.B.Q.matrix)
        self.independent = self.A.rank == self.A.size and (self.B is None or self.B.rank == self.B.size)

    def into(self, y: Array) -> Array:
        """(R_A ⊗ R_B)y."""
        table = self.A.into(y.reshape(self.A.size, -1))
        return (table if self.B is None else self.B.into(table.T).T).ravel()

    def out(self, y: Array) -> Array:
        """(R_A ⊗ R_B)⁻¹y."""
        table = self.A.out(y.reshape(self.A.rank, -1))
        return (table if self.B is None else self.B.out(table.T).T).ravel()

    def right(self, b: Array) -> Array | None:
        """(R_A ⊗ R_B)⁻ᵀb, if no row depends on others."""
        if not self.independent:
            return None
        table = self.A.right(b.reshape(self.A.size, -1))
        if table is None or self.B is None:
            return None if table is None else table.ravel()
        turned = self.B.right(table.T)
        return None if turned is None else turned.T.ravel()


class BlockFactor:
    """diag(M_1, …, M_N) from the factors of its blocks."""

    def __init__(self, M: BlockDiagonal) -> None:
        self.parts = [DenseFactor(matrix) for matrix in M.matrices]
        self.rows = M.row_blocks
        self.places = consecutive(part.rank for part in self.parts)

    @cached_property
    def Q(self) -> Operator:
        """The blocks' Qᵀ."""
        return BlockDiagonal([part.Q.matrix for part in self.parts])

    def into(self, y: Array) -> Array:
        """Block by block."""
        return np.concatenate([part.into(y[at]) for part, at in zip(self.parts, self.rows, strict=True)])

    def out(self, y: Array) -> Array:
        """Block by block."""
        return np.concatenate([part.out(y[at]) for part, at in zip(self.parts, self.places, strict=True)])

    def right(self, b: Array) -> Array | None:
        """Block by block; None if a block is zero, since no block may be empty."""
        if min(part.rank for part in self.parts) == 0:
            return None
        found = [part.right(b[at]) for part, at in zip(self.parts, self.rows, strict=True)]
        some = [c for c in found if c is not None]
        return np.concatenate(some) if len(some) == len(found) else None


Factor = DenseFactor | KroneckerFactor | BlockFactor


class OrthonormalRows(Transform):
    """The equations on top, with orthonormal rows; the other rows below them, as they were."""

    name = "orthonormal rows"
    why = "Equations were given orthonormal rows."

    def __init__(self, problem: Problem, table: Table, factor: Factor, c: Array) -> None:
        self.factor, self.count = factor, len(c)
        self.equations, self.others = np.flatnonzero(table.equation), np.flatnonzero(~table.equation)
        self.rest = np.append(self.others, np.arange(problem.rows, problem.multipliers))
        self.lower = table.lower[self.equations]
        level, others = Table.intervals(self.count, 0.0, 0.0), rows_of(problem.M, ~table.equation)
        self.problem = rebuilt_problem(
            problem,
            M=stacked_maps([factor.Q, *others], problem.columns),
            b=np.concatenate([c, problem.b[self.others]]),
            phi=level.joined(table.take(self.others)).phi(),
            spectrum=None if others else Spectrum(1 + ORTHONORMAL, 1 - ORTHONORMAL),
        )

    @classmethod
    def apply(cls, problem: Problem) -> Self | None:
        """Orthonormalise; None if there are no equations, none consistent, or if it would take too long."""
        table = problem.phi_table
        if table is None or not table.equation.any():
            return None
        parts = problem.M.bands()
        equations = [table.equation[at] for _, at in parts]
        chosen = [M for (M, _), own in zip(parts, equations, strict=True) if own.any()]
        whole = len(chosen) == 1 and all(own.all() or not own.any() for own in equations)
        factor = _structured_factor(chosen[0]) if whole else None
        if factor is None:
            matrix = _dense_rows(parts, equations)
            if matrix is None:
                return None
            factor = DenseFactor(matrix)
        c = factor.right((problem.b + np.where(table.equation, table.lower, 0.0))[table.equation])
        return None if c is None else cls(problem, table, factor, c)

    def new_b(self, b: Array) -> Array | None:
        """None if no x satisfies the equations then."""
        c = self.factor.right(b[self.equations] + self.lower)
        return None if c is None else np.concatenate([c, b[self.others]])

    def start(self, x: Array, y: Array) -> tuple[Array, Array]:
        """(x, R times the y of the equations)."""
        return x, np.concatenate([self.factor.into(y[self.equations]), y[self.rest]])

    def back(self, x: Array, y: Array) -> tuple[Array, Array]:
        """(x, R⁻¹ times the y of the equations; zero for dependent ones)."""
        full = np.empty(len(self.equations) + len(self.rest))
        full[self.equations], full[self.rest] = self.factor.out(y[: self.count]), y[self.count :]
        return x, full


def _is_orthonormal(rows: Array) -> bool:
    """Whether QᵀQ is the identity, judged by products with random vectors."""
    v = np.random.default_rng(0).standard_normal((len(rows), 2))
    apart = rows @ (rows.T @ v) - v
    return bool(np.linalg.norm(apart) * len(rows) ** 0.5 <= ORTHONORMAL / 10 * np.linalg.norm(v))


@singledispatch
def _structured_factor(M: Operator) -> Factor | None:
    """The factor of all rows of M from those of its parts; None if it has none, or if that would take too long."""
    return None


@_structured_factor.register
def _(M: Kronecker) -> Factor | None:
    return KroneckerFactor(M) if _affordable(M.factors()) else None


@_structured_factor.register
def _(M: BlockDiagonal) -> Factor | None:
    return BlockFactor(M) if _affordable(M.parts()) else None


def _affordable(parts: list[Dense]) -> bool:
    return bool(sum(4.0 * part.matrix.size * len(part.matrix) for part in parts) <= FLOPS)


def _dense_rows(parts: list[tuple[Operator, slice]], equations: list[Array]) -> Array | None:
    """The rows of all equations as an array; None if that is too large, or not known by its entries."""
    chosen = [(M.stored_matrix, own) for (M, _), own in zip(parts, equations, strict=True) if own.any()]
    count, columns = sum(int(own.sum()) for own in equations), parts[0][0].shape[1]
    if 4.0 * count * count * columns > FLOPS or any(matrix is None for matrix, _ in chosen):
        return None
    found = [matrix if own.all() else matrix[own] for matrix, own in chosen]
    stored = sum(some.nnz if sp.issparse(some) else some.size for some in found)
    if count * columns > DENSER_PART * max(stored, 1 << 14):
        return None
    arrays = [some.toarray() if sp.issparse(some) else some for some in found]
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)
