"""What every method must do on every φ, operator kind and precision."""

import copy

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import aslinearoperator

import dapd
from dapd.solving.certificate import certify
from instances import DETERMINISTIC, PHIS, quadratic_problem

KINDS = {"dense": np.asarray, "csr": sp.csr_array, "matrix-free": aslinearoperator}
PRECISIONS = {np.float64: (1e-8, 1e-6), np.float32: (1e-4, 3e-3)}  # tolerance, then allowed error


def as_kind(problem, kind, dtype):
    """The same problem with M of another kind and precision."""
    M = KINDS[kind](problem.M.matrix.astype(dtype))
    return dapd.Problem(
        problem.f, M, problem.b.astype(dtype), problem.phi, x_star=problem.x_star, y_star=problem.y_star
    )


@pytest.mark.parametrize("dtype", PRECISIONS, ids=lambda d: d.__name__)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("phi", PHIS)
@pytest.mark.parametrize("name", DETERMINISTIC)
def test_contract(name, phi, kind, dtype):
    if not dapd.METHODS[name].any_phi and phi != "zero":
        with pytest.raises(ValueError, match="methods for any φ"):
            dapd.solve(quadratic_problem(PHIS[phi]), name)
        return
    tol, allowed = PRECISIONS[dtype]
    problem = as_kind(quadratic_problem(PHIS[phi], seed=1), kind, dtype)
    x0, y0 = np.full(problem.columns, 0.5), np.full(problem.rows, 0.1)
    M = copy.deepcopy(problem.M.linear.A if kind == "matrix-free" else problem.M.matrix)
    kept = copy.deepcopy((problem.b, problem.f.H, problem.f.c, x0, y0))

    result = dapd.solve(problem, name, tol=tol, max_iterations=100_000, x0=x0, y0=y0)

    assert result.status == "optimal"
    assert result.converged
    assert result.certificate.error <= tol
    assert result.certificate == certify(problem, result.x, result.y)
    assert result.x.dtype == result.y.dtype == dtype
    assert np.linalg.norm(result.x - problem.x_star) <= allowed * np.linalg.norm(problem.x_star)
    assert np.linalg.norm(result.y - problem.y_star) <= allowed * max(1.0, np.linalg.norm(problem.y_star))
    assert result.products == 2 * result.iterations + 1  # one for Mᵀy⁰
    assert result.method == name
    assert isinstance(result.parameters, dapd.METHODS[name].record)
    now = problem.M.linear.A if kind == "matrix-free" else problem.M.matrix
    assert abs(M - now).max() == 0
    for before, after in zip(kept, (problem.b, problem.f.H, problem.f.c, x0, y0), strict=True):
        assert np.array_equal(before, after)


@pytest.mark.parametrize("name", DETERMINISTIC)
def test_nan_from_a_gradient_is_an_honest_status(name):
    problem = quadratic_problem(dapd.Zero())
    calls = 0

    def grad(x):
        nonlocal calls
        calls += 1
        return problem.f.grad(x) if calls < 15 else np.full_like(x, np.nan)

    broken = dapd.Smooth(problem.f.value, grad, problem.f.mu, problem.f.L)
    result = dapd.solve(dapd.Problem(broken, problem.M, problem.b), name, tol=1e-12, max_iterations=1000)
    assert result.status == "diverged"
    assert "check_gradient" in result.message
    assert np.isfinite(result.x).all()
    assert np.isfinite(result.certificate.error)


@pytest.mark.parametrize("name", DETERMINISTIC)
def test_limits_are_kept(name):
    problem = quadratic_problem(dapd.Zero(), kappa=1e4, ratio=50.0)
    result = dapd.solve(problem, name, tol=1e-14, max_iterations=137)
    assert result.status == "iteration_limit"
    assert result.iterations <= 137
    assert "iteration limit" in result.message
