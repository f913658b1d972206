"""dapd as a solver of qpsolvers and qpbenchmark."""

import numpy as np
import pytest
import qpsolvers
import scipy.sparse as sp
from qpsolvers import problems

import dapd

dapd.qpsolvers.register()


def random_qp(seed, sparse=False):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 20))
    root, inside = rng.standard_normal((n, n)), 0.3 * rng.standard_normal(n)
    G, A = rng.standard_normal((n, n)), rng.standard_normal((n // 3, n))
    data = {"P": root @ root.T, "q": rng.standard_normal(n)}
    if seed % 2:
        data |= {"G": G, "h": G @ inside + rng.choice([0.0, 0.1, np.inf], n)}
    if seed % 3:
        data |= {"A": A, "b": A @ inside}
    if seed % 5:
        data |= {"lb": inside - rng.choice([0.1, np.inf], n)}
    if seed % 7:
        data |= {"ub": inside + rng.choice([0.1, 1.0], n)}
    return {name: sp.csc_matrix(v) if sparse and v.ndim == 2 else v for name, v in data.items()}


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_random_problems_are_solved_with_all_multipliers(seed, sparse):
    problem = qpsolvers.Problem(**random_qp(seed, sparse))
    if problem.h is not None:  # qpsolvers multiplies an infinite h by its multiplier of zero
        problem.h = np.where(np.isinf(problem.h), 1e3, problem.h)
    solution = qpsolvers.solve_problem(problem, solver="dapd")
    assert solution.found
    assert solution.is_optimal(1e-6)
    assert solution.obj == pytest.approx(solution.x @ (0.5 * (problem.P @ solution.x) + problem.q))
    assert np.size(solution.y) == (0 if problem.b is None else len(problem.b))
    assert np.size(solution.z) == (0 if problem.h is None else len(problem.h))
    assert np.all(solution.z >= 0)
    assert solution.build_time > 0
    assert solution.solve_time > 0
    assert solution.extras["result"].converged


@pytest.mark.parametrize("name", ["qpsut01", "qpsut02", "qpsut03", "qpsut04", "qpsut05", "qpgurabs", "qpgureq"])
def test_reference_problems_of_qpsolvers(name):
    problem, reference = getattr(problems, f"get_{name}")()
    solution = qpsolvers.solve_problem(problem, solver="dapd", tol=1e-10)
    assert solution.is_optimal(1e-6)
    # not the multipliers: those of qpsut02 are not unique, and that of qpsut04 has the other sign
    assert reference.x is None or abs(solution.x - reference.x).max() < 1e-5


def test_solve_qp_and_a_start():
    data = random_qp(1)
    x = qpsolvers.solve_qp(**data, solver="dapd")
    again = qpsolvers.solve_qp(**data, solver="dapd", initvals=x, tol_absolute=1e-9)
    assert abs(x - again).max() < 1e-6
    infinite = random_qp(3)
    assert np.isinf(infinite["h"]).any()
    assert qpsolvers.solve_qp(**infinite, solver="dapd") is not None


def test_no_solution_is_none():
    one = np.ones((1, 2))
    eye, zero = np.eye(2), np.zeros(2)
    assert qpsolvers.solve_qp(eye, zero, one, -np.ones(1), lb=zero, solver="dapd") is None
    assert qpsolvers.solve_qp(eye, zero, lb=np.ones(2), ub=zero, solver="dapd") is None
    problem = qpsolvers.Problem(0 * eye, np.ones(2), ub=zero)
    solution = qpsolvers.solve_problem(problem, solver="dapd")
    assert solution.found is False
    assert solution.x is None
    assert solution.extras["status"] == "unbounded"


def test_errors_are_those_of_qpsolvers():
    with pytest.raises(qpsolvers.ProblemError, match="not convex"):
        qpsolvers.solve_qp(-np.eye(2), np.zeros(2), solver="dapd")
    with pytest.raises(qpsolvers.ParamError, match="did you mean 'tol'"):
        qpsolvers.solve_qp(np.eye(2), np.zeros(2), solver="dapd", toll=1e-3)


ROWS, TWO = np.ones((2, 3)), np.ones(2)
WRONG = [
    ({"G": np.ones((2, 4)), "h": TWO}, "G has 4 columns, expected 3"),
    ({"G": np.ones((2, 4)), "h": TWO, "A": ROWS, "b": TWO}, "G has 4 columns, expected 3"),
    ({"A": sp.csc_matrix(np.ones((2, 2))), "b": TWO, "G": ROWS, "h": TWO}, "A has 2 columns, expected 3"),
    ({"G": ROWS, "h": np.ones(3)}, "h has 3 entries, expected 2, the number of rows of G"),
    ({"A": ROWS, "b": np.ones(3)}, "b has 3 entries, expected 2, the number of rows of A"),
    ({"G": ROWS, "h": np.array([1, np.nan])}, r"h holds NaN .* h\[1\]"),
    ({"G": ROWS, "h": np.array([1, -1e30])}, "h must be above -1e20"),
    ({"A": ROWS, "b": np.array([1, np.inf])}, r"b holds NaN or infinite entries, the first at b\[1\]"),
    ({"G": ROWS * np.nan, "h": TWO}, "G holds NaN"),
    ({"lb": TWO, "ub": np.ones(4)}, "lb has 2 entries, expected 3, the number of variables"),
    ({"lb": np.zeros(3), "ub": np.ones(4)}, "ub has 4 entries, expected 3"),
    ({"ub": np.array([1, np.nan, 1])}, "ub holds NaN"),
]


@pytest.mark.parametrize(("data", "message"), WRONG)
def test_errors_have_the_names_of_qpsolvers(data, message):
    with pytest.raises(qpsolvers.ProblemError, match=f"^{message}"):
        qpsolvers.solve_qp(np.eye(3), np.ones(3), **data, solver="dapd")


@pytest.mark.parametrize("far", [1e20, 1e30])
def test_far_limits_are_none(far):
    problem = qpsolvers.Problem(
        np.eye(3), np.ones(3), G=np.ones((2, 3)), h=np.array([far, -4.0]), lb=np.full(3, -far), ub=np.full(3, far)
    )
    solution = qpsolvers.solve_problem(problem, solver="dapd")
    assert abs(solution.x + 4 / 3).max() < 1e-7
    assert solution.z[0] == 0
    assert not solution.z_box.any()


def test_registering_twice_changes_nothing():
    dapd.qpsolvers.register()
    assert qpsolvers.available_solvers.count("dapd") == 1


def test_qpbenchmark_runs_with_it(tmp_path):
    qpbenchmark = pytest.importorskip("qpbenchmark")
    dapd.qpsolvers.register()

    class Few(qpbenchmark.TestSet):
        title, sparse_only, description = "few", False, "few"

        def __iter__(self):
            for name in ("qpsut01", "qpgureq"):
                yield qpbenchmark.Problem.from_qpsolvers(getattr(problems, f"get_{name}")()[0], name)

    few = Few()
    few.solver_settings["high_accuracy"].set_param("dapd", "tol_absolute", 1e-9)
    results = qpbenchmark.Results(str(tmp_path / "results.csv"), few)
    qpbenchmark.run(few, results, only_solver="dapd", only_settings="high_accuracy", verbose=True)
    assert len(results.df) == 2
    assert results.df["found"].all()
    assert (results.df[["primal_residual", "dual_residual", "duality_gap"]] <= 1e-9).all(axis=None)
