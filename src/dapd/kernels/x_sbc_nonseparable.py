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
from dapd.kernels.block_function import MATRIX, SEPARABLE, BlockFunctions, Coupled, block_grad, pull
from dapd.kernels.block_matrix import BlockMatrix, add, dots, product
from dapd.kernels.compiled import compiled
from dapd.kernels.draw import DUAL, PRIMAL, draw


@compiled
def chunk(
    q: Any,
    M: BlockMatrix,
    f: BlockFunctions,
    b: Array,
    coupled: Coupled,
    p: Array,
    e: Array,
    y: Array,
    Mp: Array,
    Me: Array,
    Ap: Array,
    Ae: Array,
    scale: Array,
    k: int,
    steps: int,
    key: np.uint64,
    shared: bool,
    period: int,
    rebase: int,
    counts: Array,
) -> None:
    """Iterations k, …, k + steps − 1, in place; q are the parameters."""
    widest = np.max(M.first[1:] - M.first[:-1])
    v, d = np.empty(widest, y.dtype), np.empty(widest, y.dtype)
    z, g, dy = np.empty(widest, y.dtype), np.empty(widest, y.dtype), np.empty_like(y)
    image = np.empty(max(Ap.size, np.max(f.matrix.rows)), y.dtype)
    back = q.gamma / (1 - q.gamma)  # z = p − back·scale·e
    ahead = q.xi - 1 / (1 - q.gamma)  # x̂ = p + ahead·scale·e
    z_follows, e_follows = (1 + q.gamma) * q.omega, (1 + q.gamma) * q.omega - 1
    for now in range(k, k + steps):
        if coupled.kind != SEPARABLE and coupled.kind != MATRIX:
            for l in range(Ap.size):
                image[l] = Ap[l] - back * scale[0] * Ae[l]
            pull(coupled.kind, image[: Ap.size], coupled.target)

        i = draw(key, now, DUAL, q.N)
        _partial(f, coupled, M.first, i, p, e, Ap, Ae, back * scale[0], z, g, image)
        dots(M, i, y, v)
        for r in range(M.first[i + 1] - M.first[i]):
            v[r] += g[r]
        dy[:] = 0.0
        add(M, i, v, dy)
        for l in range(y.size):
            y[l] += q.chi * q.s / q.N * (Mp[l] + ahead * scale[0] * Me[l] - b[l]) - q.s_hat * dy[l]

        j = i if shared else draw(key, now, PRIMAL, q.N)
        if j != i:
            _partial(f, coupled, M.first, j, p, e, Ap, Ae, back * scale[0], z, g, image)
            counts[1] += 1
        dots(M, j, y, v)
        scale[0] *= q.gamma
        p_follows = z_follows + back * e_follows
        first, size = M.first[j], M.first[j + 1] - M.first[j]
        for r in range(size):
            d[r] = -q.t * (g[r] + v[r])
            p[first + r] += p_follows * d[r]
            e[first + r] += e_follows / scale[0] * d[r]
        dy[:] = 0.0
        add(M, j, d, dy)
        for l in range(y.size):
            Mp[l] += p_follows * dy[l]
            Me[l] += e_follows / scale[0] * dy[l]
        if coupled.kind != SEPARABLE:
            for r in range(size):
                v[r] = p_follows * d[r]
                d[r] *= e_follows / scale[0]
            add(coupled.matrix, j, v, Ap)
            add(coupled.matrix, j, d, Ae)
        counts[0] += 4
        counts[1] += 1

        if (now + 1) % rebase == 0 or (now + 1) % period == 0:
            e *= scale[0]
            Me *= scale[0]
            Ae *= scale[0]
            scale[0] = 1.0
        if (now + 1) % period == 0:
            product(M, p, Mp)
            product(M, e, Me)
            counts[0] += 2 * q.N
            if coupled.kind != SEPARABLE:
                product(coupled.matrix, p, Ap)
                product(coupled.matrix, e, Ae)


@compiled
def _partial(
    f: BlockFunctions,
    coupled: Coupled,
    first: Array,
    i: int,
    p: Array,
    e: Array,
    Ap: Array,
    Ae: Array,
    lag: float,
    z: Array,
    g: Array,
    image: Array,
) -> None:
    """Set g = ∇_i f(z) for z = p − lag·e; `image` holds the derivative of the loss at Az where f has one."""
    start, size = first[i], first[i + 1] - first[i]
    if coupled.kind == MATRIX:
        for r in range(size):
            g[r] = Ap[start + r] - lag * Ae[start + r] - coupled.target[start + r]
        return
    for r in range(size):
        z[r] = p[start + r] - lag * e[start + r]
    if coupled.kind == SEPARABLE:
        block_grad(f, i, z[:size], g[:size], image)
        return
    dots(coupled.matrix, i, image, g)
    for r in range(size):
        g[r] += coupled.ridge * z[r]
