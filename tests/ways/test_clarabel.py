"""The direct path: conic forms of problems built backwards, judged by the certificate, and rays of unsolvable ones."""

import importlib.util
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from instances import COLUMNS, PHIS, ROWS, dual_pair, hessian, matrix
from scipy.sparse.linalg import aslinearoperator

import dapd
from dapd.certificate.certify import certify
from dapd.certificate.rays import falling_ray, proves_infeasible
from dapd.newton.matrices import csr_of, explicit
from dapd.ways.clarabel import candidate as direct
from dapd.ways.clarabel.conic import Columns, conic

pytestmark = pytest.mark.skipif(not direct.is_installed(), reason="Clarabel is not installed")

RNG = np.random.default_rng(5)
TALL, WIDE = RNG.standard_normal((14, COLUMNS)), RNG.standard_normal((4, COLUMNS))
DENSE, M = hessian(RNG, 10.0), matrix(RNG, 5.0)
SPARSE = sp.csr_array(
    np.diag(np.linspace(1, 2, COLUMNS))
    + np.diag(np.full(COLUMNS - 1, 0.3), 1).T
    + np.diag(np.full(COLUMNS - 1, 0.3), 1)
)
ALL_PHIS = PHIS | {
    "ball constraint": dapd.Conjugate(dapd.GroupBall(0.8, 3)),
    "large ball": dapd.GroupBall(1.0, ROWS),
    "lower half": dapd.Box(-np.inf, 0.4),
    "point": dapd.Box(0.2, 0.2),
    "free dual": dapd.Box(-np.inf, np.inf),
}


def functions(pull):
    """Each f with ∇f(x*) = −pull at its x*, as a pair."""
    x = np.random.default_rng(1).standard_normal(COLUMNS)
    half = COLUMNS // 2
    H = np.linspace(1.0, 3.0, COLUMNS)

    def least_squares(A, ridge, pull, x):
        # d with Aᵀ(Ax − d) + ridge·x = −pull
        return dapd.LeastSquares(A, A @ x + np.linalg.lstsq(A.T, pull + ridge * x, rcond=None)[0], ridge)

    separable = [
        dapd.Quadratic(H[:half], H[:half] * x[:half] + pull[:half]),
        least_squares(TALL[:, half:], 0.3, pull[half:], x[half:]),
    ]
    x = x.copy()
    wide_x = np.linalg.lstsq(np.eye(COLUMNS) - np.linalg.pinv(WIDE) @ WIDE, -pull / 0.5, rcond=None)[
        0
    ] + WIDE.T @ np.ones(4)
    return {
        "diagonal": (dapd.Quadratic(H, H * x + pull), x),
        "dense": (dapd.Quadratic(DENSE, DENSE @ x + pull), x),
        "sparse": (dapd.Quadratic(SPARSE, SPARSE @ x + pull), x),
        "tall least squares": (least_squares(TALL, 0.0, pull, x), x),
        "wide least squares": (least_squares(WIDE, 0.5, pull, wide_x), wide_x),
        "separable": (dapd.Separable(separable), x),
    }


FUNCTIONS = list(functions(np.zeros(COLUMNS)))


def problem(f_name, phi):
    y, g = dual_pair(phi, np.random.default_rng(2), ROWS)
    f, x = functions(M.T @ y)[f_name]
    return dapd.Problem(f, M, M @ x - g, phi, x_star=x, y_star=y)


def solved(given, *, excess=lambda answer: 0.0, **settings):
    """The first answer that is good, or the last one."""
    for answer in direct.attempts(given, **settings):
        if excess(answer) <= 1:
            break
    return answer


@pytest.mark.parametrize("phi", ALL_PHIS)
@pytest.mark.parametrize("f", FUNCTIONS)
def test_every_combination_is_solved_to_its_known_solution(f, phi):
    given = problem(f, ALL_PHIS[phi])
    assert certify(given, given.x_star, given.y_star).error < 1e-12
    answer = solved(given, tol=1e-8, excess=lambda found: certify(given, found.x, found.y).error / 1e-8)
    assert answer.ray is None
    assert answer.status in ("optimal", "stalled")
    # Clarabel stops at entries; the rows of a group are measured by their norm
    assert certify(given, answer.x, answer.y).error < 1e-8 * (ROWS**0.5 if "ball" in phi else 1.0)
    np.testing.assert_allclose(answer.x, given.x_star, atol=1e-5)


@pytest.mark.parametrize(
    "coupling",
    [
        M,
        sp.csr_array(np.where(abs(M) > 0.1, M, 0.0)),
        dapd.RowBlocks([M[:2], sp.csr_array(M[2:3]), dapd.Identity(COLUMNS, rows=3, start=4)]),
        dapd.ColumnBlocks([M[:, :3], sp.csr_array(M[:, 3:])]),
        dapd.Kronecker(M[:3, :5], 2),
        dapd.Kronecker(M[:3, :5], M[:2, :2]),
        dapd.BlockDiagonal([M[:2, :4], M[:4, :6]]),
    ],
    ids=lambda coupling: type(coupling).__name__,
)
def test_every_explicit_coupling_is_converted(coupling):
    phi = dapd.Interval([-1.0, 0.2, -np.inf, -np.inf, -0.3, 0.0], [1.0, 0.2, 0.5, np.inf, 0.3, np.inf])
    x, (y, g) = RNG.standard_normal(COLUMNS), dual_pair(phi, RNG, ROWS)
    given = dapd.Problem(dapd.Quadratic(np.ones(COLUMNS)), coupling, np.zeros(ROWS), phi)
    np.testing.assert_array_equal(csr_of(given.M).toarray(), given.M.dense())
    np.testing.assert_array_equal(sp.csr_array(explicit(given.M)).toarray(), given.M.dense())
    assert csr_of(given.M).nnz <= given.M.entry_count
    given = dapd.Problem(
        dapd.Quadratic(np.ones(COLUMNS), x + given.M.adjoint(y)), coupling, given.M.forward(x) - g, phi
    )
    answer = solved(given)
    assert certify(given, answer.x, answer.y).error < 1e-8
    np.testing.assert_allclose(answer.x, x, atol=1e-6)


def test_bounds_are_solved_as_bounds_and_as_rows():
    given = dapd.Problem(
        dapd.Quadratic(DENSE, np.ones(COLUMNS)), M, M @ np.full(COLUMNS, 0.05), bounds=(0.0, [0.1] * 9 + [np.inf])
    )
    for form in (given, given.stacked):
        answer = solved(form)
        assert certify(given, answer.x, answer.y).error < 1e-8


def test_no_rows_leave_a_minimum_of_f():
    given = dapd.Problem(dapd.Quadratic(DENSE, DENSE @ np.ones(COLUMNS)), np.zeros((0, COLUMNS)), np.zeros(0))
    np.testing.assert_allclose(solved(given).x, np.ones(COLUMNS), atol=1e-9)


@pytest.mark.parametrize(
    "phi", [dapd.Zero(), dapd.NonNegative(), dapd.GroupBall(0.5, ROWS)], ids=lambda phi: type(phi).__name__
)
def test_a_pseudo_huber_f_is_a_sum_of_norms(phi):
    given = dapd.Problem(dapd.PseudoHuber(0.5), M, np.linspace(-1, 1, ROWS), phi)

    def excess(found):  # near the boundary of cones, Clarabel stalls before 1e-9, with some settings at once
        return certify(given, found.x, found.y).error / 1e-6

    assert excess(solved(given, tol=1e-9, excess=excess)) < 1


OTHERS = {
    "logistic": dapd.Problem(dapd.Logistic(TALL, np.ones(14), 0.1), M, np.zeros(ROWS)),
    "matrix-free H": dapd.Problem(dapd.Quadratic(aslinearoperator(DENSE)), M, np.zeros(ROWS)),
    "matrix-free M": dapd.Problem(dapd.Quadratic(DENSE), aslinearoperator(M), np.zeros(ROWS)),
    "matrix-free A": dapd.Problem(dapd.LeastSquares(aslinearoperator(TALL), np.ones(14)), M, np.zeros(ROWS)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_problems_have_no_conic_form(name):
    assert conic(OTHERS[name]) is None
    assert direct.predict(OTHERS[name]) is None
    with pytest.raises(TypeError, match="conic form"):
        solved(OTHERS[name])


class Halved(dapd.NonNegative):
    def prox(self, v, step):
        return super().prox(v, step) / 2


def test_an_own_prox_has_no_conic_form():
    assert conic(dapd.Problem(dapd.Quadratic(DENSE), M, np.zeros(ROWS), Halved())) is None


def infeasible(rows, b, phi, f=None):
    return dapd.Problem(f or dapd.Quadratic(np.ones(COLUMNS)), rows, np.array(b), phi)


SUMMED, TWICE = np.vstack([M[:3], M[0] + M[1]]), np.vstack([M[:2], M[:2]])
INFEASIBLE = {
    "equations": infeasible(SUMMED, [0.0, 0.0, 0.0, 5.0], dapd.Zero()),
    "intervals": infeasible(SUMMED, [0.0, 0.0, 0.0, 5.0], dapd.Interval(-0.1, 0.1)),
    "inequalities": infeasible(
        np.vstack([M[:2], -M[0] - M[1]]),
        [-1.0, -1.0, 1.0],
        dapd.Stack([dapd.NonNegative(), dapd.Interval(-np.inf, 0.1)], sizes=[2, 1]),
    ),
    "balls": infeasible(TWICE, [0.0, 0.0, 3.0, 3.0], dapd.Conjugate(dapd.GroupBall(1.0, 2))),
    "beside hinges and balls": infeasible(
        np.vstack([TWICE, TALL[:3]]),
        [0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0],
        dapd.Stack([dapd.Zero(), dapd.Box(-1, 1), dapd.GroupBall(1.0, 2)], sizes=[4, 1, 2]),
        dapd.LeastSquares(WIDE, np.ones(4)),
    ),
}


@pytest.mark.parametrize("name", INFEASIBLE)
def test_contradicting_rows_give_a_ray_that_proves_it(name):
    given = INFEASIBLE[name]

    def excess(answer):  # Clarabel's first settings may stall
        proof = answer.ray is not None and proves_infeasible(given, answer.x, answer.ray) is not None
        return 0.0 if proof else np.inf

    answer = solved(given, excess=excess)
    assert answer.status == "infeasible"
    assert proves_infeasible(given, answer.x, answer.ray) is not None


def test_unbounded_objectives_give_a_direction():
    n = COLUMNS
    H, c = np.r_[np.ones(4), np.zeros(n - 4)], np.ones(n)
    rows, kernel = np.zeros((2, n)), np.zeros(n)
    rows[0, 4], rows[0, 5], rows[1, 6] = 1.0, -1.0, -1.0
    kernel[4] = kernel[5] = 1.0
    given = dapd.Problem(
        dapd.Quadratic(H, c), rows, np.ones(2), dapd.Stack([dapd.Zero(), dapd.NonNegative()], sizes=[1, 1])
    )
    answer = solved(given)
    assert answer.status == "unbounded"
    v = falling_ray(given, answer.ray)
    assert v is not None
    assert c @ v > 0.1 * np.linalg.norm(v)
    assert np.max(abs(H * v)) <= 1e-14 * np.linalg.norm(v)
    assert abs(rows[0] @ v) <= 1e-14 * np.linalg.norm(v)
    assert rows[1] @ v <= 0


def test_unbounded_least_squares_give_a_direction_in_the_kernel():
    A = np.random.default_rng(3).standard_normal((3, COLUMNS))
    f = dapd.Separable([dapd.LeastSquares(A, np.ones(3)), dapd.Quadratic(None, np.ones(2))])
    given = dapd.Problem(f, np.eye(1, COLUMNS + 2), np.zeros(1), dapd.L1(1.0))
    answer = solved(given)
    assert answer.status == "unbounded"
    v = falling_ray(given, answer.ray)
    assert v is not None
    assert np.max(abs(A @ v[:COLUMNS])) <= 1e-13
    assert abs(v[0]) <= 1e-13
    assert v[-2:].sum() > 0


def test_limits_are_kept():
    given = problem("dense", PHIS["box"])
    answer = solved(given, deadline=0.0)
    assert answer.status == "time_limit"
    answer = solved(given, max_iterations=2)
    assert answer.status == "iteration_limit"
    assert answer.iterations == 2


def test_each_attempt_has_other_settings_and_there_is_none_that_is_not_asked_for(monkeypatch):
    attempt, tried = direct._attempt, []

    def noted(*given):
        tried.append(given[-1])
        return attempt(*given)

    monkeypatch.setattr(direct, "_attempt", noted)
    given = problem("dense", PHIS["box"])
    found = direct.attempts(given)
    for count, answer in enumerate(found, 1):
        assert answer.status == "optimal"
        assert len(tried) == count
    assert len(set(map(str, tried))) == len(direct.WITHOUT_CONES)


def test_nearly_dependent_rows_are_solved_to_the_absolute_tolerance():
    n = 3000
    rows = sp.diags_array([1.0, -3.0, 3.0, -1.0], offsets=[0, 1, 2, 3], shape=(n - 3, n)).tocsr()
    t = np.linspace(0, 1, n)
    target = np.sqrt(t) + 0.1 * np.sin(np.arange(n))
    given = dapd.Problem(dapd.Quadratic(np.ones(n), target), rows, np.zeros(n - 3), dapd.NonNegative())

    def excess(answer):
        return certify(given, answer.x, answer.y).excess(0.0, 1e-6)

    assert excess(solved(given, tol=0.0, tol_absolute=1e-6, excess=excess)) <= 1


def test_prediction_grows_with_the_problem_and_respects_its_limit():
    def dense(rows, columns):
        return dapd.Problem(
            dapd.Quadratic(np.ones(columns)), np.ones((rows, columns)), np.ones(rows), dapd.NonNegative()
        )

    small, large = (direct.predict(dense(*shape)).seconds for shape in ((10, 20), (100, 200)))
    assert 0 < small < large < np.inf
    assert direct.predict(dense(100, 200), large / 10).seconds == np.inf
    assert direct.predict(dense(100, 200), 2 * large).seconds == large
    huge = dapd.Kronecker(np.ones((100, 100)), np.ones((100, 100)))
    given = dapd.Problem(dapd.Quadratic(np.ones(10_000)), huge, np.ones(10_000))
    assert direct.predict(given).seconds == np.inf


def test_equations_are_predicted_to_take_one_iteration():
    rng = np.random.default_rng(4)
    M = rng.standard_normal((100, 200))
    equal, below = (
        direct.predict(dapd.Problem(dapd.Quadratic(np.ones(200)), M, np.ones(100), phi)).seconds
        for phi in (dapd.Zero(), dapd.NonNegative())
    )
    assert equal < below / 2


@pytest.mark.parametrize("phi", ["group ball", "large ball", "box", "interval"])
def test_the_kkt_pattern_covers_the_matrices(phi):
    form = conic(problem("wide least squares", ALL_PHIS[phi]))
    kkt = form.kkt()
    assert kkt.shape[0] == len(form.q) + len(form.h) + 2 * int(np.sum(form.cones > 4))
    assert len(form.h) == form.zeros + form.nonnegative + form.cones.sum()
    n = len(form.q)
    assert np.all(kkt.toarray()[n : n + len(form.h), :n][form.G.toarray() != 0])


@pytest.mark.parametrize("bounds", [None, (0.0, [0.1] * 9 + [np.inf])], ids=["free", "bounded"])
@pytest.mark.parametrize("phi", ALL_PHIS)
@pytest.mark.parametrize("f", ["diagonal", "dense", "tall least squares"])
def test_another_b_or_c_has_the_form_of_a_new_problem(f, phi, bounds):
    rng, phi = np.random.default_rng(4), ALL_PHIS[phi]
    f = functions(np.ones(COLUMNS))[f][0]
    first = dapd.Problem(f, M, rng.random(ROWS), phi, bounds=bounds)
    conic(first)
    others = [first.replaced(b=rng.random(ROWS))]
    if isinstance(f, dapd.Quadratic):
        others += [first.replaced(f=f.replaced(c=rng.random(COLUMNS))) for _ in range(2)]
        others.append(others[-1].replaced(b=rng.random(ROWS)))
    others.append(first.replaced(limits=(np.zeros(COLUMNS), np.ones(COLUMNS))))
    for other in others:
        new = dapd.Problem(other.f, M.copy(), other.b, phi, bounds=None if other.lower is None else other.bounds)
        for found, expected in zip(conic(other), conic(new), strict=True):
            if isinstance(found, Columns):
                np.testing.assert_array_equal(found.data, expected.data)
                np.testing.assert_array_equal(found.indices, expected.indices)
            else:
                np.testing.assert_array_equal(found, expected)


def test_without_clarabel_it_is_not_available(monkeypatch):
    monkeypatch.delitem(sys.modules, "clarabel", raising=False)
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "clarabel" else found(name))
    assert not direct.is_installed()
