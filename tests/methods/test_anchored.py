"""Anchored epochs: their steps are nonexpansive whatever f, M and φ are, and they solve what guesses do not."""

import itertools
import math

import numpy as np
import pytest
from instances import PHIS
from restart_runs import run, small_program

import dapd
from dapd.engines import bind
from dapd.methods.anchored import Anchored, parameters
from dapd.ways.epochs import Bench, lengths
from dapd.ways.restarts import restarts

ROWS, COLUMNS = 6, 5


def degenerate(phi, seed, rank):
    """A semidefinite H of this rank, and an M with dependent rows and a zero row."""
    rng = np.random.default_rng(seed)
    B, M = rng.standard_normal((rank, COLUMNS)), rng.standard_normal((ROWS, COLUMNS))
    M[3], M[4] = M[0] + M[1], 0.0
    f = dapd.Quadratic(B.T @ B if rank else None, rng.standard_normal(COLUMNS))
    return dapd.Problem(f, M, rng.standard_normal(ROWS), phi)


@pytest.mark.parametrize("phi", PHIS)
@pytest.mark.parametrize("rank", [0, 2])
def test_steps_without_an_anchor_are_nonexpansive(phi, rank):
    for seed, weight in itertools.product(range(5), [1e-3, 1.0, 1e3]):
        problem, rng = degenerate(PHIS[phi], seed, rank), np.random.default_rng(100 + seed)
        L, s_max = problem.f.L, np.linalg.norm(problem.M.matrix, 2)
        p = parameters(L=L, s_max=s_max, weight=weight, beta=0.0)
        assert p.ahead == (1.5 if rank else 2.0)

        def norm(dx, dy, p=p, problem=problem):
            return math.sqrt(max(0.0, dx @ dx / p.t + dy @ dy / p.s - 2 * dy @ problem.M.forward(dx)))

        for _ in range(20):
            points = [(rng.standard_normal(COLUMNS), weight * rng.standard_normal(ROWS)) for _ in range(2)]
            after = []
            for x, y in points:
                method = Anchored(problem, p, x0=x, y0=y)
                after.append(method.step(method.init()))
            before = norm(points[0][0] - points[1][0], points[0][1] - points[1][1])
            assert norm(after[0].x - after[1].x, after[0].y - after[1].y) <= (1 + 1e-9) * before


@pytest.mark.parametrize("engine", ["native", "jax"])
@pytest.mark.parametrize("rank", [0, 2])
def test_engines_agree(engine, rank):
    if engine == "jax":
        pytest.importorskip("jax")
    for phi in PHIS.values():
        problem = degenerate(phi, 3, rank)
        p = parameters(L=problem.f.L, s_max=np.linalg.norm(problem.M.matrix, 2), weight=0.7, beta=0.01)
        method = Anchored(problem, p, x0=np.ones(COLUMNS), y0=-np.ones(ROWS))
        runner, plain = bind(method, engine), bind(method, "python")
        for one in (runner, plain):
            one.start()
            one.advance(100, math.inf)
        for given, wanted in zip([*runner.state, *runner.point()], [*plain.state, *plain.point()], strict=True):
            found = np.asarray(given)
            assert np.linalg.norm(found - wanted) <= 1e-11 * (1 + np.linalg.norm(wanted))


@pytest.mark.parametrize("start", [[0.0, 0.0, 0.0], [4.0, 0.0, 0.0], [1.0, 1.0, 1.0]])
def test_a_row_that_does_not_bind_and_any_start(start):
    M = np.array([[-1.0, -1.0, -2.0]])
    problem = dapd.Problem(dapd.Quadratic(None, [3.0, -3, -3]), M, [5.0], dapd.NonNegative(), bounds=(0, 5))
    result = dapd.solve(problem, engine="native", x0=start, max_iterations=2_000)
    assert result.status == "optimal"
    np.testing.assert_allclose(result.x, [5.0, 0.0, 0.0], atol=1e-4)


@pytest.mark.parametrize("seed", range(10))
def test_linear_programs_take_anchored_epochs_from_any_start(seed):
    problem, rng = small_program(seed).stacked, np.random.default_rng(seed)
    start = 10 * rng.standard_normal(problem.columns), 10 * rng.standard_normal(problem.rows)
    epochs = run(problem, start=start, most=20_000)
    assert epochs[-1].error <= 1e-6
    assert {epoch.kind for epoch in epochs} == {"start", "anchored"}


def test_guesses_that_stall_get_company():
    problem = degenerate(dapd.NonNegative(), 0, 2)
    s_max = np.linalg.norm(problem.M.matrix, 2)
    epochs = endless_epochs(problem, s_max)
    kinds = [epoch.kind for epoch in epochs]
    first = kinds.index("anchored")
    assert set(kinds[1:first]) <= {"guess", "proximal"}
    work = dict.fromkeys(kinds, 0)
    for before, after in itertools.pairwise(epochs[first:]):
        work[after.kind] += after.iterations - before.iterations
    assert 0.4 * sum(work.values()) <= work["anchored"] <= 0.6 * sum(work.values())


def endless_epochs(problem, s_max):
    """Epochs of a judge that nothing satisfies."""
    epochs = restarts(problem, lambda x, y: 1.0, s_max=s_max)
    return list(itertools.takewhile(lambda epoch: epoch.iterations < 50_000, epochs))


def test_a_curved_f_that_looks_linear_at_first_is_followed():
    f = dapd.Smooth(
        lambda x: float(np.sum(np.maximum(abs(x) - 20, 0) ** 2)) / 2 + x.sum(),
        lambda x: np.sign(x) * np.maximum(abs(x) - 20, 0) + 1,
    )
    problem = dapd.Problem(f, np.eye(2, 4), np.ones(2), dapd.NonNegative())
    assert run(problem)[-1].error <= 1e-6


def test_rounding_is_no_move():
    y = np.array([1e12, 2.0])
    of_x, of_y = lengths(np.array([1e-9, 0.0]), np.zeros(2), y + np.array([1e-3, 0.0]), y)
    assert of_y == 0.0
    assert of_x == pytest.approx(1e-9, rel=1e-3)


def test_the_anchor_adds_no_rounding():
    problem = dapd.Problem(dapd.Quadratic(None, [-1e12, 1.0]), np.eye(2), [0.0, 0.0], dapd.Interval(0.0, 1.0))
    solution = np.array([0.0, 1.0]), np.array([-1e12, 1.0])
    p = parameters(L=0.0, s_max=1.0, weight=1.0, beta=0.01)
    runner = bind(Anchored(problem, p, x0=solution[0], y0=solution[1]), "native")
    runner.start()
    runner.advance(100, math.inf)
    for found, wanted in zip(runner.point(), solution, strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("factor", [1e-8, 1, 1e8])
def test_multipliers_that_vanish_do_not_unbalance_the_steps(factor, monkeypatch):
    """Y* = 0, so moves of y become as small as we please, and say nothing about the weight."""
    unit = Bench._unit
    monkeypatch.setattr(Bench, "_unit", lambda self, typical: factor * unit(self, typical))
    M, x = np.array([[2.0, 1, 0, 0], [0, 2, 1, 0], [0, 0, 2, 1], [1, 0, 0, 2]]), np.array([1.0, -2, 3, 0.5])
    problem = dapd.Problem(dapd.Quadratic(np.zeros(4), np.zeros(4)), M, M @ x, dapd.Box(-1e-8, 1e-8))
    result = dapd.solve(problem, engine="python", max_iterations=2_000)
    assert result.status == "optimal", result.message
    np.testing.assert_allclose(result.x, x, rtol=1e-6)
