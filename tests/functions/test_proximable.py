"""f is a part whose prox is known in closed form, and a rest that is linearised."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import dapd
from dapd.functions.proximable import PrimalProx, proximable

N = 6
KINDS = {
    "linear": (lambda rng: dapd.Quadratic(None, rng.standard_normal(N)), False),
    "zero": (lambda rng: dapd.Quadratic(np.zeros(N)), False),
    "ridge": (lambda rng: dapd.Quadratic(np.full(N, 0.7), rng.standard_normal(N)), False),
    "diagonal": (lambda rng: dapd.Quadratic(rng.random(N), rng.standard_normal(N)), False),
    "sparse diagonal": (lambda rng: dapd.Quadratic(sp.diags_array(1 + rng.random(N)).tocsr(), np.ones(N)), False),
    "least squares of x": (lambda rng: dapd.LeastSquares(dapd.Identity(N), rng.standard_normal(N), 0.4), None),
    "dense": (lambda rng: dapd.Quadratic(gram(rng), rng.standard_normal(N)), True),
    "sparse": (lambda rng: dapd.Quadratic(sp.csr_array(gram(rng))), True),
    "least squares": (lambda rng: dapd.LeastSquares(rng.standard_normal((4, N)), rng.standard_normal(4)), True),
    "least squares and a ridge": (
        lambda rng: dapd.LeastSquares(rng.standard_normal((9, N)), rng.standard_normal(9), 0.3),
        True,
    ),
    "logistic and a ridge": (
        lambda rng: dapd.Logistic(rng.standard_normal((9, N)), np.sign(rng.standard_normal(9)), 0.3),
        True,
    ),
    "pseudo-huber": (lambda rng: dapd.PseudoHuber(0.5), True),
    "separable, all of it known": (
        lambda rng: dapd.Separable([dapd.Quadratic(np.ones(2)), dapd.Quadratic(None, np.ones(4))], sizes=[2, 4]),
        False,
    ),
    "separable": (
        lambda rng: dapd.Separable(
            [dapd.Quadratic(np.ones(2)), dapd.PseudoHuber(0.5), dapd.LeastSquares(np.ones((1, 2)), [1.0], 0.2)],
            sizes=[2, 2, 2],
        ),
        True,
    ),
    "only available in Python": (lambda rng: dapd.Smooth(lambda x: x @ x, lambda x: 2 * x, 2.0, 2.0), True),
}


def gram(rng):
    B = rng.standard_normal((N, N))
    return B @ B.T


def parts_of(split, x):
    """Value and gradient of ½Σ hⱼxⱼ² − cᵀx + rest(x)."""
    h = np.zeros(N) if split.curvature is None else split.curvature
    c = np.zeros(N) if split.c is None else split.c
    value, slope = x @ (h * x) / 2 - c @ x, h * x - c
    if split.rest is None:
        return value, slope
    return value + split.rest.value(x), slope + split.rest.grad(x)


@pytest.mark.parametrize("kind", KINDS)
@given(seed=st.integers(0, 2**16), size=st.sampled_from([1e-3, 1.0, 1e3]))
@settings(max_examples=20, deadline=None)
def test_the_parts_add_up(kind, seed, size):
    rng = np.random.default_rng(seed)
    f = KINDS[kind][0](rng)
    split = proximable(f, N)
    zero = np.zeros(N)
    for x in (zero, size * rng.standard_normal(N)):
        value, slope = parts_of(split, x)
        np.testing.assert_allclose(slope, f.grad(x), rtol=1e-10, atol=1e-10 * (1 + size))
        found, wanted = value - parts_of(split, zero)[0], f.value(x) - f.value(zero)  # but for a constant
        np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-10 * (1 + size**2))
    assert split.curvature is None or ((split.curvature >= 0).all() and split.curvature.any())
    assert split.c is None or split.c.any()


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_left_of_what_has_a_prox(kind):
    make, left = KINDS[kind]
    split = proximable(make(np.random.default_rng(0)), N)
    assert left is None or (split.rest is not None) == left
    if kind.endswith("a ridge"):
        np.testing.assert_array_equal(split.curvature, np.full(N, 0.3))


@pytest.mark.parametrize("kind", [kind for kind, (_, left) in KINDS.items() if left])
def test_the_L_of_the_rest_bounds_its_curvature(kind):
    rng = np.random.default_rng(3)
    f = KINDS[kind][0](rng)
    rest = proximable(f, N).rest
    assert 0 < rest.L <= f.L * (1 + 1e-12)
    for _ in range(20):
        x, y = (rng.standard_normal(N) for _ in range(2))
        assert np.linalg.norm(rest.grad(x) - rest.grad(y)) <= rest.L * np.linalg.norm(x - y) * (1 + 1e-9)


def test_an_unknown_L_stays_unknown():
    f = dapd.Smooth(lambda x: x @ x / 2, lambda x: x)
    assert proximable(f, N) == (None, None, f)
    assert proximable(f, N).rest.L is None


BOUNDS = {
    "none": (None, None),
    "below": (np.linspace(-1, 1, N), None),
    "above": (None, np.linspace(-1, 1, N)),
    "equal": (np.linspace(-1, 1, N), np.linspace(-1, 1, N)),
    "mixed": (np.r_[-np.inf, -1, -1, 0.5, -np.inf, 0], np.r_[np.inf, 1, np.inf, 0.5, 0, 0.1]),
    "numbers": (-0.5, 0.5),
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize("curvature", [None, 0.0, 2.0, np.linspace(0, 3, N)])
@given(seed=st.integers(0, 2**16), step=st.floats(-6, 6))
@settings(max_examples=10, deadline=None)
def test_the_prox_is_optimal(curvature, bounds, dtype, seed, step):
    rng, (lower, upper) = np.random.default_rng(seed), BOUNDS[bounds]
    for c in (None, 0.3, rng.standard_normal(N)):
        prox = PrimalProx(curvature, c, lower, upper).in_dtype(dtype)
        v, t = (3 * rng.standard_normal(N)).astype(dtype), dtype(10.0**step)
        x = prox(v, t)
        assert x.dtype == dtype
        low, high = (np.full(N, end) if value is None else np.broadcast_to(np.asarray(value, dtype), N)
                     for value, end in ((lower, -np.inf), (upper, np.inf)))  # fmt: skip
        assert ((low <= x) & (x <= high)).all()
        h = 0.0 if curvature is None else curvature
        slope = (h * x - (0.0 if c is None else c)) * float(t) + x - v  # of the objective, times the step
        rounding = 1e2 * np.finfo(dtype).eps * (abs(v) + abs(x) * (1 + h * float(t)) + float(t))
        assert (abs(slope) <= rounding)[(low < x) & (x < high)].all()
        assert (slope >= -rounding)[(x == low) & (x < high)].all()
        assert (slope <= rounding)[(x == high) & (x > low)].all()


@pytest.mark.parametrize("bounds", BOUNDS)
def test_the_minimiser_is_the_prox_of_an_endless_step(bounds):
    rng = np.random.default_rng(4)
    prox, slope = PrimalProx(np.linspace(1, 3, N), rng.standard_normal(N), *BOUNDS[bounds]), rng.standard_normal(N)
    np.testing.assert_allclose(prox.minimiser(slope), prox(-1e14 * slope, 1e14), rtol=1e-12, atol=1e-12)


def test_a_problem_has_the_prox_of_its_bounds():
    f = dapd.Quadratic(np.ones(3), np.ones(3))
    for bounds, lower, upper in ((None, False, False), ((0, None), True, False), ((None, 1), False, True)):
        prox = dapd.Problem(f, np.eye(3), np.ones(3), bounds=bounds).primal_prox
        assert (prox.lower is not None, prox.upper is not None) == (lower, upper)
