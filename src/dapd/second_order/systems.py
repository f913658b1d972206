"""Newton systems [P + diag(h), Bᵀ; B, −I](d, z) = (r, −q), B = T·(rows), by linear algebra that fits their shape."""

from __future__ import annotations

from typing import Any, Protocol, Self

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp

from dapd.arrays import Array
from dapd.second_order.matrices import Split
from dapd.second_order.pattern import Mixed, Pattern
from dapd.second_order.weights import Groups, Weights

REFINEMENTS = 3  # corrections of a solution by its residual
SMALL = 1 << 16  # entries, zeros included
ACCURATE = 1e-12  # residual, relative to the right-hand side, that needs no correction


class Singular(Exception):
    """A factorisation broke down."""


class System(Protocol):
    """A Newton system whose matrix changes with h and T."""

    def factor(self, h: Array, weights: Weights) -> None:
        """Prepare to solve with these."""

    def solve(self, r: Array, q: Array) -> tuple[Array, Array]:
        """(d, z), with z and q for all rows."""

    def adopt(self, other: Self) -> None:
        """Take over what depends only on the pattern from a system with the same one."""


class _Base:
    """What all systems share: the rows with one entry only change the diagonal, the others are T times a matrix."""

    def __init__(self, P: Any, rows: Split, groups: Groups) -> None:
        self.P, self.rows, self.matrix = P, rows, rows.matrix
        self.count = rows.single.size + rows.general.size
        self.groups = groups._replace(rows=np.searchsorted(rows.general, groups.rows))
        self.transpose = rows.matrix.T.tocsr() if sp.issparse(rows.matrix) else rows.matrix.T

    def factor(self, h: Array, weights: Weights) -> None:
        """Prepare to solve with these."""
        own = weights.across[self.rows.single] * self.rows.value
        self.entries = own
        h = h + np.bincount(self.rows.column, own * own, minlength=h.size) if own.size else h
        self.T = weights.of_rows(self.rows.general, self.groups)
        self._factor(h)

    def forward(self, d: Array) -> Array:
        """Bd."""
        return self.T.times(self.matrix @ d)

    def adjoint(self, z: Array) -> Array:
        """Bᵀz."""
        return self.transpose @ self.T.times(z)

    def solve(self, r: Array, q: Array) -> tuple[Array, Array]:
        """(d, z), with z and q for all rows."""
        split = self.rows
        if split.single.size:
            r = r - np.bincount(split.column, self.entries * q[split.single], minlength=r.size)
        d, own = self._solve(r, q[split.general])
        z = np.empty(self.count)
        z[split.general] = own
        z[split.single] = self.entries * d[split.column] + q[split.single]
        return d, z

    def adopt(self, other: Self) -> None:
        """Nothing, in general."""

    def _factor(self, h: Array) -> None:
        raise NotImplementedError

    def _solve(self, r: Array, q: Array) -> tuple[Array, Array]:
        raise NotImplementedError


class _ByBlas(_Base):
    """A system whose factors are dense; a small matrix is made dense too, since sparse products take longer to call."""

    def __init__(self, P: Any, rows: Split, groups: Groups) -> None:
        matrix = rows.matrix
        if sp.issparse(matrix) and matrix.shape[0] * matrix.shape[1] <= SMALL:
            rows = rows._replace(matrix=matrix.toarray())
        super().__init__(P, rows, groups)


class Normal(_ByBlas):
    """Dense Cholesky of P + diag(h) + BᵀB, if there are few columns."""

    def _factor(self, h: Array) -> None:
        active = np.flatnonzero(self.T.across) if not self.groups.rows.size else np.arange(self.matrix.shape[0])
        own = self.matrix if active.size == self.matrix.shape[0] else self.matrix[active]
        scaled = self.T.across[active]
        B = own.multiply(scaled[:, None]).tocsr() if sp.issparse(own) else scaled[:, None] * own
        K = _dense(B.T @ B)
        if self.groups.rows.size:
            at, starts = self.groups.rows, self.groups.starts
            directions = sp.csr_array(
                (self.T.unit, np.arange(at.size), np.append(starts, at.size)), shape=(starts.size, at.size)
            )
            V = _dense(directions @ self.matrix[at])
            K += V.T @ ((self.T.along**2 - self.T.across[at[starts]] ** 2)[:, None] * V)
        if self.P.ndim == 1:
            K[np.diag_indices_from(K)] += self.P + h
        else:
            K += _dense(self.P)
            K[np.diag_indices_from(K)] += h
        self.K, self.factors = K, _cholesky(K)

    def _solve(self, r: Array, q: Array) -> tuple[Array, Array]:
        r = r - self.adjoint(q)
        d = sl.cho_solve(self.factors, r, check_finite=False)
        d += sl.cho_solve(self.factors, r - self.K @ d, check_finite=False)
        return d, self.forward(d) + q


class Dual(_ByBlas):
    """Dense Cholesky of I + B(P + diag(h))⁻¹Bᵀ, if P is diagonal and there are few general rows."""

    def _factor(self, h: Array) -> None:
        self.H = self.P + h
        G = self.matrix
        active = np.flatnonzero(self.T.across) if not self.groups.rows.size else np.arange(G.shape[0])
        own = G if active.size == G.shape[0] else G[active]
        product = _dense((own.multiply(1.0 / self.H).tocsr() if sp.issparse(own) else own / self.H) @ own.T)
        T = self.T if not active.size < G.shape[0] else self.T._replace(across=self.T.across[active])
        S = T.times(T.times(product).T)
        S[np.diag_indices_from(S)] += 1.0
        self.active, self.factors = active, _cholesky(S)

    def _once(self, r: Array, q: Array) -> tuple[Array, Array]:
        z = self.forward(r / self.H) + q  # for rows that are not active, z = q
        z[self.active] = sl.cho_solve(self.factors, z[self.active], check_finite=False)
        return (r - self.adjoint(z)) / self.H, z

    def _solve(self, r: Array, q: Array) -> tuple[Array, Array]:
        d, z = self._once(r, q)
        more, other = self._once(r - self.H * d - self.adjoint(z), q + self.forward(d) - z)
        return d + more, z + other


class Sparse(_Base):
    """qdldl on the whole system, whose pattern stays the same, so it is ordered only once."""

    def __init__(self, P: Any, rows: Split, groups: Groups) -> None:
        super().__init__(P, rows, groups)
        self.mixed = Mixed(sp.csr_array(rows.matrix), self.groups)
        self.kkt = Pattern(P, self.mixed.matrix)
        self.factors: Any = None

    def adopt(self, other: Self) -> None:
        """The ordering, which qdldl keeps with its factors."""
        self.factors = other.factors

    def _factor(self, h: Array) -> None:
        import qdldl

        self.h = h
        matrix = self.kkt.fill(h, self.mixed.entries_of(self.T))
        if self.factors is None:
            self.factors = qdldl.Solver(matrix, upper=True)
        else:
            self.factors.update(matrix, upper=True)

    def _solve(self, r: Array, q: Array) -> tuple[Array, Array]:
        n = r.size
        d, z = np.zeros(n), np.zeros(q.size)
        first, second, least = r, -q, np.inf
        size = max(np.max(abs(r), initial=0.0), np.max(abs(q), initial=0.0))
        for _ in range(REFINEMENTS):
            step = self.factors.solve(np.concatenate([first, second]))
            new_d, new_z = d + step[:n], z + step[n:]
            curved = self.P * new_d if self.P.ndim == 1 else self.P @ new_d
            first, second = r - curved - self.h * new_d - self.adjoint(new_z), -q - self.forward(new_d) + new_z
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


def _cholesky(K: Array) -> Any:
    try:
        return sl.cho_factor(K, lower=True, overwrite_a=False, check_finite=False)
    except (sl.LinAlgError, ValueError) as error:
        raise Singular(str(error)) from None


def _dense(product: Any) -> Array:
    return np.asarray(product.toarray()) if sp.issparse(product) else np.array(product)
