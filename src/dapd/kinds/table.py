"""All rows of φ in one table, if they are intervals and groups: for transforms of rows and for second-order steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from dapd.arguments import consecutive
from dapd.arrays import Array
from dapd.kinds.base import Phi, kinds_of
from dapd.kinds.by_rows import Box, Interval, NonNegative, Rows, Zero
from dapd.kinds.composed import Conjugate, Stack
from dapd.kinds.sets import Balls, GroupBall

PARTS = 8  # most parts of a Stack; with more, rows of several kinds share a part
NONE = np.zeros(0)


class Derivative(NamedTuple):
    """D of v ↦ prox_{σφ}(v): a diagonal, and in group t the matrix a·I + (a′ − a)·v̂v̂ᵀ with v̂ = v/‖v‖.

    Its eigenvalues lie in [0, 1].
    """

    across: Array  # per row: D of a row by itself, or a of its group
    along: Array  # per group: a′, what D does to v̂
    unit: Array  # per row of a group: v̂

    def same_rows(self, other: Derivative | None) -> bool:
        """Whether the same rows are active; groups change smoothly and always count as changed."""
        return other is not None and not self.along.size and np.array_equal(self.across, other.across)


@dataclass(eq=False)
class Table:
    """φ as a table with an entry per row: the indicator of an interval of y, or else lower ≤ Mx − b ≤ upper.

    In a row of a group, `lower` is the radius of its ball: of y, or else of Mx − b.
    """

    of_y: Array
    lower: Array
    upper: Array
    grouped: Array
    unit: Array  # the row at which the group of each row starts; the row itself if it has no group

    # the last σ, with the ends of what is clipped
    _ends: tuple[Array, Array, Array] | None = field(default=None, init=False)

    @classmethod
    def of(cls, phi: Phi, rows: int, others: list[tuple[Phi, slice]] | None = None) -> Table | None:
        """The table of φ; None if some rows are neither intervals nor groups.

        With a list for `others`, such kinds are put there with their rows, in which the table has φ = 0.
        """
        table, end = cls.intervals(rows, 0.0, 0.0), 0
        for kind, n in kinds_of(phi, rows):
            at, end = slice(end, end + n), end + n
            if isinstance(kind, Balls):
                heights = kind.heights(n)
                table.grouped[at], table.of_y[at] = True, kind.of_y
                table.lower[at] = np.repeat(np.broadcast_to(kind.radius, len(heights)), heights)
                table.unit[at] = np.repeat(at.start + np.cumsum(heights) - heights, heights)
            elif isinstance(kind, Rows):
                table.of_y[at], table.lower[at], table.upper[at] = kind.of_y, kind.lower, kind.upper
            elif others is None:
                return None
            else:
                others.append((kind, at))
        return table

    @classmethod
    def intervals(cls, rows: int, lower: Any, upper: Any) -> Table:
        """Rows with lower ≤ Mx − b ≤ upper."""
        none = np.zeros(rows, bool)
        return cls(none, np.full(rows, lower), np.full(rows, upper), none.copy(), np.arange(rows))

    def simplified(self) -> Table:
        """With intervals of Mx − b instead of those of y that say as much: for free y, and for y = 0."""
        inside = self.of_y & ~self.grouped
        free = inside & (self.lower == -np.inf) & (self.upper == np.inf)
        pinned = inside & (self.lower == 0) & (self.upper == 0)
        if not (free | pinned).any():
            return self
        lower = np.where(free, 0.0, np.where(pinned, -np.inf, self.lower))
        upper = np.where(free, 0.0, np.where(pinned, np.inf, self.upper))
        return replace(self, of_y=self.of_y & ~(free | pinned), lower=lower, upper=upper)

    @cached_property
    def interval(self) -> Array:
        """Whether the row is lower ≤ Mx − b ≤ upper."""
        return ~(self.of_y | self.grouped)

    @cached_property
    def boxed(self) -> Array:
        """Whether the row is lower ≤ y ≤ upper."""
        return self.of_y & ~self.grouped

    @property
    def equation(self) -> Array:
        """Whether the row is Mx − b = lower."""
        return self.interval & (self.lower == self.upper)

    @cached_property
    def of_residual(self) -> tuple[Array, Array]:
        """The ends of the intervals of Mx − b; zero in other rows, whose φ has no such part."""
        return np.where(self.interval, self.lower, 0.0), np.where(self.interval, self.upper, 0.0)

    @cached_property
    def of_dual(self) -> tuple[Array, Array]:
        """The bounds of y; infinite in other rows."""
        return np.where(self.boxed, self.lower, -np.inf), np.where(self.boxed, self.upper, np.inf)

    @cached_property
    def linear(self) -> Array:
        """Rows with nothing to shrink: such a row is active if it is not clipped."""
        return np.equal(*self.of_residual)

    @cached_property
    def bounded(self) -> Array:
        """Rows whose y has a bound, so their residual need not vanish."""
        least, most = self.of_dual
        return self.grouped | (least > -np.inf) | (most < np.inf)

    @cached_property
    def members(self) -> Array:
        """The rows that belong to groups."""
        return np.flatnonzero(self.grouped)

    @cached_property
    def starts(self) -> Array:
        """Where groups start, among the members."""
        return np.flatnonzero(self.unit[self.members] == self.members)

    @cached_property
    def owner(self) -> Array:
        """The group of each member."""
        return np.repeat(np.arange(self.starts.size), np.diff(np.append(self.starts, self.members.size)))

    @cached_property
    def radii(self) -> Array:
        """The radius of each group."""
        return self.lower[self.members[self.starts]]

    @cached_property
    def inside(self) -> Array:
        """Whether the y of a group lies in its ball."""
        return self.of_y[self.members[self.starts]]

    def same_groups(self, other: Table) -> bool:
        """Whether both have the same groups, of the same kinds."""
        pairs = ((self.grouped, other.grouped), (self.unit, other.unit), (self.inside, other.inside))
        return all(np.array_equal(*pair) for pair in pairs)

    def pooled(self, sizes: Array) -> Array:
        """The greatest of each group's sizes, in each of its rows."""
        if not self.members.size:
            return sizes
        return self._of_groups(sizes, np.maximum.reduceat(sizes[self.members], self.starts))

    def averaged(self, steps: Array) -> Array:
        """The geometric mean of each group's steps, in each of its rows."""
        if not self.members.size:
            return steps
        means = np.exp(np.add.reduceat(np.log(steps[self.members]), self.starts) / np.bincount(self.owner))
        return self._of_groups(steps, means)

    def _of_groups(self, v: Array, values: Array) -> Array:
        found = v.copy()
        found[self.members] = values[self.owner]
        return found

    def factors(self, rows: Array, cost: float = 1.0) -> Array:
        """What ends are multiplied with in the table of ŷ ↦ cost·φ(rows·ŷ/cost)."""
        return np.where(self.of_y, cost / rows, rows)

    def scaled(self, rows: Array, cost: float = 1.0) -> Table:
        """The table of the problem whose rows are multiplied with `rows`, and whose f with `cost`."""
        factors = self.factors(rows, cost)
        return replace(self, lower=self.lower * factors, upper=self.upper * factors)

    def take(self, keep: Array) -> Table:
        """Some of the rows, in the order of `keep`; of a group, all or none."""
        place = np.empty(len(self.unit), np.int64)
        place[keep] = np.arange(len(keep))
        return Table(self.of_y[keep], self.lower[keep], self.upper[keep], self.grouped[keep], place[self.unit[keep]])

    def joined(self, below: Table) -> Table:
        """These rows and more below them."""
        names = ("of_y", "lower", "upper", "grouped")
        of_y, lower, upper, grouped = (np.concatenate([getattr(one, name) for one in (self, below)]) for name in names)
        return Table(of_y, lower, upper, grouped, np.concatenate([self.unit, len(self.unit) + below.unit]))

    def domain(self, size: float) -> Phi:
        """The indicator of dom φ, divided by `size`."""
        lower, upper = (np.where(np.isinf(end), end, 0.0) for end in self.of_residual)
        lower, upper = (np.where(self.of_y, a / size, b) for a, b in ((self.lower, lower), (self.upper, upper)))
        return replace(self, lower=lower, upper=upper, grouped=self.grouped & self.of_y).phi()

    def phi(self) -> Phi:
        """The φ that the table describes."""
        if len(self.of_y) == 0:
            return Zero()
        zero = self.interval & (self.lower == 0) & (self.upper == 0)
        code = 2 * self.grouped + self.of_y
        for different in ((code, zero), (code,), (np.where(self.grouped, code, 0),)):
            starts = _changes(*different)
            if len(starts) <= PARTS:
                break
        stops = [*starts[1:], len(self.of_y)]
        parts = [self._part(slice(a, b), bool(zero[a:b].all())) for a, b in zip(starts, stops, strict=True)]
        if len(parts) == 1:
            return parts[0]
        return Stack(parts, sizes=[int(b - a) for a, b in zip(starts, stops, strict=True)])

    def _part(self, at: slice, zero: bool) -> Phi:
        if self.grouped[at.start]:
            first = np.flatnonzero(self.unit[at] == np.arange(at.start, at.stop))
            sizes = np.diff([*first, at.stop - at.start])
            equal = bool(np.all(sizes == sizes[0]))
            ball = GroupBall(_short(self.lower[at][first]), int(sizes[0]) if equal else consecutive(sizes.tolist()))
            return ball if self.of_y[at.start] else Conjugate(ball)
        if zero:
            return Zero()
        of_y, lower, upper = self.of_y[at], _short(self.lower[at]), _short(self.upper[at])
        if not of_y.any():
            return Interval.between(lower, upper)
        if not of_y.all():
            return Rows.between(lower, upper, of_y)
        is_cone = isinstance(lower, float) and isinstance(upper, float) and lower == 0 and upper == np.inf
        return NonNegative() if is_cone else Box.between(lower, upper)

    def prox_and_derivative(self, v: Array, steps: Array) -> tuple[Array, Derivative]:
        """prox_{σφ}(v) with the steps σ, equal in the rows of a group, and an element of its generalised derivative."""
        p, active = self._by_rows(v, steps)
        across = active.astype(np.float64)
        if not self.members.size:
            return p, Derivative(across, NONE, NONE)
        multiples, norms = self._multiples(v, steps)
        along = np.where(self.inside, np.where(multiples < 1.0, 0.0, 1.0), (multiples > 0) * 1.0)
        across[self.members] = multiples[self.owner]
        p[self.members] = v[self.members] * across[self.members]
        unit = v[self.members] / np.where(norms > 0, norms, 1.0)[self.owner]
        return p, Derivative(across, along, unit)

    def _by_rows(self, v: Array, steps: Array) -> tuple[Array, Array]:
        """The prox of the rows that are in no group, and which of them are active."""
        if self._ends is None or self._ends[0] is not steps:
            lower, upper = (steps * end for end in self.of_residual)
            if self._some_boxed:
                lower, upper = np.where(self.boxed, self.lower, lower), np.where(self.boxed, self.upper, upper)
            self._ends = steps, lower, upper
        _, lower, upper = self._ends
        within = np.minimum(np.maximum(v, lower), upper)
        p = v - within
        active = (p != 0) | self.linear
        if self._some_boxed:
            active = np.where(self.boxed, (v > lower) & (v < upper), active)
            p = np.where(self.boxed, within, p)
        return p, active

    @cached_property
    def _some_boxed(self) -> bool:
        return bool(self.boxed.any())

    def piece(self, v: Array, steps: Array, derivative: Derivative) -> Callable[[Array], Array]:
        """The prox as it is near v: linear in the rows, which stay active or not wherever its argument goes."""
        slope = derivative.across.copy()
        slope[self.members] = 0.0
        offset = self.prox_and_derivative(v, steps)[0] - slope * v

        def near(u: Array) -> Array:
            p = slope * u + offset
            if self.members.size:
                p[self.members] = u[self.members] * self._multiples(u, steps)[0][self.owner]
            return p

        return near

    def project(self, y: Array) -> Array:
        """The nearest point at which φ is finite."""
        (lower, upper), (least, most) = self.of_residual, self.of_dual
        y = np.clip(y, np.where(lower == -np.inf, 0.0, least), np.where(upper == np.inf, 0.0, most))
        if self.members.size:
            y[self.members] *= np.where(self.inside, self._multiples(y, np.ones(y.size))[0], 1.0)[self.owner]
        return y

    def _multiples(self, v: Array, steps: Array) -> tuple[Array, Array]:
        """What the prox multiplies each group by, and the norms of the groups."""
        members = v[self.members]
        norms = np.sqrt(np.add.reduceat(members * members, self.starts))
        safe = np.where(norms > 0, norms, 1.0)
        shrunk = np.maximum(0.0, 1.0 - steps[self.members][self.starts] * self.radii / safe)
        return np.where(self.inside, np.minimum(1.0, self.radii / safe), shrunk), norms


def _changes(*kinds: Array) -> Array:
    """Where runs of equal entries start."""
    different = [one[1:] != one[:-1] for one in kinds]
    return np.concatenate([[0], 1 + np.flatnonzero(np.logical_or.reduce(different))])


def _short(values: Array) -> float | Array:
    return float(values[0]) if np.all(values == values[0]) else values
