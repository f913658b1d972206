"""Answers lie within their bounds exactly, with multipliers of the right sign, an objective, and two accuracies."""

import numpy as np
import pytest
from accuracy_instances import vertex
from instances import PHIS, quadratic_problem

import dapd
from dapd.certificate.certify import certify
from peers import generated
from peers.draw import orthogonal
from peers.scaled import known_objective
from peers.with_dapd import problem_of

WAYS = {
    "auto": {},
    "no direct": {"direct": False},
    "native": {"engine": "native"},
    "python": {"engine": "python"},
    "jax": {"engine": "jax"},
    "papc": {"method": "papc", "engine": "native"},
    "papc, python": {"method": "papc", "engine": "python"},
}


def curved(dtype, seed=0):
    """A strongly convex problem with bounds of many kinds, some of them active, one variable fixed."""
    rng = np.random.default_rng(seed)
    n = 12
    Q = orthogonal(rng, n)
    H = ((Q * np.geomspace(1.0, 5.0, n)) @ Q.T).astype(dtype)
    M = rng.standard_normal((4, n)).astype(dtype)
    lower, upper = -rng.uniform(0.1, 0.5, n), rng.uniform(0.1, 0.5, n)
    lower[:3], upper[3:6], lower[6] = -np.inf, np.inf, upper[6]
    b = (M @ np.clip(np.zeros(n), lower, upper)).astype(dtype)
    f = dapd.Quadratic((H + H.T) / 2, (3 * rng.standard_normal(n)).astype(dtype))
    return dapd.Problem(f, M, b, dapd.L1(0.1), bounds=(lower, upper))


def bounds_in(dtype, problem):
    """The bounds in a precision, rounded inwards; where it has no number between them, the nearest ones."""
    lower, upper = (end.astype(dtype) for end in problem.bounds)
    least = np.where(lower < problem.lower, np.nextafter(lower, dtype(np.inf)), lower)
    greatest = np.where(upper > problem.upper, np.nextafter(upper, dtype(-np.inf)), upper)
    apart = least <= greatest
    return np.where(apart, least, lower), np.where(apart, greatest, upper)


def check_bounds(problem, x, y, z):
    """x is within, and z is what stationarity asks for, where there is a bound for it."""
    lower, upper = bounds_in(x.dtype.type, problem)
    assert np.all((lower <= x) & (x <= upper))
    assert np.all(np.isfinite(lower[z < 0]))
    assert np.all(np.isfinite(upper[z > 0]))
    slopes = problem.f.grad(x.astype(np.float64)) + problem.M.adjoint(y.astype(np.float64))
    np.testing.assert_allclose(z[z != 0], -slopes[z != 0], rtol=1e-6, atol=1e-12)


def check_active(problem, x, z):
    """A variable whose multiplier is not small is at its bound."""
    lower, upper = bounds_in(x.dtype.type, problem)
    active = abs(z) > 0.05
    assert active.sum() >= 2
    np.testing.assert_array_equal(x[active], np.where(z < 0, lower, upper)[active])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("way", WAYS)
def test_x_is_within_its_bounds_to_the_last_bit(way, dtype):
    for seed in range(1 if way == "jax" else 4):
        problem = curved(dtype, seed)
        for tol in (1e-2, 1e-4):  # a rough answer is within its bounds too
            result = dapd.solve(problem, **WAYS[way], tol=tol)
            assert result.status == "optimal", result.message
            assert result.x.dtype == dtype
            check_bounds(problem, result.x, result.y, result.z)
        check_active(problem, result.x, result.z)
    stopped = dapd.solve(problem, **WAYS[way], max_iterations=3, tol=1e-15)
    check_bounds(problem, stopped.x, stopped.y, stopped.z)


@pytest.mark.parametrize("engine", ["auto", "python", "jax"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_batches_are_within_their_bounds_to_the_last_bit(engine, dtype):
    problem = curved(dtype)
    b = np.stack([k * problem.b for k in (0.5, 1.0, 1.5)])
    batch = dapd.solve_batch(problem, b=b, engine=engine, tol=1e-4)
    assert [str(status) for status in batch.status] == ["optimal"] * 3
    for x, y, z in zip(batch.x, batch.y, batch.z, strict=True):
        check_bounds(problem, x, y, z)
        check_active(problem, x, z)


@pytest.mark.parametrize("way", ["auto", "no direct", "native", "python"])
def test_a_vertex_is_at_its_bounds_exactly(way):
    for seed in range(3):
        problem, x, side = vertex(np.random.default_rng(seed))
        result = dapd.solve(problem, **WAYS[way])
        assert result.status == "optimal", result.message
        np.testing.assert_array_equal(result.x[side != 0], x[side != 0])
        np.testing.assert_allclose(result.x, x, atol=1e-3)
        np.testing.assert_array_equal(np.sign(result.z), side)
        assert result.objective == pytest.approx(-problem.f.c @ result.x, rel=1e-12, abs=1e-12)
        assert result.objective == pytest.approx(-problem.f.c @ x, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("way", ["auto", "no direct", "native", "python", "papc"])
def test_a_far_bound_does_not_matter(way):
    rng = np.random.default_rng(0)
    f, M = dapd.Quadratic(np.geomspace(1.0, 5.0, 8), rng.standard_normal(8)), rng.standard_normal((3, 8))
    b, phi = rng.standard_normal(3), dapd.Interval(-0.1, 0.1)
    free = dapd.solve(dapd.Problem(f, M, b, phi), tol=1e-8)
    far = dapd.solve(dapd.Problem(f, M, b, phi, bounds=(-1e9, 1e9)), **WAYS[way])
    assert (free.status, far.status) == ("optimal", "optimal"), far.message
    np.testing.assert_allclose(far.x, free.x, atol=1e-5)
    assert far.objective == pytest.approx(free.objective, rel=1e-5)
    assert not np.any(far.z)


@pytest.mark.parametrize("way", ["auto", "no direct", "native", "python"])
def test_an_optimal_result_has_an_objective(way):
    for name, phi in PHIS.items():
        problem = quadratic_problem(phi, seed=3)
        result = dapd.solve(problem, **WAYS[way])
        assert result.status == "optimal", (name, result.message)
        residual = phi.project_conjugate(problem.M.matrix @ problem.x_star - problem.b)
        known = problem.f.value(problem.x_star) + phi.conjugate(residual)
        assert result.objective == pytest.approx(known, rel=1e-5, abs=1e-5), name


def test_the_objective_takes_no_more_iterations_than_the_solution_and_is_right():
    spent = {"solution": 0, "objective": 0}
    for seed in (2, 3, 10, 15, 19, 26, 33, 43, 45):
        made = generated.feasible(seed)
        problem = problem_of(made.model)
        known, _ = known_objective(problem, made)
        taken = []
        for accuracy in spent:
            result = dapd.solve(problem, engine="native", accuracy=accuracy)
            assert result.status == "optimal", result.message
            assert result.certificate.accuracy == accuracy
            assert result.certificate == certify(problem, result.x, result.y, accuracy=accuracy)._replace(
                distance=result.certificate.distance
            )
            assert result.certificate.error <= 1e-6
            assert result.objective == pytest.approx(known, rel=1e-5, abs=1e-5)
            taken.append(result.iterations)
            spent[accuracy] += result.iterations
        assert taken[1] <= taken[0], seed
    assert spent["objective"] < spent["solution"]


def test_the_accuracies_have_names():
    problem = quadratic_problem(dapd.Zero())
    for wrong in ("x", "Objective", "", None, 3):
        with pytest.raises((ValueError, TypeError), match="accuracy"):
            dapd.solve(problem, accuracy=wrong)


def test_without_a_value_of_phi_complementarity_counts_for_the_objective_too():
    class Own(dapd.Phi):
        def prox(self, v, step):
            return np.maximum(v, 0)

    known = quadratic_problem(dapd.NonNegative())
    own = dapd.Problem(known.f, known.M, known.b, Own())
    y = known.y_star + np.where(known.y_star == 0, 0.1, 0.0)  # feasible, but not complementary
    assert np.any(y != known.y_star)
    found = certify(own, known.x_star, y, accuracy="objective")
    assert np.isnan(found.gap_error)
    assert found.feasibility_error < 1e-9 < 1e-3 < found.complementarity_error <= found.error
    assert certify(known, known.x_star, y, accuracy="objective").complementarity_error > 1e-3
    result = dapd.solve(own, accuracy="objective")
    assert result.status == "optimal", result.message
    np.testing.assert_allclose(result.x, known.x_star, atol=1e-5)
