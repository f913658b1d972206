"""φ row by row: the indicator of an interval, or the support function of one."""

from __future__ import annotations

import itertools
from functools import cached_property
from typing import Any, Self

import numpy as np

from dapd.arguments import SAFE, interval, named, numbers, open_ended
from dapd.arrays import Array, is_foreign, namespace
from dapd.kinds.base import Phi, indicator, within
from dapd.kinds.native import Numbers, numbers_of_rows
from dapd.kinds.sets import GroupBall, OfSet, common_size, either, least_positive, like

__all__ = ["L1", "Box", "ByRows", "GroupBall", "Interval", "NonNegative", "Phi", "Rows", "Zero", "support"]

SHORT = 1 << 10  # entries of a vector up to which np.clip takes longer than two other calls


def support(z: Array, lower: Any, upper: Any) -> float:
    """sup{zᵀy : lower ≤ y ≤ upper}; infinite bounds cost nothing if z is zero."""
    return float(_support_ends(z, lower, upper) @ z)


class ByRows(OfSet):
    """A φ with an interval in each row. A subclass has `_ends`, the lower and the upper ones, and `of_y`."""

    @property
    def _ends(self) -> tuple[Any, Any]:
        raise NotImplementedError

    @property
    def is_linear(self) -> bool:
        """Whether φ is the support function of a point in every row."""
        return self._points

    @cached_property
    def _points(self) -> bool:
        return not np.any(self.of_y) and bool(np.all(np.equal(*self._ends)))

    def canonical(self, rows: int) -> list[tuple[Phi, int]]:
        return [(Rows.between(*self._ends, self.of_y), rows)]

    def prox(self, v: Array, step: Any) -> Array:
        """Clip v to the interval; or shrink it towards zero, by step·upper from above and step·lower from below."""
        lower, upper = self._ends
        if not (isinstance(lower, float) and isinstance(upper, float)):
            lower, upper = like(lower, v), like(upper, v)
        if self.of_y is True:
            return _clipped(v, lower, upper)
        shrunk = _shrunk(v, step * lower, step * upper)
        return shrunk if self.of_y is False else namespace(v).where(self.of_y, _clipped(v, lower, upper), shrunk)

    def conjugated(self) -> Phi:
        return Rows.between(*self._ends, not self.of_y if isinstance(self.of_y, bool) else ~self.of_y)

    def value(self, y: Array) -> float:
        """The indicator in some rows, the support function in others."""
        (lower, upper), inside = self._ends, self.of_y
        if isinstance(inside, bool):
            return indicator(within(y, lower, upper)) if inside else support(y, lower, upper)
        outside = ~inside
        low, high = np.where(inside, lower, -np.inf), np.where(inside, upper, np.inf)
        return indicator(within(y, low, high)) + support(y, np.where(outside, lower, 0), np.where(outside, upper, 0))

    def terms(self, y: Array) -> Array:
        return either(self.of_y, 0 * y, _support_ends(y, *self._ends) * y)

    def recession(self, d: Array) -> float:
        """The indicator of the directions in which the intervals are unbounded, or φ itself."""
        (lower, upper), (low, high), inside = self._ends, self._directions, self.of_y
        if isinstance(inside, bool):
            return indicator(np.all(d >= low) and np.all(d <= high)) if inside else support(d, lower, upper)
        fits = np.all((d >= low) & (d <= high) | ~inside)
        return indicator(fits) + support(d, np.where(inside, 0, lower), np.where(inside, 0, upper))

    def _least(self, rows: int) -> Array:
        lower, upper = self._ends
        return np.array(least_positive(np.broadcast_to(lower, rows), np.broadcast_to(upper, rows), most=SAFE))

    def _farthest(self, rows: int) -> Any:
        lower, upper = self._ends
        return np.maximum(np.abs(lower), np.abs(upper))

    @cached_property
    def _directions(self) -> tuple[Any, Any]:
        """The directions in which the intervals are unbounded, as bounds."""
        return _bounds_by(self._ends, (-np.inf, np.inf), (0.0, 0.0))

    @cached_property
    def _bounded(self) -> tuple[Any, Any]:
        """The directions in which the intervals are bounded, as bounds."""
        return _bounds_by(self._ends, (0.0, 0.0), (-np.inf, np.inf))

    def project(self, y: Array) -> Array:
        """Onto the intervals, or onto the directions in which they are bounded."""
        return _clipped(y, *map(either, (self.of_y, self.of_y), self._ends, self._bounded))

    def project_recession(self, d: Array) -> Array:
        """Onto the directions in which the intervals are unbounded, or in which they are bounded."""
        return _clipped(d, *map(either, (self.of_y, self.of_y), self._directions, self._bounded))


class Rows(ByRows):
    """Intervals of y or of Mx − b in any mixture: the canonical form that engines and transforms read."""

    lower: Any
    upper: Any

    @classmethod
    def between(cls, lower: Any, upper: Any, of_y: Any = None) -> Self:
        """The φ with ends that were checked before, whatever their magnitude."""
        made = cls.__new__(cls)
        made.lower, made.upper = lower, upper
        if of_y is not None:
            made.of_y = of_y
        made.size = common_size(lower, upper, made.of_y)
        return made

    @property
    def _ends(self) -> tuple[Any, Any]:
        return self.lower, self.upper

    def parameters(self) -> dict[str, Any]:
        found = {"lower": self.lower, "upper": self.upper}
        return found if isinstance(self.of_y, bool) else found | {"of_y": self.of_y}

    def part(self, at: slice, rows: int) -> Phi:
        return Rows.between(*(end[at] if np.ndim(end) else end for end in (self.lower, self.upper, self.of_y)))

    def native(self, rows: int) -> Numbers:
        return numbers_of_rows(self.lower, self.upper, self.of_y)


class Zero(ByRows):
    """φ ≡ 0: the constraint Mx = b."""

    leaves = ()

    @property
    def is_zero(self) -> bool:
        return True

    @property
    def _ends(self) -> tuple[Any, Any]:
        return 0.0, 0.0

    def value(self, y: Array) -> float:
        return 0.0

    def prox(self, v: Array, step: Any) -> Array:
        return v


class NonNegative(ByRows):
    """Indicator of y ≥ 0: the constraint Mx ≤ b."""

    leaves = ()
    of_y = True

    @property
    def _ends(self) -> tuple[Any, Any]:
        return 0.0, np.inf

    def prox(self, v: Array, step: Any) -> Array:
        return np.maximum(v, 0 * v) if isinstance(v, np.ndarray) else namespace(v).where(v > 0, v, 0 * v)

    def conjugate(self, z: Array) -> float:
        return indicator(within(z, -np.inf, 0))

    def conjugate_recession(self, w: Array) -> float:
        return self.conjugate(w)


class Box(Rows):
    """Indicator of lower ≤ y ≤ upper: numbers or vectors, infinite, or of magnitude 1e20 or more, if unbounded."""

    arguments = ("lower", "upper")
    of_y = True

    @named
    def __init__(self, lower: Any, upper: Any) -> None:
        self.lower, self.upper = _checked_unless_foreign(lower, upper)
        self.size = common_size(self.lower, self.upper)


class Interval(Rows):
    """φ(y) = sup{zᵀy : lower ≤ z ≤ upper}: the constraint lower ≤ Mx − b ≤ upper, row by row.

    Equal bounds make an equation, one infinite bound an inequality, two a free row. A bound of magnitude 1e20 or more
    is infinite.
    """

    arguments = ("lower", "upper")

    @named
    def __init__(self, lower: Any, upper: Any) -> None:
        self.lower, self.upper = _checked_unless_foreign(lower, upper)
        self.size = common_size(self.lower, self.upper)


class L1(ByRows):
    """φ(y) = Σ nuᵢ|yᵢ|: the constraint |Mx − b| ≤ nu < 1e20, row by row."""

    arguments = leaves = ("nu",)

    @named
    def __init__(self, nu: Any) -> None:
        self.nu = nu if is_foreign(nu) else open_ended(nu=numbers("nu", nu))[0]
        self.size = common_size(self.nu)
        if not is_foreign(nu) and (np.any(np.asarray(self.nu) < 0) or not np.all(np.isfinite(self.nu))):
            raise ValueError(
                "nu must be finite and >= 0, and 1e20 or more counts as infinite; some entry is not. "
                "Interval(-np.inf, np.inf) leaves a row free"
            )

    def value(self, y: Array) -> float:
        return np.sum(self.nu * abs(y))  # type: ignore[no-any-return]  # a scalar of y's own kind

    @property
    def _ends(self) -> tuple[Any, Any]:
        return -self.nu, self.nu


def merged(kinds: list[tuple[Phi, int]]) -> list[tuple[Phi, int]]:
    """The same canonical kinds with consecutive rows in one of them, with vectors."""
    found: list[tuple[Phi, int]] = []
    for of_rows, run in itertools.groupby(kinds, key=lambda kind: type(kind[0]) is Rows):
        together: list[tuple[Any, int]] = list(run)
        if of_rows:
            columns = zip(*((rows.lower, rows.upper, rows.of_y) for rows, _ in together), strict=True)
            sizes = [size for _, size in together]
            vectors = (np.concatenate(list(map(np.broadcast_to, column, sizes))) for column in columns)
            together = [(Rows.between(*vectors), sum(sizes))]
        found += together
    return found


def _checked_unless_foreign(lower: Any, upper: Any) -> tuple[Any, Any]:
    """The ends of intervals; arrays that may be traced are checked when a problem is made of them."""
    return (lower, upper) if is_foreign(lower) or is_foreign(upper) else interval(lower, upper)


def _clipped(v: Array, lower: Any, upper: Any) -> Array:
    """Clip v; a derivative is zero at the bounds."""
    if isinstance(v, np.ndarray):
        return np.clip(v, lower, upper) if v.size > SHORT else np.minimum(np.maximum(v, lower), upper)
    xp = namespace(v)
    return xp.where(v <= lower, lower, xp.where(v >= upper, upper, v))


def _shrunk(v: Array, low: Any, high: Any) -> Array:
    """The rest v − clip(v, low, high), exactly zero in between; a derivative is zero at ends that differ."""
    if isinstance(v, np.ndarray):
        return v - _clipped(v, low, high)
    xp = namespace(v)
    return xp.where((v > high) | (low == high), v - high, xp.where(v < low, v - low, 0 * v))


def _support_ends(z: Array, lower: Any, upper: Any) -> Array:
    xp = namespace(z)
    return xp.where(z > 0, upper, xp.where(z < 0, lower, 0.0))


def _bounds_by(ends: tuple[Any, Any], endless: tuple[float, float], ended: tuple[float, float]) -> tuple[Any, Any]:
    """Bounds that depend on which ends are infinite; numbers if all rows have the same."""
    found = []
    for end, one, two in zip(ends, endless, ended, strict=True):
        xp = namespace(end) if is_foreign(end) else np
        infinite = xp.isinf(end)
        same = xp is np and (np.all(infinite) or not np.any(infinite))
        found.append((one if np.any(infinite) else two) if same else xp.where(infinite, one, two))
    return found[0], found[1]
