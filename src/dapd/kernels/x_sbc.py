"""Chunks of x-SBC-DAPD; the plain twin is `step` in methods/x_sbc.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from dapd.arrays import Array
from dapd.kernels.block_function import BlockFunctions, block_grad
from dapd.kernels.block_matrix import BlockMatrix, add, dots
from dapd.kernels.compiled import compiled
from dapd.kernels.draw import DUAL, PRIMAL, draw


@compiled
def chunk(
    p: Any,
    M: BlockMatrix,
    f: BlockFunctions,
    b: Array,
    x: Array,
    z: Array,
    g: Array,
    y: Array,
    Mx_hat: Array,
    k: int,
    steps: int,
    key: np.uint64,
    shared: bool,
    period: int,
    counts: Array,
) -> None:
    """Iterations k, …, k + steps − 1, in place."""
    widest = np.max(M.first[1:] - M.first[:-1])
    v, dy, image = np.empty(widest, y.dtype), np.empty_like(y), np.empty(np.max(f.matrix.rows), y.dtype)
    pull, new_z, old_z, new_x = p.chi * p.s / p.N, 1 + p.gamma, p.xi, p.xi - 1
    for now in range(k, k + steps):
        i = draw(key, now, DUAL, p.N)
        first = M.first[i]
        dots(M, i, y, v)
        for r in range(M.first[i + 1] - first):
            v[r] += g[first + r]
        dy[:] = 0.0
        add(M, i, v, dy)
        for l in range(y.size):
            y[l] += pull * (Mx_hat[l] - b[l]) - p.s_hat * dy[l]

        j = i if shared else draw(key, now, PRIMAL, p.N)
        first, last = M.first[j], M.first[j + 1]
        dots(M, j, y, v)
        for r in range(last - first):
            c = first + r
            x_new = z[c] - p.t * (g[c] + v[r])
            z_new = new_z * x_new - p.gamma * x[c]
            v[r] = (p.xi * z_new - new_x * x_new) - (p.xi * z[c] - new_x * x[c])
            x[c], z[c] = x_new, z_new
        add(M, j, v, Mx_hat)
        block_grad(f, j, z[first:last], g[first:last], image)
        counts[0] += 4
        counts[1] += 1

        if (now + 1) % period == 0:
            Mx_hat[:] = 0.0
            for j in range(p.N):
                first, last = M.first[j], M.first[j + 1]
                for r in range(last - first):
                    v[r] = p.xi * z[first + r] - new_x * x[first + r]
                add(M, j, v, Mx_hat)
            counts[0] += p.N
