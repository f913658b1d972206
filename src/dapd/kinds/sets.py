"""Indicators of convex sets and their support functions, each the conjugate of the other; those of balls of groups."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from dapd.arguments import named, numbers, partition, whole
from dapd.arrays import Array, is_foreign, namespace, sums
from dapd.kinds.base import Phi, indicator, is_own, within
from dapd.kinds.native import Numbers, numbers_of_groups


class Paired(Phi):
    """A φ that gives φ* as `conjugated`, which answers what is asked about φ*."""

    @cached_property
    def _conjugate(self) -> Phi:
        return self.conjugated()

    def conjugated(self) -> Phi:
        raise NotImplementedError

    def conjugate(self, z: Array) -> float:
        return self._conjugate.value(z)

    def conjugate_terms(self, z: Array) -> Array:
        return self._conjugate.terms(z)

    def conjugate_recession(self, w: Array) -> float:
        return self._conjugate.recession(w)

    def project_conjugate(self, z: Array) -> Array:
        return self._conjugate.project(z)

    def project_conjugate_recession(self, w: Array) -> Array:
        return self._conjugate.project_recession(w)

    def steepness(self, rows: int) -> float:
        return self._conjugate.reach(rows)


class OfSet(Paired):
    """The indicator of a closed convex set of y, or the support function of such a set of Mx − b.

    φ* is the other of the two, for the same set.
    """

    runs_on_device = True
    of_y: Any = False  # whether φ is the indicator; for all rows, or one each

    _least: Callable[[int], Array]  # the least positive number of each row
    _farthest: Callable[[int], Any]  # the greatest of each row, or of all

    @property
    def row_steps(self) -> bool:
        """Yes, equal in the rows of a group, unless a subclass overrides the prox."""
        return is_own(self, "prox")

    def ends(self, rows: int) -> tuple[Array, Array]:
        least, none = self._least(rows), np.zeros(rows)
        return either(self.of_y, none, least), either(self.of_y, least, none)

    def reach(self, rows: int) -> float:
        return length(self._farthest(rows), rows) if np.all(self.of_y) else np.inf


def either(inside: Any, first: Any, second: Any) -> Any:
    """The first in some rows, the second in the others."""
    if isinstance(inside, bool):
        return first if inside else second
    return namespace(inside).where(inside, first, second)


class Balls(OfSet):
    """The indicator of ‖y_t‖₂ ≤ radius for each group t of rows; or its conjugate, Σ_t radius‖y_t‖₂."""

    of_y: bool = True
    leaves: ClassVar[tuple[str, ...]] = ("radius", "owner")
    radius: Any  # one for all groups, or one each
    height: int  # rows of each group, if all have the same number, else 0
    owner: Array | None = None  # else the group of each row,
    count: int = 0  # and how many groups there are

    def canonical(self, rows: int) -> list[tuple[Phi, int]]:
        return [(self._alike(of_y=self.of_y), rows)]

    def conjugated(self) -> Phi:
        return self._alike(of_y=not self.of_y)

    @classmethod
    def of(cls, radius: Any, heights: Array, *, of_y: bool) -> Balls:
        """Groups of these sizes."""
        made = Balls()
        made.radius, made.of_y = radius, of_y
        made._divide(heights)
        return made

    def _divide(self, heights: Array) -> None:
        self.size, self.count = int(np.sum(heights)), len(heights)
        self.height = int(heights[0]) if np.all(np.equal(heights, heights[0])) else 0
        self.owner = None if self.height else np.repeat(np.arange(self.count, dtype=np.int32), heights)

    def _alike(self, *, of_y: bool) -> Balls:
        made = Balls()
        made.of_y, made.radius, made.size = of_y, self.radius, self.size
        made.height, made.owner, made.count = self.height, self.owner, self.count
        return made

    def part(self, at: slice, rows: int) -> Phi | None:
        heights = self.heights(rows)
        first, last = np.searchsorted(ends := np.cumsum(heights), [at.start, at.stop], side="right")
        if at.start not in (0, *ends) or at.stop not in ends:
            return None
        radius = np.broadcast_to(self.radius, len(heights))[first:last] if np.ndim(self.radius) else self.radius
        return Balls.of(radius, heights[first:last], of_y=self.of_y)

    def heights(self, rows: int) -> Array:
        """The rows of each group."""
        if self.owner is None:
            return np.full(rows // self.height, self.height)
        return np.bincount(self.owner, minlength=self.count)

    def native(self, rows: int) -> Numbers:
        return numbers_of_groups(self.radius, self.heights(rows), of_y=self.of_y)

    def _squares(self, v: Array) -> Array:
        if self.owner is not None:
            return sums(v * v, self.owner, self.count, increasing=True)
        xp = namespace(v)
        return xp.sum(xp.reshape(v * v, (-1, self.height)), axis=1)

    def _norms(self, v: Array) -> Array:
        return namespace(v).sqrt(self._squares(v))

    def _spread(self, values: Array) -> Array:
        """The value of its group, in each row."""
        if self.owner is not None:
            return values[self.owner]
        if isinstance(values, np.ndarray):
            return np.repeat(values, self.height)
        xp = namespace(values)
        return xp.reshape(xp.broadcast_to(values[:, None], (values.shape[0], self.height)), (-1,))

    def pooled(self, sizes: Array) -> Array:
        return self._spread(self._norms(sizes))

    def prox(self, v: Array, step: Any) -> Array:
        """Scale each group back to its ball, or shorten it by step·radius."""
        if self.of_y:
            return self._inside(v)
        norms, some, xp = *self._safe_norms(v), namespace(v)
        part = self._spread(like(self.radius, v) / norms) * step
        return xp.where(self._spread(some) & (part < 1), v - part * v, 0 * v)

    def _inside(self, v: Array) -> Array:
        """The nearest point in the balls; the spheres count as inside in a derivative."""
        radius, xp = like(self.radius, v), namespace(v)
        if xp is np:
            factors = radius / np.maximum(self._norms(v), radius)
        else:
            norms, some = self._safe_norms(v)
            factors = xp.where(some & (norms > radius), radius / norms, 1.0)
        if self.owner is not None:
            return v * factors[self.owner]
        return xp.reshape(xp.reshape(v, (-1, self.height)) * factors[:, None], v.shape)

    def _safe_norms(self, v: Array) -> tuple[Array, Array]:
        """The norms, 1 instead of 0, and which of them are not 0: so a derivative is finite there."""
        squares, xp = self._squares(v), namespace(v)
        some = squares > 0
        return xp.sqrt(xp.where(some, squares, 1.0)), some

    def value(self, y: Array) -> float:
        norms = self._norms(y)
        return indicator(within(norms, 0, self.radius)) if self.of_y else float(np.sum(self.radius * norms))

    def terms(self, y: Array) -> Array:
        return 0 * y if self.of_y else self.radius * self._norms(y)

    def recession(self, d: Array) -> float:
        return indicator(not np.any(d)) if self.of_y else self.value(d)

    def project(self, y: Array) -> Array:
        return self._inside(y) if self.of_y else y

    def project_recession(self, d: Array) -> Array:
        return 0 * d if self.of_y else d

    def _least(self, rows: int) -> Array:
        return np.array(self._spread(self._farthest(rows)))

    def _farthest(self, rows: int) -> Array:
        return np.broadcast_to(self.radius, len(self.heights(rows)))


class GroupBall(Balls):
    """Indicator of ‖y_t‖₂ ≤ radius for each group t of rows: adds Σ_t radius‖(Mx − b)_t‖₂ to f.

    Parameters
    ----------
    radius : float or vector
        One for all groups, or one each: a weight, so any finite number counts, however great.
    groups : int or list of slices
        The size of consecutive equal groups, or the groups themselves (consecutive, covering all rows).
    """

    arguments = ("radius", "groups")
    leaves = ("radius",)

    @named
    def __init__(self, radius: Any, groups: int | list[slice]) -> None:
        self.radius = radius if is_foreign(radius) else numbers("radius", radius)
        if not is_foreign(radius) and (np.any(np.asarray(self.radius) <= 0) or not np.all(np.isfinite(self.radius))):
            raise ValueError("radius must be finite and > 0; some entry is not")
        count = common_size(self.radius)
        if isinstance(groups, list):
            if not groups or not isinstance(getattr(groups[-1], "stop", None), int):
                raise ValueError(
                    "groups must be a list of slices, the last with a stop, such as [slice(0, 2), slice(2, 5)]"
                )
            self.groups: int | list[slice] = partition("groups", groups, groups[-1].stop)
            self._divide(np.array([piece.stop - piece.start for piece in self.groups]))
            if count not in (None, self.count):
                raise ValueError(f"radius has {count} entries for {self.count} groups")
        else:
            self.groups = self.height = whole("groups", groups, least=1)
            self.size = None if count is None else count * self.height

    def sized(self, rows: int) -> Phi:
        if not isinstance(self.groups, list) and rows % self.groups:
            raise ValueError(f"phi has groups of {self.groups} rows, which do not divide the {rows} rows of M")
        return super().sized(rows)


def length(value: Any, rows: int) -> float:
    """The norm of a vector, or of a number repeated in all rows."""
    if not np.ndim(value):
        return float(value) * math.sqrt(rows)
    return float(np.linalg.norm(np.broadcast_to(value, np.shape(value) or rows)))


def least_positive(*values: Array, most: float = np.inf) -> Array:
    """The least magnitude of entries below `most` that are not zero, entry by entry; 0 if there is none."""
    xp = namespace(values[0])
    least = functools.reduce(xp.minimum, [xp.where((abs(v) < most) & (v != 0), abs(v), np.inf) for v in values])
    return xp.where(xp.isinf(least), 0.0, least)


def like(value: Any, v: Array) -> Any:
    """A vector in v's dtype, so float32 stays float32; Python numbers already do."""
    return value.astype(v.dtype) if hasattr(value, "astype") and value.dtype != v.dtype else value


def common_size(*values: Any) -> int | None:
    """The length of the vectors among `values`, None if all are numbers, or arrays of several vectors."""
    for value in values:
        shape: tuple[int, ...] = getattr(value, "shape", ())
        if len(shape) == 1:
            return int(shape[0])
    return None
