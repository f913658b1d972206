"""φ of groups of rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from dapd.arguments import named, numbers, partition, whole
from dapd.arrays import Array, namespace
from dapd.kinds.base import Phi, indicator, length, like, within
from dapd.kinds.lowered import BALL, Piece, Pieces


class GroupBall(Phi):
    """Indicator of ‖y_t‖₂ ≤ radius for each group t of rows: adds Σ_t radius‖(Mx − b)_t‖₂ to f.

    Parameters
    ----------
    radius : float or vector
        One for all groups, or one each: a weight, so any finite number counts, however great.
    groups : int or list of slices
        The size of consecutive equal groups, or the groups themselves (consecutive, covering all rows).
    """

    @named
    def __init__(self, radius: Any, groups: int | list[slice]) -> None:
        self.radius = numbers("radius", radius)
        if np.any(np.asarray(self.radius) <= 0) or not np.all(np.isfinite(self.radius)):
            raise ValueError("radius must be finite and > 0; some entry is not")
        count = None if isinstance(self.radius, float) else len(self.radius)
        if isinstance(groups, list):
            if not groups or not isinstance(getattr(groups[-1], "stop", None), int):
                raise ValueError(
                    "groups must be a list of slices, the last with a stop, such as [slice(0, 2), slice(2, 5)]"
                )
            self.groups: int | list[slice] = partition("groups", groups, groups[-1].stop)
            sizes = [piece.stop - piece.start for piece in self.groups]
            self.size = sum(sizes)
            self._owner = np.repeat(np.arange(len(sizes)), sizes)
            if count is not None and count != len(sizes):
                raise ValueError(f"radius has {count} entries for {len(sizes)} groups")
        else:
            self.groups = whole("groups", groups, least=1)
            self.size = None if count is None else count * self.groups

    def sized(self, rows: int) -> Phi:
        """Check that the groups divide the rows."""
        if not isinstance(self.groups, list) and rows % self.groups:
            raise ValueError(f"phi has groups of {self.groups} rows, which do not divide the {rows} rows of M")
        return super().sized(rows)

    @property
    def row_steps(self) -> bool:
        """Yes: a projection has no use for the step."""
        return type(self).__module__ == __name__

    def pooled(self, sizes: Array) -> Array:
        """The norm of each group, in each of its rows."""
        norms = self._norms(sizes)
        return norms[self._owner] if isinstance(self.groups, list) else np.repeat(norms, self.groups)

    def _norms(self, v: Array) -> Array:
        """The Euclidean norm of each group."""
        xp = namespace(v)
        if not isinstance(self.groups, list):
            return xp.sqrt(xp.sum(xp.reshape(v * v, (-1, self.groups)), axis=1))
        known = {} if xp is np else {"length": len(self.groups)}  # JAX wants the number of bins ahead
        return xp.sqrt(xp.bincount(self._owner, v * v, **known).astype(v.dtype))

    def value(self, y: Array) -> float:
        """0 if every group lies in its ball, up to the rounding of its norm."""
        return indicator(within(self._norms(y), 0, self.radius))

    def prox(self, v: Array, step: Any) -> Array:
        """Scale each group back to its ball."""
        xp = namespace(v)
        radius = like(self.radius, v)
        scale = radius / xp.maximum(self._norms(v), radius)
        if isinstance(self.groups, list):
            return v * scale[self._owner]
        return xp.reshape(xp.reshape(v, (-1, self.groups)) * scale[:, None], v.shape)

    def ends(self, rows: int) -> tuple[Array, Array]:
        """The radii are compared with y."""
        radii = np.broadcast_to(self.radius, rows if isinstance(self.radius, float) else len(self.radius))
        if len(radii) != rows:
            radii = radii[self._owner] if isinstance(self.groups, list) else np.repeat(radii, self.groups)
        return np.zeros(rows), np.array(radii)

    def reach(self, rows: int) -> float:
        """The norm of the radii."""
        return length(self.radius, rows // self.groups if isinstance(self.groups, int) else len(self.groups))

    def project(self, y: Array) -> Array:
        """The prox."""
        return self.prox(y, 1.0)

    def project_conjugate(self, z: Array) -> Array:
        """The identity."""
        return z

    def conjugate(self, z: Array) -> float:
        """Σ_t radius‖z_t‖₂."""
        return float(np.sum(self.radius * self._norms(z)))

    def recession(self, d: Array) -> float:
        """The indicator of zero: the balls are bounded."""
        return indicator(not np.any(d))

    def conjugate_recession(self, w: Array) -> float:
        """φ* itself, which is positively homogeneous."""
        return self.conjugate(w)

    def project_recession(self, d: Array) -> Array:
        """0."""
        return 0 * d

    def lowered(self, rows: int) -> Pieces | None:
        """One piece, with its groups."""
        if isinstance(self.groups, list):
            sizes = [group.stop - group.start for group in self.groups]
        else:
            sizes = [self.groups] * (rows // self.groups)
        return [(Piece(BALL, self.radius, sizes=sizes), rows)]
