"""A φ that nobody has heard of, with its own prox, is solved everywhere and differentiated, alone and beside others."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from instances import COLUMNS, ROWS, hessian, matrix

import dapd
import dapd.jax as dj

STEP = 1e-5  # of central differences


class Pinball(dapd.Phi):
    """φ(y) = Σ max(a·yᵢ, −b·yᵢ) + (c/2)yᵢ²: adds Σ dist²((Mx − b)ᵢ, [−b, a])/(2c) to f."""

    row_steps = True

    def __init__(self, a, b, c):
        self.a, self.b, self.c = a, b, c

    def value(self, y):
        return float(np.sum(np.maximum(self.a * y, -self.b * y) + 0.5 * self.c * y * y))

    def prox(self, v, step):
        above, below = v - step * self.a, v + step * self.b
        return (above * (above > 0) + below * (below < 0)) / (1.0 + step * self.c)

    def conjugate(self, z):
        far = np.maximum(np.maximum(z - self.a, -self.b - z), 0.0)
        return float(far @ far) / (2 * self.c)


class SecondOrderCone(dapd.Phi):
    """The indicator of ‖(y_2, …, y_m)‖ ≤ −y_1: Mx − b lies in the cone ‖(r_2, …, r_m)‖ ≤ r_1."""

    def value(self, y):
        return 0.0 if np.linalg.norm(y[1:]) <= -y[0] + 1e-9 * (1 + abs(y[0])) else np.inf

    def prox(self, v, step):
        xp = v.__array_namespace__()
        length = xp.sqrt(xp.sum(v[1:] ** 2))
        half = (length - v[0]) / 2
        on_cone = half * xp.concat([-xp.ones(1, dtype=v.dtype), v[1:] / xp.where(length > 0, length, 1.0)])
        return xp.where(length <= -v[0], v, xp.where(length <= v[0], 0 * v, on_cone))

    def conjugate(self, z):
        return 0.0 if np.linalg.norm(z[1:]) <= z[0] + 1e-9 * (1 + abs(z[0])) else np.inf


PHIS = {
    "pinball": (lambda: Pinball(0.3, 0.6, 0.5), ROWS),
    "cone": (SecondOrderCone, ROWS),
    "beside others": (
        lambda: dapd.Stack(
            [dapd.L1(0.2), SecondOrderCone(), dapd.GroupBall(0.5, 2), Pinball(0.2, 0.1, 1.0)], [1, 3, 2, 2]
        ),
        8,
    ),
    "conjugate": (lambda: dapd.Conjugate(dapd.Stack([Pinball(0.2, 0.1, 1.0), dapd.Box(-0.3, 0.4)], [2, 4])), ROWS),
}


def data_for(name, seed=0):
    """H, c, M, b and φ of a problem built backwards from its solution x and y."""
    make, rows = PHIS[name]
    phi, rng = make().sized(rows), np.random.default_rng(seed)
    M, H = matrix(rng, 5.0, rows=rows), hessian(rng, 10.0)
    x, v = rng.standard_normal(COLUMNS), 2 * rng.standard_normal(rows)
    y = phi.prox(v, 1.0)  # and v − y ∈ ∂φ(y) is Mx − b
    return H, H @ x + M.T @ y, M, M @ x - (v - y), phi, x, y


@pytest.mark.parametrize("engine", ["auto", "python", "native", "jax"])
@pytest.mark.parametrize("name", PHIS)
def test_it_is_solved_by_every_engine(name, engine):
    H, c, M, b, phi, x, y = data_for(name)
    with jax.enable_x64(True):
        result = dapd.solve(dapd.Problem(dapd.Quadratic(H, c), M, b, phi), tol=1e-8, engine=engine)
    assert result.status == "optimal"
    np.testing.assert_allclose(result.x, x, atol=1e-6)
    np.testing.assert_allclose(result.y, y, atol=1e-5)


@pytest.mark.parametrize("engine", ["auto", "jax"])
@pytest.mark.parametrize("name", PHIS)
def test_a_batch_of_it_is_solved(name, engine):
    H, c, M, b, phi, _, _ = data_for(name)
    first = dapd.Problem(dapd.Quadratic(H, c), M, b, phi)
    problems = [first, *(first.replaced(b=b + 0.01 * k) for k in (1, 2))]
    for result, problem in zip(dapd.solve_batch(problems, tol=1e-8, engine=engine), problems, strict=True):
        assert result.status == "optimal"
        np.testing.assert_allclose(result.x, dapd.solve(problem, tol=1e-9).x, atol=1e-6)


@pytest.mark.parametrize("bounds", [None, (-1.0, 1.0)])
@pytest.mark.parametrize("name", PHIS)
def test_its_solution_is_differentiated(name, bounds):
    H, c, M, b, phi, _, _ = data_for(name)
    rng = np.random.default_rng(1)
    moves = [rng.standard_normal(part.shape) for part in (c, M, b)]

    def solution(c, M, b):
        return jnp.concatenate(dj.solve(dj.Quadratic(H, c), M, b, phi, bounds=bounds)[:2])

    with jax.enable_x64(True):
        _, slope = jax.jvp(solution, (c, M, b), tuple(moves))
        ahead, behind = (
            solution(*(part + step * move for part, move in zip((c, M, b), moves, strict=True)))
            for step in (STEP, -STEP)
        )
        np.testing.assert_allclose(slope, (ahead - behind) / (2 * STEP), atol=1e-5)
        weights = jnp.asarray(rng.standard_normal(slope.shape))
        gradients = jax.jit(lambda *parts: jax.vjp(solution, *parts)[1](weights))(c, M, b)
        total = sum(float(jnp.vdot(g, move)) for g, move in zip(gradients, moves, strict=True))
        assert total == pytest.approx(float(weights @ slope), rel=1e-6)


def test_its_parameters_may_be_traced():
    H, c, M, b, _, _, _ = data_for("pinball")

    def solution(a, c_of_phi):
        return dj.solve(dj.Quadratic(H, c), M, b, dj.Stack([Pinball(a, 0.6, c_of_phi)], [ROWS])).x

    with jax.enable_x64(True):
        for k, gradient in enumerate(jax.jacrev(solution, (0, 1))(0.3, 0.5)):
            ahead, behind = (solution(*(v + STEP * s * (j == k) for j, v in enumerate((0.3, 0.5)))) for s in (1, -1))
            np.testing.assert_allclose(gradient, (ahead - behind) / (2 * STEP), atol=1e-6)
            assert np.linalg.norm(gradient) > 1e-3


def test_a_list_may_hold_traced_numbers():
    H, c, M, b, _, _, _ = data_for("pinball")

    def first(a):
        return dj.solve(dj.Quadratic(H, c), M, b, dj.L1([a, 0.1, 0.2, 0.3, 0.1, 0.2])).x[0]

    with jax.enable_x64(True):
        slope = jax.grad(first)(0.3)
        assert float(slope) == pytest.approx(float(first(0.3 + STEP) - first(0.3 - STEP)) / (2 * STEP), abs=1e-6)


def test_what_it_lacks_is_named():
    class NumpyOnly(Pinball):
        def prox(self, v, step):
            return np.asarray(super().prox(np.asarray(v), step))

    H, c, M, b, _, _, _ = data_for("pinball")
    problem = dapd.Problem(dapd.Quadratic(H, c), M, b, NumpyOnly(0.3, 0.6, 0.5))
    assert dapd.solve(problem, tol=1e-8).converged
    with pytest.raises(ValueError, match="φ = NumpyOnly has a prox that JAX cannot trace"):
        dapd.solve(problem, engine="jax")
