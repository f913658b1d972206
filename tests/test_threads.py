"""Threads: how many are used, and that forks, workers and failures end well."""

import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import dapd
from dapd.engines.compiled_engine import couple, engine
from dapd.engines.threads import available, together
from dapd.kernels.coupling import fused
from dapd.kernels.team import TimeUp
from dapd.solving.certificate import certify

TWO = {**os.environ, "NUMBA_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2"}
COMMON = """
import numpy as np, dapd
problem = dapd.experiments.compressed_sensing(0)
def work(seed):
    return dapd.solve(problem, "y-dapd", tol=0, max_iterations=200).x
def shares(method="y-dapd"):
    return len(dapd.METHODS[method].from_theory(problem).packed.oracles)
"""


def in_python(script, env=TWO):
    done = subprocess.run([sys.executable, "-c", COMMON + script], env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_solves_after_its_parent_did():
    script = """
import multiprocessing, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # a fork beside threads is what is tested
assert shares() == 2
first = work(0)
with multiprocessing.get_context("fork").Pool(2) as pool:
    for x in pool.map(work, range(4)):
        assert np.allclose(x, first, rtol=1e-9, atol=1e-12)
print("done")
"""
    assert in_python(script) == ["done"]


@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_workers_of_joblib_find_the_same_solution(backend):
    script = f"""
import joblib
first = work(0)
for x in joblib.Parallel(2, backend={backend!r})(joblib.delayed(work)(seed) for seed in range(4)):
    assert np.allclose(x, first, rtol=1e-9, atol=1e-12)
print("done")
"""
    assert in_python(script) == ["done"]


def test_threads_follow_the_limits_of_numba_and_blas():
    script = """
import numba
from threadpoolctl import threadpool_limits
print(shares())
with threadpool_limits(1, "blas"):
    print(shares())
numba.set_num_threads(1)
print(shares())
"""
    assert in_python(script) == ["2", "1", "1"]
    assert in_python("print(shares())", {**TWO, "NUMBA_NUM_THREADS": "1"}) == ["1"]


def test_beside_the_main_thread_one_is_used():
    found = []
    thread = threading.Thread(target=lambda: found.append(available()))
    thread.start()
    thread.join()
    assert found == [1]
    with threadpool_limits(1, "blas"):
        assert available() == 1


def test_one_failing_call_brings_the_others_home():
    stopped = threading.Event()

    def call(fails):
        if fails:
            raise ArithmeticError("mine")
        assert stopped.wait(60)

    for order in ([(True,), (False,)], [(False,), (True,)]):
        stopped.clear()
        with pytest.raises(ArithmeticError, match="mine"):
            together(call, order, stopped.set)


OWN = """
import signal, threading, time
M = np.random.default_rng(0).standard_normal((2100, 2000))
f = dapd.Smooth(lambda x: x @ x, lambda x: 2 * x, 2.0, 2.0)
own = dapd.Problem(f, M, np.ones(2100), spectrum=dapd.Spectrum(90.0, 10.0))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of another kind")
def test_ctrl_c_while_threads_work_for_a_function_of_the_users():
    script = """
main = threading.main_thread().ident
dapd.solve(own, "papc", max_iterations=1)  # compiles
for k in range(6):
    timer = threading.Timer(0.25 + 0.0007 * k, lambda: signal.pthread_kill(main, signal.SIGINT))
    timer.start()
    result = dapd.solve(own, "papc", tol=1e-300)
    assert result.status == "interrupted", result.message
print("done")
"""
    assert in_python(OWN + script) == ["done"]


def test_no_limit_is_too_long_for_a_timer():
    problem = dapd.Problem(dapd.PseudoHuber(1.0), np.eye(8, 40), np.ones(8))
    assert dapd.solve(problem, time_limit=1e300).converged


@pytest.mark.parametrize("shape", [(8, 40), (8, 12)])  # shared by columns, and by rows
def test_a_thread_that_waits_alone_is_called_back(shape):
    problem = dapd.Problem(dapd.PseudoHuber(1.0), np.eye(*shape), np.zeros(8))
    crew = couple(problem, 2)
    v, base = crew.of_columns(np.ones(shape[1]))[0], crew.of_rows(np.ones(8))[0]

    def alone(*arguments):
        crew.halt[0] = 1  # as when the time is up, or another thread has failed
        fused(*arguments)  # at the first meeting, to which nobody else comes

    arguments = (crew.shares.matrices[0], crew.shares.tables[0], v, base, 1.0, crew.teams[0], base.copy(), v.copy())
    with pytest.raises(TimeUp):
        crew.run(alone, [arguments])
    assert crew.halt[0] == 0


@pytest.mark.parametrize("kind", ["numpy", "plain"])
def test_a_step_given_up_halfway_leaves_no_trace(kind):
    M = np.random.default_rng(0).standard_normal((300, 600))
    problem = dapd.Problem(dapd.PseudoHuber(0.1), M, np.ones(300), spectrum=dapd.Spectrum(50.0, 5e-5))
    dapd.solve(problem, "capd", max_iterations=0, engine=kind)  # compiles
    looks = []
    began = time.perf_counter()
    result = dapd.solve(
        problem, "capd", tol=1e-300, time_limit=0.2, engine=kind, callback=lambda look: looks.append(look.iteration)
    )  # a step takes a million passes over M
    assert result.status == "time_limit"
    assert time.perf_counter() - began >= 0.2
    assert result.solve_time < 2.0
    assert looks == [0] == [result.iterations]
    assert not result.x.any()


def test_a_time_limit_keeps_the_steps_that_were_taken():
    def grad(x):
        time.sleep(0.06)  # so that steps are taken one at a time
        return x

    problem = dapd.Problem(dapd.Smooth(lambda x: x @ x / 2, grad, 1.0, 1.0), np.eye(3, 5), np.ones(3))
    result = dapd.solve(problem, "papc", tol=0, time_limit=0.5)
    assert result.status == "time_limit"
    assert result.iterations > 3
    assert result.certificate == certify(problem, result.x, result.y)
    assert 0.5 <= result.solve_time < 1.5


@pytest.mark.parametrize("threads", [1, 2])
def test_one_method_runs_in_several_threads_at_once(threads):
    rng = np.random.default_rng(0)
    problem = dapd.Problem(dapd.PseudoHuber(0.1), rng.standard_normal((60, 200)), rng.standard_normal(60))
    method = dapd.METHODS["papc"].from_theory(problem)
    method.packed = engine(problem, threads)
    states = [method.init()._replace(x=rng.standard_normal(200)) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda state: method.run(state, 2_000), states))
    for found, state in zip(together, states, strict=True):
        assert np.array_equal(found.x, method.run(state, 2_000).x)


def test_ctrl_c_before_all_calls_were_made_brings_home_those_that_were(monkeypatch):
    stopped, ended, submit = threading.Event(), [], ThreadPoolExecutor.submit

    def call(k):
        assert stopped.wait(60)
        ended.append(k)

    def interrupted(self, call, k):
        if k == 2:
            raise KeyboardInterrupt
        return submit(self, call, k)

    monkeypatch.setattr(ThreadPoolExecutor, "submit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        together(call, [(0,), (1,), (2,)], stopped.set)
    assert ended == [1]
