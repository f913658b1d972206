"""The indicator of a convex set, and the support function of one: each is the conjugate of the other."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from dapd.arrays import Array, namespace
from dapd.kinds.base import Phi, is_own, length


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

    anywhere = True
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
