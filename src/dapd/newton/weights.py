"""B = T·(rows) of a Newton system: T = √(σD) of M's rows and of the losses', and the pattern of the system."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from dapd.arrays import Array
from dapd.kinds.table import Derivative, Table
from dapd.operators.factors import inverse_or_zero


class Groups(NamedTuple):
    """Groups of rows, by their places among all rows of a system."""

    rows: Array
    starts: Array  # of the groups, within `rows`
    owner: Array  # the group of each of `rows`


class Weights(NamedTuple):
    """T is diagonal, and in a group t·I + (s − t)·v̂v̂ᵀ."""

    across: Array  # t of each row
    along: Array  # s of each group
    unit: Array  # v̂
    groups: Groups

    def _through(self, v: Array, across: Array, along: Array) -> Array:
        """A function of T, given its eigenvalues, times v, a vector or the columns of a matrix."""
        wide = (slice(None), *(None,) * (v.ndim - 1))
        out = across[wide] * v
        if self.groups.rows.size:
            at, unit = self.groups.rows, self.unit[wide]
            share = np.add.reduceat(unit * v[at], self.groups.starts)
            change = along - across[at[self.groups.starts]]
            out[at] += unit * (change[wide] * share)[self.groups.owner]
        return out

    def times(self, v: Array) -> Array:
        """Tv."""
        return self._through(v, self.across, self.along)

    def divided(self, v: Array) -> tuple[Array, Array]:
        """T⁺v, and what of v lies in the null space of T."""
        q = self._through(v, inverse_or_zero(self.across), inverse_or_zero(self.along))
        return q, self._through(v, (self.across == 0) * 1.0, (self.along == 0) * 1.0)


def weigh(curvatures: Array, derivative: Derivative, steps: Array, rows: Table, groups: Groups) -> Weights:
    """T of the losses' rows, whose weights are their curvatures, and of M's rows."""
    across = np.sqrt(np.concatenate([curvatures, steps * derivative.across]))
    along = np.sqrt(steps[rows.members][rows.starts] * derivative.along) if rows.members.size else np.zeros(0)
    return Weights(across, along, derivative.unit, groups)


class Mixed:
    """B = T·(a CSR matrix): a scale per row, and in each group a share of its common direction."""

    def __init__(self, matrix: Any, groups: Groups) -> None:
        self.groups = groups
        self.matrix = joined_with_groups(matrix, groups) if groups.rows.size else matrix
        self.row_of = np.repeat(np.arange(self.matrix.shape[0]), np.diff(self.matrix.indptr))
        group_of = np.full(self.matrix.shape[0], -1)
        group_of[groups.rows] = groups.owner
        self.inside = np.flatnonzero(group_of[self.row_of] >= 0)  # entries of grouped rows
        self.group = group_of[self.row_of[self.inside]]
        keys = self.group * np.int64(matrix.shape[1]) + self.matrix.indices[self.inside]
        _, self.slot = np.unique(keys, return_inverse=True)

    def entries_of(self, T: Weights) -> Array:
        """The entries of B, in the order of the matrix."""
        data = T.across[self.row_of] * self.matrix.data
        unit = np.zeros(self.matrix.shape[0])
        unit[self.groups.rows] = T.unit
        own = unit[self.row_of[self.inside]]
        shares = np.bincount(self.slot, own * self.matrix.data[self.inside])
        mixing = T.along - T.across[self.groups.rows[self.groups.starts]]
        data[self.inside] += mixing[self.group] * own * shares[self.slot]
        return data


class Pattern:
    """The upper triangle of [P + diag(h), Bᵀ; B, −I], columns compressed."""

    def __init__(self, P: Any, rows: Any) -> None:
        (k, n), own = rows.shape, _triangle(P)
        self.diagonal = own.indptr[1:] - 1
        row_of = np.repeat(np.arange(k), np.diff(rows.indptr))
        self.entries = own.nnz + np.arange(rows.nnz) + row_of  # a row is a column here, with its diagonal at the end
        below = own.nnz + rows.indptr[1:] + np.arange(k)
        indices = np.empty(own.nnz + rows.nnz + k, np.int64)
        indices[: own.nnz], indices[self.entries], indices[below] = own.indices, rows.indices, n + np.arange(k)
        self.constant = np.zeros(len(indices))
        self.constant[: own.nnz], self.constant[below] = own.data, -1.0
        indptr = np.concatenate([own.indptr, below + 1])
        self.matrix = sp.csc_matrix((self.constant.copy(), indices, indptr), shape=(n + k, n + k))

    def fill(self, h: Array, entries: Array) -> Any:
        """The matrix with these numbers."""
        values = self.matrix.data
        values[:] = self.constant
        values[self.diagonal] += h
        values[self.entries] = entries
        return self.matrix


def _triangle(P: Any) -> Any:
    """The upper triangle of P with all of its diagonal, by columns, of which the diagonal is the last entry."""
    whole = sp.diags_array(P) if P.ndim == 1 else P
    above, every = sp.triu(whole, k=1, format="coo"), np.arange(whole.shape[0])
    at = np.append(above.row, every), np.append(above.col, every)
    by_column = sp.coo_array((np.append(above.data, whole.diagonal()), at), shape=whole.shape).tocsc()
    by_column.sort_indices()
    return by_column


def joined_with_groups(matrix: Any, groups: Groups) -> Any:
    """The matrix in which all rows of a group have the same pattern, with zeros stored."""
    shape, ones = (groups.starts.size, matrix.shape[0]), np.ones(groups.rows.size)
    members = sp.csr_array((ones, (groups.owner, groups.rows)), shape=shape)
    pattern = sp.csr_array((np.ones(matrix.nnz), matrix.indices, matrix.indptr), shape=matrix.shape)
    own, common = matrix.tocoo(), (members.T @ (members @ pattern)).tocoo()
    at = np.append(own.row, common.row), np.append(own.col, common.col)
    data = np.append(own.data, np.zeros(common.nnz))
    whole = sp.coo_array((data, at), shape=matrix.shape).tocsr()  # adds up, and keeps the zeros
    whole.sort_indices()
    return sp.csr_array(whole)
