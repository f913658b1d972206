"""The dual step with a dense matrix: M is read once, each panel of it used for both products while it is near."""

from __future__ import annotations

from dapd.arrays import Array
from dapd.kernels.compiled import compiled, copy
from dapd.kernels.panel import add_rows, dot_rows
from dapd.kernels.rows import Table, panel_end, prox_units, row_of, units
from dapd.kernels.vectors import LINE, NARROW

TALL, SHORT = 12, 4  # rows at a time: so many streams from memory, so many sums in registers
WAY = 4096  # bytes: cache lines a multiple of this apart compete for a place in the nearest cache
LONG = 64  # rows that a panel of columns must have: so many numbers follow each other in memory
NEAR = 1 << 19  # bytes of such a panel that a core's own cache keeps


@compiled
def by_rows(M: Array, phi: Table, v: Array, base: Array, step: float, y: Array, out: Array) -> None:
    """Set y = prox(base + Mv) and out = Mᵀy; M in rows."""
    out[:] = 0
    a, stop, height = 0, units(phi, y.size), TALL if apart(M) else SHORT
    while a < stop:
        b = panel_end(phi, a, stop, height)
        low, high = row_of(phi, a), row_of(phi, b)
        dots(M, 0, v, base, y, low, high)
        prox_units(phi, step, y, a, b)
        add(M, 0, y, out, low, high)
        a = b


@compiled
def apart(M: Array) -> bool:
    """Whether TALL rows have places of their own in the nearest cache, column by column."""
    beyond: int = M.shape[1] * M.itemsize % WAY
    return LINE <= beyond <= WAY - LINE


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
        copy(base[low:high], y[low:high])
        add(T, left + low, v, y[low:high], 0, T.shape[0])
        prox_units(phi, step, y, a, b)
        dots(T, left + low, y[low:high], out, out, 0, T.shape[0])
        a = b


@compiled
def dots(M: Array, left: int, v: Array, base: Array, y: Array, start: int, stop: int) -> None:
    """Set y = base + Mv in the rows start … stop − 1, with the columns of M from `left` on, as many as v has."""
    if v.size < NARROW:
        for i in range(start, stop):
            y[i] = base[i]
            for j in range(v.size):
                y[i] += M[i, left + j] * v[j]
        return
    i = start
    while i + TALL <= stop and apart(M):
        dot_rows(M, i, left, base, y, v, TALL)
        i += TALL
    while i + SHORT <= stop:
        dot_rows(M, i, left, base, y, v, SHORT)
        i += SHORT
    while i < stop:
        dot_rows(M, i, left, base, y, v, 1)
        i += 1


@compiled
def add(M: Array, left: int, y: Array, out: Array, start: int, stop: int) -> None:
    """Add the rows start … stop − 1 of M, weighted by y, to out, with the columns from `left` on, as many as it has."""
    if out.size < NARROW:
        for i in range(start, stop):
            for j in range(out.size):
                out[j] += y[i] * M[i, left + j]
        return
    i = stop
    while i - TALL >= start and apart(M):
        i -= TALL
        add_rows(M, i, left, y, y, out, TALL)
    while i - SHORT >= start:
        i -= SHORT
        add_rows(M, i, left, y, y, out, SHORT)
    while i > start:
        i -= 1
        add_rows(M, i, left, y, y, out, 1)
