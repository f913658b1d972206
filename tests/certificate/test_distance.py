"""`certificate.distance` is never below the true distance to the solution."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from instances import COLUMNS, PHIS, ROWS, dual_pair, hessian, matrix, quadratic_problem
from scipy.sparse.linalg import aslinearoperator

import dapd
from dapd.certificate.certify import certify

RNG = np.random.default_rng(0)
A = RNG.standard_normal((14, COLUMNS))
LABELS = np.sign(RNG.standard_normal(14))

FUNCTIONS = {
    "quadratic": dapd.Quadratic(hessian(RNG, 30.0), RNG.standard_normal(COLUMNS)),
    "diagonal": dapd.Quadratic(np.geomspace(1e-3, 1.0, COLUMNS), np.ones(COLUMNS)),
    "pseudo-huber": dapd.PseudoHuber(0.3),
    "least squares": dapd.LeastSquares(A, 100 * RNG.standard_normal(14), 0.1),
    "logistic": dapd.Logistic(A, LABELS, 0.5),
    "separable": dapd.Separable([dapd.PseudoHuber(0.5), dapd.Quadratic(np.arange(1.0, 5.0))], sizes=[6, 4]),
    "own": dapd.Smooth(lambda x: float(np.sum(np.log(np.cosh(x)) + x * x)), lambda x: np.tanh(x) + 2 * x, 2.0, 3.0),
}


def problem_of(f, phi, rng, ratio=5.0):
    """A problem with this f and φ, whose M is chosen to fit a random solution."""
    x, (y, g) = rng.standard_normal(COLUMNS), dual_pair(phi, rng, ROWS)
    M = matrix(rng, ratio)
    y = phi.prox(y + 1e-3, 1.0) if not y.any() else y
    M -= np.outer(y, f.grad(x) + M.T @ y) / (y @ y)  # so Mᵀy = −∇f(x)
    return dapd.Problem(f, M, M @ x - g, phi, x_star=x, y_star=y)


@pytest.mark.parametrize("phi", PHIS)
@pytest.mark.parametrize("f", FUNCTIONS)
@given(seed=st.integers(0, 2**32 - 1), power=st.floats(-16, 2), dual_power=st.floats(-16, 2))
@settings(max_examples=20)
def test_distance_is_an_upper_bound(f, phi, seed, power, dual_power):
    rng = np.random.default_rng(seed)
    problem = problem_of(FUNCTIONS[f], PHIS[phi], rng)
    spectrum = dapd.estimate_spectrum(problem.M, positive=problem.phi.is_linear)
    x = problem.x_star + 10**power * rng.standard_normal(COLUMNS)
    y = problem.y_star + 10**dual_power * rng.standard_normal(ROWS)
    for dual in (y, problem.phi.project(y)):
        bound = certify(problem, x, dual, spectrum=spectrum).distance
        assert bound >= np.linalg.norm(x - problem.x_star)


@pytest.mark.parametrize("phi", PHIS)
def test_distance_is_tight_on_well_conditioned_problems(phi):
    for seed in range(5):
        problem = quadratic_problem(PHIS[phi], seed=seed, kappa=2.0, ratio=2.0)
        for tol in (1e-2, 1e-6, 1e-10):
            result = dapd.solve(problem, "y-dapd", tol=tol)
            distance = np.linalg.norm(result.x - problem.x_star)
            assert distance <= result.certificate.distance <= 20 * distance + 1e-11


@pytest.mark.parametrize("kind", [np.asarray, aslinearoperator, lambda M: M.astype(np.float32)])
def test_distance_counts_the_rounding_of_products(kind):
    problem = quadratic_problem(dapd.Zero())
    again = dapd.Problem(problem.f, kind(problem.M.matrix), problem.b)
    if again.M.dtype == np.float32:
        again = dapd.Problem(problem.f, again.M, again.M.matrix.astype(float) @ problem.x_star)
        Mty = again.M.matrix.astype(float).T @ problem.y_star
        again.f.c = problem.f.H @ problem.x_star + Mty
    dapd.estimate_spectrum(again.M, positive=True)
    c = certify(again, problem.x_star, problem.y_star)
    assert 0 < c.distance < 1e-9


def test_distance_needs_only_the_gap_if_the_dual_is_bounded():
    M = np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]])  # dependent rows, so no s_min
    problem = dapd.Problem(dapd.Quadratic([1.0, 2.0], [3.0, 1.0]), M, np.ones(3), dapd.Box(-0.5, 0.5))
    reference = dapd.solve(problem, tol=1e-14, tol_absolute=1e-13)
    for tol in (1e-1, 1e-4, 1e-8):
        result = dapd.solve(problem, tol=tol)
        bound = result.certificate.distance
        assert np.linalg.norm(result.x - reference.x) <= bound + 1e-7
        assert bound <= 30 * math.sqrt(tol)


def test_distance_without_rows_is_that_of_the_gradient():
    problem = dapd.Problem(dapd.Quadratic([1.0, 4.0], [1.0, 1.0]), np.zeros((0, 2)), [])
    c = certify(problem, np.array([1.5, 0.25]), np.zeros(0))
    assert c.distance == pytest.approx(0.5)


def test_distance_is_unknown_without_constants():
    problem = quadratic_problem(dapd.NonNegative())
    assert certify(problem, problem.x_star, problem.y_star).distance == math.inf  # nothing is known of M yet
    given = dapd.Problem(problem.f, problem.M.matrix, problem.b, problem.phi, spectrum=dapd.Spectrum(1.0, 0.2))
    assert certify(given, problem.x_star, problem.y_star).distance < 1e-10
    f = dapd.Quadratic(np.zeros(10), np.ones(10))
    flat = dapd.Problem(f, problem.M, problem.b, problem.phi)
    assert certify(flat, problem.x_star, problem.y_star, spectrum=dapd.Spectrum(1.0, 0.2)).distance == math.inf
    tall = dapd.Problem(dapd.PseudoHuber(0.5), np.ones((3, 1)), np.ones(3), dapd.NonNegative())
    assert dapd.solve(tall).certificate.distance == math.inf
    assert "distance" not in dapd.solve(tall).summary()
    assert "distance" in dapd.solve(given).summary()
    assert "distance" in dapd.solve(problem, "y-dapd").summary()


def test_the_spectrum_of_an_identity_need_not_be_estimated():
    f = dapd.LeastSquares(np.eye(4) + 1, np.ones(4), 0.1)
    problem = dapd.Problem(f, dapd.Identity(4), np.zeros(4), dapd.L1(0.3))
    for engine in ("auto", "native", "python"):
        assert dapd.solve(problem, engine=engine).certificate.distance < 1e-4
