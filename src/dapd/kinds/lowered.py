"""The lowered form of a problem: each object describes itself in records that every engine reads.

φ is a list of pieces, each a code with bounds for some consecutive rows; `tabulate` makes one table of them. f is a
record of terms (`terms.py`), or one per block. What is not of this kind says None: then only Python can evaluate it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from dapd.arguments import consecutive
from dapd.arrays import Array
from dapd.operators.base import describes

# What becomes of u = base + Mv in a row, or in a group of rows; src/core/phi.hpp has the same numbers.
KEEP, CLIP, SHRINK, BALL, SHRINK_BALL, CALLED = range(6)

HEIGHT = 12  # rows of a group that has no reason to be longer
NO_GROUPS = np.zeros(0, np.int64)


class Piece(NamedTuple):
    """φ on some consecutive rows."""

    code: int
    lower: Any = 0.0  # number or vector; the radius of a ball
    upper: Any = 0.0
    sizes: Any = None  # of the groups, if rows belong together

    def conjugate(self) -> Piece:
        """The piece of φ*: the indicator of a box and its support function are each other's."""
        if self.code == KEEP:
            return Piece(CLIP)
        other = {CLIP: SHRINK, SHRINK: CLIP, BALL: SHRINK_BALL, SHRINK_BALL: BALL}
        return self._replace(code=other[self.code])


Pieces = list[tuple[Piece, int]]  # each with its number of rows


class UnitTable(NamedTuple):
    """φ unit by unit; a unit is a row, or a group of rows if some belong together."""

    first: Array  # group k has the rows first[k] … first[k + 1] − 1; empty if units are rows
    code: Array  # one per unit, or one for all rows
    lower: Array  # one per row, or one for all; a radius stands at its group's first row
    upper: Array
    calls: tuple[tuple[int, int, Callable[[Array, float], None]], ...] = ()  # for the rows that are CALLED, in order


def has_valid_lowering(thing: object, *names: str) -> bool:
    """Whether `lowered` is still valid: False if a subclass overrides one of these methods but not `lowered`."""
    return describes(thing, "lowered", *names)


class _Phi(Protocol):
    """What has pieces."""

    def lowered(self, rows: int) -> Pieces | None:
        """The pieces for so many rows."""


def pieces_of(phi: _Phi, rows: int) -> Pieces | None:
    """The pieces of φ, of lengths that fit; None if its prox is only available in Python."""
    pieces = phi.lowered(rows) if has_valid_lowering(phi, "prox") else None
    if pieces is None:
        return None
    # the core reads bounds without looking at their lengths
    name = f"{type(phi).__name__}.lowered({rows})"
    if sum(length for _, length in pieces) != rows:
        raise ValueError(f"{name} has pieces for {sum(length for _, length in pieces)} rows")
    for piece, length in pieces:
        count = length if piece.sizes is None else len(piece.sizes)
        if piece.sizes is not None and sum(piece.sizes) != length:
            raise ValueError(f"{name} has groups of {sum(piece.sizes)} rows in a piece of {length}")
        for bound in (piece.lower, piece.upper):
            if np.size(bound) not in (1, count):
                raise ValueError(f"{name} has {np.size(bound)} bounds for a piece of {count}")
    return pieces


def tabulate(pieces: Pieces, dtype: Any) -> UnitTable:
    """One table of all pieces."""
    rows = sum(length for _, length in pieces)
    if all(piece.sizes is None for piece, _ in pieces):
        return _by_rows(pieces, rows, dtype)
    sizes = [_heights(length) if piece.sizes is None else piece.sizes for piece, length in pieces]
    first = np.concatenate([[0], np.cumsum(np.concatenate(sizes))]).astype(np.int64)
    code = np.repeat(np.array([piece.code for piece, _ in pieces], np.uint8), [len(some) for some in sizes])
    lower, upper = np.zeros(rows, dtype), np.zeros(rows, dtype)
    for (piece, _), where in zip(pieces, consecutive(length for _, length in pieces), strict=True):
        at = first[(first >= where.start) & (first < where.stop)] if piece.sizes is not None else where
        lower[at], upper[at] = piece.lower, piece.upper
    return UnitTable(first, code, lower, upper)


def _heights(length: int) -> Array:
    whole, rest = divmod(length, HEIGHT)
    return np.array([HEIGHT] * whole + [rest] * (rest > 0), np.int64)


def _by_rows(pieces: Sequence[tuple[Piece, int]], rows: int, dtype: Any) -> UnitTable:
    if len(pieces) == 1:
        piece = pieces[0][0]
        lower, upper = (np.atleast_1d(np.asarray(bound, dtype, order="C")) for bound in (piece.lower, piece.upper))
        return UnitTable(NO_GROUPS, np.array([piece.code], np.uint8), lower, upper)
    table = UnitTable(NO_GROUPS, np.empty(rows, np.uint8), np.empty(rows, dtype), np.empty(rows, dtype))
    for (piece, _), where in zip(pieces, consecutive(length for _, length in pieces), strict=True):
        for column, value in zip(table[1:4], piece[:3], strict=True):
            column[where] = value
    return table
