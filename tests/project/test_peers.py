"""The benchmark against other solvers: its problems, its residuals and its tables."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

from peers import checks, control, everyday, generated, maros, measure, paper, plots, tables
from peers.canonical import Canonical
from peers.case import Case
from peers.classes import CLASSES
from peers.conic import Answer, ConicQP, cone_violations, residuals
from peers.draw import gradient
from peers.solvers import clarabel
from peers.suites import Spec, specs
from peers.with_dapd import problem_of

TINY = {
    "trend": everyday.trend(40, 0),
    "isotonic": everyday.isotonic(30, 0),
    "transport": everyday.transport(5, 0),
    "portfolio": everyday.portfolio(20, 0),
    "svm": everyday.svm(40, 0, features=5),
    "total variation": everyday.total_variation(8, 0),
    "lasso": everyday.lasso(8, 0),
    "group lasso": everyday.group_lasso(10, 0),
    "logistic": everyday.logistic(500, 0),
    "badly scaled": everyday.badly_scaled(10, 0),
    "flow": everyday.flow(30, 0),
    "flow with capacities": everyday.flow(30, 0, capacities=True),
    "flow, pseudo-huber": everyday.flow(30, 0, cost="pseudo-huber"),
    "flow, pseudo-huber, capacities": everyday.flow(30, 0, cost="pseudo-huber", capacities=True),
    "qp, l1": paper.qp_l1(30, 0),
    "qp, inequality": paper.qp_inequality(30, 0),
    "control": control.model()[0],
    **{family: make(10, 0) for family, (make, _) in CLASSES.items()},
}


@pytest.mark.parametrize("name", TINY)
def test_clarabel_and_the_residuals_agree_on_every_model(name):
    case = Case(TINY[name])
    attempt = clarabel(case, 1e-8, 10.0)
    found = residuals(case.qp, attempt.answer)
    assert attempt.claims
    assert found.relative <= 1e-6, found


@pytest.mark.parametrize("name", [name for name in measure.SOLVERS if measure.SOLVERS[name].module != "dapd"])
def test_every_peer_reaches_the_tolerance(name):
    if not measure.installed(name):
        pytest.skip(f"{measure.SOLVERS[name].module} is not installed")
    candidates = [TINY[key] for key in ("portfolio", "isotonic", "lasso", "group lasso")]
    solved = [model for model in candidates if measure.SOLVERS[name].applies(model)]
    assert solved
    for model in solved:
        row = measure.measure(Case(model), name, 1e-4, 10.0)
        assert row["met"], row


@pytest.mark.parametrize("seed", range(0, 500, 5))
def test_generated_solution_has_no_residual(seed):
    problem = generated.feasible(seed)
    assert checks.check_answer(problem.model, problem.x, problem.y, problem.z).relative <= 1e-12


def test_generated_problems_cover_every_kind():
    names = {generated.feasible(seed).model.name.partition(": ")[2] for seed in range(500)}
    kinds, parts, forms = (set(column) for column in zip(*(name.rsplit(", ", 2) for name in names), strict=True))
    assert kinds == set(generated.COSTS)
    assert parts == set(generated.PARTS)
    assert forms == set(generated.FORMS)
    models = [generated.feasible(seed).model for seed in range(100)]
    assert any(model.bounded for model in models)
    assert any(model.rows > model.variables for model in models)
    assert any(np.any(model.lower == model.upper) for model in models)


@pytest.mark.parametrize("seed", range(0, 500, 7))
def test_dapd_problem_is_the_model(seed):
    """The optimality conditions, by dapd's own functions, hold at the solution that the model was built from."""
    model, x, y, z = generated.feasible(seed)
    problem = problem_of(replace(model, lower=np.full(len(x), -np.inf), upper=np.full(len(x), np.inf)))
    slope = problem.f.grad(x) + problem.M.adjoint(y) + z
    assert abs(slope).max() <= 1e-10 * (1 + abs(problem.f.grad(x)).max())
    inside = problem.phi.prox(y + problem.M.forward(x) - problem.b, 1.0)
    assert abs(inside - y).max() <= 1e-10 * (1 + abs(problem.b).max())


@pytest.mark.parametrize("seed", range(100))
def test_generated_ray_proves_infeasibility(seed):
    problem = generated.infeasible(seed)
    assert checks.check_infeasible(problem.model, problem.y, problem.z).valid
    assert checks.check_infeasible(problem.model, 3.0 * problem.y, 3.0 * problem.z).valid
    assert not checks.check_infeasible(problem.model, -problem.y, -problem.z).valid
    assert not checks.check_infeasible(problem.model, problem.y + 0.01, problem.z).valid


@pytest.mark.parametrize("seed", range(50))
def test_generated_direction_proves_that_there_is_no_bound(seed):
    problem = generated.unbounded(seed)
    assert checks.check_unbounded(problem.model, problem.direction).valid
    assert not checks.check_unbounded(problem.model, -problem.direction).valid
    assert not checks.check_unbounded(problem.model, problem.direction + 0.01).valid


@pytest.mark.parametrize("seed", range(0, 44, 4))
def test_no_ray_is_accepted_for_a_feasible_problem(seed):
    model, _, y, z = generated.feasible(seed)
    assert not checks.check_infeasible(model, y, z).valid


def small_qp():
    """min ½‖x‖² − x₁ subject to x₁ + x₂ ≤ 0.5, x₂ ≥ 0: x = (0.5, 0), y = 0.5, z = (0, −0.5)."""
    one = sp.csc_matrix(np.eye(2))
    inf = np.inf
    row, none = sp.csc_matrix(np.ones((1, 2))), sp.csc_matrix((0, 2))
    bounds = np.array([-inf, 0.0]), np.array([inf, inf])
    qp = ConicQP(one, np.array([-1.0, 0.0]), row, np.array([-inf]), np.array([0.5]), *bounds, none, np.zeros(0))
    return qp, Answer(np.array([0.5, 0.0]), np.array([0.5]), np.array([0.0, -0.5]), np.zeros(0))


def test_residuals_vanish_at_a_solution():
    assert residuals(*small_qp()).worst <= 1e-15


@pytest.mark.parametrize(
    ("change", "primal", "dual", "gap"),
    [
        ({"x": [0.5, 0.1]}, 0.1, 0.1, 0.01),
        ({"x": [0.5, -0.2]}, 0.2, 0.2, 0.04),
        ({"y": [0.4]}, 0.0, 0.1, 0.05),
        ({"z": [0.3, -0.5]}, 0.0, 0.3, 0.0),
        ({"x": [np.nan, 0.0]}, np.inf, np.inf, np.inf),
    ],
)
def test_residuals_measure_each_change(change, primal, dual, gap):
    qp, answer = small_qp()
    found = residuals(qp, replace(answer, **{name: np.array(value) for name, value in change.items()}))
    if np.isinf(primal):
        assert found.worst == np.inf
    else:
        np.testing.assert_allclose(found[:3], (primal, dual, gap), atol=1e-14)


def test_multiplier_of_a_bound_that_is_not_there_is_a_dual_residual():
    qp, answer = small_qp()
    found = residuals(qp, replace(answer, y=np.array([-0.2])))
    assert found.dual >= 0.2


def test_cone_violations():
    cones = [("second-order", 3), ("exponential", 3)]
    inside = np.array([5.0, 3.0, 4.0, 1.0, 1.0, np.e])
    assert cone_violations(inside, cones).max() <= 1e-15
    np.testing.assert_allclose(cone_violations(inside - [1, 0, 0, 0, 0, 0.5], cones), [1.0, 0.5])
    dual = np.array([5.0, 3.0, 4.0, -1.0, 0.0, np.exp(-1.0)])  # −a·exp(c/a) = e·exp(1)
    assert cone_violations(dual, cones, dual=True).max() <= 1e-15
    np.testing.assert_allclose(cone_violations(dual - [0, 0, 0, 0, 0, 0.1], cones, dual=True), [0.0, 0.1])


def test_lift_keeps_the_dual_residual_of_the_model():
    model = TINY["logistic"]
    rng = np.random.default_rng(0)
    x, y, z = rng.standard_normal(model.variables), rng.standard_normal(model.rows), np.zeros(model.variables)
    canonical = Canonical(model)
    lifted = canonical.lift(x, y, z)
    qp = canonical.qp
    slope = qp.P @ lifted.x + qp.q + qp.A.T @ lifted.y + lifted.z - qp.G.T @ lifted.w
    expected = gradient(model.costs[0][0], x) + model.M.T @ y
    np.testing.assert_allclose(slope[: len(x)], expected, atol=1e-12)
    np.testing.assert_allclose(slope[len(x) :], 0, atol=1e-12)


def test_maros_file_is_read(tmp_path):
    P, A = sp.csc_matrix(np.diag([1.0, 0.0])), sp.csc_matrix(np.vstack([np.ones((1, 2)), np.eye(2)]))
    data = {"P": P, "A": A, "q": np.array([-2.0, 1.0]), "l": np.array([-1e20, 0, 0.0]), "u": np.array([1.0, 1e20, 2])}
    scipy.io.savemat(tmp_path / "SMALL.mat", {**data, "r": 0.0, "n": 2, "m": 3})
    assert [spec.name for spec in specs("maros", folder=str(tmp_path))] == ["SMALL"]
    model = maros.load(tmp_path, "SMALL")
    assert model.rows == 1
    assert model.parts[0].lower[0] == -np.inf
    np.testing.assert_array_equal(model.upper, [np.inf, 2.0])
    answer = clarabel(Case(model), 1e-9, 10.0).answer
    np.testing.assert_allclose(answer.x, [1.0, 0.0], atol=1e-6)


def test_a_run_in_another_process_is_verified():
    worker = measure.Worker()
    row = worker.run(Spec("classes", "portfolio", 3, 0), "Clarabel", 1e-6, 10.0)
    assert row is not None
    assert row["met"]
    assert row["variables"] == 303
    assert worker.run(Spec("classes", "portfolio", 3, 0), "SciPy, isotonic", 1e-6, 10.0) is None
    worker.stop()


def row(solver, name, seconds, met=True, claims=True, tol=1e-6):
    missed = claims and not met
    head = {"suite": "classes", "family": name, "name": name, "seed": 0, "solver": solver, "tol": tol, "limit": 10.0}
    return {**head, "met": met, "claims": claims, "missed": missed, "seconds": seconds, "status": "", "variables": 1}


ROWS = [
    row("dapd", "a", 0.2),
    row("OSQP", "a", 0.1),
    row("Clarabel", "a", 0.4),
    row("dapd", "b", 0.1),
    row("OSQP", "b", 0.9, met=False),
    row("Clarabel", "b", 0.8),
]


def test_ratio_is_that_to_the_better_peer_that_met_the_tolerance():
    text = tables.ratios(ROWS, 1e-6, "dapd")
    assert "| a | 1 | 0 | 2 |" in text
    assert "| b | 1 | 0 | 0.125 |" in text
    assert "| all | 2 | 0 | 0.5 |" in text


def test_tables_mark_what_was_claimed_and_missed_and_where_a_peer_wins(tmp_path):
    assert "| b | **0.1** | missed† | 0.8 |" in tables.times(ROWS, 1e-6)
    assert "| OSQP | 1 | 2 | 1 |" in tables.summary(ROWS, 1e-6, 10.0)
    wins = tables.peers_win(ROWS, 1e-6, ["dapd"])
    assert "| a | OSQP | 0.1 | 0.2 | 2 |" in wins
    assert "| b |" not in wins
    plots.performance_profile(ROWS, 1e-6, tmp_path / "profile.png")
    assert (tmp_path / "profile.png").stat().st_size > 0


def test_shifted_geometric_mean():
    assert tables.geometric_mean([1.0, 4.0]) == pytest.approx(2.0)
    assert tables.geometric_mean([0.0, 3.0], 1.0) == pytest.approx(1.0)
