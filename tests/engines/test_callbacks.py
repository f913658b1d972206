"""A φ or a loss that the core does not know runs in the core all the same, which calls Python for its rows only."""

import _thread
import gc
import threading
import time
import weakref

import numpy as np
import pytest
import scipy.sparse as sp
from dual_steps import FusedDualStep
from instances import matrix
from native_steps import STRUCTURED, check
from scipy.sparse.linalg import aslinearoperator
from zipped_programs import forms, zipped

import dapd
from dapd.engines.native.layout import table_of
from dapd.engines.native.runner import NativeRunner
from dapd.functions.base import Function
from dapd.functions.losses import Loss
from dapd.functions.terms import Terms
from dapd.kinds.native import CALLED
from dapd.machine.core import load, variants
from dapd.operators.convert import as_operator

pytestmark = pytest.mark.skipif(not variants(), reason="the native core was not built")
FOREVER = float("inf")
ROWS, COLUMNS = 12, 20


class Pinball(dapd.Phi):
    """φ(y) = Σ max(a y, −b y), with a prox of its own."""

    def __init__(self, a=0.2, b=0.5):
        self.a, self.b = a, b
        self.seen = []

    def value(self, y):
        return float(np.sum(np.maximum(self.a * y, -self.b * y)))

    def prox(self, v, step):
        self.seen.append(v)
        return np.where(v > self.a * step, v - self.a * step, np.where(v < -self.b * step, v + self.b * step, 0.0))


class Cone(dapd.Phi):
    """Indicator of ‖y_1 …‖ ≤ y_0, all rows in one."""

    def value(self, y):
        return 0.0 if np.linalg.norm(y[1:]) <= y[0] + 1e-9 else np.inf

    def prox(self, v, step):
        norm = np.linalg.norm(v[1:])
        if norm <= v[0]:
            return v.copy()
        if norm <= -v[0]:
            return np.zeros_like(v)
        return (v[0] + norm) / 2 * np.concatenate([[1.0], v[1:] / norm]).astype(v.dtype)


class LogCoshLoss(Loss):
    """log cosh(u − d)."""

    def value(self, u, d):
        return np.log(np.cosh(u - d))

    def slope(self, u, d):
        return np.tanh(u - d)

    def curvature(self, u, d):
        return 1 - np.tanh(u - d) ** 2


class LogCosh(Function):
    """Σ log cosh(aᵢᵀx − dᵢ) + (ridge/2)‖x‖², of which only Python knows the loss."""

    def __init__(self, A, d, ridge):
        self.A, self.d, self.ridge = None if A is None else as_operator(A, name="A"), d, ridge
        self.size = len(d) if A is None else self.A.shape[1]
        self._constants(ridge, (1.0 if A is None else np.linalg.norm(self.A.dense(), 2) ** 2) + ridge)

    def lowered(self):
        return Terms(LogCoshLoss(), self.A, self.d, ridge=self.ridge, c=np.linspace(-1, 1, self.size))


def stack(*, groups=True):
    """Known rows between rows that are called."""
    known = dapd.GroupBall(0.5, [slice(0, 1), slice(1, 4)]) if groups else dapd.Box(-0.3, np.linspace(0.1, 0.4, 4))
    return dapd.Stack([dapd.NonNegative(), Pinball(), known, Cone(), Pinball(0.1)], sizes=[1, 3, 4, 3, 1])


PHIS = {"one": Pinball, "cone": Cone, "stack": stack, "stack without groups": lambda: stack(groups=False)}
LAYOUTS = {
    "rows": np.ascontiguousarray,
    "columns": np.asfortranarray,
    "csr": sp.csr_array,
    "stacked": lambda M: dapd.RowBlocks([M[:4], sp.csr_array(M[4:8]), dapd.Identity(COLUMNS, rows=4, start=3)]),
    "blocks": lambda M: dapd.BlockDiagonal([M[:5, :8], M[5:7, :10], M[:5, :2]]),
    "kronecker": lambda M: dapd.Kronecker(M[:3, :4], M[:4, :5]),
    "kronecker of an identity": lambda M: dapd.Kronecker(M[:6, :10], 2),
}


def problem_with(phi, M=None, f=None, dtype=np.float64):
    rng = np.random.default_rng(0)
    M = matrix(rng, 5.0, ROWS, COLUMNS).astype(dtype) if M is None else M
    f = f or dapd.Quadratic(np.linspace(1, 3, COLUMNS), rng.standard_normal(COLUMNS))
    return dapd.Problem(f, M, rng.standard_normal(ROWS).astype(dtype), phi, spectrum=dapd.Spectrum(3.0, 0.2))


def started(phi, *, name="y-dapd", threads=1, f=None):
    problem = problem_with(phi, f=f)
    runner = NativeRunner(dapd.METHODS[name].from_theory(problem), threads=threads)
    runner.start()
    return runner


# the same as the python engine, state by state


@pytest.mark.parametrize("name", ["x-dapd", "y-dapd", "condat-vu"])
@pytest.mark.parametrize("phi", PHIS)
def test_states_are_the_python_ones(phi, name):
    zipped(problem_with(PHIS[phi]()), name, threads=(2, 3))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("phi", PHIS)
def test_states_with_every_layout(phi, layout):
    M = LAYOUTS[layout](matrix(np.random.default_rng(1), 5.0, ROWS, COLUMNS))
    if layout == "stacked" and phi == "stack":
        phi = "stack without groups"  # whose parts are no rows of two blocks
    for name in ("x-dapd", "y-dapd"):
        zipped(problem_with(PHIS[phi](), M), name, steps=100, threads=(2, 3))


@pytest.mark.parametrize("form", ["tiles", "sorted", "runs", "columns"])
@pytest.mark.parametrize("name", ["x-dapd", "y-dapd"])
def test_states_by_rows_and_columns(name, form):
    M = matrix(np.random.default_rng(1), 5.0, ROWS, COLUMNS)
    with forms(form):
        M = np.asfortranarray(M) if form == "columns" else sp.csr_array(M)
        for phi in PHIS.values():
            zipped(problem_with(phi(), M), name, steps=100, threads=(2, 4))


def test_a_dual_step_with_every_structure_and_instruction_set():
    for M, _ in STRUCTURED.values():
        rows = M.shape[0]
        for core in variants():
            check(load(core), M, dapd.Stack([Pinball(), dapd.Zero()], sizes=[rows - 1, 1]))


@pytest.mark.parametrize("phi", PHIS)
def test_states_in_float32(phi):
    f = dapd.Quadratic(np.linspace(1, 3, COLUMNS, dtype=np.float32))
    chosen = PHIS[phi]()
    zipped(problem_with(chosen, f=f, dtype=np.float32), "y-dapd", steps=60, tol=1e-4, by_threads=1e-4)
    if phi == "one":
        assert {v.dtype for v in chosen.seen} == {np.dtype(np.float32)}


def test_groups_of_many_panels():
    rows, columns = 700, 40
    rng = np.random.default_rng(0)
    for M in (rng.standard_normal((rows, columns)), sp.random_array((rows, columns), density=0.2, rng=rng).tocsr()):
        phi = dapd.Stack([dapd.GroupBall(0.5, 5), Cone(), dapd.Zero()], sizes=[5, 600, 95])
        problem = dapd.Problem(dapd.PseudoHuber(0.3), M, np.ones(rows), phi, spectrum=dapd.Spectrum(40.0, 1.0))
        zipped(problem, "y-dapd", steps=40, threads=(2, 3))


LOSSES_OF = {
    "dense": lambda A: A,
    "by columns": np.asfortranarray,
    "sparse": sp.csr_array,
    "stacked": lambda A: dapd.RowBlocks([A[:4], dapd.Identity(COLUMNS, rows=5)]),
    "x itself": lambda A: None,
}


@pytest.mark.parametrize("name", ["x-dapd", "y-dapd"])
@pytest.mark.parametrize("A", LOSSES_OF)
def test_a_loss_that_only_python_knows(A, name):
    rng = np.random.default_rng(0)
    made = LOSSES_OF[A](rng.standard_normal((9, COLUMNS)))
    f = LogCosh(made, rng.standard_normal(COLUMNS if made is None else 9), 0.5)
    dapd.testing.check_gradient(f, np.zeros(COLUMNS))
    zipped(problem_with(dapd.L1(0.3), f=f), name, threads=(2, 3))
    zipped(problem_with(stack(), f=f), name, threads=(2, 3))


@pytest.mark.parametrize("name", ["x-dapd", "y-dapd"])
def test_a_gradient_that_only_python_knows(name):
    rng = np.random.default_rng(0)
    A, d = rng.standard_normal((9, COLUMNS)), np.linspace(1, 3, COLUMNS)
    for f in (
        dapd.Smooth(lambda x: 0.5 * x @ (d * x), lambda x: d * x, 1.0, 3.0),
        dapd.LeastSquares(aslinearoperator(A), np.ones(9), 0.5),
        dapd.Quadratic(aslinearoperator(np.diag(d)), np.ones(COLUMNS), mu=1.0, L=3.0),
    ):
        problem = problem_with(stack(), f=f)
        zipped(problem, name, steps=100, threads=(2, 3))
        result = dapd.solve(problem, name, max_iterations=5)
        assert f"f = {type(f).__name__}" in result.engine.reason


def test_a_loss_of_one_block():
    rng = np.random.default_rng(0)
    parts = [
        LogCosh(rng.standard_normal((5, 8)), np.ones(5), 0.5),
        dapd.PseudoHuber(0.5),
        LogCosh(None, np.ones(7), 0.5),
    ]
    f = dapd.Separable(parts, sizes=[8, 5, 7])
    zipped(problem_with(Pinball(), f=f), "y-dapd", threads=(2, 3))


# what a result says


@pytest.mark.parametrize("engine", ["auto", "native"])
def test_the_engine_is_native_and_says_what_python_evaluates(engine):
    result = dapd.solve(problem_with(stack()), "y-dapd", engine=engine, max_iterations=10)
    assert result.engine == "native"
    assert result.engine.reason == "φ = Pinball and φ = Cone are evaluated in Python"
    f = LogCosh(None, np.ones(COLUMNS), 0.5)
    result = dapd.solve(problem_with(dapd.Zero(), f=f), "y-dapd", engine=engine, max_iterations=10)
    assert result.engine.reason == "the loss LogCoshLoss of f is evaluated in Python"
    assert dapd.solve(problem_with(dapd.Zero()), "y-dapd", engine=engine, max_iterations=10).engine.reason == ""


def test_solutions_of_all_engines_agree():
    problem = problem_with(stack())
    found = [dapd.solve(problem, engine=engine, tol=1e-8) for engine in ("auto", "native", "python")]
    assert all(result.converged for result in found)
    for result in found[1:]:
        assert result.x == pytest.approx(found[0].x, abs=1e-5)


# what the function gets and returns


def test_arguments_may_be_kept_and_nothing_else_changes():
    phi = Pinball()
    runner = started(phi, name="x-dapd")
    problem = runner.method.problem
    kept = problem.M.matrix.copy(), problem.b.copy()
    runner.advance(5, FOREVER)
    assert len(phi.seen) == 5
    assert not any(v.flags.writeable for v in phi.seen)
    first = phi.seen[0].copy()
    runner.advance(5, FOREVER)
    assert np.array_equal(phi.seen[0], first)
    assert np.array_equal(problem.M.matrix, kept[0])
    assert np.array_equal(problem.b, kept[1])


class Returning(Pinball):
    """What it returns is not what a prox should be."""

    def __init__(self, answer):
        super().__init__()
        self.answer = answer

    def prox(self, v, step):
        return self.answer(v)


def changed(v):
    v[0] = 1.0
    return v


WRONG = {
    "shape": (lambda v: v[1:], ValueError, r"phi.prox returned shape \(11,\), expected an array of shape \(12,\)"),
    "number": (lambda v: 1.0, ValueError, "phi.prox returned float"),
    "complex": (lambda v: v + 1j, TypeError, "phi.prox returned complex128, expected real numbers"),
    "in place": (changed, ValueError, "phi.prox changes its argument"),
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("answer", WRONG)
def test_a_wrong_answer_is_an_error_that_names_it(answer, threads):
    function, kind, message = WRONG[answer]
    with pytest.raises(kind, match=message):
        started(Returning(function), threads=threads).advance(3, FOREVER)


# runs that end early


class Failing(Pinball):
    """Raises at one call."""

    def __init__(self, call, error=ZeroDivisionError):
        super().__init__()
        self.calls, self.call, self.error = 0, call, error

    def prox(self, v, step):
        self.calls += 1
        if self.calls == self.call:
            raise self.error("as it was told")
        return super().prox(v, step)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("name", ["x-dapd", "y-dapd", "papc"])
@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
def test_state_and_counts_are_true_after_an_exception(name, threads, error):
    runner, plain = started(Failing(8, error), name=name, threads=threads), started(Pinball(), name=name)
    with pytest.raises(error, match="as it was told"):
        runner.advance(100, FOREVER)
    plain.advance(7, FOREVER)
    for a, b in zip(runner.state, plain.state, strict=True):
        assert a == pytest.approx(b, abs=1e-12)
    assert (runner.counts.gradients, runner.counts.products) == (plain.counts.gradients, plain.counts.products)
    assert runner.advance(5, FOREVER) == 5  # and goes on from there
    plain.advance(5, FOREVER)
    for a, b in zip(runner.state, plain.state, strict=True):
        assert a == pytest.approx(b, abs=1e-12)


@pytest.mark.parametrize("threads", [1, 2])
def test_an_exception_of_a_loss(monkeypatch, threads):
    calls = []

    def slope(self, u, d):
        calls.append(u)
        if len(calls) == 8:
            raise ZeroDivisionError
        return np.tanh(u - d)

    monkeypatch.setattr(LogCoshLoss, "slope", slope)
    runner = started(dapd.L1(0.3), f=LogCosh(None, np.ones(COLUMNS), 0.5), threads=threads)
    calls.clear()
    with pytest.raises(ZeroDivisionError):
        runner.advance(100, FOREVER)
    assert runner.core.taken == 7
    assert runner.advance(5, FOREVER) == 5


def test_an_error_of_the_function_reaches_the_caller_of_solve():
    with pytest.raises(ZeroDivisionError, match="as it was told"):
        dapd.solve(problem_with(Failing(30)), "y-dapd", tol=0)


class Slow(Pinball):
    """Takes a while."""

    def prox(self, v, step):
        time.sleep(0.02)
        return super().prox(v, step)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_deadline_ends_a_run_of_slow_calls(threads):
    runner = started(Slow(), threads=threads)
    began = time.perf_counter()
    done = runner.advance(10**6, began + 0.3)
    assert time.perf_counter() - began < 2.0
    assert 0 < done < 50
    assert runner.counts.products == 2 * done + runner.method.oracle.products


@pytest.mark.parametrize("threads", [1, 2])
def test_ctrl_c_while_the_function_runs(threads):
    runner, done = started(Slow(), threads=threads), threading.Event()

    def press():
        if not done.wait(0.2):
            _thread.interrupt_main()

    presser = threading.Thread(target=press)
    presser.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            runner.advance(10**6, FOREVER)
    finally:
        done.set()
        presser.join()
    taken = runner.counts.products // 2
    assert 0 < taken < 50
    plain = started(Pinball())
    plain.advance(taken, FOREVER)
    for a, b in zip(runner.state, plain.state, strict=True):
        assert a == pytest.approx(b, abs=1e-9)


def test_a_function_that_solves_a_problem_itself():
    inner = dapd.Problem(dapd.PseudoHuber(0.1), np.random.default_rng(0).standard_normal((100, 700)), np.ones(100),
                         spectrum=dapd.Spectrum(37.0, 15.0))  # fmt: skip

    class Nested(Pinball):
        def prox(self, v, step):
            dapd.solve(inner, "y-dapd", max_iterations=20)
            return super().prox(v, step)

    runner, plain = started(Nested(), threads=2), started(Pinball(), threads=1)
    assert runner.advance(10, FOREVER) == plain.advance(10, FOREVER) == 10
    for a, b in zip(runner.state, plain.state, strict=True):
        assert a == pytest.approx(b, abs=1e-10)


def test_two_threads_of_python_share_a_function():
    phi, ends = Pinball(), []
    runners = [started(phi, threads=2) for _ in range(2)]
    workers = [threading.Thread(target=lambda r=r: ends.append(r.advance(300, FOREVER))) for r in runners]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert ends == [300, 300]
    for a, b in zip(runners[0].state, runners[1].state, strict=True):
        assert a == pytest.approx(b, abs=1e-9)


def test_a_method_bound_anew_goes_on_calling():
    runner = started(Pinball())
    runner.advance(20, FOREVER)
    x, y = runner.point()
    method = dapd.METHODS["x-dapd"].from_theory(runner.method.problem, x0=x, y0=y)
    runner.rebind(method)
    plain = NativeRunner(method, threads=1)
    plain.start()
    runner.advance(20, FOREVER)
    plain.advance(20, FOREVER)
    for a, b in zip(runner.state, plain.state, strict=True):
        assert np.array_equal(a, b)


def test_a_runner_that_its_own_function_refers_to_is_freed():
    phi = Pinball()
    phi.runner = started(phi)
    phi.runner.advance(3, FOREVER)
    seen = weakref.ref(phi.runner)
    del phi
    gc.collect()
    assert seen() is None


# tables


def test_the_table_has_calls_for_the_rows_that_are_called():
    table = table_of(stack(groups=False), 12, np.float64)
    assert [(first, last) for first, last, _ in table.calls] == [(1, 4), (8, 11), (11, 12)]
    assert np.array_equal(np.flatnonzero(table.code == CALLED), [1, 2, 3, 8, 9, 10, 11])


@pytest.mark.parametrize(
    "calls", [(), ((0, 2),), ((0, 4),), ((0, 2), (1, 3)), ((-1, 3),), ((0, 3), (3, 3)), ((2, 3), (0, 2)), ((0,),)]
)
def test_calls_for_other_rows_than_those_that_are_called_are_refused(calls):
    problem = dapd.Problem(dapd.PseudoHuber(1.0), np.ones((3, 5)), np.ones(3), Pinball())
    for core in map(load, variants()):
        step = FusedDualStep(problem, core=core)
        step.phi = step.phi._replace(calls=calls)
        with pytest.raises(ValueError, match=r"call"):
            step.bound(1.0)


def test_a_run_without_a_function_for_each_call_is_refused():
    runner = started(Pinball())
    for functions in ((), (print, print)):
        with pytest.raises(ValueError, match="functions must be one for each call"):
            runner.core.run(1, 1, 1.0, functions)
    with pytest.raises(TypeError):
        runner.core.run(1, 1, 1.0, (None,))
    assert runner.advance(3, FOREVER) == 3
