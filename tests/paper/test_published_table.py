"""The paper's first compressed-sensing table, with one seed, against a reference found by Newton."""

import numpy as np
import pytest

import dapd
from dapd.certificate.certify import certify


@pytest.fixture(scope="module")
def problem():
    return dapd.experiments.newton(dapd.paper.experiments.compressed_sensing(seed=0))


def test_reference_satisfies_kkt(problem):
    certificate = certify(problem, problem.x_star, problem.y_star)
    assert max(certificate.stationarity, certificate.feasibility) < 1e-10


def test_problem_has_the_stated_conditioning(problem):
    singular = np.linalg.svd(problem.M.matrix, compute_uv=False)
    assert problem.M.shape == (250, 1000)
    assert singular[0] == pytest.approx(1.0)
    assert (singular[0] / singular[-1]) ** 2 == pytest.approx(1e5)
    assert problem.f.L / problem.f.mu == pytest.approx(1e4)


@pytest.mark.parametrize(("method", "low", "high"), [("y-dapd", 0.0, 1e-6), ("papc", 1e-5, 1e-2), ("capd", 0.17, 0.20)])
def test_error_after_1e5_iterations_is_the_published_one(problem, method, low, high):
    result = dapd.solve(problem, method, tol=0, max_iterations=100_000)
    error = np.linalg.norm(result.x - problem.x_star) / np.linalg.norm(problem.x_star)
    assert low < error < high


def test_capd_runs_317_inner_iterations(problem):
    assert dapd.METHODS["capd"].from_theory(problem).parameters.N == 317
