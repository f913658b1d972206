"""The dual step with a dense matrix: M is read once, each panel of it used for both products while it is near."""

from __future__ import annotations

from typing import Any

import numpy as np

from dapd.arrays import Array
from dapd.kernels.compiled import compiled
from dapd.kernels.rows import Table, panel_end, prox_units, row_of, units

TALL, SHORT = 12, 4  # rows at a time: so many streams from memory, so many sums in registers
LONG = 64  # rows that a panel of columns must have: so many numbers follow each other in memory
NEAR = 1 << 19  # bytes of such a panel that a core's own cache keeps
NO = np.uint64(0)  # an index that can't be negative needs no check for it, so that loops are vectorised


@compiled
def by_rows(M: Array, phi: Table, v: Array, base: Array, step: float, y: Array, out: Array) -> None:
    """Set y = prox(base + Mv) and out = Mᵀy; M in rows."""
    out[:] = 0
    a, stop = 0, units(phi, y.size)
    while a < stop:
        b = panel_end(phi, a, stop, TALL)
        low, high = row_of(phi, a), row_of(phi, b)
        dots(M, NO, v, base, y, low, high)
        prox_units(phi, step, y, a, b)
        add(M, NO, y, out, low, high)
        a = b


@compiled
def panel_height(itemsize: int, columns: int) -> int:
    """Rows of a panel that stays near."""
    return NEAR // (itemsize * columns)


@compiled
def by_columns(T: Array, left: int, phi: Table, v: Array, base: Array, step: float, y: Array, out: Array) -> None:
    """The same with M in columns: its rows are the columns of T from `left` on, as many as y has."""
    out[:] = 0
    height = panel_height(T.itemsize, T.shape[0])
    a, stop = 0, units(phi, y.size)
    while a < stop:
        b = panel_end(phi, a, stop, height)
        low, high = row_of(phi, a), row_of(phi, b)
        y[low:high] = base[low:high]
        add(T, np.uint64(left + low), v, y[low:high], 0, T.shape[0])
        prox_units(phi, step, y, a, b)
        dots(T, np.uint64(left + low), y[low:high], out, out, 0, T.shape[0])
        a = b


@compiled
def dots(M: Array, left: Any, v: Array, base: Array, y: Array, start: int, stop: int) -> None:
    """Set y = base + Mv in the rows start … stop − 1, with the columns of M from `left` on, as many as v has."""
    i, width, zero = start, np.uint64(v.size), v.dtype.type(0)
    while i + TALL <= stop:
        s0 = s1 = s2 = s3 = s4 = s5 = zero
        s6 = s7 = s8 = s9 = s10 = s11 = zero
        for j in range(width):
            s0 += M[i, left + j] * v[j]
            s1 += M[i + 1, left + j] * v[j]
            s2 += M[i + 2, left + j] * v[j]
            s3 += M[i + 3, left + j] * v[j]
            s4 += M[i + 4, left + j] * v[j]
            s5 += M[i + 5, left + j] * v[j]
            s6 += M[i + 6, left + j] * v[j]
            s7 += M[i + 7, left + j] * v[j]
            s8 += M[i + 8, left + j] * v[j]
            s9 += M[i + 9, left + j] * v[j]
            s10 += M[i + 10, left + j] * v[j]
            s11 += M[i + 11, left + j] * v[j]
        y[i], y[i + 1], y[i + 2], y[i + 3] = base[i] + s0, base[i + 1] + s1, base[i + 2] + s2, base[i + 3] + s3
        y[i + 4], y[i + 5], y[i + 6], y[i + 7] = base[i + 4] + s4, base[i + 5] + s5, base[i + 6] + s6, base[i + 7] + s7
        y[i + 8], y[i + 9], y[i + 10], y[i + 11] = (
            base[i + 8] + s8,
            base[i + 9] + s9,
            base[i + 10] + s10,
            base[i + 11] + s11,
        )
        i += TALL
    while i + SHORT <= stop:
        s0 = s1 = s2 = s3 = zero
        for j in range(width):
            s0 += M[i, left + j] * v[j]
            s1 += M[i + 1, left + j] * v[j]
            s2 += M[i + 2, left + j] * v[j]
            s3 += M[i + 3, left + j] * v[j]
        y[i], y[i + 1], y[i + 2], y[i + 3] = base[i] + s0, base[i + 1] + s1, base[i + 2] + s2, base[i + 3] + s3
        i += SHORT
    while i < stop:
        s0 = zero
        for j in range(width):
            s0 += M[i, left + j] * v[j]
        y[i] = base[i] + s0
        i += 1


@compiled
def add(M: Array, left: Any, y: Array, out: Array, start: int, stop: int) -> None:
    """Add the rows start … stop − 1 of M, weighted by y, to out, with the columns from `left` on, as many as it has."""
    i, width = start, np.uint64(out.size)
    while i + TALL <= stop:
        y0, y1, y2, y3 = y[i], y[i + 1], y[i + 2], y[i + 3]
        y4, y5, y6, y7 = y[i + 4], y[i + 5], y[i + 6], y[i + 7]
        y8, y9, y10, y11 = y[i + 8], y[i + 9], y[i + 10], y[i + 11]
        for j in range(width):
            s = y0 * M[i, left + j] + y1 * M[i + 1, left + j] + y2 * M[i + 2, left + j] + y3 * M[i + 3, left + j]
            s += y4 * M[i + 4, left + j] + y5 * M[i + 5, left + j] + y6 * M[i + 6, left + j] + y7 * M[i + 7, left + j]
            s += y8 * M[i + 8, left + j] + y9 * M[i + 9, left + j]
            out[j] += s + y10 * M[i + 10, left + j] + y11 * M[i + 11, left + j]
        i += TALL
    while i + SHORT <= stop:
        y0, y1, y2, y3 = y[i], y[i + 1], y[i + 2], y[i + 3]
        for j in range(width):
            out[j] += y0 * M[i, left + j] + y1 * M[i + 1, left + j] + y2 * M[i + 2, left + j] + y3 * M[i + 3, left + j]
        i += SHORT
    while i < stop:
        y0 = y[i]
        for j in range(width):
            out[j] += y0 * M[i, left + j]
        i += 1
