"""φ row by row: what a transform of rows reads and writes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dapd.arguments import consecutive
from dapd.arrays import Array
from dapd.kinds.by_rows import Box, GroupBall, Interval, NonNegative, Phi, Zero
from dapd.kinds.composed import Conjugate, Stack
from dapd.kinds.lowered import BALL, CLIP, KEEP, SHRINK, SHRINK_BALL, pieces_of
from dapd.problem.problem import Problem

PARTS = 8  # of a Stack; with more, equations stay among the intervals


@dataclass(frozen=True)
class PhiTable:
    """φ as a table with an entry per row.

    Four codes are left: SHRINK (lower ≤ Mx − b ≤ upper, equations have equal bounds), CLIP (lower ≤ y ≤ upper), BALL
    and SHRINK_BALL (their radius is `lower`).
    """

    code: Array
    lower: Array
    upper: Array
    unit: Array  # the row at which the group of each row starts; the row itself if it has no group

    @classmethod
    def of(cls, problem: Problem) -> PhiTable | None:
        """The table of the problem's φ; None if only Python can evaluate it."""
        phi, rows = problem.phi, problem.rows
        pieces = pieces_of(phi, rows)
        if pieces is None:
            return None
        code, unit = np.empty(rows, np.uint8), np.arange(rows)
        lower, upper = np.empty(rows), np.empty(rows)
        for (piece, _), at in zip(pieces, consecutive(length for _, length in pieces), strict=True):
            code[at] = piece.code
            bounds = piece.lower, piece.upper
            if piece.sizes is not None:
                first = at.start + np.cumsum(piece.sizes) - piece.sizes
                unit[at] = np.repeat(first, piece.sizes)
                bounds = np.repeat(np.broadcast_to(piece.lower, len(first)), piece.sizes), 0.0
            lower[at], upper[at] = bounds
        return cls(code, lower, upper, unit)._with_fewer_codes()

    @classmethod
    def intervals(cls, rows: int, lower: float, upper: float) -> PhiTable:
        """Rows with the same bounds."""
        code = np.full(rows, SHRINK, np.uint8)
        return cls(code, np.full(rows, lower), np.full(rows, upper), np.arange(rows))

    def _with_fewer_codes(self) -> PhiTable:
        code, lower, upper = self.code.copy(), self.lower.copy(), self.upper.copy()
        free = (code == CLIP) & (lower == -np.inf) & (upper == np.inf)
        pinned = (code == CLIP) & (lower == 0) & (upper == 0)
        code[free | pinned | (code == KEEP)] = SHRINK
        lower[free], upper[free] = 0.0, 0.0
        lower[pinned], upper[pinned] = -np.inf, np.inf
        return replace(self, code=code, lower=lower, upper=upper)

    @property
    def interval(self) -> Array:
        """Whether the row is lower ≤ Mx − b ≤ upper."""
        return self.code == SHRINK

    @property
    def equation(self) -> Array:
        """Whether the row is Mx − b = lower."""
        return self.interval & (self.lower == self.upper)

    @property
    def balls(self) -> Array:
        """Whether the row belongs to a group."""
        return (self.code == BALL) | (self.code == SHRINK_BALL)

    def pooled(self, sizes: Array) -> Array:
        """The greatest of each group's sizes, in each of its rows."""
        if not self.balls.any():
            return sizes
        first = np.flatnonzero(self.unit == np.arange(len(self.unit)))
        return np.repeat(np.maximum.reduceat(sizes, first), np.diff([*first, len(sizes)]))

    def scaled(self, rows: Array) -> PhiTable:
        """The table of ŷ ↦ φ(rows·ŷ)."""
        grows = self.interval | (self.code == SHRINK_BALL)
        factor = np.where(grows, rows, 1 / rows)
        return replace(self, lower=self.lower * factor, upper=self.upper * factor)

    def take(self, keep: Array) -> PhiTable:
        """Some of the rows, in the order of `keep`; of a group, all or none."""
        place = np.empty(len(self.unit), np.int64)
        place[keep] = np.arange(len(keep))
        return PhiTable(self.code[keep], self.lower[keep], self.upper[keep], place[self.unit[keep]])

    def joined(self, below: PhiTable) -> PhiTable:
        """These rows and more below them."""
        return PhiTable(
            code=np.concatenate([self.code, below.code]),
            lower=np.concatenate([self.lower, below.lower]),
            upper=np.concatenate([self.upper, below.upper]),
            unit=np.concatenate([self.unit, len(self.unit) + below.unit]),
        )

    def phi(self) -> Phi:
        """The φ that the table describes."""
        if len(self.code) == 0:
            return Zero()
        zero = self.interval & (self.lower == 0) & (self.upper == 0)
        starts = _changes(np.where(zero, KEEP, self.code))
        if len(starts) > PARTS:
            starts = _changes(self.code)
        stops = [*starts[1:], len(self.code)]
        parts = [self._part(slice(a, b), bool(zero[a:b].all())) for a, b in zip(starts, stops, strict=True)]
        if len(parts) == 1:
            return parts[0]
        return Stack(parts, sizes=[int(b - a) for a, b in zip(starts, stops, strict=True)])

    def _part(self, at: slice, zero: bool) -> Phi:
        code = self.code[at.start]
        if code in (BALL, SHRINK_BALL):
            first = np.flatnonzero(self.unit[at] == np.arange(at.start, at.stop))
            sizes = np.diff([*first, at.stop - at.start])
            equal = bool(np.all(sizes == sizes[0]))
            ball = GroupBall(_short(self.lower[at][first]), int(sizes[0]) if equal else consecutive(sizes.tolist()))
            return ball if code == BALL else Conjugate(ball)
        if zero:
            return Zero()
        lower, upper = _short(self.lower[at]), _short(self.upper[at])
        if code == SHRINK:
            return Interval.between(lower, upper)
        is_cone = isinstance(lower, float) and isinstance(upper, float) and lower == 0 and upper == np.inf
        return NonNegative() if is_cone else Box.between(lower, upper)


def _changes(kinds: Array) -> Array:
    """Where runs of equal entries start."""
    return np.concatenate([[0], 1 + np.flatnonzero(kinds[1:] != kinds[:-1])])


def _short(values: Array) -> Any:
    """One number if all are equal."""
    return float(values[0]) if np.all(values == values[0]) else values
