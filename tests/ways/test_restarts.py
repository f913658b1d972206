"""Restarts end every convex problem that has a saddle point, with nothing known about it."""

import itertools
import math
from time import perf_counter

import numpy as np
import pytest
import scipy.sparse as sp
from instances import quadratic_problem
from restart_runs import best_of, judge_of, run, small_program, turns

import dapd
from dapd.engines import bind
from dapd.methods.r2hpdhg import usual_weight
from dapd.methods.x_dapd import XDAPD
from dapd.methods.y_dapd import YDAPD
from dapd.ways.guesses import Dapd
from dapd.ways.leaps import LEAPS, Leaps
from dapd.ways.restarts import FARTHER, Restarts


def linear_program(rng, rows=4, columns=10):
    """min cᵀx, Ax = b, x ≥ 0 with a known solution."""
    A, x = rng.standard_normal((rows, columns)), np.maximum(rng.standard_normal(columns), 0)
    reduced = np.where(x > 0, 0.0, 1 + rng.random(columns))
    c, b = reduced - A.T @ rng.standard_normal(rows), A @ x
    phi = dapd.Interval(np.r_[b, np.zeros(columns)], np.r_[b, np.full(columns, np.inf)])
    M = np.vstack([A, np.eye(columns)])
    return dapd.Problem(dapd.Quadratic(np.zeros(columns), -c), M, np.zeros(rows + columns), phi)


def built(rng, f, M, phi):
    """The problem with this f, up to a linear term that gives it a solution."""
    rows, columns = M.shape
    x, v = rng.standard_normal(columns), 1.5 * rng.standard_normal(rows)
    y = phi.sized(rows).prox(v, 1.0)
    return dapd.Problem(f(x, M.T @ y), M, M @ x - (v - y), phi)


def semidefinite(rng, rank, columns):
    B = rng.standard_normal((rank, columns))
    return lambda x, pull: dapd.Quadratic(B.T @ B, B.T @ (B @ x) + pull)


def rank_deficient(rng, rows, columns, rank):
    return rng.standard_normal((rows, rank)) @ rng.standard_normal((rank, columns))


def degenerate(name):
    rng = np.random.default_rng(11)
    if name == "linear program":
        return linear_program(rng)
    if name == "zero rows":
        M = rng.standard_normal((6, 8))
        M[[1, 4]] = 0.0
        return built(rng, semidefinite(rng, 8, 8), M, dapd.Box(-0.5, 0.7))
    if name == "zero M":
        return built(rng, semidefinite(rng, 3, 8), np.zeros((4, 8)), dapd.Box(-0.5, 0.7))
    if name == "tall":
        return built(rng, semidefinite(rng, 4, 4), rng.standard_normal((30, 4)), dapd.NonNegative())
    if name == "dependent equations":
        return built(rng, semidefinite(rng, 3, 8), rank_deficient(rng, 6, 8, 3), dapd.Zero())
    if name == "logistic without ridge":
        f = dapd.Logistic(rng.standard_normal((30, 5)), np.sign(rng.standard_normal(30)))
        return dapd.Problem(f, rng.standard_normal((2, 5)), np.ones(2))
    return built(rng, semidefinite(rng, 3, 8), rank_deficient(rng, 12, 8, 4), dapd.L1(0.3))


DEGENERATE = [
    "linear program",
    "zero rows",
    "zero M",
    "tall",
    "dependent equations",
    "logistic without ridge",
    "semidefinite and rank-deficient",
]


@pytest.mark.parametrize("seed", [None, 1, 2])
@pytest.mark.parametrize("name", DEGENERATE)
def test_converges_from_any_start(name, seed):
    problem, rng = degenerate(name), np.random.default_rng(seed)
    start = None if seed is None else (5 * rng.standard_normal(problem.columns), 5 * rng.standard_normal(problem.rows))
    made = run(problem, start=start)
    assert made[-1].error <= 1e-6
    assert made[-1].error == judge_of(problem)(*best_of(made))


@pytest.mark.parametrize("name", DEGENERATE)
def test_anchored_epochs_alone_converge(name, monkeypatch):
    begin_with(monkeypatch, "anchored", alone=True)
    problem, rng = degenerate(name), np.random.default_rng(3)
    start = rng.standard_normal(problem.columns), rng.standard_normal(problem.rows)
    epochs = run(problem, tol=1e-5, start=start)
    assert {epoch.kind for epoch in epochs} == {"start", "anchored"}
    assert epochs[-1].error <= 1e-5


def begin_with(monkeypatch, kind, *, alone=False):
    """Let this track begin, and perhaps have all turns."""
    monkeypatch.setattr(Restarts, "_first", lambda self, problem: kind)
    if alone:
        monkeypatch.setattr(Restarts, "_next", lambda self, stall, **_: kind)


def useless_guesses(monkeypatch):
    """Guesses whose steps are too short to move."""
    useless = dapd.theory.x_dapd(L=1e12, mu=1e12, s_max=1e6, s_min=1e6)
    monkeypatch.setattr(Dapd, "method", lambda self, guess, x, y: XDAPD(self.bench.problem, useless, x0=x, y0=y))


def test_guesses_that_stall_get_company_and_progress_changes_who_leads(monkeypatch):
    useless_guesses(monkeypatch)
    begin_with(monkeypatch, "guess")
    epochs = run(degenerate("tall"))
    assert epochs[-1].error <= 1e-6
    kinds = [epoch.kind for epoch in epochs]
    first = kinds.index("anchored")
    assert set(kinds[1:first]) == {"guess"}
    assert set(kinds[first:]) == {"anchored"}  # it reduced the error by e at once, and then had all turns


def test_half_of_the_work_is_for_the_other_track_while_nothing_helps(monkeypatch):
    for lead, other in (("guess", "anchored"), ("anchored", "guess")):
        begin_with(monkeypatch, lead)
        made = turns(degenerate("tall"), lambda x, y: 1.0)  # a judge that nothing satisfies
        epochs = list(itertools.takewhile(lambda epoch: epoch.iterations < 50_000, made))
        kinds = [epoch.kind for epoch in epochs]
        first = kinds.index(other)
        assert set(kinds[1:first]) == {lead}
        work = dict.fromkeys(kinds, 0)
        for before, after in itertools.pairwise(epochs[first:]):
            work[after.kind] += after.iterations - before.iterations
        assert 0.4 * sum(work.values()) <= work[other] <= 0.6 * sum(work.values())


def test_a_track_goes_on_from_a_much_better_point_of_another_one(monkeypatch):
    """Points are taken through the variables that all tracks share, and only once."""
    monkeypatch.setattr(Restarts, "_first", lambda self, problem: "guess")
    problem = small_program(0)
    problem = problem.replaced(f=dapd.Quadratic(np.ones(problem.columns), problem.f.c))
    solved = dapd.solve(problem, tol=1e-10)
    solution = solved.x, np.concatenate([solved.y, solved.z])
    tracks = made_tracks(problem)
    guess, anchored = tracks.track("guess"), tracks.track("anchored")
    before = guess.bench.best.error
    assert tracks.track("guess") is guess
    assert guess.bench.best.error == before
    anchored.bench.keep(solution[0], solution[1][: problem.rows])
    assert anchored.bench.best.error * FARTHER < before
    tracks.track("guess")
    assert guess.bench.best.error <= FARTHER * anchored.bench.best.error + 1e-9
    for found, wanted in zip(guess.at[:2], solution, strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-6)
    tracks.work.tol = 0.0
    next(guess.epochs)  # from there
    assert guess.bench.last.error < before / FARTHER


def made_tracks(problem):
    """The tracks of a problem, before any turn."""
    found = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Restarts, "run", lambda self, problem: found.append(self) or iter(()))
        turns(problem)
    return found[0]


@pytest.mark.parametrize("engine", ["auto", "jax"])
def test_multipliers_that_drift_leap(engine, monkeypatch):
    # three variables stay at their bounds until y is about 9, which moves with the residual of 1e-4 in their row
    rng, columns = np.random.default_rng(0), 30
    M = np.zeros((11, columns))
    M[0, :3], M[1:, 3:] = 1.0, rng.standard_normal((10, columns - 3))
    x = np.r_[1 - 1e-4, 1.0, 1.0, rng.uniform(-0.5, 0.5, columns - 3)]
    f = dapd.Quadratic(np.ones(columns), np.r_[10.0, 10.0, 10.0, rng.standard_normal(columns - 3)])
    problem = dapd.Problem(f, M, M @ x, bounds=(-1.0, 1.0)).stacked
    begin_with(monkeypatch, "guess", alone=True)
    last = run(problem, tol=1e-8, engine=engine)[-1]
    assert last.error <= 1e-8
    assert last.iterations < 3_000  # 26,000 without


def test_errors_that_say_nothing_start_no_leap():
    # relative errors are about 1 however far away a point is
    problem = quadratic_problem(dapd.Zero(), kappa=100.0, ratio=20.0)
    epochs = turns(problem, lambda x, y: 1.0)
    for epoch in itertools.takewhile(lambda epoch: epoch.iterations < 10_000, epochs):
        assert np.linalg.norm(epoch.last[0]) < 100 * np.linalg.norm(problem.x_star)


def test_leaps_that_lead_nowhere_end(monkeypatch):
    leaps = []
    leap = Leaps.leap
    monkeypatch.setattr(Leaps, "leap", lambda *given: leaps.append(1) or leap(*given))
    begin_with(monkeypatch, "guess", alone=True)
    problem = quadratic_problem(dapd.Zero(), kappa=100.0, ratio=20.0)
    epochs = turns(problem, lambda x, y: 0.05)
    list(itertools.takewhile(lambda epoch: epoch.iterations < 10_000, epochs))
    assert len(leaps) == LEAPS


@pytest.mark.parametrize("seed", [0, 1, 2, 5])
def test_a_linear_f_needs_no_leap(seed):
    # the larger μ̂, the less a point moves, so the error rises least where μ̂ is far too large
    A = np.random.default_rng(seed).standard_normal((10, 20))
    problem = dapd.Problem(dapd.Quadratic(np.zeros(20), 0.01 * A[0]), A, np.ones(10), dapd.NonNegative())
    assert run(problem, most=20_000)[-1].error <= 1e-6


@pytest.mark.parametrize("scale", [1e3, 1.0, 1e-4])
def test_a_linear_f_may_have_any_unit(scale):
    # zero is feasible, so only the costs say how far x should move
    f = dapd.Quadratic(None, scale * np.array([1.0, 0.0, 1.0]))
    bounds = np.array([-np.inf, -2.0, -np.inf]), np.array([np.inf, np.inf, 1.0])
    given = dapd.Problem(f, np.eye(1, 3), [2.0], dapd.NonNegative(), bounds=bounds)
    for problem in (given, given.stacked):
        made = run(problem)
        assert made[-1].error <= 1e-6
        assert {turn.kind for turn in made} == {"start", "anchored"}
        np.testing.assert_allclose(best_of(made)[0], [2.0, 0.0, 1.0], atol=1e-4)


@pytest.mark.parametrize("seed", range(60))
def test_small_linear_programs_are_solved_and_solved_again(seed):
    problem, rng = small_program(seed), np.random.default_rng(seed)
    solver = dapd.Solver(problem, engine="native", max_iterations=10_000)
    assert solver.solve().status == "optimal"
    solver.update(c=problem.f.c * (1 + 0.1 * rng.standard_normal(problem.columns)))
    assert solver.solve().status == "optimal"


@pytest.mark.parametrize("seed", range(10))
def test_linear_programs_take_anchored_epochs_from_any_start(seed):
    problem, rng = small_program(seed), np.random.default_rng(seed)
    start = 10 * rng.standard_normal(problem.columns), 10 * rng.standard_normal(problem.multipliers)
    epochs = run(problem, start=start, most=20_000)
    assert epochs[-1].error <= 1e-6
    assert {epoch.kind for epoch in epochs} == {"start", "anchored"}


@pytest.mark.parametrize("start", [[0.0, 0.0, 0.0], [4.0, 0.0, 0.0], [1.0, 1.0, 1.0]])
def test_a_row_that_does_not_bind_and_any_start(start):
    M = np.array([[-1.0, -1.0, -2.0]])
    problem = dapd.Problem(dapd.Quadratic(None, [3.0, -3, -3]), M, [5.0], dapd.NonNegative(), bounds=(0, 5))
    result = dapd.solve(problem, engine="native", x0=start, max_iterations=2_000)
    assert result.status == "optimal"
    np.testing.assert_allclose(result.x, [5.0, 0.0, 0.0], atol=1e-4)


@pytest.mark.parametrize("factor", [1e-3, 1.0, 1e3])
def test_the_usual_weight_follows_the_units_of_x_and_y(factor):
    problem = small_program(0)
    lower, upper = problem.bounds
    scaled = dapd.Problem(
        dapd.Quadratic(None, problem.f.c / factor), problem.M.dense() / factor, problem.b, problem.phi,
        bounds=(factor * lower, factor * upper),
    )  # fmt: skip
    # x is so many times as long, and y as before
    assert usual_weight(scaled) == pytest.approx(usual_weight(problem) / factor)


def test_theorem_constants_get_their_share():
    problem = quadratic_problem(dapd.Box(-0.5, 0.7), kappa=100.0, ratio=20.0)
    spectrum = dapd.estimate_spectrum(problem.M)
    true = dapd.theory.favoured(L=problem.f.L, mu=problem.f.mu, s_max=spectrum.s_max, s_min=spectrum.s_min)
    Pi = min(true.x.Pi, true.y.Pi)
    # a judge that nothing satisfies: the guesses go on for ever
    problem = dapd.Problem(problem.f, problem.M, problem.b, problem.phi, spectrum=spectrum)
    epochs = turns(problem, lambda x, y: 1.0, s_max=spectrum.s_max, s_min=spectrum.s_min)
    work = 0
    for before, after in itertools.pairwise(itertools.takewhile(lambda epoch: epoch.iterations < 100 * Pi, epochs)):
        work += (after.kind == "theorem") * (after.iterations - before.iterations)
        assert after.iterations <= 5 * work + 8 * Pi + 80
    assert work > 10 * Pi


@pytest.mark.parametrize("linear", [False, True])
def test_unknown_L_is_found(linear):
    rng = np.random.default_rng(7)
    given = linear_program(rng) if linear else quadratic_problem(dapd.Box(-0.5, 0.7), kappa=100.0)
    f = dapd.Smooth(given.f.value, given.f.grad)
    assert run(dapd.Problem(f, given.M, given.b, given.phi))[-1].error <= 1e-6


@pytest.mark.parametrize("lead", ["guess", "anchored"])
def test_L_that_grows_is_followed(lead, monkeypatch):
    begin_with(monkeypatch, lead, alone=True)
    rng = np.random.default_rng(8)
    f = dapd.Smooth(lambda x: float(np.sum(x**4)) / 4, lambda x: x**3)
    assert run(dapd.Problem(f, rng.standard_normal((3, 8)), 10 * np.ones(3)))[-1].error <= 1e-6


def test_a_curved_f_that_looks_linear_at_first_is_followed():
    f = dapd.Smooth(
        lambda x: float(np.sum(np.maximum(abs(x) - 20, 0) ** 2)) / 2 + x.sum(),
        lambda x: np.sign(x) * np.maximum(abs(x) - 20, 0) + 1,
    )
    problem = dapd.Problem(f, np.eye(2, 4), np.ones(2), dapd.NonNegative())
    assert run(problem)[-1].error <= 1e-6


def trend_filtering(rng, size=2000, radius=50.0, knots=40):
    """½‖x − d‖² + radius·‖Dx‖₁ with second differences D, and its solution: lines that meet at knots."""
    at = np.linspace(0, size - 1, knots + 2).astype(int)[1:-1]
    bends = np.zeros(size - 2)
    bends[at] = 0.05 * rng.standard_normal(knots)
    x = np.cumsum(np.r_[0.0, 0.0, np.cumsum(bends)])
    y = np.interp(np.arange(size - 2), np.r_[-1, at, size - 2], radius * np.r_[0.0, np.sign(bends[at]), 0.0])
    for left, right in itertools.pairwise(at):  # inside the box between two bends of one sign
        y[left + 1 : right] *= 1 - 0.8 * np.sin(np.linspace(0, np.pi, right - left - 1))
    ones = np.ones(size - 2)
    D = sp.diags_array([ones, -2 * ones, ones], offsets=[0, 1, 2], shape=(size - 2, size)).tocsr()
    f = dapd.Quadratic(np.ones(size), x + D.T @ y)
    return dapd.Problem(f, D, np.zeros(size - 2), dapd.Box(-radius, radius)).with_solution(x, y)


def test_trend_filtering_reaches_the_right_optimum():
    problem = trend_filtering(np.random.default_rng(0))
    made = run(problem, tol=1e-7)
    assert made[-1].error <= 1e-7
    x, _ = best_of(made)
    np.testing.assert_allclose(x, problem.x_star, atol=1e-5)
    assert problem.objective(x) == pytest.approx(problem.objective(problem.x_star), rel=1e-7)


def test_counts_are_true():
    problem, calls = quadratic_problem(dapd.NonNegative()), {"grad": 0}

    class Counting(dapd.Quadratic):
        def grad(self, x):
            calls["grad"] += 1
            return super().grad(x)

    counted = dapd.Problem(Counting(problem.f.H, problem.f.c), problem.M, problem.b, problem.phi)
    error = iter(np.geomspace(1.0, 1e-9, 40))
    epochs = list(turns(counted, lambda x, y: next(error), s_max=1.0, engine="python", tol=1e-8))
    assert epochs[0].iterations == epochs[0].gradients == 0
    assert epochs[-1].gradients == epochs[-1].iterations == calls["grad"]
    assert 2 * epochs[-1].iterations <= epochs[-1].products <= 2 * epochs[-1].iterations + len(epochs)


@pytest.mark.parametrize("engine", ["native", "python"])
def test_engines_agree(engine):
    pytest.importorskip("dapd._core_baseline")
    problem = quadratic_problem(dapd.L1(0.3))
    made, native = run(problem, engine=engine), run(problem, engine="native")
    assert made[-1].iterations == native[-1].iterations
    np.testing.assert_allclose(best_of(made)[0], best_of(native)[0], atol=1e-9)


def test_deadline_ends_it():
    began = perf_counter()
    epochs = list(turns(quadratic_problem(dapd.Zero()), lambda x, y: 1.0, s_max=1.0, deadline=began + 0.05))
    assert perf_counter() >= began + 0.05
    assert epochs[-1].error == 1.0


@pytest.mark.parametrize("engine", ["native", "python"])
def test_rebound_runner_equals_a_new_one(engine):
    pytest.importorskip("dapd._core_baseline")
    problem, rng = quadratic_problem(dapd.Box(-0.5, 0.7)), np.random.default_rng(9)

    start = {"x0": rng.standard_normal(problem.columns), "y0": rng.standard_normal(problem.rows)}

    def method(kind, s_min):
        return kind(problem, kind.settings(L=problem.f.L, mu=problem.f.mu, s_max=1.0, s_min=s_min), **start)

    runner = bind(method(XDAPD, 0.2), engine)
    runner.start()
    runner.advance(5, math.inf)
    products = runner.counts.products
    for kind, s_min in [(YDAPD, 0.1), (XDAPD, 0.3), (YDAPD, 0.1)]:  # the last one is known already
        runner.rebind(method(kind, s_min))
        runner.advance(5, math.inf)
        products += 11
        assert runner.counts.products == products
        other = method(kind, s_min)
        for ours, expected in zip(runner.state, other.run(other.init(), 5), strict=True):
            np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-12)
    moved = problem.replaced(b=np.zeros(problem.rows))  # the native engine leaves it out
    for again in (YDAPD(of, other.parameters) for of in (moved, problem, moved)):
        runner.rebind(again)
        runner.advance(5, math.inf)
        expected = again.point(again.run(again.init(), 5))
        np.testing.assert_allclose(runner.point()[0], expected[0], rtol=0, atol=1e-12)
    stranger = YDAPD(quadratic_problem(dapd.Zero()), other.parameters)
    with pytest.raises(ValueError, match="its own problem"):
        runner.rebind(stranger)
