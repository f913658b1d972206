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


def bounded_problem(rows=4, columns=12, *, phi=None, seed=0, dtype=np.float64, kind=np.asarray):
    """A problem with every kind of bound and its solution (x, y, z)."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(columns)
    lower, upper = x - 1, x + 1
    at = np.arange(columns) % 6
    lower[at == 0], upper[at == 1] = x[at == 0], x[at == 1]  # active below, active above
    lower[at == 2] = upper[at == 2] = x[at == 2]  # fixed
    lower[at == 3], upper[at == 4] = -np.inf, np.inf
    z = np.select([at == 0, at == 1, at == 2], [-1.0, 1.0, rng.standard_normal(columns)], 0.0) * rng.uniform(
        0.5, 1, columns
    )
    M = rng.standard_normal((rows, columns))
    y = np.abs(rng.standard_normal(rows))
    H = rng.uniform(1, 4, columns)
    f = dapd.Quadratic(H, H * x + M.T @ y + z)
    problem = dapd.Problem(
        f, kind(M.astype(dtype)), (M @ x).astype(dtype), phi, bounds=(lower, upper), x_star=x, y_star=y
    )
    return problem, z


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array, aslinearoperator])
@pytest.mark.parametrize("rows", [0, 4])
@pytest.mark.parametrize("phi", [dapd.Zero(), dapd.NonNegative()])
def test_bounds_are_kept_with_their_multipliers(phi, rows, kind):
    problem, z = bounded_problem(rows, phi=phi, kind=kind)
    result = dapd.solve(problem, tol=1e-10)
    assert result.converged
    assert result.y.shape == (rows,)
    assert np.allclose(result.x, problem.x_star, atol=1e-8)
    assert np.allclose(result.y, problem.y_star, atol=1e-7)
    assert np.allclose(result.z, z, atol=1e-7)
    gradient = problem.f.grad(result.x) + problem.M.adjoint(result.y) + result.z
    assert np.allclose(gradient, 0, atol=1e-8)
    assert result.objective == pytest.approx(problem.f.value(problem.x_star))


def test_stacked_is_the_same_problem_with_bounds_as_rows():
    problem, z = bounded_problem(dtype=np.float32)
    stacked = problem.stacked
    assert stacked is problem.stacked
    assert stacked.lower is None
    assert stacked.dtype == problem.dtype == np.float32
    assert stacked.M.shape == (16, 12)
    assert np.array_equal(stacked.M.dense()[4:], np.eye(12))
    assert np.allclose(stacked.y_star[4:], z, atol=1e-5)
    assert np.array_equal(stacked.phi.parts[1].lower, problem.lower)
    x = np.clip(np.zeros(12), problem.lower, problem.upper)
    assert stacked.f.value(x) == problem.f.value(x)
    plain = dapd.Problem(problem.f, problem.M, problem.b, bounds=(-np.inf, None))
    assert plain.lower is plain.upper is None
    assert plain.stacked is plain


def test_bounds_belong_to_the_problem():
    problem, _ = bounded_problem()
    again = problem.with_solution(np.zeros(12))
    assert np.array_equal(again.lower, problem.lower)
    assert np.array_equal(again.upper, problem.upper)
    assert "bounds" in repr(problem)
    assert problem.objective(problem.x_star) == problem.f.value(problem.x_star)
    outside = problem.x_star.copy()
    outside[0] -= 1e-3
    free = dapd.Problem(problem.f, problem.M, problem.b, dapd.Box(-1, 1), bounds=(problem.lower, problem.upper))
    assert free.objective(outside) == np.inf
    assert np.isfinite(free.objective(problem.x_star))


def test_a_named_method_runs_on_the_stacked_problem():
    problem, z = bounded_problem()
    told = []
    result = dapd.solve(problem, "papc", tol=1e-9, y0=np.ones(4), callback=lambda info: told.append(info))
    assert result.converged
    assert np.allclose(result.z, z, atol=1e-6)
    assert [info.y.shape for info in told[:2]] == [(4,), (4,)]
    assert np.array_equal(told[0].y, np.ones(4))
    slopes = problem.f.grad(told[0].x) + problem.M.matrix.T @ told[0].y
    assert np.all((told[0].z == 0) | (told[0].z == -slopes))
    s = float(np.linalg.norm(problem.M.matrix, 2))
    given = dapd.solve(problem, "papc", spectrum=dapd.Spectrum(s, 0.1), max_iterations=1)
    assert given.spectrum.s_max == pytest.approx(np.linalg.norm(problem.stacked.M.dense(), 2))
    with pytest.raises(ValueError, match="does not have full row rank"):
        dapd.solve(problem, "y-dapd")


def test_without_bounds_z_is_zero():
    problem = dapd.Problem(dapd.PseudoHuber(0.5), np.eye(2, 3), np.ones(2))
    result = dapd.solve(problem)
    assert np.array_equal(result.z, np.zeros(3))
    assert dapd.solve(bounded_problem()[0], time_limit=1e-9).z.shape == (12,)
