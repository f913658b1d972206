"""Chunks of y-SBC-DAPD; the plain twin is `step` in methods/y_sbc.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from dapd.arrays import Array
from dapd.kernels.block_function import BlockFunctions, block_grad
from dapd.kernels.block_matrix import BlockMatrix, add, dots
from dapd.kernels.compiled import compiled
from dapd.kernels.draw import COIN, DUAL, PRIMAL, draw


@compiled
def chunk(
    p: Any,
    M: BlockMatrix,
    f: BlockFunctions,
    b: Array,
    MMt: Array,
    x: Array,
    g: Array,
    y: Array,
    w: Array,
    forward: Array,
    MMty: Array,
    k: int,
    steps: int,
    key: np.uint64,
    shared: bool,
    period: int,
    counts: Array,
) -> None:
    """Iterations k, …, k + steps − 1, in place; MMt is empty where M is to be used instead."""
    widest = np.max(M.first[1:] - M.first[:-1])
    v, g_new = np.empty(widest, y.dtype), np.empty(widest, y.dtype)
    u, dy, image = np.empty_like(y), np.empty_like(y), np.empty(np.max(f.matrix.rows), y.dtype)
    for now in range(k, k + steps):
        i = draw(key, now, DUAL, p.N)
        for l in range(y.size):
            u[l] = w[l] - y[l]
        dots(M, i, u, v)
        dy[:] = 0.0
        add(M, i, v, dy)
        for l in range(y.size):
            # ỹ, in the place of its last correction
            dy[l] = w[l] + p.s / p.N * (forward[l] - b[l]) - p.s_hat / p.N * MMty[l] - p.s_hat * dy[l]
            u[l] = p.xi * dy[l] - (p.xi - 1) * y[l]
        if draw(key, now, COIN, p.N) == 0:
            y[:] = dy
            counts[0] += _square(M, MMt, y, MMty, v)
        for l in range(y.size):
            w[l] = (p.tau * y[l] + u[l]) / (1 + p.tau)

        j = i if shared else draw(key, now, PRIMAL, p.N)
        first, last = M.first[j], M.first[j + 1]
        dots(M, j, u, v)
        for r in range(last - first):
            old = x[first + r]
            x[first + r] = old - p.t_tilde * (g[first + r] + v[r])
            v[r] = x[first + r] - old
        block_grad(f, j, x[first:last], g_new, image)
        for r in range(last - first):
            v[r] -= p.t * (g_new[r] - g[first + r])
            g[first + r] = g_new[r]
        add(M, j, v, forward)
        counts[0] += 4
        counts[1] += 1

        if (now + 1) % period == 0:
            forward[:] = 0.0
            for j in range(p.N):
                first, last = M.first[j], M.first[j + 1]
                for r in range(last - first):
                    v[r] = x[first + r] - p.t * g[first + r]
                add(M, j, v, forward)
            counts[0] += p.N


@compiled
def _square(M: BlockMatrix, MMt: Array, y: Array, out: Array, v: Array) -> int:
    """Set out = MMᵀy; return the block products spent."""
    if MMt.size > 0:
        for row in range(y.size):
            total = 0.0
            for l in range(y.size):
                total += MMt[row, l] * y[l]
            out[row] = total
        return 0
    out[:] = 0.0
    for i in range(M.rows.size):
        dots(M, i, y, v)
        add(M, i, v, out)
    return 2 * M.rows.size
