"""A loss that nobody knows: a class with value, slope and curvature is enough for every way to solve a problem."""

import jax
import numpy as np
import pytest
import scipy.sparse as sp

import dapd
import dapd.jax
from dapd.arrays import namespace
from dapd.engines.native.block_tables import tabulate_blocks
from dapd.engines.protocol import NotNative
from dapd.functions import Function
from dapd.functions.losses import Loss
from dapd.functions.terms import Terms
from dapd.machine.core import variants
from dapd.operators.convert import as_operator
from dapd.presolve.terms import parts_of, scaled_function
from dapd.ways.clarabel.conic import conic

ROWS, COLUMNS, SAMPLES = 6, 10, 15


class LogCosh(Loss):
    """log cosh((u − d)/width)."""

    def __init__(self, width=1.0):
        self.width = width

    def value(self, u, d):
        t = abs(u - d) / self.width
        return t + namespace(u).log1p(namespace(u).exp(-2 * t)) - np.log(2.0)

    def slope(self, u, d):
        return namespace(u).tanh((u - d) / self.width) / self.width

    def curvature(self, u, d):
        return (1 - namespace(u).tanh((u - d) / self.width) ** 2) / self.width**2


class Poisson(Loss):
    """exp(u) − d·u, whose curvature has no bound."""

    def value(self, u, d):
        return namespace(u).exp(u) - d * u

    def slope(self, u, d):
        return namespace(u).exp(u) - d

    def curvature(self, u, d):
        return namespace(u).exp(u)


class Regression(Function):
    """Σ ℓ(aᵢᵀx; dᵢ) + (ridge/2)‖x‖² − cᵀx."""

    def __init__(self, loss, A, d, ridge, c=None, L=None):
        self.loss, self.A, self.d, self.ridge, self.c_ = loss, None if A is None else as_operator(A), d, ridge, c
        self.size = len(d) if A is None else self.A.shape[1]
        self._constants(ridge, L)

    def lowered(self):
        return Terms(self.loss, self.A, self.d, ridge=self.ridge, c=self.c_)


def wide(A):
    return np.linalg.norm(A.toarray() if sp.issparse(A) else A, 2) ** 2


LOSSES = {
    "log-cosh": lambda A, d, c: Regression(LogCosh(0.5), A, d, 0.4, c, None if A is None else 4 * wide(A) + 0.4),
    "log-cosh without constants": lambda A, d, c: Regression(LogCosh(2.0), A, d, 0.4, c),
    "poisson": lambda A, d, c: Regression(Poisson(), A, abs(d), 0.4, c),
}
MATRICES = {
    "dense": lambda rng: 0.5 * rng.standard_normal((SAMPLES, COLUMNS)),
    "sparse": lambda rng: sp.random_array((SAMPLES, COLUMNS), density=0.3, rng=rng, format="csr"),
    "of x itself": lambda rng: None,
}


def built_backwards(loss="log-cosh", matrix="dense", *, phi=None, bounds=None):
    """A problem whose solution is known: c makes x* stationary."""
    rng = np.random.default_rng(3)
    A = MATRICES[matrix](rng)
    M, x = rng.standard_normal((ROWS, COLUMNS)), 0.3 * rng.standard_normal(COLUMNS)
    d = rng.standard_normal(COLUMNS if A is None else SAMPLES)
    y = np.where(np.arange(ROWS) < 3, 1.0, 0.0)  # the first rows bind
    if phi is None:
        y[3:] = 1.0
    b = M @ x + np.where(y > 0, 0.0, 0.5)
    slope = LOSSES[loss](A, d, None).grad(x) + M.T @ y
    problem = dapd.Problem(LOSSES[loss](A, d, slope), M, b, phi, bounds=bounds)
    return problem.with_solution(x, y)


def check(result, problem, within=1e-6):
    assert result.converged, result.message
    np.testing.assert_allclose(result.x, problem.x_star, atol=within)


@pytest.mark.parametrize("phi", [None, dapd.NonNegative()], ids=["equations", "inequalities"])
@pytest.mark.parametrize("matrix", MATRICES)
@pytest.mark.parametrize("loss", LOSSES)
def test_auto_solves_it(loss, matrix, phi):
    problem = built_backwards(loss, matrix, phi=phi)
    dapd.testing.check_gradient(problem.f, problem.x_star)
    check(dapd.solve(problem, tol=1e-9), problem)


@pytest.mark.parametrize("engine", ["native", "python", "jax"])
@pytest.mark.parametrize("matrix", MATRICES)
@pytest.mark.parametrize("method", ["auto", "y-dapd"])
def test_every_engine_solves_it(method, matrix, engine):
    if engine == "native" and not variants():
        pytest.skip("the native core was not built")
    problem = built_backwards("log-cosh" if matrix != "of x itself" else "log-cosh without constants", matrix)
    if problem.f.L is None and method != "auto":
        problem.f.L = 0.25 + 0.4
    result = dapd.solve(problem, method, tol=1e-9, engine=engine, direct=False)
    check(result, problem)
    if method != "auto":
        assert result.engine == engine
    if engine == "native" and method != "auto":
        assert "LogCosh" in result.engine.reason


@pytest.mark.parametrize("engine", ["auto", "jax"])
def test_a_batch_solves_it(engine):
    problem = built_backwards(phi=dapd.NonNegative())
    shifts = np.random.default_rng(0).standard_normal((4, ROWS)) * 0.1
    results = dapd.solve_batch(problem, b=problem.b + shifts, tol=1e-9, engine=engine)
    for result, shift in zip(results, shifts, strict=True):
        alone = dapd.solve(problem.replaced(b=problem.b + shift), tol=1e-9)
        np.testing.assert_allclose(result.x, alone.x, atol=1e-6)
    many = [built_backwards(loss) for loss in LOSSES]
    for result, one in zip(dapd.solve_batch(many, tol=1e-9, engine=engine), many, strict=True):
        check(result, one)


def test_fixed_variables_and_bounds_stay_exact():
    problem = built_backwards()
    x = problem.x_star
    lower, upper = x - 1.0, x + 1.0
    lower[2] = upper[2] = x[2]
    bounded = dapd.Problem(problem.f, problem.M, problem.b, bounds=(lower, upper), x_star=x)
    check(dapd.solve(bounded, tol=1e-9), bounded)


def test_losses_of_blocks_differ():
    rng = np.random.default_rng(0)
    parts = [
        LOSSES[loss](rng.standard_normal((7, 5)) / 3, rng.standard_normal(7), rng.standard_normal(5)) for loss in LOSSES
    ]
    M = rng.standard_normal((4, 15))
    problem = dapd.Problem(dapd.Separable(parts), M, rng.standard_normal(4))
    results = [dapd.solve(problem, tol=1e-9, engine=engine) for engine in ("auto", "python", "jax")]
    for result in results:
        assert result.converged
        np.testing.assert_allclose(result.x, results[0].x, atol=1e-6)


class Unchecked(Function):
    """The same for parameters that JAX traces."""

    def __init__(self, loss, A, d):
        self.loss, self.A, self.d = loss, A, d

    def lowered(self):
        return Terms(self.loss, self.A, self.d, ridge=0.4)


@pytest.mark.parametrize("loss", [LogCosh(0.5), Poisson()], ids=["log-cosh", "poisson"])
def test_jax_differentiates_the_solution(loss):
    rng = np.random.default_rng(0)
    A, d, M = rng.standard_normal((8, 5)) / 2, abs(rng.standard_normal(8)), rng.standard_normal((2, 5))
    weights, h = rng.standard_normal(5), 1e-5

    def constant(b):
        return dapd.jax.solve(Regression(loss, A, d, 0.4, np.ones(5)), M, b).x @ weights

    def of_data(A, d):
        return dapd.jax.solve(Unchecked(loss, A, d), M, np.ones(2), dapd.NonNegative()).x @ weights

    with jax.enable_x64(True):
        given = [(constant, [np.ones(2)]), (of_data, [A, d])]
        for function, arguments in given:
            slopes = jax.jit(jax.grad(function, argnums=tuple(range(len(arguments)))))(*arguments)
            for k, slope in enumerate(slopes):
                move = rng.standard_normal(slope.shape)
                ends = [[v + t * move if i == k else v for i, v in enumerate(arguments)] for t in (h, -h)]
                found = (function(*ends[0]) - function(*ends[1])) / (2 * h)
                assert np.sum(slope * move) == pytest.approx(float(found), rel=1e-5, abs=1e-8)


def test_jax_differentiates_blocks_of_different_losses():
    rng = np.random.default_rng(0)
    f = dapd.Separable(
        [made(rng.standard_normal((4, 3)) / 2, rng.standard_normal(4), None) for made in LOSSES.values()]
    )
    M, b, h = rng.standard_normal((2, 9)), np.array([0.3, -0.2]), 1e-5
    with jax.enable_x64(True):
        slopes = jax.jacobian(lambda b: dapd.jax.solve(f, M, b).x)(b)
        for k, e in enumerate(np.eye(2)):
            found = (dapd.jax.solve(f, M, b + h * e).x - dapd.jax.solve(f, M, b - h * e).x) / (2 * h)
            np.testing.assert_allclose(slopes[:, k], found, atol=1e-7)


# what nobody knows of it, nobody relies on


def test_what_is_not_known_is_said():
    problem = built_backwards("poisson")
    f = problem.f
    assert np.isnan(f.recession(np.ones(COLUMNS))) or f.recession(np.ones(COLUMNS)) == np.inf
    free = Regression(Poisson(), np.ones((3, COLUMNS)), np.ones(3), 0.0)
    assert np.isnan(free.recession(np.ones(COLUMNS)))  # so no ray is claimed
    assert not f.is_quadratic
    assert conic(problem) is None
    assert scaled_function(problem, parts_of(problem), np.linspace(1, 2, COLUMNS)).L is None
    with pytest.raises(NotNative, match="the loss Poisson"):
        tabulate_blocks([f], [slice(0, COLUMNS)], np.float64)
    assert Poisson().shifted(np.ones(3), np.ones(3)) is None


def test_a_loss_without_a_minimum_is_never_called_unbounded_without_a_proof():
    f = Regression(Poisson(), np.eye(COLUMNS), np.zeros(COLUMNS), 0.0)  # falls towards 0 for x → −∞
    result = dapd.solve(dapd.Problem(f, np.zeros((0, COLUMNS)), np.zeros(0)), max_iterations=200, time_limit=5.0)
    assert result.status != "unbounded"


def test_two_losses_with_the_same_numbers_are_equal():
    assert LogCosh(0.5) == LogCosh(0.5) != LogCosh(0.6)
    assert LogCosh() != Poisson()
    assert len({LogCosh(0.5), LogCosh(0.5), Poisson()}) == 2


def test_numbers_of_a_loss_do_not_compile_programs_again():
    from dapd.engines.jax.runner import place

    trees = []
    for width in (1, 0.7):
        problem = dapd.Problem(Regression(LogCosh(width), None, np.ones(COLUMNS), 0.4), np.ones((1, COLUMNS)), [1.0])
        trees.append(jax.tree.structure(place(problem).f))
    assert trees[0] == trees[1]
