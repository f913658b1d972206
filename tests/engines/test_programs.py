"""A step as a program: what the tracer makes of it, and the native engine against the python one, state by state."""

from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from instances import DETERMINISTIC, PHIS, matrix, quadratic_problem
from native_steps import STRUCTURED
from own_methods import Averaged, with_step
from zipped_programs import CORES, FOREVER, forms, zipped

import dapd
from dapd.engines import bind
from dapd.engines.native.runner import NativeRunner, fields_of
from dapd.engines.native.tracer import COMBINE, DUAL_STEP, GRADIENT, LONGEST_STEP, MOST, trace
from dapd.engines.python import PythonRunner
from dapd.machine.core import load, variants

pytestmark = pytest.mark.skipif(not variants(), reason="the native core was not built")


CASES = [(name, phi) for name in DETERMINISTIC for phi in PHIS if dapd.METHODS[name].any_phi or phi == "zero"]


@pytest.mark.parametrize(("name", "phi"), CASES)
def test_native_states_are_the_python_ones_for_every_method_and_phi(name, phi):
    zipped(quadratic_problem(PHIS[phi]), name)


@pytest.mark.parametrize("name", DETERMINISTIC)
def test_native_states_are_the_same_on_one_two_and_four_threads(name):
    zipped(quadratic_problem(dapd.Zero()), name, cores=CORES[:1], threads=(2, 4), meet=300)


FUNCTIONS = {
    "pseudo-huber": lambda rng: dapd.PseudoHuber(0.3),
    "diagonal": lambda rng: dapd.Quadratic(np.linspace(1, 5, 10), rng.standard_normal(10)),
    "dense": lambda rng: dapd.Quadratic(np.diag(np.linspace(1, 5, 10)) + 0.1, rng.standard_normal(10)),
    "dense by columns": lambda rng: dapd.Quadratic(np.asfortranarray(np.diag(np.linspace(1, 5, 10)) + 0.1)),
    "sparse": lambda rng: dapd.Quadratic(sp.diags_array(np.linspace(1, 5, 10)).tocsr(), rng.standard_normal(10)),
    "squares": lambda rng: dapd.LeastSquares(rng.standard_normal((15, 10)), rng.standard_normal(15), 0.5),
    "squares without a ridge": lambda rng: dapd.LeastSquares(rng.standard_normal((15, 10)), rng.standard_normal(15)),
    "wide squares": lambda rng: dapd.LeastSquares(rng.standard_normal((4, 10)), rng.standard_normal(4), 0.5),
    "squares by columns": lambda rng: dapd.LeastSquares(rng.standard_normal((10, 15)).T, rng.standard_normal(15), 0.5),
    "sparse squares": lambda rng: dapd.LeastSquares(sp.csr_array(rng.standard_normal((15, 10))), np.ones(15), 0.5),
    "stacked squares": lambda rng: dapd.LeastSquares(
        dapd.RowBlocks([rng.standard_normal((5, 10)), dapd.Identity(10)]), rng.standard_normal(15), 0.5
    ),
    "float32 squares": lambda rng: dapd.LeastSquares(
        rng.standard_normal((15, 10)).astype(np.float32), rng.standard_normal(15), 0.5
    ),
    "logistic": lambda rng: dapd.Logistic(rng.standard_normal((15, 10)), np.sign(rng.standard_normal(15)), 0.5),
    "sparse logistic": lambda rng: dapd.Logistic(
        sp.csr_array(rng.standard_normal((15, 10))), np.sign(rng.standard_normal(15)), 0.5
    ),
    "separable": lambda rng: dapd.Separable([dapd.PseudoHuber(0.3), dapd.Quadratic(np.eye(4) + 1)], sizes=[6, 4]),
    "separable with matrices": lambda rng: dapd.Separable(
        [
            dapd.LeastSquares(rng.standard_normal((8, 3)), rng.standard_normal(8), 0.5),
            dapd.Logistic(rng.standard_normal((4, 6)), np.sign(rng.standard_normal(4)), 0.5),
            dapd.Quadratic([2.0], [1.0]),
        ]
    ),
}


@pytest.mark.parametrize("name", ["x-dapd", "y-dapd", "r2hpdhg"])
@pytest.mark.parametrize("f", FUNCTIONS)
def test_native_gradient_of_every_function(f, name):
    rng = np.random.default_rng(0)
    problem = dapd.Problem(FUNCTIONS[f](rng), matrix(rng, 5.0), rng.standard_normal(6), dapd.L1(0.3))
    zipped(problem, name)


@pytest.mark.parametrize("name", STRUCTURED)
def test_native_states_with_structured_couplings(name):
    M, phi = STRUCTURED[name]
    b = np.random.default_rng(0).standard_normal(M.shape[0])
    problem = dapd.Problem(dapd.PseudoHuber(0.3), M, b, phi, spectrum=dapd.Spectrum(np.linalg.norm(M.dense(), 2), 0.5))
    zipped(problem, "papc")
    zipped(problem, "y-dapd", cores=CORES[:1])


@pytest.mark.parametrize("layout", [np.asfortranarray, sp.csr_array])
@pytest.mark.parametrize("name", DETERMINISTIC)
def test_native_states_with_other_layouts(name, layout):
    problem = quadratic_problem(dapd.Zero() if name == "capd" else dapd.L1(0.3))
    zipped(dapd.Problem(problem.f, layout(problem.M.matrix), problem.b, problem.phi), name)


@pytest.mark.parametrize("name", ["x-dapd", "y-dapd", "capd"])
@pytest.mark.parametrize("f", ["pseudo-huber", "dense", "wide squares"])
def test_native_states_if_threads_share_columns(name, f):
    rng = np.random.default_rng(0)
    phi = dapd.Zero() if name == "capd" else dapd.GroupBall(0.5, 2)
    problem = dapd.Problem(FUNCTIONS[f](rng), matrix(rng, 5.0, 4, 10), rng.standard_normal(4), phi)
    zipped(problem, name, threads=(2, 3))


@pytest.mark.parametrize("name", DETERMINISTIC)
def test_native_states_with_a_wide_matrix_in_columns(name):
    M = np.asfortranarray(matrix(np.random.default_rng(0), 5.0, 5, 1_500))
    phi = dapd.L1(0.3) if dapd.METHODS[name].any_phi else dapd.Zero()
    zipped(dapd.Problem(dapd.PseudoHuber(0.3), M, np.ones(5), phi), name, threads=(2, 4))
    tall = np.asfortranarray(np.linalg.qr(np.random.default_rng(0).standard_normal((3_000, 100)))[0])
    with forms("columns"):  # panels of twelve columns
        problem = dapd.Problem(dapd.PseudoHuber(0.3), tall, np.ones(3_000), phi, spectrum=dapd.Spectrum(1.0, 0.5))
        zipped(problem, name, steps=40, threads=(2, 3, 4))


@pytest.mark.parametrize("form", ["tiles", "sorted", "runs"])
@pytest.mark.parametrize("name", DETERMINISTIC)
def test_native_states_by_rows_and_columns(name, form):
    problem = quadratic_problem(dapd.Zero() if not dapd.METHODS[name].any_phi else dapd.L1(0.3))
    diagonal = dapd.Quadratic(np.linspace(1, 3, problem.columns), np.ones(problem.columns))
    with forms(form):
        for f in (problem.f, diagonal):
            zipped(dapd.Problem(f, sp.csr_array(problem.M.matrix), problem.b, problem.phi), name, threads=(2, 4))


@pytest.mark.parametrize("name", DETERMINISTIC)
def test_native_states_in_float32(name):
    rng = np.random.default_rng(0)
    f = dapd.Quadratic(np.linspace(1, 5, 10), rng.standard_normal(10))
    problem = dapd.Problem(f, matrix(rng, 5.0).astype(np.float32), rng.standard_normal(6).astype(np.float32))
    zipped(problem, name, steps=60, tol=1e-4, by_threads=1e-4)


# what the tracer makes of a step


def program_of(method):
    state = method.init()
    return trace(type(method).update, method.parameters, type(state), fields_of(state, method.problem))


def papc_program(step):
    return program_of(with_step(step).from_theory(quadratic_problem(dapd.Zero())))


@pytest.mark.parametrize(
    ("name", "primal", "dual", "instructions"),
    [("x-dapd", 6, 4, 6), ("y-dapd", 6, 5, 7), ("papc", 5, 4, 5), ("condat-vu", 5, 4, 5), ("apapc", 7, 4, 8)],
)
def test_a_step_takes_few_registers_and_instructions(name, primal, dual, instructions):
    program = program_of(dapd.METHODS[name].from_theory(quadratic_problem(dapd.Zero())))
    assert (program.gradients, program.dual_steps) == (1, 1)
    assert program.dual.count(False) <= primal
    assert program.dual.count(True) <= dual
    assert len(program.instructions) <= instructions


def test_capd_takes_no_more_registers_with_more_inner_steps():
    few, many = (
        program_of(dapd.METHODS["capd"].from_theory(quadratic_problem(dapd.Zero(), ratio=ratio)))
        for ratio in (10.0, 160.0)
    )
    assert len(many.instructions) > 10 * len(few.instructions)
    assert many.dual == few.dual


def test_dead_code_is_removed():
    papc = dapd.METHODS["papc"].update

    def wasteful(p, o, s):
        unused = o.grad(s.x + s.Mty) - 3.0 * s.x
        o.dual_step(unused, s.y, 1.0)
        return papc(p, o, s)

    assert papc_program(wasteful) == papc_program(papc)


def test_equal_combinations_are_computed_once():
    def twice(p, o, s):
        g = o.grad(s.x)
        a, b = s.x - p.t * g, s.x - p.t * g
        y, Mty = o.dual_step(a, s.y, p.s)
        return type(s)(b + Mty, y, Mty)

    kinds = [instruction.kind for instruction in papc_program(twice).instructions]
    assert kinds.count(COMBINE) == 2


def test_a_long_sum_is_split():
    def long(p, o, s):
        total = s.x
        for k in range(3 * MOST):
            total = total + 0.01 * k * o.grad(total)
        return type(s)(total, s.y, s.Mty)

    assert all(len(instruction.terms) <= MOST for instruction in papc_program(long).instructions)
    zipped(quadratic_problem(dapd.Zero()), "long", cls=with_step(damped(long)), steps=5)


def damped(step):
    """The step, but shrunk, so that it does not run away."""

    def shrunk(p, o, s):
        return type(s)(*(0.1 * part for part in step(p, o, s)))

    return shrunk


# results that are aliases, swaps, duplicates or b itself; coefficients that vanish
ODD = {
    "nothing": lambda p, o, s: s,
    "swap": lambda p, o, s: type(s)(s.Mty, s.y, s.x),
    "rotation with a gradient": lambda p, o, s: type(s)(0.5 * o.grad(s.Mty), s.y, s.x),
    "duplicate": lambda p, o, s: type(s)(s.x, s.y, s.x),
    "duplicate of a result": lambda p, o, s: (lambda g: type(s)(g, s.y, g))(0.1 * o.grad(s.x)),
    "duplicate of a dual step": lambda p, o, s: (lambda y, v: type(s)(v, y, v))(*o.dual_step(0.1 * s.x, s.y, 0.5)),
    "b": lambda p, o, s: type(s)(s.x, o.b, s.Mty),
    "a multiple of b": lambda p, o, s: type(s)(s.x, -o.b, s.Mty),
    "zero": lambda p, o, s: type(s)(s.x - s.x, 0.0 * s.y, s.Mty),
    "vanishing terms": lambda p, o, s: type(s)(s.x + 0.0 * o.grad(s.x), s.y + s.y - s.y, s.Mty - 0.5 * s.Mty),
    "argument is zero": lambda p, o, s: type(s)(o.grad(0.0 * s.x), o.dual_step(s.x - s.x, s.y - s.y, 0.5)[0], s.Mty),
    "only Mᵀy is used": lambda p, o, s: type(s)(0.1 * o.dual_step(s.x, s.y, 0.5)[1], s.y, s.Mty),
    "only y is used": lambda p, o, s: type(s)(s.x, 0.1 * o.dual_step(s.x, s.y, 0.5)[0], s.Mty),
    "signs and quotients": lambda p, o, s: type(s)(-(+s.x) / 2, s.y / np.float32(4.0), np.float64(0.5) * s.Mty),
    "sum": lambda p, o, s: type(s)(0.3 * sum([s.x, s.Mty, o.grad(s.x)]), s.y, s.x),
    "the same v twice": lambda p, o, s: type(s)(
        0.1 * o.dual_step(s.x, s.y, 0.5)[1], 0.1 * o.dual_step(s.x, o.b, 0.5)[0], s.x
    ),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_steps_run_native_as_in_python(name):
    zipped(quadratic_problem(dapd.L1(0.3)), name, cls=with_step(ODD[name]), steps=7)


def test_only_combinations_that_are_no_aliases_cost_an_instruction():
    assert papc_program(ODD["nothing"]).instructions == []
    assert papc_program(ODD["swap"]).instructions == []
    assert papc_program(ODD["swap"]).next[:3] == [2, 1, 0]
    assert len(papc_program(ODD["b"]).instructions) == 1  # b stays where it is


# methods of the user's own


def test_a_method_of_the_users_own_runs_native_with_seven_fields_of_other_names(monkeypatch):
    monkeypatch.setitem(dapd.METHODS, "averaged", Averaged)
    for phi in PHIS.values():
        zipped(quadratic_problem(phi), "averaged", cores=CORES[:1])
    problem = quadratic_problem(dapd.L1(0.3))
    found = {
        engine: dapd.solve(problem, "averaged", tol=1e-9, engine=engine) for engine in ("native", "python", "auto")
    }
    for engine, result in found.items():
        assert result.converged
        assert result.engine == ("native" if engine == "auto" else engine)
        np.testing.assert_allclose(result.x, problem.x_star, atol=1e-6)
        np.testing.assert_allclose(result.y, problem.y_star, atol=1e-6)


def test_two_methods_that_share_a_parameter_record_run_their_own_steps():
    problem = quadratic_problem(dapd.Zero())
    papc, own = (
        bind(cls.from_theory(problem), "native") for cls in (dapd.METHODS["papc"], with_step(damped(papc_step)))
    )
    assert type(papc.method.parameters) is type(own.method.parameters)
    for runner in (papc, own):
        runner.start()
        runner.advance(10, FOREVER)
        for a, b in zip(runner.state, runner.method.run(runner.method.init(), 10), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)
    assert not np.allclose(papc.state.x, own.state.x)


papc_step = dapd.METHODS["papc"].update


def test_a_subclass_with_the_inherited_step_runs_native():
    class Mine(dapd.METHODS["papc"]):
        pass

    assert bind(Mine.from_theory(quadratic_problem(dapd.Zero()))).engine == "native"


NOT_LINEAR = {
    "absolute value": (lambda s: abs(s.x), "abs"),
    "numpy's absolute value": (lambda s: np.abs(s.x), "ufunc"),
    "norm": (lambda s: s.x / (1 + np.linalg.norm(s.x)), "makes an array of a vector"),
    "scalar product": (lambda s: (s.x @ s.x) * s.x, "unsupported operand"),
    "branch on entries": (lambda s: s.x if s.x.any() else s.x + s.Mty, "uses .any of a vector"),
    "branch on a comparison": (lambda s: s.x if (s.x > 0).all() else 2 * s.Mty, "not supported between"),
    "branch on equality": (lambda s: s.x if np.all(s.x == s.Mty) else 0.5 * s.x, "compares a vector"),
    "power": (lambda s: s.x**2, "unsupported operand"),
    "entrywise product": (lambda s: s.x * s.Mty, "multiplies a vector by Symbol"),
    "constant": (lambda s: s.x + 1.0, "adds float to a vector"),
    "array": (lambda s: s.x + np.ones(10), "adds ndarray|makes an array|ufunc"),
    "slice": (lambda s: np.concatenate([s.x[:5], s.Mty[5:]]), "subscriptable"),
}


@pytest.mark.parametrize("name", NOT_LINEAR)
def test_a_step_that_is_not_linear_runs_in_python_and_the_result_says_why(name, monkeypatch):
    change, reason = NOT_LINEAR[name]

    def step(p, o, s):
        after = papc_step(p, o, s)
        return after._replace(x=after.x + 1e-9 * change(s))

    monkeypatch.setitem(dapd.METHODS, "own", with_step(step))
    problem = quadratic_problem(dapd.Zero())
    result = dapd.solve(problem, "own", tol=1e-6)
    assert result.converged
    assert result.engine == "python"
    assert "linear" in result.engine.reason
    with pytest.raises(ValueError, match=f"engine='native' cannot run this: the step of own.*({reason})"):
        dapd.solve(problem, "own", engine="native")


def test_an_error_in_a_step_is_the_users_to_see(monkeypatch):
    def step(p, o, s):
        raise RuntimeError("mine")

    monkeypatch.setitem(dapd.METHODS, "own", with_step(step))
    with pytest.raises(RuntimeError, match="mine"):
        dapd.solve(quadratic_problem(dapd.Zero()), "own")


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (lambda p, o, s: type(s)(s.y, s.x, s.Mty), "other lengths"),
        (lambda p, o, s: type(s)(s.x + s.y, s.y, s.Mty), "as long as x to one as long as y"),
        (lambda p, o, s: type(s)(o.grad(s.y), s.y, s.Mty), "not as long as x"),
        (lambda p, o, s: type(s)(s.x, s.y, None), "something else than a state"),
        (lambda p, o, s: type(s)(o.hessian(s.x), s.y, s.Mty), "asks the oracle for .hessian"),
        (lambda p, o, s: type(s)(s.x, o.dual_step(s.x, s.y, s.x)[0], s.Mty), "prox step is Symbol"),
    ],
)
def test_a_step_that_mixes_lengths_is_refused_with_its_reason(wrong, reason):
    with pytest.raises(ValueError, match=reason):
        bind(with_step(wrong).from_theory(quadratic_problem(dapd.Zero())), "native")


def test_a_step_of_too_many_operations_is_left_to_python():
    problem = quadratic_problem(dapd.Zero())
    problem = dapd.Problem(problem.f, problem.M, problem.b, spectrum=dapd.Spectrum(1.0, 5 / LONGEST_STEP))
    runner = bind(dapd.METHODS["capd"].from_theory(problem))
    assert runner.engine == "python"
    assert f"more than {LONGEST_STEP:,} operations" in runner.reason


class Untyped(NamedTuple):
    x: Any
    y: Any
    Mty: Any


class Counting(NamedTuple):
    x: dapd.Primal
    y: dapd.Dual
    k: int


def begin(state):
    return lambda p, o, x, y: state(x, y, o.adjoint(y) if state is Untyped else 0)


def as_untyped(p, o, s):
    return Untyped(*papc_step(p, o, s))


def test_a_field_without_a_type_is_known_by_its_length_if_lengths_differ():
    cls = with_step(as_untyped, begin=begin(Untyped))
    zipped(quadratic_problem(dapd.L1(0.3)), "untyped", cls=cls, steps=20)
    square = quadratic_problem(dapd.L1(0.3), rows=6, columns=6)
    with pytest.raises(ValueError, match="field 'x' of its State is typed neither Primal nor Dual"):
        bind(cls.from_theory(square), "native")
    assert bind(cls.from_theory(square)).engine == "python"


def test_a_field_that_is_no_vector_is_left_to_python():
    def step(p, o, s):
        y, Mty = o.dual_step(p.s * s.x, s.y - p.s * o.b, p.s)
        return Counting(s.x - p.t * (o.grad(s.x) + Mty), y, s.k + 1)

    runner = bind(with_step(step, begin=begin(Counting)).from_theory(quadratic_problem(dapd.Zero())))
    assert runner.engine == "python"
    assert "field 'k'" in runner.reason
    runner.start()
    runner.advance(5, FOREVER)
    assert runner.state.k == 5


def test_a_point_that_is_computed_from_the_state():
    class Mine(dapd.METHODS["papc"]):
        @staticmethod
        def point(state):
            return 0.5 * (state.x + state.x), np.clip(state.y, -10, 10)

    problem = quadratic_problem(dapd.L1(0.3))
    runner = bind(Mine.from_theory(problem), "native")
    runner.start()
    runner.advance(5_000, FOREVER)
    np.testing.assert_allclose(runner.point()[0], problem.x_star, atol=1e-8)


@pytest.mark.parametrize("name", DETERMINISTIC)
def test_a_runner_leaves_a_state_alone_even_if_its_parts_share_memory(name):
    method = dapd.METHODS[name].from_theory(quadratic_problem(dapd.Zero()))
    runner = NativeRunner(method)
    state = method.init()
    kept, plain = [np.array(part) for part in state], PythonRunner(method)
    plain.start()
    for one in (runner, plain):
        one.state = state
        one.advance(20, FOREVER)
    for a, b in zip(runner.state, plain.state, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-13)
    assert all(np.array_equal(a, b) for a, b in zip(state, kept, strict=True))


# the tracer against plain execution, on random steps

FACTORS = [-1.0, -0.5, 0.0, 0.25, 0.5, 1.0]
index = st.integers(0, 99)
operation = st.one_of(
    st.tuples(
        st.just(COMBINE), st.booleans(), st.lists(st.tuples(index, st.sampled_from(FACTORS)), min_size=1, max_size=5)
    ),
    st.tuples(st.just(GRADIENT), index),
    st.tuples(st.just(DUAL_STEP), index, index, st.sampled_from([0.0, 0.5])),
)


def step_of(operations, ends, duals):
    """A step that does these operations on whatever there is, and returns whatever `ends` point at."""

    def step(p, o, s):
        pools = {False: [v for v, dual in zip(s, duals, strict=True) if not dual],
                 True: [v for v, dual in zip(s, duals, strict=True) if dual] + [o.b]}  # fmt: skip

        def pick(dual, k):
            return pools[dual][k % len(pools[dual])]

        for kind, *what in operations:
            if kind == COMBINE:
                dual, terms = what
                (k, factor), *rest = terms
                total = factor * pick(dual, k)
                for k, factor in rest:
                    total = total + factor * pick(dual, k)
                pools[dual].append(total)
            elif kind == GRADIENT:
                pools[False].append(o.grad(pick(False, what[0])))
            else:
                y, Mty = o.dual_step(pick(False, what[0]), pick(True, what[1]), what[2])
                pools[True].append(0.25 * y)
                pools[False].append(0.25 * Mty)
        return type(s)(*(pick(dual, k) for dual, k in zip(duals, ends, strict=True)))

    return step


@given(
    operations=st.lists(operation, max_size=12),
    duals=st.lists(st.booleans(), max_size=6),
    ends=st.lists(index, min_size=7, max_size=7),
    threads=st.sampled_from([1, 1, 2, 3]),
    variant=st.sampled_from(CORES or [None]),
    form=st.sampled_from(["dense", "columns", "tiles", "sorted", "runs"]),
)
def test_random_steps_run_native_as_in_python(operations, duals, ends, threads, variant, form):
    duals = [False, *duals]
    state = NamedTuple("State", [(f"f{k}", dapd.Dual if dual else dapd.Primal) for k, dual in enumerate(duals)])
    rng = np.random.default_rng(0)
    first = state(*(rng.standard_normal(5 if dual else 9) for dual in duals))
    step = step_of(operations, ends[: len(duals)], duals)
    cls = with_step(step, begin=lambda p, o, x, y: first)
    cls.point = staticmethod(lambda s: (s[0], s[0]))
    M = 0.3 * rng.standard_normal((5, 9))
    M = M if form == "dense" else np.asfortranarray(M) if form == "columns" else sp.csr_array(M)
    problem = dapd.Problem(dapd.PseudoHuber(0.5), M, np.ones(5), dapd.L1(0.1))
    method = cls(problem, dapd.theory.papc(L=1.0, mu=1.0, s_max=1.0))
    with forms(form):
        runner = NativeRunner(method, threads=threads, core=load(variant))
    program = runner.program
    fixed = len(duals) + 1  # registers of the state and of b
    assert sorted(program.next) == list(range(len(program.dual)))
    assert program.next[fixed - 1] == fixed - 1
    for instruction in program.instructions:
        assert instruction.out >= fixed
        assert instruction.second == -1 or instruction.second >= fixed
        assert len(instruction.terms) <= MOST
    runner.start()
    plain = first
    for some in (1, 1, 2, 3):
        assert runner.advance(some, FOREVER) == some
        for _ in range(some):
            plain = runner.method.step(plain)
        for a, b in zip(runner.state, plain, strict=True):
            assert np.abs(a - b).max() <= 1e-12 * (1 + np.abs(b).max())
