"""A Hessian that is factored: the same solutions, with u = Fx as variables whose curvature is the identity."""

import numpy as np
import pytest
import scipy.sparse as sp

import dapd
from dapd.certificate.certify import certify
from dapd.presolve import FactoredCurvature, Presolve

ROWS, COLUMNS = 4, 8


def semidefinite(rank, *, alone=2):
    """An H of this rank on all but a few columns, which it does not couple."""
    rng = np.random.default_rng(rank)
    B = rng.standard_normal((rank, COLUMNS - alone))
    H = np.zeros((COLUMNS, COLUMNS))
    H[: COLUMNS - alone, : COLUMNS - alone] = B.T @ B
    H[range(COLUMNS - alone, COLUMNS), range(COLUMNS - alone, COLUMNS)] = np.arange(alone, dtype=float)
    return H


def built(H, *, bounded=True, sparse=False, phi=None):
    """A problem with a chosen solution, and the multipliers there."""
    rng = np.random.default_rng(5)
    M, x = rng.standard_normal((ROWS, COLUMNS)), rng.standard_normal(COLUMNS)
    phi = phi or dapd.NonNegative()
    v = rng.standard_normal(ROWS)
    y = phi.sized(ROWS).prox(v, 1.0)
    z, bounds = np.zeros(COLUMNS), None
    if bounded:
        lower, upper = np.full(COLUMNS, -np.inf), np.full(COLUMNS, np.inf)
        lower[0], upper[1], z[0], z[1] = x[0], x[1], -0.5, 0.7
        bounds = lower, upper
    f = dapd.Quadratic(sp.csr_array(H) if sparse else H, H @ x + M.T @ y + z)
    problem = dapd.Problem(f, sp.csr_array(M) if sparse else M, M @ x - (v - y), phi, bounds=bounds)
    return problem, x, np.concatenate([y, z]) if bounded else y


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("bounded", [False, True])
@pytest.mark.parametrize("rank", [1, 3, 5])
def test_a_solution_is_one_of_the_factored_problem_and_comes_back(rank, bounded, sparse):
    problem, x, y = built(semidefinite(rank), bounded=bounded, sparse=sparse)
    transform = FactoredCurvature.apply(problem)
    assert transform.problem.columns == COLUMNS + rank
    assert transform.problem.proximable.rest is None
    point = transform.start(x, y)
    assert certify(transform.problem, *point).error <= 1e-12
    for back, given in zip(transform.back(*point), (x, y), strict=True):
        np.testing.assert_array_equal(back, given)
    again = transform.with_b(problem.b + 1.0)
    np.testing.assert_array_equal(again.problem.b[:ROWS], problem.b + 1.0)
    assert not again.problem.b[ROWS:].any()


@pytest.mark.parametrize("rank", [2, 5])
def test_the_factor_and_the_diagonal_are_the_hessian(rank):
    H = semidefinite(rank)
    transform = FactoredCurvature.apply(built(H)[0])
    F, D = transform.F.toarray(), transform.problem.proximable.curvature[:COLUMNS]
    np.testing.assert_allclose(F.T @ F + np.diag(D), H, atol=1e-12)
    assert not F[:, -2:].any()  # columns that H does not couple keep their curvature


def test_nothing_is_factored_without_need_or_if_that_is_not_possible():
    rng = np.random.default_rng(0)
    M, b = rng.standard_normal((2, 3)), np.ones(2)
    for f in (
        dapd.Quadratic(np.ones(3)),
        dapd.Quadratic(None, np.ones(3)),
        dapd.LeastSquares(rng.standard_normal((4, 3)), np.ones(4)),
        dapd.Logistic(rng.standard_normal((4, 3)), np.array([1.0, -1, 1, -1]), 1.0),
        dapd.Smooth(lambda x: x @ x / 2, lambda x: x, L=1.0),
        dapd.Quadratic(np.diag([1e-6, 1.0, 1e6]) @ (np.eye(3) + 0.1) @ np.diag([1e-6, 1.0, 1e6])),  # units
    ):
        assert FactoredCurvature.apply(dapd.Problem(f, M, b)) is None
    few = sp.random_array((600, 600), density=0.005, rng=rng)
    filled = dapd.Quadratic(sp.csr_array(few.T @ few + sp.eye_array(600)))  # its factor has many more entries
    assert FactoredCurvature.apply(dapd.Problem(filled, sp.eye_array(600).tocsr(), np.ones(600))) is None


@pytest.mark.parametrize("engine", ["native", "python"])
@pytest.mark.parametrize("rank", [1, 5])
def test_restarts_solve_the_given_problem(rank, engine):
    problem, _, _ = built(semidefinite(rank))
    result = dapd.solve(problem, engine=engine, direct=False, tol=1e-9)
    assert result.status == "optimal"
    assert result.gradients == 0  # nothing was linearised
    dual = np.concatenate([result.y, result.z])
    assert certify(problem, result.x, dual).error <= 1e-9


def test_a_new_c_or_hessian_is_factored_anew_and_a_new_b_is_not():
    problem, _, _ = built(semidefinite(3))
    first = Presolve.apply(problem, (FactoredCurvature.apply,))
    assert first.again(problem.replaced(b=2 * problem.b)).transforms[0].F is first.transforms[0].F
    assert first.again(problem.replaced(f=problem.f.replaced(c=np.ones(COLUMNS)))) is None
    solver = dapd.Solver(problem, engine="native", direct=False, tol=1e-8)
    solver.solve()
    for changed in ({"c": 1.01 * problem.f.c}, {"H": 2 * semidefinite(3)}, {"b": problem.b + 0.1}):
        solver.update(**changed)
        result = solver.solve()
        expected = dapd.solve(solver.problem, tol=1e-9)
        assert result.status == expected.status == "optimal"
        assert result.objective == pytest.approx(expected.objective, rel=1e-6, abs=1e-6)


def test_curvatures_of_other_units_are_all_kept():
    block = np.array([[2.0, 1.0], [1.0, 0.5]])
    H = np.kron(np.diag([1e12, 1e-5]), block)
    F = FactoredCurvature.apply(dapd.Problem(dapd.Quadratic(H), np.ones((1, 4)), [1.0])).F.toarray()
    np.testing.assert_allclose(F.T @ F, H, rtol=1e-9)
