"""The public checkers pass what is right and name what is wrong."""

import numpy as np
import pytest
from scipy.sparse.linalg import LinearOperator

import dapd
from dapd.testing import check_adjoint, check_gradient, check_prox, check_strong_convexity

M = np.arange(6.0).reshape(2, 3)
X = np.linspace(-1, 1, 4)


def test_a_wrong_adjoint_is_detected():
    wrong = LinearOperator((2, 3), matvec=lambda x: M @ x, rmatvec=lambda y: M.T @ y + 1, dtype=float)
    with pytest.raises(AssertionError, match="the adjoint is not the transpose"):
        check_adjoint(wrong)


def test_a_map_that_is_not_linear_is_detected():
    bent = LinearOperator((1, 1), matvec=lambda x: x**3, rmatvec=lambda y: y, dtype=float)
    with pytest.raises(AssertionError, match=r"not the transpose|not linear"):
        check_adjoint(bent)


def test_a_wrong_gradient_is_detected():
    with pytest.raises(AssertionError, match="the slope of value along a direction is"):
        check_gradient(dapd.Smooth(lambda x: float(x @ x), lambda x: 3 * x, 1.0, 3.0), X)


def test_a_gradient_that_changes_its_argument_is_detected():
    def grad(x):
        x *= 2
        return x

    value = dapd.Smooth(lambda x: float(x @ x), grad, 1.0, 3.0)
    with pytest.raises(AssertionError, match="grad changed its argument"):
        check_gradient(value, X)


def test_a_wrong_prox_is_detected():
    class Wrong(dapd.L1):
        def prox(self, v, step):
            return super().prox(v, 2 * step)

    with pytest.raises(AssertionError, match="not the minimiser"):
        check_prox(Wrong(0.5), 4)


def test_an_expansive_prox_is_detected():
    class Wrong(dapd.Zero):
        def prox(self, v, step):
            return 2 * v

    with pytest.raises(AssertionError, match="firmly nonexpansive"):
        check_prox(Wrong(), 4)


@pytest.mark.parametrize("factor", [0.5, 0.0])
def test_a_wrong_projection_is_detected(factor):
    class Wrong(dapd.NonNegative):
        def prox(self, v, step):
            return factor * super().prox(v, step)

    with pytest.raises(AssertionError, match="not the minimiser"):
        check_prox(Wrong(), 20)


@pytest.mark.parametrize(("mu", "L", "message"), [(2.5, 3.0, "below mu"), (1.0, 1.5, "above L")])
def test_wrong_constants_are_detected(mu, L, message):
    with pytest.raises(AssertionError, match=message):
        check_strong_convexity(dapd.Smooth(lambda x: float(x @ x), lambda x: 2 * x, mu, L), X)
