"""φ in numbers that the native core reads: what becomes of u = base + Mv in a row, or in a group of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from dapd.arguments import consecutive
from dapd.arrays import Array

# src/core/phi.hpp has the same numbers
KEEP, CLIP, SHRINK, BALL, SHRINK_BALL, CALLED = range(6)

HEIGHT = 12  # rows of a group of a table, if φ has no groups
NO_GROUPS = np.zeros(0, np.int64)


class Numbers(NamedTuple):
    """A kind of φ on some consecutive rows."""

    code: Any  # one for all rows, or one each
    lower: Any = 0.0  # number or vector; the radius of a ball
    upper: Any = 0.0
    sizes: Any = None  # of the groups, if rows belong together


class UnitTable(NamedTuple):
    """φ unit by unit; a unit is a row, or a group of rows if some belong together."""

    first: Array  # group k has the rows first[k] … first[k + 1] − 1; empty if units are rows
    code: Array  # one per unit, or one for all rows
    lower: Array  # one per row, or one for all; a radius stands at its group's first row
    upper: Array
    calls: tuple[tuple[int, int, Callable[[Array, float], None]], ...] = ()  # for the rows that are CALLED, in order


def numbers_of_rows(lower: Any, upper: Any, of_y: Any) -> Numbers:
    """Of indicators of intervals, or of support functions, for all rows or row by row."""
    if not isinstance(of_y, bool):
        return Numbers(np.where(of_y, CLIP, SHRINK).astype(np.uint8), lower, upper)
    if not of_y and np.ndim(lower) == np.ndim(upper) == 0 and lower == upper == 0.0:
        return Numbers(KEEP)
    return Numbers(CLIP if of_y else SHRINK, lower, upper)


def numbers_of_groups(radius: Any, sizes: Array, *, of_y: bool) -> Numbers:
    """Of balls of groups with so many rows, or of their norms."""
    return Numbers(BALL if of_y else SHRINK_BALL, radius, sizes=sizes)


def tabulate(kinds: list[tuple[Numbers, int]], dtype: Any) -> UnitTable:
    """One table of all kinds, each with its number of rows."""
    if len(kinds) == 1 and kinds[0][0].sizes is None:
        own = kinds[0][0]
        lower, upper = np.asarray(own.lower, dtype, order="C"), np.asarray(own.upper, dtype, order="C")
        code = np.atleast_1d(np.asarray(own.code, np.uint8))
        return UnitTable(NO_GROUPS, code, np.atleast_1d(lower), np.atleast_1d(upper))
    rows, grouped = sum(length for _, length in kinds), any(own.sizes is not None for own, _ in kinds)
    sizes = [_heights(own.code, length, grouped) if own.sizes is None else own.sizes for own, length in kinds]
    first = np.concatenate([[0], np.cumsum(np.concatenate(sizes))]).astype(np.int64)
    codes = [
        np.broadcast_to(np.asarray(own.code, np.uint8), len(some)) for (own, _), some in zip(kinds, sizes, strict=True)
    ]
    lower, upper = np.zeros(rows, dtype), np.zeros(rows, dtype)
    for (own, _), where in zip(kinds, consecutive(length for _, length in kinds), strict=True):
        at = first[(first >= where.start) & (first < where.stop)] if own.sizes is not None else where
        lower[at], upper[at] = own.lower, own.upper
    return UnitTable(first if grouped else NO_GROUPS, np.concatenate(codes), lower, upper)


def _heights(code: Any, length: int, grouped: bool) -> Array:
    """The sizes of units for rows without groups, which are single rows if their codes differ, or if all have none."""
    if np.ndim(code) or not grouped:
        return np.ones(length, np.int64)
    whole, rest = divmod(length, HEIGHT)
    return np.array([HEIGHT] * whole + [rest] * (rest > 0), np.int64)
