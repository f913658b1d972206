"""dapd.minimize and dapd.lsq_linear against SciPy's own."""

import numpy as np
import pytest
import scipy.optimize as so
import scipy.sparse as sp
from scipy.special import logsumexp, softmax

import dapd

rng = np.random.default_rng(0)
N = 8
A, C = rng.standard_normal((20, N)), rng.standard_normal(20)
ROWS, EQUATIONS = rng.standard_normal((4, N)), rng.standard_normal((2, N))
CONSTRAINTS = [
    so.LinearConstraint(ROWS, -np.inf, 0.1),
    {"type": "eq", "fun": lambda x: EQUATIONS @ x - 0.2},
    {"type": "ineq", "fun": lambda x, shift: x[0] - x[1] + shift, "args": (0.05,)},
]


def value(x, weight=0.05):
    return logsumexp(A @ x + C) + weight * x @ x


def gradient(x, weight=0.05):
    return A.T @ softmax(A @ x + C) + 2 * weight * x


@pytest.mark.parametrize("bounds", [None, so.Bounds(-0.3, 0.5), [(None, 0.5)] * N])
@pytest.mark.parametrize("constraints", [(), CONSTRAINTS[0], CONSTRAINTS])
def test_minimize_agrees_with_scipy(bounds, constraints):
    given = {"jac": gradient, "bounds": bounds, "constraints": constraints}
    mine = dapd.minimize(value, np.ones(N), **given)
    theirs = so.minimize(value, np.ones(N), **given, method="SLSQP", options={"ftol": 1e-14, "maxiter": 1000})
    assert mine.success
    assert mine.status == 0
    assert abs(mine.x - theirs.x).max() < 2e-5
    assert mine.fun == pytest.approx(theirs.fun, abs=1e-6)
    assert mine.nit > 0
    assert mine.njev > 0
    matrices = [ROWS, EQUATIONS, np.eye(N)[:1] - np.eye(N)[1:2]][: len(mine.multipliers)]
    pull = sum((M.T @ y for M, y in zip(matrices, mine.multipliers, strict=True)), mine.bound_multipliers)
    assert abs(mine.jac + pull).max() < 1e-5


def test_gradient_may_come_with_the_value_or_from_differences():
    known = dapd.minimize(value, np.zeros(N), args=(0.1,), jac=gradient, constraints=CONSTRAINTS[1])
    both = dapd.minimize(lambda x: (value(x, 0.1), gradient(x, 0.1)), np.zeros(N), jac=True, constraints=CONSTRAINTS[1])
    none = dapd.minimize(value, np.zeros(N), args=(0.1,), constraints=CONSTRAINTS[1])
    assert abs(known.x - both.x).max() < 1e-12
    assert abs(known.x - none.x).max() < 1e-6
    assert none.nfev > 2 * N


def test_options_have_the_names_of_scipy_or_of_dapd(capsys):
    limited = dapd.minimize(value, np.zeros(N), jac=gradient, options={"maxiter": 3, "disp": True})
    assert limited.status == 1
    assert not limited.success
    assert "stationarity" in capsys.readouterr().out
    seen = []

    def stop(x):
        seen.append(x)
        raise StopIteration

    stopped = dapd.minimize(value, np.zeros(N), jac=gradient, callback=stop)
    assert stopped.result.status == "interrupted"
    assert len(seen) == 1
    with pytest.raises(TypeError, match="did you mean 'time_limit'"):
        dapd.minimize(value, np.zeros(N), options={"time_limits": 3})


def test_what_has_no_solution_is_told():
    apart = [so.LinearConstraint(np.ones((1, 2)), 1, 1), so.LinearConstraint(np.ones((1, 2)), 2, 2)]
    assert dapd.minimize(lambda x: x @ x, np.zeros(2), jac=lambda x: 2 * x, constraints=apart).status == 2


def test_a_constraint_that_is_not_linear_is_refused():
    with pytest.raises(ValueError, match="constraint 1 is not linear"):
        dapd.minimize(value, np.zeros(N), constraints=[CONSTRAINTS[0], {"type": "ineq", "fun": lambda x: 1 - x @ x}])
    with pytest.raises(TypeError, match="constraint 0 is a NonlinearConstraint; only linear"):
        dapd.minimize(value, np.zeros(N), constraints=so.NonlinearConstraint(lambda x: x @ x, 0, 1))
    with pytest.raises(ValueError, match="'eq' or 'ineq'"):
        dapd.minimize(value, np.zeros(N), constraints={"type": "equality", "fun": value})
    with pytest.raises(TypeError, match="jac must be a function"):
        dapd.minimize(value, np.zeros(N), jac="2-point")
    with pytest.raises(ValueError, match="8 pairs"):
        dapd.minimize(value, np.zeros(N), bounds=[(0, 1)])


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_lsq_linear_agrees_with_scipy(make):
    b = 3 * rng.standard_normal(20)
    mine = dapd.lsq_linear(make(A), b, (-0.2, 0.3))
    theirs = so.lsq_linear(A, b, (-0.2, 0.3), method="bvls")
    assert mine.success
    assert abs(mine.x - theirs.x).max() < 1e-9
    assert mine.cost == pytest.approx(theirs.cost)
    assert np.array_equal(mine.active_mask, theirs.active_mask)
    assert abs(mine.fun - theirs.fun).max() < 1e-8


def test_lsq_linear_takes_linear_constraints():
    b = rng.standard_normal(20)
    limits = so.LinearConstraint(EQUATIONS, 0.1, 0.1), so.LinearConstraint(sp.csr_array(ROWS), -np.inf, 0.2)
    found = dapd.lsq_linear(A, b, so.Bounds(-1, 1), constraints=limits)
    y, u = found.multipliers
    assert abs(A.T @ found.fun + EQUATIONS.T @ y + ROWS.T @ u + found.bound_multipliers).max() < 1e-8
    assert abs(EQUATIONS @ found.x - 0.1).max() < 1e-8
    assert (ROWS @ found.x).max() < 0.2 + 1e-8
    assert np.all(u >= 0)


def square(x):
    return float(x @ x)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("jac", [True, lambda x: 2 * x])
def test_a_value_that_is_not_finite_is_no_success(wrong, jac):
    found = dapd.minimize((lambda x: (wrong, 2 * x)) if jac is True else (lambda x: wrong), np.ones(2), jac=jac)
    assert not found.success
    assert found.status == 4
    assert found.message.startswith(f"fun is {wrong} at x")


WRONG_FUNCTIONS = [
    (lambda x: None, lambda x: 2 * x, TypeError, "fun must return a number, and returned None"),
    (lambda x: x, lambda x: 2 * x, TypeError, "fun must return a number"),
    (lambda x: "3", lambda x: 2 * x, TypeError, "fun must return a number, and returned '3'"),
    (lambda x: 1j, lambda x: 2 * x, TypeError, "fun must return a number"),
    (square, True, TypeError, r"fun must return a pair \(value, gradient\)"),
    (square, lambda x: None, TypeError, "jac must be a vector of 2 numbers, found None"),
    (square, lambda x: np.ones(3), TypeError, r"jac must be a vector of 2 numbers, found shape \(3,\)"),
    (square, lambda x: ["1", "2"], TypeError, "jac must be a vector of 2 numbers"),
    (square, lambda x: np.nan * x, ValueError, "jac is not finite at x0"),
    (lambda x: np.nan, None, ValueError, "the gradient of fun by central differences is not finite at x0"),
]


@pytest.mark.parametrize(("fun", "jac", "error", "message"), WRONG_FUNCTIONS)
def test_a_wrong_function_is_named_as_scipy_names_it(fun, jac, error, message):
    with pytest.raises(error, match=f"^{message}"):
        dapd.minimize(fun, np.zeros(2), jac=jac)


def test_an_error_inside_the_function_is_left_alone():
    class Own(ValueError):
        def __init__(self, one, two):
            super().__init__(one, two)

    def fun(x):
        raise Own("f.grad", "f")

    with pytest.raises(Own) as caught:
        dapd.minimize(fun, np.zeros(2))
    assert caught.value.args == ("f.grad", "f")


def test_a_start_outside_the_bounds_is_moved_into_them():
    seen = []

    def gradient(x):
        seen.append(x)
        return 2 * x

    found = dapd.minimize(square, np.array([-5.0, 5.0]), jac=gradient, bounds=so.Bounds([1, -np.inf], 2))
    assert found.success
    assert np.array_equal(seen[0], [1, 2])


WRONG_CONSTRAINTS = [
    (so.LinearConstraint(np.full((2, 2), np.nan), 0, 1), r"constraint 1\.A holds NaN .* constraint 1\.A\[0, 0\]"),
    (so.LinearConstraint(np.ones((2, 3)), 0, 1), r"constraint 1\.A has 3 columns, expected 2"),
    (so.LinearConstraint(np.ones((2, 2)), np.nan, 1), r"constraint 1\.lb holds NaN"),
    ({"type": "ineq", "fun": lambda x: np.nan}, r"constraint 1\.fun is \[nan\] at x = 0"),
    ({"type": "eq", "fun": lambda x: np.inf}, r"constraint 1\.fun is \[inf\] at x = 0"),
    ({"type": "eq", "fun": lambda x: "a"}, r"constraint 1\.fun must return a number or a vector"),
]


@pytest.mark.parametrize(("constraint", "message"), WRONG_CONSTRAINTS)
def test_a_wrong_constraint_is_named(constraint, message):
    first = so.LinearConstraint(np.ones((1, 2)), 0, 1)
    with pytest.raises((ValueError, TypeError), match=f"^{message}"):
        dapd.minimize(square, np.ones(2), constraints=[first, constraint])


@pytest.mark.parametrize("far", [1e20, 1e30, np.inf])
def test_far_limits_are_none(far):
    rows = [
        {"type": "ineq", "fun": lambda x: np.array([far + 3 * x[0], x[0] + x[1] - 1])},
        so.LinearConstraint([1, 2], -far, [far]),
    ]
    found = dapd.minimize(square, np.zeros(2), jac=lambda x: 2 * x, bounds=[(-far, far)] * 2, constraints=rows)
    assert found.success
    assert abs(found.x - 0.5).max() < 1e-5
    assert found.multipliers[0][0] == 0
    fit = dapd.lsq_linear(np.eye(2), [1, 2], (-far, [far, 1]), constraints=rows[1])
    assert abs(fit.x - 1).max() < 1e-8
    assert np.array_equal(fit.active_mask, [0, 1])


def test_lsq_linear_names_its_own_arguments():
    with pytest.raises(ValueError, match=r"^b has 2 entries, expected 3"):
        dapd.lsq_linear(np.ones((3, 2)), [1, 2])
