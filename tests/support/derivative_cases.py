"""Problems whose solutions are differentiated, and a check by central differences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from instances import COLUMNS, ROWS, dual_pair, hessian, matrix

import dapd
import dapd.jax as dj

STEP = 1e-5  # of central differences
INF = np.full(3, np.inf)
rng = np.random.default_rng(3)
A, TARGETS = rng.standard_normal((14, COLUMNS)), rng.standard_normal(14)


def padded(xp, v, rest):
    return xp.concatenate([v, xp.asarray(rest)])


PHIS = {  # the parameters, and φ made of them
    "zero": ([], lambda xp: dj.Zero()),
    "nonnegative": ([], lambda xp: dj.NonNegative()),
    "l1": ([0.3], lambda xp, nu: dj.L1(nu)),
    "l1 by rows": ([np.linspace(0.1, 0.6, ROWS)], lambda xp, nu: dj.L1(nu)),
    "group ball": ([0.8], lambda xp, r: dj.GroupBall(r, 2)),
    "uneven group ball": ([np.array([0.8, 1.2])], lambda xp, r: dj.GroupBall(r, [slice(0, 2), slice(2, 6)])),
    "box": ([-0.5, 0.7], lambda xp, low, high: dj.Box(low, high)),
    "one-sided box": ([np.array([-0.5, -0.6, -0.7])], lambda xp, low: dj.Box(padded(xp, low, -INF), 0.7)),
    "interval": (
        [np.array([-1.0, 0.2, -0.3]), np.array([1.0, 0.5, 0.3])],
        lambda xp, low, high: dj.Interval(
            padded(xp, low, np.array([-np.inf, -np.inf, 0.4])), padded(xp, high, np.array([0.5, np.inf, 0.4]))
        ),
    ),
    "conjugate": ([0.5], lambda xp, nu: dj.Conjugate(dj.L1(nu))),
    "conjugate group ball": ([0.5], lambda xp, r: dj.Conjugate(dj.GroupBall(r, 3))),
    "stack": ([0.2, 0.9], lambda xp, nu, r: dj.Stack([dapd.Zero(), dj.L1(nu), dj.GroupBall(r, 2)], sizes=[2, 2, 2])),
}

FUNCTIONS = {
    "diagonal": ([np.linspace(1, 4, COLUMNS), np.linspace(-1, 1, COLUMNS)], dj.Quadratic),
    "least squares": ([A, TARGETS, 0.3], dj.LeastSquares),
    "logistic": ([A, 0.3], lambda A, ridge: dj.Logistic(A, np.sign(TARGETS), ridge)),
    "pseudo-Huber": ([0.4], dj.PseudoHuber),
    "separable": (
        [0.4, np.linspace(1, 2, 6)],
        lambda e, h: dj.Separable([dj.PseudoHuber(e), dj.Quadratic(h, TARGETS[:6])], [4, 6]),
    ),
    "own": ([np.linspace(1, 2, COLUMNS)], lambda t: dj.Smooth(cosh, t)),
}


def cosh(x, t):
    return jnp.sum(jnp.cosh(t * x) - x)


def problem_for(name, seed=0):
    """H, c, M and b of a problem with this φ whose solution is known, and away from kinks; and φ's parameters."""
    parameters, phi = PHIS[name]
    draw = np.random.default_rng(seed)
    M, H = matrix(draw, 5.0), hessian(draw, 10.0)
    kind = phi(np, *parameters)
    x, (y, g) = draw.standard_normal(COLUMNS), dual_pair(dj_model(kind), draw, ROWS)
    return (M @ x - g, H @ x + M.T @ y, H, M), parameters, phi


def dj_model(kind):
    """The class of `dapd`, with checked numbers; parts may be of `dapd` already."""
    from dapd.derivatives.data import record

    return record(kind).checked()


def check(solution, parameters):
    """Compare each parameter by itself with central differences, and reverse with forward mode; return the slopes."""
    parameters = [jnp.asarray(p, float) for p in parameters]
    draw = np.random.default_rng(0)
    moves = [jnp.asarray(draw.standard_normal(p.shape)) for p in parameters]
    weights = jnp.asarray(draw.standard_normal(jax.eval_shape(solution, *parameters).shape))
    forward = jax.jit(lambda parameters, moves: jax.jvp(solution, parameters, moves))
    gradients = jax.jit(lambda parameters: jax.vjp(solution, *parameters)[1](weights))(parameters)
    slopes = []
    for k, move in enumerate(moves):
        only = [d * (j == k) for j, d in enumerate(moves)]
        ahead, behind = (
            forward([p + step * d for p, d in zip(parameters, only, strict=True)], only)[0] for step in (STEP, -STEP)
        )
        expected = (ahead - behind) / (2 * STEP)
        _, slope = forward(parameters, only)
        assert jnp.linalg.norm(slope - expected) <= 1e-5 * jnp.linalg.norm(expected) + 1e-8, k
        assert jnp.vdot(weights, slope) == pytest.approx(float(jnp.vdot(gradients[k], move)), rel=1e-8, abs=1e-10)
        slopes.append(slope)
    return slopes


def portfolio(b, nu):
    """A small problem whose row and group constraints are both active."""
    M = matrix(np.random.default_rng(0), 5.0, rows=4)
    phi = dj.Stack([dj.L1(nu), dj.GroupBall(0.8, 2)], [2, 2])
    return dj.solve(dj.Quadratic(np.linspace(1, 2, COLUMNS), np.ones(COLUMNS)), M, b, phi).x


B = np.array([0.5, -0.4, 0.3, 0.9])
