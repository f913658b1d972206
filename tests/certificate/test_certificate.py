"""The certificate: primal and dual residuals, gap, tolerances."""

import math

import numpy as np
import pytest
import scipy.optimize
from instances import PHIS, quadratic_problem

import dapd
from dapd.certificate.certify import Certificate, certify, error_of, excess_of


@pytest.mark.parametrize("phi", PHIS)
@pytest.mark.parametrize("distance", [1.0, 1e-3, 0.0])
def test_gap_is_the_difference_of_the_objectives(phi, distance):
    problem = quadratic_problem(PHIS[phi], seed=2)
    rng = np.random.default_rng(0)
    x = problem.x_star + distance * rng.standard_normal(10)
    y = problem.y_star + distance * rng.standard_normal(6)
    c = certify(problem, x, y)
    H, grad, residual = problem.f.H, problem.f.grad(x), problem.M.matrix @ x - problem.b
    # f*(∇f(x)) of a quadratic
    pull = grad + problem.f.c
    conjugate = pull @ np.linalg.solve(H, pull) / 2
    r, q = problem.phi.project_conjugate(residual), problem.phi.project(y)
    primal = problem.f.value(x) + problem.phi.conjugate(r)
    dual = -conjugate - problem.b @ q
    if phi == "conjugate":
        dual -= 0.0 if np.all(abs(q) <= 0.5) else np.inf
    else:
        dual -= problem.phi.value(q)
    assert c.primal == pytest.approx(np.max(abs(residual - r)), abs=1e-15)
    stationarity = np.max(abs(grad + problem.M.matrix.T @ y))
    assert c.dual == pytest.approx(max(stationarity, np.max(abs(y - q))), abs=1e-13)
    assert c.gap == pytest.approx(abs(primal - dual), abs=1e-12)
    assert c.gap_error < c.gap / problem.f.mu
    if distance == 0:
        assert c.meets(1e-13, 0)
        assert c.meets(0, 1e-12)


def test_a_wrong_complementarity_shows_in_the_gap():
    # x is feasible and stationary, but y belongs to a row that is not active
    problem = dapd.Problem(dapd.Quadratic([1.0], [0.0]), [[1.0]], [5.0], dapd.NonNegative())
    c = certify(problem, np.array([-1.0]), np.array([1.0]))
    assert (c.primal, c.dual) == (0.0, 0.0)
    assert c.gap == pytest.approx(6.0, rel=1e-14)  # with the rounding of its terms
    assert not c.meets(1e-3, 1e-3)


def test_a_phi_without_values_is_judged_without_the_gap():
    class Own(dapd.Phi):
        def prox(self, v, step):
            return np.maximum(v, 0)

    problem = quadratic_problem(dapd.NonNegative())
    own = dapd.Problem(problem.f, problem.M, problem.b, Own())
    c = certify(own, problem.x_star, problem.y_star)
    assert math.isnan(c.gap)
    assert math.isnan(c.gap_error)
    assert c.error <= 1e-13
    assert c.meets(0, 1e-10)
    assert not certify(own, problem.x_star, problem.y_star + 1.0).meets(0, 1e-3)
    assert dapd.solve(own, tol_absolute=1e-9).converged


def test_tolerances():
    problem = quadratic_problem(dapd.NonNegative(), kappa=100.0)
    assert dapd.solve(problem).certificate.error <= 1e-6
    absolute = dapd.solve(problem, "y-dapd", tol_absolute=1e-10)
    c = absolute.certificate
    assert absolute.converged
    assert max(c.primal, c.dual, c.gap) <= 1e-10
    either = dapd.solve(problem, "y-dapd", tol=1e-2, tol_absolute=1e-10)
    assert either.converged
    assert either.iterations < absolute.iterations
    assert dapd.solve(problem, "y-dapd", tol=1e-15, tol_absolute=1e-3).iterations < absolute.iterations
    assert np.isfinite(absolute.objective)
    for none in ({"tol": 0}, {"tol": 0, "tol_absolute": 0}, {"tol_absolute": 0}):
        assert dapd.solve(problem, "y-dapd", max_iterations=50, **none).status == "iteration_limit"
    with pytest.raises(ValueError, match="tol_absolute must be >= 0"):
        dapd.solve(problem, tol_absolute=-1.0)


@pytest.mark.parametrize("tolerances", [(1e-2, 0.0), (0.0, 0.1), (1e-2, 0.1), (0.0, 0.0)])
def test_many_certificates_are_judged_like_each(tolerances):
    rng = np.random.default_rng(0)
    numbers = 10.0 ** rng.uniform(-5, 0, (300, 10))
    numbers[rng.random(numbers.shape) < 0.05] = np.inf
    numbers[np.ix_(rng.random(300) < 0.2, [2, 6])] = np.nan  # φ has no value
    for accuracy in ("solution", "objective"):
        many = Certificate.of_numbers(numbers.T, accuracy)
        each = [Certificate.of_numbers(row.tolist(), accuracy) for row in numbers]
        np.testing.assert_array_equal(error_of(many), [one.error for one in each])
        found, expected = excess_of(many, *tolerances), [one.excess(*tolerances) for one in each]
        np.testing.assert_allclose(found, expected, rtol=1e-15)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_absolute_tolerances_do_not_depend_on_sizes(scale):
    problem = quadratic_problem(dapd.L1(0.3))
    far = dapd.Problem(dapd.Quadratic(scale * problem.f.H, scale * problem.f.c), problem.M, problem.b, problem.phi)
    result = dapd.solve(far, tol_absolute=1e-8)
    assert result.converged
    residual = problem.M.matrix @ result.x - problem.b
    assert np.all(abs(residual) <= 0.3 + 1e-8)
    assert np.all(abs(far.f.grad(result.x) + problem.M.matrix.T @ result.y) <= 1e-8)


def test_the_multipliers_of_bounds_are_those_that_stationarity_asks_for():
    problem = dapd.Problem(dapd.Quadratic([1.0, 1.0], [3.0, 0.0]), np.zeros((0, 2)), [], bounds=(-1.0, 1.0))
    c = certify(problem, np.array([1.0, 0.0]), np.zeros(0))
    assert c.error <= 1e-14
    assert certify(problem, np.array([0.9, 0.0]), np.zeros(0)).complementarity_error > 0.01
    assert certify(problem, np.array([0.1, 0.0]), np.zeros(0)).dual == 2.9  # the bound is farther than zero
    assert certify(problem, np.array([3.0, 0.0]), np.zeros(0)).primal == 2.0
    result = dapd.solve(problem)
    assert result.certificate == certify(problem, result.x, result.y)


PENALTY = 1e7
SOFT = dapd.problems.qp(np.diag([1.0, 1, 0]), [-1.0, -1, PENALTY], [[1, 1, -1.0]], None, 1, lb=0)
TIMES = np.linspace(0, 10, 200)
UNEVEN = {  # costs or columns of very different sizes, and the solution
    "costs": (dapd.problems.qp(None, [1e7, -1.0], lb=0, ub=1), [0, 1]),
    "far costs": (dapd.problems.qp(None, [1e12, -1.0], lb=0, ub=1), [0, 1]),
    "rows": (dapd.problems.qp(None, [1.0, 1, 1e8], [[1, 2, 1.0]], 1, None, lb=0), [0, 0.5, 0]),
    "penalty": (SOFT, [0.5, 0.5, 0]),
    "no cost": (
        dapd.Problem(dapd.Quadratic([1.0, 1.0], [1e8, 0.0]), [[0.0, -1.0]], [-5.0], dapd.NonNegative()),
        [1e8, 5],
    ),
    "polynomial": (dapd.problems.nnls(np.vander(TIMES, 7), TIMES**3), [0, 0, 0, 1, 0, 0, 0]),
}


@pytest.mark.parametrize("direct", [True, False])
@pytest.mark.parametrize("name", UNEVEN)
def test_a_large_coordinate_does_not_excuse_the_others(name, direct):
    problem, solution = UNEVEN[name]
    result = dapd.solve(problem, direct=direct)
    assert result.status == "optimal", result.message
    np.testing.assert_allclose(result.x, solution, atol=1e-4)


def test_a_large_coordinate_does_not_excuse_the_last_answer():
    solver = dapd.Solver(SOFT)
    solver.solve()
    solver.update(c=[2, 1, -PENALTY])
    np.testing.assert_allclose(solver.solve().x, [1, 0, 0], atol=1e-4)


def test_columns_of_very_different_sizes_are_no_reason_to_refuse():
    rng = np.random.default_rng(5)
    A = rng.standard_normal((30, 5))
    d = A @ [1, -1, 2, 0.5, 3]
    for k in (2, 4, 6):
        columns = 10.0 ** np.array([-k, 0, k / 2, k, 0])
        result = dapd.solve(dapd.problems.nnls(A * columns, d))
        assert result.converged
        np.testing.assert_allclose(result.x * columns, scipy.optimize.nnls(A, d)[0], atol=1e-5)


@pytest.mark.parametrize("far", [1e12, 1e16])
def test_a_point_is_not_optimal_for_being_far_out(far):
    """x₁ − (1 + 10⁻⁸)x₂ falls along x₁ = x₂: hardly, but without end."""
    problem = dapd.Problem(dapd.Quadratic(np.zeros(2), [-1.0, 1 + 1e-8]), [[1.0, -1]], [0.0], bounds=(0.0, np.inf))
    near, away = (certify(problem, np.full(2, size), np.array([-1.0])) for size in (1.0, far))
    assert near.error <= 1e-6
    assert away.gap_error > 1e-3
