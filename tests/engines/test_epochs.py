"""The epochs of a restarted method: the core and JAX decide as Python does, and take the same primal steps."""

import math
from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
from instances import matrix, quadratic_problem
from own_methods import with_step
from zipped_programs import CORES

import dapd
from dapd import theory
from dapd.arrays import Count
from dapd.engines import bind, precision
from dapd.engines.native.runner import NativeRunner
from dapd.engines.python import PythonRunner
from dapd.machine.core import load
from dapd.methods.anchors import SAFE
from dapd.methods.r2hpdhg import R2HPDHG

ROWS, COLUMNS = 6, 10
needs_core = pytest.mark.skipif(not CORES, reason="the native core was not built")


def linear(rng):
    return dapd.Quadratic(None, rng.standard_normal(COLUMNS))


def semidefinite(rng):
    B = rng.standard_normal((3, COLUMNS))
    return dapd.Quadratic(B.T @ B, B.T @ rng.standard_normal(3))


BOUNDS = {
    "none": None,
    "numbers": (-1.0, 1.0),
    "below": (np.linspace(-1.0, 0.5, COLUMNS), None),
    "above": (None, np.linspace(-0.5, 1.0, COLUMNS)),
    "one-sided, equal and two-sided": (
        np.r_[[-np.inf] * 3, 0.2, 0.2, [-1.0] * 3, -np.inf, -0.1],
        np.r_[0.1, np.inf, np.inf, 0.2, 0.2, [0.5] * 3, np.inf, np.inf],
    ),
    "a number below, a vector above": (0.0, np.linspace(0.1, 1.0, COLUMNS)),
}

FUNCTIONS = {
    "linear": linear,
    "nothing": lambda rng: dapd.Quadratic(np.zeros(COLUMNS)),
    "a ridge": lambda rng: dapd.Quadratic(np.full(COLUMNS, 2.0), rng.standard_normal(COLUMNS)),
    "diagonal": lambda rng: dapd.Quadratic(np.linspace(0.0, 5.0, COLUMNS), rng.standard_normal(COLUMNS)),
    "sparse diagonal": lambda rng: dapd.Quadratic(sp.diags_array(np.linspace(1, 5, COLUMNS)).tocsr()),
    "dense": semidefinite,
    "squares of x": lambda rng: dapd.LeastSquares(dapd.Identity(COLUMNS), rng.standard_normal(COLUMNS), 0.5),
    "squares and a ridge": lambda rng: dapd.LeastSquares(
        rng.standard_normal((4, COLUMNS)), rng.standard_normal(4), ridge=0.5
    ),
    "logistic": lambda rng: dapd.Logistic(rng.standard_normal((9, COLUMNS)), np.sign(rng.standard_normal(9)), 0.5),
    "pseudo-huber": lambda rng: dapd.PseudoHuber(0.3),
    "separable": lambda rng: dapd.Separable(
        [dapd.Quadratic(np.linspace(1, 2, 4), np.ones(4)), dapd.PseudoHuber(0.3), dapd.Quadratic(np.eye(3) + 1)],
        sizes=[4, 3, 3],
    ),
    "in Python": lambda rng: dapd.Smooth(lambda x: x @ x / 2, lambda x: x, 1.0, 1.0),
}


def method_of(problem, *, weight=0.7, seed=0, longer=1.0):
    rng, rest = np.random.default_rng(seed), problem.proximable.rest
    s_max = 1.01 / longer * np.linalg.norm(problem.M.dense(), 2)
    p = theory.r2hpdhg(L=0.0 if rest is None else rest.L, s_max=s_max, weight=weight)
    x, y = rng.standard_normal(problem.columns), rng.standard_normal(problem.rows)
    return R2HPDHG(problem, p, x0=x, y0=y)


def problem_of(f, bounds=None, dtype=np.float64, phi=None, seed=1):
    rng = np.random.default_rng(seed)
    made, M = f(rng), matrix(rng, 5.0, ROWS, COLUMNS).astype(dtype)
    b = M @ (0.1 * rng.standard_normal(COLUMNS)).astype(dtype)
    return dapd.Problem(made, M, b, phi or dapd.L1(0.3), bounds=bounds)


def states_differ(found, wanted):
    """The greatest difference between two states, in relation to the vectors of x and of y."""
    found, wanted = ([np.asarray(part, float) for part in state] for state in (found, wanted))
    size = max(1.0, *(np.linalg.norm(part) for part in wanted[:-1]))
    return max(np.linalg.norm(a - b) for a, b in zip(found[:-1], wanted[:-1], strict=True)) / size


def same_epochs(found, wanted, rtol):
    """Whether all decisions are the same, and the numbers so except for rounding, which the cross term cancels."""
    exact = ("k", "next", "before", "wait", "failures", "changes", "long", "halved", "balance")
    for name, a, b in zip(found._fields, found, wanted, strict=True):
        if name in exact:
            assert a == b, (name, found, wanted)
        elif name not in ("allowed", "cap", "step"):  # of allowed, which differences of rounding make
            np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol, err_msg=name)
        else:
            np.testing.assert_allclose(a, b, rtol=1e3 * rtol, err_msg=name)


def zipped(one, other, *, steps, together, allowed, rtol, step=6.0):
    """Both runners step by step; the ends of epochs that there were."""
    ends = {"over": 0, "failed": 0}
    for runner in (one, other):
        runner.start()
        runner.epoch = runner.epoch._replace(step=step)  # longer than allowed, so it fails
    for _ in range(0, steps, together):
        before = other.epoch
        for runner in (one, other):
            assert runner.advance(together, math.inf) == together
        same_epochs(one.epoch, other.epoch, rtol)
        assert float(one.state.k) == float(other.state.k) == other.epoch.k
        assert states_differ(one.state, other.state) <= allowed
        ends["failed"] += other.epoch.failures - before.failures
        ends["over"] += other.epoch.changes > before.changes
    assert one.counts.gradients == other.counts.gradients
    assert one.counts.products == other.counts.products
    return ends


CASES = {
    "linear": (linear, "numbers", dapd.L1(0.3)),
    "diagonal": (FUNCTIONS["diagonal"], "one-sided, equal and two-sided", dapd.NonNegative()),
    "dense": (semidefinite, "below", dapd.Zero()),
}


@needs_core
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("case", CASES)
def test_the_core_restarts_and_fails_as_python_does(case, threads):
    f, bounds, phi = CASES[case]
    method = method_of(problem_of(f, BOUNDS[bounds], phi=phi))
    for core in CORES if threads == 1 else CORES[:1]:
        native = NativeRunner(method, threads=threads, core=load(core))
        ends = zipped(native, PythonRunner(method), steps=120, together=5, allowed=1e-9, rtol=1e-7)
        assert ends["over"] >= 2
        assert ends["failed"] >= (case != "linear")


@needs_core
@pytest.mark.parametrize("threads", [1, 2])
def test_the_core_restarts_in_float32_as_python_does(threads):
    method = method_of(problem_of(semidefinite, (-1.0, 1.0), np.float32))
    native = NativeRunner(method, threads=threads)
    zipped(native, PythonRunner(method), steps=15, together=1, allowed=1e-4, rtol=1e-2, step=60.0)
    assert native.epoch.failures > 0


@needs_core
def test_the_core_takes_the_same_steps_however_they_are_divided():
    method = method_of(problem_of(semidefinite))
    wanted = NativeRunner(method, threads=1)
    wanted.start()
    wanted.advance(97, math.inf)
    for together in (1, 3, 7, 50):
        runner = NativeRunner(method, threads=1)
        runner.start()
        for _ in range(97 // together):
            runner.advance(together, math.inf)
        runner.advance(97 % together, math.inf)
        assert runner.epoch == wanted.epoch
        for found, part in zip(runner.state, wanted.state, strict=True):
            np.testing.assert_array_equal(found, part)


@pytest.mark.parametrize("case", CASES)
def test_jax_restarts_and_fails_as_python_does(case):
    pytest.importorskip("jax")
    f, bounds, phi = CASES[case]
    method = method_of(problem_of(f, BOUNDS[bounds], phi=phi))
    with precision("jax"):
        ends = zipped(bind(method, "jax"), PythonRunner(method), steps=120, together=5, allowed=1e-9, rtol=1e-7)
    assert ends["over"] >= 2
    assert ends["failed"] >= (case != "linear")


@pytest.mark.parametrize("engine", ["native", "jax"])
@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize("f", FUNCTIONS)
def test_primal_steps_are_the_same_on_every_engine(f, bounds, engine):
    if engine == "jax":
        pytest.importorskip("jax")
        if bounds in ("below", "above", "numbers") and f not in ("diagonal", "linear"):
            pytest.skip("each case is compiled")
    elif not CORES:
        pytest.skip("the native core was not built")
    problem = problem_of(FUNCTIONS[f], BOUNDS[bounds])
    method = method_of(problem)
    plain = PythonRunner(method)
    with precision(engine):
        runner = bind(method, engine)
        for one in (runner, plain):
            one.start()
            one.advance(4, math.inf)
        assert states_differ(runner.state, plain.state) <= 1e-12
    assert runner.counts.gradients == plain.counts.gradients == (0 if problem.proximable.rest is None else 4)
    lower, upper = problem.bounds
    x = np.asarray(runner.state.x_plain)
    assert ((x >= lower) & (x <= upper)).all()


@pytest.mark.parametrize("engine", ["native", "python", "jax"])
def test_a_state_with_its_epoch_goes_on_in_another_runner(engine):
    pytest.importorskip("jax" if engine == "jax" else "numpy")
    method = method_of(problem_of(semidefinite))
    with precision(engine):
        first, second = bind(method, engine), bind(method, engine)
        for runner in (first, second):
            runner.start()
        first.advance(33, math.inf)
        second.state, second.epoch = first.state, first.epoch
        for runner in (first, second):
            runner.advance(40, math.inf)
        same_epochs(second.epoch, first.epoch, 1e-9)
        assert states_differ(second.state, first.state) <= 1e-11


@pytest.mark.parametrize("engine", ["native", "python", "jax"])
def test_the_x_that_minimises_with_y_is_optimal_on_every_engine(engine):
    pytest.importorskip("jax" if engine == "jax" else "numpy")
    f = dapd.Quadratic(np.linspace(0.5, 5.0, COLUMNS), np.ones(COLUMNS))
    problem = problem_of(lambda rng: f, BOUNDS["one-sided, equal and two-sided"])
    with precision(engine):
        runner = bind(method_of(problem), engine)
        runner.start()
        runner.advance(10, math.inf)
        x, y = runner.completed()
    np.testing.assert_array_equal(y, runner.point()[1])
    slope, (lower, upper) = f.grad(x) + problem.M.adjoint(y), problem.bounds
    assert ((x >= lower) & (x <= upper)).all()
    assert (abs(slope[(x > lower) & (x < upper)]) <= 1e-12).all()
    assert (slope[(x == lower) & (x < upper)] >= -1e-12).all()
    assert (slope[(x == upper) & (x > lower)] <= 1e-12).all()


@pytest.mark.parametrize("engine", ["native", "python", "jax"])
def test_safe_steps_that_overflow_stay_so_and_are_seen(engine):
    pytest.importorskip("jax" if engine == "jax" else "numpy")
    method = method_of(problem_of(linear, phi=dapd.Zero()), longer=1e9)
    with precision(engine), np.errstate(all="ignore"):
        runner = bind(method, engine)
        runner.start()
        runner.advance(100, math.inf)
        assert not np.isfinite(runner.point()[0]).all()


@pytest.mark.parametrize("engine", ["native", "python", "jax"])
def test_long_steps_that_overflow_go_back_to_the_anchor(engine):
    pytest.importorskip("jax" if engine == "jax" else "numpy")
    method = method_of(problem_of(semidefinite))
    with precision(engine), np.errstate(all="ignore"):
        runner = bind(method, engine)
        runner.start()
        anchor = np.array(runner.point()[0])
        runner.epoch = runner.epoch._replace(step=1e90)
        runner.advance(5, math.inf)
        assert runner.epoch.failures == 1
        np.testing.assert_array_equal(runner.state.x, anchor)
        runner.advance(2_000, math.inf)
        assert np.isfinite(runner.point()[0]).all()
        assert runner.epoch.step >= SAFE


# factors that change from step to step, of any method


class Mean(NamedTuple):
    x: dapd.Primal
    y: dapd.Dual
    Mty: dapd.Primal
    mean: dapd.Primal
    k: Count


def mean_of(weight, following=lambda k: k + 1):
    """PAPC, and a mean of its x with a weight that depends on the number of the step."""

    def first(p, o, x, y):
        return Mean(x, y, o.adjoint(y), x, 0.0)

    def step(p, o, s):
        g = o.grad(s.x)
        y, Mty = o.dual_step(p.s * (s.x - p.t * (g + s.Mty)), s.y - p.s * o.b, p.s)
        x, w = s.x - p.t * (g + Mty), weight(s.k)
        return Mean(x, y, Mty, (1 - w) * s.mean + w * x, following(s.k))

    kind = with_step(step, state=Mean, begin=first)
    return kind.from_theory(quadratic_problem(dapd.L1(0.3)))


WEIGHTS = {  # and why the core cannot have it
    "the mean": (lambda k: 1 / (k + 2), ""),
    "another form": (lambda k: 3 * (1 - (1 - 1 / (1 + k + 2)) / 2) / 4, ""),
    "two of them": (lambda k: (1 / (k + 2) + 1 / (k + 3)) / 2, "in two ways"),
    "a product": (lambda k: (1 / (k + 2)) * (1 / (k + 2)), "it multiplies two factors"),
    "a root": (lambda k: (k + 1) ** -0.5, "unsupported operand"),
    "a case": (lambda k: 0.5 if k > 3 else 0.1, "not supported between"),
}


@pytest.mark.parametrize("name", WEIGHTS)
def test_factors_may_change_with_the_number_of_the_step(name):
    weight, reason = WEIGHTS[name]
    method = mean_of(weight)
    state = method.run(method.init(), 40)
    for engine in ("auto", "jax"):
        pytest.importorskip("jax" if engine == "jax" else "numpy")
        if engine == "jax" and name == "a case":
            with pytest.raises(ValueError, match="JAX cannot trace"):
                bind(method, engine)
            continue
        with precision(engine):
            runner = bind(method, engine)
            runner.start()
            for some in (1, 7, 32):  # the count goes on
                runner.advance(some, math.inf)
            for found, wanted in zip(runner.state, state, strict=True):
                np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-12)
        if engine == "auto" and CORES:
            assert runner.engine == ("python" if reason else "native")
            assert reason in runner.reason


@needs_core
@pytest.mark.parametrize("following", [lambda k: k + 2, lambda k: k, lambda k: 0.0])
def test_a_count_that_does_not_grow_by_one_runs_in_python(following):
    runner = bind(mean_of(lambda k: 1 / (k + 2), following), "auto")
    assert runner.engine == "python"
    assert "whose count grows by one" in runner.reason


@needs_core
def test_a_division_by_zero_is_the_steps_own():
    runner = bind(mean_of(lambda k: 1 / k), "auto")
    assert runner.engine == "python"
    runner.start()
    with pytest.raises(ZeroDivisionError):
        runner.advance(1, math.inf)
