"""The dual step with a CSR matrix: each panel of rows is used for both products while it is near."""

from __future__ import annotations

from typing import NamedTuple

from dapd.arrays import Array
from dapd.kernels.compiled import plain
from dapd.kernels.rows import Table, panel_end, prox_units, row_of, units

PANEL = 256  # rows


class Csr(NamedTuple):
    """A sparse matrix by rows; unsigned indices spare the check for negative ones."""

    indptr: Array
    indices: Array
    values: Array


# Both loops run over the entries and look for the end of the row, instead of over rows and then over entries: the
# compiler would unroll the inner loop, and the processor mispredict twice a row.


@plain
def times(M: Csr, v: Array, out: Array, start: int, stop: int) -> None:
    """Set out = Mv in the rows start … stop − 1."""
    if start == stop:
        return
    i, end, total = start, M.indptr[start + 1], v.dtype.type(0)
    for k in range(M.indptr[start], M.indptr[stop]):
        while k == end:
            out[i], total = total, v.dtype.type(0)
            i += 1
            end = M.indptr[i + 1]
        total += M.values[k] * v[M.indices[k]]
    while i < stop:
        out[i], total = total, v.dtype.type(0)
        i += 1


@plain
def scatter(M: Csr, y: Array, out: Array, start: int, stop: int) -> None:
    """Add the rows start … stop − 1 of M, weighted by y, to out."""
    if start == stop:
        return
    i, end, weight = start, M.indptr[start + 1], y[start]
    for k in range(M.indptr[start], M.indptr[stop]):
        while k == end:
            i += 1
            end, weight = M.indptr[i + 1], y[i]
        out[M.indices[k]] += M.values[k] * weight


@plain
def by_rows(M: Csr, phi: Table, v: Array, base: Array, step: float, y: Array, out: Array) -> None:
    """Set y = prox(base + Mv) and out = Mᵀy."""
    out[:] = 0
    a, stop = 0, units(phi, y.size)
    while a < stop:
        b = panel_end(phi, a, stop, PANEL)
        low, high = row_of(phi, a), row_of(phi, b)
        times(M, v, y, low, high)
        for i in range(low, high):
            y[i] += base[i]
        prox_units(phi, step, y, a, b)
        scatter(M, y, out, low, high)
        a = b
