"""Chunks of x-SBC-DAPD; the plain twin is `step` in methods/x_sbc.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from dapd.arrays import Array
from dapd.kernels.block_function import block_grad
from dapd.kernels.block_matrix import add, add_square, dots
from dapd.kernels.compiled import compiled
from dapd.kernels.draw import DUAL, PRIMAL, Plan, draw


@compiled
def chunk(p: Any, data: Any, s: Any, plan: Plan, steps: int, counts: Array) -> None:
    """`steps` iterations from the state s on, in its arrays."""
    M, f, b = data.M, data.f, data.b
    x, z, g, y, Mx_hat = s.x, s.z, s.g, s.y, s.Mx_hat
    v = np.empty(np.max(M.first[1:] - M.first[:-1]), y.dtype)
    dy, image = np.empty_like(y), np.empty(np.max(f.matrix.rows), y.dtype)
    for k in range(s.k, s.k + steps):
        i = draw(plan.key, k, DUAL, p.N)
        dy[:] = 0.0
        add_square(M, i, y, g[M.first[i] : M.first[i + 1]], dy)
        for r in range(y.size):
            y[r] += p.chi * p.s / p.N * (Mx_hat[r] - b[r]) - p.s_hat * dy[r]

        j = i if plan.shared else draw(plan.key, k, PRIMAL, p.N)
        own = slice(M.first[j], M.first[j + 1])
        x_j, z_j, g_j = x[own], z[own], g[own]
        dots(M, j, y, v)
        for r in range(x_j.size):
            x_new = z_j[r] - p.t * (g_j[r] + v[r])
            z_new = (1 + p.gamma) * x_new - p.gamma * x_j[r]
            v[r] = (p.xi * z_new - (p.xi - 1) * x_new) - (p.xi * z_j[r] - (p.xi - 1) * x_j[r])
            x_j[r], z_j[r] = x_new, z_new
        add(M, j, v, Mx_hat)
        block_grad(f, j, z_j, g_j, image)
        counts[0] += 4
        counts[1] += 1

        if (k + 1) % plan.period == 0:
            Mx_hat[:] = 0.0
            for j in range(p.N):
                own = slice(M.first[j], M.first[j + 1])
                x_j, z_j = x[own], z[own]
                for r in range(x_j.size):
                    v[r] = p.xi * z_j[r] - (p.xi - 1) * x_j[r]
                add(M, j, v, Mx_hat)
            counts[0] += p.N
