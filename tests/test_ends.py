"""Problems without a solution: rays are found near approximate directions, and never where there is none."""

from time import perf_counter

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import aslinearoperator

import dapd
from dapd.solving.ends import proves_infeasible, proves_unbounded
from instances import PHIS, quadratic_problem

KINDS = {"dense": np.asarray, "sparse": sp.csr_array, "matrix-free": aslinearoperator}
SEEDS = range(6)


def noisy(rng, v, noise):
    return v + noise * np.max(abs(v)) * rng.standard_normal(v.size)


def infeasible_problem(name, seed, kind=np.asarray, rows=8, columns=12, powers=3):
    """A problem that contradicts itself along d, and d."""
    rng = np.random.default_rng(seed)
    M = rng.standard_normal((rows, columns)) * 10.0 ** rng.integers(1 - powers, powers, (rows, 1))
    d = rng.standard_normal(rows)
    d[rng.permutation(rows)[:3]] = 0.0
    phi, bounds = dapd.Zero(), None
    x = rng.standard_normal(columns)
    last = int(np.flatnonzero(d)[-1])
    if name in ("inequalities", "bounds", "stack"):
        d = abs(d)
    if name != "bounds":
        M[last] -= d @ M / d[last]  # so Mᵀd = 0
    b = M @ x
    sizes = abs(M) @ abs(x) + 1
    if name == "equations":
        b[last] -= 0.1 * np.sign(d[last]) * sizes[last]
    elif name == "inequalities":
        phi, b = dapd.NonNegative(), b + 0.01 * sizes * (d == 0)
        b[last] -= 0.1 * sizes[last]
    elif name == "intervals":
        slack = rng.uniform(0, 1, rows)
        b[last] -= np.sign(d[last]) * (abs(d) @ slack / abs(d[last]) + 0.1 * sizes[last])
        phi = dapd.Interval(np.where(d > 0, -np.inf, -slack), np.where(d < 0, np.inf, slack))
    elif name == "l1":
        phi = dapd.L1(0.5)
        b[last] -= np.sign(d[last]) * (0.5 * np.sum(abs(d)) / abs(d[last]) + 0.1 * sizes[last])
    elif name == "stack":
        phi = dapd.Stack([dapd.Zero(), dapd.NonNegative()], sizes=[3, rows - 3])
        b[last] -= 0.1 * sizes[last]
    else:
        phi, bounds = dapd.NonNegative(), (x - 0.5, x + 0.5)
        lowest = abs(d @ M) @ np.full(columns, 0.5)
        b[last] -= (lowest + 0.1 * sizes @ d) / d[last]
    problem = dapd.Problem(dapd.PseudoHuber(0.5), kind(M), b, phi, bounds=bounds)
    return problem, M, d


def is_infeasible_ray(problem, M, d):
    """Farkas, up to what 1e-12 of the terms can change."""
    pull = -(d @ M)
    if problem.lower is None:
        terms = abs(d) @ abs(M)
        # of a matrix-free M only the norms of its rows are known
        assert np.all(abs(pull) <= 1e-12 * (terms if problem.M.probes == 0 else np.max(terms)))
        reach = 0.0
    else:
        reach = np.sum(np.maximum(pull * problem.lower, pull * problem.upper))
    return -problem.b @ d - problem.phi.recession(d) - reach > 1e-9 * (abs(d) @ abs(problem.b))


NAMES = ["equations", "inequalities", "intervals", "l1", "stack", "bounds"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("noise", [0.0, 1e-13, 1e-9])
def test_directions_near_a_ray_prove_infeasibility(name, kind, noise):
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        problem, M, d = infeasible_problem(name, seed, KINDS[kind])
        norms = np.linalg.norm(M, axis=1)
        direction = noisy(rng, d * norms, noise) / norms
        for at in (np.zeros(12), 100 * rng.standard_normal(12)):
            ray = proves_infeasible(problem, at, 7.0 * direction)
            assert ray is not None
            assert ray.shape == (8,)
            assert is_infeasible_ray(problem, M, ray)
        stacked = problem.stacked
        along = np.concatenate([direction, np.ones(stacked.rows - 8)])
        assert proves_infeasible(stacked, np.zeros(12), along).shape == (8,)


def test_corrections_end_at_a_deadline():
    rng = np.random.default_rng(0)
    problem, _, d = infeasible_problem("equations", 0)
    direction = noisy(rng, d, 1e-9)  # has to be corrected
    assert proves_infeasible(problem, np.zeros(12), direction, perf_counter() + 60) is not None
    assert proves_infeasible(problem, np.zeros(12), direction, perf_counter()) is None
    problem, v = unbounded_problem("quadratic", 0)
    direction = noisy(rng, v, 1e-9)
    assert proves_unbounded(problem, np.zeros(12), direction, perf_counter() + 60) is not None
    assert proves_unbounded(problem, np.zeros(12), direction, perf_counter()) is None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NAMES)
def test_other_directions_prove_nothing(name, kind):
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        problem, _, d = infeasible_problem(name, seed, KINDS[kind])
        for direction in (0 * d, -d, np.nan * d, rng.standard_normal(8), noisy(rng, d, 0.5)):
            ray = proves_infeasible(problem, np.zeros(12), direction)
            assert ray is None or is_infeasible_ray(problem, np.asarray(problem.M.dense()), ray)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("name", ["equations", "inequalities", "intervals", "l1", "stack"])
@pytest.mark.parametrize("change", [1e-3, 1e-7, 1e-10, 1e-11])
def test_nearly_dependent_rows_are_not_infeasible(name, kind, change):
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        problem, M, d = infeasible_problem(name, seed)
        # with independent rows every right-hand side is attained, however far away
        other = M * (1 + change * rng.standard_normal(M.shape))
        again = dapd.Problem(problem.f, KINDS[kind](other), problem.b, problem.phi)
        assert proves_infeasible(again, np.zeros(12), d) is None
        assert proves_infeasible(again, np.zeros(12), noisy(rng, d, 1e-9)) is None


@pytest.mark.parametrize("name", ["equations", "inequalities", "intervals", "l1", "stack", "bounds"])
def test_consistent_dependent_rows_are_not_infeasible(name):
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        problem, M, d = infeasible_problem(name, seed)
        x = rng.standard_normal(12)
        bounds = None if problem.lower is None else (x - 0.5, x + 0.5)
        feasible = dapd.Problem(problem.f, M, M @ x, problem.phi, bounds=bounds)
        for direction in (d, -d, noisy(rng, d, 1e-12), noisy(rng, -d, 1e-9)):
            assert proves_infeasible(feasible, x, direction) is None


@pytest.mark.parametrize("name", NAMES)
def test_a_solve_of_contradicting_constraints_returns_the_ray(name):
    for seed in range(3):
        problem, M, _ = infeasible_problem(name, seed, powers=1)
        result = dapd.solve(problem, "papc", max_iterations=200_000)
        assert result.status == "infeasible"
        assert is_infeasible_ray(problem, M, result.ray)


def unbounded_problem(name, seed, kind=np.asarray, rows=6, columns=12):
    """A problem whose objective falls without end along v, and v."""
    rng = np.random.default_rng(seed)
    v = rng.standard_normal(columns)
    v[:3] = 0.0
    flat = rng.standard_normal((columns, columns // 2))
    flat -= np.outer(v, v @ flat) / (v @ v)
    c = rng.standard_normal(columns)
    c += v * (0.5 * np.linalg.norm(v) - c @ v) / (v @ v)  # cᵀv > 0
    M = rng.standard_normal((rows, columns))
    M -= np.outer(M @ v, v) / (v @ v)  # so Mv = 0
    phi, bounds, f = dapd.Zero(), None, dapd.Quadratic(None, c)
    if name == "quadratic":
        f = dapd.Quadratic((flat @ flat.T + flat @ flat.T) / 2, c)
    elif name == "diagonal":
        f = dapd.Quadratic((v == 0).astype(float), c)
    elif name == "inequalities":
        phi = dapd.NonNegative()
        M -= rng.uniform(0, 1, (rows, 1)) * v  # Mv ≤ 0
    elif name == "intervals":
        phi = dapd.Interval([-1.0, -1.0, -np.inf, -np.inf, -np.inf, 0.0], [1.0, 1.0, 1.0, 1.0, np.inf, 0.0])
        M[2:4] -= v
        M[4] += v
    elif name == "ball":
        phi = dapd.GroupBall(0.1 * float(c @ v) / 100, 2)
        M += rng.standard_normal((rows, 1)) * v / (v @ v)
    elif name == "bounds":
        bounds = (np.where(v > 0, -1.0, -np.inf), np.where(v < 0, 1.0, np.inf))
        bounds = (np.where(v == 0, -1.0, bounds[0]), np.where(v == 0, 2.0, bounds[1]))
    elif name == "separable":
        f = dapd.Separable([dapd.LeastSquares(np.eye(2, 3), np.ones(2), 1.0), dapd.Quadratic(np.zeros(9), c[3:])])
    return dapd.Problem(f, kind(M), np.ones(rows), phi, bounds=bounds), v


UNBOUNDED = ["linear", "quadratic", "diagonal", "inequalities", "intervals", "ball", "bounds", "separable"]


def is_unbounded_ray(problem, v):
    """The slope along v, far out, from points and constraints alone."""
    M = np.asarray(problem.M.dense())
    w = M @ v
    rounded = np.where(abs(w) <= 1e-12 * (abs(M) @ abs(v)), 0.0, w)
    assert np.isfinite(problem.phi.conjugate_recession(rounded))
    if problem.lower is not None:
        assert np.all(v[np.isfinite(problem.lower)] >= 0)
        assert np.all(v[np.isfinite(problem.upper)] <= 0)
    far = 1e5 * v / np.max(abs(v))
    return problem.f.value(far) / 1e5 + problem.phi.conjugate_recession(rounded) / np.max(abs(v)) < -1e-6


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", UNBOUNDED)
@pytest.mark.parametrize("noise", [0.0, 1e-13, 1e-9])
def test_directions_near_a_ray_prove_unboundedness(name, kind, noise):
    for seed in SEEDS:
        problem, v = unbounded_problem(name, seed, KINDS[kind])
        rng = np.random.default_rng(seed)
        for at in (np.zeros(12), 10 * rng.standard_normal(12)):
            ray = proves_unbounded(problem, at, 3.0 * noisy(rng, v, noise))
            assert ray is not None
            assert is_unbounded_ray(problem, ray)
        assert proves_unbounded(problem, np.zeros(12), -v) is None
        other = proves_unbounded(problem, np.zeros(12), rng.standard_normal(12))
        assert other is None or is_unbounded_ray(problem, other)


@pytest.mark.parametrize("name", UNBOUNDED)
@pytest.mark.parametrize("change", [1e-3, 1e-7, 1e-10])
def test_problems_that_are_bounded_far_out_are_not_unbounded(name, change):
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        problem, v = unbounded_problem(name, seed)
        # a small curvature everywhere
        H = np.full(12, change)
        linear = {"separable": 0}.get(name)
        if linear is None:
            f = dapd.Quadratic(H if name != "quadratic" else problem.f.H + np.diag(H), problem.f.c, mu=0.0)
            curved = dapd.Problem(f, problem.M, problem.b, problem.phi)
            assert proves_unbounded(curved, np.zeros(12), v) is None
            assert proves_unbounded(curved, np.zeros(12), noisy(rng, v, 1e-12)) is None
        # rows that hold the ray back, in the end
        held = dapd.Problem(problem.f, np.vstack([problem.M.matrix, change * v]), np.ones(7))
        assert proves_unbounded(held, np.zeros(12), v) is None


def test_recession_of_functions():
    rng = np.random.default_rng(0)
    A, labels = rng.standard_normal((3, 5)), np.array([1.0, -1.0, 1.0])
    null = np.linalg.svd(A)[2][3]
    v = rng.standard_normal(5)
    assert dapd.LeastSquares(A, np.ones(3)).recession(null) == 0.0
    assert dapd.LeastSquares(A, np.ones(3)).recession(v) == np.inf
    assert dapd.LeastSquares(A, np.ones(3), 1.0).recession(null) == np.inf
    logistic = dapd.Logistic(A, labels)
    assert logistic.recession(v) == pytest.approx(np.sum(np.maximum(0, -labels * (A @ v))))
    assert logistic.recession(v) == pytest.approx((logistic.value(1e8 * v)) / 1e8, abs=1e-6)
    assert dapd.PseudoHuber(0.5).recession(v) == np.inf
    assert dapd.Quadratic(None, np.ones(5)).recession(v) == pytest.approx(-np.sum(v))
    assert dapd.Quadratic(aslinearoperator(A.T @ A), np.ones(5)).recession(null) == pytest.approx(-np.sum(null))
    both = dapd.Separable([logistic, dapd.Quadratic(np.zeros(2), np.ones(2))])
    assert both.recession(np.r_[v, 1.0, 2.0]) == pytest.approx(logistic.recession(v) - 3.0)
    assert np.isnan(dapd.Smooth(np.sum, np.sign).recession(v))


@pytest.mark.parametrize("name", PHIS)
def test_recession_of_the_conjugate(name):
    phi = PHIS[name]
    rng = np.random.default_rng(0)
    for _ in range(20):
        w = np.round(2 * rng.standard_normal(6))
        for direction in (w, phi.project_conjugate_recession(w)):
            slope = phi.conjugate_recession(direction)
            start = phi.project_conjugate(np.zeros(6))
            far = (phi.conjugate(start + 1e9 * direction) - phi.conjugate(start)) / 1e9
            assert far == slope or far == pytest.approx(slope, abs=1e-6)
        assert np.isfinite(phi.conjugate_recession(phi.project_conjugate_recession(w)))
        assert np.isfinite(phi.recession(phi.project_recession(w)))


def test_an_unbounded_problem_ends_with_its_ray():
    f = dapd.Quadratic([1.0, 0.0, 0.0], [1.0, 1.0, 0.0])
    for bounds in (None, (-5.0, [1.0, np.inf, 1.0])):
        problem = dapd.Problem(f, [[1.0, 0.0, 1.0]], [1.0], bounds=bounds)
        result = dapd.solve(problem, "papc")
        assert result.status == "unbounded"
        assert "falls without end" in result.message
        assert result.ray @ f.c > 0
        assert abs(result.ray[0]) + abs(result.ray[2]) <= 1e-12
        assert not result.converged


def test_bounded_problems_are_never_called_unbounded():
    for seed in range(4):
        rng = np.random.default_rng(seed)
        H = np.diag([0.0] * 5 + [1.0] * 5)
        M, x, y = rng.standard_normal((6, 10)), rng.standard_normal(10), rng.standard_normal(6)
        problem = dapd.Problem(dapd.Quadratic(H, H @ x + M.T @ y), M, M @ x)
        assert dapd.solve(problem, tol=1e-11, max_iterations=3_000).status not in ("unbounded", "infeasible")
    for phi in PHIS.values():
        problem = quadratic_problem(phi)
        assert dapd.solve(problem, max_iterations=500).ray is None


@pytest.mark.parametrize("method", ["papc", "condat-vu"])
def test_a_named_method_asks_for_a_proof_only_when_a_direction_persists(method, monkeypatch):
    asked, looks = [], []

    def counted(*arguments):
        asked.append(None)
        return proves_infeasible(*arguments)

    monkeypatch.setattr("dapd.solving.loop.proves_infeasible", counted)
    rng = np.random.default_rng(0)
    M, f = rng.standard_normal((30, 20)), dapd.Quadratic(np.geomspace(1e-3, 1, 20), rng.standard_normal(20))
    problem = dapd.Problem(f, M, M @ rng.standard_normal(20), dapd.NonNegative())
    assert dapd.solve(problem, method, callback=lambda info: looks.append(None)).converged
    assert len(looks) > 25
    assert 3 * len(asked) <= len(looks)
    twice = dapd.Problem(f, np.vstack([M[:5], M[:5]]), np.repeat([0.0, 1.0], 5))
    result = dapd.solve(twice, method)
    assert result.status == "infeasible"
    assert result.iterations <= 6_000
