"""r²HPDHG's theorems: R is nonexpansive, what T still moves falls like 1/k, and restarts converge linearly."""

import math
from decimal import Decimal

import numpy as np
import pytest
from exact import NUDGE, ProximalProblem, decimals
from hypothesis import given, settings
from hypothesis import strategies as st
from instances import PHIS as FLOAT_PHIS
from test_theorems import PHIS

import dapd
from dapd import theory
from dapd.engines import bind
from dapd.methods import r2hpdhg
from dapd.methods.anchors import ROUNDINGS
from dapd.methods.r2hpdhg import R2HPDHG, usual_weight

ROWS, COLUMNS, STEPS = 6, 5, 40
SLACK = 1 + 1e-12  # of float singular values and eigenvalues
WEIGHTS = st.floats(-3.0, 3.0)  # decimal orders


def exact_problem(rng, phi, rank, curved):
    """Dependent rows and a zero row, an H of this rank, and bounds that are one-sided, equal, far away or binding."""
    M, B = rng.integers(-3, 4, (ROWS, COLUMNS)).astype(float), rng.integers(-3, 4, (rank, COLUMNS)).astype(float)
    M[3], M[4] = M[0] + M[1], 0.0
    x = rng.standard_normal(COLUMNS)
    h = np.where(rng.random(COLUMNS) < 0.5, 10.0 ** rng.uniform(-2, 2, COLUMNS), 0.0) if curved else np.zeros(COLUMNS)
    lower = np.array([-np.inf, x[1], x[2] - 1, x[3], -np.inf])
    upper = np.array([np.inf, np.inf, x[2] + 1, x[3], x[4]])
    pull = np.array([0.0, 1.0, 0.0, rng.standard_normal(), -1.0]) * rng.random(COLUMNS)  # of the bounds, at x*
    problem = ProximalProblem(B.T @ B, h, M, phi, x, 1.5 * rng.standard_normal(ROWS), lower, upper, -pull)
    L, s_max = (np.linalg.norm(v, 2) * SLACK for v in (B, M))
    return problem, L**2, s_max


class Metric:
    """The norm of [[1/t, −Mᵀ], [−M, 1/s]], squared."""

    def __init__(self, problem, p):
        self.M, self.p = problem.M, p

    def __call__(self, dx, dy):
        return dx @ dx / self.p.t + dy @ dy / self.p.s - 2 * (dy @ self.M.forward(dx))


def parameters(L, s_max, weight):
    p = decimals(theory.r2hpdhg(L=L, s_max=s_max, weight=10.0**weight))
    assert p.s * p.s_max**2 <= Decimal("0.9800000001") * (1 / p.t - p.L)
    assert p.rho == (Decimal("0.5") if L > 0 else 1)
    return p


def start(p, problem, x, y):
    return r2hpdhg.init(p, problem, x, y)._replace(k=Decimal(0))


def points(rng, weight):
    return decimals(3 * rng.standard_normal(COLUMNS)), decimals(3 * 10.0**weight * rng.standard_normal(ROWS))


def plain_and_reflected(p, problem, x, y):
    """T and R of a point."""
    state = r2hpdhg.step(p, problem, start(p, problem, x, y))
    plain = state.x_plain, state.y_plain
    return plain, tuple((1 + p.rho) * after - p.rho * before for after, before in zip(plain, (x, y), strict=True))


CASES = pytest.mark.parametrize(("rank", "curved"), [(0, False), (0, True), (2, False), (2, True), (5, True)])


@pytest.mark.parametrize("phi", PHIS)
@CASES
@given(weight=WEIGHTS, seed=st.integers(0, 2**16))
@settings(max_examples=5)
def test_reflected_steps_are_nonexpansive_whatever_f_M_and_phi_are(rank, curved, phi, weight, seed, many_digits):
    rng = np.random.default_rng(seed)
    problem, L, s_max = exact_problem(rng, PHIS[phi], rank, curved)
    p = parameters(L, s_max, weight)
    norm = Metric(problem, p)
    for size in (1.0, 1e-3):
        x, y = points(rng, weight)
        dx, dy = points(rng, weight)
        other = x + Decimal(size) * dx, y + Decimal(size) * dy
        (_, R), (_, R_other) = (plain_and_reflected(p, problem, *z) for z in ((x, y), other))
        before = norm(x - other[0], y - other[1])
        assert before > 0
        assert 0 <= norm(R[0] - R_other[0], R[1] - R_other[1]) <= before + NUDGE


@pytest.mark.parametrize("phi", PHIS)
@CASES
@given(weight=WEIGHTS, seed=st.integers(0, 2**16))
@settings(max_examples=4)
def test_what_a_step_moves_falls_by_the_theorem(rank, curved, phi, weight, seed, many_digits):
    """‖z_k − T z_k‖ ≤ 2‖z₀ − z*‖/((1 + ρ)(k + 1)), never more than at first, and no z_k is farther from z* than z₀."""
    rng = np.random.default_rng(seed)
    problem, L, s_max = exact_problem(rng, PHIS[phi], rank, curved)
    p = parameters(L, s_max, weight)
    norm, solution = Metric(problem, p), (problem.x_star, problem.y_star)
    (T, _) = plain_and_reflected(p, problem, *solution)
    assert norm(T[0] - solution[0], T[1] - solution[1]) <= NUDGE  # solutions are fixed points
    state = start(p, problem, *points(rng, weight))
    far = norm(state.x - solution[0], state.y - solution[1])
    first = None
    for k in range(STEPS):
        before, state = state, r2hpdhg.step(p, problem, state)
        moved = norm(state.x_plain - before.x, state.y_plain - before.y)
        first = moved if first is None else first
        assert moved <= 4 * far / ((1 + p.rho) * (k + 1)) ** 2 + NUDGE
        assert moved <= first + NUDGE
        assert norm(state.x - solution[0], state.y - solution[1]) <= far + NUDGE


def degenerate(phi, seed, rank):
    """A semidefinite H of this rank, and an M with dependent rows and a zero row."""
    rng = np.random.default_rng(seed)
    B, M = rng.standard_normal((rank, COLUMNS)), rng.standard_normal((ROWS, COLUMNS))
    M[3], M[4] = M[0] + M[1], 0.0
    f = dapd.Quadratic(B.T @ B if rank else None, rng.standard_normal(COLUMNS))
    return dapd.Problem(f, M, rng.standard_normal(ROWS), phi, bounds=(-1.0, [np.inf, 1.0, 1.0, -1.0, np.inf]))


def started(problem, weight=1.0, seed=0):
    rng = np.random.default_rng(seed)
    rest = problem.proximable.rest
    p = theory.r2hpdhg(L=0.0 if rest is None else rest.L, s_max=np.linalg.norm(problem.M.dense(), 2), weight=weight)
    return R2HPDHG(problem, p, x0=rng.standard_normal(problem.columns), y0=rng.standard_normal(problem.rows))


@pytest.mark.parametrize("phi", FLOAT_PHIS)
@pytest.mark.parametrize("rank", [0, 2])
def test_a_measurement_is_how_far_the_step_before_moved(phi, rank):
    method = started(degenerate(FLOAT_PHIS[phi], 1, rank), weight=3.0)
    M, p, state = method.problem.M, method.parameters, method.init()
    for _ in range(12):
        before, state = state, method.step(state)
        dx, dy = state.x_plain - before.x, state.y_plain - before.y
        x, y = state.x_plain - state.x_0, state.y_plain - state.y_0
        found = r2hpdhg.measured(p, state)
        expected = dx @ dx, dy @ dy, dy @ M.forward(dx), x @ x, y @ y
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12 * max(expected))


def test_rounding_is_no_move():
    method = started(dapd.Problem(dapd.Quadratic(np.ones(3)), np.eye(3), np.zeros(3)))
    state = method.step(method.init())
    eps = np.finfo(float).eps
    plain = np.array([1e12 * (1 + ROUNDINGS / 2 * eps), 2.0, 0.0])
    for first, squared in ((np.array([1e12, 2.0, 0.0]), 0.0), (np.array([1e12, 1.0, 0.0]), 1.0)):
        found = r2hpdhg.measured(method.parameters, state._replace(y_plain=plain, y_0=first))
        assert found.moved_y == squared
    far = state._replace(y_plain=plain * (1 + 2 * ROUNDINGS * eps), y_0=plain)
    assert r2hpdhg.measured(method.parameters, far).moved_y > 0


@pytest.mark.parametrize("engine", ["native", "python"])
def test_the_anchor_adds_roundings_of_the_last_digit_alone(engine):
    problem = dapd.Problem(dapd.Quadratic(None, [-1e12, 1.0]), np.eye(2), [0.0, 0.0], dapd.Interval(0.0, 1.0))
    solution = np.array([0.0, 1.0]), np.array([-1e12, 1.0])
    p = theory.r2hpdhg(L=0.0, s_max=1.0)
    runner = bind(R2HPDHG(problem, p, x0=solution[0], y0=solution[1]), engine)
    runner.start()
    runner.advance(100, math.inf)
    for found, wanted in zip(runner.point(), solution, strict=True):
        assert abs(found - wanted).max() <= 8 * np.finfo(float).eps * 1e12  # of y*, by which x is moved


def linear_program(seed, rows=8, columns=20):
    """min −cᵀx, Mx = b, 0 ≤ x, with one solution."""
    rng = np.random.default_rng(seed)
    M, basis = rng.standard_normal((rows, columns)), rng.permutation(columns)[:rows]
    x, z, y = np.zeros(columns), np.ones(columns) + rng.random(columns), rng.standard_normal(rows)
    x[basis], z[basis] = 1 + rng.random(rows), 0.0
    f = dapd.Quadratic(None, M.T @ y - z)
    return dapd.Problem(f, M, M @ x, bounds=(0.0, None), x_star=x, y_star=y)


@pytest.mark.parametrize("seed", range(3))
def test_restarts_converge_linearly_on_a_linear_program(seed):
    problem = linear_program(seed)
    runner, reached = bind(started(problem), "python"), {}
    runner.start()
    for steps in range(0, 20_000, 20):
        x, y = runner.point()
        error = max(np.linalg.norm(x - problem.x_star), np.linalg.norm(y - problem.y_star))
        for digits in range(1, 11):
            if error <= 10.0**-digits:
                reached.setdefault(digits, steps)
        if 10 in reached:
            break
        runner.advance(20, math.inf)
    assert 10 in reached
    # twice as many digits take about twice as long; without restarts each digit takes ten times as long as the last
    assert reached[10] - reached[5] <= 2 * reached[5] + 200


def test_anchors_without_restarts_converge_only_slowly():
    problem = linear_program(0)
    method = started(problem)
    x, _ = method.point(method.run(method.init(), 2_000))
    assert np.linalg.norm(x - problem.x_star) > 1e-6


def test_parameters_keep_the_norm_a_norm_and_are_checked():
    for L in (0.0, 1e-3, 1e3):
        for weight in (1e-4, 1.0, 1e4):
            p = theory.r2hpdhg(L=L, s_max=2.5, weight=weight)
            assert p.s * 2.5**2 == pytest.approx(0.98 * (1 / p.t - L))
            assert p.rho == (0.5 if L else 1.0)
    for wrong in ({"L": -1.0}, {"s_max": 0.0}, {"weight": 0.0}, {"weight": -2.0}, {"L": math.nan}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            theory.r2hpdhg(**{"L": 1.0, "s_max": 1.0, **wrong})


@pytest.mark.parametrize("f", ["linear", "diagonal", "dense", "nothing known"])
def test_a_named_solve_takes_bounds_as_they_are_and_asks_only_for_gradients_that_are_left(f):
    rng = np.random.default_rng(2)
    H = {"linear": np.zeros(5), "diagonal": np.linspace(0, 2, 5), "dense": np.diag(np.linspace(1, 2, 5)) + 0.1}
    if f == "nothing known":
        made = dapd.Smooth(lambda x: x @ x, lambda x: 2 * x, 2.0, 2.0)
    else:
        made = dapd.Quadratic(H[f], rng.standard_normal(5))
    problem = dapd.Problem(made, rng.standard_normal((2, 5)), np.zeros(2), bounds=(-1.0, [1, 2, 3, -1, np.inf]))
    result = dapd.solve(problem, "r2hpdhg", tol=1e-9, max_iterations=50_000)
    assert result.status == "optimal"
    assert result.gradients == (0 if f in ("linear", "diagonal") else result.iterations)
    assert result.y.shape == (2,)
    assert result.z.shape == (5,)
    lower, upper = problem.bounds
    assert ((lower <= result.x) & (result.x <= upper)).all()


@pytest.mark.parametrize("factor", [1e-8, 1, 1e4])
def test_multipliers_that_vanish_do_not_unbalance_the_steps(factor, monkeypatch):
    """Y* = 0, so moves of y become as small as we please, and say nothing about the weight."""
    monkeypatch.setattr("dapd.methods.r2hpdhg.usual_weight", lambda problem: factor * usual_weight(problem))
    M, x = np.array([[2.0, 1, 0, 0], [0, 2, 1, 0], [0, 0, 2, 1], [1, 0, 0, 2]]), np.array([1.0, -2, 3, 0.5])
    problem = dapd.Problem(dapd.Quadratic(np.zeros(4), np.zeros(4)), M, M @ x, dapd.Box(-1e-8, 1e-8))
    result = dapd.solve(problem, "r2hpdhg", engine="python", max_iterations=2_000)
    assert result.status == "optimal", result.message
    np.testing.assert_allclose(result.x, x, rtol=1e-6)


def test_it_needs_an_L_of_what_it_linearises_only():
    unknown = dapd.Smooth(lambda x: x @ x / 2, lambda x: x)
    with pytest.raises(ValueError, match="needs the L of f"):
        dapd.solve(dapd.Problem(unknown, np.eye(3), np.ones(3)), "r2hpdhg")
    linear = dapd.Problem(dapd.Quadratic(None, np.ones(3)), np.eye(3), np.ones(3))
    assert dapd.solve(linear, "r2hpdhg").status == "optimal"
