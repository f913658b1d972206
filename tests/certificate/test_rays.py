"""Problems without a solution: rays are found near approximate directions, and never where there is none."""

from fractions import Fraction
from time import perf_counter
from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from instances import PHIS, quadratic_problem
from scipy.sparse.linalg import aslinearoperator

import dapd
from dapd.certificate import rays as ends
from dapd.certificate.rays import falling_ray, may_be_ray, nearly_feasible, proves_infeasible
from dapd.engines.protocol import NotNative
from dapd.solving import side_questions as doubts
from dapd.solving import solve as front_door

KINDS = {"dense": np.asarray, "sparse": sp.csr_array, "matrix-free": aslinearoperator}
SEEDS = range(6)


def noisy(rng, v, noise):
    return v + noise * np.max(abs(v)) * rng.standard_normal(v.size)


def random_flow(nodes=60, edges=240):
    """Quadratic min-cost flow with capacities."""
    rng = np.random.default_rng(0)
    tail = rng.integers(nodes, size=edges)
    head = (tail + rng.integers(1, nodes, size=edges)) % nodes
    M = sp.csr_array((np.r_[np.ones(edges), -np.ones(edges)], (np.r_[head, tail], np.r_[0:edges, 0:edges])))
    x = rng.uniform(0.1, 0.9, edges)
    f = dapd.Quadratic(rng.uniform(1, 10, edges), rng.standard_normal(edges))
    return dapd.Problem(f, M, M @ x, bounds=(0.0, 1.0))


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
        assert may_be_ray(problem, 7.0 * direction)
        along = np.concatenate([direction, np.ones(problem.stacked.rows - 8)])  # with multipliers of the bounds
        assert proves_infeasible(problem, np.zeros(12), along).shape == (8,)


def test_corrections_end_at_a_deadline():
    rng = np.random.default_rng(0)
    problem, _, d = infeasible_problem("equations", 0)
    direction = noisy(rng, d, 1e-9)  # has to be corrected
    assert proves_infeasible(problem, np.zeros(12), direction, perf_counter() + 60) is not None
    assert proves_infeasible(problem, np.zeros(12), direction, perf_counter()) is None
    problem, v = unbounded_problem("quadratic", 0)
    direction = noisy(rng, v, 1e-9)
    assert falling_ray(problem, direction, perf_counter() + 60) is not None
    assert falling_ray(problem, direction, perf_counter()) is None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NAMES)
def test_other_directions_prove_nothing(name, kind):
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        problem, _, d = infeasible_problem(name, seed, KINDS[kind])
        for direction in (0 * d, -d, np.nan * d, rng.standard_normal(8), noisy(rng, d, 0.5)):
            ray = proves_infeasible(problem, np.zeros(12), direction)
            assert ray is None or is_infeasible_ray(problem, np.asarray(problem.M.dense()), ray)
        assert not any(may_be_ray(problem, direction) for direction in (0 * d, np.nan * d))
        assert kind == "matrix-free" or not may_be_ray(problem, -d)  # whose terms are not known


def test_directions_that_cannot_be_rays_are_not_examined(monkeypatch):
    examined, examine = [], ends._cleaned
    monkeypatch.setattr(ends, "_cleaned", lambda *given: examined.append(1) or examine(*given))
    flow = random_flow()
    assert dapd.solve(flow, engine="native", tol=1e-9).converged
    assert not examined
    assert dapd.solve(infeasible_problem("bounds", 0)[0], engine="native").status == "infeasible"
    assert examined


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
        ray = falling_ray(problem, 3.0 * noisy(rng, v, noise))
        assert ray is not None
        assert is_unbounded_ray(problem, ray)
        assert falling_ray(problem, -v) is None
        other = falling_ray(problem, rng.standard_normal(12))
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
            assert falling_ray(curved, v) is None
            assert falling_ray(curved, noisy(rng, v, 1e-12)) is None
        # rows that hold the ray back, in the end
        held = dapd.Problem(problem.f, np.vstack([problem.M.matrix, change * v]), np.ones(7))
        assert falling_ray(held, v) is None


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


@pytest.mark.parametrize("engine", ["native", "jax"])
def test_a_side_question_that_the_engine_cannot_run_does_not_end_the_solve(engine, monkeypatch):
    monkeypatch.setattr("dapd.engines.FORMED", 0)  # as for a Kronecker product that is too large for one matrix
    monkeypatch.setattr("dapd.solving.side_questions.AFTER", 0.0)
    monkeypatch.setattr("dapd.solving.side_questions.SLOW", 1)
    asked = []

    def aside(search, start, engine, use_direct):
        asked.append(engine)
        return run_aside(search, start, engine, use_direct)

    run_aside = front_door._ray_of
    monkeypatch.setattr(front_door, "_ray_of", aside)
    if engine == "jax":
        monkeypatch.setattr("dapd.engines.jax.runner.JaxRunner", cannot_stack())
    rng = np.random.default_rng(0)
    M = dapd.Kronecker(rng.standard_normal((2, 5)), rng.standard_normal((3, 6)))
    x = rng.standard_normal(30)
    f = dapd.LeastSquares(rng.standard_normal((8, 30)), rng.standard_normal(8))
    result = dapd.solve(dapd.Problem(f, M, M.forward(x)), engine=engine, tol=1e-10, max_iterations=20_000)
    assert asked
    assert result.status in ("optimal", "iteration_limit")


def cannot_stack():
    """A runner of JAX that refuses stacked rows, as it does those of an M of the user's own."""
    jax = pytest.importorskip("dapd.engines.jax.runner")

    class Runner(jax.JaxRunner):
        def __init__(self, method):
            if isinstance(method.problem.M, dapd.RowBlocks):
                raise NotNative("M is stacked")
            super().__init__(method)

    return Runner


AMOUNT = 2.3e-13  # by how much, relatively, entries may differ from those for which a ray is exact


def is_exact_for_nearby_entries(M, b, ray):
    """Whether ray is a Farkas ray of M'x = b, in rational numbers, for an M' whose entries differ by at most AMOUNT."""
    d, amount = [Fraction(v) for v in ray.tolist()], Fraction(AMOUNT)
    for column in M.T.tolist():
        products = [Fraction(v) * w for v, w in zip(column, d, strict=True)]
        if abs(sum(products)) > amount * sum(map(abs, products)):
            return False
    return -sum(Fraction(v) * w for v, w in zip(b.tolist(), d, strict=True)) > 0


def test_a_ray_is_exact_for_entries_that_differ_by_the_stated_amount():
    for seed in SEEDS:
        problem, M, d = infeasible_problem("equations", seed)
        ray = proves_infeasible(problem, np.zeros(12), noisy(np.random.default_rng(seed), d, 1e-9))
        assert is_exact_for_nearby_entries(M, problem.b, ray)
        other = M * (1 + 1e-12 * np.random.default_rng(seed).standard_normal(M.shape))
        assert not is_exact_for_nearby_entries(other, problem.b, ray)


@pytest.mark.parametrize("power", [30, 36, 38, 40, 42, 43, 46, 50])
def test_independent_rows_are_infeasible_only_within_the_stated_amount(power):
    # the best ray, (−1 − 2⁻ᵏ⁻¹, 1), is exact for entries that differ by 2⁻ᵏ⁻², relatively
    M, b = np.array([[1.0, 1.0], [1.0, 1 + 2.0**-power]]), np.array([0.0, 1.0])
    problem = dapd.Problem(dapd.Quadratic([1.0, 1.0]), M, b)
    ray = proves_infeasible(problem, np.zeros(2), np.array([1.0, -1.0]))
    assert (ray is not None) == (power > 41)
    result = dapd.solve(problem)
    assert result.status != "infeasible" or power > 40
    for found in (ray, result.ray):
        assert found is None or is_exact_for_nearby_entries(M, b, found)


def test_the_example_of_the_documentation_is_called_infeasible():
    M, b = np.array([[1.0, 1.0], [1.0, 1 + 2.0**-43]]), np.array([0.0, 1.0])
    result = dapd.solve(dapd.Problem(dapd.Quadratic([1.0, 1.0]), M, b))
    assert result.status == "infeasible"
    assert is_exact_for_nearby_entries(M, b, result.ray)


def test_a_difference_within_the_tolerance_is_no_contradiction():
    for unit in 2.0 ** np.array([-40, 0, 40]):
        rows, f = np.ones((2, 2)), dapd.Quadratic([1.0, 1.0])
        for part, proved in ((1e-12, False), (1e-6, True)):
            problem = dapd.Problem(f, rows, unit * np.array([1.0, 1.0 + part]))
            assert (proves_infeasible(problem, np.zeros(2), np.array([1.0, -1.0])) is not None) == proved
        rounded = dapd.Problem(f, [[1.0, -1.0], [1.0, -1.0], [1.0, 1.0]], unit * np.array([0.0, 1e-17, 1.0]))
        assert proves_infeasible(rounded, np.zeros(2), np.array([1.0, -1.0, 0.0])) is None


def contradiction_beside_a_ray(size=1.0):
    """The objective falls along x₃, and the rows contradict each other by `size`."""
    M = np.array([[1.0, 1.0, 0.0], [1.0, 2.0, 0.0], [2.0, 3.0, 0.0]])
    return dapd.Problem(dapd.Quadratic(np.zeros(3), [0.0, 0.0, 1.0]), M, size * np.array([1.0, 2.0, 4.0]))


@pytest.mark.parametrize("direct", [True, False])
@pytest.mark.parametrize("size", [1e-9, 1.0, 1e9])
def test_a_contradiction_is_told_rather_than_a_ray_of_x(size, direct):
    problem = contradiction_beside_a_ray(size)
    assert falling_ray(problem, np.array([0.0, 0.0, 1.0])) is not None
    for at in (np.zeros(3), np.array([0.0, size, 0.0]), np.array([0.0, 0.0, 1e12 * size])):
        assert not nearly_feasible(problem, at)
    assert dapd.solve(problem, direct=direct, time_limit=10).status == "infeasible"


@pytest.mark.parametrize("method", ["auto", "papc"])
def test_unbounded_comes_with_a_point_that_is_nearly_feasible(method):
    for name in UNBOUNDED:
        problem, v = unbounded_problem(name, 0)
        if method == "papc" and not problem.f.L:
            continue
        result = dapd.solve(problem, method, max_iterations=200_000)
        assert result.status == "unbounded", name
        assert is_unbounded_ray(problem, result.ray), name
        residual = problem.M.forward(result.x) - problem.b
        missed = abs(residual - problem.phi.project_conjugate(residual))
        assert np.all(missed <= 1e-6 * (abs(problem.b) + problem.M.row_sizes(result.x))), name
        assert nearly_feasible(problem, result.x), name
        assert falling_ray(problem, v) is not None
        if problem.phi.is_zero:
            assert not nearly_feasible(problem, result.x + 1e-3 * problem.M.adjoint(np.ones(6))), name


def test_a_point_far_out_is_not_feasible_for_being_far_out():
    M = np.array([[1.0, -1.0], [1.0, 1.0]])
    problem = dapd.Problem(dapd.Quadratic(np.zeros(2), np.ones(2)), M, [1.0, 1.0])
    assert nearly_feasible(problem, np.array([1.0, 0.0]))
    assert nearly_feasible(problem, np.array([1.0 + 1e-7, 0.0]))
    assert not nearly_feasible(problem, np.array([1.0 + 1e-5, 0.0]))
    assert not nearly_feasible(problem, np.array([1e9, 1e9]))
    bounded = dapd.Problem(problem.f, M, [1.0, 1.0], bounds=(0.0, 0.5))
    assert not nearly_feasible(bounded, np.array([1.0, 0.0]))  # its bounds come first


def test_without_a_feasible_point_nothing_is_called_unbounded(monkeypatch):
    monkeypatch.setattr(doubts.SideQuestions, "feasibility", lambda self, *, last: None)
    problem, _ = unbounded_problem("inequalities", 0)
    result = dapd.solve(problem)
    assert result.status in ("interrupted", "iteration_limit")
    assert result.ray is None
    assert "no x that satisfies them was found" in result.message


@pytest.mark.parametrize("seconds", [0.0, np.inf])
def test_the_feasible_point_is_found_by_steps_too(monkeypatch, seconds):
    # the linear program has no answer, or is not asked
    monkeypatch.setattr(doubts, "violation_seconds", lambda problem: seconds)
    monkeypatch.setattr(doubts, "least_violation", lambda problem, limit: None)
    problem, _ = unbounded_problem("quadratic", 0)
    result = dapd.solve(problem)
    assert result.status == "unbounded"
    assert nearly_feasible(problem, result.x)
    assert dapd.solve(contradiction_beside_a_ray()).status == "infeasible"


@pytest.mark.parametrize("engine", ["native", "python", "jax"])
def test_what_is_asked_on_the_side_never_ends_a_solve(monkeypatch, engine):
    monkeypatch.setattr(doubts, "SLOW", 1)
    monkeypatch.setattr(doubts, "AFTER", 0.0)
    rng = np.random.default_rng(0)
    f = dapd.LeastSquares(rng.standard_normal((4, 12)), np.ones(4))
    for M in (
        dapd.BlockDiagonal([rng.standard_normal((2, 4)) for _ in range(3)]),
        dapd.Kronecker(rng.standard_normal((3, 3)), rng.standard_normal((2, 4))),
    ):
        problem = dapd.Problem(f, M, rng.standard_normal(6))
        assert dapd.solve(problem, engine=engine, tol=1e-10).status == "optimal"


class Data(NamedTuple):
    """½xᵀHx − cᵀx subject to Mx = b in some rows and Mx ≤ b in the others, and lower ≤ x ≤ upper."""

    H: np.ndarray
    c: np.ndarray
    M: np.ndarray
    b: np.ndarray
    equal: np.ndarray
    lower: np.ndarray
    upper: np.ndarray

    def problem(self):
        phi = dapd.Interval(np.where(self.equal, 0.0, -np.inf), np.zeros(len(self.b)))
        f = dapd.Quadratic(self.H if self.H.any() else np.zeros(len(self.c)), self.c)
        return dapd.Problem(f, self.M, self.b, phi, bounds=(self.lower, self.upper))

    def scaled(self, rows, columns, cost, unit):
        """The same for x/(unit·columns), with the objective multiplied by a cost."""
        x = unit * columns
        return Data(
            cost * self.H * np.outer(x, x),
            cost * self.c * x,
            self.M * np.outer(rows, x),
            self.b * rows,
            self.equal,
            self.lower / x,
            self.upper / x,
        )


def data_of(end, seed, m=8, n=14):
    """Data whose end is known, and a ray that proves it (zero if there is a solution)."""
    rng = np.random.default_rng(seed)
    M = rng.standard_normal((m, n)) * (rng.random((m, n)) < 0.6)
    x = rng.standard_normal(n) * (rng.random(n) < 0.6)
    lower = np.where(rng.random(n) < 0.7, np.minimum(x, 0) - 0.5 * (rng.random(n) < 0.3), -np.inf)
    upper = np.where(rng.random(n) < 0.3, np.maximum(x, 0) + 1, np.inf)
    equal = rng.random(m) < 0.5
    equal[-1] = True
    slack = np.where(equal, 0, rng.random(m) * (rng.random(m) < 0.5))
    y = np.where(equal, rng.standard_normal(m), np.where(slack == 0, rng.random(m), 0))
    z = np.where(x == upper, rng.random(n), 0) - np.where(x == lower, rng.random(n), 0)
    A, curved, ray = rng.standard_normal((3, n)), seed % 2, np.zeros(m)
    if end == "infeasible":
        ray = np.where(equal, rng.standard_normal(m), rng.random(m))
        M[-1] -= ray @ M / ray[-1]
        M[-1] *= abs(M[-1]) > 1e-12  # an entry that is rounding would let x go far
    elif end == "unbounded":
        ray = np.where(np.isfinite(lower), 1, np.where(np.isfinite(upper), -1, rng.choice([-1, 1], n)))
        ray = np.where(np.isfinite(lower) & np.isfinite(upper), 0, ray) * rng.random(n)
        M -= np.outer(M @ ray, ray) / (ray @ ray)
        A -= np.outer(A @ ray, ray) / (ray @ ray)
    H, b = curved * A.T @ A, M @ x + slack
    c = H @ x + M.T @ y + z
    if end == "infeasible":
        b[-1] -= np.sign(ray[-1]) * (0.2 + 0.1 * abs(M[-1]) @ abs(x) + abs(slack @ ray / ray[-1]))
    elif end == "unbounded":
        c += ray * (0.3 * np.linalg.norm(c) * np.linalg.norm(ray) - c @ ray) / (ray @ ray)
    return Data(H, c, M, b, equal, lower, upper), ray


POWERS = st.integers(-30, 30)


@pytest.mark.filterwarnings("ignore::dapd.BoundWarning")
@given(seed=st.integers(0, 10**6), end=st.sampled_from(["infeasible", "unbounded"]), cost=POWERS, unit=POWERS)
@settings(max_examples=40)
def test_proofs_do_not_depend_on_units(seed, end, cost, unit):
    rng = np.random.default_rng(seed)
    data, ray = data_of(end, seed)
    rows, columns = (2.0 ** rng.integers(-30, 31, size) for size in data.M.shape)
    one, other = data.problem(), data.scaled(rows, columns, 2.0**cost, 2.0**unit).problem()
    ray = ray + 1e-11 * np.max(abs(ray)) * rng.standard_normal(ray.size)  # has to be corrected
    if end == "infeasible":
        at = rng.standard_normal(14)
        assert proves_infeasible(one, at, ray) is not None
        assert proves_infeasible(other, at / (columns * 2.0**unit), ray / rows) is not None
        assert proves_infeasible(one, at, -ray) is None
        assert proves_infeasible(other, at / (columns * 2.0**unit), -ray / rows) is None
    else:
        assert falling_ray(one, ray) is not None
        assert falling_ray(other, ray / columns) is not None
        assert falling_ray(one, -ray) is None
        assert falling_ray(other, -ray / columns) is None


@pytest.mark.parametrize("end", ["infeasible", "unbounded", "optimal"])
def test_scaled_problems_end_as_the_given_one(end):
    for seed in range(10):
        rng = np.random.default_rng(seed)
        data, _ = data_of(end, seed)
        rows, columns = (2.0 ** rng.integers(-10, 11, size) for size in data.M.shape)
        cost, unit = 2.0 ** rng.integers(-10, 11, 2)
        for one in (data, data.scaled(rows, columns, cost, unit)):
            result = dapd.solve(one.problem(), time_limit=20)
            assert result.status == end, (seed, result.message)


@pytest.mark.filterwarnings("ignore::dapd.BoundWarning")
def test_solvable_problems_in_any_units_have_no_proof():
    for seed in range(12):
        rng = np.random.default_rng(seed)
        data, _ = data_of("optimal", seed)
        rows, columns = (2.0 ** rng.integers(-30, 31, size) for size in data.M.shape)
        cost, unit = 2.0 ** rng.integers(-30, 31, 2)
        result = dapd.solve(data.scaled(rows, columns, cost, unit).problem(), time_limit=1)
        assert result.status not in ("infeasible", "unbounded"), seed


def test_feasible_problems_with_nearly_dependent_rows_are_not_infeasible_beyond_the_amount():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        data, ray = data_of("infeasible", seed)
        free = data._replace(lower=np.full(14, -np.inf), upper=np.full(14, np.inf))
        M = data.M * (1 + 10.0 ** rng.uniform(-11.5, -6) * rng.choice([-1, 1], data.M.shape))
        rows, columns = (2.0 ** rng.integers(-8, 9, size) for size in M.shape)
        # independent rows, so every right-hand side is attained
        problem = free._replace(M=M).scaled(rows, columns, 1.0, 1.0).problem()
        assert proves_infeasible(problem, np.zeros(14), ray / rows) is None
        assert dapd.solve(problem, time_limit=1).status != "infeasible", seed


@pytest.mark.parametrize("method", ["papc", "condat-vu"])
def test_a_named_method_asks_for_a_proof_only_when_a_direction_persists(method, monkeypatch):
    asked, looks = [], []

    def counted(*arguments):
        asked.append(None)
        return proves_infeasible(*arguments)

    monkeypatch.setattr("dapd.solving.race.proves_infeasible", counted)
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
