"""`auto`: everyday problems in their natural form, with nothing known, by every way; its limits and what it says."""

import math
import re
import time

import numpy as np
import pytest
import scipy.sparse as sp
from instances import DETERMINISTIC, PHIS, quadratic_problem
from scipy.sparse.linalg import LinearOperator, aslinearoperator

import dapd
from dapd.certificate.certify import certify
from dapd.engines import bind
from dapd.machine.clock import agreeing
from dapd.newton.costs import filled_seconds
from dapd.ways.base import Asked
from dapd.ways.clarabel import candidate as direct
from dapd.ways.clarabel.candidate import Clarabel
from dapd.ways.search import Search

WAYS = {"auto": {}, "without the direct path": {"direct": False}, "restarts": {"engine": "native"}}


def portfolio():
    rng = np.random.default_rng(0)
    F = rng.standard_normal((40, 4)) * (rng.uniform(size=(40, 4)) < 0.5)
    H = np.diag(rng.uniform(0, 2, 40)) + F @ F.T
    return dapd.Problem(dapd.Quadratic(H, rng.standard_normal(40)), np.ones((1, 40)), [1.0], bounds=(0.0, np.inf))


def control(steps=8, states=4, inputs=2):
    rng = np.random.default_rng(1)
    A, B = np.eye(states) + 0.1 * rng.standard_normal((states, states)), rng.standard_normal((states, inputs))
    next_state = sp.kron(sp.eye_array(steps), np.eye(states))
    from_state = sp.kron(sp.eye_array(steps, k=-1), A)
    M = sp.csr_array(sp.hstack([next_state - from_state, -sp.kron(sp.eye_array(steps), B)]))
    b = np.zeros(steps * states)
    b[:states] = A @ rng.uniform(-0.5, 0.5, states)
    H = np.concatenate([np.tile([1.0, 0.0, 2.0, 0.0], steps), np.full(steps * inputs, 0.1)])
    bound = np.concatenate([np.full(steps * states, 1.0), np.full(steps * inputs, 0.2)])
    return dapd.Problem(dapd.Quadratic(H), M, b, bounds=(-bound, bound))


def svm():
    rng = np.random.default_rng(2)
    labels = np.repeat([1.0, -1.0], 40)
    A = rng.standard_normal((80, 5)) + 0.5 * labels[:, None]
    return dapd.Problem(dapd.Quadratic(np.ones(5)), -labels[:, None] * A, -np.ones(80), dapd.Box(0.0, 0.3))


def total_variation(side=8):
    rng = np.random.default_rng(3)
    image = np.kron(rng.uniform(size=(2, 2)), np.ones((side // 2, side // 2))) + 0.1 * rng.standard_normal((side, side))
    D = sp.diags_array([-np.ones(side), np.ones(side - 1)], offsets=[0, 1]).tolil()
    D[side - 1, side - 1] = 0.0  # a zero row and a singular difference: no care is taken
    D, one = D.tocsr(), sp.eye_array(side)
    both = sp.csr_array(sp.vstack([sp.kron(D, one), sp.kron(one, D)]))
    pairs = both[np.arange(2 * side * side).reshape(2, -1).T.ravel()]  # the two differences of a pixel form a group
    f = dapd.Quadratic(np.ones(side * side), image.ravel())
    return dapd.Problem(f, pairs, np.zeros(2 * side * side), dapd.GroupBall(0.1, 2))


def network(nodes=30, edges=90):
    rng = np.random.default_rng(4)
    tail = rng.integers(0, nodes, edges)
    head = (tail + rng.integers(1, nodes, edges)) % nodes
    at = np.concatenate([tail, head]), np.tile(np.arange(edges), 2)
    return sp.csr_array((np.repeat([1.0, -1.0], edges), at), shape=(nodes, edges)), rng


def flow():
    M, rng = network()
    f = dapd.Quadratic(rng.uniform(1.0, 2.0, 90), rng.standard_normal(90))
    return dapd.Problem(f, M, M @ rng.uniform(-0.5, 0.5, 90), bounds=(-0.6, 0.6))


def smooth_flow():
    M, rng = network()
    return dapd.Problem(dapd.PseudoHuber(0.1), M, M @ rng.uniform(-0.5, 0.5, 90))


def transport(n=6):
    rng = np.random.default_rng(5)
    a, b = rng.dirichlet(np.ones(n)), rng.dirichlet(np.ones(n))
    M = sp.vstack([sp.kron(sp.eye_array(n), np.ones((1, n))), sp.kron(np.ones((1, n)), sp.eye_array(n))])
    f = dapd.Quadratic(np.full(n * n, 0.1), -rng.uniform(size=n * n))
    return dapd.Problem(f, sp.csr_array(M), np.concatenate([a, b]), bounds=(0.0, np.inf))


def regression():
    rng = np.random.default_rng(6)
    A, x = rng.standard_normal((20, 40)), np.zeros(40)
    x[:4] = rng.standard_normal(4)
    return A, A @ x + 0.05 * rng.standard_normal(20)


def lasso():
    return dapd.Problem(dapd.LeastSquares(*regression()), dapd.Identity(40), np.zeros(40), dapd.Box(-1.0, 1.0))


def group_lasso():
    return dapd.Problem(dapd.LeastSquares(*regression()), dapd.Identity(40), np.zeros(40), dapd.GroupBall(1.5, 4))


def isotonic(n=40):
    noisy = np.linspace(0, 1, n) + 0.3 * np.random.default_rng(7).standard_normal(n)
    D = sp.diags_array([np.ones(n - 1), -np.ones(n - 1)], offsets=[0, 1], shape=(n - 1, n)).tocsr()
    return dapd.Problem(dapd.Quadratic(np.ones(n), noisy), D, np.zeros(n - 1), dapd.NonNegative())


def trend(n=60):
    noisy = abs(np.linspace(-1, 1, n)) + 0.05 * np.random.default_rng(8).standard_normal(n)
    D = sp.diags_array([1.0, -2.0, 1.0], offsets=[0, 1, 2], shape=(n - 2, n)).tocsr()
    return dapd.Problem(dapd.Quadratic(np.ones(n), noisy), D, np.zeros(n - 2), dapd.Box(-1.0, 1.0))


def logistic():
    rng = np.random.default_rng(9)
    A, labels = rng.standard_normal((60, 12)), rng.choice([-1.0, 1.0], 60)
    return dapd.Problem(dapd.Logistic(A, labels), np.ones((1, 12)), [0.0], bounds=(-0.3, 0.3))


def linear_program():
    rng = np.random.default_rng(10)
    M = rng.standard_normal((4, 12))
    c = M.T @ rng.standard_normal(4) - np.concatenate([np.zeros(4), rng.uniform(size=8)])
    return dapd.Problem(dapd.Quadratic(None, c), M, M @ np.repeat([1.0, 0.0], [4, 8]), bounds=(0.0, np.inf))


EVERYDAY = [
    portfolio,
    control,
    svm,
    total_variation,
    flow,
    smooth_flow,
    transport,
    lasso,
    group_lasso,
    isotonic,
    trend,
    logistic,
    linear_program,
]


@pytest.mark.parametrize("make", EVERYDAY, ids=lambda make: make.__name__)
def test_everyday_problems_are_solved_in_their_natural_form_by_every_way(make):
    values = []
    for options in WAYS.values():
        problem = make()
        result = dapd.solve(problem, **options)
        assert result.converged, result
        again = certify(problem, result.x, result.y)
        assert again.error <= 1e-6
        values.append(result.objective)
        if problem.lower is not None:
            assert np.all(result.x >= problem.lower - 1e-5)
            assert np.all(result.x <= problem.upper + 1e-5)
    np.testing.assert_allclose(values, values[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("make", EVERYDAY, ids=lambda make: make.__name__)
def test_everyday_problems_are_solved_to_high_accuracy_without_the_direct_path(make):
    problem = make()
    result = dapd.solve(problem, tol_absolute=1e-9, direct=False)
    assert result.converged, result
    assert max(result.certificate.primal, result.certificate.dual, result.certificate.gap) <= 1e-9


# problems about which little is known, or which are degenerate


@pytest.mark.parametrize("phi", PHIS)
@pytest.mark.parametrize("way", WAYS)
def test_known_solutions_are_found(way, phi):
    problem = quadratic_problem(PHIS[phi], kappa=100.0)
    result = dapd.solve(problem, tol=1e-10, **WAYS[way])
    assert result.converged
    np.testing.assert_allclose(result.x, problem.x_star, atol=1e-7)


def test_f_of_the_users_own_needs_no_constants():
    d = np.random.default_rng(0).standard_normal(10)
    f = dapd.Smooth(lambda x: float(np.sum((x - d) ** 4)) / 4, lambda x: (x - d) ** 3)
    problem = dapd.Problem(f, np.ones((1, 10)), [1.0], bounds=(-1.0, 1.0))
    result = dapd.solve(problem, tol=1e-5)
    assert result.converged
    assert result.method == "restarts"
    assert result.engine == "native"
    assert "Smooth" in result.engine.reason
    assert certify(problem, result.x, result.y).error <= 1e-5


@pytest.mark.parametrize("engine", ["auto", "python"])
def test_matrix_free_maps_are_solved(engine):
    given = quadratic_problem(PHIS["interval"])
    problem = dapd.Problem(given.f, aslinearoperator(given.M.matrix), given.b, given.phi)
    result = dapd.solve(problem, tol=1e-8, engine=engine)
    assert result.converged
    np.testing.assert_allclose(result.x, given.x_star, atol=1e-5)


@pytest.mark.parametrize("way", WAYS)
def test_dependent_and_zero_rows_and_columns_are_solved(way):
    rng = np.random.default_rng(1)
    M = rng.standard_normal((9, 6))
    M[3], M[4], M[5] = 0.0, M[0], -2.0 * M[1]
    M[:, 2] = 0.0
    x = rng.standard_normal(6)
    b = M @ x - np.concatenate([np.zeros(6), [-1.0, 0.0, -0.5]])
    phi = dapd.Stack([dapd.Zero(), dapd.NonNegative()], sizes=[6, 3])
    for f in (dapd.Quadratic(np.ones(6), x), dapd.LeastSquares(M[:2], M[:2] @ x), dapd.PseudoHuber(0.5)):
        problem = dapd.Problem(f, M, b, phi)
        result = dapd.solve(problem, tol=1e-8, **WAYS[way])
        assert result.converged
        assert certify(problem, result.x, result.y).error <= 1e-8


@pytest.mark.parametrize("way", WAYS)
def test_without_strong_convexity_the_objective_is_right(way):
    rng = np.random.default_rng(2)
    M = rng.standard_normal((3, 8))
    x, y = rng.uniform(0.5, 1.0, 8), rng.standard_normal(3)
    H = np.diag(np.repeat([1.0, 0.0], 4))
    problem = dapd.Problem(dapd.Quadratic(H, H @ x + M.T @ y), M, M @ x)
    result = dapd.solve(problem, tol=1e-9, **WAYS[way])
    assert result.converged
    assert result.objective == pytest.approx(problem.f.value(x), abs=1e-6)


@pytest.mark.parametrize("way", WAYS)
def test_badly_scaled_rows_are_solved(way):
    rng = np.random.default_rng(3)
    M, x, y = rng.standard_normal((5, 20)), rng.standard_normal(20), rng.standard_normal(5)
    M *= np.geomspace(1e-3, 1e5, 5)[:, None]
    problem = dapd.Problem(dapd.Quadratic(np.ones(20), x + M.T @ (y / np.geomspace(1e-3, 1e5, 5))), M, M @ x)
    result = dapd.solve(problem, tol=1e-9, max_iterations=5_000, **WAYS[way])
    assert result.converged
    np.testing.assert_allclose(result.x, x, atol=1e-6)


# named methods


@pytest.mark.parametrize("name", DETERMINISTIC)
def test_a_named_method_is_exactly_its_own_iteration(name):
    problem = quadratic_problem(PHIS["zero"])
    by_hand = bind(dapd.METHODS[name].from_theory(problem), "auto")
    by_hand.start()
    steps = 40 // by_hand.method.iterations_per_step
    by_hand.advance(steps, math.inf)
    limit = steps * by_hand.method.iterations_per_step
    result = dapd.solve(quadratic_problem(PHIS["zero"]), name, tol=0, max_iterations=limit)
    x, y = by_hand.point()
    assert (result.iterations, result.method) == (limit, name)
    np.testing.assert_array_equal(result.x, x)
    np.testing.assert_array_equal(result.y, y)
    assert "Chose" not in result.message


# limits


@pytest.mark.parametrize("limit", [0, 1, 2, 7, 33])
@pytest.mark.parametrize("way", WAYS)
def test_iteration_limit_holds_in_every_way(way, limit):
    for make in (trend, logistic):
        result = dapd.solve(make(), tol=1e-14, max_iterations=limit, **WAYS[way])
        assert result.iterations <= limit
        assert result.status in ("iteration_limit", "optimal")
        if limit < 3:
            assert result.status == "iteration_limit"


@pytest.mark.parametrize("way", WAYS)
def test_callback_stops_every_way_and_gets_copies(way):
    seen = []

    def stop(info):
        seen.append((info.iteration, info.z.size))
        info.x[:] = info.y[:] = info.z[:] = np.nan
        return len(seen) == 2

    result = dapd.solve(control(), tol=1e-15, callback=stop, **WAYS[way])
    assert len(seen) == 2
    assert (result.status, result.iterations) == ("interrupted", seen[-1][0])
    assert "callback" in result.message
    assert np.isfinite(result.x).all()
    assert np.isfinite(result.z).all()


def test_time_limit_holds_on_a_large_problem():
    M, rng = network(nodes=20_000, edges=80_000)
    problem = dapd.Problem(dapd.PseudoHuber(1e-4), M, M @ rng.standard_normal(80_000))
    slow = LinearOperator(M.shape, matvec=lambda x: (time.sleep(0.02), M @ x)[1], rmatvec=lambda y: M.T @ y)
    for given in (problem, dapd.Problem(problem.f, slow, problem.b)):
        result = dapd.solve(given, time_limit=0.2, tol=1e-12)
        assert result.status == "time_limit"
        assert result.setup_time + result.solve_time >= 0.2


def test_rounding_is_told_soon_and_not_without_a_tolerance():
    for options in WAYS.values():
        result = dapd.solve(quadratic_problem(PHIS["interval"]), tol=1e-30, **options)
        assert result.status == "interrupted"
        assert "Stopped by rounding in float64" in result.message
        assert result.certificate.error < 1e-12
        assert dapd.solve(trend(), tol=0, max_iterations=60, **options).status == "iteration_limit"


# what is said


def test_direct_is_true_or_false():
    with pytest.raises(TypeError, match="direct must be True or False, found 'no'"):
        dapd.solve(isotonic(), direct="no")


def test_what_ran_is_said():
    problem = quadratic_problem(PHIS["nonnegative"])
    result = dapd.solve(problem)
    if result.method == "clarabel":
        assert "Chose Clarabel: predicted to take" in result.message
        assert result.engine == "clarabel"
    result = dapd.solve(problem, direct=False)
    assert result.method == "newton"
    assert "Chose second-order steps: a factorisation takes about" in result.message
    assert result.engine == "python"
    assert "NumPy" in result.engine.reason
    for engine in ("native", "python"):
        result = dapd.solve(problem, engine=engine)
        assert (result.method, result.engine) == ("restarts", engine)
        assert "Chose restarted first-order steps" in result.message
        assert result.gradients >= result.iterations  # a well-conditioned H is not factored
        assert result.products >= 2 * result.iterations


def test_first_order_steps_begin_if_factorisations_would_probably_fill_in(monkeypatch):
    rng, nodes = np.random.default_rng(0), 20_000
    ends = np.r_[rng.integers(nodes, size=3 * nodes), np.arange(nodes)], rng.permutation(np.tile(np.arange(nodes), 4))
    each = np.arange(4 * nodes)
    M = sp.csr_array((np.repeat([1.0, -1.0], 4 * nodes), (np.r_[ends], np.r_[each, each])), shape=(nodes, 4 * nodes))
    problem = dapd.Problem(dapd.Quadratic(np.ones(4 * nodes)), M, M @ rng.uniform(-0.8, 0.8, 4 * nodes), bounds=(-1, 1))
    with monkeypatch.context() as patched:
        for place in ("newton.costs", "ways.clarabel.candidate"):
            patched.setattr(f"dapd.{place}.cost", lambda *given, **limits: pytest.fail("took long"))
        assert dapd.solve(problem, tol=1e-3).method == "restarts"
    # a chain of as many rows is factorised at once
    assert filled_seconds(sp.eye_array(nodes, nodes + 1) - sp.eye_array(nodes, nodes + 1, k=1)) == 0.0
    assert filled_seconds(sp.eye_array(nodes)) == 0.0
    assert filled_seconds(M) > 100


@pytest.mark.skipif(not direct.is_installed(), reason="Clarabel is not installed")
def test_clarabel_begins_only_when_its_cost_is_known(monkeypatch):
    monkeypatch.setattr("dapd.ways.clarabel.candidate.TRIVIAL", 0.0)
    rng = np.random.default_rng(0)
    problem = dapd.Problem(
        dapd.Quadratic(np.ones(9), np.arange(9.0)), rng.random((6, 9)), np.ones(6), dapd.NonNegative()
    )
    search = Search(problem, (1e-6, 0.0), 1000, math.inf, None)
    search.judge(np.zeros(9), np.zeros(6))
    way = Clarabel(Asked(search, reliable_limit=lambda: 1e-6))  # seconds within which it was not worth a closer look
    guesses = [way.estimate()]
    while way.advance() is not None and not search.iterations:
        guesses.append(way.estimate())  # others may go on now
    assert len(guesses) > 2
    assert guesses[1] == 8 * guesses[0]
    assert search.done


def test_a_little_less_error_is_no_progress():
    problem = dapd.Problem(dapd.Quadratic(np.ones(9), np.arange(9.0)), np.eye(6, 9), np.ones(6))
    search = Search(problem, (1e-9, 0.0), 1000, math.inf, None)
    solved = dapd.solve(problem, tol=1e-12)
    for k in range(50):  # the error falls by 1 part in 500 each time
        search.judge(solved.x + 1e-5 * 0.998**k, solved.y)
    assert search.error == search.point.certificate.error
    assert search.judged_at_best == 1
    search.judge(solved.x + 1e-6, solved.y)
    assert search.judged_at_best == search.judged == 51


def test_a_wrong_L_is_no_error_about_x0():
    f = dapd.Smooth(lambda x: 50 * x @ x, lambda x: 100 * x, mu=1.0, L=1.0)
    problem = dapd.Problem(f, np.random.default_rng(0).standard_normal((20, 60)), np.ones(20))
    assert dapd.solve(problem, max_iterations=5_000).status != "optimal"


def test_a_way_that_has_ended_is_not_tried_again():
    problem = dapd.Problem(dapd.Quadratic(np.ones(9), np.arange(9.0)), np.eye(6, 9), np.ones(6), dapd.NonNegative())
    search = Search(problem, (1e-9, 0.0), 1000, math.inf, None)
    way = Clarabel(Asked(search, reliable_limit=lambda: 10.0))
    way.seconds, way.measured, way.progress = None, 2.0, [(2.0, 1e4)]  # it took 2 s and did not do
    solved = dapd.solve(problem)
    search.judge(solved.x + 1e-9, solved.y)  # another way comes near
    assert way.left() < math.inf
    assert way.expected() == math.inf


def test_history_and_progress_of_auto(capsys):
    problem = quadratic_problem(PHIS["nonnegative"])
    for options in WAYS.values():
        result = dapd.solve(problem, history=True, progress=True, **options)
        history = result.history
        assert history.iterations[0] == 0
        assert np.all(np.diff(history.iterations) >= 0)
        assert history.error[-1] < 1e-4
        assert history.stationarity[-1] == result.certificate.stationarity
        assert "stationarity" in capsys.readouterr().out


def test_clarabel_tries_other_settings_if_an_answer_is_not_good_enough(monkeypatch):
    pytest.importorskip("clarabel")
    attempt, tried = direct._attempt, []

    def first_poor(problem, form, tolerances, limit, seconds, changes):
        found = attempt(problem, form, tolerances, limit, seconds, changes)
        tried.append(changes)
        return found if len(tried) > 1 else found._replace(x=found.x + 1e-3)

    monkeypatch.setattr(direct, "_attempt", first_poor)
    result = dapd.solve(isotonic())
    assert (result.method, result.converged, len(tried)) == ("clarabel", True, 2)


def test_each_attempt_of_clarabel_is_looked_at(monkeypatch):
    pytest.importorskip("clarabel")
    attempt, seen = direct._attempt, []

    def ever_better(problem, form, tolerances, limit, seconds, changes):
        found = attempt(problem, form, tolerances, limit, seconds, changes)
        made.append(found.iterations)
        return found._replace(x=found.x + 10.0 ** (-3 * len(made)))

    made = []
    monkeypatch.setattr(direct, "_attempt", ever_better)
    result = dapd.solve(isotonic(), callback=lambda info: seen.append((info.iteration, info.certificate.error)))
    assert result.converged
    assert [iterations for iterations, _ in seen] == [0, *np.cumsum(made).tolist()]
    errors = [error for _, error in seen]
    assert errors == sorted(errors, reverse=True)


def test_first_order_steps_are_led_by_the_typical_error_and_end_by_the_greatest():
    problem = quadratic_problem(PHIS["nonnegative"])
    search = Search(problem, (1e-6, 0.0), 100, np.inf, None)
    x = dapd.solve(problem, tol=1e-12).x
    y = dapd.solve(problem, tol=1e-12).y
    assert search.judge_typical(x, y) == search.judge(x, y) == 0.0
    x[0] += 0.1
    certificate = certify(problem, x, y)
    assert search.judge_typical(x, y) == certificate.typical_error
    assert 1e-6 < certificate.typical_error < search.judge(x, y) == certificate.solution_error
    x[0] = np.nan
    assert search.judge_typical(x, y) == np.inf


def erratic_clock(most):
    """A clock that each reading advances by up to `most` seconds."""
    rng, now = np.random.default_rng(0), 0.0

    def read():
        nonlocal now
        now += rng.uniform(0.0, most)
        return now

    return read


@pytest.mark.parametrize("size", [6, 25, 60, 70])
def test_a_slow_moment_does_not_change_the_answer(size):
    rng = np.random.default_rng(size)
    A, B = rng.standard_normal((2 * size, size)), rng.standard_normal((3 * size, size))
    rows = dapd.Interval(-1.0, 1.0)
    factor = B[: size // 2]
    for f in (dapd.Quadratic(factor.T @ factor, B[0]), dapd.Logistic(B, np.sign(B[:, 0]), ridge=0.01)):
        for options in WAYS.values():
            answers = set()
            for most in (0.0, 1e-5, 1e-4, 1e-3):
                with agreeing(erratic_clock(most)):
                    result = dapd.solve(dapd.Problem(f, A, np.zeros(2 * size), rows), **options)
                answers.add((result.method, result.iterations, result.x.tobytes()))
            assert len(answers) == 1


def test_the_message_says_which_ways_ran_and_for_how_long():
    rng = np.random.default_rng(0)
    M = rng.standard_normal((20, 60))
    f = dapd.Quadratic(np.geomspace(1e-3, 1, 60), rng.standard_normal(60))
    problem = dapd.Problem(f, M, M @ rng.uniform(-0.5, 0.5, 60), bounds=(-1, 1))
    late = dapd.solve(problem, tol=1e-17, engine="native", time_limit=0.1)
    assert re.search(r"What is left: .* Ran restarted first-order steps for 0\.\d+ s\.$", late.message)
    assert "are usual" not in late.message
    both = dapd.solve(problem, tol=1e-17)
    assert re.search(r"Ran .* for \S+ s and Clarabel for \S+ s\.$", both.message)
