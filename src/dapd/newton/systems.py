"""Newton systems [P + diag(h), Bᵀ; B, −I](d, z) = (r, −q), B = T·(rows), by linear algebra that fits their shape."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp
from scipy.linalg import lapack

from dapd.arrays import Array
from dapd.machine.rates import BAND
from dapd.newton.matrices import Split, no_slacks, scaled, slacks_of
from dapd.newton.weights import Groups, Mixed, Pattern, Weights

CORRECTIONS = 2  # most corrections of a solution by its residual
SMALL = 1 << 16  # entries, zeros included, up to which a sparse matrix is made dense
LARGE = 1 << 24  # entries, zeros included, up to which a sparse matrix is made dense if its products are faster then
SLOWER = 50  # ratio of the times of a multiplication in a sparse and in a dense BᵀB
ACCURATE = 1e-12  # residual relative to the right-hand side up to which there is no correction


class Singular(Exception):
    """A factorisation broke down."""


class System:
    """What all systems share: rows with one entry only change the diagonal, and slack columns only scale their rows.

    What is left, [P + diag(h), Bᵀ; B, −I] with fewer columns, is the core, which each kind factorises in its own way.
    """

    def __init__(self, P: Any, rows: Split, groups: Groups, *, eliminate: bool = True) -> None:
        self.P, self.rows, self.matrix = P, rows, rows.matrix
        self.count = rows.single.size + rows.general.size
        self.groups = groups._replace(rows=np.searchsorted(rows.general, groups.rows))
        self.slacks = slacks_of(P, rows.matrix, self.groups.rows) if eliminate else no_slacks(P, rows.matrix)
        self.core = self.slacks.matrix
        self.transpose, self.core_transpose = _transposed(self.matrix), _transposed(self.core)

    def factor(self, h: Array, weights: Weights) -> None:
        """Factorise the system with the diagonal h and these weights."""
        own = weights.across[self.rows.single] * self.rows.value
        self.entries = own
        self.h = h + np.bincount(self.rows.column, own * own, minlength=h.size) if own.size else h
        self.T = self.core_T = weights._replace(across=weights.across[self.rows.general], groups=self.groups)
        slacks = self.slacks
        if slacks.columns.size:
            self.slack_entries = self.T.across[slacks.row] * slacks.value
            self.slack_diagonal = slacks.diagonal + self.h[slacks.columns]
            squares = self.slack_entries**2 / self.slack_diagonal
            self.root = np.sqrt(1.0 + np.bincount(slacks.row, squares, minlength=self.matrix.shape[0]))
            self.core_T = self.T._replace(across=self.T.across / self.root)
        self._factor(self.h[slacks.others] if slacks.columns.size else self.h)

    def solve(self, r: Array, q: Array, *, corrections: int = CORRECTIONS) -> tuple[Array, Array]:
        """(d, z), with z and q for all rows, after at most `corrections` corrections."""
        split = self.rows
        if split.single.size:
            r = r - np.bincount(split.column, self.entries * q[split.single], minlength=r.size)
        d, own = self._refined(r, -q[split.general], corrections)
        z = np.empty(self.count)
        z[split.general] = own
        z[split.single] = self.entries * d[split.column] + q[split.single]
        return d, z

    def _refined(self, r: Array, s: Array, corrections: int) -> tuple[Array, Array]:
        """(d, z) of the right-hand side (r, s), corrected by its residual as long as that helps."""
        d, z, first, second, least = np.zeros(r.size), np.zeros(s.size), r, s, np.inf
        size = max(np.max(abs(r), initial=0.0), np.max(abs(s), initial=0.0))
        for _ in range(1 + corrections):
            more_d, more_z = self._without_slacks(first, second)
            new_d, new_z = d + more_d, z + more_z
            if not corrections:  # then it need not be measured
                d, z, least = new_d, new_z, float(new_d @ new_d)
                break
            curved = self.P * new_d if self.P.ndim == 1 else self.P @ new_d
            first = r - curved - self.h * new_d - self.transpose @ self.T.times(new_z)
            second = s - self.T.times(self.matrix @ new_d) + new_z
            error = max(np.max(abs(first), initial=0.0), np.max(abs(second), initial=0.0))
            if not error < least:
                break
            enough = error > 0.5 * least or error <= ACCURATE * size
            d, z, least = new_d, new_z, error
            if enough:
                break
        if not np.isfinite(least):
            raise Singular("the factorisation gave numbers that are not finite")
        return d, z

    def _without_slacks(self, r: Array, s: Array) -> tuple[Array, Array]:
        """(d, z) of the right-hand side (r, s), once."""
        slacks = self.slacks
        if not slacks.columns.size:
            return self._once(r, s)
        own = r[slacks.columns]
        s = s - np.bincount(slacks.row, self.slack_entries * (own / self.slack_diagonal), minlength=s.size)
        rest, z = self._once(r[slacks.others], s / self.root)
        d, z = np.empty(r.size), z / self.root
        d[slacks.others] = rest
        d[slacks.columns] = (own - self.slack_entries * z[slacks.row]) / self.slack_diagonal
        return d, z

    def adopt(self, other: Self) -> None:
        """Take over what depends only on the pattern from a system with the same one."""

    def _forward(self, d: Array) -> Array:
        """Bd in the core."""
        return self.core_T.times(self.core @ d)

    def _adjoint(self, z: Array) -> Array:
        """Bᵀz in the core."""
        return self.core_transpose @ self.core_T.times(z)

    def _factor(self, h: Array) -> None:
        """Factorise the core."""
        raise NotImplementedError

    def _once(self, r: Array, s: Array) -> tuple[Array, Array]:
        """(d, z) of the right-hand side (r, s) in the core."""
        raise NotImplementedError


class _ByBlas(System):
    """A system whose factors are dense; a small matrix is made dense too, since sparse products take longer to call."""

    def __init__(self, P: Any, rows: Split, groups: Groups) -> None:
        super().__init__(P, rows, groups)
        if sp.issparse(self.core) and self.core.shape[0] * self.core.shape[1] <= SMALL:
            self.core = self.core.toarray()
            self.core_transpose = self.core.T
        if sp.issparse(self.matrix) and self.matrix.shape[0] * self.matrix.shape[1] <= SMALL:
            self.matrix = self.matrix.toarray()
            self.transpose = self.matrix.T

    def _active(self) -> Array:
        """The rows that are not multiplied by zero; all of them if some belong to groups."""
        return np.arange(self.core.shape[0]) if self.groups.rows.size else np.flatnonzero(self.core_T.across)


class NormalSystem(_ByBlas):
    """Dense Cholesky of P + diag(h) + BᵀB, if there are few columns."""

    def __init__(self, P: Any, rows: Split, groups: Groups) -> None:
        super().__init__(P, rows, groups)
        self.factor_of_gram = self.core.toarray() if _has_fast_dense_gram(self.core) else self.core

    def _factor(self, h: Array) -> None:
        active, T, P = self._active(), self.core_T, self.slacks.P
        own = self.factor_of_gram
        own = own if active.size == own.shape[0] else own[active]
        B = (
            scaled(own, T.across[active], np.ones(own.shape[1]))
            if sp.issparse(own)
            else T.across[active][:, None] * own
        )
        K = _dense(B.T @ B)
        if self.groups.rows.size:
            at, starts = self.groups.rows, self.groups.starts
            directions = sp.csr_array(
                (T.unit, np.arange(at.size), np.append(starts, at.size)), shape=(starts.size, at.size)
            )
            V = _dense(directions @ self.core[at])
            K += V.T @ ((T.along**2 - T.across[at[starts]] ** 2)[:, None] * V)
        if P.ndim == 2:
            K += _dense(P)
        K[np.diag_indices_from(K)] += P + h if P.ndim == 1 else h
        self.K, self.factors = K, _cholesky(K)

    def _refined(self, r: Array, s: Array, corrections: int) -> tuple[Array, Array]:
        """Without slack columns, corrected once by the residual of the small system, which is cheaper."""
        return super()._refined(r, s, corrections) if self.slacks.columns.size else self._once(r, s)

    def _once(self, r: Array, s: Array) -> tuple[Array, Array]:
        r = r + self._adjoint(s)
        d = sl.cho_solve(self.factors, r, check_finite=False)
        d += sl.cho_solve(self.factors, r - self.K @ d, check_finite=False)
        return d, self._forward(d) - s


class DualSystem(_ByBlas):
    """Dense Cholesky of I + B(P + diag(h))⁻¹Bᵀ, if P is diagonal and there are few general rows."""

    def _factor(self, h: Array) -> None:
        self.H, T, active = self.slacks.P + h, self.core_T, self._active()
        own = self.core if active.size == self.core.shape[0] else self.core[active]
        product = _dense((own.multiply(1.0 / self.H).tocsr() if sp.issparse(own) else own / self.H) @ own.T)
        T = T if active.size == self.core.shape[0] else T._replace(across=T.across[active])
        S = T.times(T.times(product).T)
        S[np.diag_indices_from(S)] += 1.0
        self.active, self.factors = active, _cholesky(S)

    def _once(self, r: Array, s: Array) -> tuple[Array, Array]:
        z = self._forward(r / self.H) - s  # for rows that are not active, z = −s
        z[self.active] = sl.cho_solve(self.factors, z[self.active], check_finite=False)
        return (r - self._adjoint(z)) / self.H, z


class SparseSystem(System):
    """qdldl on the whole system, whose pattern stays the same, so it is ordered only once."""

    def __init__(self, P: Any, rows: Split, groups: Groups) -> None:
        super().__init__(P, rows, groups)
        self.mixed = Mixed(sp.csr_array(self.core), self.groups)
        self.kkt = Pattern(self.slacks.P, self.mixed.matrix)
        self.factors: Any = None

    def adopt(self, other: Self) -> None:
        """The ordering, which qdldl keeps with its factors."""
        self.factors = other.factors

    def _factor(self, h: Array) -> None:
        import qdldl

        matrix = self.kkt.fill(h, self.mixed.entries_of(self.core_T))
        if self.factors is None:
            self.factors = qdldl.Solver(matrix, upper=True)
        else:
            self.factors.update(matrix, upper=True)

    def _once(self, r: Array, s: Array) -> tuple[Array, Array]:
        found = self.factors.solve(np.concatenate([r, s]))
        return found[: r.size], found[r.size :]


class BandedSystem(System):
    """Banded Cholesky of I + B(P + diag(h))⁻¹Bᵀ, if P is diagonal and a row shares columns only with near ones."""

    def __init__(self, P: Any, rows: Split, groups: Groups) -> None:
        super().__init__(P, rows, groups, eliminate=False)
        by_column = sp.csr_array(self.core).tocsc()
        by_column.sort_indices()
        count, row = self.core.shape[0], by_column.indices
        column = np.repeat(np.arange(by_column.shape[1]), np.diff(by_column.indptr))
        starts, places, products, columns = np.arange(row.size), [], [], []
        self.width = _width(by_column)
        for step in range(int(np.diff(by_column.indptr).max(initial=0))):
            starts = starts[starts < row.size - step]
            starts = starts[column[starts] == column[starts + step]]
            places.append(row[starts] * (self.width + 1) + row[starts + step] - row[starts])
            products.append(by_column.data[starts] * by_column.data[starts + step])
            columns.append(column[starts])
        none = np.zeros(0, np.intp)
        self.places, self.columns = np.concatenate([none, *places]), np.concatenate([none, *columns])
        self.products = np.concatenate([np.zeros(0), *products])
        self.shape = (count, self.width + 1)
        self.H: Array | None = None

    def _factor(self, h: Array) -> None:
        H = self.slacks.P + h
        if self.H is None or not np.array_equal(H, self.H):
            weights, self.H = self.products / H[self.columns], None
            self.gram = np.bincount(self.places, weights, minlength=self.shape[0] * self.shape[1]).reshape(self.shape)
            self.H = H  # after what belongs to it, since an interrupt may come in between
        across, band = self.core_T.across, self.gram * self.core_T.across[:, None]
        for step in range(self.width + 1):
            band[: across.size - step, step] *= across[step:]
        band[:, 0] += 1.0
        self.factors, broken = lapack.dpbtrf(band.T, lower=1, overwrite_ab=1)
        if broken:
            raise Singular("a banded factorisation broke down")

    def _once(self, r: Array, s: Array) -> tuple[Array, Array]:
        assert self.H is not None
        z, _ = lapack.dpbtrs(self.factors, self._forward(r / self.H) - s, lower=1, overwrite_b=1)
        return (r - self._adjoint(z)) / self.H, z


def _has_fast_dense_gram(matrix: Any) -> bool:
    """Whether BᵀB of a sparse B takes longer than that of the same matrix stored as a dense one."""
    k, n = matrix.shape
    if not sp.issparse(matrix) or k * n > LARGE:
        return False
    lengths = np.diff(matrix.indptr).astype(np.float64)
    return bool(float(n) * n * k <= SLOWER * float(lengths @ lengths))


def _transposed(matrix: Any) -> Any:
    return matrix.T.tocsr() if sp.issparse(matrix) else matrix.T


def _cholesky(K: Array) -> Any:
    try:
        return sl.cho_factor(K, lower=True, overwrite_a=False, check_finite=False)
    except (sl.LinAlgError, ValueError) as error:
        raise Singular(str(error)) from None


def _dense(product: Any) -> Array:
    return np.asarray(product.toarray()) if sp.issparse(product) else np.array(product)


def banded_seconds(matrix: Any) -> tuple[float, float]:
    """What a factorisation takes, and the places in the band of BBᵀ."""
    by_column = sp.csr_array(matrix).tocsc()
    by_column.sort_indices()
    lengths, width = np.diff(by_column.indptr).astype(np.float64), _width(by_column)
    count = matrix.shape[0]
    once = BAND.row + BAND.place * (width + 1) + float(width) ** 2 / BAND.wide
    return once * count + BAND.pair * float(lengths @ lengths) / 2, float(count) * (width + 1)


def _width(by_column: Any) -> int:
    """How far apart two rows with an entry in the same column are at most; columns of a sorted CSC matrix."""
    starts, ends = by_column.indptr[:-1], by_column.indptr[1:]
    filled = ends > starts
    return int((by_column.indices[ends[filled] - 1] - by_column.indices[starts[filled]]).max(initial=0))
