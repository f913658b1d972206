"""Block problems built backwards from a chosen solution, and the paper's algorithms written out literally."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

import dapd
from dapd.theory import SaddlePoint

SIZES = {1: [7], 2: [3, 6], 3: [4, 1, 5], 4: [2, 3, 1, 4], 5: [3, 1, 2, 4, 2]}


class Instance(NamedTuple):
    problem: dapd.Problem
    spectrum: dapd.Spectrum
    at: SaddlePoint


class ExactBregman(SaddlePoint):
    """D_f without the cancellation of f(x) − f(x*), so Ψ is accurate to 14 digits even if it is tiny."""

    def bregman_f(self, x: Any) -> Any:
        f, d = self.problem.f, x - self.x
        if isinstance(f, dapd.Quadratic):
            return 0.5 * d @ (f.grad(x) - f.grad(self.x))
        e = f.e
        product = np.hypot(x, e) * np.hypot(self.x, e)
        inner = e * e + self.x * x
        # product² − inner² = e²d²
        gap = np.where(inner > 0, e * e * d * d / (product + np.maximum(inner, 0)), product - inner)
        return np.sum(gap / np.hypot(self.x, e) + e / 2 * d * d)


def blocks_of(N: int) -> list[slice]:
    ends = np.cumsum([0, *SIZES[N]])
    return [slice(int(a), int(b)) for a, b in itertools.pairwise(ends)]


def coupling(rng: np.random.Generator, rows: int, columns: int, ratio: float) -> Any:
    U, _, Vt = np.linalg.svd(rng.standard_normal((rows, columns)), full_matrices=False)
    return (U * np.geomspace(1 / ratio, 1.0, rows)) @ Vt


def instance(kind: str, condition: float, ratio: float, N: int, seed: int = 0, rows: int = 3) -> Instance:
    """kind: "huber", "diagonal" or "dense" (nonseparable)."""
    rng = np.random.default_rng([seed, N])
    blocks = blocks_of(N)
    m = blocks[-1].stop
    M = coupling(rng, rows, m, ratio)
    y = rng.standard_normal(rows)
    if kind == "huber":
        f: Any = dapd.PseudoHuber.with_condition(condition)
        x = inverse_grad(f, -M.T @ y)
    else:
        x = rng.standard_normal(m)
        H = np.geomspace(1.0, condition, m)
        if kind == "dense":
            Q = np.linalg.qr(rng.standard_normal((m, m)))[0]
            H = (Q * H) @ Q.T
            H = (H + H.T) / 2
        else:
            H = rng.permutation(H)
        f = dapd.Quadratic(H, (H @ x if H.ndim == 2 else H * x) + M.T @ y, mu=1.0, L=condition)
    problem = dapd.Problem(f, M, M @ x, blocks=blocks, x_star=x, y_star=y)
    s_bar_max = max(np.linalg.norm(M[:, block], 2) for block in blocks)
    return Instance(problem, dapd.Spectrum(1.0, 1 / ratio, s_bar_max), ExactBregman(problem, x, y))


def inverse_grad(f: dapd.PseudoHuber, g: Any) -> Any:
    """x with ∇f(x) = g, by bisection."""
    low, high = -np.abs(g) / f.mu - 1, np.abs(g) / f.mu + 1
    for _ in range(200):
        middle = (low + high) / 2
        over = f.grad(middle) > g
        low, high = np.where(over, low, middle), np.where(over, middle, high)
    return (low + high) / 2


def literal_start(method: Any) -> tuple[Any, ...]:
    """The parameters, f, M as a matrix and the first x and y."""
    problem = method.problem
    return method.parameters, problem.f, problem.M.dense(), method.x0.copy(), method.y0.copy()


def literal_draws(method: Any, steps: int) -> Iterator[tuple[slice, slice, bool]]:
    """The blocks of both steps, and whether y is refreshed."""
    blocks = method.problem.blocks
    for i, j, coin in map(method.drawn, range(steps)):
        yield blocks[i], blocks[j], coin


def x_side_dual(method: Any, M: Any, x: Any, z: Any, y: Any, i: slice) -> Any:
    """The dual step of the methods of the x side."""
    p, problem = method.parameters, method.problem
    x_hat = p.xi * z - (p.xi - 1) * x
    correction = M[:, i] @ (M[:, i].T @ y + problem.f.grad(z)[i])
    return y + p.chi * p.s / p.N * (M @ x_hat - problem.b) - p.s_hat * correction


def literal_x_sbc(method: Any, steps: int) -> tuple[Any, Any]:
    p, f, M, x, y = literal_start(method)
    z = x.copy()
    for i, j, _ in literal_draws(method, steps):
        g = f.grad(z)
        y = x_side_dual(method, M, x, z, y, i)
        new = z[j] - p.t * (g[j] + M[:, j].T @ y)
        z[j] = (1 + p.gamma) * new - p.gamma * x[j]
        x[j] = new
    return x, y


def literal_y_sbc(method: Any, steps: int) -> tuple[Any, Any]:
    p, f, M, x, y = literal_start(method)
    b, w = method.problem.b, y.copy()
    for i, j, refreshed in literal_draws(method, steps):
        g = f.grad(x)
        tilde = (
            w + p.s / p.N * (M @ x - b) - p.s_hat / p.N * M @ (M.T @ y + g) - p.s_hat * M[:, i] @ M[:, i].T @ (w - y)
        )
        new_y = tilde if refreshed else y
        u = p.xi * tilde - (p.xi - 1) * y
        w = p.tau / (1 + p.tau) * new_y + 1 / (1 + p.tau) * u
        y = new_y
        x[j] = x[j] - p.t_tilde * (g[j] + M[:, j].T @ u)
    return x, y


def literal_nonseparable(method: Any, steps: int) -> tuple[Any, Any]:
    p, f, M, x, y = literal_start(method)
    z = x.copy()
    for i, j, _ in literal_draws(method, steps):
        g = f.grad(z)
        y = x_side_dual(method, M, x, z, y, i)
        new = z.copy()
        new[j] = z[j] - p.t * (g[j] + M[:, j].T @ y)
        z = (1 + p.gamma) * (z + p.omega * (new - z)) - p.gamma * x
        x = new
    return x, y


LITERAL = {
    "x-sbc-dapd": literal_x_sbc,
    "y-sbc-dapd": literal_y_sbc,
    "x-sbc-dapd-nonseparable": literal_nonseparable,
}
