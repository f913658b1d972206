"""B = T·(rows) of a Newton system: T = √(σD) of M's rows and of the losses', and the pattern of the system."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from dapd.arrays import Array
from dapd.kinds.table import Derivative, Table


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

    def of_rows(self, rows: Array, groups: Groups) -> Weights:
        """T of some rows, among which the groups have these places."""
        return Weights(self.across[rows], self.along, self.unit, groups)

    def times(self, v: Array) -> Array:
        """Tv."""
        return self._through(v, self.across, self.along)

    def divided(self, v: Array) -> tuple[Array, Array]:
        """T⁺v, and what of v lies in the null space of T."""
        q = self._through(v, _inverse(self.across), _inverse(self.along))
        return q, self._through(v, (self.across == 0) * 1.0, (self.along == 0) * 1.0)


def _inverse(t: Array) -> Array:
    return np.where(t > 0, 1.0 / np.where(t > 0, t, 1.0), 0.0)


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
        if groups.rows.size:
            group_of = np.full(self.matrix.shape[0], -1)
            group_of[groups.rows] = groups.owner
            self.inside = np.flatnonzero(group_of[self.row_of] >= 0)  # entries of grouped rows
            self.group = group_of[self.row_of[self.inside]]
            columns = self.matrix.indices[self.inside].astype(np.int64)
            _, self.slot = np.unique(self.group * np.int64(matrix.shape[1]) + columns, return_inverse=True)

    def entries_of(self, T: Weights) -> Array:
        """The entries of B, in the order of the matrix."""
        data = T.across[self.row_of] * self.matrix.data
        if self.groups.rows.size:
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
        k, n = rows.shape
        starts, at, own, places = _triangle(P, n)
        self.diagonal = starts[1:] - 1
        row_of = np.repeat(np.arange(k), np.diff(rows.indptr))
        self.entries = len(at) + np.arange(rows.nnz) + row_of  # a row is a column here, with its diagonal at the end
        below = len(at) + rows.indptr[1:] + np.arange(k)
        indices = np.empty(len(at) + rows.nnz + k, np.int64)
        indices[: len(at)], indices[self.entries], indices[below] = at, rows.indices, n + np.arange(k)
        self.constant = np.zeros(len(indices))
        self.constant[places] = own
        self.constant[below] = -1.0
        indptr = np.concatenate([starts, below + 1])
        self.matrix = sp.csc_matrix((self.constant.copy(), indices, indptr), shape=(n + k, n + k))

    def fill(self, h: Array, entries: Array) -> Any:
        """The matrix with these numbers."""
        values = self.matrix.data
        values[:] = self.constant
        values[self.diagonal] += h
        values[self.entries] = entries
        return self.matrix


def _triangle(P: Any, n: int) -> tuple[Array, Array, Array, Array]:
    """The upper triangle of P with all of its diagonal, by columns, of which the diagonal is the last entry.

    Where columns start, the row of each entry, and what P has, with its places.
    """
    if P.ndim == 1:
        return np.arange(n + 1), np.arange(n), P, np.arange(n)
    whole = sp.coo_array(P)
    (i, j), data = whole.coords, whole.data
    above = i < j
    starts = np.append(0, np.cumsum(1 + np.bincount(j[above], minlength=n)))
    order = np.lexsort((i[above], j[above]))
    places = np.arange(len(order)) + j[above][order]  # one diagonal entry in each column before
    at = np.empty(starts[-1], np.int64)
    at[places], at[starts[1:] - 1] = i[above][order], np.arange(n)
    return starts, at, np.append(data[above][order], P.diagonal()), np.append(places, starts[1:] - 1)


def joined_with_groups(matrix: Any, groups: Groups) -> Any:
    """The matrix in which all rows of a group have the same pattern, with zeros stored."""
    inside, owner = groups.rows, groups.owner
    coo = matrix.tocoo()
    i, j = coo.coords
    group_of = np.full(matrix.shape[0], -1)
    group_of[inside] = owner
    g = group_of[i]
    keys = np.unique(g[g >= 0] * np.int64(matrix.shape[1]) + j[g >= 0])
    group, column = keys // matrix.shape[1], keys % matrix.shape[1]
    sizes, starts = np.bincount(owner), np.searchsorted(owner, np.arange(owner.max() + 1))
    many = sizes[group]
    rows = np.repeat(starts[group], many) + np.arange(many.sum()) - np.repeat(np.cumsum(many) - many, many)
    at = np.concatenate([i, inside[rows]])
    across = np.concatenate([j, np.repeat(column, many)])
    data = np.concatenate([coo.data, np.zeros(many.sum())])
    whole = sp.coo_array((data, (at, across)), shape=matrix.shape).tocsr()  # adds up, and keeps the zeros
    whole.sort_indices()
    return sp.csr_array(whole)
