"""What the problems of a lock step have: constants, and a best point."""

from __future__ import annotations

from typing import NamedTuple

from dapd.arrays import Array

LOOK = 25  # iterations between two convergence checks


class Constants(NamedTuple):
    """What is known of each problem, one number each."""

    L: Array
    mu: Array
    s_max: Array
    s_min: Array  # 0 if unknown
    weight: Array  # the usual ratio of y and x


class Best(NamedTuple):
    """A point and its error."""

    x: Array
    y: Array
    error: Array
