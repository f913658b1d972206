"""The dual step with a block-diagonal matrix, panel by panel."""

from __future__ import annotations

from typing import NamedTuple

from dapd.arrays import Array
from dapd.kernels.compiled import compiled
from dapd.kernels.dense import add, dots
from dapd.kernels.rows import Table, prox_units


class Blocks(NamedTuple):
    """diag(M_1, …, M_N), cut into panels: blocks whose rows φ does not tie to those of others."""

    entries: Array
    at: Array  # M_i is at entries[at[i]] … in rows
    row: Array  # its first row, and so on
    column: Array
    block: Array  # first block of each panel
    unit: Array  # first unit of each panel


@compiled
def by_panels(M: Blocks, phi: Table, v: Array, base: Array, step: float, y: Array, out: Array) -> None:
    """Set y = prox(base + Mv) and out = Mᵀy."""
    out[:] = 0
    for k in range(M.block.size - 1):
        for i in range(M.block[k], M.block[k + 1]):
            r, c = slice(M.row[i], M.row[i + 1]), slice(M.column[i], M.column[i + 1])
            dots(_matrix(M, i), 0, v[c], base[r], y[r], 0, M.row[i + 1] - M.row[i])
        prox_units(phi, step, y, M.unit[k], M.unit[k + 1])
        for i in range(M.block[k], M.block[k + 1]):
            r, c = slice(M.row[i], M.row[i + 1]), slice(M.column[i], M.column[i + 1])
            add(_matrix(M, i), 0, y[r], out[c], 0, M.row[i + 1] - M.row[i])


@compiled
def _matrix(M: Blocks, i: int) -> Array:
    return M.entries[M.at[i] : M.at[i + 1]].reshape(M.row[i + 1] - M.row[i], M.column[i + 1] - M.column[i])
