"""The loop: limits, interrupts, callbacks, warm starts, history, progress, honest statuses."""

import math
import re
import signal
import subprocess
import sys
import threading
import time
from itertools import islice

import numpy as np
import pytest
import rich.console
from instances import PHIS, quadratic_problem
from scipy.sparse.linalg import LinearOperator

import dapd
from dapd.certificate.certify import certify
from dapd.methods.guesses import Guess
from dapd.solving.progress import Bar, LogTable
from dapd.ways.guesses import Dapd
from dapd.ways.kept import Learnt
from dapd.ways.tracks import Bench, Curvature, Form, Work


def slow_problem(**options):
    return quadratic_problem(dapd.Zero(), kappa=1e6, ratio=100.0, **options)


def test_restarts_pick_the_side_with_the_smaller_count():
    for kappa, ratio, side in ((1e5, 2.0, "x-dapd"), (2.0, 100.0, "y-dapd")):
        problem = quadratic_problem(dapd.L1(0.3), kappa=kappa, ratio=ratio)
        favoured = dapd.theory.favoured(L=kappa, mu=1.0, s_max=1.0, s_min=1 / ratio)
        zero = np.zeros(problem.columns), np.zeros(problem.rows)
        form, work = Form(problem, lambda x, y: 1.0, s_max=1.0), Work("auto", math.inf, 0.0, lambda: math.inf, Learnt())
        bench = Bench(form, work, zero)
        epochs = Dapd(bench, Curvature(problem.f, bench))
        method = epochs.method(Guess(math.log(1 / kappa), math.log(1 / ratio)), *zero)
        assert method.name == side == favoured.method
        assert favoured.factor > 1
        assert method.parameters.Pi == pytest.approx(min(favoured.x.Pi, favoured.y.Pi))


def test_parameters_may_be_passed_directly():
    problem = quadratic_problem(dapd.NonNegative())
    p = dapd.theory.x_dapd(L=problem.f.L, mu=problem.f.mu, s_max=1.0, s_min=0.2)
    result = dapd.solve(problem, "x-dapd", parameters=p)
    assert result.parameters is p
    assert result.spectrum is None  # nothing was estimated
    assert result.converged


def test_certificate_is_that_of_the_returned_point():
    problem = quadratic_problem(dapd.L1(0.3))
    result = dapd.solve(problem)
    M, r = problem.M.matrix, problem.M.matrix @ result.x - problem.b
    c = result.certificate
    assert c.stationarity == pytest.approx(np.linalg.norm(problem.f.grad(result.x) + M.T @ result.y))
    assert c.feasibility == pytest.approx(np.linalg.norm(result.y - dapd.L1(0.3).prox(result.y + r, 1.0)))
    y, g = result.y, problem.f.grad(result.x)
    units = problem.units()
    S = abs(problem.f.grad(np.zeros(10))) + abs(g) + abs(M.T) @ abs(y) + 1e-3 * units.columns
    R, Y = abs(problem.b) + abs(M) @ abs(result.x) + 1e-3 * units.rows, abs(y) + 1e-3 * units.y
    p = dapd.L1(0.3).prox(y + Y / R * r, Y / R)
    assert c.stationarity_error == pytest.approx(np.max(abs(g + M.T @ y) / S))
    assert c.feasibility_error == pytest.approx(np.max(np.maximum(abs(r) - 0.3, 0) / R), abs=1e-15)
    assert c.complementarity_error == pytest.approx(np.max(abs(y - p) / Y), abs=1e-15)
    assert c.primal == pytest.approx(np.max(np.maximum(abs(r) - 0.3, 0)))
    assert c.dual == pytest.approx(np.max(abs(g + M.T @ y)))
    assert c.gap_error <= c.gap
    assert c.error == max(c.stationarity_error, c.complementarity_error, c.gap_error) <= 1e-6


def test_tol_zero_runs_to_the_limit():
    result = dapd.solve(quadratic_problem(dapd.Zero()), "y-dapd", tol=0, max_iterations=3_000)
    assert result.status == "iteration_limit"
    assert result.iterations == 3_000


def test_no_iterations_returns_the_start():
    x0 = np.full(10, 0.25)
    result = dapd.solve(quadratic_problem(dapd.Zero()), max_iterations=0, x0=x0)
    assert result.status == "iteration_limit"
    assert np.array_equal(result.x, x0)


def test_warm_start_at_the_solution_needs_no_iteration():
    problem = quadratic_problem(dapd.NonNegative())
    result = dapd.solve(problem, x0=problem.x_star, y0=problem.y_star)
    assert result.converged
    assert result.iterations == 0


def test_warm_start_saves_iterations():
    problem = quadratic_problem(dapd.NonNegative(), kappa=100.0)
    for part, options in ((2, {"method": "y-dapd"}), (2, {"method": "papc"}), (1, {"engine": "native"})):
        cold = dapd.solve(problem, tol=1e-8, **options)
        near = dapd.solve(problem, tol=1e-8, x0=cold.x + 1e-6, y0=cold.y + 1e-6, **options)
        assert near.iterations < cold.iterations / part


def test_time_limit():
    problem = slow_problem()

    def grad(x):
        time.sleep(0.002)
        return problem.f.grad(x)

    f = dapd.Smooth(problem.f.value, grad, problem.f.mu, problem.f.L)
    began = time.perf_counter()
    result = dapd.solve(dapd.Problem(f, problem.M, problem.b), tol=1e-14, time_limit=0.2)
    assert time.perf_counter() - began >= 0.2
    assert result.status == "time_limit"
    assert result.iterations < 100_000
    assert "time limit" in result.message


def test_interrupt_returns_the_best_point_so_far():
    problem = slow_problem()
    seen = []

    def interrupt(info):
        seen.append(info.certificate.error)
        if info.iteration > 1_000:
            raise KeyboardInterrupt

    result = dapd.solve(problem, tol=0, callback=interrupt)
    assert result.status == "interrupted"
    assert result.certificate.error == min(seen)
    assert result.certificate == certify(problem, result.x, result.y)


IMPORTS_JAX = """
import os, signal, sys, threading, time
import numpy as np, dapd
problem = dapd.Problem(dapd.Quadratic(np.ones(5)), np.ones((1, 5)), np.ones(1), dapd.NonNegative())
threading.Thread(target=lambda: (time.sleep(float(sys.argv[1])), os.kill(os.getpid(), signal.SIGINT))).start()
print(dapd.solve(problem, engine="jax", tol=0.0, time_limit=20).status)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals are others there")
@pytest.mark.parametrize("seconds", [0.01, 0.1])
def test_ctrl_c_while_jax_is_imported_returns_the_start(seconds):
    pytest.importorskip("jax")
    ran = subprocess.run(
        [sys.executable, "-c", IMPORTS_JAX, str(seconds)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ran.returncode, ran.stdout.strip()) == (0, "interrupted"), ran.stderr


@pytest.mark.parametrize("method", ["auto", "y-dapd", "papc"])
@pytest.mark.parametrize("product", [0, 1, 5])
def test_ctrl_c_during_the_set_up_returns_the_start(method, product):
    M, left = np.random.default_rng(0).standard_normal((20, 60)), None

    def counted(v):
        nonlocal left
        if left == 0:
            left = None
            signal.raise_signal(signal.SIGINT)
        left = None if left is None else left - 1
        return M @ v

    operator = LinearOperator(M.shape, matvec=counted, rmatvec=lambda v: M.T @ v, dtype=float)
    problem = dapd.Problem(dapd.PseudoHuber(0.1), operator, np.ones(20))
    left = product
    result = dapd.solve(problem, method, x0=np.full(60, 0.5), tol=1e-300, max_iterations=10**6)
    assert result.status == "interrupted"
    assert result.message.startswith("Interrupted")
    if product == 0 or "set-up" in result.message:
        assert result.message == "Interrupted during the set-up, so this is the start."
        np.testing.assert_array_equal(result.x, 0.5)
        assert result.certificate == certify(problem, result.x, result.y)


def test_a_real_ctrl_c_is_caught_in_the_middle_of_a_chunk():
    dapd.solve(slow_problem(), tol=0, max_iterations=1)  # compiles, which may take longer than the timer
    main = threading.main_thread()
    timer = threading.Timer(0.3, lambda: signal.pthread_kill(main.ident, signal.SIGINT))
    timer.start()
    try:
        result = dapd.solve(slow_problem(), tol=1e-300, max_iterations=100_000_000)
    finally:
        timer.cancel()
    assert result.status == "interrupted"
    assert result.iterations > 0


def test_callback_may_stop_and_gets_copies():
    def stop(info):
        info.x[:] = np.nan
        return info.iteration >= 50

    for options in ({"method": "y-dapd"}, {"engine": "native"}):
        result = dapd.solve(slow_problem(), callback=stop, tol=1e-13, **options)
        assert result.status == "interrupted"
        assert "callback" in result.message
        assert 50 <= result.iterations < 200
        assert np.isfinite(result.x).all()


def test_history_is_log_spaced_and_contains_the_error():
    problem = slow_problem()
    result = dapd.solve(problem, "y-dapd", tol=0, max_iterations=20_000, history=True)
    h = result.history
    assert h.iterations[0] == 0
    assert h.iterations[-1] == 20_000
    assert list(h.iterations[:5]) == [0, 1, 2, 3, 4]
    assert len(h.iterations) < 300
    assert (np.diff(h.iterations) > 0).all()
    assert (np.diff(h.time) >= 0).all()
    assert h.error[-1] == pytest.approx(np.linalg.norm(result.x - problem.x_star) / np.linalg.norm(problem.x_star))
    assert h.stationarity[-1] == result.certificate.stationarity
    assert h.error[-1] < h.error[0]


def test_history_costs_no_solve_time():
    problem = quadratic_problem(dapd.Zero())

    class SlowToRecord(dapd.Zero):
        # only the certificate calls the prox with step one
        def prox(self, v, step):
            if step == 1.0:
                time.sleep(0.01)
            return v

    slow = dapd.Problem(problem.f, problem.M, problem.b, SlowToRecord())
    result = dapd.solve(slow, "y-dapd", tol=0, max_iterations=100, history=True)
    assert result.solve_time < 0.01 * len(result.history.iterations) / 2


def test_history_without_a_known_solution_has_no_error():
    problem = quadratic_problem(dapd.Zero())
    plain = dapd.Problem(problem.f, problem.M, problem.b)
    assert dapd.solve(plain, history=True).history.error is None
    assert dapd.solve(plain).history is None


@pytest.mark.parametrize("method", ["x-dapd", "papc", "condat-vu"])
def test_too_small_L_ends_as_diverged(method):
    problem = quadratic_problem(dapd.Zero(), kappa=100.0)
    lying = dapd.Smooth(problem.f.value, problem.f.grad, 1.0, 5.0)
    result = dapd.solve(dapd.Problem(lying, problem.M, problem.b), method, max_iterations=100_000)
    assert result.status == "diverged"
    assert np.isfinite(result.x).all()
    assert "L or s_max is too small" in result.message


def test_time_limit_holds_inside_a_long_step():
    # one step of CAPD is 10 million iterations here
    problem = dapd.Problem(dapd.Quadratic([1.0, 1.0]), np.diag([1.0, 1e-7]), [1.0, 3e-7])
    result = dapd.solve(problem, "capd", time_limit=0.05, max_iterations=10**9)
    assert result.status == "time_limit"
    assert result.iterations == 0
    result = dapd.solve(problem, "capd", max_iterations=50_000)
    found = re.search(r"One step of CAPD takes ([\d,]+) iterations", result.message)
    assert int(found[1].replace(",", "")) == pytest.approx(10**7, rel=1e-5)


@pytest.mark.parametrize("phi", [dapd.Box(-1, 1), dapd.GroupBall(1.0, 3)])
def test_a_bounded_dual_with_a_large_b_is_not_optimal_at_the_start(phi):
    # the prox residual is at most the diameter of the set, which is small next to b
    problem = dapd.Problem(dapd.Quadratic(np.ones(3)), np.eye(3), 1e7 * np.ones(3), phi)
    result = dapd.solve(problem)
    assert result.converged
    y = phi.prox(-1e7 * np.ones(3), 1.0)
    assert np.allclose(result.x, -y, atol=1e-5)


def test_float32_stops_if_rounding_limits_the_error():
    rng = np.random.default_rng(0)
    M = rng.standard_normal((30, 60)).astype(np.float32)
    problem = dapd.Problem(dapd.PseudoHuber(0.1), M, rng.standard_normal(30).astype(np.float32))
    result = dapd.solve(problem, tol=1e-9, max_iterations=1_000_000)
    assert result.status == "interrupted"
    assert result.iterations < 100_000
    assert "Stopped by rounding in float32" in result.message


def test_divergence_is_detected_long_before_overflow():
    lying = dapd.Quadratic(np.linspace(1, 100, 20), np.ones(20), L=45.0)
    rng = np.random.default_rng(0)
    result = dapd.solve(dapd.Problem(lying, rng.standard_normal((5, 20)), np.ones(5)), "papc")
    assert result.status == "diverged"
    assert result.iterations < 1_000


def test_callback_gets_the_last_point():
    told = []
    result = dapd.solve(quadratic_problem(dapd.Zero()), callback=lambda info: told.append(info))
    assert told[-1].iteration == result.iterations
    assert np.array_equal(told[-1].x, result.x)


def test_results_can_be_compared():
    result = dapd.solve(quadratic_problem(dapd.Zero()), history=True)
    assert result == result
    assert result != dapd.solve(quadratic_problem(dapd.Zero()))


def test_second_solve_remembers_the_spectrum():
    problem = quadratic_problem(dapd.NonNegative())
    again = dapd.Problem(problem.f, problem.M, problem.b + 1.0, problem.phi)
    assert dapd.solve(again).spectrum is dapd.solve(problem).spectrum


INFEASIBLE = {
    # x₁ = 0 and x₁ = 1
    "equations": (np.array([[1.0, 0, 0], [1.0, 0, 0]]), [0.0, 1.0], dapd.Zero()),
    # x₁ ≤ −1 and −x₁ ≤ −1
    "inequalities": (np.array([[1.0, 0, 0], [-1.0, 0, 0]]), [-1.0, -1.0], dapd.NonNegative()),
    # |x₁| ≤ 1 and |x₁ − 4| ≤ 1
    "balls": (np.array([[1.0, 0, 0], [1.0, 0, 0]]), [0.0, 4.0], dapd.L1(1.0)),
    # x₁ ∈ [0, 1] and x₁ ∈ [2, ∞)
    "intervals": (np.array([[1.0, 0, 0], [1.0, 0, 0]]), [0.0, 0.0], dapd.Interval([0, 2], [1, np.inf])),
}


@pytest.mark.parametrize("kind", INFEASIBLE)
def test_infeasible_constraints_are_proved_infeasible(kind):
    M, b, phi = INFEASIBLE[kind]
    problem = dapd.Problem(dapd.PseudoHuber(0.5), M, b, phi)
    result = dapd.solve(problem, "papc", tol=1e-9)
    assert result.status == "infeasible"
    assert "No x satisfies" in result.message


@pytest.mark.parametrize("method", ["auto", "papc", "apapc"])
@pytest.mark.parametrize(
    ("M", "b"),
    [(np.diag([1.0, 1e-7]), [0.0, 1.0]), (np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 2e-9]]), [1.0, 0.5])],
)
def test_weak_independent_rows_are_not_called_infeasible(M, b, method):
    problem = dapd.Problem(dapd.Quadratic(np.ones(M.shape[1])), M, b)
    assert dapd.solve(problem, method, max_iterations=2_000).status != "infeasible"


@pytest.mark.parametrize("phi", PHIS)
def test_feasible_problems_are_never_called_infeasible(phi):
    for seed in range(4):
        problem = quadratic_problem(PHIS[phi], seed=seed, kappa=1e3, ratio=100.0)
        assert dapd.solve(problem, tol=1e-11, max_iterations=3_000).status != "infeasible"


def test_summary_and_repr_are_readable():
    for method, words in (("auto", ["Chose"]), ("y-dapd", ["s_max", "eigenvalues", "distance"])):
        result = dapd.solve(quadratic_problem(dapd.NonNegative()), method)
        assert repr(result).startswith(f"Result(optimal by {result.method} in {result.iterations:,} iterations")
        summary = result.summary()
        for word in ("status", "engine", "stationarity", "feasibility", "gap", "set-up time", *words):
            assert word in summary


def test_progress_off_a_terminal_is_a_table(capsys):
    result = dapd.solve(slow_problem(), max_iterations=2_000, progress=True)
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["iteration", "stationarity", "feasibility", "gap", "time"]
    assert lines[2].split()[0] == "0"
    assert lines[-1].split()[0] == f"{result.iterations:,}"  # the last row is the returned point
    assert len(lines) < 40
    dapd.solve(slow_problem(), max_iterations=100)
    assert capsys.readouterr().out == ""


def test_progress_on_a_terminal_is_a_bar():
    console = rich.console.Console(force_terminal=True, width=80, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    problem = quadratic_problem(dapd.Zero())
    with console.file, Bar(console, "y-DAPD", (1e-6, 0.0), 1000) as bar:
        certificate = certify(problem, problem.x_star + 1.0, problem.y_star)
        bar.show(0, 0.0, certificate, np.nan)
        better = certificate._replace(
            stationarity=1e-3, feasibility=1e-3, stationarity_error=1e-3, feasibility_error=1e-3, gap_error=1e-3
        )
        bar.show(100, 1.0, better, 300.0)
        task = bar.bar.tasks[0]
        assert 0.0 < task.completed < 1.0
        assert task.fields["text"] == "100 │ 1e-03 1e-03 │ 3 s left"


def test_table_prints_few_rows(capsys):
    table = LogTable(rich.console.Console(), "PAPC")
    certificate = certify(slow_problem(), np.zeros(10), np.zeros(6))
    with table:
        for k in range(1_000):
            table.show(k, k * 1e-6, certificate, np.nan)
    assert len(capsys.readouterr().out.splitlines()) < 30


def test_iteration_by_hand():
    problem = quadratic_problem(dapd.NonNegative())
    method = dapd.METHODS["y-dapd"].from_theory(problem)
    for state in islice(method, 10_000):
        x, y = method.point(state)
        if certify(problem, x, y).error <= 1e-6:
            break
    assert certify(problem, x, y).error <= 1e-6
    assert np.allclose(x, problem.x_star, atol=1e-4)


def test_float32_answer_is_certified_in_float64():
    problem = quadratic_problem(dapd.Zero())
    single = dapd.Problem(problem.f, problem.M.matrix.astype(np.float32), problem.b.astype(np.float32))
    result = dapd.solve(single, tol=1e-5)
    assert result.x.dtype == np.float32
    x, y = result.x.astype(np.float64), result.y.astype(np.float64)
    M = single.M.matrix.astype(np.float64)
    assert result.certificate.stationarity == pytest.approx(np.linalg.norm(problem.f.grad(x) + M.T @ y), rel=1e-9)


@pytest.mark.parametrize("engine", ["auto", "native", "python", "jax"])
def test_a_solution_is_a_start_that_needs_no_more_steps(engine):
    rng = np.random.default_rng(0)
    M = rng.standard_normal((5, 12))
    f = dapd.Quadratic(np.linspace(0.5, 3.0, 12), 3 * rng.standard_normal(12))
    problem = dapd.Problem(f, M, M @ rng.uniform(-0.5, 0.5, 12), bounds=(-0.6, 0.6))
    solved = dapd.solve(problem, tol=1e-8)
    assert np.count_nonzero(solved.z) > 2
    again = dapd.solve(problem, x0=solved.x, y0=solved.y, engine=engine)
    assert (again.status, again.iterations) == ("optimal", 0)
    inside = dapd.solve(problem, x0=0 * solved.x, y0=solved.y, engine=engine)
    assert inside.status == "optimal"


WRONG_BY = 1e3


def conditioned():
    rng = np.random.default_rng(0)
    M = rng.standard_normal((20, 60))
    values = np.linalg.svd(M, compute_uv=False)
    f = dapd.Quadratic(np.geomspace(1e-3, 1, 60), rng.standard_normal(60))
    return dapd.Problem(f, M, M @ rng.standard_normal(60)), values[0], values[-1]


@pytest.mark.parametrize("method", ["y-dapd", "x-dapd", "papc"])
@pytest.mark.parametrize(
    ("high", "low", "said"),
    [
        (1 / WRONG_BY, 1 / WRONG_BY, "M stretches some vector 1,000 times as much as its s_max allows"),
        (WRONG_BY, WRONG_BY, "M shrinks some vector 1,000 times as much as its s_min allows"),
        (WRONG_BY, 1.0, "its s_max is about 1,000 times the norm of M"),
    ],
)
def test_a_wrong_spectrum_is_named_and_rounding_is_not(method, high, low, said):
    problem, s_max, s_min = conditioned()
    wrong = dapd.Spectrum(high * s_max, low * s_min)
    result = dapd.solve(problem, method, spectrum=wrong, max_iterations=20_000)
    assert not result.converged
    assert f"The given `spectrum` {'is wrong: ' if low != 1.0 else 'makes steps too short: '}{said}" in result.message
    assert "rounding" not in result.message
    assert "L or s_max" not in result.message
    right = dapd.solve(problem, method, spectrum=dapd.Spectrum(s_max, s_min), tol=1e-300, max_iterations=5_000)
    assert "spectrum" not in right.message


def test_a_stalled_solve_looks_at_the_spectrum_before_it_blames_rounding():
    problem, s_max, _ = conditioned()
    wrong = dapd.Spectrum(WRONG_BY * s_max, WRONG_BY * s_max)
    result = dapd.solve(problem, "x-dapd", spectrum=wrong, max_iterations=100_000)
    assert result.status == "interrupted"
    assert result.message.startswith("Stopped because the error no longer falls")
    assert "The given `spectrum` is wrong" in result.message
    assert "rounding" not in result.message


def test_the_message_says_what_is_left():
    problem, _, _ = conditioned()
    result = dapd.solve(problem, "papc", tol=1e-13, max_iterations=500)
    c = result.certificate
    left = f"What is left: gap {c.gap_error:.1e}, where 1e-13 was asked for (stationarity {c.stationarity_error:.1e}"
    assert left in result.message
    absolute = dapd.solve(problem, "papc", tol_absolute=1e-13, max_iterations=500)
    assert f"primal residual {absolute.certificate.primal:.1e}" in absolute.message
    assert "What is left" not in dapd.solve(problem, "papc").message
    assert "What is left" not in dapd.solve(problem, "papc", tol=0, max_iterations=50).message
