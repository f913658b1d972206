"""Inputs that once broke the solver: each gives an honest status or a documented error."""

import functools
import pickle
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from instances import PHIS, quadratic_problem
from scipy.sparse import csr_array
from scipy.sparse.linalg import LinearOperator, aslinearoperator

import dapd
from dapd.certificate.certify import certify
from dapd.certificate.rays import proves_infeasible

NN = dapd.NonNegative()
ONES = dapd.Quadratic([1.0, 1.0])
EYE = np.eye(2)


def half_square(grad, mu=1.0, L=1.0):
    return dapd.Smooth(lambda x: float(x @ x) / 2, grad, mu, L)


def phi_with(prox):
    class Own(dapd.Phi):
        def value(self, y):
            return 0.0

        def prox(self, v, step):
            return prox(v)

    return Own()


class NotANumber:
    def value(self, z):
        return 0.0

    def prox(self, v, step):
        return np.nan * v


class Listed(NotANumber):
    def prox(self, v, step):
        return list(v)


def doubled_in_place(v):
    v *= 2
    return v


def nan_operator():
    return LinearOperator((2, 2), matvec=lambda x: np.nan * x, rmatvec=lambda y: np.nan * y, dtype=float)


ERRORS = {
    "prox NaN": ({"phi": phi_with(lambda v: np.nan * v)}, ValueError, "phi.prox returned NaN or infinite numbers"),
    "conjugate NaN": ({"phi": dapd.Conjugate(NotANumber())}, ValueError, "phi.prox returned NaN or infinite numbers"),
    "prox a list": ({"phi": phi_with(list)}, ValueError, "phi.prox returned list, expected an array of shape"),
    "conjugate a list": ({"phi": dapd.Conjugate(Listed())}, ValueError, "g.prox returned list, expected an array"),
    "prox too short": ({"phi": phi_with(lambda v: v[:1])}, ValueError, r"phi.prox returned shape \(1,\)"),
    "prox None": ({"phi": phi_with(lambda v: None)}, ValueError, "phi.prox returned NoneType"),
    "prox complex": ({"phi": phi_with(lambda v: 1j * v)}, TypeError, "phi.prox returned complex128, expected real"),
    "prox in place": ({"phi": phi_with(doubled_in_place)}, ValueError, "phi.prox changes its argument"),
    "prox masked": ({"phi": phi_with(np.ma.array)}, TypeError, "what phi.prox returned is a masked array"),
    "M NaN": ({"M": nan_operator()}, ValueError, "a product with M or its transpose returned NaN"),
    "gradient NaN": ({"f": half_square(lambda x: np.nan * x)}, ValueError, "f.grad returned NaN.*check_gradient"),
    "gradient None": ({"f": half_square(lambda x: None)}, ValueError, "f.grad returned NoneType, expected an array"),
    "gradient too short": ({"f": half_square(lambda x: x[:1])}, ValueError, r"f.grad returned shape \(1,\)"),
    "gradient complex": ({"f": half_square(lambda x: x + 1j)}, TypeError, "f.grad returned complex128, expected real"),
    "gradient in place": ({"f": half_square(doubled_in_place)}, ValueError, "f.grad changes its argument"),
}


@pytest.mark.parametrize("engine", ["auto", "python"])
@pytest.mark.parametrize("case", ERRORS)
def test_errors_name_the_user_function_that_is_wrong(case, engine):
    changed, error, message = ERRORS[case]
    parts = {"f": ONES, "M": EYE, "b": np.ones(2), "phi": None, **changed}
    with pytest.raises(error, match=message):
        dapd.solve(dapd.Problem(**parts), spectrum=dapd.Spectrum(1.0, 1.0), engine=engine)


@pytest.mark.parametrize("phi", [phi_with(lambda v: v), phi_with(np.abs)])
def test_nan_never_gives_a_certificate(phi):
    problem = dapd.Problem(ONES, EYE, np.ones(2), phi)
    for x, y in [([np.nan, 0.0], [0.0, 0.0]), ([0.0, 0.0], [0.0, np.inf]), ([np.inf, 1.0], [1.0, 0.0])]:
        with np.errstate(all="ignore"):
            assert certify(problem, np.array(x), np.array(y)).error == np.inf


def test_feasible_problems_far_from_zero_are_not_called_infeasible():
    rows = dapd.Problem(ONES, [[1e9, 0.0], [1e9, 0.0], [0.0, 1.0]], [1.0, 1.0, -1e7], NN)
    assert dapd.solve(rows, "papc", max_iterations=20_000).status == "iteration_limit"
    independent = dapd.Problem(ONES, EYE, [-1e8, 1.0], NN)
    loose = dapd.Spectrum(1e12, 0.0)
    assert dapd.solve(independent, "papc", spectrum=loose, max_iterations=20_000).status == "iteration_limit"
    nearly = dapd.Problem(ONES, [[1.0, 1.0], [1.0, 1 + 1e-10]], [0.0, 1.0])
    assert dapd.solve(nearly, "papc", max_iterations=20_000).status == "iteration_limit"


def test_infeasible_rows_of_any_scale_are_proved_infeasible():
    for scale in (0.1, 1.0, 10.0):
        rows = np.array([[1.0, 2.0, 0.0], [-scale, -2 * scale, 0.0]])
        problem = dapd.Problem(dapd.Quadratic(np.ones(3)), rows, [-1.0, -scale], NN)
        for options in ({}, {"direct": False}, {"engine": "native"}, {"method": "papc"}):
            result = dapd.solve(problem, **options)
            assert result.status == "infeasible"
            assert proves_infeasible(problem, result.x, result.ray) is not None
    with pytest.raises(ValueError, match="does not have full row rank"):
        dapd.solve(dapd.Problem(dapd.Quadratic(np.ones(3)), rows, [-1.0, -scale], NN), "x-dapd")


@pytest.mark.parametrize("method", ["auto", "papc", "condat-vu"])
@pytest.mark.parametrize("exponent", [-12, -6, 0, 6])
def test_correct_constants_never_diverge(exponent, method):
    rng = np.random.default_rng(0)
    M, b, c = rng.standard_normal((5, 20)), rng.standard_normal(5), rng.standard_normal(20)
    f = dapd.Quadratic(10.0**exponent * np.logspace(0, -2, 20), c)
    result = dapd.solve(dapd.Problem(f, M, b, NN), method)
    assert result.converged
    assert np.all(M @ result.x <= b + 1e-5 * (abs(b) + abs(M) @ abs(result.x)))


@pytest.mark.parametrize("method", ["x-dapd", "y-dapd", "papc"])
@pytest.mark.parametrize("wrong", ["L", "s_max"])
def test_wrong_constants_diverge_without_nan(wrong, method):
    rng = np.random.default_rng(1)
    M, H = rng.standard_normal((5, 20)), np.logspace(0, -2, 20)
    s = np.linalg.svd(M)[1]
    f = dapd.Quadratic(H, np.ones(20), mu=1e-4, L=0.05 if wrong == "L" else 1.0)
    spectrum = dapd.Spectrum(s[0] / (20 if wrong == "s_max" else 1), s[-1] / 20)
    result = dapd.solve(dapd.Problem(f, M, np.ones(5)), method, spectrum=spectrum)
    assert result.status == "diverged"
    assert np.isfinite(result.x).all()
    assert np.isfinite(result.y).all()
    assert np.isfinite(result.certificate.error)


@pytest.mark.parametrize(("infinity", "phi"), [(1e8, NN), (1e20, NN), (1e8, phi_with(lambda v: np.maximum(v, 0)))])
def test_a_free_row_does_not_hide_another_row(infinity, phi):
    result = dapd.solve(dapd.Problem(ONES, [[1.0, 0.0], [0.0, -1.0]], [infinity, -1.0], phi))
    assert result.converged
    assert result.x == pytest.approx([0.0, 1.0], abs=1e-5)


def test_a_free_row_gives_no_false_certificate_with_one_step_for_all_rows():
    own = phi_with(lambda v: np.maximum(v, 0))
    problem = dapd.Problem(ONES, [[1.0, 0.0], [0.0, -1.0]], [1e20, -1.0], own)
    result = dapd.solve(problem, max_iterations=5_000)
    assert not result.converged or result.x == pytest.approx([0.0, 1.0], abs=1e-5)


def test_infinity_written_as_a_number_in_bounds():
    phi = dapd.Interval([-1e20, -1e20], [1e20, -1.0])
    result = dapd.solve(dapd.Problem(ONES, [[1.0, 0.0], [0.0, -1.0]], [0.0, 0.0], phi))
    assert result.converged
    assert result.x == pytest.approx([0.0, 1.0], abs=1e-5)


def test_a_row_of_small_numbers_is_solved():
    result = dapd.solve(dapd.Problem(ONES, [[1e-6, 0.0]], [1e-6]))
    assert result.converged
    assert result.x == pytest.approx([1.0, 0.0], abs=1e-5)


@pytest.mark.parametrize("size", [1.0, 1e3, 1e7])
def test_duals_that_cancel_count_as_the_terms_that_they_are(size):
    # y is not unique here: where it is large, a change of M by tol, relatively, explains as large a slope
    problem = dapd.Problem(dapd.Quadratic([1.0, 1.0], [1.0, -1.0]), np.ones((2, 2)), np.zeros(2))
    result = dapd.solve(problem, "papc", y0=[size, -size])
    assert result.converged
    assert result.x == pytest.approx([1.0, -1.0], abs=1e-6 * (4 + 2 * size))
    assert dapd.solve(problem).x == pytest.approx([1.0, -1.0], abs=1e-5)


POWERS = st.lists(st.integers(-20, 20), min_size=6, max_size=6)
KINDS = {"dense": np.asarray, "sparse": csr_array, "matrix-free": aslinearoperator}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("phi", ["zero", "nonnegative", "one-sided box"])
@given(powers=POWERS, all_data=st.integers(-20, 20), seed=st.integers(0, 100))
def test_error_does_not_depend_on_the_scale_of_rows_or_data(phi, kind, powers, all_data, seed):
    # powers of two, so nothing is rounded
    problem = quadratic_problem(PHIS[phi], seed=1)
    rng = np.random.default_rng(seed)
    x, y = problem.x_star + rng.standard_normal(10), problem.y_star + rng.standard_normal(6)
    k = 2.0 ** np.array(powers)
    scaled = dapd.Box(problem.phi.lower / k, problem.phi.upper / k) if phi == "one-sided box" else problem.phi
    a = 2.0**all_data
    if phi == "one-sided box":
        a = 1.0  # its bounds are data too
    f = dapd.Quadratic(a * problem.f.H, a * problem.f.c, mu=a * problem.f.mu, L=a * problem.f.L)
    M = KINDS[kind](a * k[:, None] * problem.M.matrix)
    again = dapd.Problem(f, M, a * k * problem.b, scaled)
    before = dapd.Problem(problem.f, KINDS[kind](problem.M.matrix), problem.b, problem.phi)
    assert certify(again, x, y / k).error == pytest.approx(certify(before, x, y).error, rel=1e-9)


@pytest.mark.parametrize("phi", ["zero", "nonnegative"])
@given(powers=st.lists(st.integers(-1, 1), min_size=6, max_size=6), all_data=st.integers(-9, 9))
def test_answer_does_not_depend_on_the_scale_of_rows_or_data(phi, powers, all_data):
    problem = quadratic_problem(PHIS[phi], ratio=2.0)
    k, a = 10.0 ** np.array(powers), 10.0**all_data
    f = dapd.Quadratic(a * problem.f.H, a * problem.f.c)
    result = dapd.solve(dapd.Problem(f, a * k[:, None] * problem.M.matrix, a * k * problem.b, problem.phi))
    assert result.converged
    assert np.allclose(result.x, problem.x_star, atol=1e-3)


@pytest.mark.parametrize("phi", [dapd.Zero(), NN])
def test_float32_with_entries_of_very_different_size_is_solved(phi):
    problem = dapd.Problem(ONES, np.eye(2, dtype="f"), np.array([1e20, -1], "f"), phi)
    result = dapd.solve(problem)
    assert result.converged
    assert np.isfinite(result.x).all()
    assert result.x[1] == pytest.approx(-1.0, rel=1e-5)


def test_blocks_with_an_extreme_condition_number():
    problem = dapd.Problem(dapd.Quadratic([1e-12, 1e12]), [[1.0, 1.0]], [1.0], blocks=2)
    assert dapd.solve(problem, "x-sbc-dapd", max_iterations=10).status == "iteration_limit"
    for direct in (True, False):
        result = dapd.solve(problem, max_iterations=10, direct=direct)
        assert result.converged
        np.testing.assert_allclose(result.x, [1.0, 1e-24], atol=1e-6)


@pytest.mark.parametrize("engine", ["auto", "python"])
@pytest.mark.parametrize("method", ["auto", "papc", "y-dapd"])
@pytest.mark.parametrize(
    ("M", "phi"),
    [
        (np.zeros((0, 2)), None),
        (csr_array((0, 2)), NN),
        (np.zeros((3, 2)), None),
        (csr_array((3, 2)), NN),
        (aslinearoperator(np.zeros((3, 2))), None),
    ],
)
def test_without_constraints_f_is_minimised(M, phi, method, engine):
    problem = dapd.Problem(dapd.Quadratic([1.0, 4.0], [1.0, 1.0]), M, np.zeros(M.shape[0]), phi)
    if method == "y-dapd" and phi is NN and M.shape[0]:
        with pytest.raises(ValueError, match="does not have full row rank"):
            dapd.solve(problem, method, engine=engine)
        return
    result = dapd.solve(problem, method, engine=engine)
    assert result.converged
    assert result.x == pytest.approx([1.0, 0.25], abs=1e-5)
    assert result.objective == pytest.approx(-0.625)
    assert result.y.shape == (M.shape[0],)
    assert not result.y.any()


@pytest.mark.parametrize("phi", [None, NN])
def test_no_x_makes_zero_equal_to_one(phi):
    problem = dapd.Problem(ONES, np.zeros((2, 2)), [-1.0, 0.0], phi)
    assert dapd.solve(problem).status == "infeasible"


def test_time_limit_holds_during_the_set_up():
    A = np.random.default_rng(0).standard_normal((50, 5000))

    def slowly(product):
        def call(v):
            time.sleep(0.01)
            return product @ v

        return call

    M = LinearOperator(A.shape, matvec=slowly(A), rmatvec=slowly(A.T), dtype=float)
    x0, y0 = np.full(5000, 0.5), np.full(50, 0.25)
    problem = dapd.Problem(dapd.PseudoHuber(0.1), M, np.ones(50))
    result = dapd.solve(problem, time_limit=0.05, x0=x0, y0=y0)
    assert result.status == "time_limit"
    assert result.iterations == 0
    assert "during the set-up" in result.message
    assert result.setup_time >= 0.05
    assert result.solve_time == 0.0
    assert np.array_equal(result.x, x0)
    assert np.array_equal(result.y, y0)
    assert result.certificate == certify(problem, x0, y0)


@pytest.mark.parametrize("phi", PHIS)
def test_objective_of_an_optimal_result_is_finite_and_right(phi):
    problem = quadratic_problem(PHIS[phi], seed=3)
    result = dapd.solve(problem, tol=1e-9)
    H, c = problem.f.H, problem.f.c
    y, pull = problem.y_star, c - problem.M.matrix.T @ problem.y_star
    dual = -problem.b @ y - problem.phi.value(y) - pull @ np.linalg.solve(H, pull) / 2
    assert result.objective == pytest.approx(dual, rel=1e-6, abs=1e-6)
    assert "objective" in result.summary()


def test_objective_counts_violated_constraints_as_violated():
    result = dapd.solve(quadratic_problem(dapd.Zero()), max_iterations=0)
    assert result.objective == np.inf


def test_objective_of_a_strict_indicator_is_finite():
    class Ball:
        def value(self, z):
            return 0.0 if np.linalg.norm(z) <= 0.5 else np.inf

        def prox(self, v, step):
            return v * (0.5 / max(0.5, float(np.linalg.norm(v)) * (1 + 1e-15)))

    result = dapd.solve(dapd.Problem(ONES, EYE, [3.0, 4.0], dapd.Conjugate(Ball())), tol=1e-9)
    assert result.converged
    assert result.objective == pytest.approx(4.5**2 / 2)


def test_objective_without_values_is_nan():
    class OnlyProx(dapd.Phi):
        def prox(self, v, step):
            return np.maximum(v, 0)

    result = dapd.solve(dapd.Problem(ONES, EYE, [-1.0, 1.0], OnlyProx()))
    assert result.converged
    assert np.isnan(result.objective)


@pytest.mark.parametrize("dtype", ["f", "d"])
def test_rounding_is_reported_if_it_stops_a_solve(dtype):
    rng = np.random.default_rng(0)
    M, b = rng.standard_normal((30, 60)).astype(dtype), rng.standard_normal(30).astype(dtype)
    result = dapd.solve(dapd.Problem(dapd.PseudoHuber(0.1), M, b), tol=1e-18)
    assert result.status == "interrupted"
    assert f"Stopped by rounding in {np.dtype(dtype)}" in result.message
    assert result.iterations < 100_000


def test_rounding_above_its_usual_level_is_reported_too():
    # for an ill-conditioned f, float32 limits the error far above its precision; only the theorem shows this
    problem = quadratic_problem(dapd.Zero(), kappa=1e7, ratio=1.5)
    single = dapd.Problem(problem.f, problem.M.matrix.astype("f"), problem.b.astype("f"))
    result = dapd.solve(single, tol=1e-12, max_iterations=10_000_000)
    assert result.status == "interrupted"
    assert "Stopped by rounding in float32" in result.message


def halved(x):
    return x / 2


@pytest.mark.parametrize("name", [*dapd.METHODS])
def test_bound_methods_pickle(name):
    problem = dapd.Problem(dapd.Quadratic(np.arange(1.0, 5.0)), np.eye(2, 4), [1.0, 2.0], blocks=2)
    options = {"seed": 5, "shared_sample": True} if "sbc" in name else {}
    method = dapd.METHODS[name].from_theory(problem, x0=np.ones(4), **options)
    again = pickle.loads(pickle.dumps(method))
    state, twin = method.run(method.init(), 7), again.run(again.init(), 7)
    assert again.parameters == method.parameters
    for part, other in zip(method.point(state), again.point(twin), strict=True):
        assert np.array_equal(part, other)


@pytest.mark.parametrize("kind", KINDS)
def test_problems_and_results_pickle(kind):
    f = dapd.Smooth(functools.partial(np.dot, np.ones(3)), halved, 0.5, 0.5)
    problem = dapd.Problem(f, KINDS[kind](np.eye(2, 3)), np.ones(2), dapd.Stack([dapd.Zero(), NN], sizes=[1, 1]))
    result = dapd.solve(problem)
    again = pickle.loads(pickle.dumps(problem))
    assert np.array_equal(dapd.solve(again).x, result.x)
    assert np.array_equal(pickle.loads(pickle.dumps(result)).x, result.x)
