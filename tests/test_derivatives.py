"""Derivatives of solutions: against central differences, forward against reverse mode, under jit and vmap."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
from jax.test_util import check_grads

import dapd
import dapd.jax as dj
from instances import COLUMNS, ROWS, dual_pair, hessian, matrix

STEP = 1e-5  # of central differences


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


rng = np.random.default_rng(3)
A, TARGETS = rng.standard_normal((14, COLUMNS)), rng.standard_normal(14)
SPARSE = sp.random_array((ROWS, COLUMNS), density=0.5, rng=rng, format="csr") + sp.eye_array(ROWS, COLUMNS)

PHIS = {  # the parameters, and φ made of them
    "zero": ([], dj.Zero),
    "nonnegative": ([], dj.NonNegative),
    "l1": ([0.3], dj.L1),
    "l1 by rows": ([np.linspace(0.1, 0.6, ROWS)], dj.L1),
    "group ball": ([0.8], lambda r: dj.GroupBall(r, 2)),
    "uneven group ball": ([np.array([0.8, 1.2])], lambda r: dj.GroupBall(r, [slice(0, 2), slice(2, 6)])),
    "box": ([-0.5, 0.7], dj.Box),
    "one-sided box": ([np.array([-0.5, -0.6, -0.7])], lambda low: dj.Box(jnp.append(jnp.full(3, -jnp.inf), low), 0.7)),
    "interval": ([np.array([-1.0, 0.2, -0.3]), np.array([1.0, 0.5, 0.3])], lambda low, high: dj.Interval(
        jnp.concatenate([low, jnp.array([-jnp.inf, -jnp.inf, 0.4])]),
        jnp.concatenate([high, jnp.array([0.5, jnp.inf, 0.4])]),
    )),
    "conjugate": ([0.5], lambda nu: dj.Conjugate(dj.L1(nu))),
    "conjugate group ball": ([0.5], lambda r: dj.Conjugate(dj.GroupBall(r, 3))),
    "stack": ([0.2, 0.9], lambda nu, r: dj.Stack([dj.Zero(), dj.L1(nu), dj.GroupBall(r, 2)], sizes=[2, 2, 2])),
}
FUNCTIONS = {
    "diagonal": ([np.linspace(1, 4, COLUMNS), np.linspace(-1, 1, COLUMNS)], dj.Quadratic),
    "least squares": ([A, TARGETS, 0.3], dj.LeastSquares),
    "logistic": ([A, 0.3], lambda A, ridge: dj.Logistic(A, np.sign(TARGETS), ridge)),
    "pseudo-Huber": ([0.4], dj.PseudoHuber),
    "separable": ([0.4, np.linspace(1, 2, 6)], lambda e, h: dj.Separable([dj.PseudoHuber(e), dj.Quadratic(h, TARGETS[:6])], [4, 6])),
    "own": ([np.linspace(1, 2, COLUMNS)], lambda t: dj.Smooth(lambda x, t: jnp.sum(jnp.cosh(t * x) - x), t)),
}


def directions(parameters, seed=0):
    draw = np.random.default_rng(seed)
    return [draw.standard_normal(np.shape(p)) * (1 if np.ndim(p) else 0.5) for p in parameters]


def check(solution, parameters, rtol=1e-5):
    """Every parameter by itself against central differences, and reverse against forward mode for all at once."""
    parameters = [jnp.asarray(p, float) for p in parameters]
    solution = jax.jit(solution)
    forward = jax.jit(lambda p, d: jax.jvp(solution, tuple(p), tuple(d))[1])
    moves = [jnp.asarray(d) for d in directions(parameters)]
    slopes = []
    for k, move in enumerate(moves):
        ahead, behind = (solution(*(p + (s * move if j == k else 0) for j, p in enumerate(parameters))) for s in (STEP, -STEP))
        found = forward(parameters, [d * (j == k) for j, d in enumerate(moves)])
        expected = (ahead - behind) / (2 * STEP)
        assert jnp.linalg.norm(expected) > 0
        assert jnp.linalg.norm(found - expected) <= rtol * jnp.linalg.norm(expected), k
        slopes.append(found)
    weights = jnp.asarray(np.random.default_rng(1).standard_normal(slopes[0].shape))
    backward = jax.jit(lambda p, g: jax.vjp(solution, *p)[1](g))(parameters, weights)
    for slope, gradient, move in zip(slopes, backward, moves, strict=True):
        assert jnp.vdot(weights, slope) == pytest.approx(float(jnp.vdot(gradient, move)), rel=1e-8, abs=1e-10)


def problem_for(phi, seed=0):
    draw = np.random.default_rng(seed)
    M, H = matrix(draw, 5.0), hessian(draw, 10.0)
    x, (y, g) = draw.standard_normal(COLUMNS), dual_pair(phi, draw, ROWS)
    return H, H @ x + M.T @ y, M, M @ x - g


@pytest.mark.parametrize("name", PHIS)
def test_derivatives_match_central_differences_for_every_phi(name):
    parameters, phi = PHIS[name]
    H, c, M, b = problem_for(phi(*parameters).model())
    check(
        lambda b, c, H, M, *rest: jnp.concatenate(dj.solve(dj.Quadratic(H, c), M, b, phi(*rest))[:2]),
        [b, c, H, M, *parameters],
    )


@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives_match_central_differences_for_every_f(name):
    parameters, f = FUNCTIONS[name]
    draw = np.random.default_rng(5)
    M, limit = matrix(draw, 5.0), np.full(COLUMNS, 0.1)
    b = M @ draw.uniform(-0.1, 0.1, COLUMNS) - 0.02
    check(
        lambda b, M, low, high, *rest: jnp.concatenate(dj.solve(f(*rest), M, b, dj.NonNegative(), bounds=(low, high))),
        [b, M, -limit, limit, *parameters],
    )


def torch_modules():
    return pytest.importorskip("torch"), pytest.importorskip("dapd.torch")


@pytest.mark.parametrize("name", PHIS)
def test_torch_gradients_match_central_differences_for_every_phi(name):
    torch, dt = torch_modules()
    parameters, phi = PHIS[name]
    H, c, M, b = problem_for(phi(*parameters).model())
    tensors = [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (b, c, H, M, *parameters)]
    if "inf" in name or "one-sided" in name:
        pytest.skip("jnp in the lambda")

    def solution(b, c, H, M, *rest):
        return dt.solve(dt.Quadratic(H, c), M, b, phi(*rest))[:2]

    assert torch.autograd.gradcheck(solution, tensors, atol=1e-6, rtol=1e-5)
