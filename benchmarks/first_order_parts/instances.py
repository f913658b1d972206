"""The instances of `benchmarks/first_order.py`, each with the judge in which its accuracy is stated.

The shapes are those of the papers and packages that are named; the numbers come from fixed seeds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

import dapd
from first_order_parts.judges import Judge, absolute, gap, relative, relative_norms
from peers import everyday
from peers import model as m
from peers.paper import model_of
from peers.with_dapd import problem_of

INF = np.inf


class Instance(NamedTuple):
    """A model that is made when it is needed."""

    name: str
    kind: str  # "lp", "qp" or "other"
    make: Callable[[], m.Model]
    judge: Judge  # who says whether an answer is accurate enough


def dapd_problem(model: m.Model) -> dapd.Problem:
    """The model as a user of dapd writes it; by `dapd.problems.qp` if its rows are intervals."""
    cost, *others = [cost for cost, _ in model.costs]
    parts = model.parts
    if others or not isinstance(cost, m.Quadratic) or not all(isinstance(part, m.Within) for part in parts):
        return problem_of(model)
    lower, upper = (np.concatenate([np.zeros(0), *(getattr(p, end) for p in parts)]) for end in ("lower", "upper"))
    rows = (model.M, lower + model.b, upper + model.b) if model.rows else (None, None, None)
    return dapd.problems.qp(cost.P, cost.q, *rows, model.lower, model.upper)


def equations(cost: Any, M: Any, b: Any, bounds: tuple[Any, Any], P: Any = 0.0) -> m.Model:
    """Min ½Σ P x² + costᵀx subject to Mx = b and the bounds; P is a diagonal."""
    quadratic = m.Quadratic(np.broadcast_to(P, len(cost)).astype(float), cost)
    return m.make("", "equations", quadratic, M, b, m.equations(len(b)), bounds)


def between(P: Any, q: Any, A: Any, lower: Any, upper: Any) -> m.Model:
    """Min ½Σ P x² + qᵀx subject to lower ≤ Ax ≤ upper, without bounds on x; P is a diagonal."""
    return m.make("", "rows", m.Quadratic(P, q), sp.csr_array(A), np.zeros(len(lower)), m.Within(lower, upper))


# ---------------------------------------------------------------- linear programs


def incidence(tail: Any, head: Any, nodes: int) -> Any:
    """One column per edge: 1 at its tail, −1 at its head."""
    edges = len(tail)
    entries, columns = np.repeat([1.0, -1.0], edges), np.tile(np.arange(edges), 2)
    return sp.csr_array((entries, (np.concatenate([tail, head]), columns)), shape=(nodes, edges))


def flow_lp(nodes: int, edges: int) -> m.Model:
    """Min-cost flow on random edges with capacities 1 and costs in (0, 10)."""
    rng = np.random.default_rng(0)
    tail = rng.integers(nodes, size=edges)
    M = incidence(tail, (tail + rng.integers(1, nodes, size=edges)) % nodes, nodes)
    flow = rng.uniform(0, 1, edges)
    return equations(rng.uniform(0, 10, edges), M, M @ flow, (0.0, 1.0))


def transport_lp(n: int) -> m.Model:
    """Transport from n sources to n sinks with random costs."""
    rng = np.random.default_rng(0)
    cost = rng.uniform(0, 1, n * n)
    supply, demand = rng.uniform(0.5, 1.5, (2, n))
    demand *= supply.sum() / demand.sum()
    one, ones = sp.eye_array(n), np.ones((1, n))
    M = sp.vstack([sp.kron(one, ones), sp.kron(ones, one)]).tocsr()
    return equations(cost, M, np.concatenate([supply, demand]), (0.0, INF))


def sparse_lp(rows: int, columns: int) -> m.Model:
    """Random rows with 8 entries per column on average, made backwards from a solution."""
    rng = np.random.default_rng(0)
    M = sp.random_array((rows, columns), density=8 / rows, rng=rng, data_sampler=rng.standard_normal).tocsr()
    x, y = np.maximum(rng.standard_normal(columns), 0), rng.standard_normal(rows)
    slack = np.where(x > 0, 0, rng.uniform(0, 1, columns))
    return equations(M.T @ y + slack, M, M @ x, (0.0, INF))


# ---------------------------------------------------------------- quadratic programs


def drawn(rng: np.random.Generator, rows: int, columns: int, sampler: Any = None) -> Any:
    """A sparse matrix of density 0.15, drawn as OSQP's benchmark draws it."""
    return sp.random_array((rows, columns), density=0.15, rng=rng, data_sampler=sampler or rng.standard_normal)


def osqp_lasso(n: int) -> m.Model:
    """OSQP's lasso: min ‖r‖² + λΣt with r = Fx − d and −t ≤ x ≤ t, 100n samples."""
    rng, rows = np.random.default_rng(0), 100 * n
    F = drawn(rng, rows, n).tocsc()
    d = F @ ((rng.random(n) > 0.5) * rng.standard_normal(n) / np.sqrt(n)) + rng.standard_normal(rows)
    weight, one = 0.2 * abs(F.T @ d).max(), sp.eye_array(n)
    A = sp.block_array([[F, -sp.eye_array(rows), None], [one, None, -one], [one, None, one]])
    P = np.repeat([0.0, 2.0, 0.0], [n, rows, n])
    q = np.repeat([0.0, weight], [n + rows, n])
    return between(P, q, A, np.r_[d, np.full(n, -INF), np.zeros(n)], np.r_[d, np.zeros(n), np.full(n, INF)])


def osqp_svm(n: int) -> m.Model:
    """OSQP's SVM: min ½‖x‖² + Σt with t ≥ 1 + label·aᵀx and t ≥ 0 as rows, 100n samples."""
    rng, half = np.random.default_rng(0), 50 * n
    halves = [
        drawn(rng, half, n, lambda size=None, sign=sign: rng.normal(sign / n, np.sqrt(1 / n), size)) for sign in (1, -1)
    ]
    labels = np.repeat([1.0, -1.0], half)
    one = sp.eye_array(2 * half)
    A = sp.block_array([[sp.diags_array(labels) @ sp.vstack(halves), -one], [None, one]])
    limits = np.repeat([-INF, 0.0], 2 * half), np.repeat([-1.0, INF], 2 * half)
    return between(np.repeat([1.0, 0.0], [n, 2 * half]), np.repeat([0.0, 1.0], [n, 2 * half]), A, *limits)


def osqp_huber(n: int) -> m.Model:
    """OSQP's Huber regression: min ‖u‖² + 2Σ(r + s) with Fx − u − r + s = d and r, s ≥ 0 as rows, 100n samples."""
    rng, rows = np.random.default_rng(0), 100 * n
    F = drawn(rng, rows, n).tocsc()
    truth, usual = rng.standard_normal(n) / np.sqrt(n), rng.random(rows) < 0.95
    d = F @ truth + np.where(usual, rng.standard_normal(rows) * 0.5, rng.random(rows) * 10)
    one = sp.eye_array(rows)
    A = sp.block_array([[F, -one, -one, one], [None, None, one, None], [None, None, None, one]])
    P = np.repeat([0.0, 2.0, 0.0], [n, rows, 2 * rows])
    q = np.repeat([0.0, 2.0], [n + rows, 2 * rows])
    return between(P, q, A, np.r_[d, np.zeros(2 * rows)], np.r_[d, np.full(2 * rows, INF)])


def osqp_portfolio(factors: int) -> m.Model:
    """OSQP's portfolio: min xᵀDx + ‖y‖² − μᵀx with y = Fᵀx, Σx = 1 and 0 ≤ x ≤ 1 as rows, 100 assets per factor."""
    rng, n = np.random.default_rng(0), 100 * factors
    F = sp.random_array((n, factors), density=0.5, rng=rng, data_sampler=rng.standard_normal)
    D, returns = rng.random(n) * np.sqrt(factors), rng.standard_normal(n)
    A = sp.block_array([[np.ones((1, n)), None], [F.T, -sp.eye_array(factors)], [sp.eye_array(n), None]])
    lower, upper = np.r_[1.0, np.zeros(factors + n)], np.r_[1.0, np.zeros(factors), np.ones(n)]
    return between(2 * np.r_[D, np.ones(factors)], np.r_[-returns, np.zeros(factors)], A, lower, upper)


class Everyday(NamedTuple):
    """Data of the everyday problems that are drawn one after another from one generator."""

    signal: Any  # of the trend filter
    steps: Any  # of the isotonic regression
    samples: Any  # of the support vector machine
    labels: Any


def everyday_data(n: int = 2_000, samples: int = 5_000, features: int = 50) -> Everyday:
    """The data with which the design states its bars; draws that belong to other problems are skipped."""
    rng = np.random.default_rng(5)
    bends = rng.standard_normal(n) * (rng.random(n) < 0.01) * 0.05
    signal = np.cumsum(np.cumsum(bends)) + rng.standard_normal(n)
    steps = np.sort(rng.standard_normal(n)) + 0.5 * rng.standard_normal(n)
    rng.random(2 * 60), rng.standard_normal(300 * 15), rng.uniform(0.1, 1, 300), rng.standard_normal(300)
    A = rng.standard_normal((samples, features))
    labels = np.sign(A @ rng.standard_normal(features) + 0.5 * rng.standard_normal(samples))
    return Everyday(signal, steps, A, labels)


def nearest(target: Any, M: Any, part: m.Part) -> m.Model:
    """Min ½‖x − target‖² with a condition or a penalty on Mx."""
    cost = m.Quadratic(np.ones(len(target)), -target)
    return m.make("", "nearest", cost, M, np.zeros(M.shape[0]), part)


def trend() -> m.Model:
    """ℓ₁ trend filtering of a noisy polygon, weight 50."""
    signal = everyday_data().signal
    weights = np.full(len(signal) - 2, 50.0)
    return nearest(signal, everyday.differences(len(signal), 2), m.Slopes(-weights, weights))


def isotonic() -> m.Model:
    """Isotonic regression, the least squares fit with x₁ ≤ x₂ ≤ … ≤ xₙ."""
    steps = everyday_data().steps
    return nearest(steps, -everyday.differences(len(steps), 1), m.inequalities(len(steps) - 1))


def svm() -> m.Model:
    """A support vector machine, min ½‖x‖² + Σ max(0, 1 − label·aᵀx)."""
    data = everyday_data()
    samples, features = data.samples.shape
    cost = m.Quadratic(np.ones(features), np.zeros(features))
    part = m.Slopes(np.zeros(samples), np.ones(samples))
    return m.make("", "svm", cost, -data.labels[:, None] * data.samples, -np.ones(samples), part)


def flow_with_capacities(nodes: int) -> m.Model:
    """Flow in a random graph and a ring, with quadratic costs and capacities ±1, as in `gpu.py`."""
    rng = np.random.default_rng(4)
    tail, head = rng.integers(nodes, size=3 * nodes), rng.integers(nodes, size=3 * nodes)
    apart, ring = tail != head, np.arange(nodes)
    M = incidence(np.r_[tail[apart], ring], np.r_[head[apart], (ring + 1) % nodes], nodes)
    edges = M.shape[1]
    curvature, slope = np.exp(rng.uniform(0, 3, edges)), -5 * rng.standard_normal(edges)
    return equations(slope, M, M @ rng.uniform(-0.8, 0.8, edges), (-1.0, 1.0), curvature)


# ---------------------------------------------------------------- curvature that is ill-conditioned


def logistic(samples: int = 400, features: int = 60) -> m.Model:
    """Logistic regression whose columns differ by 1e3, with sums of ±x in five random patterns that are zero."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((samples, features)) * np.geomspace(1e-2, 10, features)
    labels = np.where(A @ rng.standard_normal(features) + rng.standard_normal(samples) > 0, 1.0, -1.0)
    M = np.sign(rng.standard_normal((5, features)))
    return m.make("", "logistic", m.Logistic(A, labels, 1e-4), M, np.zeros(5), m.equations(5))


def least_squares(rows: int = 200, columns: int = 100, *, bounded: bool = False) -> m.Model:
    """Least squares with AᵀA of condition 1e6 and twenty inequalities, or with one equation and x ≥ 0."""
    rng = np.random.default_rng(0)
    U, V = (np.linalg.qr(rng.standard_normal((size, columns)))[0] for size in (rows, columns))
    A = (U * np.geomspace(1.0, 1e-3, columns)) @ V.T
    M = np.ones((1, columns)) if bounded else rng.standard_normal((20, columns)) / np.sqrt(columns)
    d = A @ rng.standard_normal(columns) + 0.01 * rng.standard_normal(rows)
    if bounded:
        return m.make("", "least squares", m.Squares(A, d), M, np.ones(1), m.equations(1), (0.0, INF))
    return m.make("", "least squares", m.Squares(A, d), M, np.zeros(20), m.inequalities(20))


def compressed_sensing() -> m.Model:
    """The paper's compressed sensing, L/μ = 1e4 and s_max²/s_min² = 1e5."""
    return model_of(dapd.experiments.compressed_sensing(seed=0), "compressed sensing")


INSTANCES = [
    Instance("flow LP 2k/10k", "lp", lambda: flow_lp(2_000, 10_000), relative_norms),
    Instance("flow LP 10k/50k", "lp", lambda: flow_lp(10_000, 50_000), relative_norms),
    Instance("transport LP 60²", "lp", lambda: transport_lp(60), relative_norms),
    Instance("transport LP 200²", "lp", lambda: transport_lp(200), relative_norms),
    Instance("sparse LP 2k×5k", "lp", lambda: sparse_lp(2_000, 5_000), relative_norms),
    Instance("OSQP's lasso, n = 8", "qp", lambda: osqp_lasso(8), absolute),
    Instance("OSQP's SVM, n = 8", "qp", lambda: osqp_svm(8), absolute),
    Instance("OSQP's Huber, n = 8", "qp", lambda: osqp_huber(8), absolute),
    Instance("OSQP's portfolio, k = 4", "qp", lambda: osqp_portfolio(4), absolute),
    Instance("TV 256²", "qp", lambda: everyday.total_variation(256, 0), gap),
    Instance("trend 2,000", "qp", trend, gap),
    Instance("SVM 5,000×50", "qp", svm, gap),
    Instance("flow QP 20k", "qp", lambda: flow_with_capacities(20_000), relative_norms),
    Instance("isotonic 2,000", "qp", isotonic, relative_norms),
    Instance("CST", "other", compressed_sensing, relative),
    Instance("logistic, ill-scaled", "other", logistic, relative),
    Instance("least squares, 1e6", "other", least_squares, relative),
    Instance("least squares, 1e6, x ≥ 0", "other", lambda: least_squares(bounded=True), relative),
]


def of_name(name: str) -> Instance:
    """The instance of that name."""
    return next(instance for instance in INSTANCES if instance.name == name)
