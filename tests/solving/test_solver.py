"""dapd.Solver: the answers of cold solves, from the last answer on and with less work."""

import numpy as np
import pytest
import scipy.sparse as sp

import dapd

TIGHT = {"tol": 1e-12}


def control(rng, n=12, m=6):
    """A feasible problem with equations, bounds, and a sparse H."""
    H = sp.csr_array(sp.diags_array([np.full(n - 1, 0.3), 2 + rng.random(n), np.full(n - 1, 0.3)], offsets=(-1, 0, 1)))
    M = sp.csr_array(sp.random_array((m, n), density=0.5, rng=rng) + sp.eye_array(m, n))
    x = rng.uniform(-0.4, 0.4, n)
    return dapd.Problem(dapd.Quadratic(H, rng.standard_normal(n)), M, M @ x, bounds=(-0.5, np.full(n, 0.5)))


def intervals(rng, n=10, m=15):
    """A tall dense M with intervals, and a diagonal H."""
    M = rng.standard_normal((m, n))
    f = dapd.Quadratic(1 + rng.random(n), rng.standard_normal(n))
    return dapd.Problem(f, M, np.zeros(m), dapd.Interval(-1.0, np.full(m, 0.2)))


def regression(rng, n=20, m=8):
    """A group lasso: not quadratic, with balls."""
    A, labels = rng.standard_normal((m, n)), rng.choice([-1.0, 1.0], m)
    return dapd.Problem(dapd.Logistic(A, labels, 0.1), np.eye(n), np.zeros(n), dapd.GroupBall(0.2, 5))


def agree(solver, **options):
    """The solver's answer and a cold one are the same."""
    found, cold = solver.solve(), dapd.solve(fresh(solver.problem), **{**TIGHT, **options})
    assert found.converged, found.message
    assert cold.converged
    for warm, other in ((found.x, cold.x), (found.objective, cold.objective)):
        assert np.allclose(warm, other, rtol=1e-9, atol=1e-9)
    return found, cold


def fresh(problem):
    """The problem made anew from its parts."""
    f = problem.f
    if isinstance(f, dapd.Quadratic):
        f = dapd.Quadratic(f.H, f.c)
    bounds = None if problem.lower is None else (problem.lower, problem.upper)
    return dapd.Problem(f, problem.M, problem.b, problem.phi, bounds=bounds)


def updates(problem, rng):
    """An update of each kind that fits the problem."""
    n, m = problem.columns, problem.rows
    yield {"b": problem.b + 0.02 * rng.standard_normal(m) * problem.b}
    if isinstance(problem.f, dapd.Quadratic):
        yield {"c": problem.f.c + 0.1 * rng.standard_normal(n)}
        yield {"H": 1.1 * problem.f.H}
        yield {"H": 1.2 * problem.f.H, "c": problem.f.c + 0.1}
    if problem.lower is not None:
        yield {"bounds": (-0.45, None)}
        yield {"bounds": (None, None)}
        yield {"bounds": (-0.5, 0.48)}
    if isinstance(problem.phi, dapd.Interval):
        yield {"phi": dapd.Interval(-0.9, 0.1), "b": 0.05 * rng.standard_normal(m)}
    if isinstance(problem.phi, dapd.GroupBall):
        yield {"phi": dapd.GroupBall(0.15, 5)}
    M = problem.M.matrix
    yield {"M": M * 1.05}
    pattern = M.copy()
    if sp.issparse(M):
        pattern.data = pattern.data * rng.uniform(0.99, 1.01, pattern.nnz)
        yield {"M": pattern}
        yield {"M": sp.csr_array(M + sp.csr_array(([1e-3], ([m - 1], [0])), shape=M.shape))}  # another pattern


@pytest.mark.parametrize("make", [control, intervals, regression])
@pytest.mark.parametrize("options", [{}, {"direct": False}, {"engine": "python"}, {"method": "x-dapd"}])
def test_answers_are_those_of_cold_solves_after_every_update(make, options):
    rng = np.random.default_rng(0)
    solver = dapd.Solver(make(rng), **TIGHT, **options)
    if options.get("method") and (make is not regression):
        with pytest.raises(ValueError, match=r"rank|rows|singular"):
            solver.solve()
        return
    agree(solver)
    for update in updates(solver.problem, rng):
        solver.update(**update)
        agree(solver)


@pytest.mark.parametrize("make", [control, intervals, regression])
@pytest.mark.parametrize("options", [{}, {"engine": "python"}])
def test_a_warm_solve_takes_fewer_iterations(make, options):
    rng = np.random.default_rng(1)
    problem = make(rng)
    solver = dapd.Solver(problem, **options)
    solver.solve()
    warm, cold = 0, 0
    for _ in range(5):
        solver.update(b=solver.problem.b + 1e-4 * problem.M.forward(rng.standard_normal(problem.columns)))
        warm += solver.solve().iterations
        cold += dapd.solve(fresh(solver.problem), direct=False, **options).iterations
    assert warm < cold


def test_solving_again_without_a_change_takes_no_iterations():
    solver = dapd.Solver(control(np.random.default_rng(2)))
    solver.solve()
    assert solver.solve().iterations == 0


def test_nothing_of_the_caller_is_modified():
    rng = np.random.default_rng(3)
    problem = control(rng)
    n, m = problem.columns, problem.rows
    given = {
        "b": problem.b.copy(),
        "c": rng.standard_normal(n),
        "bounds": (np.full(n, -0.6), np.full(n, 0.6)),
        "M": problem.M.matrix.copy(),
        "H": problem.f.H.copy(),
    }
    arrays = [given["b"], given["c"], *given["bounds"], given["M"].data, given["H"].data]
    before = [array.copy() for array in arrays]
    old = problem.b.copy(), problem.f.c.copy(), problem.lower.copy(), problem.M.matrix.data.copy()
    solver = dapd.Solver(problem, **TIGHT)
    first = solver.solve()
    kept = first.x.copy(), first.y.copy(), first.z.copy()
    solver.update(**given)
    second = solver.solve()
    second.x[:] = np.nan  # the answer belongs to the caller
    given["b"][:] = np.nan
    third = solver.solve()
    assert third.converged
    assert third.iterations == 0
    given["b"][:] = before[0]
    for array, copy in zip(arrays, before, strict=True):
        assert np.array_equal(array, copy)
    for array, copy in zip((problem.b, problem.f.c, problem.lower, problem.M.matrix.data), old, strict=True):
        assert np.array_equal(array, copy)
    for array, copy in zip((first.x, first.y, first.z), kept, strict=True):
        assert np.array_equal(array, copy)
    assert solver.problem is not problem
    assert m == solver.problem.rows


@pytest.mark.parametrize(
    ("update", "error", "words"),
    [
        ({"b": np.zeros(3)}, ValueError, "b has 3 entries, expected 6"),
        ({"c": np.zeros(3)}, ValueError, "c has 3 entries, expected 12"),
        ({"b": np.full(6, np.nan)}, ValueError, "b holds NaN"),
        ({"M": np.zeros((6, 11))}, ValueError, r"M has shape \(6, 11\), expected \(6, 12\)"),
        ({"H": np.ones(11)}, ValueError, "H is for 11 variables, expected 12"),
        ({"H": -np.ones(12)}, ValueError, "not convex"),
        ({"phi": dapd.NonNegative()}, ValueError, "same kind as before, Zero, found NonNegative"),
        ({"phi": 1.0}, TypeError, "must be a dapd.Phi"),
        ({"bounds": (1.0, 0.0)}, ValueError, "lower bounds must not be above"),
        ({"bound": (0.0, 1.0)}, TypeError, "did you mean 'bounds'"),
    ],
)
def test_a_wrong_update_is_refused_and_changes_nothing(update, error, words):
    solver = dapd.Solver(control(np.random.default_rng(4)))
    before = solver.problem
    for values in (update, {"c": np.ones(12), "b": np.ones(6), **update}):
        with pytest.raises(error, match=words):
            solver.update(**values)
        assert solver.problem is before


def test_options_are_those_of_solve_and_checked_at_once():
    problem = control(np.random.default_rng(5))
    with pytest.raises(TypeError, match="did you mean 'tol'"):
        dapd.Solver(problem, toll=1e-3)
    with pytest.raises(ValueError, match="tol must be"):
        dapd.Solver(problem, tol=-1.0)
    with pytest.raises(ValueError, match="unknown method"):
        dapd.Solver(problem, method="z-dapd")
    with pytest.raises(TypeError, match=r"must be a dapd\.Problem"):
        dapd.Solver(None)
    solver = dapd.Solver(problem, tol=1e-3)
    assert solver.solve().converged
    with pytest.raises(TypeError, match="did you mean 'tol'"):
        solver.solve(toll=1e-3)
    assert solver.solve(tol=1e-11).certificate.error <= 1e-11
    assert solver.solve(x0=np.ones(problem.columns)).converged


def test_c_and_H_belong_to_a_quadratic_f():
    solver = dapd.Solver(regression(np.random.default_rng(6)))
    with pytest.raises(TypeError, match="c belongs to a Quadratic f, but this f is Logistic"):
        solver.update(c=np.ones(20))


@pytest.mark.parametrize("options", [{}, {"direct": False}, {"engine": "python"}])
def test_infeasible_after_an_update_and_feasible_again(options):
    problem = control(np.random.default_rng(7))
    solver = dapd.Solver(problem, **TIGHT, **options)
    agree(solver)
    solver.update(b=problem.b + 100.0)
    found = solver.solve()
    assert found.status == "infeasible"
    assert found.ray is not None
    solver.update(b=0.9 * problem.b)
    agree(solver)


def test_unbounded_after_an_update_and_bounded_again():
    n = 6
    problem = dapd.Problem(dapd.Quadratic(None, np.r_[-1.0, np.zeros(n - 1)]), np.ones((1, n)), [0.0], bounds=(-1, 1))
    solver = dapd.Solver(problem)
    assert solver.solve().objective == pytest.approx(-1.0, abs=1e-5)
    solver.update(bounds=(None, None))
    assert solver.solve().status == "unbounded"
    solver.update(bounds=(-2, 2))
    assert solver.solve().objective == pytest.approx(-2.0, abs=1e-5)


def test_bounds_may_come_later():
    problem = intervals(np.random.default_rng(8))
    solver = dapd.Solver(problem, **TIGHT)
    agree(solver)
    solver.update(bounds=(-0.05, 0.05))
    agree(solver)


def test_a_function_of_the_users_own_is_solved_again():
    n = 8
    target = np.linspace(-1, 1, n)
    f = dapd.Smooth(lambda x: 0.5 * np.sum((x - target) ** 2), lambda x: x - target, 1.0, 1.0)
    solver = dapd.Solver(dapd.Problem(f, np.ones((1, n)), [1.0]), **TIGHT)
    for b in (1.0, 2.0, -3.0):
        solver.update(b=[b])
        assert np.allclose(solver.solve().x, target + b / n, atol=1e-9)


def test_blocks_are_compared_once(monkeypatch):
    from dapd.solving import solve as auto

    rng, calls = np.random.default_rng(9), []
    real = auto.compare_blocks
    monkeypatch.setattr(auto, "compare_blocks", lambda *given: calls.append(1) or real(*given))
    M = rng.standard_normal((5, 40))
    problem = dapd.Problem(dapd.Quadratic(1 + rng.random(40), np.ones(40)), M, M @ np.ones(40), blocks=4)
    solver = dapd.Solver(problem)
    for k in range(3):
        solver.update(b=M @ np.full(40, k))
        assert solver.solve().converged
    assert len(calls) == 1
    solver.update(H=2 + rng.random(40))
    assert solver.solve().converged
    assert len(calls) == 2
