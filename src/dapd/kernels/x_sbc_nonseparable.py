"""Chunks of x-SBC-DAPD for a nonseparable f, at the cost of a block.

With e = z − x, an iteration that moves block j by d is e⁺ = γe + ((1+γ)ω − 1)d and z⁺ = z + γe + (1+γ)ωd. So
p = z + γ/(1−γ)·e changes in block j alone, and so does e once the power of γ is kept apart, e = scale·ε:

    z = p − γ/(1−γ)·scale·ε,    x = p − 1/(1−γ)·scale·ε,    x̂ = p + (ξ − 1/(1−γ))·scale·ε.

Mp and Mε are kept, and Ap and Aε where f is a function of Ax (H for a quadratic). The plain twin, in the paper's own
variables, is `step` in methods/x_sbc_nonseparable.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dapd.arrays import Array
from dapd.kernels.block_function import MATRIX, SEPARABLE, block_grad, pull
from dapd.kernels.block_matrix import add, dots, product
from dapd.kernels.compiled import compiled
from dapd.kernels.draw import DUAL, PRIMAL, Plan, draw


@compiled
def chunk(q: Any, data: Any, s: Any, plan: Plan, steps: int, counts: Array) -> None:
    """`steps` iterations from the state s on, in its arrays; q are the parameters."""
    M, b, A, kind = data.M, data.b, data.coupled.matrix, data.coupled.kind
    y, scale = s.y, s.scale
    v = np.empty(np.max(M.first[1:] - M.first[:-1]), y.dtype)
    z, g, d = np.empty_like(v), np.empty_like(v), np.empty_like(v)
    dy, image = np.empty_like(y), np.empty(max(s.Ap.size, np.max(data.f.matrix.rows)), y.dtype)
    back = q.gamma / (1 - q.gamma)
    ahead = q.xi - 1 / (1 - q.gamma)
    e_moves = (1 + q.gamma) * q.omega - 1
    p_moves = (1 + q.gamma) * q.omega + back * e_moves
    for k in range(s.k, s.k + steps):
        lag, lead = back * scale[0], ahead * scale[0]
        if kind != SEPARABLE and kind != MATRIX:
            for r in range(s.Ap.size):
                image[r] = s.Ap[r] - lag * s.Ae[r]
            pull(kind, image[: s.Ap.size], data.coupled.target)

        i = draw(plan.key, k, DUAL, q.N)
        _partial(data, s, i, lag, z, g, image)
        dots(M, i, y, v)
        for r in range(M.first[i + 1] - M.first[i]):
            v[r] += g[r]
        dy[:] = 0.0
        add(M, i, v, dy)
        for r in range(y.size):
            Mx_hat = s.Mp[r] + lead * s.Me[r]
            y[r] += q.chi * q.s / q.N * (Mx_hat - b[r]) - q.s_hat * dy[r]

        j = i if plan.shared else draw(plan.key, k, PRIMAL, q.N)
        if j != i:
            _partial(data, s, j, lag, z, g, image)
            counts[1] += 1
        dots(M, j, y, v)
        scale[0] *= q.gamma
        e_by = e_moves / scale[0]
        p_j, e_j = s.p[M.first[j] : M.first[j + 1]], s.e[M.first[j] : M.first[j + 1]]
        for r in range(p_j.size):
            d[r] = -q.t * (g[r] + v[r])
        dy[:] = 0.0
        add(M, j, d, dy)
        for r in range(y.size):
            s.Mp[r] += p_moves * dy[r]
            s.Me[r] += e_by * dy[r]
        for r in range(p_j.size):
            v[r] = p_moves * d[r]
            d[r] = e_by * d[r]
            p_j[r] += v[r]
            e_j[r] += d[r]
        if kind != SEPARABLE:
            add(A, j, v, s.Ap)
            add(A, j, d, s.Ae)
        counts[0] += 4
        counts[1] += 1

        if (k + 1) % plan.rebase == 0 or (k + 1) % plan.period == 0:
            for part in (s.e, s.Me, s.Ae):
                part *= scale[0]
            scale[0] = 1.0
        if (k + 1) % plan.period == 0:
            product(M, s.p, s.Mp)
            product(M, s.e, s.Me)
            counts[0] += 2 * q.N
            if kind != SEPARABLE:
                product(A, s.p, s.Ap)
                product(A, s.e, s.Ae)


@compiled
def _partial(data: Any, s: Any, i: int, lag: float, z: Array, g: Array, image: Array) -> None:
    """Set g = ∇_i f(z) for z = p − lag·ε; `image` holds the derivative of the loss at Az where f has one."""
    own = slice(data.M.first[i], data.M.first[i + 1])
    if data.coupled.kind == MATRIX:
        Hp, He, c = s.Ap[own], s.Ae[own], data.coupled.target[own]
        for r in range(c.size):
            g[r] = Hp[r] - lag * He[r] - c[r]
        return
    p_i, e_i = s.p[own], s.e[own]
    for r in range(p_i.size):
        z[r] = p_i[r] - lag * e_i[r]
    if data.coupled.kind == SEPARABLE:
        block_grad(data.f, i, z[: p_i.size], g[: p_i.size], image)
        return
    dots(data.coupled.matrix, i, image, g)
    for r in range(p_i.size):
        g[r] += data.coupled.ridge * z[r]
