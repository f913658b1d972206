"""A loss as the native core knows it: a number, and a parameter of its derivative."""

from __future__ import annotations

from typing import Any, NamedTuple

NONE, SQUARE, LOGISTIC, PSEUDO_HUBER, CALLED = range(5)  # src/core/loss.hpp has the same numbers


class NativeLoss(NamedTuple):
    """A loss that the core knows."""

    code: int
    e: Any = 0.0  # of the pseudo-Huber loss
