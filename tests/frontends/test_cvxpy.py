"""dapd as a solver of CVXPY: agreement with Clarabel, statuses, warm starts, and CVXPY's own tests."""

import re

import cvxpy as cp
import numpy as np
import pytest
from cvxpy.reductions.solvers import defines
from cvxpy.tests import solver_test_helpers as helpers
from cvxpy.tests import test_qp_solvers as cvxpy_tests

import dapd

SOLVER = dapd.cvxpy.DAPD()
TIGHT = {"tol_gap_abs": 1e-12, "tol_gap_rel": 1e-12, "tol_feas": 1e-11}
# as it likes, without Clarabel, and by first-order steps only, which takes longest
WAYS = ({}, {"direct": False}, {}, {"direct": False}, {"engine": "native"})
FEASIBLE, CHUNK = 200, 20


def objective(rng, x, kind):
    n = x.size
    A, d = rng.standard_normal((n + 5, n)), rng.standard_normal(n + 5)
    root = rng.standard_normal((n, n)) / np.sqrt(n)
    if kind == "sum_squares":
        return cp.sum_squares(A @ x - d)
    if kind == "norm1":
        return cp.sum_squares(A @ x - d) + 3 * cp.norm1(x)
    if kind == "huber":
        return cp.sum(cp.huber(A @ x - 3 * d)) + 0.1 * cp.sum_squares(x)
    if kind == "quad_form":
        return cp.quad_form(x, root @ root.T + 0.1 * np.eye(n)) + rng.standard_normal(n) @ x
    weight, target = cp.Parameter(nonneg=True, value=0.5 + rng.random()), cp.Parameter(n, value=rng.standard_normal(n))
    return weight * cp.sum_squares(x) + target @ x + cp.sum_squares(A @ x)


def constraints(rng, x, kinds, inside):
    """Constraints that hold at `inside`, some of them with equality."""
    n, found = x.size, []
    G = rng.standard_normal((n // 2, n))
    if "equality" in kinds:
        E = rng.standard_normal((max(1, n // 4), n))
        found.append(E @ x == E @ inside)
    if "inequality" in kinds:
        found.append(G @ x <= G @ inside + rng.choice([0.0, 0.1], n // 2))
    if "two-sided" in kinds:
        R = rng.standard_normal((n // 3, n))
        found += [R @ x >= R @ inside - 0.05, R @ x <= R @ inside + 0.1]
    return found


def random_problem(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(4, 25))
    inside = 0.3 * rng.standard_normal(n)
    kind = ("sum_squares", "norm1", "huber", "quad_form", "parameters")[seed % 5]
    kinds = [k for k in ("equality", "inequality", "two-sided") if rng.random() < 0.6]
    bounds = [inside - rng.choice([0.02, 0.5, np.inf], n), inside + rng.choice([0.02, 0.5, np.inf], n)]
    x = cp.Variable(n, bounds=bounds) if rng.random() < 0.6 else cp.Variable(n)
    return cp.Problem(cp.Minimize(objective(rng, x, kind)), constraints(rng, x, kinds, inside))


def duals_are_unique(problem, x):
    """Whether the gradients of all active constraints are independent."""
    data, _, _ = problem.get_problem_data(SOLVER)
    active = [data["A"].toarray(), data["F"].toarray()[abs(data["F"] @ x - data["G"]) < 1e-5]]
    for bound in (data["lower_bounds"], data["upper_bounds"]):
        if bound is not None:
            active.append(np.eye(x.size)[abs(x - bound) < 1e-5])
    rows = np.vstack(active)
    if not len(rows):
        return True
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return len(rows) <= x.size and np.linalg.svd(rows, compute_uv=False)[-1] > 1e-3


@pytest.mark.parametrize("first", range(0, FEASIBLE, CHUNK))
def test_agrees_with_clarabel(first):
    compared = 0
    for seed in range(first, first + CHUNK):
        problem = random_problem(seed)
        problem.solve(solver=SOLVER, **WAYS[seed // 5 % 5])
        assert problem.status == cp.OPTIMAL, seed
        value, duals = problem.value, [c.dual_value for c in problem.constraints]
        unique = duals_are_unique(problem, problem.solver_stats.extra_stats.x)
        problem.solve(solver=cp.CLARABEL, **TIGHT)
        assert abs(value - problem.value) <= 1e-6 * (1 + abs(problem.value)), seed
        if unique and duals:
            mine = np.concatenate([np.atleast_1d(d) for d in duals])
            theirs = np.concatenate([np.atleast_1d(c.dual_value) for c in problem.constraints])
            assert abs(mine - theirs).max() <= 1e-5 * max(1.0, abs(theirs).max()), seed
            compared += 1
    assert compared > CHUNK // 2


@pytest.mark.parametrize("seed", range(20))
def test_infeasible_is_told_with_a_proof(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 20))
    x = cp.Variable(n, nonneg=bool(seed % 2))
    rows, inside = rng.standard_normal((n + 3, n)), rng.random(n)
    weights = rng.random(n + 3)
    contradiction = (weights @ rows) @ x >= weights @ (rows @ inside) + 10 ** -rng.uniform(0, 3)
    problem = cp.Problem(cp.Minimize(cp.sum_squares(x)), [rows @ x <= rows @ inside, contradiction])
    problem.solve(solver=SOLVER)
    assert problem.status == cp.INFEASIBLE
    assert problem.value == np.inf
    y, t = (c.dual_value for c in problem.constraints)
    image = rows.T @ y - t * (weights @ rows)
    assert np.all(y >= 0)
    assert t >= 0
    assert np.all(image >= -1e-9) if seed % 2 else np.all(abs(image) <= 1e-9)
    assert y @ (rows @ inside) < t * contradiction.args[0].value


@pytest.mark.parametrize("seed", range(10))
def test_unbounded_is_told(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 20))
    x = cp.Variable(n)
    rows, away = rng.standard_normal((n, n)), rng.standard_normal(n)
    rows *= -np.sign(rows @ away)[:, None]  # rows @ away ≤ 0
    flat = rng.standard_normal((n // 2, n))
    flat -= np.outer(flat @ away, away) / (away @ away)
    problem = cp.Problem(cp.Minimize(cp.sum_squares(flat @ x) - away @ x), [rows @ x <= rng.random(n)])
    problem.solve(solver=SOLVER)
    assert problem.status == cp.UNBOUNDED
    assert problem.value == -np.inf


def test_changed_parameters_need_no_compilation_and_fewer_iterations():
    rng = np.random.default_rng(0)
    A, x = rng.standard_normal((40, 30)), cp.Variable(30)
    target, limit, weight = cp.Parameter(40), cp.Parameter(), cp.Parameter(nonneg=True)
    cost = cp.sum_squares(A @ x - target) + weight * cp.norm1(x)
    problem = cp.Problem(cp.Minimize(cost), [cp.sum(x) <= limit, x >= -0.2])
    start = rng.standard_normal(40)
    target.value, limit.value, weight.value = start, 1.0, 1.0
    problem.solve(solver=dapd.cvxpy.DAPD())
    first, compiled = problem.solver_stats.num_iters, problem._cache.param_prog
    for target.value, limit.value, weight.value in [(start, 0.9, 1.0), (1.001 * start, 0.9, 1.0), (start, 1.0, 1.01)]:
        problem.solve(solver=dapd.cvxpy.DAPD())
        value, iterations = problem.value, problem.solver_stats.num_iters
        assert iterations < first
        assert problem._cache.param_prog is compiled
        problem.solve(solver=dapd.cvxpy.DAPD(), warm_start=False)
        assert abs(problem.value - value) <= 1e-7 * abs(value)


def test_changed_matrices_and_bounds_are_seen():
    rng = np.random.default_rng(1)
    upper, rows = cp.Parameter(5), cp.Parameter((3, 5))
    scale = cp.Parameter(5, nonneg=True)
    x, y = cp.Variable(5, bounds=[-1.0, upper]), cp.Variable(5)
    cost = cp.sum(cp.multiply(scale, cp.square(y))) + cp.sum_squares(x - y) - cp.sum(x)
    problem = cp.Problem(cp.Minimize(cost), [rows @ y <= 0.3])
    for _ in range(4):
        upper.value, rows.value, scale.value = rng.random(5), rng.standard_normal((3, 5)), 0.1 + rng.random(5)
        problem.solve(solver=SOLVER)
        value = problem.value
        problem.solve(solver=cp.CLARABEL, **TIGHT)
        assert abs(value - problem.value) <= 1e-7
    upper.value = np.full(5, -2.0)
    problem.solve(solver=SOLVER)
    assert problem.status == cp.INFEASIBLE


def test_bounds_that_cvxpy_infers_are_not_used():
    rng = np.random.default_rng(0)
    X, w, b = rng.standard_normal((50, 4)), cp.Variable(4), cp.Variable()
    labels = np.sign(X[:, 0])
    problem = cp.Problem(cp.Minimize(cp.sum_squares(w) + cp.sum(cp.pos(1 - cp.multiply(labels, X @ w + b)))))
    problem.solve(solver=SOLVER)
    value = problem.value
    problem.solve(solver=cp.CLARABEL)
    assert value == pytest.approx(problem.value)
    assert value < 40


def test_rows_of_one_entry_are_bounds_with_their_own_multipliers():
    x = cp.Variable(4)
    rows = [x >= -1, 2 * x <= [1, 2, 3, 4], x[0] <= 0.5, -3 * x[1] <= 6, x[2] == 1, cp.sum(x) <= 1.5]
    problem = cp.Problem(cp.Minimize(cp.sum_squares(x) - [6, -6, 0, 4] @ x), rows)
    problem.solve(solver=SOLVER)
    result = problem.solver_stats.extra_stats
    assert result.y.size == 2  # x[2] == 1 and the sum
    value, duals = problem.value, [row.dual_value for row in rows]
    pull = -duals[0] + 2 * duals[1] + [duals[2], -3 * duals[3], duals[4], 0] + duals[5]
    assert abs(2 * x.value - [6, -6, 0, 4] + pull).max() < 1e-6
    problem.solve(solver=cp.CLARABEL)
    assert value == pytest.approx(problem.value)
    crossing = cp.Problem(cp.Minimize(cp.sum_squares(x)), [2 * x >= 1, -4 * x[3] >= -1])
    crossing.solve(solver=SOLVER)
    assert crossing.status == cp.INFEASIBLE
    least, most = (row.dual_value for row in crossing.constraints)
    assert -2 * least[3] + 4 * most == 0
    assert -least[3] + most < 0


def test_limits_statistics_and_options(capsys):
    rng = np.random.default_rng(0)
    x = cp.Variable(60)
    A = rng.standard_normal((80, 60))
    problem = cp.Problem(cp.Minimize(cp.sum_squares(A @ x - 1) + cp.norm1(x)), [cp.sum(x) == 1])
    with pytest.warns(UserWarning, match="may be inaccurate"):
        problem.solve(solver=SOLVER, engine="native", max_iterations=20)
    assert problem.status == cp.USER_LIMIT
    assert np.isfinite(problem.value)
    problem.solve(solver=SOLVER, tol=1e-5, verbose=True, warm_start=False, use_quad_obj=True)
    stats = problem.solver_stats
    assert stats.solver_name == "DAPD"
    assert stats.extra_stats.converged
    assert stats.num_iters == stats.extra_stats.iterations
    assert stats.solve_time > 0
    assert "gap" in capsys.readouterr().out
    with pytest.raises(TypeError, match="did you mean 'tol'"):
        problem.solve(solver=SOLVER, toll=1e-5)
    with pytest.raises(cp.SolverError):
        cp.Problem(cp.Minimize(cp.norm2(x - 1))).solve(solver=SOLVER)


REFUSED = [
    (lambda x: [cp.norm2(x) <= 1], "second-order cones", "CLARABEL or cp.SCS, or dapd.Problem, .* dapd.GroupBall"),
    (lambda x: [cp.log(x[0]) >= 0], "exponential cones", "dapd.Smooth"),
    (lambda x: [cp.bmat([[x[0], x[1]], [x[1], x[2]]]) >> 0], "semidefinite matrices", "use cp.CLARABEL or cp.SCS"),
    (lambda x: [cp.PowCone3D(x[0], x[1], x[2], 0.3)], "power cones", "use cp.CLARABEL or cp.SCS"),
    (lambda x: [x[0] == cp.Variable(boolean=True)], "some variables are integer", "cp.HIGHS"),
]


@pytest.mark.parametrize(("constraints", "what", "instead"), REFUSED)
def test_what_is_no_qp_is_named_with_what_to_use_instead(constraints, what, instead, registered):
    x = cp.Variable(3)
    with pytest.raises(cp.SolverError, match=rf"{what}.*{instead}"):
        cp.Problem(cp.Minimize(cp.sum_squares(x)), constraints(x)).solve(solver="DAPD")


@pytest.fixture
def registered(monkeypatch):
    """DAPD by name, for one test."""
    monkeypatch.setattr(defines, "SOLVER_MAP_QP", {**defines.SOLVER_MAP_QP})
    dapd.cvxpy.register()


def test_a_name_suffices_after_registering(registered):
    assert "DAPD" in cp.installed_solvers()
    x = cp.Variable(3)
    problem = cp.Problem(cp.Minimize(cp.sum_squares(x - 1)), [cp.sum(x) == 2])
    problem.solve(solver="dapd")
    assert problem.solver_stats.solver_name == "DAPD"
    assert abs(x.value - 2 / 3).max() < 1e-6
    problem.solve()
    assert problem.solver_stats.solver_name != "DAPD"


@pytest.mark.parametrize("far", [1e20, 1e30])
def test_far_limits_are_none_also_on_scaled_variables(far):
    x = cp.Variable(3)
    rows = [2e6 * x <= far, -3e6 * x[0] <= far, 1e6 * x[2] >= -far, x[0] + x[1] <= far, cp.sum(x) == 2]
    problem = cp.Problem(cp.Minimize(cp.sum_squares(x - 1)), rows)
    problem.solve(solver=SOLVER)
    lower, upper = problem._solver_cache["DAPD"][0].problem.bounds
    assert np.all(np.isinf(lower) & np.isinf(upper))
    assert abs(x.value - 2 / 3).max() < 1e-6
    assert abs(rows[3].dual_value) < 1e-9


def test_instances_are_equal():
    assert dapd.cvxpy.DAPD() == dapd.cvxpy.DAPD()
    assert len({dapd.cvxpy.DAPD(), dapd.cvxpy.DAPD()}) == 1


# CVXPY's own tests of QP solvers, with dapd in place of the solver that they name. Left out: tests of another solver's
# settings, licence or file format, and `TestConicQuadObj`, the same problems for conic solvers.
OWN = (
    "test_all_solvers",
    "test_parametric",
    "test_warm_start",
    "test_highs_warmstart",
    "test_highs_cvar",
    "test_highs_dense_quad_form",
    "test_square_param",
    "test_osqp_infeasible_lp_ineq_constraints",
    "test_osqp_infeasible_lp_eq_constraints",
)


@pytest.fixture
def instead(monkeypatch):
    """Solve with dapd when a test of CVXPY names another QP solver."""
    solve = cp.Problem.solve

    def solve_by_dapd(problem, solver=None, **options):
        return solve(problem, solver=SOLVER if solver in (cp.OSQP, cp.HIGHS, cp.SCS) else solver, **options)

    monkeypatch.setattr(cp.Problem, "solve", solve_by_dapd)


@pytest.mark.parametrize("name", OWN)
def test_qp_tests_of_cvxpy(name, instead):
    case = cvxpy_tests.TestQp(name)
    case.setUp()
    case.solvers = [SOLVER]
    getattr(case, name)()


# lp_7 needs the package sdpap, a mixed-integer problem another solver, and those with bounds as attributes want them
# apart from the rows, which is not safe (`test_bounds_that_cvxpy_infers_are_not_used`)
STANDARD = [
    getattr(group, name)
    for group in (helpers.StandardTestLPs, helpers.StandardTestQPs)
    for name in dir(group)
    if name.startswith("test_") and not re.search("mi_lp|lp_7|bound_attr", name)
]


@pytest.mark.parametrize("make", [helpers.lp_bound_attr, helpers.qp_bound_attr])
def test_standard_problems_with_bounds(make):
    case = make()
    case.solve(SOLVER)
    case.verify_objective(4)
    case.verify_primal_values(4)
    case.verify_dual_values(4)
    assert case.prob.solver_stats.extra_stats.z.any()


@pytest.mark.parametrize("test", STANDARD, ids=lambda test: test.__name__)
def test_standard_problems_of_cvxpy(test):
    test(solver=SOLVER)


sparse_values = pytest.mark.filterwarnings("ignore:Reading from a sparse CVXPY expression:RuntimeWarning")  # its own


@sparse_values
@pytest.mark.parametrize("attribute", [a for a in cvxpy_tests.DIM_REDUCING_ATTRS if "PSD" not in a])
def test_attributes_of_cvxpy(attribute, instead):
    cvxpy_tests.test_quad_obj_dim_reducing_attr(cp.OSQP, attribute)


@sparse_values
@pytest.mark.parametrize("name", ["attr_power_canon", "attr_quad_form_canon", "symmetric_mixed_dpp"])
def test_quadratic_objectives_of_cvxpy(name, instead):
    getattr(cvxpy_tests, f"test_quad_obj_{name}")(cp.OSQP)


@pytest.mark.parametrize("cones", ["exponential", "psd", "soc"])
def test_cones_are_refused_as_cvxpy_expects(cones, monkeypatch):
    class WithNameOfOsqp(dapd.cvxpy.DAPD):
        def name(self):
            return cp.OSQP

    monkeypatch.setattr("cvxpy.reductions.solvers.qp_solvers.osqp_qpif.OSQP", WithNameOfOsqp)
    getattr(cvxpy_tests.TestQpSolverValidation(), f"test_qp_solver_rejects_{cones}_cones")()
