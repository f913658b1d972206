"""φ: prox, value, conjugate and recession agree with each other."""

import numpy as np
import pytest
import scipy.special
from hypothesis import given, settings
from hypothesis import strategies as st
from instances import PHIS, ROWS

import dapd
from dapd.kinds.base import kinds_of
from dapd.kinds.by_rows import merged
from dapd.kinds.table import Table
from dapd.testing import check_prox

VECTORS = st.lists(st.floats(-10, 10), min_size=ROWS, max_size=ROWS).map(np.array)
STEPS = st.floats(1e-3, 1e3)


@pytest.mark.parametrize("name", PHIS)
def test_prox_minimises(name):
    check_prox(PHIS[name], ROWS, trials=50)


@pytest.mark.parametrize("name", PHIS)
@given(v=VECTORS, step=STEPS)
@settings(max_examples=50)
def test_fenchel_young_holds_with_equality_at_a_prox(name, v, step):
    phi = PHIS[name]
    y = phi.prox(v, step)
    z = (v - y) / step  # ∈ ∂φ(y)
    # rounding may put z slightly outside the domain of φ*
    z = dapd.Conjugate(phi).prox(z, 1.0) if np.isinf(phi.conjugate(z)) else z
    total = phi.value(y) + phi.conjugate(z)
    if np.isinf(phi.conjugate(z)):
        return
    assert total == pytest.approx(y @ z, abs=1e-7 * (1 + abs(y) @ abs(z)))


@pytest.mark.parametrize("name", PHIS)
@given(v=VECTORS, step=STEPS)
@settings(max_examples=50)
def test_conjugate_twice_is_the_same_prox(name, v, step):
    phi = PHIS[name]
    again = dapd.Conjugate(dapd.Conjugate(phi)).prox(v, step)
    assert np.allclose(again, phi.prox(v, step), rtol=1e-9, atol=1e-9 * (1 + np.linalg.norm(v)))


@pytest.mark.parametrize("name", PHIS)
@given(v=VECTORS, step=STEPS)
@settings(max_examples=20)
def test_recession_is_the_slope_at_infinity(name, v, step):
    phi = PHIS[name]
    d = np.round(v)
    slope = phi.recession(d)
    if np.isnan(slope):
        assert name == "conjugate"  # only defined by the prox of g
        return
    start = phi.prox(0 * d, 1.0)
    far = (phi.value(start + 1e9 * d) - phi.value(start)) / 1e9
    assert far == slope or far == pytest.approx(slope, abs=1e-6)


@pytest.mark.parametrize("name", PHIS)
def test_float32_stays_float32(name):
    v = np.linspace(-1, 1, ROWS, dtype=np.float32)
    assert PHIS[name].prox(v, 0.5).dtype == np.float32


def test_values_outside_the_domain_are_infinite():
    outside = -np.ones(ROWS)
    assert dapd.NonNegative().value(outside) == np.inf
    assert dapd.Box(-0.5, 0.7).value(outside) == np.inf
    assert dapd.GroupBall(0.8, 2).value(outside) == np.inf
    assert dapd.Interval(-np.inf, 1.0).value(outside) == np.inf
    assert dapd.Interval(-np.inf, 1.0).value(-outside) == ROWS
    assert dapd.Zero().value(outside) == 0


def test_interval_rows_are_equations_inequalities_and_free():
    phi = dapd.Interval([0.2, -np.inf, -np.inf, -0.3], [0.2, 0.5, np.inf, 0.3])
    y = phi.prox(np.array([-4.0, 4.0, 4.0, 0.1]), 2.0)
    assert np.allclose(y, [-4.4, 3.0, 0.0, 0.0])
    assert y[2] == 0.0


def test_conjugate_accepts_a_function_of_another_library():
    class Squares:
        def value(self, z):
            return float(z @ z) / 2

        def prox(self, v, step):
            return v / (1 + step)

    phi = dapd.Conjugate(Squares())
    v = np.linspace(-1, 1, 5)
    assert np.allclose(phi.prox(v, 2.0), v / 3)  # ½‖·‖² is its own conjugate
    assert np.isnan(phi.value(v))
    assert phi.conjugate(v) == pytest.approx(v @ v / 2)


def test_stack_gives_the_remaining_rows_to_the_part_without_a_size():
    phi = dapd.Stack([dapd.L1([1.0, 2.0]), dapd.Zero(), dapd.GroupBall([1.0], 2)])
    problem = dapd.Problem(dapd.PseudoHuber(1.0), np.eye(7, 9), np.ones(7), phi)
    assert problem.phi.sizes == [2, 3, 2]
    assert phi.size is None
    assert dapd.Stack([dapd.Zero(), dapd.Zero()], sizes=[1, 2]).is_zero


@pytest.mark.parametrize("name", PHIS)
@given(v=VECTORS, logs=st.lists(st.floats(-3, 3), min_size=ROWS, max_size=ROWS))
@settings(max_examples=30)
def test_steps_by_rows_are_steps_of_the_weighted_prox(name, v, logs):
    phi = PHIS[name]
    assert phi.row_steps
    steps = phi.steps(phi.pooled(10.0 ** np.array(logs)), phi.pooled(np.ones(ROWS)))
    p = phi.prox(v, steps)
    for step in np.unique(steps):
        alike = steps == step
        assert np.allclose(p[alike], phi.prox(v, float(step))[alike], rtol=1e-9, atol=1e-9)


def test_a_part_of_a_stack_that_takes_only_one_step_gets_one():
    class Own(dapd.Phi):
        def value(self, y):
            return float(np.sum(abs(y)))

        def prox(self, v, step):
            assert np.ndim(step) == 0
            return np.sign(v) * np.maximum(abs(v) - step, 0)

    class Derived(dapd.L1):
        def prox(self, v, step):
            assert np.ndim(step) == 0
            return super().prox(v, step)

    phi = dapd.Stack([dapd.L1(1.0), Own(), Derived(1.0)], sizes=[2, 2, 2])
    problem = dapd.Problem(dapd.Quadratic(np.ones(6)), np.diag([1.0, 10.0] * 3), 3 * np.ones(6), phi)
    result = dapd.solve(problem)
    assert result.converged
    assert np.allclose(result.x, [2.0, 0.2] * 3, atol=1e-5)
    assert result.objective == pytest.approx(6 + 0.06, rel=1e-4)


@pytest.mark.parametrize(
    "phi",
    [
        dapd.Zero(),
        dapd.L1(0.0),
        dapd.Interval(2.0, 2.0),
        dapd.Interval([1.0, -2.0], [1.0, -2.0]),
        dapd.Stack([dapd.Zero(), dapd.Interval(1.0, 1.0)], sizes=[1, 1]),
    ],
)
def test_a_linear_phi_is_known_as_equations(phi):
    assert phi.is_linear
    rows = np.array([[1.0, 2.0, 0.0], [2.0, 4.0, 0.0]])  # dependent, so only equations have a rate
    right = -phi.prox(np.zeros(2), 1.0)  # prox is y − l
    x = np.array([0.5, -1.0, 2.0])
    b = rows @ x - right
    for method in ("auto", "y-dapd", "x-dapd"):
        result = dapd.solve(dapd.Problem(dapd.Quadratic(np.ones(3)), rows, b, phi), method, tol=1e-10)
        assert result.converged
        assert result.method != "papc"
        assert np.allclose(rows @ result.x - b, right)


@pytest.mark.parametrize(
    "phi", [dapd.NonNegative(), dapd.L1([0.0, 1.0]), dapd.Interval(0.0, 1.0), dapd.Interval(-np.inf, np.inf)]
)
def test_other_phi_are_not_linear(phi):
    assert not phi.is_linear
    assert not dapd.Stack([dapd.Zero(), phi], sizes=[1, 2]).is_linear


@pytest.mark.parametrize("name", PHIS)
@given(v=VECTORS, other=VECTORS)
@settings(max_examples=50)
def test_projections_find_the_nearest_point_of_the_domain(name, v, other):
    phi = PHIS[name]
    for project, value in ((phi.project, phi.value), (phi.project_conjugate, phi.conjugate)):
        p, q = project(v), project(other)
        assert not np.isinf(value(p))
        assert np.allclose(project(p), p, atol=1e-12)
        # the nearest point of a convex set is the one that sees every other at an obtuse angle
        assert (v - p) @ (q - p) <= 1e-9


def test_projections_of_an_own_phi_come_from_its_prox():
    class Own(dapd.Phi):
        def prox(self, v, step):
            return np.clip(v - 2 * step, 0, 1)  # φ(y) = 2·Σy on [0, 1]

    phi = Own()
    v = np.array([-3.0, 0.5, 7.0])
    assert np.allclose(phi.project(v), [0.0, 0.5, 1.0], atol=1e-10)
    assert np.allclose(phi.project_conjugate(v), v, atol=1e-10)  # a bounded domain: φ* is finite everywhere
    assert np.allclose(dapd.Conjugate(phi).project(v), v, atol=1e-10)

    class Ball:
        def value(self, z):
            return 0.0 if np.linalg.norm(z) <= 1 else np.inf

        def prox(self, v, step):
            return v / max(1.0, float(np.linalg.norm(v)))

    assert np.allclose(dapd.Conjugate(Ball()).project_conjugate(v), v / np.linalg.norm(v))
    assert np.allclose(dapd.Conjugate(Ball()).project(v), v, atol=1e-10)


class Coarse:
    """Σ z log z, whose prox is found by iterations that stop early if the step is tiny."""

    def value(self, z):
        return float(scipy.special.xlogy(z, z).sum()) if np.all(z >= 0) else np.inf

    def prox(self, v, step):
        exact = step * scipy.special.wrightomega(v / step - 1 - np.log(step)).real
        return exact + (5e-4 if step < 1e-6 else 0.0)


def test_a_point_of_the_domain_is_its_own_projection_however_coarse_the_prox():
    phi = dapd.Conjugate(Coarse())
    inside, outside = np.array([0.0, 0.2, 3.0]), np.array([0.5, -1.0, 2.0])
    assert np.array_equal(phi.project_conjugate(inside), inside)
    assert np.allclose(phi.project_conjugate(outside), [0.5, 0.0, 2.0], atol=1e-3)
    M = np.random.default_rng(0).standard_normal((8, 5))
    problem = dapd.Problem(dapd.Quadratic(np.ones(5), np.ones(5)), M, np.full(8, -5.0), phi)
    result = dapd.solve(problem, tol=1e-9)
    assert result.converged
    assert str(result.certificate.primal) == "0.0"


def test_an_own_phi_with_a_finite_value_is_its_own_projection():
    class Own(dapd.Phi):
        def value(self, y):
            return float(np.sum(y**4))

        def conjugate(self, z):
            return float(np.sum(3 * (abs(z) / 4) ** (4 / 3)))

        def prox(self, v, step):
            raise AssertionError("no need")

    v = np.linspace(-2, 2, 5)
    assert Own().project(v) is v
    assert Own().project_conjugate(v) is v


class StrictBall:
    """The indicator of ‖v‖ ≤ 1, which a projection misses by a rounding now and then."""

    def value(self, v):
        return 0.0 if np.linalg.norm(v) <= 1 else np.inf

    def prox(self, v, step):
        return v / max(1.0, np.linalg.norm(v))


def test_a_value_is_finite_although_rounding_takes_the_prox_out_of_the_domain():
    rng, phi = np.random.default_rng(0), dapd.Conjugate(StrictBall())
    points = [3 * rng.standard_normal(7) for _ in range(100)]
    assert any(np.isinf(phi.g.value(phi.g.prox(v, 1.0))) for v in points)
    assert all(phi.conjugate_near(v, 1.0) == 0 for v in points)


@pytest.mark.parametrize("name", PHIS)
@given(v=VECTORS, logs=st.lists(st.floats(-3, 3), min_size=ROWS, max_size=ROWS))
@settings(max_examples=30)
def test_canonical_kinds_one_by_one_or_in_a_table_are_phi(name, v, logs):
    phi = PHIS[name].sized(ROWS)
    steps = phi.steps(phi.pooled(10.0 ** np.array(logs)), phi.pooled(np.ones(ROWS)))
    for kinds in (kinds_of(phi, ROWS), merged(kinds_of(phi, ROWS))):
        whole = dapd.Stack([kind for kind, _ in kinds], sizes=[n for _, n in kinds])
        np.testing.assert_allclose(whole.prox(v, steps), phi.prox(v, steps), atol=1e-13)
        for ask in ("project", "project_conjugate", "project_recession", "project_conjugate_recession"):
            np.testing.assert_allclose(getattr(whole, ask)(v), getattr(phi, ask)(v), atol=1e-13)
        for ask in ("recession", "conjugate_recession"):
            assert getattr(whole, ask)(np.round(v)) == pytest.approx(getattr(phi, ask)(np.round(v)))
        y, z = phi.project(v), phi.project_conjugate(v)
        assert whole.value(y) == pytest.approx(phi.value(y))
        assert whole.conjugate(z) == pytest.approx(phi.conjugate(z))
        terms = [kind.terms(y[at]).sum() for kind, at in zip(whole.parts, whole.places, strict=True)]
        assert sum(terms) == pytest.approx(phi.value(y))
        np.testing.assert_allclose(np.array(whole.ends(ROWS)), np.array(phi.ends(ROWS)))
        assert (whole.reach(ROWS), whole.steepness(ROWS)) == pytest.approx((phi.reach(ROWS), phi.steepness(ROWS)))
    np.testing.assert_allclose(Table.of(phi, ROWS).phi().prox(v, steps), phi.prox(v, steps), atol=1e-13)


class CalledShrink:
    """½‖y‖₁ by calls, beside an attribute that happens to be called `value`."""

    value = 3.0

    def __call__(self, y):
        return 0.5 * abs(y).sum()

    def prox(self, v, step):
        return np.sign(v) * np.maximum(abs(v) - 0.5 * step, 0)


def test_an_object_that_is_called_may_have_an_attribute_of_that_name():
    result = dapd.solve(dapd.Problem(dapd.Quadratic(np.ones(3)), np.eye(3), np.ones(3), CalledShrink()))
    assert result.status == "optimal"
    np.testing.assert_allclose(result.objective, 3 * 0.5 * 0.5**2, rtol=1e-5)
    with pytest.raises(TypeError, match=r"g must have a method value\(z\)"):
        dapd.Conjugate(CalledShrink())
