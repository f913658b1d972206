"""What a review of the native engine found."""

import numpy as np
import pytest
from instances import quadratic_problem

import dapd
from dapd.functions.losses import LOGISTIC, SQUARE
from dapd.functions.terms import Terms
from dapd.methods.papc import PAPC


@pytest.mark.parametrize("order", ["C", "F"])
def test_an_asymmetric_H_is_an_error_even_if_its_constants_are_given(order):
    H = np.eye(4)
    H[0, 1] = 0.5
    with pytest.raises(ValueError, match="H must be symmetric"):
        dapd.Quadratic(np.array(H, order=order), mu=0.5, L=2.0)


class Wrong(dapd.PseudoHuber):
    def __init__(self, terms):
        super().__init__(0.5)
        self.terms = terms

    def lowered(self):
        return self.terms


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        (Terms(ridge=1.0, c=np.ones(3)), r"c of shape \(3,\), expected \(6,\)"),
        (Terms(SQUARE, d=np.ones(2)), r"d of shape \(2,\), expected \(6,\)"),
        (Terms(H=np.ones(5)), r"H of shape \(5,\), expected \(6,\)"),
        (Terms(LOGISTIC, ridge=1.0), "logistic loss without labels"),
    ],
)
def test_a_lowered_f_of_the_wrong_size_does_not_reach_the_core(terms, message):
    from dapd.engines.native.runner import NativeRunner

    good = dapd.Problem(dapd.PseudoHuber(0.5), np.eye(2, 6), np.ones(2))
    good.f = Wrong(terms)
    method = PAPC.from_theory(good)
    with pytest.raises(ValueError, match=message):
        NativeRunner(method)


@pytest.mark.parametrize("kinds", [[(dapd.Box(np.zeros(2), np.inf), 5)], [(dapd.Box(0.0, np.inf), 3)]])
def test_kinds_of_the_wrong_size_do_not_reach_the_core(kinds):
    class Phi(dapd.NonNegative):
        def canonical(self, rows):
            return kinds

    problem = dapd.Problem(dapd.PseudoHuber(0.5), np.eye(5, 9), np.ones(5), Phi())
    with pytest.raises(ValueError, match=r"Phi.canonical\(5\) has"):
        dapd.solve(problem)


def solve_with(monkeypatch, method, engine="auto"):
    monkeypatch.setitem(dapd.METHODS, "mine", method)
    return dapd.solve(quadratic_problem(dapd.Zero()), "mine", engine=engine, max_iterations=40, tol=0)


def test_a_method_that_overrides_step_runs_in_python(monkeypatch):
    class Mine(PAPC):
        name = "mine"

        def step(self, state):
            new = super().step(state)
            return new._replace(x=np.maximum(new.x, 0.0))

    found, plain = (solve_with(monkeypatch, Mine, engine) for engine in ("auto", "python"))
    assert found.engine == "python"
    assert "overrides step" in found.engine.reason
    np.testing.assert_allclose(found.x, plain.x, rtol=1e-12, atol=1e-12)


def test_a_point_that_is_no_field_of_the_state(monkeypatch):
    class Mine(PAPC):
        name = "mine"

        @staticmethod
        def point(state):
            return state.x, np.zeros(6)

    result = solve_with(monkeypatch, Mine)
    assert result.engine == "native"
    assert not result.y.any()


def test_a_long_chain_of_factors_is_one(monkeypatch):
    def step(p, o, s):
        new = PAPC.update(p, o, s)
        x = new.x
        for _ in range(3_000):
            x = 1.0 * x
        return new._replace(x=x)

    class Mine(PAPC):
        name = "mine"
        update = staticmethod(step)

    assert solve_with(monkeypatch, Mine).engine == "native"


def test_auto_on_the_native_engine_leaves_blocks_aside_that_only_python_can_run():
    rng = np.random.default_rng(0)
    A = dapd.RowBlocks([rng.standard_normal((5, 4)), dapd.Identity(4)])
    f = dapd.Separable([dapd.LeastSquares(A, np.ones(9), 1.0)] * 20)
    problem = dapd.Problem(f, rng.standard_normal((4, 80)), np.ones(4), blocks=20)
    result = dapd.solve(problem, engine="native")
    assert result.engine == "native"
    assert result.converged
