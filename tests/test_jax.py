"""The same step runs inside jax.jit: an engine for accelerators needs no second definition."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dapd
from instances import PHIS, quadratic_problem
from test_methods import PAIRS, close

STEPS = 200


class JaxOracle:
    def __init__(self, problem):
        self.phi, self.b = problem.phi, jnp.asarray(problem.b)
        self.M, self.H, self.c = jnp.asarray(problem.M.matrix), jnp.asarray(problem.f.H), jnp.asarray(problem.f.c)

    def grad(self, x):
        return self.H @ x - self.c

    def dual_step(self, v, base, step):
        y = self.phi.prox(base + self.M @ v, step)
        return y, y @ self.M

    def adjoint(self, y):
        return y @ self.M


@pytest.mark.parametrize(("name", "phi"), PAIRS)
def test_step_under_jit_gives_the_same_iterates(name, phi):
    problem = quadratic_problem(PHIS[phi])
    method = dapd.METHODS[name].from_theory(problem)
    with jax.enable_x64(True):
        oracle = JaxOracle(problem)
        step = jax.jit(lambda s: type(method).update(method.parameters, oracle, s))
        x0, y0 = jnp.zeros(problem.columns), jnp.zeros(problem.rows)
        traced = type(method).first(method.parameters, oracle, x0, y0)
        plain = method.init()
        for _ in range(STEPS):
            traced, plain = step(traced), method.step(plain)
            for a, b in zip(traced, plain, strict=True):
                assert a.dtype == np.float64
                assert close(np.asarray(a), b)


def test_builtin_gradients_run_under_jit():
    rng = np.random.default_rng(0)
    A, x = rng.standard_normal((7, 4)), rng.standard_normal(4)
    labels = np.sign(rng.standard_normal(7))
    functions = [
        dapd.PseudoHuber(0.3),
        dapd.Quadratic(np.arange(1.0, 5.0), x),
        dapd.LeastSquares(A, labels, 0.1),
        dapd.Logistic(A, labels, 0.1),
        dapd.Separable([dapd.PseudoHuber(0.3), dapd.Quadratic([1.0, 2.0])], sizes=[2, 2]),
    ]
    with jax.enable_x64(True):
        for f in functions:
            assert close(np.asarray(jax.jit(f.grad)(jnp.asarray(x))), f.grad(x))
