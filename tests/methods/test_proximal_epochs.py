"""Proximal epochs are x- and y-DAPD on an augmented problem, for which the theorems hold whatever f and M are."""

import math
from decimal import Decimal

import numpy as np
import pytest
from exact import NUDGE, ExactProblem, ExactQuadratic, decimals
from hypothesis import given, settings
from hypothesis import strategies as st
from test_theorems import ALLOWED, PHIS, x_side, y_side

import dapd
from dapd import theory
from dapd.engines import bind
from dapd.methods.proximal import XProximal, YProximal, parameters
from dapd.ways.epochs import accuracy

ROWS, COLUMNS, STEPS = 6, 5, 200
SIDES = {"x": (XProximal, theory.x_dapd), "y": (YProximal, theory.y_dapd)}


def degenerate(rng):
    """A semidefinite H of rank two and an M with dependent rows and a zero row, in integers."""
    B, M = rng.integers(-3, 4, (2, COLUMNS)).astype(float), rng.integers(-3, 4, (ROWS, COLUMNS)).astype(float)
    M[3], M[4] = M[0] + M[1], 0.0
    return B.T @ B, M


def of_side(side, H, M, mu_hat, delta):
    kind, settings_of = SIDES[side]
    L, s_max = np.linalg.norm(H, 2) * (1 + 1e-12), np.linalg.norm(M, 2) * (1 + 1e-12)
    _, p = parameters(L=L, mu=0.0, s_max=s_max, mu_hat=mu_hat, delta=delta)
    return kind, p._replace(side=settings_of(L=L + mu_hat, mu=mu_hat, s_max=math.hypot(s_max, p.r), s_min=p.r))


class Given:
    """The problem that was augmented, as the oracle of a proximal step."""

    def __init__(self, whole, H, M, mu_hat, x_k):
        self.phi, self.b, self.M = whole.phi, whole.b, M
        self.f = ExactQuadratic(H, whole.f.c[:COLUMNS] - mu_hat * x_k)

    def grad(self, x):
        return self.f.grad(x)

    def dual_step(self, v, base, step):
        y = self.phi.prox(base + self.M @ v, step)
        return y, self.M.T @ y

    def adjoint(self, y):
        return self.M.T @ y


@pytest.mark.parametrize("phi", PHIS)
@pytest.mark.parametrize("side", SIDES)
@given(mu_hat=st.floats(-3.0, 1.0), delta=st.floats(-3.0, 1.0), seed=st.integers(0, 2**16))
@settings(max_examples=8)
def test_lyapunov_of_the_augmented_problem_decreases_by_theorem_rate(side, phi, mu_hat, delta, seed, many_digits):
    rng = np.random.default_rng(seed)
    H, M = degenerate(rng)
    kind, p = of_side(side, H, M, 10.0**mu_hat, 10.0**delta)
    p = type(p)(decimals(p.side), *map(Decimal, p[1:]))
    H, M, identity = decimals(H), decimals(M), decimals(np.eye(ROWS))
    x_k, y_k, x_star = (decimals(rng.standard_normal(size)) for size in (COLUMNS, ROWS, COLUMNS))
    v = decimals(1.5 * rng.standard_normal(ROWS))
    y_star = ExactProblem(np.eye(ROWS), np.eye(ROWS), PHIS[phi], np.zeros(ROWS), v).y_star
    zero = decimals(np.zeros((COLUMNS, ROWS)))
    whole = ExactProblem(
        np.block([[H + p.mu * decimals(np.eye(COLUMNS)), zero], [zero.T, p.c * identity]]),
        np.hstack([M, p.r * identity]),
        PHIS[phi],
        np.concatenate([x_star, p.r / p.c * (y_k - y_star)]),  # the u* that belongs to u_k = r·y_k/c
        v,
    )
    oracle = Given(whole, H, M, p.mu, x_k)
    state = kind.first(p, oracle, x_k, y_k)

    def psi():
        u = np.concatenate([state.x, state.u])
        inner = {"x": u, "y": state.y}
        inner |= {"z": np.concatenate([state.z, state.z_u])} if side == "x" else {"w": state.w}
        arguments = (x_side if side == "x" else y_side)(p.side, type("Inner", (), inner))
        return p.side.lyapunov(whole.saddle, **arguments)

    if side == "y":  # Ψ is finite where φ is
        state = kind.first(p, oracle, x_k, whole.phi.prox(y_k, Decimal(1)))._replace(u_k=state.u_k)
    before = psi()
    for _ in range(STEPS):
        state = kind.update(p, oracle, state)
        after = psi()
        assert 0 <= after <= (1 - 1 / p.side.Pi) * (1 + ALLOWED) * before
        if after < NUDGE:
            break
        before = after


def problem_of(rng, phi):
    H, M = degenerate(rng)
    return dapd.Problem(dapd.Quadratic(H, rng.standard_normal(COLUMNS)), M, rng.standard_normal(ROWS), phi)


@pytest.mark.parametrize("phi", PHIS)
@pytest.mark.parametrize("side", SIDES)
def test_step_equals_the_named_method_on_the_augmented_problem(side, phi):
    rng = np.random.default_rng(3)
    problem = problem_of(rng, PHIS[phi])
    kind, p = of_side(side, problem.f.H, problem.M.dense(), 0.3, 0.2)
    x, y = rng.standard_normal(COLUMNS), rng.standard_normal(ROWS)
    H = np.zeros((COLUMNS + ROWS,) * 2)
    H[:COLUMNS, :COLUMNS], H[COLUMNS:, COLUMNS:] = problem.f.H + p.mu * np.eye(COLUMNS), p.c * np.eye(ROWS)
    linear = np.concatenate([problem.f.c + p.mu * x, p.r * y])
    whole = np.hstack([problem.M.dense(), p.r * np.eye(ROWS)])
    augmented = dapd.Problem(dapd.Quadratic(H, linear), whole, problem.b, PHIS[phi])
    named = dapd.METHODS[f"{side}-dapd"](augmented, p.side, x0=np.concatenate([x, np.zeros(ROWS)]), y0=y)
    ours = kind(problem, p, x0=x, y0=y)
    for _, a, b in zip(range(100), ours, named, strict=False):
        np.testing.assert_allclose(np.concatenate([a.x, a.u]), b.x, rtol=0, atol=1e-12)
        np.testing.assert_allclose(a.y, b.y, rtol=0, atol=1e-12)


@pytest.mark.parametrize("side", SIDES)
def test_native_equals_python(side):
    pytest.importorskip("dapd._core_baseline")
    rng = np.random.default_rng(4)
    problem = problem_of(rng, dapd.Box(-0.5, 0.7))
    kind, p = of_side(side, problem.f.H, problem.M.dense(), 0.3, 0.2)
    start = {"x0": rng.standard_normal(COLUMNS), "y0": rng.standard_normal(ROWS)}
    states = []
    for engine in ("native", "python"):
        runner = bind(kind(problem, p, **start), engine)
        runner.start()
        runner.advance(100, math.inf)
        states.append(runner.state)
    for native, python in zip(*states, strict=True):
        np.testing.assert_allclose(native, python, rtol=0, atol=1e-12)


@pytest.mark.parametrize("phi", PHIS)
def test_accuracy_bounds_the_distance_from_the_exact_step(phi):
    rng = np.random.default_rng(5)
    problem = problem_of(rng, PHIS[phi])
    kind, p = of_side("y", problem.f.H, problem.M.dense(), 0.3, 0.2)
    x, y = rng.standard_normal(COLUMNS), rng.standard_normal(ROWS)
    runner = bind(kind(problem, p, x0=x, y0=y))
    runner.start()
    runner.advance(int(80 * p.Pi), math.inf)
    state = runner.state
    exact = accuracy(problem, p, state.x, x, y)
    assert exact.error <= exact.rounding
    np.testing.assert_allclose(exact.y, state.y, atol=1e-9)
    for away in (1e-6, 1e-3, 1.0):
        near = state.x + away * rng.standard_normal(COLUMNS)
        found = accuracy(problem, p, near, x, y)
        off_x, off_y = near - state.x, found.y - exact.y
        assert math.sqrt(p.mu * (off_x @ off_x) + p.delta * (off_y @ off_y)) <= found.error * (1 + 1e-6) + 1e-9
