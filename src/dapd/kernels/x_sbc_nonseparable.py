"""Chunks of x-SBC-DAPD for a nonseparable f, at the cost of a block; the plain twin, and what c and ε are, is in
methods/x_sbc_nonseparable.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dapd.arrays import Array
from dapd.kernels.block_function import MATRIX, SEPARABLE, block_grad, pull
from dapd.kernels.block_matrix import add, add_square, dots, product
from dapd.kernels.compiled import compiled
from dapd.kernels.draw import DUAL, PRIMAL, Plan, draw


@compiled
def chunk(p: Any, data: Any, s: Any, plan: Plan, steps: int, counts: Array) -> None:
    """`steps` iterations from the state s on, in its arrays."""
    M, b, A, kind = data.M, data.b, data.coupled.matrix, data.coupled.kind
    y, scale = s.y, s.scale
    v = np.empty(np.max(M.first[1:] - M.first[:-1]), y.dtype)
    z, g, d = np.empty_like(v), np.empty_like(v), np.empty_like(v)
    dy, image = np.empty_like(y), np.empty(max(s.Ac.size, np.max(data.f.matrix.rows)), y.dtype)
    back = p.gamma / (1 - p.gamma)
    ahead = p.xi - 1 / (1 - p.gamma)
    e_moves = (1 + p.gamma) * p.omega - 1
    c_moves = (1 + p.gamma) * p.omega + back * e_moves
    for k in range(s.k, s.k + steps):
        lag, lead = back * scale[0], ahead * scale[0]
        if kind != SEPARABLE and kind != MATRIX:
            for r in range(s.Ac.size):
                image[r] = s.Ac[r] - lag * s.Ae[r]
            pull(kind, image[: s.Ac.size], data.coupled.target)

        i = draw(plan.key, k, DUAL, p.N)
        _partial(data, s, i, lag, z, g, image)
        dy[:] = 0.0
        add_square(M, i, y, g, dy)
        for r in range(y.size):
            Mx_hat = s.Mc[r] + lead * s.Me[r]
            y[r] += p.chi * p.s / p.N * (Mx_hat - b[r]) - p.s_hat * dy[r]

        j = i if plan.shared else draw(plan.key, k, PRIMAL, p.N)
        if j != i:
            _partial(data, s, j, lag, z, g, image)
            counts[1] += 1
        dots(M, j, y, v)
        scale[0] *= p.gamma
        e_by = e_moves / scale[0]
        c_j, e_j = s.c[M.first[j] : M.first[j + 1]], s.e[M.first[j] : M.first[j + 1]]
        for r in range(c_j.size):
            d[r] = -p.t * (g[r] + v[r])
        dy[:] = 0.0
        add(M, j, d, dy)
        for r in range(y.size):
            s.Mc[r] += c_moves * dy[r]
            s.Me[r] += e_by * dy[r]
        for r in range(c_j.size):
            v[r] = c_moves * d[r]
            d[r] = e_by * d[r]
            c_j[r] += v[r]
            e_j[r] += d[r]
        if kind != SEPARABLE:
            add(A, j, v, s.Ac)
            add(A, j, d, s.Ae)
        counts[0] += 4
        counts[1] += 1

        if (k + 1) % plan.rebase == 0 or (k + 1) % plan.period == 0:
            for part in (s.e, s.Me, s.Ae):
                part *= scale[0]
            scale[0] = 1.0
        if (k + 1) % plan.period == 0:
            product(M, s.c, s.Mc)
            product(M, s.e, s.Me)
            counts[0] += 2 * p.N
            if kind != SEPARABLE:
                product(A, s.c, s.Ac)
                product(A, s.e, s.Ae)


@compiled
def _partial(data: Any, s: Any, i: int, lag: float, z: Array, g: Array, image: Array) -> None:
    """Set g = ∇_i f(z) for z = c − lag·ε; `image` holds the derivative of the loss at Az where f has one."""
    own = slice(data.M.first[i], data.M.first[i + 1])
    if data.coupled.kind == MATRIX:
        Hc, He, target = s.Ac[own], s.Ae[own], data.coupled.target[own]
        for r in range(target.size):
            g[r] = Hc[r] - lag * He[r] - target[r]
        return
    c_i, e_i = s.c[own], s.e[own]
    for r in range(c_i.size):
        z[r] = c_i[r] - lag * e_i[r]
    if data.coupled.kind == SEPARABLE:
        block_grad(data.f, i, z[: c_i.size], g[: c_i.size], image)
        return
    dots(data.coupled.matrix, i, image, g)
    for r in range(c_i.size):
        g[r] += data.coupled.ridge * z[r]
