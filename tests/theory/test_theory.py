"""The parameters satisfy the relations that the paper's proofs use, and predict the right counts."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from instances import quadratic_problem

import dapd
from dapd import theory

ORDERS = st.floats(0.0, 6.0)
CONSTANTS = st.tuples(ORDERS, ORDERS, st.floats(-3, 3), st.floats(-3, 3))


def constants(orders):
    kappa, ratio, mu, s_min = (10.0**order for order in orders)
    return mu * kappa, mu, s_min * ratio, s_min


def equal(a, b):
    return a == pytest.approx(b, rel=1e-9)


@given(CONSTANTS)
def test_x_dapd_satisfies_the_relations_of_its_proof(orders):
    L, mu, s_max, s_min = constants(orders)
    p = theory.x_dapd(L=L, mu=mu, s_max=s_max, s_min=s_min)
    assert p.alpha == min(0.2, s_max / s_min * math.sqrt(mu / (8 * L)))
    assert equal(p.s_hat, 1 / s_max**2)
    assert equal(p.t, (1 - 4 * p.alpha) / (L * (1 + 4 * p.alpha)))
    assert equal(p.s * p.t, p.s_hat)
    first, second = (s_max / s_min) ** 2 / (2 * p.alpha), math.sqrt(1 / (mu * p.t)) + 4 * p.alpha * L / mu
    assert equal(p.Pi, max(first, second))
    # the coefficients that cancel in the proof
    excess = 1 + 4 * L * p.alpha * p.t
    assert equal(2 * p.Xi_v * p.xi**2 * p.t, excess)
    assert equal(2 * p.Xi_v * p.xi * (p.xi - 1) * p.t, 1 - 1 / p.Pi)
    assert equal(p.xi, 1 + p.gamma + p.gamma * p.tau)
    assert equal(p.chi, p.Xi_v * p.xi * p.t / (p.Xi_y * p.s))
    assert equal(2 * p.Xi_y * p.s_hat, p.t)


@given(CONSTANTS)
def test_y_dapd_satisfies_the_relations_of_its_proof(orders):
    L, mu, s_max, s_min = constants(orders)
    p = theory.y_dapd(L=L, mu=mu, s_max=s_max, s_min=s_min)
    assert equal(p.xi, max(1.0, s_max / s_min * math.sqrt(mu / L / 2)))
    assert equal(p.t, 1 / (2 * L))
    assert equal(p.t_tilde, p.t / (2 * p.xi))
    assert equal(p.s * p.t, 1 / s_max**2)
    assert equal(p.Pi, max(2 / p.xi * (s_max / s_min) ** 2, 4 * p.xi * L / mu))
    assert equal(p.tau * (1 - 1 / p.Pi), p.xi - 1)
    assert equal(p.gamma * (p.tau + 1), p.xi - 1)
    assert equal(p.Xi_x, p.Xi_u * p.xi * p.s / p.t_tilde)
    assert equal(p.Xi_u, 1 / (2 * p.xi**2 * p.s_hat))


@given(CONSTANTS, st.integers(1, 500))
def test_block_records(orders, N):
    L, mu, s, s_min = constants(orders)
    x = theory.x_sbc(L=L, mu=mu, s_bar_max=s, s_min=s_min, N=N)
    assert equal(x.s_hat, 7 / 32 / s**2)
    assert equal(x.t, (1 - 4 * x.alpha - 2 * (1 + 1 / 7) * x.s_hat * s**2) / (L + 4 * L * x.alpha))
    needed = N * max(1 / (s_min**2 * x.s_hat * 2 * x.alpha), math.sqrt(1 / (mu * x.t)) + L / mu * 4 * x.alpha)
    assert x.Pi >= needed * (1 - 1e-12)
    assert equal(x.xi, (1 + 4 * L * x.alpha * x.t) / (N / x.Pi + 4 * L * x.alpha * x.t))
    assert equal(x.tau * (1 - N / x.Pi), x.xi - 1)
    assert equal(x.chi, x.Xi_v * x.xi * x.t / (x.Xi_y * x.s))

    z = theory.x_sbc_nonseparable(L=L, mu=mu, s_bar_max=s, s_min=s_min, N=N)
    a = z.alpha / N
    assert equal(z.t, (1 - 4 * z.alpha - 2 * (1 + 1 / 7) * z.s_hat * s**2) / (L + 4 * L * a))
    assert equal(z.xi, (1 + 4 * L * a * z.t) / (1 / z.Pi + 4 * L * a * z.t))
    assert equal(z.Xi_v, N**2 * (1 + 4 * L * a * z.t) / (2 * z.xi**2 * z.t))
    assert equal(z.chi, z.Xi_v * z.xi * z.t / (N * z.Xi_y * z.s))
    assert equal(z.omega, (z.tau + z.xi / N) / ((1 + z.gamma) * (1 + z.tau)))

    y = theory.y_sbc(L=L, mu=mu, s_bar_max=s, s_min=s_min, N=N)
    assert equal(y.s_hat, 1 / 4 / s**2)
    assert equal(y.Pi, N * max(8 / y.xi * (s / s_min) ** 2, 4 * y.xi * L / mu))
    # the condition under which its theorem holds, with alpha = 1/2 and beta = 1/3
    assert y.xi * (y.xi - 1) >= (y.alpha * (1 + y.tau) * (y.xi - 1) + y.xi**2 / 3) * (1 - 1e-9)


@given(CONSTANTS)
def test_favoured_side_has_the_smaller_count(orders):
    L, mu, s_max, s_min = constants(orders)
    side = theory.favoured(L=L, mu=mu, s_max=s_max, s_min=s_min)
    best, other = (side.x, side.y) if side.method == "x-dapd" else (side.y, side.x)
    assert best.Pi <= other.Pi
    assert equal(side.factor, other.Pi / best.Pi)
    assert theory.iterations(best, 1e-6) <= theory.iterations(other, 1e-6)


@pytest.mark.parametrize("accuracy", [0.5, 1e-3, 1e-12])
def test_predicted_count_is_the_first_that_suffices(accuracy):
    p = theory.y_dapd(L=100.0, mu=1.0, s_max=10.0, s_min=1.0)
    k = theory.iterations(p, accuracy)
    assert (1 - 1 / p.Pi) ** k <= accuracy < (1 - 1 / p.Pi) ** (k - 1)
    assert theory.iterations(p, 1.0) == 0


def test_one_step_suffices_if_pi_is_one():
    assert theory.iterations(theory.papc(L=1.0, mu=1.0, s_max=1.0, s_min=1.0), 1e-6) == 1


def test_papc_without_full_rank_has_no_predicted_count():
    assert theory.iterations(theory.papc(L=2.0, mu=1.0, s_max=1.0), 1e-3) == math.inf


@pytest.mark.parametrize("method", ["x-dapd", "y-dapd", "papc", "apapc"])
def test_a_run_needs_at_most_the_predicted_count(method):
    problem = quadratic_problem(dapd.NonNegative(), kappa=30.0, ratio=6.0)
    bound = dapd.METHODS[method].from_theory(problem)
    count = theory.iterations(bound.parameters, 1e-6)
    x, _ = bound.point(bound.run(bound.init(), int(count)))
    assert np.linalg.norm(x - problem.x_star) < 1e-2 * np.linalg.norm(problem.x_star)


@pytest.mark.parametrize(("kappa", "ratio"), [(1.0, 1.0), (30.0, 6.0), (300.0, 1.0), (4.0, 50.0)])
def test_capd_needs_at_most_the_predicted_count_of_inner_iterations(kappa, ratio):
    problem = quadratic_problem(dapd.Zero(), kappa=kappa, ratio=ratio)
    count = theory.iterations(dapd.METHODS["capd"].from_theory(problem).parameters, 1e-6)
    result = dapd.solve(problem, "capd", tol=0, max_iterations=int(count))
    assert result.iterations == count
    assert np.linalg.norm(result.x - problem.x_star) < 1e-2 * np.linalg.norm(problem.x_star)


@pytest.mark.parametrize(("L", "mu"), [(1.0, 1.0), (1e4, 1.0)])
def test_capd_rate_is_that_of_its_polynomial(L, mu):
    """The least eigenvalue of the Chebyshev polynomial is known exactly, and at least 11/15."""
    p = theory.capd(L=L, mu=mu, s_max=30.0, s_min=1.0)
    assert p.N == 30
    t = np.linspace(1.0, 900.0, 20_001)
    # Chebyshev iterations on the scalars t, from the residual 1
    gamma, direction, done = -p.nu / 2, t / p.nu, t / p.nu
    for _ in range(p.N - 1):
        beta = p.rho / gamma
        gamma = -(p.nu + beta)
        direction = (-t * (1 - done) + beta * direction) / gamma
        done = done + direction
    assert 11 / 15 <= done.min() <= done.max() <= 19 / 15
    exact = min(p.eta * mu, p.tau / (2 - 2 * p.tau), p.theta * p.eta * done.min() * min(0.25, p.tau / 2))
    assert p.Pi == pytest.approx(1 + 1 / exact, rel=1e-6)


@pytest.mark.parametrize("extra", [0.0, 1.1e-7, 9e-7])
def test_capd_count_forgives_the_slack_of_an_estimated_ratio(extra):
    assert theory.capd(L=10.0, mu=1.0, s_max=1000.0 * (1 + extra), s_min=1.0).N == 1000
    assert theory.capd(L=10.0, mu=1.0, s_max=math.sqrt(1e5) * (1 + extra), s_min=1.0).N == 317


@given(CONSTANTS)
def test_sharp_x_dapd_is_no_worse_than_the_theorems(orders):
    L, mu, s_max, s_min = constants(orders)
    one, sharp = (theory.x_dapd(L=L, mu=mu, s_max=s_max, s_min=s_min, sharp=sharp) for sharp in (False, True))
    assert sharp.Pi <= one.Pi * (1 + 1e-9)
    assert 0 < sharp.alpha < 1 / 4
    # both conditions of the proof
    assert sharp.Pi * 2 * sharp.alpha * (s_min / s_max) ** 2 >= 1 - 1e-9
    assert sharp.Pi * sharp.xi * mu * sharp.t >= 1 - 1e-9
