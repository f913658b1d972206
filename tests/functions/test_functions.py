"""f: values, gradients, and constants that are safe bounds."""

import numpy as np
import pytest
import scipy.sparse as sp
from cores import needs_core
from instances import hessian
from scipy.sparse.linalg import LinearOperator, aslinearoperator

import dapd
import dapd.jax
from dapd.testing import check_gradient, check_strong_convexity

RNG = np.random.default_rng(0)
A = RNG.standard_normal((12, 5))
D = RNG.standard_normal(12)
LABELS = np.sign(D)
H = hessian(RNG, 50.0, 5)

FUNCTIONS = {
    "diagonal": dapd.Quadratic(np.linspace(1, 3, 5), np.ones(5)),
    "dense": dapd.Quadratic(H, np.ones(5)),
    "sparse": dapd.Quadratic(sp.csr_matrix(H), np.ones(5)),
    "operator": dapd.Quadratic(aslinearoperator(H), np.ones(5), mu=0.999, L=50.01),
    "no linear term": dapd.Quadratic(H),
    "pseudo-huber": dapd.PseudoHuber(0.4),
    "least squares": dapd.LeastSquares(A, D),
    "ridge": dapd.LeastSquares(A.T, np.ones(5), 0.3),
    "sparse least squares": dapd.LeastSquares(sp.csr_array(A), D, 0.1),
    "logistic": dapd.Logistic(A, LABELS, 0.2),
    "separable": dapd.Separable([dapd.PseudoHuber(0.4), dapd.Quadratic(np.ones(3))], sizes=[2, 3]),
    "own": dapd.Smooth(lambda x: float(np.sum(np.log(np.cosh(x)) + x * x)), lambda x: np.tanh(x) + 2 * x, 2.0, 3.0),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradient_agrees_with_the_value(name):
    f = FUNCTIONS[name]
    check_gradient(f, np.linspace(-1, 1, f.size or 5))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_constants_hold(name):
    f = FUNCTIONS[name]
    check_strong_convexity(f, np.linspace(-1, 1, f.size or 5), trials=300)


def test_computed_constants_are_tight():
    eigenvalues = np.linalg.eigvalsh(H)
    for name in ("dense", "sparse"):
        f = FUNCTIONS[name]
        assert eigenvalues[0] * (1 - 1e-9) <= f.mu <= eigenvalues[0] * (1 + 1e-12)
        assert eigenvalues[-1] * (1 - 1e-12) <= f.L <= eigenvalues[-1] * (1 + 1e-9)
    gram = np.linalg.eigvalsh(A.T @ A)
    assert FUNCTIONS["least squares"].mu == pytest.approx(gram[0])
    assert pytest.approx(gram[-1]) == FUNCTIONS["least squares"].L
    assert FUNCTIONS["ridge"].mu == pytest.approx(0.3)
    assert pytest.approx(gram[-1] / 4 + 0.2) == FUNCTIONS["logistic"].L
    assert FUNCTIONS["logistic"].mu == 0.2
    assert pytest.approx(1 / 0.4 + 0.4) == dapd.PseudoHuber(0.4).L


def test_large_sparse_quadratic_has_safe_constants():
    size = 5_000
    K = sp.diags_array([-1.0, 3.0, -1.0], offsets=[-1, 0, 1], shape=(size, size))
    f = dapd.Quadratic(K.tocsr())
    assert 0.9 <= f.mu <= 3 - 2 * np.cos(np.pi / (size + 1))
    assert 3 + 2 * np.cos(np.pi / (size + 1)) <= f.L <= 5.1


def test_with_condition_gives_the_condition_number():
    f = dapd.PseudoHuber.with_condition(1e4)
    assert f.L / f.mu == pytest.approx(1e4)


def test_logistic_does_not_overflow():
    f = dapd.Logistic(1e4 * A, LABELS, 0.2)
    x = np.ones(5)
    assert np.isfinite(f.value(x))
    assert np.isfinite(f.grad(x)).all()


def test_separable_takes_its_sizes_from_the_problem():
    f = dapd.Separable([dapd.PseudoHuber(0.4), dapd.PseudoHuber(0.2)])
    problem = dapd.Problem(f, np.eye(3, 5), np.ones(3), blocks=[slice(0, 2), slice(2, 5)])
    assert problem.f.blocks == problem.blocks
    x = np.linspace(-1, 1, 5)
    expected = np.concatenate([dapd.PseudoHuber(0.4).grad(x[:2]), dapd.PseudoHuber(0.2).grad(x[2:])])
    assert np.array_equal(problem.f.grad(x), expected)
    assert f.blocks is None  # the given f is not changed


def test_separable_gives_the_problem_its_blocks():
    f = dapd.Separable([dapd.Quadratic(np.ones(2)), dapd.Quadratic(np.ones(3))])
    assert dapd.Problem(f, np.eye(3, 5), np.ones(3)).blocks == [slice(0, 2), slice(2, 5)]


@needs_core
def test_least_squares_of_x_itself_needs_no_matrix():
    rng = np.random.default_rng(0)
    d = rng.standard_normal(12)
    f, plain = dapd.LeastSquares(dapd.Identity(12), d, 0.5), dapd.LeastSquares(np.eye(12), d, 0.5)
    x = rng.standard_normal(12)
    assert f.value(x) == pytest.approx(plain.value(x))
    np.testing.assert_allclose(f.grad(x), plain.grad(x))
    M, b = rng.standard_normal((4, 12)), rng.standard_normal(4)
    result = dapd.solve(dapd.Problem(f, M, b), "y-dapd", tol=1e-10)
    assert result.engine == "native"
    np.testing.assert_allclose(result.x, dapd.solve(dapd.Problem(plain, M, b), tol=1e-10).x, atol=1e-8)
    part = dapd.LeastSquares(dapd.Identity(12, rows=5), d[:5], 0.5)  # not all of x
    np.testing.assert_allclose(part.grad(x)[5:], 0.5 * x[5:])


def entropy(c):
    """Σ x log x − cᵀx, which has no gradient at zero, and no value below."""
    return dapd.Smooth(lambda x: float(np.sum(x * np.log(x)) - c @ x), lambda x: np.log(x) + 1 - c)


@pytest.mark.parametrize("bounds", [(0, None), (0, 1), (1e-9, np.inf)])
@pytest.mark.parametrize("x0", [None, np.full(6, 0.1)])
def test_f_without_a_gradient_at_zero_starts_inside_the_bounds(bounds, x0):
    c = np.random.default_rng(0).standard_normal(6)
    problem = dapd.Problem(entropy(c), np.ones((1, 6)), [1.0], bounds=bounds)
    result = dapd.solve(problem, x0=x0)
    assert result.converged
    assert result.x == pytest.approx(np.exp(c) / np.exp(c).sum(), abs=1e-5)


def test_a_named_method_starts_inside_the_bounds_too():
    f = dapd.Smooth(lambda x: float(x @ x - np.log(x).sum()), lambda x: 2 * x - 1 / x, mu=2.0, L=20.0)
    result = dapd.solve(dapd.Problem(f, np.ones((1, 4)), [4.0], bounds=(0, [3.0, np.inf, 1.0, 1.0])), "papc")
    assert result.converged
    assert result.x == pytest.approx(np.ones(4), abs=1e-4)


def test_f_with_a_gradient_at_zero_starts_there():
    f = dapd.Smooth(lambda x: float(x @ x), lambda x: 2 * x, mu=2.0, L=2.0)
    assert not dapd.Problem(f, np.ones((1, 4)), [4.0], bounds=(1, 3)).start().any()


def test_f_without_a_gradient_at_any_start_asks_for_x0():
    f = dapd.Smooth(lambda x: -float(np.log(x - 7).sum()), lambda x: np.where(x > 7, -1 / (x - 7), np.nan))
    problem = dapd.Problem(f, np.ones((1, 3)), [30.0], bounds=(0, None))
    with pytest.raises(ValueError, match=r"f.grad returned NaN .* inside the bounds too; give x0="):
        dapd.solve(problem)
    assert dapd.solve(problem, x0=np.full(3, 9.0)).converged


SADDLE = np.diag(np.append(np.linspace(1.0, 2.0, 30), -0.5))
INDEFINITE = {
    "diagonal": lambda: dapd.Quadratic(np.diag(SADDLE), mu=0.0, L=2.0),
    "dense": lambda: dapd.Quadratic(SADDLE, mu=0.0, L=2.0),
    "sparse": lambda: dapd.Quadratic(sp.csr_array(SADDLE), mu=0.0, L=2.0),
    "operator": lambda: dapd.Quadratic(aslinearoperator(SADDLE)),
    "operator in float32": lambda: dapd.Quadratic(aslinearoperator(SADDLE.astype(np.float32)), mu=0.0, L=2.0),
}


@pytest.mark.parametrize("name", INDEFINITE)
def test_an_indefinite_H_with_given_constants_or_as_products_is_refused(name):
    with pytest.raises(ValueError, match=r"f is not convex: H has the eigenvalue -0\.\d+.*positive semidefinite"):
        INDEFINITE[name]()


def test_a_semidefinite_H_with_given_constants_is_accepted():
    rng = np.random.default_rng(0)
    thin = rng.standard_normal((200, 3))
    for dtype in (np.float64, np.float32):
        H = (thin @ thin.T).astype(dtype)
        for given in (H, sp.csr_array(H), aslinearoperator(H)):
            assert dapd.Quadratic(given, mu=0.0, L=1e4).mu == 0
    for given in (np.zeros((5, 5)), aslinearoperator(np.zeros((5, 5))), aslinearoperator(np.ones((1, 1)))):
        assert dapd.Quadratic(given, mu=0.0, L=1.0).L == 1.0


def test_an_operator_H_must_be_symmetric_and_leave_its_argument_alone():
    with pytest.raises(ValueError, match=r"H must be symmetric, but uᵀ\(Hv\) ="):
        dapd.Quadratic(aslinearoperator(np.triu(np.ones((9, 9)))))

    def doubled(x):
        x *= 2
        return x

    with pytest.raises(ValueError, match=r"H.matvec changes its argument; let it compute in a new array"):
        dapd.Quadratic(LinearOperator((9, 9), matvec=doubled, dtype=float))
    with pytest.raises(TypeError, match=r"H must give 9 real numbers, found .* complex"):
        dapd.Quadratic(aslinearoperator(1j * np.eye(9)))


def test_few_products_with_an_operator_H():
    calls = []
    H = LinearOperator((400, 400), matvec=lambda x: calls.append(x) or 2 * x, dtype=float)
    dapd.Quadratic(H)
    assert len(calls) <= 10


def test_a_function_of_dapd_jax_is_checked_by_a_problem():
    problem = dapd.Problem(dapd.jax.Quadratic(H, np.ones(5)), np.ones((1, 5)), [1.0])
    assert type(problem.f) is dapd.Quadratic
    assert problem.f.mu > 0
    with pytest.raises(ValueError, match="f is not convex"):
        dapd.Problem(dapd.jax.Quadratic(-H), np.ones((1, 5)), [1.0])


def test_blocks_within_blocks_are_all_known():
    inner = dapd.Separable([dapd.PseudoHuber(0.4), FUNCTIONS["dense"]], sizes=[2, 5])
    f = dapd.Separable([FUNCTIONS["logistic"], inner])
    x = np.linspace(-1, 1, 12)
    parts = f.parts(12)
    assert [(part.at.start, part.at.stop) for part in parts] == [(0, 5), (5, 7), (7, 12)]
    np.testing.assert_allclose(np.concatenate([part.terms.gradient(x[part.at]) for part in parts]), f.grad(x))
    M = np.vander(np.linspace(-1, 1, 3), 12)
    results = [
        dapd.solve(dapd.Problem(f, M, np.ones(3)), tol=1e-9, engine=engine) for engine in ("auto", "python", "jax")
    ]
    for result in results:
        assert result.converged
        np.testing.assert_allclose(result.x, results[0].x, atol=1e-6)
