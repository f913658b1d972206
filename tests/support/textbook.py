"""Each method as printed in its paper, with every product and gradient computed anew. Yields (x, y)."""

import numpy as np
from instances import PHIS

import dapd


def x_dapd(p, grad, M, b, prox, x, y):
    z = x
    while True:
        yield x, y
        x_hat = p.xi * z - (p.xi - 1) * x
        y = prox(y + p.chi * p.s * (M @ x_hat - b) - p.s_hat * M @ (M.T @ y + grad(z)), p.chi * p.s)
        x_new = z - p.t * (grad(z) + M.T @ y)
        z = (1 + p.gamma) * x_new - p.gamma * x
        x = x_new


def y_dapd(p, grad, M, b, prox, x, y):
    w = y
    while True:
        yield x, y
        y_new = prox(w + p.s * (M @ x - b) - p.s_hat * M @ (M.T @ w + grad(x)), p.s)
        w = (1 + p.gamma) * y_new - p.gamma * y
        u = (1 + p.tau) * w - p.tau * y_new
        x = x - p.t_tilde * (grad(x) + M.T @ u)
        y = y_new


def papc(p, grad, M, b, prox, x, y):
    while True:
        yield x, y
        predicted = x - p.t * (grad(x) + M.T @ y)
        y = prox(y + p.s * (M @ predicted - b), p.s)
        x = x - p.t * (grad(x) + M.T @ y)


def condat_vu(p, grad, M, b, prox, x, y):
    while True:
        yield x, y
        x_new = x - p.t * (grad(x) + M.T @ y)
        y = prox(y + p.s * (M @ (2 * x_new - x) - b), p.s)
        x = x_new


def apapc(p, grad, M, b, prox, x, y):
    x_f = x
    while True:
        yield x_f, y
        x_g = p.tau * x + (1 - p.tau) * x_f
        x_half = (x - p.eta * (grad(x_g) - p.alpha * x_g + M.T @ y)) / (1 + p.eta * p.alpha)
        y_new = prox(y + p.theta * (M @ x_half - b), p.theta)
        x_new = (x - p.eta * (grad(x_g) - p.alpha * x_g + M.T @ y_new)) / (1 + p.eta * p.alpha)
        x_f = x_g + 2 * p.tau / (2 - p.tau) * (x_new - x)
        x, y = x_new, y_new


def capd(p, grad, M, b, prox, x, y):
    """With u in place of Mᵀy, as printed; y is recovered from u."""

    def chebyshev(x):
        gamma = -p.nu / 2
        direction = -M.T @ (M @ x - b) / p.nu
        x = x + direction
        for _ in range(p.N - 1):
            beta = p.rho / gamma
            gamma = -(p.nu + beta)
            direction = (M.T @ (M @ x - b) + beta * direction) / gamma
            x = x + direction
        return x

    x_f, u = x, M.T @ y
    while True:
        yield x_f, np.linalg.lstsq(M.T, u)[0]
        x_g = p.tau * x + (1 - p.tau) * x_f
        x_half = (x - p.eta * (grad(x_g) - p.alpha * x_g + u)) / (1 + p.eta * p.alpha)
        r = p.theta * (x_half - chebyshev(x_half))
        u = u + r
        x_new = x_half - p.eta / (1 + p.eta * p.alpha) * r
        x_f = x_g + 2 * p.tau / (2 - p.tau) * (x_new - x)
        x = x_new


def pd3o(t, s, grad, M, b, prox, primal_prox, z, y):
    """PD3O for f + g + h∘M, with the prox of g; yields (x, y) with x = prox_g(z)."""
    while True:
        x = primal_prox(z, t)
        yield x, y
        y = prox(y - t * s * M @ (M.T @ y) + s * (M @ (2 * x - z - t * grad(x)) - b), s)
        z = x - t * grad(x) - t * M.T @ y


METHODS = {
    "x-dapd": x_dapd,
    "y-dapd": y_dapd,
    "papc": papc,
    "apapc": apapc,
    "capd": capd,
    "condat-vu": condat_vu,
}

PAIRS = [(name, phi) for name in METHODS for phi in PHIS if dapd.METHODS[name].any_phi or phi == "zero"]
