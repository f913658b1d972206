"""Chunks of y-SBC-DAPD; the plain twin is `step` in methods/y_sbc.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from dapd.arrays import Array
from dapd.kernels.block_function import block_grad
from dapd.kernels.block_matrix import BlockMatrix, add, add_square, dots
from dapd.kernels.compiled import compiled
from dapd.kernels.draw import COIN, DUAL, PRIMAL, Plan, draw


@compiled
def chunk(p: Any, data: Any, s: Any, plan: Plan, steps: int, counts: Array) -> None:
    """`steps` iterations from the state s on, in its arrays."""
    M, f, b = data.M, data.f, data.b
    x, g, y, w, forward, MMty = s.x, s.g, s.y, s.w, s.forward, s.MMty
    v = np.empty(np.max(M.first[1:] - M.first[:-1]), y.dtype)
    nothing = np.zeros_like(v)
    g_new, image = np.empty_like(v), np.empty(np.max(f.matrix.rows), y.dtype)
    u, y_new = np.empty_like(y), np.empty_like(y)
    for k in range(s.k, s.k + steps):
        i = draw(plan.key, k, DUAL, p.N)
        for r in range(y.size):
            u[r] = w[r] - y[r]
        y_new[:] = 0.0
        add_square(M, i, u, nothing, y_new)
        for r in range(y.size):
            variance = p.s_hat * y_new[r]
            y_new[r] = w[r] + p.s / p.N * (forward[r] - b[r]) - p.s_hat / p.N * MMty[r] - variance
            u[r] = p.xi * y_new[r] - (p.xi - 1) * y[r]
        if draw(plan.key, k, COIN, p.N) == 0:
            y[:] = y_new
            counts[0] += _square(M, data.MMt, y, nothing, MMty)
        for r in range(y.size):
            w[r] = (p.tau * y[r] + u[r]) / (1 + p.tau)

        j = i if plan.shared else draw(plan.key, k, PRIMAL, p.N)
        own = slice(M.first[j], M.first[j + 1])
        x_j, g_j = x[own], g[own]
        dots(M, j, u, v)
        for r in range(x_j.size):
            x_new = x_j[r] - p.t_tilde * (g_j[r] + v[r])
            v[r] = x_new - x_j[r]
            x_j[r] = x_new
        block_grad(f, j, x_j, g_new, image)
        for r in range(x_j.size):
            v[r] -= p.t * (g_new[r] - g_j[r])
            g_j[r] = g_new[r]
        add(M, j, v, forward)
        counts[0] += 4
        counts[1] += 1

        if (k + 1) % plan.period == 0:
            forward[:] = 0.0
            for j in range(p.N):
                own = slice(M.first[j], M.first[j + 1])
                x_j, g_j = x[own], g[own]
                for r in range(x_j.size):
                    v[r] = x_j[r] - p.t * g_j[r]
                add(M, j, v, forward)
            counts[0] += p.N


@compiled
def _square(M: BlockMatrix, MMt: Array, y: Array, nothing: Array, out: Array) -> int:
    """Set out = MMᵀy, by the blocks where MMᵀ is not at hand; return the block products spent."""
    out[:] = 0.0
    if MMt.size > 0:
        for row in range(y.size):
            for column in range(y.size):
                out[row] += MMt[row, column] * y[column]
        return 0
    for i in range(len(M.rows)):
        add_square(M, i, y, nothing, out)
    return 2 * len(M.rows)
