"""Columns that differ much are scaled for first-order methods; others, and an f that would lose from it, are not."""

import numpy as np
import pytest
import scipy.sparse as sp
from presolve_instances import COLUMNS, PHIS, ROWS, functions, known
from scipy.sparse.linalg import aslinearoperator

import dapd
from dapd.certificate.certify import certify
from dapd.presolve import CLEANING, CONDITIONING, STACKING, ColumnScaling, Presolve
from dapd.ways.first_order import FirstOrder

KINDS = ["lp", "dense", "sparse", "part", "least squares"]
WITHOUT = tuple(step for step in CLEANING + CONDITIONING if step != ColumnScaling.apply)


def tiny(kind, seed=0, spread=3.0):
    """Half of the rows are equations; x was divided by factors from 10^−spread to 10^spread."""
    rng = np.random.default_rng(seed)
    n, m = 12, 6
    units = 10.0 ** rng.permutation(np.linspace(-spread, spread, n))
    M, x, y = rng.standard_normal((m, n)), rng.standard_normal(n), rng.standard_normal(m)
    y[3:] = np.maximum(y[3:], 0.0)
    b = M @ x + np.where((y > 0) | (np.arange(m) < 3), 0.0, 0.5)
    bounds, slope = None, -M.T @ y
    if kind == "lp":
        x = np.where(np.arange(n) < m, abs(x), 0.0)
        b, slope = M @ x, slope + np.where(x > 0, 0.0, 0.5)
        bounds = 0.0, np.inf
        f = dapd.Quadratic(None, -slope * units)
    elif kind == "least squares":
        A = rng.standard_normal((2 * n, n))
        f = dapd.LeastSquares(A * units, A @ x - np.linalg.lstsq(A.T, slope, rcond=None)[0])
    else:
        B = rng.standard_normal((n, n)) / np.sqrt(n)
        H = B @ B.T + 0.1 * np.eye(n)
        if kind == "part":
            H[5:], H[:, 5:] = 0.0, 0.0
        scaled = units[:, None] * H * units
        f = dapd.Quadratic(sp.csr_array(scaled) if kind == "sparse" else scaled, units * (H @ x - slope))
    phi = dapd.Stack([dapd.Zero(), dapd.NonNegative()], sizes=[3, 3])
    return dapd.Problem(f, sp.csr_array(M * units) if kind == "sparse" else M * units, b, phi, bounds=bounds)


def uneven(M):
    return M * np.geomspace(1e-3, 1e3, COLUMNS)


@pytest.mark.parametrize("phi", PHIS)
@pytest.mark.parametrize("f", ["dense", "sparse", "least squares", "sparse least squares", "logistic"])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array, lambda M: dapd.RowBlocks([M[:2], sp.csr_array(M[2:])])])
def test_column_scaling_keeps_the_solution_and_is_undone_without_rounding(f, phi, form):
    rng = np.random.default_rng(5)
    M = form(uneven(rng.standard_normal((ROWS, COLUMNS))))
    problem = known(functions(rng)[f](), M, PHIS[phi], rng, bounds=True)
    transform = ColumnScaling.apply(problem)
    x, y = problem.x_star, problem.stacked.y_star
    near = transform.start(x, y)
    assert certify(transform.problem.stacked, *near).error <= 1e-10 + 1e3 * certify(problem.stacked, x, y).error
    assert all(np.array_equal(*pair) for pair in zip(transform.back(*near), (x, y), strict=True))
    assert np.array_equal(np.log2(transform.columns), np.round(np.log2(transform.columns)))
    scaled = transform.rows[:, None] * problem.M.dense() * transform.columns
    np.testing.assert_array_equal(transform.problem.M.dense(), scaled)
    np.testing.assert_array_equal(transform.problem.lower, problem.lower / transform.columns)
    np.testing.assert_array_equal(transform.problem.upper, problem.upper / transform.columns)


@pytest.mark.parametrize("kind", KINDS)
def test_restarts_solve_what_they_cannot_without_column_scaling(kind, monkeypatch):
    problem = tiny(kind)
    result = dapd.solve(problem, engine="python", max_iterations=6000)
    assert result.status == "optimal"
    dual = np.concatenate([result.y, result.z]) if problem.lower is not None else result.y
    assert certify(problem, result.x, dual).error == result.certificate.error <= 1e-6  # of the problem that was given
    without = {"anchored": (), "guess": (*WITHOUT, *STACKING)}
    monkeypatch.setattr(FirstOrder, "_steps", lambda self, kind: without[kind])
    assert dapd.solve(problem, engine="python", max_iterations=6000).status == "iteration_limit"


@pytest.mark.parametrize("kind", KINDS)
def test_columns_that_are_alike_stay_as_they_are(kind):
    assert ColumnScaling.apply(tiny(kind, spread=0.0)) is None
    assert ColumnScaling.apply(tiny(kind, spread=1.5)) is not None


def test_a_round_f_stays_round_unless_columns_differ_very_much():
    rng = np.random.default_rng(0)
    M, f = rng.standard_normal((ROWS, COLUMNS)), dapd.Quadratic(np.ones(COLUMNS))
    for ratio, applied in ((1.0, False), (30.0, False), (1e6, True)):
        scaled = M * np.geomspace(1.0, ratio, COLUMNS)
        inequalities = dapd.Problem(f, scaled, np.ones(ROWS), dapd.NonNegative())
        assert (ColumnScaling.apply(inequalities) is not None) == applied
        # orthonormal equations and κ = 1 cannot be improved
        assert ColumnScaling.apply(dapd.Problem(f, scaled, np.ones(ROWS))) is None


@pytest.mark.parametrize("kind", ["dense", "part"])
def test_the_unit_of_f_makes_no_difference(kind):
    problem = tiny(kind)
    columns = ColumnScaling.apply(problem).columns
    for factor in (2.0**-20, 2.0**20):
        other = dapd.Problem(dapd.Quadratic(factor * problem.f.H), problem.M, problem.b, problem.phi)
        np.testing.assert_array_equal(ColumnScaling.apply(other).columns, columns)


def test_columns_become_alike():
    problem = tiny("lp")
    new = Presolve.apply(problem, [ColumnScaling.apply]).problem
    before, after = (np.linalg.norm(one.M.dense(), axis=0) for one in (problem, new))
    assert before.max() / before.min() > 1e5
    assert after.max() / after.min() < 10


def test_constants_that_would_leave_their_range_are_left_alone():
    M = 1e60 * np.random.default_rng(0).standard_normal((4, 6)) * np.geomspace(1e-3, 1e3, 6)
    problem = dapd.Problem(dapd.Quadratic(np.full(6, 1e-140), np.ones(6)), M, np.ones(4), dapd.NonNegative())
    assert ColumnScaling.apply(problem) is None


def test_what_has_no_entries_is_left_alone():
    rng = np.random.default_rng(0)
    M = uneven(rng.standard_normal((ROWS, COLUMNS)))
    b, H = np.ones(ROWS), np.diag(np.geomspace(1, 1e6, COLUMNS)) + 0.1
    quadratic = dapd.Quadratic(H)
    matrix_free = dapd.Quadratic(aslinearoperator(H), mu=0.9, L=2e6)
    group = dapd.Problem(quadratic, dapd.Identity(COLUMNS), np.zeros(COLUMNS), dapd.GroupBall(1.0, 5))
    assert ColumnScaling.apply(dapd.Problem(quadratic, M, b, dapd.NonNegative())) is not None
    for problem in (
        dapd.Problem(quadratic, aslinearoperator(M), b, dapd.NonNegative()),
        dapd.Problem(matrix_free, M, b, dapd.NonNegative()),
        dapd.Problem(dapd.PseudoHuber(0.5), M, b, dapd.NonNegative()),
        group,
    ):
        assert ColumnScaling.apply(problem) is None
