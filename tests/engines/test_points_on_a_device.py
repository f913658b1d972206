"""Looks of the jax engine at points that stay on the device: the same numbers as on the host, and little else moves."""

import logging
import time

import jax
import numpy as np
import pytest
from device_calls import calls
from instances import COLUMNS, PHIS, ROWS, quadratic_problem
from jax_cases import FUNCTIONS, MAPS

import dapd
from dapd.certificate.certify import certify, objective
from dapd.engines import precision
from dapd.engines.jax.judge import OnDevice
from dapd.engines.jax.runner import place
from dapd.presolve import Presolve
from dapd.ways.first_order import TRANSFORMS, with_multipliers
from dapd.ways.search import OnHost, judge_of

PER_LOOK = 3.5  # programs that a solve may run for each look at a point, its steps and the look itself included


@pytest.fixture(autouse=True)
def all_are_large(monkeypatch):
    monkeypatch.setattr("dapd.engines.jax.runner.LARGE", 0)
    with precision("jax"):
        yield


def points(rows=ROWS):
    rng = np.random.default_rng(3)
    return [(size * rng.standard_normal(COLUMNS), size * rng.standard_normal(rows)) for size in (1e-3, 1.0, 1e3)]


def problem_with(phi):
    return quadratic_problem(PHIS.get(phi) or dapd.Conjugate(dapd.GroupBall(0.8, 2)))


@pytest.mark.parametrize("phi", [*PHIS, "conjugate of balls"])
def test_the_certificate_on_the_device_is_that_of_the_host(phi):
    problem = problem_with(phi)
    for x, y in points():
        found = judge_of(problem, "jax").check(x, y).certificate
        np.testing.assert_allclose(found.numbers, certify(problem, x, y).numbers, rtol=1e-12)


@pytest.mark.parametrize("bounds", [None, (-1.0, 1.0)])
@pytest.mark.parametrize("kind", MAPS)
def test_the_certificate_is_that_of_the_host_for_every_M(kind, bounds):
    M = MAPS[kind](np.random.default_rng(1))
    problem = dapd.Problem(FUNCTIONS["diagonal"], M, np.ones(ROWS), dapd.NonNegative(), bounds=bounds)
    for x, y in points(problem.stacked.rows):
        there, here = judge_of(problem, "jax").check(x, y), OnHost(problem, None, "solution").check(x, y)
        np.testing.assert_allclose(there.x, here.x, rtol=1e-15)
        np.testing.assert_allclose(there.certificate.numbers, here.certificate.numbers, rtol=1e-11)


def test_sums_over_many_rows_keep_their_digits():
    rng, rows = np.random.default_rng(4), 300_000
    problem = dapd.Problem(dapd.Quadratic(np.ones(rows), np.ones(rows)), dapd.Identity(rows), np.ones(rows), dapd.L1(1))
    x, y = 1 + rng.random(rows), rng.random(rows)
    there, here = judge_of(problem, "jax").check(x, y).certificate, certify(problem, x, y, with_distance=False)
    np.testing.assert_allclose(there[:9], here[:9], rtol=1e-10)


@pytest.mark.parametrize("satisfied", [False, True])
@pytest.mark.parametrize("phi", [*PHIS, "conjugate of balls"])
def test_the_objective_on_the_device_is_that_of_the_host(phi, satisfied):
    problem = problem_with(phi)
    solved = dapd.solve(problem, tol=1e-9)
    for x, y in [*points(), (solved.x, solved.y), (np.zeros(COLUMNS), np.zeros(ROWS))]:
        found = judge_of(problem, "jax").objective(x, y, satisfied=satisfied)
        np.testing.assert_allclose(found, objective(problem, x, y, satisfied), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_value_of_f_on_the_device_is_that_of_the_host(name):
    problem = dapd.Problem(FUNCTIONS[name], np.eye(ROWS, COLUMNS), np.zeros(ROWS), dapd.Box(-1.0, 1.0))
    for x, y in points():
        found = judge_of(problem, "jax").objective(x / 10, y, satisfied=True)
        np.testing.assert_allclose(found, objective(problem, x / 10, y, satisfied=True), rtol=1e-12)


@pytest.mark.parametrize("empty", [False, True])
def test_points_of_a_transformed_problem_are_taken_back(empty):
    M = np.linspace(1.0, 30.0, ROWS)[:, None] * quadratic_problem(PHIS["box"]).M.matrix
    M[1] = 0.0 if empty else M[1]  # a row that is removed is no matter of factors
    f = dapd.Quadratic(np.linspace(1.0, 5.0, COLUMNS), np.ones(COLUMNS))
    problem = dapd.Problem(f, M, np.ones(ROWS), dapd.NonNegative())
    transform = Presolve.apply(problem, TRANSFORMS)
    assert (transform.way_back is None) == empty
    here, there = OnHost(problem, transform, "solution"), judge_of(problem, "jax", transform)
    before = None
    for x, y in points():
        point = here.start(x, y)
        for found, expected in zip(there.start(x, y), point, strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-14)
        checks = there.check(*point), here.check(*point)
        for k in (0, 1):
            np.testing.assert_allclose(checks[0][k], checks[1][k], rtol=1e-14)
        np.testing.assert_allclose(checks[0].certificate.numbers, checks[1].certificate.numbers, rtol=1e-12)
        before = before or point
        for found, expected in zip(there.move(point, before), here.move(point, before), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def test_a_point_that_is_not_finite_has_an_infinite_error():
    problem = dapd.Problem(dapd.Quadratic(np.zeros(3), np.ones(3)), np.eye(2, 3), np.ones(2))  # f is flat in x_2
    x, y = jax.numpy.asarray([1.0, 1.0, np.inf]), jax.numpy.zeros(2)
    for judge in (judge_of(problem, "jax"), OnHost(problem, None, "solution")):
        with np.errstate(all="ignore"):
            assert judge.check(x, y).certificate.error == np.inf


@pytest.mark.parametrize("phi", PHIS)
def test_directions_along_which_phi_stays_finite_are_those_of_the_host(phi):
    phi = PHIS[phi].sized(ROWS)
    problem = dapd.Problem(dapd.Quadratic(np.ones(COLUMNS)), np.eye(ROWS, COLUMNS), np.zeros(ROWS), phi)
    there = place(problem).phi
    for _, w in points():
        for name in ("project_recession", "project_conjugate_recession"):
            np.testing.assert_array_equal(getattr(there, name)(w), getattr(phi, name)(w))


@pytest.mark.parametrize("bound", [np.inf, 5.0])
def test_only_a_direction_of_descent_is_sent_to_the_host(bound):
    M = np.array([[1.0, -1.0, 0.0]])
    problem = dapd.Problem(dapd.Quadratic(np.zeros(3), np.ones(3)), M, [1.0], dapd.NonNegative(), bounds=(0.0, bound))
    judge, x = judge_of(problem, "jax"), np.ones(3)
    assert judge.may_descend(x, np.array([2.0, 2.0, 0.0])) == (bound == np.inf)
    assert not judge.may_descend(x, np.array([-2.0, -2.0, 0.0]))  # upwards, and against a bound
    assert not judge.may_descend(x, np.array([2.0, 0.0, 0.0]))  # breaks the constraint
    assert not judge.may_descend(x, np.zeros(3))


@pytest.mark.parametrize("bounds", [None, (-1.0, np.inf)], ids=str)
@pytest.mark.parametrize("phi", PHIS)
def test_directions_worth_a_check_are_those_of_the_host(phi, bounds):
    plain = problem_with(phi)
    problem = dapd.Problem(plain.f, plain.M, plain.b, plain.phi, bounds=bounds)
    there, here = judge_of(problem, "jax"), OnHost(problem, None, "solution")
    assert isinstance(there, OnDevice)
    rng = np.random.default_rng(0)
    kernel = np.linalg.svd(problem.M.dense().T)[2][-1]  # of Mᵀ, or as near to it as there is
    for direction in (
        *rng.standard_normal((20, problem.stacked.rows)),
        *np.outer([1.0, -1.0], np.resize(kernel, problem.stacked.rows)),
    ):
        assert there.may_be_ray(direction) == here.may_be_ray(direction)


def unbounded():
    f = dapd.Quadratic(np.array([1.0, 0.0, 0.0]), np.ones(3))
    return dapd.Problem(f, [[0.0, 1.0, -1.0]], [1.0], dapd.NonNegative())


@pytest.mark.parametrize("method", ["auto", "papc"])
def test_unbounded_is_found_for_a_problem_on_the_device(method):
    result = dapd.solve(unbounded(), method, engine="jax", max_iterations=20_000)
    assert result.status == "unbounded"
    assert result.ray is not None


def test_a_first_check_that_compiles_does_not_put_off_the_others(monkeypatch):
    compiles, usual = [True], OnDevice.may_descend

    def may_descend(self, x, direction):
        if compiles:
            compiles.pop()
            time.sleep(0.5)
            return False
        return usual(self, x, direction)

    monkeypatch.setattr(OnDevice, "may_descend", may_descend)
    result = dapd.solve(unbounded(), engine="jax", max_iterations=200)
    assert result.status == "unbounded"
    assert not compiles


@pytest.mark.parametrize("f", [dapd.Quadratic(np.linspace(0, 2, COLUMNS), np.ones(COLUMNS)), dapd.PseudoHuber(0.5)])
def test_multipliers_of_bounds_are_completed_on_the_device_as_on_the_host(f):
    bounds = np.r_[[-np.inf] * 3, [0.0] * 3, [-1.0] * 4], np.r_[[1.0] * 3, [np.inf] * 3, [1.0] * 4]
    problem = dapd.Problem(f, np.eye(ROWS, COLUMNS), np.zeros(ROWS), bounds=bounds)
    for x, y in points():
        x = np.clip(x, *bounds)
        there = with_multipliers(problem, jax.numpy.asarray(x), jax.numpy.asarray(y))
        assert isinstance(there, jax.Array)
        np.testing.assert_allclose(there, with_multipliers(problem, x, y), rtol=1e-12, atol=1e-12)


def test_a_second_solve_compiles_nothing(caplog):
    problem = slow_problem()
    solver = dapd.Solver(problem, engine="jax")
    first = solver.solve()
    with jax.log_compiles(), caplog.at_level(logging.WARNING):
        again = solver.solve(x0=np.zeros(problem.columns), y0=np.zeros(problem.rows))
    assert not [record for record in caplog.records if "compil" in record.message.lower()]
    assert again.status == first.status == "optimal"  # after other iterations, as the first solve has learnt something


def test_a_look_takes_few_programs(tmp_path):
    problem = slow_problem()
    solver = dapd.Solver(problem, engine="jax")
    solver.solve()
    with jax.profiler.trace(tmp_path):
        result = solver.solve(x0=np.zeros(problem.columns), y0=np.zeros(problem.rows))
    assert result.iterations > 200
    names = calls(tmp_path)
    checks = names.count("PjitFunction(checked_point)")
    assert checks > 10
    assert len(names) <= PER_LOOK * checks
    assert not any("convert_element_type" in name or "isfinite" in name for name in names)


def slow_problem():
    """Total variation of a line with a step, rows and variables scaled, so restarts take a while."""
    size = 60
    M = np.linspace(1.0, 9.0, size - 1)[:, None] * np.diff(np.eye(size), axis=0)
    noisy = np.repeat([0.0, 1.0], size // 2) + 0.1 * np.random.default_rng(4).standard_normal(size)
    f = dapd.Quadratic(np.linspace(1.0, 2.0, size), noisy)
    return dapd.Problem(f, M, np.zeros(size - 1), dapd.Box(-0.1, 0.1))
