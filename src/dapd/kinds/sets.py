"""The indicator of a convex set, and the support function of one: each is the conjugate of the other."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from dapd.arrays import Array, namespace
from dapd.kinds.base import Phi, is_own, length


class OfSet(Phi):
    """The indicator of a closed convex set of y, or the support function of such a set of Mx − b.

    φ* is the other of the two, for the same set. A subclass answers for both, in its methods with `inside`: whether
    it is asked about the indicator.
    """

    anywhere = True
    of_y: Any = False  # whether φ is the indicator; for all rows, or one each

    _value: Callable[[Array, Any], float]
    _terms: Callable[[Array, Any], Array]
    _slope: Callable[[Array, Any], float]  # at infinity
    _nearest: Callable[[Array, Any], Array]  # point at which the function is finite
    _nearest_direction: Callable[[Array, Any], Array]  # along which it stays finite
    _least: Callable[[int], Array]  # the least positive number of each row
    _farthest: Callable[[int], Any]  # the greatest of each row, or of all

    @property
    def row_steps(self) -> bool:
        """Yes, equal in the rows of a group, unless a subclass overrides the prox."""
        return is_own(self, "prox")

    @cached_property
    def _of_residual(self) -> Any:
        """Whether φ* is the indicator."""
        return other(self.of_y)

    def value(self, y: Array) -> float:
        """0 in the set, or its support function."""
        return self._value(y, self.of_y)

    def conjugate(self, z: Array) -> float:
        return self._value(z, self._of_residual)

    def terms(self, y: Array) -> Array:
        """0, or those of the support function."""
        return self._terms(y, self.of_y)

    def conjugate_terms(self, z: Array) -> Array:
        return self._terms(z, self._of_residual)

    def recession(self, d: Array) -> float:
        """The indicator of the directions in which the set is unbounded, or φ itself."""
        return self._slope(d, self.of_y)

    def conjugate_recession(self, w: Array) -> float:
        return self._slope(w, self._of_residual)

    def project(self, y: Array) -> Array:
        """Onto the set, or onto the directions in which it is bounded."""
        return self._nearest(y, self.of_y)

    def project_conjugate(self, z: Array) -> Array:
        return self._nearest(z, self._of_residual)

    def project_recession(self, d: Array) -> Array:
        """Onto the directions in which the set is unbounded, or in which it is bounded."""
        return self._nearest_direction(d, self.of_y)

    def project_conjugate_recession(self, w: Array) -> Array:
        return self._nearest_direction(w, self._of_residual)

    def ends(self, rows: int) -> tuple[Array, Array]:
        least, none = self._least(rows), np.zeros(rows)
        return either(self.of_y, none, least), either(self.of_y, least, none)

    def reach(self, rows: int) -> float:
        """The norm of the farthest ends of indicators."""
        return length(self._farthest(rows), rows) if np.all(self.of_y) else np.inf

    def steepness(self, rows: int) -> float:
        """The norm of the farthest ends of support functions."""
        return np.inf if np.any(self.of_y) else length(self._farthest(rows), rows)


def either(inside: Any, first: Any, second: Any) -> Any:
    """The first in some rows, the second in the others."""
    if isinstance(inside, bool):
        return first if inside else second
    return namespace(inside).where(inside, first, second)


def other(inside: Any) -> Any:
    """The other rows."""
    return not inside if isinstance(inside, bool) else ~inside
