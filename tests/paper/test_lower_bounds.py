"""The hard instances: their solutions, their spectra, and that nothing beats their bounds."""

import itertools
import math
import tracemalloc

import numpy as np
import pytest
import scipy.linalg
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import dapd
from dapd.certificate.certify import certify
from dapd.lower_bounds import affine, block, convex_concave, extragradient, landscape
from dapd.paper.lower_bounds.chain import index_type
from dapd.paper.lower_bounds.instances import half_width

DETERMINISTIC = ["x-dapd", "y-dapd", "papc", "apapc", "capd", "condat-vu", "r2hpdhg"]
ROOT = 5**0.5


def decades(low, high):
    return st.floats(low, high).map(lambda e: 10.0**e)


@st.composite
def constants(draw, condition=6.0, ratio=3.0):
    mu, s_min = draw(decades(-2, 2)), draw(decades(-2, 2))
    return {
        "L": mu * draw(decades(0, condition)),
        "mu": mu,
        "s_max": s_min * draw(decades(math.log10(ROOT), ratio)),
        "s_min": s_min,
    }


@st.composite
def saddle_constants(draw):
    s_min = draw(decades(-1, 1))
    return {
        "L_x": s_min * draw(decades(-2, 2)),
        "L_y": s_min * draw(decades(-2, 2)),
        "s_max": s_min * draw(decades(math.log10(ROOT), 2)),
        "s_min": s_min,
    }


def dense_chain(n):
    """A as the paper prints it."""
    A = np.fliplr(np.eye(n))
    A[range(1, n), range(n - 1, 0, -1)] = -1.0
    return A


def iterates(name, problem, steps):
    """(rounds so far, x, y) of a method from zero."""
    method = dapd.METHODS[name].from_theory(problem)
    for k, state in zip(range(steps + 1), method, strict=False):
        yield 2 * k * method.iterations_per_step * problem.N, *method.point(state)


def dual_gap(problem, y):
    """Φ_y(y*) − Φ_y(y) of a diagonal quadratic, which is at most the duality gap."""
    d = problem.M.adjoint(y - problem.y_star)
    return float(d @ (d / problem.f.H)) / 2


# the instances


def test_zero_chain_is_the_papers_matrix():
    n = 7
    problem = affine(L=10.0, mu=2.0, s_max=5.0, s_min=3.0 / 2, n=n)
    expected = np.hstack([-1.5 * np.eye(n), problem.s_hat * dense_chain(n)])
    np.testing.assert_array_equal(problem.M.dense(), expected)
    assert problem.M.matrix.nnz == 3 * n - 1
    assert problem.M.matrix.has_canonical_format


@given(constants(), st.integers(1, 300))
def test_affine_solution_is_optimal(c, n):
    problem = affine(**c, n=n)
    found = certify(problem, problem.x_star, problem.y_star)
    assert found.stationarity <= 1e-12 * (1 + np.linalg.norm(problem.f.grad(problem.x_star)))
    assert found.feasibility <= 1e-12 * (1 + c["s_max"] * np.linalg.norm(problem.x_star))


@given(constants(), st.integers(2, 200))
def test_affine_solution_solves_the_banded_system(c, n):
    problem = affine(**c, n=n)
    alpha, q = problem.alpha, problem.q
    bands = np.array([np.full(n, -alpha), np.full(n, 1 + 2 * alpha)])
    bands[1, 0] = 1 + alpha
    rhs = np.zeros(n)
    rhs[0] = (1 + alpha) * q - alpha * q**2
    expected = scipy.linalg.solveh_banded(bands, rhs)
    # the right-hand side loses digits by cancellation in (1 + α)q − αq²
    np.testing.assert_allclose(problem.y_star, expected, rtol=1e-14 * alpha, atol=1e-14 * alpha * q)


@given(constants(), st.integers(1, 300))
def test_affine_solution_is_nearly_geometric(c, n):
    problem = affine(**c, n=n)
    geometric = problem.q ** np.arange(1, n + 1)
    error = np.linalg.norm(problem.y_star - geometric)
    assert error <= problem.alpha * problem.q ** (n + 1) + 1e-12 * np.linalg.norm(geometric)


@given(constants(), st.integers(1, 60), st.integers(1, 3))
@settings(max_examples=50)
def test_singular_values_are_in_the_range_of_the_lemma(c, size, N):
    problem = block(**c, n=N * size, N=N)
    values = np.linalg.svd(problem.M.dense(), compute_uv=False)
    assert c["s_min"] < values.min()
    assert values.max() <= c["s_max"] * (1 + 1e-14)
    assert problem.spectrum == dapd.Spectrum(c["s_max"], c["s_min"], c["s_max"])


@given(constants(), st.integers(1, 30), st.integers(1, 5))
def test_block_is_copies_of_affine(c, size, N):
    one, many = affine(**c, n=size), block(**c, n=N * size, N=N)
    np.testing.assert_array_equal(many.x_star, np.tile(one.x_star, N))
    np.testing.assert_array_equal(many.y_star, np.tile(one.y_star, N))
    np.testing.assert_array_equal(many.M.dense(), np.kron(np.eye(N), one.M.dense()))
    assert many.blocks == [slice(2 * size * i, 2 * size * (i + 1)) for i in range(N)]


@given(saddle_constants(), st.integers(2, 300))
def test_convex_concave_solution_is_optimal(c, size):
    instance = convex_concave(**c, l=size)
    x, y = instance.x_star, instance.y_star
    in_x, in_y = np.linalg.norm(instance.grad_x(x, y)), np.linalg.norm(instance.grad_y(x, y))
    assert in_x <= 1e-12 * (1 + c["s_max"] * np.linalg.norm(y) + c["L_x"] * np.linalg.norm(x))
    assert in_y <= 1e-12 * (1 + c["s_max"] * np.linalg.norm(x) + c["L_y"] * np.linalg.norm(y))


@given(saddle_constants(), st.integers(2, 40))
@settings(max_examples=50)
def test_convex_concave_is_the_papers_instance(c, size):
    instance = convex_concave(**c, l=size)
    A, one = dense_chain(size), np.eye(size)
    alpha, beta, q = instance.alpha, instance.beta, instance.q
    s_hat = math.sqrt(c["s_max"] ** 2 - c["s_min"] ** 2) / 2
    assert alpha == pytest.approx(2 * (c["s_min"] / s_hat) ** 2 + c["L_x"] * c["L_y"] / s_hat**2, rel=1e-12)
    assert beta == pytest.approx((c["s_min"] / s_hat) ** 4, rel=1e-12)
    h = np.zeros(size)
    h[:2] = (2 + alpha + beta) * q - (3 + alpha) * q**2 + q**3, q - 1
    h *= s_hat**4 / (c["L_x"] * c["s_min"] ** 2)
    np.testing.assert_allclose(instance.h, h, rtol=1e-12, atol=1e-12 * abs(h).max())
    M = np.block([[s_hat * A, c["s_min"] * one], [-c["s_min"] * one, s_hat * A]])
    np.testing.assert_allclose(instance.M.dense(), M, rtol=1e-14)
    values = np.linalg.svd(M, compute_uv=False)
    assert c["s_min"] < values.min()
    assert values.max() <= c["s_max"] * (1 + 1e-14)


def test_convex_concave_gradients_are_those_of_its_objective():
    instance = convex_concave(L_x=2.0, L_y=3.0, s_max=4.0, s_min=1.0, l=9)
    rng = np.random.default_rng(0)
    x, y, d = rng.standard_normal((3, 18))

    def F(x, y):
        return instance.f(x) + y @ instance.M.forward(x) - instance.g(y)

    # central differences of a quadratic are exact
    assert (F(x + d, y) - F(x - d, y)) / 2 == pytest.approx(instance.grad_x(x, y) @ d)
    assert (F(x, y + d) - F(x, y - d)) / 2 == pytest.approx(instance.grad_y(x, y) @ d)


@given(saddle_constants(), st.integers(2, 50))
def test_quartic_root_matches_its_closed_form_and_bounds(c, size):
    instance = convex_concave(**c, l=size)
    alpha, beta, q = instance.alpha, instance.beta, instance.q
    root = math.sqrt(alpha**2 - 4 * beta)
    closed = (4 + alpha - root - math.sqrt((4 + alpha - root) ** 2 - 16)) / 4
    # the closed form cancels: α − root is 4β/(α + root), and 1 − q is of the order of its root
    v = 2 * beta / (alpha + root)
    assert q == pytest.approx(closed, abs=1e-14 * (1 + alpha) / math.sqrt(v))
    quartic = np.polyval([1, -(4 + alpha), 6 + 2 * alpha + beta, -(4 + alpha), 1], q)
    assert abs(quartic) <= 1e-14 * (6 + 2 * alpha + beta)
    lower, upper = (1 - 1 / (0.5 + math.sqrt(alpha / (m * beta) + 0.25)) for m in (2, 1))
    assert lower < q < upper


@given(saddle_constants(), st.integers(2, 200))
def test_convex_concave_solution_is_nearly_geometric(c, size):
    instance = convex_concave(**c, l=size)
    geometric = instance.q ** np.arange(1, size + 1)
    error = np.linalg.norm(instance.y_star[size:] - geometric)
    allowed = (7 + instance.alpha) / instance.beta * instance.q**size
    assert error <= allowed + 1e-12 * np.linalg.norm(geometric)


# the zero chain


@st.composite
def couplings(draw):
    """s_max and s_min with ŝ a power of two: products with M are exact, even if multiply and add are fused."""
    s_min = 10 ** -draw(st.floats(0, 0.7))
    s_max = math.sqrt(4 + s_min**2)
    found = [s for s in (s_max, math.nextafter(s_max, 0), math.nextafter(s_max, 9)) if half_width(s, s_min) == 1.0]
    assume(found)
    unit = 2.0 ** draw(st.integers(-5, 5))
    return {"s_max": unit * found[0], "s_min": unit * s_min}


@pytest.mark.parametrize("name", DETERMINISTIC)
@given(constants(condition=3.0), couplings(), st.integers(1, 3))
@settings(max_examples=15)
def test_y_has_exact_zeros_beyond_the_chain(name, c, coupling, N):
    size = 60
    problem = block(**{**c, **coupling}, n=N * size, N=N)
    for k, _, y in iterates(name, problem, 6):
        copies = y.reshape(N, size)
        seen = k // (2 * N)
        assert not copies[:, seen:].any()
        # the newest coordinate is nonzero, so the count of rounds is not too generous
        if 0 < seen <= size:
            assert copies[:, seen - 1].all()
        assert problem.revealed(y) == N * min(seen, size)


@given(saddle_constants(), couplings())
@settings(max_examples=15)
def test_extragradient_has_exact_zeros_beyond_the_chain(c, coupling):
    size = 20
    instance = convex_concave(**{**c, **coupling}, l=size)
    for k, (_, y) in zip(range(size - 3), extragradient(instance), strict=False):
        y1, y2 = y[:size], y[size:]
        seen = k + 1 if k else 0
        assert not y2[seen:].any()
        assert instance.revealed(y) == seen
        assert seen <= instance._revealed_by(4 * k)
        assert not y1[: size - k].any()  # A turns the first coordinates into the last


# the bounds


@given(constants(), st.integers(1, 400), st.integers(1, 6))
def test_bound_is_below_the_unseen_part_of_the_chain(c, size, N):
    problem = block(**c, n=N * size, N=N)
    k = np.arange(problem.reach + 1)
    tails = np.array([problem.tail(int(j)) for j in k])
    bounds = problem.bound(k)
    assert np.all(bounds <= tails * (1 + 1e-10))
    assert np.all(bounds > 0)
    assert problem.bound(problem.reach + 1) == 0
    assert problem.tail(2 * problem.rows - N) == 0
    assert problem.tail(0) == pytest.approx(np.linalg.norm(problem.y_star))


@given(saddle_constants(), st.integers(4, 300))
def test_convex_concave_bound_is_below_the_unseen_part_of_the_chain(c, size):
    instance = convex_concave(**c, l=size)
    tails = np.array([instance.tail(k) for k in range(instance.reach + 1)])
    assert np.all(instance.bound(np.arange(instance.reach + 1)) <= tails * (1 + 1e-10))


@given(constants(), st.integers(1, 60), st.integers(1, 6), st.data())
def test_bound_holds_for_the_best_of_the_span_with_free_gradients(c, size, N, data):
    problem = block(**c, n=N * size, N=N)
    touched = data.draw(st.integers(0, N))  # blocks with a product with ∇f(0)
    direction = problem.M.forward(-problem.f.grad(np.zeros(problem.columns))).reshape(N, size)
    direction[touched:] = 0.0
    assert problem.revealed(direction.ravel()) == touched == problem._revealed_by(touched)
    step = direction.ravel() @ problem.y_star / max(1e-300, np.linalg.norm(direction) ** 2)
    error = np.linalg.norm(step * direction.ravel() - problem.y_star)
    assert error >= problem.bound(touched) * (1 - 1e-10)
    assert error >= problem.tail(touched) * (1 - 1e-10)


def test_one_product_with_a_free_gradient_reaches_the_tail():
    problem = affine(L=1.0, mu=1.0, s_max=ROOT, s_min=1.0, n=30)
    direction = problem.M.forward(-problem.f.grad(np.zeros(60)))
    y = direction * (direction @ problem.y_star) / (direction @ direction)
    assert np.linalg.norm(y - problem.y_star) == pytest.approx(problem.tail(1), rel=1e-12)


@given(saddle_constants(), st.integers(4, 100))
def test_convex_concave_bound_holds_when_the_first_gradient_is_free(c, size):
    instance = convex_concave(**c, l=size)
    y = instance.y_star.copy()
    y[size + 2 :] = 0.0  # the best that the span of h can reach, even if y₁ is known
    assert instance.revealed(y) == instance._revealed_by(0) == 2
    error = np.linalg.norm(y - instance.y_star)
    assert error >= instance.bound(0) * (1 - 1e-10)
    assert error == pytest.approx(instance.tail(0))


@given(constants(), st.integers(1, 50), st.data())
def test_bound_holds_however_rounds_are_shared_among_blocks(c, size, data):
    N = data.draw(st.integers(1, 5))
    touches = data.draw(st.lists(st.integers(0, 2 * size), min_size=N, max_size=N))
    problem = block(**c, n=N * size, N=N)
    y = problem.y_star.reshape(N, size).copy()
    for copy, count in zip(y, touches, strict=True):
        copy[(count + 1) // 2 :] = 0.0  # the best that this many rounds can do
    error = np.linalg.norm(y.ravel() - problem.y_star)
    assert error >= problem.tail(sum(touches)) * (1 - 1e-10)
    assert error >= problem.bound(sum(touches)) * (1 - 1e-10)


@pytest.mark.parametrize("name", DETERMINISTIC)
@given(constants(condition=5.0, ratio=1.3), st.integers(1, 120), st.integers(1, 3))
@settings(max_examples=15, deadline=None)
def test_no_method_beats_the_bound(name, c, size, N):
    problem = block(**c, n=N * size, N=N)
    for k, _, y in iterates(name, problem, 40):
        error = np.linalg.norm(y - problem.y_star)
        assert error >= problem.bound(k) * (1 - 1e-9)
        assert error >= problem.tail(k) * (1 - 1e-9)
        assert dual_gap(problem, y) >= problem.bound(k, gap=True) * (1 - 1e-9)


@pytest.mark.parametrize("name", [name for name in dapd.METHODS if name not in DETERMINISTIC])
@given(constants(condition=3.0), couplings(), st.integers(1, 30), st.integers(2, 5), st.integers(0, 99))
@settings(max_examples=15, deadline=None)
def test_no_block_coordinate_method_beats_the_bound(name, c, coupling, size, N, seed):
    problem = block(**{**c, **coupling}, n=N * size, N=N)
    for limit in (1, 3, 10, 30, 100):
        result = dapd.solve(problem, name, tol=0.0, max_iterations=limit, seed=seed, spectrum=problem.spectrum)
        k = result.block_products
        assert problem.revealed(result.y) <= problem._revealed_by(k)
        assert np.linalg.norm(result.y - problem.y_star) >= problem.bound(k) * (1 - 1e-9)
        assert np.linalg.norm(result.y - problem.y_star) >= problem.tail(k) * (1 - 1e-9)


@given(saddle_constants(), st.integers(4, 150))
@settings(max_examples=40, deadline=None)
def test_extragradient_does_not_beat_the_bound(c, size):
    instance = convex_concave(**c, l=size)
    for k, (_, y) in zip(range(60), extragradient(instance), strict=False):
        error = np.linalg.norm(y - instance.y_star)
        # in the paper's model one round gives Mx and Mᵀy, so the two pairs of an iteration may count as two
        assert error >= instance.bound(2 * k) * (1 - 1e-9)
        assert error >= instance.tail(2 * k) * (1 - 1e-9)


def test_extragradient_converges_to_the_solution():
    instance = convex_concave(L_x=1.0, L_y=2.0, s_max=4.0, s_min=1.0, l=50)
    x, y = next(itertools.islice(extragradient(instance), 800, None))
    np.testing.assert_allclose(x, instance.x_star, atol=1e-10)
    np.testing.assert_allclose(y, instance.y_star, atol=1e-10)


@given(constants(condition=5.0, ratio=2.0), st.integers(1, 4), st.floats(-6, -1))
@settings(deadline=None)
def test_iterations_needed_is_the_first_k_with_bound_at_most_eps(c, N, exponent):
    problem = block(**c, n=N * dapd.lower_bounds.dimension(**c), N=N)
    start = np.linalg.norm(problem.y_star)
    k = problem.iterations_needed(10**exponent * start)
    assert problem.bound(k) <= 10**exponent * start * (1 + 1e-9)
    assert k == 0 or problem.bound(k - 1) >= 10**exponent * start * (1 - 1e-9)
    gap = problem.bound(k // 2, gap=True)
    assert abs(problem.iterations_needed(gap, gap=True) - k // 2) <= 1


def test_bounds_equal_those_of_the_theorems():
    problem = affine(L=50.0, mu=2.0, s_max=6.0, s_min=2.0, n=200)
    start, q, k = np.linalg.norm(problem.y_star), problem.q, 31
    alpha = 25.0 * (36 - 4) / 4 / 4
    assert problem.alpha == pytest.approx(alpha)
    assert q == pytest.approx(1 - (math.sqrt(1 + 4 * alpha) - 1) / (2 * alpha))
    assert problem.bound(k) == pytest.approx(q ** (k / 2) / math.sqrt(8) * start)
    assert problem.bound(k, gap=True) == pytest.approx(q**k * 4.0 * start**2 / (16 * 50.0))
    settled = 2 * math.log((2 + 2 * math.sqrt(2)) * alpha) / math.log(1 / q)
    assert problem.required_dimension(1) == math.ceil(settled)
    assert problem.required_dimension(10_000) == 10_001
    assert affine(L=50.0, mu=2.0, s_max=6.0, s_min=2.0, n=10_001).bound(10_000) > 0

    copies = block(L=50.0, mu=2.0, s_max=6.0, s_min=2.0, n=600, N=3)
    assert copies.bound(30) == pytest.approx(q ** (30 / 3 / 2) / math.sqrt(8) * np.linalg.norm(copies.y_star))
    assert copies.required_dimension(1) == 3 * math.ceil(settled)

    saddle = convex_concave(L_x=5.0, L_y=2.0, s_max=6.0, s_min=2.0, l=200)
    start, q = np.linalg.norm(saddle.y_star), saddle.q
    assert saddle.bound(k) == pytest.approx(q ** ((k + 3) / 2) / math.sqrt(8) * 2 / 6 * start)
    assert saddle.bound(k, gap=True) == pytest.approx(q ** (k + 3) * 2**4 * start**2 / (16 * 5.0 * 6**2))
    settled = 2 * math.log((2 + 2 * math.sqrt(2)) * (7 + saddle.alpha) / saddle.beta) / math.log(1 / q)
    assert saddle.required_dimension(1) == math.ceil(settled)
    assert saddle.required_dimension(10_000) == 10_004


# use and misuse


def test_solve_takes_an_instance_and_its_spectrum():
    problem = affine(L=100.0, mu=1.0, s_max=10.0, s_min=1.0, n=300)
    result = dapd.solve(problem, tol=1e-10, history=True)
    assert result.converged
    assert result.spectrum is problem.spectrum
    assert result.history.error[-1] < 1e-8
    np.testing.assert_allclose(result.y, problem.y_star, atol=1e-7)


def test_with_solution_keeps_the_spectrum():
    problem = affine(L=4.0, mu=1.0, s_max=3.0, s_min=1.0, n=5)
    assert problem.with_solution(problem.x_star).spectrum is problem.spectrum


def test_problem_rejects_what_is_not_a_spectrum():
    with pytest.raises(TypeError, match=r"spectrum must be a dapd.Spectrum, found tuple"):
        dapd.Problem(dapd.Quadratic([1.0]), [[1.0]], [0.0], spectrum=(1.0, 1.0))


@pytest.mark.parametrize("make", [
    lambda n: affine(L=1e4, mu=1.0, s_max=10.0, s_min=1.0, n=n),
    lambda n: block(L=1e4, mu=1.0, s_max=10.0, s_min=1.0, n=n, N=1000),
    lambda n: convex_concave(L_x=100.0, L_y=1.0, s_max=10.0, s_min=1.0, l=n),
])  # fmt: skip
def test_a_million_rows_fit_in_500_megabytes(make):
    tracemalloc.start()
    try:
        instance = make(1_000_000)
        assert instance.bound(100_000) >= 0
        assert tracemalloc.get_traced_memory()[1] < 500e6
    finally:
        tracemalloc.stop()


GOOD = {"L": 10.0, "mu": 1.0, "s_max": 3.0, "s_min": 1.0}


def saddle(**changed):
    return convex_concave(**{"L_x": 1.0, "L_y": 1.0, "s_max": 3.0, "s_min": 1.0, "l": 9, **changed})


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: affine(**{**GOOD, "L": 0.5}), "L must be >= mu, found L = 0.5 and mu = 1"),
        (lambda: affine(**{**GOOD, "s_max": 2.0}), "s_max must be >= √5·s_min .* choose s_max = 2.23607 or more"),
        (lambda: affine(**{**GOOD, "s_min": 0.0}), "s_min must be > 0, found 0"),
        (lambda: affine(**GOOD, n=0), "n must be >= 1, found 0"),
        (lambda: block(**GOOD, n=10, N=4), "n must be a multiple of N = 4, found 10; use 8 or 12"),
        (lambda: block(**GOOD, N=0), "N must be >= 1, found 0"),
        (lambda: saddle(L_x=0.0), "L_x must be > 0, found 0"),
        (lambda: saddle(l=1), "l must be >= 2, found 1"),
        (lambda: affine(**GOOD, n=9).bound(-1), "k must be whole numbers of rounds >= 0, found -1"),
        (lambda: affine(**GOOD, n=9).bound(1.5), "k must be whole numbers of rounds >= 0, found 1.5"),
        (lambda: affine(**GOOD, n=9).revealed(np.ones(8)), "y has 8 entries, expected 9"),
        (lambda: affine(**GOOD, n=9).iterations_needed(0.0), "eps must be > 0, found 0"),
        (lambda: affine(**GOOD, n=9).iterations_needed(1e-9), "eps = 1e-09 is out of reach of this instance"),
        (lambda: affine(**{**GOOD, "L": 1e12, "s_max": 1e3}), "n would be [0-9,]+ .* by default; pass n="),
        (lambda: block(**{**GOOD, "L": 1e6}, N=10**6), "n would be [0-9,]+ .* by default; pass n="),
        (lambda: landscape(["x-dapd"], [1e12], [1e3]), "n would be [0-9,]+ .* choose a smaller grid"),
        (lambda: affine(**{**GOOD, "L": 1e308, "mu": 1e-300}, n=9), "L/mu = inf is out of the range of doubles"),
        (lambda: affine(**{**GOOD, "L": 1e-290, "mu": 1e-320}, n=9), "s_max/mu = inf is out of the range"),
        (lambda: affine(**{**GOOD, "s_max": 1e200, "s_min": 1e-200}, n=9), "s_max² − s_min² = inf is out of the range"),
        (lambda: affine(**{**GOOD, "s_max": 1e-199, "s_min": 1e-200}, n=9), "s_max² − s_min² = 0 is out of the range"),
        (lambda: affine(**{**GOOD, "s_max": 1e100}, n=9), "(s_max/s_min)⁴ = inf is out of the range"),
        (lambda: affine(**{**GOOD, "L": 1e20, "s_max": 1e8}, n=9), "(L/mu)·(s_max/s_min)² is too large .* q = 1"),
        (lambda: saddle(L_x=1e-200, L_y=1e-200), "L_x·L_y/s_min² = 0 is out of the range"),
        (lambda: saddle(L_x=1e200, L_y=1e200), "L_x·L_y/s_min² = inf is out of the range"),
        (lambda: saddle(L_x=1e100, L_y=1e100), "(1 + L_x·L_y/s_min²)·(s_max/s_min)² is too large .* q = 1"),
        (lambda: saddle(L_x=1e-300, L_y=1e300, s_max=1e5), "s_max⁴/(L_x·s_min²) = inf is out of the range"),
    ],
)
def test_bad_input_is_named(call, words):
    with pytest.raises(ValueError, match=words.replace("(", r"\(").replace(")", r"\)").replace(" + ", r" \+ ")):
        call()


def test_indices_are_wide_enough_for_the_entries():
    assert index_type(10**6) is np.int32
    assert index_type(2**30) is np.int32
    assert index_type(2**30 + 1) is np.int64


def test_unknown_keyword_is_an_error_that_suggests_the_closest_name():
    with pytest.raises(TypeError, match=r"affine\(\) has no argument 'smax'; did you mean 's_max'"):
        affine(L=1.0, mu=1.0, smax=3.0, s_min=1.0, n=3)
