"""φ row by row, or group of rows by group, as tables that compiled code can read."""

from __future__ import annotations

from math import inf, sqrt, tanh
from typing import Any, NamedTuple

import numpy as np

from dapd.arguments import consecutive
from dapd.arrays import Array
from dapd.kernels.compiled import compiled
from dapd.model.composed import Conjugate, Stack
from dapd.model.proximal import L1, Box, GroupBall, Interval, NonNegative, Phi, Zero

KEEP, CLIP, SHRINK, LOGISTIC = range(4)  # of a row
BALL, SHRINK_BALL = range(4, 6)  # of a group
HEIGHT = 12  # rows of a group that has no reason to be longer
NO_GROUPS = np.zeros(0, np.int64)


class Table(NamedTuple):
    """What becomes of base + Mv, unit by unit; a unit is a row, or a group of rows where some belong together."""

    first: Array  # group k has the rows first[k] … first[k + 1] − 1; empty where units are rows
    code: Array  # one a unit, or one for all rows
    lower: Array  # one a row, or one for all; the radius at a group's first row
    upper: Array


class Piece(NamedTuple):
    """φ on some consecutive rows."""

    code: int
    lower: Any = 0.0  # the radius of a ball
    upper: Any = 0.0
    sizes: Any = None  # of the groups


@compiled
def _prox_row(code: int, u: float, lower: float, upper: float, step: float) -> float:
    """The prox of one row; LOGISTIC is the derivative of log(1 + exp(−lower·u)) instead."""
    if code == KEEP:
        return u
    if code == CLIP:  # NaN fails every comparison, and so passes
        return lower if u < lower else upper if u > upper else u
    if code == SHRINK:
        low, high = step * lower, step * upper
        return u - high if u > high else u - low if u < low else 0.0 if u == u else u
    return -0.5 * lower * (1.0 - tanh(0.5 * lower * u))


@compiled
def prox_units(phi: Table, step: float, y: Array, start: int, stop: int) -> None:
    """The prox of the units start … stop − 1, in place."""
    if phi.first.size > 0:
        for k in range(start, stop):
            _prox_group(phi, step, y, k)
        return
    one, single, alone = phi.code.size == 1, phi.lower.size == 1, phi.upper.size == 1
    if one and phi.code[0] == KEEP:
        return
    if one and single and alone and phi.code[0] == CLIP:  # in a loop of its own, which is vectorised
        low, high = phi.lower[0], phi.upper[0]
        for i in range(start, stop):
            y[i] = low if y[i] < low else high if y[i] > high else y[i]
        return
    for i in range(start, stop):
        code, lower = phi.code[0 if one else i], phi.lower[0 if single else i]
        y[i] = _prox_row(code, y[i], lower, phi.upper[0 if alone else i], step)


@compiled
def _prox_group(phi: Table, step: float, y: Array, k: int) -> None:
    start, stop, code = phi.first[k], phi.first[k + 1], phi.code[k]
    if code < BALL:
        for i in range(start, stop):
            y[i] = _prox_row(code, y[i], phi.lower[i], phi.upper[i], step)
        return
    square = 0.0
    for i in range(start, stop):
        square += y[i] * y[i]
    norm, radius = sqrt(square), phi.lower[start]
    scale = radius / max(norm, radius) if code == BALL else 1.0 - step * radius / max(norm, step * radius)
    for i in range(start, stop):
        y[i] *= scale


@compiled
def row_of(phi: Table, unit: int) -> int:
    """The first row of a unit."""
    return phi.first[unit] if phi.first.size > 0 else unit


@compiled
def panel_end(phi: Table, start: int, stop: int, height: int) -> int:
    """The unit where a panel that begins with unit `start` ends: so many rows at most, one unit at least."""
    if phi.first.size == 0:
        return min(start + height, stop)
    end = start + 1
    while end < stop and phi.first[end + 1] - phi.first[start] <= height:
        end += 1
    return end


@compiled
def units(phi: Table, rows: int) -> int:
    """How many there are."""
    return phi.first.size - 1 if phi.first.size > 0 else rows


def part(phi: Table, start: int, stop: int) -> Table:
    """The rows start … stop − 1 alone; no group may go across either end."""
    a, b = (int(np.searchsorted(phi.first, row)) if phi.first.size else row for row in (start, stop))
    code = phi.code if phi.code.size == 1 and not phi.first.size else phi.code[a:b]
    lower, upper = (bound if bound.size == 1 else bound[start:stop] for bound in (phi.lower, phi.upper))
    return Table(phi.first[a : b + 1] - start if phi.first.size else phi.first, code, lower, upper)


def tabulate(phi: Phi, rows: int, dtype: Any) -> Table | None:
    """φ as a table; None where it is not built in, or couples rows in a way of its own."""
    pieces = _pieces(phi, rows)
    if pieces is None:
        return None
    if all(piece.sizes is None for piece, _ in pieces):
        return _by_rows(pieces, dtype)
    sizes = [_heights(length) if piece.sizes is None else piece.sizes for piece, length in pieces]
    first = np.concatenate([[0], np.cumsum(np.concatenate(sizes))]).astype(np.int64)
    code = np.repeat(np.array([piece.code for piece, _ in pieces], np.uint8), [len(some) for some in sizes])
    lower, upper = np.zeros(rows, dtype), np.zeros(rows, dtype)
    for (piece, _), where in zip(pieces, consecutive(length for _, length in pieces), strict=True):
        # a ball's radius stands at the first row of its group
        at = first[(first >= where.start) & (first < where.stop)] if piece.sizes is not None else where
        lower[at], upper[at] = piece.lower, piece.upper
    return Table(first, code, lower, upper)


def _heights(length: int) -> Array:
    whole, rest = divmod(length, HEIGHT)
    return np.array([HEIGHT] * whole + [rest] * (rest > 0))


def _by_rows(pieces: list[tuple[Piece, int]], dtype: Any) -> Table:
    if len(pieces) == 1:
        piece = pieces[0][0]
        bounds = (np.atleast_1d(np.asarray(bound, dtype)) for bound in (piece.lower, piece.upper))
        return Table(NO_GROUPS, np.array([piece.code], np.uint8), *bounds)
    rows = sum(length for _, length in pieces)
    table = Table(NO_GROUPS, np.empty(rows, np.uint8), np.empty(rows, dtype), np.empty(rows, dtype))
    for (piece, _), where in zip(pieces, consecutive(length for _, length in pieces), strict=True):
        for column, value in zip(table[1:], piece[:3], strict=True):
            column[where] = value
    return table


def _pieces(phi: Phi, rows: int) -> list[tuple[Piece, int]] | None:
    """φ as pieces and how many rows each has; a subclass may have another prox, so that only exact types count."""
    if type(phi) is Stack:
        inner = [_pieces(part, n or 0) for part, n in zip(phi.parts, phi.sizes, strict=True)]
        found = [piece for part in inner if part is not None for piece in part]
        return None if None in inner else found
    if type(phi) is Conjugate:
        if type(phi.g) is Stack:
            return _pieces(Stack([Conjugate(part) for part in phi.g.parts], sizes=phi.g.sizes), rows)
        known = _pieces(phi.g, rows) if isinstance(phi.g, Phi) else None
        return None if known is None else [(_conjugate(piece), n) for piece, n in known]
    if type(phi) is Zero:
        return [(Piece(KEEP), rows)]
    if type(phi) is NonNegative:
        return [(Piece(CLIP, 0.0, inf), rows)]
    if type(phi) is Box:
        return [(Piece(CLIP, phi.lower, phi.upper), rows)]
    if type(phi) is Interval:
        return [(Piece(SHRINK, phi.lower, phi.upper), rows)]
    if type(phi) is L1:
        return [(Piece(SHRINK, -phi.nu, phi.nu), rows)]
    if type(phi) is GroupBall:
        if isinstance(phi.groups, list):
            return [(Piece(BALL, phi.radius, sizes=[g.stop - g.start for g in phi.groups]), rows)]
        return [(Piece(BALL, phi.radius, sizes=np.full(rows // phi.groups, phi.groups)), rows)]
    return None


def _conjugate(piece: Piece) -> Piece:
    """The piece of φ*: a box's indicator and its support function are each other's."""
    if piece.code == KEEP:
        return Piece(CLIP)
    other = {CLIP: SHRINK, SHRINK: CLIP, BALL: SHRINK_BALL, SHRINK_BALL: BALL}
    return piece._replace(code=other[piece.code])
