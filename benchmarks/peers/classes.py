"""The seven classes of OSQP's benchmark, with its formulas (github.com/osqp/osqp_benchmarks)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from peers import model as m

DENSITY = 0.15


def gaussian(rng: np.random.Generator, rows: int, columns: int, density: float = DENSITY) -> Any:
    return sp.random_array((rows, columns), density=density, rng=rng, data_sampler=rng.standard_normal, format="csr")


def positive_definite(rng: np.random.Generator, n: int) -> Any:
    root = gaussian(rng, n, n)
    return (root @ root.T + 1e-2 * sp.eye_array(n)).tocsr()


def random_qp(n: int, seed: int) -> m.Model:
    """Min ½xᵀPx + qᵀx subject to Ax ≤ u."""
    rng = np.random.default_rng(seed)
    P, q, A = positive_definite(rng, n), rng.standard_normal(n), gaussian(rng, 10 * n, n)
    u = A @ rng.standard_normal(n) + rng.random(10 * n)
    return m.make("", "random", m.Quadratic(P, q), A, u, m.inequalities(10 * n))


def equality(n: int, seed: int) -> m.Model:
    """Min ½xᵀPx + qᵀx subject to Ax = b."""
    rng = np.random.default_rng(seed)
    P, q, A = positive_definite(rng, n), rng.standard_normal(n), gaussian(rng, n // 2, n)
    return m.make("", "equality", m.Quadratic(P, q), A, A @ rng.standard_normal(n), m.equations(n // 2))


def portfolio(k: int, seed: int) -> m.Model:
    """Min xᵀDx + yᵀy − μᵀx subject to y = Fᵀx, Σx = 1, x ≥ 0: k factors, 100k assets."""
    rng, n = np.random.default_rng(seed), 100 * k
    F, D = gaussian(rng, n, k, 0.5), rng.random(n) * np.sqrt(k)
    q = np.r_[-rng.standard_normal(n), np.zeros(k)]
    A = sp.block_array([[sp.csr_array(np.ones((1, n))), None], [F.T, -sp.eye_array(k)]], format="csr")
    b = np.r_[1.0, np.zeros(k)]
    cost = m.Quadratic(np.r_[2 * D, np.full(k, 2.0)], q)
    bounds = np.r_[np.zeros(n), np.full(k, -np.inf)], np.r_[np.ones(n), np.full(k, np.inf)]
    return m.make("", "portfolio", cost, A, b, m.equations(k + 1), bounds)


def lasso(n: int, seed: int) -> m.Model:
    """Min yᵀy + λΣt subject to y = Ax − b, −t ≤ x ≤ t: n features, 100n samples."""
    rng, rows = np.random.default_rng(seed), 100 * n
    F = gaussian(rng, rows, n)
    b = F @ ((rng.random(n) > 0.5) * rng.standard_normal(n) / np.sqrt(n)) + rng.standard_normal(rows)
    weight = 0.2 * abs(F.T @ b).max()
    one = sp.eye_array(n)
    A = sp.block_array([[F, -sp.eye_array(rows), None], [one, None, -one], [one, None, one]], format="csr")
    cost = m.Quadratic(
        np.r_[np.zeros(n), np.full(rows, 2.0), np.zeros(n)], np.r_[np.zeros(n + rows), np.full(n, weight)]
    )
    lower, upper = np.r_[b, np.full(n, -np.inf), np.zeros(n)], np.r_[b, np.zeros(n), np.full(n, np.inf)]
    return m.make("", "lasso", cost, A, np.zeros(len(lower)), m.Within(lower, upper))


def svm(n: int, seed: int) -> m.Model:
    """Min ½xᵀx + Σt subject to t ≥ diag(b)Ax + 1, t ≥ 0: n features, 100n samples."""
    rng, rows = np.random.default_rng(seed), 100 * n
    half = rows // 2
    signs = np.r_[np.ones(half), -np.ones(rows - half)]
    F = sp.random_array((rows, n), density=DENSITY, rng=rng, data_sampler=rng.standard_normal, format="csr")
    F.data = F.data / np.sqrt(n) + np.repeat(signs, np.diff(F.indptr)) / n
    A = sp.block_array([[sp.diags_array(signs) @ F, -sp.eye_array(rows)]], format="csr")
    cost = m.Quadratic(np.r_[np.ones(n), np.zeros(rows)], np.r_[np.zeros(n), np.ones(rows)])
    lower = np.r_[np.full(n, -np.inf), np.zeros(rows)]
    return m.make("", "svm", cost, A, -np.ones(rows), m.inequalities(rows), (lower, np.inf))


def huber(n: int, seed: int) -> m.Model:
    """Min uᵀu + 2Σ(r + s) subject to Ax − b − u = r − s, r, s ≥ 0: n features, 100n samples."""
    rng, rows = np.random.default_rng(seed), 100 * n
    F = gaussian(rng, rows, n)
    noise = np.where(rng.random(rows) < 0.95, rng.standard_normal(rows) / 2, 10 * rng.random(rows))
    b = F @ (rng.standard_normal(n) / np.sqrt(n)) + noise
    one = sp.eye_array(rows)
    A = sp.block_array([[F, -one, -one, one]], format="csr")
    cost = m.Quadratic(
        np.r_[np.zeros(n), np.full(rows, 2.0), np.zeros(2 * rows)], np.r_[np.zeros(n + rows), np.full(2 * rows, 2.0)]
    )
    lower = np.r_[np.full(n + rows, -np.inf), np.zeros(2 * rows)]
    return m.make("", "huber", cost, A, b, m.equations(rows), (lower, np.inf))


def control(nx: int, seed: int, horizon: int = 10) -> m.Model:
    """Linear–quadratic control with bounds on nx states and nx/2 inputs."""
    rng, nu = np.random.default_rng(seed), nx // 2
    dynamics = np.eye(nx) + 0.1 * rng.standard_normal((nx, nx))
    dynamics /= max(1.0, abs(np.linalg.eigvals(dynamics)).max() + 0.01)
    B = rng.standard_normal((nx, nu))
    Q, R = np.diag((rng.random(nx) > 0.3) * 10 * rng.random(nx)), 0.1 * np.eye(nu)
    last = scipy.linalg.solve_discrete_are(dynamics, B, Q, R)
    x_most, u_most = 1 + rng.random(nx), 0.1 * rng.random(nu)
    start = rng.uniform(-0.5, 0.5, nx) * x_most
    A, P = dynamics_rows(dynamics, B, horizon), control_cost(Q, (last + last.T) / 2, R, horizon)
    b = np.r_[-start, np.zeros(horizon * nx)]
    most = np.r_[np.tile(x_most, horizon + 1), np.tile(u_most, horizon)]
    return m.make("", "control", m.Quadratic(P, np.zeros(len(most))), A, b, m.equations(len(b)), (-most, most))


def dynamics_rows(dynamics: Any, B: Any, horizon: int) -> Any:
    """Dynamics·x_t + Bu_t − x_{t+1} = 0 and −x_0 = −start, x before u."""
    nx = len(dynamics)
    states = sp.kron(sp.eye_array(horizon + 1), -sp.eye_array(nx)) + sp.kron(sp.eye_array(horizon + 1, k=-1), dynamics)
    shift = sp.vstack([sp.csr_array((1, horizon)), sp.eye_array(horizon)])
    return sp.hstack([states, sp.kron(shift, B)]).tocsr()


def control_cost(Q: Any, last: Any, R: Any, horizon: int) -> Any:
    """Q at each state but the last, R at each input."""
    return sp.block_diag([sp.kron(sp.eye_array(horizon), Q), last, sp.kron(sp.eye_array(horizon), R)]).tocsr()


CLASSES: dict[str, tuple[Callable[[int, int], m.Model], tuple[int, int, int]]] = {
    "random": (random_qp, (50, 150, 400)),
    "equality": (equality, (50, 300, 1000)),
    "portfolio": (portfolio, (3, 10, 30)),
    "lasso": (lasso, (10, 30, 100)),
    "svm": (svm, (10, 30, 100)),
    "huber": (huber, (10, 30, 100)),
    "control": (control, (10, 20, 40)),
}
