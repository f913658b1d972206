"""φ row by row: the indicator of an interval, or the support function of one."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Self

import numpy as np

from dapd.arguments import SAFE, interval, named, numbers, open_ended
from dapd.arrays import Array, namespace
from dapd.kinds.base import Phi, indicator, least_positive, length, like, within
from dapd.kinds.groups import GroupBall
from dapd.kinds.lowered import CLIP, KEEP, SHRINK, Piece, Pieces, has_valid_lowering

__all__ = ["L1", "Box", "GroupBall", "Interval", "NonNegative", "Phi", "Zero", "support"]


def support(z: Array, lower: Any, upper: Any) -> float:
    """sup{zᵀy : lower ≤ y ≤ upper}; infinite bounds cost nothing if z is zero."""
    ends = np.where(z > 0, upper, np.where(z < 0, lower, 0.0))
    return float(ends @ z)


class _ByRows(Phi):
    """A φ that is a sum over the rows."""

    @property
    def row_steps(self) -> bool:
        """True, unless a subclass overrides the prox."""
        return has_valid_lowering(self, "prox")

    @property
    def _ends(self) -> tuple[Any, Any]:
        """The ends of the interval of each row that φ is the indicator or the support function of."""
        raise NotImplementedError

    @cached_property
    def _bounded(self) -> tuple[Any, Any]:
        """The directions in which the intervals are bounded, as bounds; numbers if all rows have the same."""
        low, high = (np.isinf(end) for end in self._ends)
        return (
            _common(low, np.where(low, 0.0, -np.inf)),
            _common(high, np.where(high, 0.0, np.inf)),
        )


class _Indicator(_ByRows):
    """The indicator of an interval in each row; φ* is its support function, which is positively homogeneous."""

    def ends(self, rows: int) -> tuple[Array, Array]:
        """Those of the intervals are compared with y."""
        return np.zeros(rows), _least_end(rows, *self._ends)

    def conjugate(self, z: Array) -> float:
        """sup{zᵀy : lower ≤ y ≤ upper}."""
        return support(z, *self._ends)

    def recession(self, d: Array) -> float:
        """The indicator of the directions in which the intervals are unbounded."""
        low, high = _unbounded(*self._ends)
        return indicator(np.all(d >= low) and np.all(d <= high))

    def conjugate_recession(self, w: Array) -> float:
        """φ* itself."""
        return self.conjugate(w)

    def reach(self, rows: int) -> float:
        """The norm of the farthest ends."""
        return length(_farthest(*self._ends), rows)

    def project(self, y: Array) -> Array:
        """Clip y to the intervals."""
        return _clipped(y, *self._ends)

    def project_conjugate(self, z: Array) -> Array:
        """Clip z to the directions in which the intervals are bounded."""
        return _clipped(z, *self._bounded)

    def project_recession(self, d: Array) -> Array:
        """Clip d to the directions in which the intervals are unbounded."""
        return np.clip(d, *_unbounded(*self._ends))

    def project_conjugate_recession(self, w: Array) -> Array:
        """As `project_conjugate`."""
        return self.project_conjugate(w)


class _Support(_ByRows):
    """The support function of an interval in each row, positively homogeneous; φ* is the interval's indicator."""

    def ends(self, rows: int) -> tuple[Array, Array]:
        """Those of the intervals are compared with Mx − b."""
        return _least_end(rows, *self._ends), np.zeros(rows)

    @property
    def is_linear(self) -> bool:
        """Whether every interval is a point."""
        return self._points

    @cached_property
    def _points(self) -> bool:
        return bool(np.all(np.equal(*self._ends)))

    def conjugate(self, z: Array) -> float:
        """The indicator of lower ≤ z ≤ upper."""
        return indicator(within(z, *self._ends))

    def recession(self, d: Array) -> float:
        """φ itself."""
        return self.value(d)

    def conjugate_recession(self, w: Array) -> float:
        """The indicator of the directions in which the intervals are unbounded."""
        low, high = _unbounded(*self._ends)
        return indicator(np.all(w >= low) and np.all(w <= high))

    def steepness(self, rows: int) -> float:
        """The norm of the farthest ends."""
        return length(_farthest(*self._ends), rows)

    def project(self, y: Array) -> Array:
        """Clip y to the directions in which the intervals are bounded."""
        return _clipped(y, *self._bounded)

    def project_conjugate(self, z: Array) -> Array:
        """Clip z to the intervals."""
        return _clipped(z, *self._ends)

    def project_recession(self, d: Array) -> Array:
        """As `project`."""
        return self.project(d)

    def project_conjugate_recession(self, w: Array) -> Array:
        """Clip w to the directions in which the intervals are unbounded."""
        return np.clip(w, *_unbounded(*self._ends))


class Zero(_Support):
    """φ ≡ 0: the constraint Mx = b."""

    @property
    def is_zero(self) -> bool:
        """Always true."""
        return True

    def value(self, y: Array) -> float:
        """0."""
        return 0.0

    def prox(self, v: Array, step: Any) -> Array:
        """The identity."""
        return v

    @property
    def _ends(self) -> tuple[Any, Any]:
        return 0.0, 0.0

    def lowered(self, rows: int) -> Pieces | None:
        """One piece."""
        return [(Piece(KEEP), rows)]


class NonNegative(_Indicator):
    """Indicator of y ≥ 0: the constraint Mx ≤ b."""

    def value(self, y: Array) -> float:
        """0 if y ≥ 0."""
        return indicator(within(y, 0, np.inf))

    def prox(self, v: Array, step: Any) -> Array:
        """max(v, 0)."""
        return namespace(v).maximum(v, 0 * v)

    def conjugate(self, z: Array) -> float:
        """The indicator of z ≤ 0."""
        return indicator(within(z, -np.inf, 0))

    @property
    def _ends(self) -> tuple[Any, Any]:
        return 0.0, np.inf

    def lowered(self, rows: int) -> Pieces | None:
        """One piece."""
        return [(Piece(CLIP, 0.0, np.inf), rows)]


class _Between(_ByRows):
    """A φ with an interval given by the user in each row."""

    lower: float | Array
    upper: float | Array

    @classmethod
    def between(cls, lower: float | Array, upper: float | Array) -> Self:
        """The φ with ends that were checked before, whatever their magnitude."""
        made = cls.__new__(cls)
        made.lower, made.upper = lower, upper
        made.size = _common_size(lower, upper)
        return made

    @property
    def _ends(self) -> tuple[Any, Any]:
        return self.lower, self.upper


class Box(_Between, _Indicator):
    """Indicator of lower ≤ y ≤ upper: numbers or vectors, infinite, or of magnitude 1e20 or more, if unbounded."""

    @named
    def __init__(self, lower: Any, upper: Any) -> None:
        self.lower, self.upper = interval(lower, upper)
        self.size = _common_size(self.lower, self.upper)

    def value(self, y: Array) -> float:
        """0 inside the box."""
        return indicator(within(y, self.lower, self.upper))

    def prox(self, v: Array, step: Any) -> Array:
        """Clip v to the box."""
        return namespace(v).clip(v, like(self.lower, v), like(self.upper, v))

    def lowered(self, rows: int) -> Pieces | None:
        """One piece."""
        return [(Piece(CLIP, self.lower, self.upper), rows)]


class Interval(_Between, _Support):
    """φ(y) = sup{zᵀy : lower ≤ z ≤ upper}: the constraint lower ≤ Mx − b ≤ upper, row by row.

    Equal bounds make an equation, one infinite bound an inequality, two a free row. A bound of magnitude 1e20 or more
    is infinite.
    """

    @named
    def __init__(self, lower: Any, upper: Any) -> None:
        self.lower, self.upper = interval(lower, upper)
        self.size = _common_size(self.lower, self.upper)

    def value(self, y: Array) -> float:
        """sup{zᵀy : lower ≤ z ≤ upper}."""
        return support(y, self.lower, self.upper)

    def prox(self, v: Array, step: Any) -> Array:
        """Shrink v towards zero by step·upper from above and step·lower from below."""
        return _shrink(v, step * like(self.lower, v), step * like(self.upper, v))

    def lowered(self, rows: int) -> Pieces | None:
        """One piece."""
        return [(Piece(SHRINK, self.lower, self.upper), rows)]


class L1(_Support):
    """φ(y) = Σ nuᵢ|yᵢ|: the constraint |Mx − b| ≤ nu < 1e20, row by row."""

    @named
    def __init__(self, nu: Any) -> None:
        (self.nu,) = open_ended(nu=numbers("nu", nu))
        self.size = _common_size(self.nu)
        if np.any(np.asarray(self.nu) < 0) or not np.all(np.isfinite(self.nu)):
            raise ValueError(
                "nu must be finite and >= 0, and 1e20 or more counts as infinite; some entry is not. "
                "Interval(-np.inf, np.inf) leaves a row free"
            )

    def value(self, y: Array) -> float:
        """Σ nuᵢ|yᵢ|."""
        return np.sum(self.nu * abs(y))  # type: ignore[no-any-return]  # a scalar of y's own kind

    def prox(self, v: Array, step: Any) -> Array:
        """Soft thresholding at step·nu."""
        threshold = step * like(self.nu, v)
        return _shrink(v, -threshold, threshold)

    @property
    def _ends(self) -> tuple[Any, Any]:
        return -self.nu, self.nu

    def lowered(self, rows: int) -> Pieces | None:
        """One piece."""
        return [(Piece(SHRINK, -self.nu, self.nu), rows)]


def _shrink(v: Array, low: Any, high: Any) -> Array:
    """The rest v − clip(v, low, high), exactly zero in between, infinite bounds included."""
    xp = namespace(v)
    return v - xp.minimum(xp.maximum(v, low), high)


def _common(infinite: Any, values: Array) -> Any:
    """The values, or the one value that all rows share."""
    return float(values.flat[0]) if values.size and (np.all(infinite) or not np.any(infinite)) else values


def _clipped(v: Array, lower: Any, upper: Any) -> Array:
    """Clip v to the bounds; np.clip takes longer for short vectors."""
    return np.minimum(np.maximum(v, lower), upper)


def _unbounded(lower: Any, upper: Any) -> tuple[Any, Any]:
    """The directions in which lower ≤ z ≤ upper is unbounded, as bounds."""
    return np.where(np.isinf(lower), -np.inf, 0.0), np.where(np.isinf(upper), np.inf, 0.0)


def _farthest(lower: Any, upper: Any) -> Any:
    return np.maximum(np.abs(lower), np.abs(upper))


def _least_end(rows: int, lower: Any, upper: Any) -> Array:
    """The least magnitude of the finite ends of each row that are not zero; 0 if there is none."""
    return np.array(least_positive(np.broadcast_to(lower, rows), np.broadcast_to(upper, rows), most=SAFE))


def _common_size(*values: float | Array) -> int | None:
    """The length of the vectors among `values`, None if all are numbers."""
    return next((int(np.size(value)) for value in values if np.ndim(value)), None)
