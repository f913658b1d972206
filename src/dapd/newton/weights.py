"""T = √(σD): what the rows of M, and those of the losses, are multiplied with in a Newton system."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

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
