"""What an answer is worth: the certificate against its definition, other units, bounds, objective, accuracies."""

import numpy as np
import pytest
from accuracy_instances import FUNCTIONS, MAPS, PHIS, flow, in_units_of, instances, points
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

import dapd
from dapd.certificate.certify import certify
from peers import generated
from peers.extended import definition
from peers.scaled import TOL, Scales, compare, drawn_scales, judge, scaled
from peers.with_dapd import problem_of

SIZES = 10.0 ** np.array([-12, -7, -3, 0, 6, 12])
RELATIVE = ("stationarity_error", "feasibility_error", "complementarity_error", "gap_error")
ACCURACIES = ("solution", "objective")
GENERATED, PAIRS = 110, 60


@pytest.mark.parametrize("engine", ["auto", "native", "python"])
@pytest.mark.parametrize("size", SIZES)
def test_small_numbers_are_solved_as_large_ones(size, engine):
    for name, (problem, solution) in in_units_of(size).items():
        result = dapd.solve(problem, engine=engine)
        assert result.status == "optimal", (name, result.message)
        assert np.max(abs(result.x - solution)) <= 1e-4 * np.max(abs(solution)), name


def test_a_flow_ends_when_it_is_optimal():
    problem, costs = flow()
    result = dapd.solve(problem, engine="native", max_iterations=30_000)
    assert result.status == "optimal", result.message
    assert result.iterations >= 1_000
    known = linprog(costs, A_eq=problem.M.matrix, b_eq=problem.b, bounds=(0, 1)).fun
    assert abs(result.objective - known) <= 1e-5 * known
    assert result.objective == pytest.approx(costs @ result.x, rel=1e-12)


def test_the_certificate_is_its_definition():
    rng, seen = np.random.default_rng(0), set()
    for name, problem, matrix in instances():
        seen.update(name.split(", "))
        for k, (x, y) in enumerate(points(problem, rng)):
            expected = definition(problem, x, y, matrix)
            for accuracy in ACCURACIES:
                found = certify(problem, x, y, accuracy=accuracy)
                assert found.error == pytest.approx(expected.error(accuracy), rel=1e-9, abs=1e-13), (name, k)
            assert expected.error("objective") <= expected.error("solution") * (1 + 1e-15)
            for field in expected._fields:
                assert getattr(found, field) == pytest.approx(getattr(expected, field), rel=1e-9, abs=1e-12), (name, k)
    assert seen >= {*FUNCTIONS, *PHIS, *MAPS}


def test_no_error_of_the_certificate_is_always_zero():
    rng = np.random.default_rng(0)
    _, problem, _ = next(item for item in instances() if item[0].endswith("interval, csr, bounds"))
    found = [certify(problem, x, y) for x, y in points(problem, rng)]
    for field in (*RELATIVE, "gap", "primal", "dual"):
        assert max(getattr(one, field) for one in found) > 1e-3, field


def random_case(seed):
    """A generated problem, a point, and a generator of more numbers."""
    rng = np.random.default_rng(seed)
    problem = problem_of(generated.feasible(seed).model)
    x, y = rng.standard_normal(problem.columns), rng.standard_normal(problem.rows)
    if seed % 2:
        x, y = np.clip(x, *problem.bounds), problem.phi.prox(y, 1.0)
    return problem, x, y, rng


def compare_errors(problem, x, y, scales, tolerance):
    other = scaled(problem, scales)
    one = certify(problem, x, y)
    two = certify(other, x / scales.columns, y * scales.objective / scales.rows)
    for field in RELATIVE:
        assert getattr(two, field) == pytest.approx(getattr(one, field), rel=tolerance, abs=1e-14), field
    assert one.error > 1e-6


def applicable(problem, rng, scales):
    """The scales, with ones where the problem cannot be written in other units."""
    possible = drawn_scales(rng, problem, 20)
    rows = scales.rows if np.any(possible.rows != 1) else np.ones(problem.rows)
    columns = scales.columns if np.any(possible.columns != 1) else np.ones(problem.columns)
    return Scales(rows, columns, scales.objective if possible.objective != 1 else 1.0)


@settings(max_examples=60, derandomize=True)
@given(seed=st.integers(0, 2_000), power=st.integers(-30, 30))
def test_other_units_of_objective_and_data_leave_the_errors_as_they_are(seed, power):
    problem, x, y, rng = random_case(seed)
    rows, columns, factor = np.ones(problem.rows), np.ones(problem.columns), 2.0**power
    for scales in (Scales(rows, columns, factor**2), Scales(rows * factor, columns / factor, 1.0)):
        compare_errors(problem, x, y, applicable(problem, rng, scales), 1e-9)


@settings(max_examples=60, derandomize=True)
@given(seed=st.integers(0, 2_000), power=st.integers(-30, 30), place=st.integers(0, 1_000))
def test_other_units_of_a_row_or_a_column_leave_the_errors_as_they_are(seed, power, place):
    problem, x, y, rng = random_case(seed)
    rows, columns = np.ones(problem.rows), np.ones(problem.columns)
    unit = problem.phi_table.unit  # groups have one unit
    rows[unit == unit[place % problem.rows]] = 2.0**power
    compare_errors(problem, x, y, applicable(problem, rng, Scales(rows, columns, 1.0)), 1e-9)
    columns[place % problem.columns] = 2.0**power
    compare_errors(problem, x, y, applicable(problem, rng, Scales(np.ones(problem.rows), columns, 1.0)), 1e-9)


@settings(max_examples=60, derandomize=True)
@given(seed=st.integers(0, 2_000))
def test_units_follow_the_data(seed):
    problem, _, _, rng = random_case(seed)
    scales = drawn_scales(rng, problem, 8)
    one, two = problem.units(), scaled(problem, scales).units()
    entries = problem.M.dense() != 0
    meets = entries.any(axis=0) | (problem.curvature > 0) | (problem.slopes > 0)  # else nothing says what is typical
    counts = entries.any(axis=1) | (problem.b != 0)
    assert meets.any()
    assert counts.any()
    np.testing.assert_allclose((two.x * scales.columns)[meets], one.x[meets], rtol=1e-9)
    np.testing.assert_allclose((two.y * scales.rows)[counts], (one.y * scales.objective)[counts], rtol=1e-9)
    np.testing.assert_allclose(two.rows[counts], (one.rows * scales.rows)[counts], rtol=1e-9)
    factors = scales.columns * scales.objective
    np.testing.assert_allclose(two.columns[meets], (one.columns * factors)[meets], rtol=1e-9)
    np.testing.assert_allclose(two.objective, one.objective * scales.objective, rtol=1e-9)


def test_numbers_of_the_data_are_units_where_they_belong():
    f = dapd.Quadratic(np.zeros(2), [3.0, -5.0])
    units = dapd.Problem(f, [[2.0, 0], [0, 4]], [8.0, 20.0], bounds=([-7.0, -1e30], [0.5, 1e30])).units()
    np.testing.assert_allclose(units.x, [0.5, 5.0])  # the nearest bound; 20/4
    np.testing.assert_allclose(units.y, [1.5, 1.25])  # 3/2, 5/4
    np.testing.assert_allclose(units.rows, [8.0, 20.0])
    np.testing.assert_allclose(units.columns, [3.0, 5.0])
    of_y = dapd.Problem(f, [[2.0, 0], [0, 4]], [8.0, 20.0], dapd.Box(-1.0, 0.25)).units().y
    np.testing.assert_allclose(of_y, 0.25)
    alone = dapd.Problem(dapd.Quadratic([4.0, 1.0], [8.0, 1e-5]), np.zeros((0, 2)), []).units()
    np.testing.assert_allclose(alone.x, [2.0, 1e-5])


def test_rows_and_columns_without_entries_have_units_of_their_own():
    M, H, c = np.array([[3.0, 0, 0], [0, 0, 0]]), np.array([2.0, 0, 0]), np.array([6.0, 0, 1])
    one = dapd.Problem(dapd.Quadratic(H, c), M, [1.0, 7.0], dapd.NonNegative()).units()
    factor = 2.0**20
    other_row = dapd.Problem(dapd.Quadratic(H, c), factor * M, [factor, 7.0], dapd.NonNegative()).units()
    assert other_row.y[1] == pytest.approx(one.y[1], rel=1e-12)
    assert other_row.y[0] == pytest.approx(one.y[0] / factor, rel=1e-12)
    other_objective = dapd.Problem(dapd.Quadratic(factor * H, factor * c), M, [1.0, 7.0], dapd.NonNegative()).units()
    assert other_objective.x[2] == pytest.approx(one.x[2], rel=1e-12)
    assert other_objective.objective == pytest.approx(factor * one.objective, rel=1e-12)  # x₂ meets nothing


RESIDUES = 2.0**-46 * np.array([1, -3, 2, 5])  # as the difference of nearly equal numbers near 100


@pytest.mark.parametrize("where", ["beside b", "beside bounds", "in another part of M"])
def test_what_rounding_left_in_the_data_is_no_unit(where):
    rng = np.random.default_rng(0)
    M, x = rng.standard_normal((4, 9)), rng.uniform(1, 100, 9)
    M[:, 8] = -(M[:, :8] @ x[:8]) / x[8]
    b, bounds, c = RESIDUES, (0.0, 200.0), rng.standard_normal(9)
    if where == "beside b":
        M, b, bounds = np.vstack([M, np.ones(9)]), np.r_[RESIDUES, x.sum()], (0.0, np.inf)
        c = M.T @ rng.standard_normal(5) - rng.uniform(0.1, 1, 9)
    elif where == "in another part of M":
        M, b = np.block([[M, np.zeros((4, 2))], [np.zeros((1, 9)), np.ones((1, 2))]]), np.r_[RESIDUES, 100.0]
        c, bounds = np.r_[M[:4, :9].T @ rng.standard_normal(4) - rng.uniform(0.1, 1, 9), 1.0, 2.0], (0.0, np.inf)
    units = dapd.Problem(dapd.Quadratic(np.zeros(len(c)), c), M, b, bounds=bounds).units()
    assert units.rows.min() > 1e-3, units
    exact = dapd.Problem(dapd.Quadratic(np.zeros(len(c)), c), M, np.where(abs(b) < 1e-10, 0.0, b), bounds=bounds)
    for engine in ("auto", "native"):
        found = [dapd.solve(p, engine=engine) for p in (exact, exact.replaced(b=b))]
        assert [one.status for one in found] == ["optimal", "optimal"], found[1].message
        assert abs(found[1].objective - found[0].objective) <= 1e-5 * max(1.0, abs(found[0].objective))


@pytest.mark.parametrize("farthest", [1e6, 1e9, 1e12, 1e14])
def test_small_data_are_no_rounding_beside_bounds_for_safety(farthest):
    M, b = np.array([[1.0, 1, 0], [0, 1, 1]]), 1e-5 * np.array([1.0, 2])
    result = dapd.solve(dapd.Problem(dapd.Quadratic(np.ones(3), np.zeros(3)), M, b, bounds=(-farthest, farthest)))
    assert result.status == "optimal"
    np.testing.assert_allclose(result.x, np.linalg.pinv(M) @ b, rtol=1e-4, atol=1e-9)


Q = dapd.Quadratic
BESIDE_LARGE_NUMBERS = {
    "a bound, equation": (lambda u: dapd.Problem(Q(np.ones(2)), [[1, 2.0]], [3.0], bounds=(-u, u)), [0.6, 1.2]),
    "a bound, LP": (
        lambda u: dapd.Problem(Q(None, -np.array([1.0, 1, 1])), [[1, 2.0, 1]], [3.0], bounds=(0, u)),
        [0.0, 1.5, 0.0],
    ),
    "a bound, one of them": (
        lambda u: dapd.Problem(Q(np.ones(3)), [[1, 2.0, 1]], [3.0], bounds=([-np.inf] * 2 + [0], [np.inf] * 2 + [u])),
        [0.5, 1.0, 0.5],
    ),
    "a bound, interval": (
        lambda u: dapd.Problem(Q([1.0]), [[1.0]], [2.0], dapd.Interval(-1.0, 1.0), bounds=(0, u)),
        [1.0],
    ),
    "a bound, b = 0": (lambda u: dapd.Problem(Q(np.ones(2), [1.0, 2]), [[1.0, 1]], [0.0], bounds=(-u, u)), [-0.5, 0.5]),
    "a row": (
        lambda u: dapd.Problem(Q(np.ones(2)), [[-1, -2.0], [1, 1]], [-3.3, u], dapd.NonNegative()),
        [0.66, 1.32],
    ),
    "a row, whole numbers": (
        lambda u: dapd.Problem(Q(np.ones(2)), [[-1, -2.0], [1, 1]], [-3.0, u], dapd.NonNegative()),
        [0.6, 1.2],
    ),
}


@pytest.mark.parametrize("options", [{}, {"direct": False}, {"engine": "native"}], ids=str)
@pytest.mark.parametrize("large", [1e9, 1e12, 3e13, 1e14, 9e14])
@pytest.mark.parametrize("name", BESIDE_LARGE_NUMBERS)
def test_numbers_beside_one_that_is_there_for_safety_count(name, large, options):
    make, x = BESIDE_LARGE_NUMBERS[name]
    result = dapd.solve(make(large), x0=np.zeros(len(x)), **options)
    assert result.status == "optimal"
    np.testing.assert_allclose(result.x, x, atol=1e-4)


def test_a_large_cost_hides_no_others():
    result = dapd.solve(dapd.Problem(Q(None, -np.array([3e13, 1, 2])), np.ones((1, 3)), [1.0], bounds=(0, 5)))
    assert result.status == "optimal"
    np.testing.assert_allclose(result.x, [0, 1, 0], atol=1e-6)


def test_what_counts_as_rounding_does_not_depend_on_the_units_of_rows():
    M = np.array([[1.0, 0, 2, 1], [0.5, -0.3, 1, 0.7]])
    found = []
    for k in (0, 20):
        r = 2.0 ** np.array([k, -k])
        phi = dapd.Box(np.array([-0.5, -0.9]) / r, np.array([0.37, 0.11]) / r)
        f, bounds = Q([1.7, 0, 1.2, 0], [0.1, -0.5, 0, -0.2]), ([-2.6e8, -1.3e8, -6e7, -1e8], [1.7] + [np.inf] * 3)
        problem = dapd.Problem(f, M * r[:, None], [-1, 1] * r, phi, bounds=bounds)
        found.append(certify(problem, np.array([0.1, 0.2, 0.3, 0.4]), np.array([0.4, 1.8]) / r))
    assert found[1].gap_error == pytest.approx(found[0].gap_error, rel=0.01)
    assert found[1].error == pytest.approx(found[0].error, rel=0.01)


def test_multipliers_far_out_do_not_make_the_gap_small():
    problem = dapd.Problem(Q(np.ones(2), [1.0, 2]), [[1.0, 1], [1, 1]], [1.0, 1])
    result = dapd.solve(problem)
    along = np.array([1.0, -1])  # in the kernels of M and of its transpose
    found = certify(problem, result.x + 0.3 * along, result.y + 1e9 * along)
    assert max(found.stationarity_error, found.complementarity_error) < 1e-6  # M may differ by so little
    assert found.gap_error > 1e-4


def test_no_answer_to_generated_problems_in_random_units_is_false():
    found = [judge(seed) for seed in range(GENERATED)]
    optimal = [one for one in found if one.status == "optimal"]
    assert not [one for one in found if one.faults]
    assert not [one for one in optimal if not one.error <= TOL * (1 + 1e-6)]
    assert not [one for one in optimal if not one.objective <= 100 * TOL]
    assert len(optimal) >= 0.97 * GENERATED, [one for one in found if one.status != "optimal"]  # some are singular


def test_a_false_answer_would_be_found():
    problem, _, _, rng = random_case(0)
    result = dapd.solve(problem)
    assert definition(problem, result.x, result.y).error() <= TOL
    wrong = result.x + 1e-4 * rng.standard_normal(result.x.size)
    assert definition(problem, wrong, result.y).error() > TOL


def test_solutions_do_not_depend_on_units():
    for seed in range(PAIRS):
        pair = compare(seed)
        assert pair.statuses == ("optimal", "optimal"), seed
        assert pair.difference <= 1e-4, (seed, pair)
