"""The jax engine: the same step under jit gives the same iterates, and everything around it is that of the others."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp
from instances import COLUMNS, DETERMINISTIC, PHIS, ROWS, matrix, quadratic_problem
from jax_cases import FUNCTIONS, MAPS
from textbook import PAIRS

import dapd
from dapd.certificate.certify import certify
from dapd.engines import bind, precision
from dapd.engines.jax.epochs import several_epochs
from dapd.engines.jax.gathers import LONGEST_ROW, gathered
from dapd.engines.jax.maps import changed
from dapd.engines.jax.runner import ASKED, JaxRunner, Oracle
from dapd.engines.protocol import NotNative
from dapd.methods.anchors import TOGETHER
from dapd.methods.y_dapd import YDAPD
from dapd.operators.base import Operator

STEPS = 300


def apart(problem, name, parameters=None):
    """How far the iterates of python and jax are from each other after each of some steps, relatively."""
    kind = dapd.METHODS[name]
    settings = {} if parameters is None else {"parameters": parameters}
    method = kind(problem, **settings) if settings else kind.from_theory(problem, spectrum=dapd.Spectrum(3.0, 0.5))
    with precision("jax"):
        runners = [bind(method, engine) for engine in ("python", "jax")]
        for runner in runners:
            runner.start()
        worst = 0.0
        for _ in range(STEPS // 50):
            for runner in runners:
                runner.advance(50, np.inf)
            for plain, traced in zip(*(runner.state for runner in runners), strict=True):
                worst = max(worst, np.max(abs(np.asarray(traced) - plain)) / (1 + np.max(abs(plain))))
    return worst


@pytest.mark.parametrize(("name", "phi"), PAIRS)
def test_iterates_of_every_method_and_phi_are_those_of_python(name, phi):
    assert apart(quadratic_problem(PHIS[phi]), name) < 1e-11


@pytest.mark.parametrize("f", FUNCTIONS)
def test_iterates_for_every_f_are_those_of_python(f):
    M = matrix(np.random.default_rng(1), 2.0)
    assert apart(dapd.Problem(FUNCTIONS[f], M, np.ones(ROWS), PHIS["stack"]), "y-dapd") < 1e-11


@pytest.mark.parametrize("kind", MAPS)
def test_iterates_for_every_M_are_those_of_python(kind):
    M = MAPS[kind](np.random.default_rng(1))
    assert apart(dapd.Problem(FUNCTIONS["diagonal"], M, np.ones(ROWS), PHIS["interval"]), "x-dapd") < 1e-11


def test_rows_of_all_lengths_are_multiplied():
    rng = np.random.default_rng(2)
    dense = rng.standard_normal((40, 2 * LONGEST_ROW))
    for k, row in enumerate(dense):  # from empty rows to rows that are longer than any padding
        row[rng.permutation(row.size)[: row.size - k * row.size // 39]] = 0.0
    x = rng.standard_normal(2 * LONGEST_ROW)
    with jax.enable_x64(True):
        forms = [gathered(sp.csr_array(M), np.float64) for M in (dense, dense[:3], 0 * dense)]
        for form, M in zip(forms, (dense, dense[:3], 0 * dense), strict=True):
            image, sizes = jax.jit(lambda form, x: (form.apply(x), form.apply(x, abs)))(form, x)
            np.testing.assert_allclose(image, M @ x, rtol=1e-12, atol=1e-12)
            np.testing.assert_allclose(sizes, abs(M) @ abs(x), rtol=1e-12, atol=1e-12)
            ones = jnp.ones(x.size)
            np.testing.assert_array_equal(changed(form, abs).apply(ones), form.apply(ones, abs))


def test_steps_overwrite_no_array_that_others_have():
    method = dapd.METHODS["y-dapd"].from_theory(quadratic_problem(PHIS["stack"]))
    with precision("jax"):
        runner = JaxRunner(method)
        runner.large = True  # points are arrays of the device
        runner.start()
        points = [runner.point()]
        for _ in range(3):
            runner.advance(10, np.inf)
            points.append(runner.point())
        held, seen = runner.state, [np.array(v) for v in runner.state]
        runner.advance(10, np.inf)
        after = [np.array(v) for v in runner.point()]
        for v, before in zip(held, seen, strict=True):
            np.testing.assert_array_equal(v, before)
        runner.state = held
        np.testing.assert_array_equal(runner.point()[0], points[-1][0])
        runner.advance(10, np.inf)
        np.testing.assert_array_equal(runner.point()[0], after[0])
        for v, before in zip(held, seen, strict=True):
            np.testing.assert_array_equal(v, before)
        plain = [method.point(method.run(method.init(), 10 * k)) for k in range(4)]
        for mine, expected in zip(points, plain, strict=True):
            np.testing.assert_allclose(mine[0], expected[0], rtol=1e-11)


def test_a_large_problem_stays_on_the_device_and_ends_like_a_small_one(monkeypatch):
    given = quadratic_problem(PHIS["stack"])

    def problem():  # another one for each solve, which learns something of it
        return dapd.Problem(dapd.Quadratic(np.linspace(1.0, 3.0, COLUMNS), given.f.c), given.M, given.b, given.phi)

    small = dapd.solve(problem(), engine="jax")
    monkeypatch.setattr("dapd.engines.jax.runner.LARGE", 0)
    large = dapd.solve(problem(), engine="jax", history=True)
    native = dapd.solve(problem(), engine="python")
    assert small.status == large.status == "optimal"
    assert small.iterations == large.iterations == native.iterations
    np.testing.assert_allclose(large.x, native.x, rtol=1e-9)
    assert type(large.x) is np.ndarray
    assert large.x.flags.writeable
    assert large.history.iterations[-1] == large.iterations
    named = dapd.solve(given, "y-dapd", engine="jax")
    assert named.status == "optimal"


def test_float32_is_certified_in_float64():
    problem = quadratic_problem(PHIS["l1"])
    single = dapd.Problem(problem.f, problem.M.matrix.astype(np.float32), problem.b.astype(np.float32), problem.phi)
    result = dapd.solve(single, "y-dapd", engine="jax", tol=1e-4)
    assert result.x.dtype == np.float32
    assert result.status == "optimal"
    assert result.certificate[:9] == certify(single, result.x, result.y)[:9]


def test_arrays_come_back_as_the_callers_kind():
    problem = quadratic_problem(PHIS["zero"])
    with jax.enable_x64(True):
        M, b = jnp.asarray(problem.M.matrix), jnp.asarray(problem.b)
    for engine in ("jax", "auto"):
        result = dapd.solve(dapd.Problem(problem.f, M, problem.b), engine=engine)
        assert isinstance(result.x, jax.Array)
        assert isinstance(result.y, jax.Array)
        assert result.x.dtype == np.float64
    assert isinstance(dapd.solve(dapd.Problem(problem.f, problem.M, b), engine="jax").y, jax.Array)
    assert isinstance(dapd.solve(problem, engine="jax").x, np.ndarray)


def test_the_callers_precision_is_left_alone():
    assert not jax.config.jax_enable_x64
    seen = []
    dapd.solve(quadratic_problem(PHIS["zero"]), engine="jax", callback=lambda info: seen.append(info.x.dtype))
    assert set(seen) == {np.dtype(np.float64)}
    assert not jax.config.jax_enable_x64
    assert jnp.ones(1).dtype == np.float32


@pytest.mark.parametrize("scale", [1e-11, 1e10])
def test_parameters_keep_their_digits_beside_float32_vectors(scale):
    M = (scale * matrix(np.random.default_rng(0), 2.0)).astype(np.float32)
    problem = dapd.Problem(dapd.PseudoHuber(0.5), M, np.zeros(ROWS, np.float32))
    spectrum = dapd.Spectrum(2.0 * scale, 0.9 * scale)
    start = {"x0": np.ones(COLUMNS, np.float32), "spectrum": spectrum, "tol": 0, "max_iterations": 60}
    there, here = (dapd.solve(problem, "capd", engine=engine, **start) for engine in ("jax", "python"))
    assert there.status == here.status == "iteration_limit"
    np.testing.assert_allclose(there.x, here.x, rtol=1e-4, atol=1e-5)


def test_products_are_counted_however_often_a_loop_is_traced(monkeypatch):
    problem = quadratic_problem(PHIS["zero"])
    counts = []
    for backend in ("cpu", "gpu"):
        ASKED.clear()
        monkeypatch.setattr(jax, "default_backend", lambda backend=backend: backend)
        counts.append(JaxRunner(dapd.METHODS["capd"].from_theory(problem)).per_step)
    ASKED.clear()
    assert counts[0] == counts[1]


class OwnPoint(YDAPD):
    """The point is that of the instance."""

    name = "own point"

    def point(self, state):
        return self.factor * state.x, state.y


class ByNumPy(YDAPD):
    """The point is beyond JAX."""

    name = "by numpy"

    @staticmethod
    def point(state):
        return np.asarray(state.x), np.asarray(state.y)


def test_a_method_of_the_callers_may_have_a_point_of_its_own():
    problem = quadratic_problem(PHIS["stack"])
    plain = runner_of(YDAPD, problem)
    for factor in (2.0, 3.0):  # the second program is not the first
        own = runner_of(OwnPoint, problem, factor=factor)
        np.testing.assert_allclose(own.point()[0], factor * plain.point()[0], rtol=1e-12)
    with pytest.raises(NotNative, match="point of by numpy"):  # though its step is one that was traced before
        runner_of(ByNumPy, problem)


def test_a_step_that_is_replaced_is_compiled_again():
    kind = type("Replaced", (YDAPD,), {"name": "replaced"})
    assert runner_of(kind, quadratic_problem(PHIS["stack"])).point()[0].any()
    kind.update = staticmethod(lambda p, o, s: s)
    assert not runner_of(kind, quadratic_problem(PHIS["stack"])).point()[0].any()


def runner_of(kind, problem, **attributes):
    """After 20 steps."""
    method = kind.from_theory(problem)
    vars(method).update(attributes)
    with precision("jax"):
        runner = JaxRunner(method)
        runner.start()
        runner.advance(20, np.inf)
    return runner


def test_other_guesses_do_not_compile_again():
    from dapd.engines.jax.program import compiled_loop
    from dapd.engines.jax.runner import place, several_steps

    problem = quadratic_problem(PHIS["zero"])
    for s_min in (0.1, 0.11, 0.12):
        dapd.solve(problem, "y-dapd", engine="jax", spectrum=dapd.Spectrum(1.0, s_min), tol=0, max_iterations=10)
    placed = place(problem)
    program = placed.leaves.program(compiled_loop, several_steps(YDAPD.update, YDAPD.point), placed.gpu)
    before = program._cache_size()
    assert before > 0
    for s_min in (0.13, 0.14):
        dapd.solve(problem, "y-dapd", engine="jax", spectrum=dapd.Spectrum(1.0, s_min), tol=0, max_iterations=10)
    assert program._cache_size() == before


@pytest.mark.parametrize("engine", ["python", "jax"])
def test_a_function_written_in_jax_runs_on_both_engines(engine):
    problem = dapd.Problem(FUNCTIONS["from jax"], matrix(np.random.default_rng(1), 2.0), np.ones(ROWS))
    result = dapd.solve(problem, engine=engine)
    assert result.status == "optimal"
    assert result.engine == engine


class Counting(Operator):
    """A map whose products make a NumPy array of their argument."""

    def __init__(self, entries):
        self.entries, self.shape, self.dtype = entries, entries.shape, entries.dtype

    def forward(self, x):
        return self.entries @ np.asarray(x)

    def adjoint(self, y):
        return np.asarray(y) @ self.entries


def test_what_jax_cannot_trace_is_refused_with_the_reason():
    M, b = matrix(np.random.default_rng(1), 2.0), np.ones(ROWS)
    f = dapd.Smooth(lambda x: 0.0, lambda x: np.asarray(x) * 1.0, 1.0, 1.0)
    with pytest.raises(
        ValueError, match=r"engine='jax' cannot run this: f = Smooth has .*from_jax.*'auto' or 'python'"
    ):
        dapd.solve(dapd.Problem(f, M, b), engine="jax")
    with pytest.raises(ValueError, match="engine='jax' cannot run this: M is Counting, whose products JAX cannot"):
        dapd.solve(dapd.Problem(FUNCTIONS["diagonal"], Counting(M), b), engine="jax")
    own = type("Own", (dapd.Phi,), {"prox": lambda self, v, step: np.maximum(np.asarray(v), 0)})()
    with pytest.raises(ValueError, match="engine='jax' cannot run this: φ = Own has a prox that JAX cannot trace"):
        dapd.solve(dapd.Problem(FUNCTIONS["diagonal"], M, b, own), engine="jax")


def test_a_phi_of_plain_arithmetic_runs_on_jax():
    class Half(dapd.Phi):
        """½‖y‖²."""

        def value(self, y):
            return 0.5 * float(y @ y)

        def prox(self, v, step):
            return v / (1 + step)

    M = matrix(np.random.default_rng(1), 2.0)
    problems = [
        dapd.Problem(FUNCTIONS["diagonal"], M, np.ones(ROWS), Half()) for _ in range(2)
    ]  # of which none is known
    results = [dapd.solve(problem, engine=engine) for problem, engine in zip(problems, ("python", "jax"), strict=True)]
    assert [result.engine for result in results] == ["python", "jax"]
    np.testing.assert_allclose(results[0].x, results[1].x, rtol=1e-9)


BLOCKED = """
import sys
import dapd
assert not {"jax", "torch"} & set(sys.modules)
sys.modules["jax"] = None
import numpy as np
problem = dapd.Problem(dapd.Quadratic(np.ones(2)), np.ones((1, 2)), np.ones(1))
for call in (
    lambda: dapd.solve(problem, engine="jax"),
    lambda: dapd.solve_batch([problem], engine="jax"),
    lambda: dapd.Smooth.from_jax(lambda x: x @ x),
):
    try:
        call()
    except ImportError as error:
        assert "pip install jax" in str(error), error
    else:
        raise AssertionError("no error")
assert dapd.solve(problem).converged
"""


def test_without_jax_the_error_says_what_to_install():
    subprocess.run([sys.executable, "-c", BLOCKED], check=True, timeout=60)


@pytest.mark.parametrize("name", DETERMINISTIC)
def test_a_user_may_stop_at_a_look(name):
    result = dapd.solve(
        quadratic_problem(PHIS["zero"]), name, engine="jax", tol=0, callback=lambda info: info.iteration > 50
    )
    assert result.status == "interrupted"
    assert result.iterations > 50


@pytest.mark.parametrize("bounded", [False, True])
def test_infeasible_is_found_for_a_problem_on_the_device(monkeypatch, bounded):
    monkeypatch.setattr("dapd.engines.jax.runner.LARGE", 0)
    M = np.vstack([np.ones((1, 4)), np.ones((1, 4))])
    if bounded:
        problem = dapd.Problem(dapd.Quadratic(np.ones(4)), M[:1], [9.0], bounds=(-1.0, 1.0))
    else:
        problem = dapd.Problem(dapd.Quadratic(np.ones(4)), M, [1.0, 2.0], dapd.Interval(-0.1, 0.1))
    for method in ("auto", "papc"):
        result = dapd.solve(problem, method, engine="jax", max_iterations=20_000)
        assert result.status == "infeasible", method
        assert result.ray is not None


def test_long_vectors_of_one_number_are_that_number(monkeypatch):
    rng = np.random.default_rng(0)
    f, M, found = dapd.Quadratic(np.full(COLUMNS, 2.0), rng.standard_normal(COLUMNS)), matrix(rng, 2.0), []
    for long in (1, 1 << 20):
        monkeypatch.setattr("dapd.engines.jax.runner.LONG_VECTORS", long)
        problem = dapd.Problem(f, M, np.zeros(ROWS), dapd.L1(0.1))
        placed = JaxRunner(dapd.METHODS["y-dapd"].from_theory(problem, spectrum=dapd.Spectrum(2.0, 1.0))).placed
        assert np.ndim(placed.b) == np.ndim(placed.f.parts[0].H) == (0 if long == 1 else 1)
        found.append(dapd.solve(problem, "y-dapd", engine="jax", tol=1e-9))
    assert found[0].iterations == found[1].iterations
    np.testing.assert_allclose(found[0].x, found[1].x, rtol=1e-13)
    np.testing.assert_allclose(found[0].y, found[1].y, rtol=1e-12, atol=1e-13)


def test_numbers_beside_jax_arrays_have_the_precision_of_jax():
    rng = np.random.default_rng(0)
    M, b, f = rng.standard_normal((3, 5)), rng.standard_normal(3), dapd.Quadratic(np.ones(5))
    mixed = [(jnp.asarray(M), b), (jnp.asarray(M), list(b)), (M, jnp.asarray(b)), (sp.csr_array(M), jnp.asarray(b))]
    for given in mixed:
        problem = dapd.Problem(f, *given)
        for engine in ("auto", "jax"):
            result = dapd.solve(problem, engine=engine, tol=1e-4)
            assert result.converged
            assert isinstance(result.x, jax.Array)
            assert {result.x.dtype, result.y.dtype, result.z.dtype} == {np.dtype(np.float32)}
    problem = dapd.Problem(f, *mixed[0])
    assert dapd.solve_batch(problem, b=np.stack([b, 2 * b]), tol=1e-4).x.dtype == np.float32
    solver = dapd.Solver(problem, tol=1e-4)
    solver.update(b=2 * b)
    assert solver.solve().x.dtype == np.float32
    with jax.enable_x64(True):
        doubles = jnp.asarray(M)
        assert dapd.solve(dapd.Problem(f, jnp.asarray(M, jnp.float32), b)).x.dtype == np.float64
    assert dapd.solve(dapd.Problem(f, doubles, b)).x.dtype == np.float64  # what JAX holds in float64 stays so
    assert dapd.Problem(f, M.astype(np.float32), b).dtype == np.float64  # NumPy's own rule


def test_epochs_are_the_same_if_a_gpu_takes_all_steps_between_measurements_together():
    rng = np.random.default_rng(3)
    f = dapd.Quadratic(rng.uniform(0, 2, COLUMNS), rng.standard_normal(COLUMNS))
    problem = dapd.Problem(f, matrix(rng, 2.0), np.ones(ROWS), dapd.NonNegative(), bounds=(-1.0, 1.0))
    found = []
    with precision("jax"):
        runner = bind(dapd.METHODS["r2hpdhg"].from_theory(problem), "jax")
        for together in (1, TOGETHER):
            runner.start()
            run = jax.jit(several_epochs(type(runner.method), Oracle, together))
            carry = runner._state, runner._numbers
            for steps in (100, 5, 145):
                carry, point = run(runner.placed, carry, runner._constants, steps // together)
            found.append([np.asarray(v) for v in (*point, carry[1])])
    assert found[0][-1][2] > 0  # steps of earlier epochs
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
