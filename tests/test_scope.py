"""What a problem may be: f without strong convexity, M of any rank and shape, bounds on x."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import aslinearoperator

import dapd
from dapd.testing import check_gradient, check_strong_convexity

RNG = np.random.default_rng(0)
A = RNG.standard_normal((4, 9))
D = RNG.standard_normal(4)
GRAM = A.T @ A

CONVEX = {
    "dense": dapd.Quadratic((GRAM + GRAM.T) / 2, np.ones(9)),
    "float32": dapd.Quadratic(((GRAM + GRAM.T) / 2).astype(np.float32), np.ones(9)),
    "sparse": dapd.Quadratic(sp.csr_array((GRAM + GRAM.T) / 2), np.ones(9)),
    "diagonal": dapd.Quadratic([0.0, 1.0, 2.0], np.ones(3)),
    "linear": dapd.Quadratic(np.zeros(3), np.ones(3)),
    "no H": dapd.Quadratic(None, np.ones(3)),
    "operator": dapd.Quadratic(aslinearoperator(GRAM)),
    "least squares": dapd.LeastSquares(A, D),
    "logistic": dapd.Logistic(A, np.sign(D)),
    "own": dapd.Smooth(lambda x: float(np.sum(np.log(np.cosh(x)))), np.tanh),
    "separable": dapd.Separable([dapd.Quadratic(np.ones(2)), dapd.LeastSquares(A, D)]),
}


@pytest.mark.parametrize("name", CONVEX)
def test_a_convex_f_needs_no_strong_convexity(name):
    f = CONVEX[name]
    size = f.size or 5
    assert f.mu <= 1e-6  # a float32 matrix may have an eigenvalue of that size instead of 0
    check_gradient(f, np.linspace(-1, 1, size))
    check_strong_convexity(f, np.linspace(-1, 1, size), trials=100)
    problem = dapd.Problem(f, np.ones((2, size)), np.ones(2))
    assert repr(f) in repr(problem)
    assert np.isfinite(problem.objective(np.full(size, 1 / size)))


def test_constants_of_a_convex_f():
    greatest = np.linalg.eigvalsh(GRAM)[-1]
    for name in ("dense", "sparse", "least squares"):
        assert CONVEX[name].mu == 0.0
        assert pytest.approx(greatest) == CONVEX[name].L
    assert pytest.approx(greatest / 4) == CONVEX["logistic"].L
    assert CONVEX["linear"].L == CONVEX["no H"].L == 0.0
    assert CONVEX["operator"].L is CONVEX["own"].L is None
    assert dapd.Separable([CONVEX["linear"], CONVEX["operator"]]).L is None
    assert "L=unknown" in repr(CONVEX["own"])


def test_large_semidefinite_matrices_have_mu_zero():
    differences = sp.diags_array([-1.0, 1.0], offsets=[0, 1], shape=(5_000, 5_001)).tocsr()
    scattered = sp.random_array((300, 1_000), density=0.01, rng=np.random.default_rng(0), format="csr")
    for B in (differences, scattered):
        assert dapd.Quadratic((B.T @ B).tocsr()).mu == 0.0
    assert dapd.Quadratic(sp.csr_array((1_000, 1_000)), np.ones(1_000)).L == 0.0


MAPS = {
    "tall": np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [2.0, -1.0]]),
    "rank-deficient": np.array([[1.0, 1.0], [2.0, 2.0]]),
    "zero row": np.array([[1.0, 1.0], [0.0, 0.0]]),
    "zero column": np.array([[0.0, 1.0]]),
    "zero": np.zeros((3, 2)),
}


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array, aslinearoperator])
@pytest.mark.parametrize("name", MAPS)
def test_any_shape_and_rank_of_M_is_solved(name, kind):
    M = MAPS[name]
    x = np.array([0.5, -0.25])
    for f in (dapd.Quadratic([1.0, 2.0], np.ones(2)), dapd.Quadratic([1.0, 0.0], [1.0, 0.0])):
        for phi in (dapd.Zero(), dapd.NonNegative()):
            problem = dapd.Problem(f, kind(M), M @ x, phi)
            result = dapd.solve(problem, tol=1e-9)
            assert result.converged
            assert np.allclose(M @ result.x, M @ x, atol=1e-7) or isinstance(phi, dapd.NonNegative)
