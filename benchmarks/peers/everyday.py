"""Everyday models in the form people write them, small and large."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from peers import model as m


def differences(n: int, order: int) -> Any:
    """Finite differences of neighbours."""
    stencil = {1: [-1.0, 1.0], 2: [1.0, -2.0, 1.0]}[order]
    return sp.diags_array(stencil, offsets=list(range(order + 1)), shape=(n - order, n)).tocsr()


def trend(n: int, seed: int) -> m.Model:
    """ℓ₁ trend filtering of a polygon with a kink every 100 points, min ½‖x − z‖² + 50‖D²x‖₁."""
    rng = np.random.default_rng(seed)
    kinks = np.arange(0, n + 100, 100)
    z = np.interp(np.arange(n), kinks, 3 * rng.standard_normal(len(kinks))) + rng.standard_normal(n)
    D, weights = differences(n, 2), np.full(n - 2, 50.0)
    return m.make("", "trend", m.Quadratic(np.ones(n), -z), D, np.zeros(n - 2), m.Slopes(-weights, weights))


def isotonic(n: int, seed: int) -> m.Model:
    """Isotonic regression, min ½‖x − z‖² subject to x_i ≤ x_{i+1}."""
    rng = np.random.default_rng(seed)
    z = np.sort(rng.standard_normal(n)) + 0.5 * rng.standard_normal(n)
    return m.make(
        "", "isotonic", m.Quadratic(np.ones(n), -z), -differences(n, 1), np.zeros(n - 1), m.inequalities(n - 1)
    )


def transport(n: int, seed: int) -> m.Model:
    """Quadratically regularised transport, min ⟨C, X⟩ + 0.05‖X‖² with given row and column sums, X ≥ 0."""
    rng = np.random.default_rng(seed)
    t = np.linspace(0, 1, n)
    C = (t[:, None] - t) ** 2
    marginals = [v / v.sum() for v in rng.random((2, n))]
    one = np.ones((1, n))
    M = sp.vstack([sp.kron(sp.eye_array(n), one), sp.kron(one, sp.eye_array(n))]).tocsr()
    cost = m.Quadratic(np.full(n * n, 0.1), C.ravel())
    return m.make("", "transport", cost, M, np.concatenate(marginals), m.equations(2 * n), (0.0, np.inf))


def portfolio(n: int, seed: int) -> m.Model:
    """Markowitz with a dense covariance, Σx = 1 and 0 ≤ x ≤ 0.1."""
    rng = np.random.default_rng(seed)
    F = rng.standard_normal((n, 15)) / np.sqrt(15)
    cost = m.Quadratic(F @ F.T + np.diag(rng.uniform(0.1, 1, n)), -0.5 * rng.standard_normal(n))
    return m.make("", "portfolio", cost, np.ones((1, n)), [1.0], m.equations(1), (0.0, 0.1))


def svm(samples: int, seed: int, features: int = 100) -> m.Model:
    """Support vector machine, min ½‖x‖² + Σ max(0, 1 − label·aᵀx)."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((samples, features))
    labels = np.sign(A @ rng.standard_normal(features) + 0.5 * rng.standard_normal(samples))
    rows = m.Slopes(np.zeros(samples), np.ones(samples))
    cost = m.Quadratic(np.ones(features), np.zeros(features))
    return m.make("", "svm", cost, -labels[:, None] * A, -np.ones(samples), rows)


def total_variation(n: int, seed: int) -> m.Model:
    """Anisotropic total variation of an n × n image, min ½‖x − z‖² + 0.1‖Dx‖₁."""
    rng = np.random.default_rng(seed)
    image, part = np.zeros((n, n)), n / 128
    image[int(16 * part) : int(70 * part), int(20 * part) : int(90 * part)] = 1
    image[int(50 * part) : int(110 * part), int(5 * part) : int(55 * part)] += 0.5
    z = (image + 0.1 * rng.standard_normal((n, n))).ravel()
    D, one = differences(n, 1), sp.eye_array(n)
    M = sp.vstack([sp.kron(D, one), sp.kron(one, D)]).tocsr()
    weights = np.full(M.shape[0], 0.1)
    rows, shape = m.Slopes(-weights, weights), {"image": (n, n)}
    return m.make("", "total variation", m.Quadratic(np.ones(n * n), -z), M, np.zeros(len(weights)), rows, extra=shape)


def lasso(samples: int, seed: int) -> m.Model:
    """Min ½‖Ax − d‖² + 5‖x‖₁, four times as many features as samples and no ridge."""
    rng, n = np.random.default_rng(seed), 4 * samples
    A = rng.standard_normal((samples, n))
    d = A @ (rng.standard_normal(n) * (rng.random(n) < 0.05)) + 0.1 * rng.standard_normal(samples)
    weights = np.full(n, 5.0)
    return m.make("", "lasso", m.Squares(A, d), sp.eye_array(n, format="csr"), np.zeros(n), m.Slopes(-weights, weights))


def group_lasso(samples: int, seed: int) -> m.Model:
    """Min ½‖Ax − d‖² + 20 Σ‖x_g‖₂, four times as many features as samples, groups of five, no ridge."""
    rng, n, size = np.random.default_rng(seed), 4 * samples, 5
    A = rng.standard_normal((samples, n))
    chosen = np.repeat(rng.random(n // size) < 0.03, size)
    d = A @ (rng.standard_normal(n) * chosen) + 0.1 * rng.standard_normal(samples)
    rows = m.Norms(np.full(n // size, 20.0), np.full(n // size, size))
    return m.make("", "group lasso", m.Squares(A, d), sp.eye_array(n, format="csr"), np.zeros(n), rows)


def logistic(features: int, seed: int) -> m.Model:
    """Logistic regression on sparse data with ridge 0.1, 50 sparse inequalities and Σx = 0."""
    rng, samples, limits = np.random.default_rng(seed), features // 50, 50
    A = scattered(rng, samples, features, 30)
    truth = rng.standard_normal(features)
    labels = np.where(A @ truth + rng.standard_normal(samples) > 0, 1.0, -1.0)
    C = scattered(rng, limits, features, features // 100)
    M = sp.vstack([C, sp.csr_array(np.full((1, features), features**-0.5))]).tocsr()
    rows = m.Within(np.r_[np.full(limits, -np.inf), 0.0], np.zeros(limits + 1))
    b = np.r_[-0.01 * rng.random(limits), 0.0]
    return m.make("", "logistic", m.Logistic(A, labels, 0.1), M, b, rows)


def scattered(rng: np.random.Generator, rows: int, columns: int, each: int) -> Any:
    """A Gaussian matrix with about `each` entries in a row."""
    at = rng.integers(columns, size=rows * each)
    entries = rng.standard_normal(rows * each) / np.sqrt(each)
    return sp.csr_array((entries, (np.repeat(np.arange(rows), each), at)), (rows, columns))


def badly_scaled(columns: int, seed: int) -> m.Model:
    """Five inequalities with rows of sizes from 1e-3 to 1e5."""
    rng, sizes = np.random.default_rng(seed), np.array([1.0, 1e3, 1e-3, 10.0, 1e5])
    M = rng.standard_normal((5, columns)) * sizes[:, None]
    cost = m.Quadratic(np.ones(columns), -rng.standard_normal(columns))
    return m.make("", "badly scaled", cost, M, sizes * rng.standard_normal(5), m.inequalities(5))


def incidence(rng: np.random.Generator, nodes: int, edges: int) -> Any:
    """A ring with random edges in addition."""
    tail = np.r_[np.arange(nodes), rng.integers(nodes, size=edges - nodes)]
    head = np.r_[(np.arange(nodes) + 1) % nodes, (tail[nodes:] + rng.integers(1, nodes, edges - nodes)) % nodes]
    edge = np.arange(edges)
    return sp.csr_array(
        (np.r_[np.ones(edges), -np.ones(edges)], (np.r_[tail, head], np.r_[edge, edge])), (nodes, edges)
    )


def flow(nodes: int, seed: int, *, cost: str = "quadratic", capacities: bool = False) -> m.Model:
    """Network flow: each node touches 8 edges on average (10 if there are 300,000 nodes)."""
    rng = np.random.default_rng(seed)
    edges = (5 if nodes >= 300_000 else 4) * nodes
    M = incidence(rng, nodes, edges)
    b = M @ rng.uniform(-0.8, 0.8, edges)
    family = f"flow, {cost}{', capacities' if capacities else ''}"
    if cost == "quadratic":
        f: m.Cost = m.Quadratic(np.exp(rng.uniform(0, 3, edges)), -5 * rng.standard_normal(edges))
    else:
        f = m.PseudoHuber(0.1)
    return m.make("", family, f, M, b, m.equations(nodes), (-1.0, 1.0) if capacities else (-np.inf, np.inf))
