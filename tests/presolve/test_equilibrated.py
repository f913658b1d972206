"""Rows and columns are made alike for r²HPDHG, whose prox takes any curvature of x."""

import numpy as np
import pytest
import scipy.sparse as sp
from presolve_instances import PHIS, functions, known
from scipy.sparse.linalg import aslinearoperator

import dapd
from dapd.certificate.certify import certify
from dapd.presolve import Equilibrated, Presolve
from dapd.ways.first_order import with_multipliers

ROWS, COLUMNS = 6, 10


def uneven(rng, rows=ROWS, columns=COLUMNS, orders=4.0):
    M = rng.standard_normal((rows, columns))
    return 10.0 ** rng.uniform(-orders, orders, (rows, 1)) * M * 10.0 ** rng.uniform(-orders, orders, columns)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array, lambda M: dapd.RowBlocks([M[:2], sp.csr_array(M[2:])])])
def test_rows_and_columns_have_sizes_near_one(form):
    rng = np.random.default_rng(0)
    for phi in (dapd.Zero(), dapd.NonNegative(), dapd.L1(0.3)):
        given = dapd.Problem(dapd.Quadratic(None, np.ones(COLUMNS)), form(uneven(rng)), np.ones(ROWS), phi)
        M = abs(Equilibrated.apply(given).problem.M.dense())
        for sizes in (np.linalg.norm(M, axis=0), np.linalg.norm(M, axis=1), M.max(axis=0), M.max(axis=1)):
            assert sizes.min() >= 0.1
            assert sizes.max() <= 4.0


@pytest.mark.parametrize("phi", PHIS)
@pytest.mark.parametrize("f", ["dense", "sparse", "least squares", "logistic"])
def test_the_solution_is_kept_and_factors_are_undone(f, phi):
    rng = np.random.default_rng(5)
    problem = known(functions(rng)[f](), uneven(rng, orders=1.0), PHIS[phi], rng, bounds=True)
    transform = Equilibrated.apply(problem)
    x, y = problem.x_star, problem.stacked.y_star
    near = transform.start(x, y)
    assert certify(transform.problem.stacked, *near).error <= 1e-10 + 1e3 * certify(problem.stacked, x, y).error
    for found, wanted in zip(transform.back(*near), (x, y), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-15)
    scaled = transform.rows[: problem.rows, None] * problem.M.dense() * transform.columns
    np.testing.assert_allclose(transform.problem.M.dense(), scaled, rtol=1e-15)
    np.testing.assert_array_equal(transform.problem.lower, problem.lower / transform.columns)
    np.testing.assert_array_equal(transform.problem.upper, problem.upper / transform.columns)


def test_groups_share_a_factor():
    rng = np.random.default_rng(2)
    phi = dapd.GroupBall(0.8, [slice(0, 3), slice(3, 6)])
    transform = Equilibrated.apply(dapd.Problem(dapd.Quadratic(np.ones(COLUMNS)), uneven(rng), np.zeros(ROWS), phi))
    assert len(set(transform.rows[:3])) == len(set(transform.rows[3:])) == 1


def test_rows_of_an_identity_stay_rows_of_an_identity():
    rng = np.random.default_rng(3)
    M = dapd.RowBlocks([uneven(rng), dapd.Identity(COLUMNS)])
    given = dapd.Problem(dapd.Quadratic(np.ones(COLUMNS)), M, np.zeros(ROWS + COLUMNS), dapd.L1(0.3))
    new = Equilibrated.apply(given).problem
    np.testing.assert_array_equal(new.M.dense()[ROWS:], np.eye(COLUMNS))


def test_it_is_left_out_where_it_cannot_be_done():
    rng = np.random.default_rng(4)
    M, b, f = uneven(rng), np.ones(ROWS), dapd.Quadratic(np.ones(COLUMNS))
    assert Equilibrated.apply(dapd.Problem(f, M, b)) is not None
    in_python = dapd.Smooth(lambda x: x @ x, lambda x: 2 * x, 2.0, 2.0)
    for problem in (
        dapd.Problem(f, aslinearoperator(M), b),
        dapd.Problem(dapd.PseudoHuber(0.5), M, b),  # f keeps its units
        dapd.Problem(in_python, M, b),
        dapd.Problem(f, np.zeros((0, COLUMNS)), []),
        dapd.Problem(f, dapd.Identity(COLUMNS), np.zeros(COLUMNS), dapd.GroupBall(1.0, 5)),
        dapd.Problem(dapd.Quadratic(np.full(COLUMNS, 1e-140)), 1e60 * M, b),  # its square would be zero
    ):
        assert Equilibrated.apply(problem) is None


def test_another_b_is_scaled_in_the_same_way():
    rng = np.random.default_rng(6)
    given = dapd.Problem(dapd.Quadratic(np.ones(COLUMNS)), uneven(rng), np.ones(ROWS))
    first = Presolve.apply(given, [Equilibrated.apply])
    again = first.again(given.replaced(b=np.arange(1.0, ROWS + 1)))
    (one,), (other,) = first.transforms, again.transforms
    assert other.columns is one.columns
    np.testing.assert_array_equal(other.problem.b, one.rows * np.arange(1.0, ROWS + 1))


def test_multipliers_of_bounds_are_completed():
    f, x = dapd.Quadratic(np.ones(3), np.array([2.0, -2.0, 0.5])), np.array([1.0, -1.0, 0.5])
    problem = dapd.Problem(f, np.ones((1, 3)), [0.5], bounds=(-1.0, 1.0))
    y = with_multipliers(problem, x, np.zeros(1))
    np.testing.assert_allclose(y, [0.0, 1.0, -1.0, 0.0])
    assert with_multipliers(problem, x, y) is y  # nothing is missing
    free = dapd.Problem(f, np.ones((1, 3)), [0.5])
    assert with_multipliers(free, x, y) is y
