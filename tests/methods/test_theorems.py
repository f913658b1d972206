"""Every deterministic theorem, step by step, in arithmetic exact enough to check it."""

from decimal import Decimal
from functools import partial

import numpy as np
import pytest
from exact import NUDGE, ExactProblem, decimals
from hypothesis import example, given, settings
from hypothesis import strategies as st
from instances import hessian, matrix

import dapd
from dapd import theory
from dapd.methods import apapc, papc, x_dapd, y_dapd

ROWS, COLUMNS, STEPS = 4, 5, 300
ALLOWED = Decimal("1e-9")
PHIS = {
    "zero": dapd.Zero(),
    "nonnegative": dapd.NonNegative(),
    "l1": dapd.L1(0.3),
    "group ball": dapd.GroupBall(0.8, 2),
    "box": dapd.Box(-0.5, 0.7),
}
ORDERS = st.floats(0.0, 4.0)  # decimal orders of L/μ and of s_max/s_min


def x_side(p, s):
    return {"x": s.x, "v": (1 + p.tau) * s.z - p.tau * s.x, "y": s.y}


def y_side(p, s):
    return {"x": s.x, "y": s.y, "u": (1 + p.tau) * s.w - p.tau * s.y}


def plain(p, s):
    return {"x": s.x, "y": s.y}


def averaged(p, s):
    return {"x": s.x, "x_f": s.x_f, "y": s.y}


SIDES = {
    "x-dapd": (x_dapd, theory.x_dapd, x_side),
    "x-dapd, sharp": (x_dapd, partial(theory.x_dapd, sharp=True), x_side),
    "y-dapd": (y_dapd, theory.y_dapd, y_side),
    "papc": (papc, theory.papc, plain),
    "apapc": (apapc, theory.apapc, averaged),
}


@pytest.mark.parametrize("phi", PHIS)
@pytest.mark.parametrize("method", SIDES)
@given(kappa=ORDERS, ratio=ORDERS, seed=st.integers(0, 2**16))
@example(kappa=0.0, ratio=0.0, seed=0)
@example(kappa=4.0, ratio=0.0, seed=1)
@example(kappa=0.0, ratio=4.0, seed=2)
@example(kappa=4.0, ratio=4.0, seed=3)
@settings(max_examples=12)
def test_lyapunov_decreases_by_theorem_rate(method, phi, kappa, ratio, seed, many_digits):
    rng = np.random.default_rng(seed)
    kappa, ratio = 10.0**kappa, 10.0**ratio
    scale = float(np.exp(rng.uniform(-3, 3)))
    H, M = hessian(rng, kappa, COLUMNS), matrix(rng, ratio, ROWS, COLUMNS, scale)
    eigenvalues, singular = np.linalg.eigvalsh(H), np.linalg.svd(M, compute_uv=False)
    problem = ExactProblem(H, M, PHIS[phi], rng.standard_normal(COLUMNS), 1.5 * rng.standard_normal(ROWS))
    y = problem.phi.prox(decimals(3 * rng.standard_normal(ROWS)), Decimal(1))
    decreases(method, problem, eigenvalues, singular, decimals(3 * rng.standard_normal(COLUMNS)), y)


@pytest.mark.parametrize("method", SIDES)
@given(kappa=ORDERS, ratio=ORDERS, seed=st.integers(0, 2**16))
@example(kappa=4.0, ratio=4.0, seed=0)
@settings(max_examples=8)
def test_lyapunov_decreases_with_dependent_rows_if_phi_is_zero(method, kappa, ratio, seed, many_digits):
    """With y⁰ and y* in the range of M, its least positive singular value takes the place of s_min."""
    rng = np.random.default_rng(seed)
    H = hessian(rng, 10.0**kappa, COLUMNS)
    # rounded to 30 binary digits, so the last rows depend exactly on the others
    M = np.round(matrix(rng, 10.0**ratio, ROWS - 1, COLUMNS) * 2**30) / 2**30
    M = np.vstack([M, M[0] + 2 * M[1], -M[2]])
    eigenvalues, singular = np.linalg.eigvalsh(H), np.linalg.svd(M, compute_uv=False)[: ROWS - 1]
    rows = decimals(M)
    y_star, y = (rows @ decimals(rng.standard_normal(COLUMNS)) for _ in range(2))
    problem = ExactProblem(H, M, dapd.Zero(), rng.standard_normal(COLUMNS), y_star)
    decreases(method, problem, eigenvalues, singular, decimals(3 * rng.standard_normal(COLUMNS)), y)


def decreases(method, problem, eigenvalues, singular, x, y):
    """Check that Ψ shrinks by the theorem's factor in every step from (x, y)."""
    module, settings_of, arguments = SIDES[method]
    slack = 1e-13 * eigenvalues[-1] / eigenvalues[0]  # the accuracy of the float eigenvalues of H
    p = decimals(
        settings_of(
            L=eigenvalues[-1] * (1 + slack),
            mu=eigenvalues[0] * (1 - slack),
            s_max=singular[0] * (1 + 1e-12),
            s_min=singular[-1] * (1 - 1e-12 * singular[0] / singular[-1]),
        )
    )
    state = module.init(p, problem, x, y)
    psi = p.lyapunov(problem.saddle, **arguments(p, state))
    shrink = (1 - 1 / p.Pi) * (1 + ALLOWED)
    assert psi > 0
    for _ in range(STEPS):
        state = module.step(p, problem, state)
        before, psi = psi, p.lyapunov(problem.saddle, **arguments(p, state))
        assert 0 <= psi <= shrink * before
        if psi < NUDGE:
            break
