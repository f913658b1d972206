"""Threads, deadlines, Ctrl-C, forks and workers: runs end well, and state and counts are true afterwards."""

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp
from instances import DETERMINISTIC, quadratic_problem
from own_methods import with_step

import dapd
from dapd.certificate.certify import certify
from dapd.engines.native.runner import NativeRunner
from dapd.engines.native.threads import ThreadChoice, available
from dapd.machine.clock import agreeing
from dapd.machine.core import variants

pytestmark = pytest.mark.skipif(not variants(), reason="the native core was not built")
FOREVER = float("inf")
TWO = {**os.environ, "OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2"}
COMMON = """
import numpy as np, dapd
M = np.random.default_rng(0).standard_normal((100, 700))
problem = dapd.Problem(dapd.PseudoHuber(0.1), M, np.ones(100), spectrum=dapd.Spectrum(37.0, 15.0))
def work(seed):
    result = dapd.solve(problem, "y-dapd", tol=0, max_iterations=200)
    assert result.engine == "native"
    return result.x
def threads():
    return dapd.engines.native.runner.NativeRunner(dapd.METHODS["y-dapd"].from_theory(problem)).choice.most
"""


def in_python(script, env=TWO):
    done = subprocess.run([sys.executable, "-c", COMMON + script], env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def started(problem, name="papc", threads=1, cls=None):
    x0 = np.random.default_rng(1).standard_normal(problem.columns)
    method = (cls or dapd.METHODS[name]).from_theory(problem, spectrum=problem.spectrum, x0=x0)
    runner = NativeRunner(method, threads=threads)
    runner.start()
    return runner


# what threads do to shared memory


def same_on_threads(problem, cls=None, name="papc", steps=2_000, threads=2, tol=1e-9):
    one, several = started(problem, name, 1, cls), started(problem, name, threads, cls)
    for runner in (one, several):
        assert runner.advance(steps, FOREVER) == steps
    for a, b in zip(several.state, one.state, strict=True):
        assert np.linalg.norm(a - b) <= tol * max(np.linalg.norm(b), 1.0)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("name", ["papc", "x-dapd", "y-dapd"])
def test_threads_that_only_meet_in_the_gradient(name, sparse):
    rng = np.random.default_rng(0)
    M = dapd.BlockDiagonal([rng.standard_normal((k % 5 + 1, k % 7 + 6)) for k in range(40)])
    H = np.eye(M.shape[1]) + 1e-3 * np.ones((M.shape[1],) * 2)
    f = dapd.Quadratic(sp.csr_array(H) if sparse else H, rng.standard_normal(M.shape[1]), mu=1.0, L=2.0)
    problem = dapd.Problem(f, M, rng.standard_normal(M.shape[0]), dapd.NonNegative(), spectrum=dapd.Spectrum(6.0, 1.0))
    same_on_threads(problem, name=name)


COS, SIN = np.cos(0.3), np.sin(0.3)


def two_duals(p, o, s):
    """Two dual steps at registers of the state, with nothing to compute in between; a rotation if MᵀM = I."""
    y, Mty = o.dual_step(s.x, s.y - s.y, p.s)
    z, Mtz = o.dual_step(s.Mty, s.y - s.y, p.s)
    return type(s)(COS * Mty - SIN * Mtz, y + z, SIN * Mty + COS * Mtz)


def two_gradients(p, o, s):
    """A rotation in slow steps if ∇f(x) − x is a projection."""
    x = s.x + 0.3 * (o.grad(s.Mty) - s.Mty)
    return type(s)(x, s.y, s.Mty - 0.3 * (o.grad(x) - x))


def orthonormal(rng, rows, columns):
    return np.linalg.qr(rng.standard_normal((rows, columns)))[0]


@pytest.mark.parametrize("kind", ["csr", "kronecker"])
def test_scratch_of_a_dual_step_is_not_written_while_another_thread_reads_it(kind):
    """Adding up what threads have takes as long as the rest, and the state never rests, so a late read shows."""
    rng = np.random.default_rng(0)
    if kind == "csr":
        M = sp.eye_array(20_000, format="csr")[rng.permutation(20_000)]
    else:
        M = dapd.Kronecker(orthonormal(rng, 70, 70), orthonormal(rng, 70, 70))
    problem = dapd.Problem(dapd.PseudoHuber(1.0), M, np.ones(M.shape[0]), spectrum=dapd.Spectrum(1.0, 1.0))
    same_on_threads(problem, with_step(two_duals), steps=1_000)


def test_scratch_of_a_gradient_is_not_written_while_another_thread_reads_it():
    rng = np.random.default_rng(0)
    A = np.asfortranarray(orthonormal(rng, 1_200, 20).T)  # shared by columns
    f = dapd.LeastSquares(A, np.zeros(20), 1.0, L=2.0)
    M = dapd.BlockDiagonal(rng.standard_normal((12, 2, 100)))
    same_on_threads(dapd.Problem(f, M, np.ones(24), spectrum=dapd.Spectrum(20.0, 1.0)), with_step(two_gradients))


def test_a_step_without_a_question_to_the_oracle_runs_on_threads():
    same_on_threads(quadratic_problem(dapd.Zero()), with_step(lambda p, o, s: type(s)(s.Mty, s.y, s.x)), steps=101)
    same_on_threads(quadratic_problem(dapd.Zero()), with_step(lambda p, o, s: type(s)(0.5 * s.x, -s.y, s.x)), steps=101)


@pytest.mark.parametrize("threads", [1, 2])
def test_several_threads_of_python_solve_at_once(threads):
    rng = np.random.default_rng(0)
    M = rng.standard_normal((60, 200))
    problem = dapd.Problem(dapd.PseudoHuber(0.1), M, rng.standard_normal(60), spectrum=dapd.Spectrum(22.0, 6.0))
    starts = [rng.standard_normal(200) for _ in range(4)]

    def run(x0):
        runner = NativeRunner(dapd.METHODS["papc"].from_theory(problem, x0=x0), threads=threads)
        runner.start()
        runner.advance(300, FOREVER)
        return runner.state.x

    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(run, starts))
    for found, x0 in zip(together, starts, strict=True):
        np.testing.assert_allclose(found, run(x0), rtol=1e-10, atol=1e-12)


def test_one_runner_serves_several_threads_of_python_one_after_the_other():
    problem = quadratic_problem(dapd.L1(0.3))
    shared, alone = started(problem), started(problem)
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda _: shared.advance(500, FOREVER), range(8))) == [500] * 8
    alone.advance(4_000, FOREVER)
    assert np.array_equal(shared.state.x, alone.state.x)


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
@pytest.mark.parametrize("name", DETERMINISTIC)
def test_steps_take_no_memory(name):
    M = np.random.default_rng(0).standard_normal((2, 20_000))
    problem = dapd.Problem(dapd.PseudoHuber(0.5), M, np.ones(2), spectrum=dapd.Spectrum(200.0, 20.0))
    runner = started(problem, name)
    steps = 400 // runner.method.iterations_per_step
    runner.advance(steps, FOREVER)
    before = resident()
    runner.advance(steps, FOREVER)
    assert resident() - before < 20 * 8 * 20_000  # one vector per iteration would be 400


def resident():
    with open("/proc/self/status") as status:
        return 1024 * int(next(line for line in status if line.startswith("VmRSS")).split()[1])


# deadlines


def long_step():
    """A step of CAPD takes a thousand passes over M."""
    M = np.random.default_rng(0).standard_normal((600, 1_200))
    return dapd.Problem(dapd.PseudoHuber(0.1), M, np.ones(600), spectrum=dapd.Spectrum(70.0, 0.07))


@pytest.mark.parametrize("threads", [1, 2])
def test_a_long_step_given_up_at_a_deadline_leaves_the_state_as_it_was(threads):
    runner = started(long_step(), "capd", threads)
    before = runner.state
    assert runner.advance(1, time.perf_counter() + 0.02) == 0
    for a, b in zip(runner.state, before, strict=True):
        assert np.array_equal(a, b)
    assert (runner.counts.gradients, runner.counts.products) == (0, 0)


def late_dual(p, o, s):
    """A step of PAPC that also replaces y at its end, when others may still read it."""
    g = o.grad(s.x)
    y, Mty = o.dual_step(p.s * (s.x - p.t * (g + s.Mty)), s.y - p.s * o.b, p.s)
    return type(s)(s.x - p.t * (g + Mty), 0.5 * (s.y + y), 0.5 * (s.Mty + Mty))


LAYOUTS = {  # sizes at which threads share rows, columns, or both in turn
    "rows": lambda rng: rng.standard_normal((60, 400)),
    "columns": lambda rng: np.asfortranarray(rng.standard_normal((60, 1_500))),
    "sparse": lambda rng: sp.random_array((20_000, 40_000), density=1e-4, format="csr", rng=rng),
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("own", [None, late_dual])
def test_a_deadline_between_steps_keeps_those_that_were_taken(threads, layout, own):
    M = LAYOUTS[layout](np.random.default_rng(0))
    problem = dapd.Problem(dapd.PseudoHuber(0.1), M, np.ones(M.shape[0]), spectrum=dapd.Spectrum(50.0, 10.0))
    runner, again = (started(problem, "y-dapd", threads, own and with_step(own)) for _ in range(2))
    for _ in range(6):  # a step has a few places at which it can be given up
        done = runner.advance(10**12, time.perf_counter() + 0.03)
        assert again.advance(done, FOREVER) == done
        for a, b in zip(runner.state, again.state, strict=True):
            assert np.array_equal(a, b)
    assert 0 < runner.counts.gradients == again.counts.gradients


@pytest.mark.parametrize("engine", ["native", "python"])
def test_a_solve_whose_first_step_is_given_up_returns_the_start(engine):
    looks = []
    result = dapd.solve(
        long_step(),
        "capd",
        tol=1e-300,
        time_limit=0.05,
        engine=engine,
        callback=lambda look: looks.append(look.iteration),
    )
    assert result.status == "time_limit"
    assert looks == [0] == [result.iterations]
    assert not result.x.any()


def test_a_time_limit_keeps_the_steps_that_were_taken():
    def grad(x):
        time.sleep(0.06)  # so steps are taken one at a time
        return x

    problem = dapd.Problem(dapd.Smooth(lambda x: x @ x / 2, grad, 1.0, 1.0), np.eye(3, 5), np.ones(3))
    result = dapd.solve(problem, "papc", tol=0, time_limit=1.0)
    assert result.status == "time_limit"
    assert result.iterations > 3
    assert result.certificate == certify(problem, result.x, result.y, spectrum=result.spectrum)


def test_no_limit_is_too_long_for_a_timer():
    problem = dapd.Problem(dapd.PseudoHuber(1.0), np.eye(8, 40), np.ones(8))
    assert dapd.solve(problem, time_limit=1e300).converged


def test_a_clock_that_may_leap_is_asked_between_short_pieces(monkeypatch):
    M = np.random.default_rng(0).standard_normal((600, 2000))
    problem = dapd.Problem(dapd.PseudoHuber(0.1), M, np.ones(600), spectrum=dapd.Spectrum(70.0, 10.0))
    runner, again = started(problem, "y-dapd", 1), started(problem, "y-dapd", 1)
    monkeypatch.setattr("dapd.machine.clock.PULSE", 1e-5)  # less than a step takes
    asked = []

    def clock():
        asked.append(None)
        return time.perf_counter()

    with agreeing(clock):
        assert runner.advance(20, FOREVER) == 20
    assert len(asked) >= 20
    again.advance(20, FOREVER)
    for a, b in zip(runner.state, again.state, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)
    leapt = iter([0.0, 1e9])
    with agreeing(lambda: next(leapt, 1e9)):
        assert runner.advance(10**9, 1e6) < 10**9


# Ctrl-C


def interrupt_after(seconds):
    main = threading.main_thread().ident
    timer = threading.Timer(seconds, lambda: signal.pthread_kill(main, signal.SIGINT))
    timer.start()
    return timer


@pytest.mark.skipif(sys.platform == "win32", reason="signals of another kind")
@pytest.mark.parametrize("threads", [1, 2])
def test_ctrl_c_ends_a_native_run_with_a_true_state_and_true_counts(threads):
    M = np.random.default_rng(0).standard_normal((60, 400))
    problem = dapd.Problem(dapd.PseudoHuber(0.1), M, np.ones(60), spectrum=dapd.Spectrum(30.0, 10.0))
    runner, again = started(problem, "y-dapd", threads), started(problem, "y-dapd", threads)
    timer = interrupt_after(0.2)
    try:
        with pytest.raises(KeyboardInterrupt):
            runner.advance(10**12, FOREVER)
    finally:
        timer.cancel()
    assert runner.counts.gradients > 0
    assert runner.counts.products == 2 * runner.counts.gradients
    again.advance(runner.counts.gradients, FOREVER)
    for a, b in zip(runner.state, again.state, strict=True):
        assert np.array_equal(a, b)


@pytest.mark.skipif(sys.platform == "win32", reason="signals of another kind")
@pytest.mark.parametrize("name", ["papc", "capd"])  # many short steps, and one that is endless
def test_ctrl_c_during_a_solve_brings_back_the_best_point(name):
    M = np.random.default_rng(0).standard_normal((400, 500))
    problem = dapd.Problem(dapd.PseudoHuber(0.1), M, np.ones(400), spectrum=dapd.Spectrum(50.0, 0.01))
    seen = []
    timer = None

    def callback(look):
        nonlocal timer
        seen.append(look)
        timer = timer or interrupt_after(0.3)

    result = dapd.solve(problem, name, tol=1e-300, engine="native", callback=callback)
    assert result.status == "interrupted"
    assert result.certificate == certify(problem, result.x, result.y)
    assert any(np.array_equal(result.x, look.x) for look in seen)


@pytest.mark.skipif(sys.platform == "win32", reason="signals of another kind")
def test_ctrl_c_while_threads_work_for_a_function_of_the_users():
    script = """
import signal, threading
M = np.random.default_rng(0).standard_normal((1100, 1000))
f = dapd.Smooth(lambda x: x @ x, lambda x: 2 * x, 2.0, 2.0)
own = dapd.Problem(f, M, np.ones(1100), spectrum=dapd.Spectrum(70.0, 10.0))
main = threading.main_thread().ident
for k in range(4):
    timer = threading.Timer(0.25 + 0.0007 * k, lambda: signal.pthread_kill(main, signal.SIGINT))
    timer.start()
    result = dapd.solve(own, "papc", tol=1e-300)
    assert result.status == "interrupted", result.message
    assert result.engine == "native"
print("done")
"""
    assert in_python(script) == ["done"]


# processes and workers


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_solves_after_its_parent_did():
    script = """
import multiprocessing, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # a fork beside threads is what is tested
first = work(0)
runner = dapd.engines.native.runner.NativeRunner(dapd.METHODS["y-dapd"].from_theory(problem), threads=2)
runner.start()
runner.advance(10, float("inf"))  # now there are threads that a child will not have
def on_two(seed):
    runner.start()
    runner.advance(200, float("inf"))
    return runner.point()[0]
with multiprocessing.get_context("fork").Pool(2) as pool:
    for x in [*pool.map(work, range(4)), *pool.map(on_two, range(4))]:
        assert np.allclose(x, first, rtol=1e-9, atol=1e-12)
print("done")
"""
    assert in_python(script) == ["done"]


@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_workers_of_joblib_find_the_same_solution(backend):
    pytest.importorskip("joblib")
    script = f"""
import joblib
first = work(0)
for x in joblib.Parallel(2, backend={backend!r})(joblib.delayed(work)(seed) for seed in range(4)):
    assert np.allclose(x, first, rtol=1e-9, atol=1e-12)
print("done")
"""
    assert in_python(script) == ["done"]


# how many threads


def test_threads_are_as_many_as_cores_or_as_openmp_may_use(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(6)), raising=False)
    for named, expected in (("", 6), ("4", 4), ("100", 6), ("0", 1), ("4,2", 6), ("all", 6)):
        monkeypatch.setenv("OMP_NUM_THREADS", named)
        assert available() == expected


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one core")
def test_a_solve_takes_as_many_threads_as_openmp_may_use():
    for count in ("1", "2"):
        assert in_python("print(threads())", {**TWO, "OMP_NUM_THREADS": count}) == [count]


def test_beside_the_main_thread_one_is_used():
    found = []
    thread = threading.Thread(target=lambda: found.append(available()))
    thread.start()
    thread.join()
    assert found == [1]


def taken(choice, cost, steps=100_000, at_once=100_000):
    """Steps on each number of threads, if one costs `cost(threads)` seconds and so many are asked for at once."""
    counts = dict.fromkeys((1, choice.most), 0)
    while steps:
        asked = min(steps, at_once)
        threads, some = choice.next(asked)
        assert 1 <= some <= asked
        choice.learn(threads, some, some * cost(threads))
        counts[threads] += some
        steps -= some
    return counts


@pytest.mark.parametrize("fast", [1, 4])
def test_the_faster_number_of_threads_takes_nearly_all_steps(fast):
    counts = taken(ThreadChoice(4), lambda threads: 1e-5 if threads == fast else 1e-4)
    assert counts[fast] > 0.9 * sum(counts.values())


@pytest.mark.parametrize("seconds", [1e-6, 1e-4, 1e-2, 1.0])
def test_trials_cost_little_however_long_a_step_takes(seconds):
    counts = taken(ThreadChoice(2), lambda threads: seconds / threads, max(2_000, int(2 / seconds)), at_once=30)
    assert counts[1] < 0.03 * counts[2]


def test_the_number_of_threads_follows_what_other_programs_do():
    choice = ThreadChoice(2)
    taken(choice, lambda threads: 1e-4 / threads)
    assert choice.threads == 2
    taken(choice, lambda threads: 1e-4 * threads)
    assert choice.threads == 1


@pytest.mark.parametrize("once", range(8))
def test_one_step_that_is_held_up_does_not_decide(once):
    choice, calls = ThreadChoice(2), []
    for k in range(40):  # long steps, one per call, such as dual steps that Python calls
        threads, steps = choice.next(1)
        choice.learn(threads, steps, (0.5 if k == once else 0.02) / threads)
        calls.append(threads)
    assert choice.threads == 2
    assert calls.count(1) <= 10


def test_one_thread_is_never_on_trial():
    assert ThreadChoice(1).next(1_000) == (1, 1_000)
