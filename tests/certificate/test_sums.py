"""The sums of a certificate over rows and columns: the core's passes against NumPy."""

import math

import numpy as np
import pytest
import scipy.sparse as sp

import dapd
from dapd.certificate import sums
from dapd.certificate.sums import (
    Products,
    measure_columns,
    measure_rows,
    plain_columns,
    plain_products,
    plain_rows,
    products_of,
)
from dapd.machine.core import load, variants

pytestmark = pytest.mark.skipif(not variants(), reason="the native core was not built")
ROWS, COLUMNS = 21, 9
RNG = np.random.default_rng(0)
LOW, HIGH = -RNG.uniform(0, 1, ROWS), RNG.uniform(0, 1, ROWS)
LOW[::3], HIGH[1::3] = -np.inf, np.inf
PHIS = {
    "zero": dapd.Zero(),
    "nonnegative": dapd.NonNegative(),
    "box": dapd.Box(-0.3, 0.4),
    "boxes": dapd.Box(LOW, HIGH),
    "half-lines": dapd.Box(LOW, np.inf),
    "interval": dapd.Interval(-0.3, np.inf),
    "intervals": dapd.Interval(LOW, HIGH),
    "l1": dapd.L1(0.3),
    "weights": dapd.L1(abs(LOW.clip(-1))),
    "conjugate": dapd.Conjugate(dapd.Box(LOW, HIGH)),
    "twice": dapd.Conjugate(dapd.Conjugate(dapd.Interval(LOW, HIGH))),
    "stack": dapd.Stack([dapd.Zero(), dapd.Box(LOW[5:18], HIGH[5:18]), dapd.L1(0.2)], sizes=[5, 13, 3]),
}


@pytest.fixture(params=variants())
def core(request, monkeypatch):
    """Measure by this variant of the core."""
    found = load(request.param)
    monkeypatch.setattr(sums, "load", lambda: found)


@pytest.mark.parametrize("scale", [0.0, 1e-8, 1.0, 1e6])
@pytest.mark.parametrize("name", PHIS)
@pytest.mark.usefixtures("core")
def test_the_core_measures_rows_as_numpy_does(name, scale):
    rng, phi = np.random.default_rng(1), PHIS[name]
    M = rng.standard_normal((ROWS, COLUMNS)) * 10.0 ** rng.uniform(-3, 3, (ROWS, 1))
    problem = dapd.Problem(dapd.Quadratic(np.ones(COLUMNS), np.ones(COLUMNS)), M, rng.standard_normal(ROWS), phi)
    assert problem.row_table is not None
    x, y = scale * rng.standard_normal(COLUMNS), scale * rng.standard_normal(ROWS)
    for v in (y, phi.project(y), np.where(rng.random(ROWS) < 0.5, 0.0, phi.project(y))):
        fast, plain = (measure(problem, v, products_of(problem, x, v)) for measure in (measure_rows, plain_rows))
        np.testing.assert_allclose(fast, plain, rtol=1e-12, atol=1e-14 * scale)


@pytest.mark.parametrize("columns", [1, 3, 8, 21, 1000])
@pytest.mark.parametrize("scale", [0.0, 1e-8, 1e6])
@pytest.mark.usefixtures("core")
def test_the_core_measures_columns_as_numpy_does(columns, scale):
    rng = np.random.default_rng(2)
    f, ones = dapd.Quadratic(np.ones(columns), rng.standard_normal(columns)), np.ones((1, columns))
    lower, upper = -rng.random(columns) * scale, rng.random(columns) * scale
    lower[::3], upper[1::3] = -np.inf, np.inf
    x, grad, Mty = scale * rng.standard_normal((3, columns)) * 10.0 ** rng.uniform(-3, 3, (3, columns))
    for bounds in (None, (lower, upper), (0.0, None)):
        problem = dapd.Problem(f, ones, [1.0], bounds=bounds)
        for v in (Mty, -grad, np.where(rng.random(columns) < 0.5, -grad, Mty)):
            for u in (x, problem.within_bounds(x, np.zeros(1))):
                at = Products(np.zeros(1), np.zeros(1), v, abs(v))
                fast, plain = (measure(problem, u, grad, at) for measure in (measure_columns, plain_columns))
                np.testing.assert_allclose(fast, plain, rtol=1e-12, atol=1e-14 * scale * scale)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["dense", "columns", "sparse", "stacked", "wide"])
@pytest.mark.usefixtures("core")
def test_the_core_multiplies_as_numpy_does(kind, dtype):
    rng = np.random.default_rng(3)
    shape = (3, 2500) if kind == "wide" else (ROWS, COLUMNS)
    M = (rng.standard_normal(shape) * (rng.random(shape) < 0.6)).astype(dtype)
    given = {
        "columns": np.asfortranarray,
        "sparse": sp.csr_array,
        "stacked": lambda M: dapd.RowBlocks([M[:5], sp.csr_array(M[5:])]),
    }.get(kind, np.asarray)(M)
    problem = dapd.Problem(dapd.Quadratic(np.ones(shape[1])), given, np.zeros(shape[0]))
    x, y = rng.standard_normal(shape[1]), rng.standard_normal(shape[0])
    M = M.astype(np.float64)
    expected = M @ x, abs(M) @ abs(x), M.T @ y, abs(M).T @ abs(y)
    for found, plain, exact in zip(products_of(problem, x, y), plain_products(problem.M, x, y), expected, strict=True):
        np.testing.assert_allclose(found, exact, rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(plain, exact, rtol=1e-6 if dtype == np.float32 else 1e-12, atol=1e-13)


@pytest.mark.parametrize("bad", [1e200, np.inf, np.nan])
def test_columns_that_overflow_are_left_to_numpy(bad):
    problem = dapd.Problem(dapd.Quadratic(np.ones(3), np.ones(3)), np.ones((1, 3)), [1.0])
    with np.errstate(all="ignore"):
        at = Products(np.ones(1), np.ones(1), np.ones(3), np.ones(3))
        point = np.ones(3), np.array([1.0, bad, 2.0]), at
        np.testing.assert_array_equal(measure_columns(problem, *point), plain_columns(problem, *point))


def test_sums_over_many_rows_stay_exact():
    rows = 300_000
    problem = dapd.Problem(dapd.Quadratic(np.ones(1)), np.ones((rows, 1)), np.full(rows, 0.1), dapd.L1(0.1))
    y = np.full(rows, 0.3)
    sums = measure_rows(problem, y, products_of(problem, np.full(1, 0.2), y))
    for found in (sums.value, sums.product, sums.sizes):  # added one by one, the terms lose four digits
        assert found == pytest.approx(9000.0, rel=1e-14)


def test_numbers_that_overflow_are_left_to_numpy():
    problem = dapd.Problem(dapd.Quadratic(np.ones(2)), np.eye(2), np.zeros(2), dapd.NonNegative())
    for y in (np.array([1e200, 1.0]), np.array([np.inf, 1.0]), np.array([np.nan, 1.0])):
        with np.errstate(all="ignore"):
            at = products_of(problem, np.ones(2), y)
            fast, plain = (measure(problem, y, at) for measure in (measure_rows, plain_rows))
        np.testing.assert_array_equal(fast, plain)
    assert math.isfinite(measure_rows(problem, np.array([1e200, 1.0]), at).feasibility)
    huge = dapd.Problem(dapd.Quadratic(np.ones(2)), np.array([[1e100, -1e100]]), np.zeros(1))
    with np.errstate(all="ignore"):
        at = products_of(huge, np.full(2, 1e300), np.ones(1))
        assert measure_rows(huge, np.ones(1), at).complementarity == math.inf


def test_groups_and_functions_of_the_users_own_are_left_to_numpy():
    class Other(dapd.Box):
        def value(self, y):
            return 0.0

    for phi in (dapd.GroupBall(0.5, ROWS), Other(-1.0, 1.0), dapd.Stack([Other(-1.0, 1.0)], sizes=[ROWS])):
        problem = dapd.Problem(dapd.Quadratic(np.ones(COLUMNS)), np.ones((ROWS, COLUMNS)), np.ones(ROWS), phi)
        assert problem.row_table is None


def test_a_problem_with_other_parts_keeps_nothing_of_the_old_ones():
    first = dapd.Problem(dapd.Quadratic(np.array([1.0, 4.0])), np.eye(2), np.zeros(2), dapd.Box(-1.0, 1.0))
    assert first.curvature.tolist() == [1.0, 4.0]
    assert first.row_table.upper == 1.0
    other = first.replaced(f=dapd.Quadratic(np.array([2.0, 3.0])), phi=dapd.Box(-1.0, 2.0))
    assert other.curvature.tolist() == [2.0, 3.0]
    assert other.row_table.upper == 2.0
