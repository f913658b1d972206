"""φ with parameters that are arrays of any library, traced or not, as the records of f in `records`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dapd.arguments import consecutive
from dapd.arrays import Array
from dapd.derivatives.records import ParameterRecord, sums, with_sizes
from dapd.kinds import by_rows as proximal
from dapd.kinds import composed


@dataclass(frozen=True, eq=False)
class PhiRecord(ParameterRecord):
    """φ."""

    def prox(self, xp: Any, v: Array, step: Any) -> Array:
        """argmin_y φ(y) + Σ (yᵢ − vᵢ)²/(2·stepᵢ), steps equal in the rows of a group."""
        raise NotImplementedError

    def model(self) -> proximal.Phi:
        """The class of `dapd`."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class Zero(PhiRecord):
    """φ ≡ 0: Mx = b."""

    def prox(self, xp: Any, v: Array, step: Any) -> Array:
        """The identity."""
        return v

    def model(self) -> proximal.Phi:
        """The same."""
        return proximal.Zero()


@dataclass(frozen=True, eq=False)
class NonNegative(PhiRecord):
    """Indicator of y ≥ 0: Mx ≤ b."""

    def prox(self, xp: Any, v: Array, step: Any) -> Array:
        """max(v, 0), with slope 0 at 0."""
        return xp.where(v > 0, v, 0 * v)

    def model(self) -> proximal.Phi:
        """The same."""
        return proximal.NonNegative()


@dataclass(frozen=True, eq=False)
class Box(PhiRecord):
    """Indicator of lower ≤ y ≤ upper."""

    lower: Any
    upper: Any

    def prox(self, xp: Any, v: Array, step: Any) -> Array:
        """Clip v, with slope 0 at the bounds."""
        return xp.where(v <= self.lower, self.lower, xp.where(v >= self.upper, self.upper, v))

    def model(self) -> proximal.Phi:
        """With its numbers checked."""
        return proximal.Box(self.lower, self.upper)


@dataclass(frozen=True, eq=False)
class Interval(PhiRecord):
    """φ(y) = sup{zᵀy : lower ≤ z ≤ upper}: lower ≤ Mx − b ≤ upper."""

    lower: Any
    upper: Any

    def prox(self, xp: Any, v: Array, step: Any) -> Array:
        """Shrink v, with slope 0 at the ends unless they are equal."""
        low, high = step * self.lower, step * self.upper
        above = (v > high) | (self.lower == self.upper)
        return xp.where(above, v - high, xp.where(v < low, v - low, 0 * v))

    def model(self) -> proximal.Phi:
        """With its numbers checked."""
        return proximal.Interval(self.lower, self.upper)


@dataclass(frozen=True, eq=False)
class L1(PhiRecord):
    """φ(y) = Σ nuᵢ|yᵢ|: |Mx − b| ≤ nu."""

    nu: Any

    def prox(self, xp: Any, v: Array, step: Any) -> Array:
        """Soft thresholding."""
        return Interval(-self.nu, self.nu).prox(xp, v, step)

    def model(self) -> proximal.Phi:
        """With its numbers checked."""
        return proximal.L1(self.nu)


@dataclass(frozen=True, eq=False)
class GroupBall(PhiRecord):
    """Indicator of ‖y_t‖₂ ≤ radius for each group t of rows, given by the groups' size or as a list of slices."""

    fixed = ("groups",)
    radius: Any
    groups: Any

    def __post_init__(self) -> None:
        if isinstance(self.groups, list):  # a list of slices is not hashable
            object.__setattr__(self, "groups", tuple((piece.start or 0, piece.stop) for piece in self.groups))

    def _owner(self, rows: int) -> Array:
        if not isinstance(self.groups, tuple):
            return np.arange(rows) // self.groups
        sizes = [stop - start for start, stop in self.groups]
        return np.repeat(np.arange(len(sizes)), sizes)

    def prox(self, xp: Any, v: Array, step: Any) -> Array:
        """Scale each group back to its ball; the sphere counts as inside."""
        owner = self._owner(v.shape[0])
        owner, count = xp.asarray(owner), int(owner[-1]) + 1
        squares = sums(v * v, owner, count)
        outside = squares > self.radius**2
        factor = xp.where(outside, self.radius / xp.sqrt(xp.where(outside, squares, 1.0)), 1.0)
        return v * factor[owner]

    def model(self) -> proximal.Phi:
        """With its numbers checked."""
        groups = [slice(*ends) for ends in self.groups] if isinstance(self.groups, tuple) else self.groups
        return proximal.GroupBall(self.radius, groups)


@dataclass(frozen=True, eq=False)
class Conjugate(PhiRecord):
    """φ = g* for another φ: adds g(Mx − b) to f."""

    g: PhiRecord

    def prox(self, xp: Any, v: Array, step: Any) -> Array:
        """By Moreau: v − step·prox_{g/step}(v/step)."""
        return v - step * self.g.prox(xp, v / step, 1 / step)

    def model(self) -> proximal.Phi:
        """Of g's class."""
        return composed.Conjugate(self.g.model())


@dataclass(frozen=True, eq=False)
class Stack(PhiRecord):
    """A different φ for different rows; sizes are the rows of each part."""

    fixed = ("sizes",)
    parts: Sequence[PhiRecord]
    sizes: Sequence[int]

    def __post_init__(self) -> None:
        with_sizes(self, "parts")

    def prox(self, xp: Any, v: Array, step: Any) -> Array:
        """Part by part."""
        pieces = zip(self.parts, consecutive(self.sizes), strict=True)
        return xp.concatenate([part.prox(xp, v[piece], step[piece]) for part, piece in pieces])

    def model(self) -> proximal.Phi:
        """Of the parts' classes."""
        return composed.Stack([part.model() for part in self.parts], sizes=list(self.sizes))
