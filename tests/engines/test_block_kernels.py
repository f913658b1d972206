"""The native block-coordinate loops against the plain steps and against the paper's algorithms written out."""

import itertools
import math
import signal
import threading
import tracemalloc
from time import perf_counter

import numpy as np
import pytest
import scipy.sparse as sp
from block_instances import LITERAL, blocks_of, instance
from cores import CORES, needs_core

import dapd
from dapd.engines.native.block_tables import NotNative, tabulate_blocks
from dapd.engines.native.blocks import BlockRunner
from dapd.functions.losses import LOGISTIC, SQUARE, LogisticLoss, Loss, PseudoHuberLoss, Square
from dapd.functions.terms import Terms
from dapd.methods.base import copy_of
from dapd.methods.block import draw, key_of

pytestmark = needs_core
NAMES = list(LITERAL)
BLOCKS = [slice(0, 7), slice(7, 20), slice(20, 21), slice(21, 40)]
ROWS = 12


@pytest.fixture(params=CORES)
def core(request):
    return CORES[request.param]


def best():
    """The variant that a solve would choose."""
    return next(iter(CORES.values()))


def native(method, steps, core):
    """A runner that has taken `steps` steps."""
    runner = BlockRunner(method, core)
    runner.start()
    assert runner.advance(steps) == steps
    return runner


def assert_same_state(found, wanted, tolerance):
    for name, a, b in zip(found._fields, found, wanted, strict=True):
        scale = np.max(np.abs(b), initial=0.0) if isinstance(b, np.ndarray) else 1.0
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * (scale + 1e-3), err_msg=name)


def splitmix64(word):
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    word = (word ^ (word >> 27)) * 0x94D049BB133111EB % 2**64
    return word ^ (word >> 31)


def test_draws_are_splitmix64_of_seed_and_iteration():
    for seed, k, purpose, count in itertools.product([0, 1, 2**70 + 5], [0, 1, 10**9], [0, 1, 2], [1, 7, 2000]):
        key = splitmix64(seed % 2**64)
        assert int(key_of(seed)) == key
        word = splitmix64((key + 0x9E3779B97F4A7C15 * (4 * k + purpose)) % 2**64)
        assert draw(key_of(seed), k, purpose, count) == ((word >> 32) * count) >> 32


def test_draws_are_uniform_and_independent():
    key, N, steps = key_of(3), 5, 100_000
    drawn = np.array([[draw(key, k, purpose, N) for purpose in range(3)] for k in range(steps)])
    cells = np.zeros((N, N, N))
    np.add.at(cells, tuple(drawn.T), 1)
    expected = steps / N**3
    # chi-square with 124 degrees of freedom: 5 standard deviations
    assert np.sum((cells - expected) ** 2 / expected) < 124 + 5 * np.sqrt(2 * 124)
    assert abs(np.corrcoef(drawn[1:, 0], drawn[:-1, 1])[0, 1]) < 5 / np.sqrt(steps)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("form", ["dense", "sparse", "mixed"])
@pytest.mark.parametrize("rows", [1, 3, 8, 15, 16, 17, 31, 40, 100, 700])
def test_steps_are_the_plain_ones_for_every_shape_of_a_block(rows, form, dtype):
    """Short and long columns, and every number of columns left over."""
    rng = np.random.default_rng(rows)
    blocks = [slice(int(a), int(b)) for a, b in itertools.pairwise(np.cumsum([0, 1, 2, 3, 4, 5, 8, 9, 13, 23]))]
    M = rng.standard_normal((rows, 68)) * (rng.uniform(size=(rows, 68)) < 0.6) / math.sqrt(rows)
    thin = {"dense": [], "sparse": range(9), "mixed": [1, 2, 6]}[form]
    parts = [M[:, block].astype(dtype) for block in blocks]
    M = dapd.ColumnBlocks([sp.csr_array(part) if i in thin else part for i, part in enumerate(parts)])
    problem = dapd.Problem(dapd.PseudoHuber(0.3), M, rng.standard_normal(rows).astype(dtype))
    start = {"x0": rng.standard_normal(68), "y0": rng.standard_normal(rows)}
    for name in NAMES:
        method = dapd.METHODS[name].from_theory(problem, spectrum=dapd.Spectrum(4.0, 0.5, 3.0), seed=5, **start)
        wanted = method.run(method.init(), 60)
        for core in CORES.values():
            assert_same_state(native(method, 60, core).state, wanted, 1e-12 if dtype == np.float64 else 2e-4)


def every_function(rng):
    """One of each kind for a block of five variables."""
    A, S = rng.standard_normal((8, 5)), sp.random_array((8, 5), density=0.5, rng=rng)
    H = A.T @ A + np.eye(5)
    signs = np.sign(rng.standard_normal(8))
    return [
        dapd.PseudoHuber(0.3),
        dapd.Quadratic(rng.uniform(1, 2, 5), rng.standard_normal(5)),
        dapd.Quadratic(H, rng.standard_normal(5)),
        dapd.Quadratic(sp.csr_array(H), rng.standard_normal(5)),
        dapd.LeastSquares(A, rng.standard_normal(8), 0.1),
        dapd.LeastSquares(S, rng.standard_normal(8), 0.1),
        dapd.Logistic(A, signs, 0.5),
        dapd.Logistic(S, signs, 0.5),
    ]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_block_gradients_are_those_of_the_functions(dtype, core):
    rng = np.random.default_rng(0)
    functions = every_function(rng)
    columns = 5 * len(functions)
    f = dapd.Separable(functions, sizes=[5] * len(functions))
    problem = dapd.Problem(f, rng.standard_normal((3, columns)).astype(dtype), np.ones(3, dtype))
    method = dapd.METHODS["x-sbc-dapd"].from_theory(problem, seed=0, x0=3 * rng.standard_normal(columns))
    state = native(method, 100, core).state
    tolerance = 1e-12 if dtype == np.float64 else 1e-5
    np.testing.assert_allclose(state.g, f.grad(state.z.astype(np.float64)), rtol=tolerance, atol=10 * tolerance)


def test_partial_gradients_are_parts_of_the_gradient():
    rng = np.random.default_rng(1)
    functions = every_function(rng)
    joined = dapd.Separable(functions, sizes=[5] * len(functions))
    x = rng.standard_normal(5 * len(functions))
    for block in joined.blocks:
        np.testing.assert_allclose(joined.block_grad(x, block), joined.grad(x)[block], rtol=1e-12)
    for f in functions:
        for block in (slice(0, 2), slice(2, 5)):
            np.testing.assert_allclose(f.block_grad(x[:5], block), f.grad(x[:5])[block], rtol=1e-12, atol=1e-14)


def separable_functions(rng):
    """f of each separable kind over BLOCKS."""
    sizes = [block.stop - block.start for block in BLOCKS]
    G = [rng.standard_normal((size + 2, size)) for size in sizes]
    H = [g.T @ g / (size + 2) + np.eye(size) for g, size in zip(G, sizes, strict=True)]
    diagonal = np.zeros((40, 40))
    for block, part in zip(BLOCKS, H, strict=True):
        diagonal[block, block] = part
    c = rng.standard_normal(40)
    mixed = [
        dapd.PseudoHuber(0.5),
        dapd.LeastSquares(sp.csr_array(G[1]), rng.standard_normal(len(G[1])), 0.2),
        dapd.Quadratic(np.array([2.0]), np.array([1.0])),
        dapd.Logistic(G[3], np.sign(rng.standard_normal(len(G[3]))), 1.0),
    ]
    return {
        "huber": dapd.PseudoHuber(0.3),
        "diagonal": dapd.Quadratic(rng.uniform(1, 9, 40), c),
        "block-diagonal": dapd.Quadratic(diagonal, c),
        "sparse block-diagonal": dapd.Quadratic(sp.csr_array(diagonal), c),
        "mixed": dapd.Separable(mixed, sizes=sizes),
    }


def coupled_functions(rng):
    A = rng.standard_normal((50, 40)) / 7
    S = sp.random_array((40, 40), density=0.05, rng=rng)
    return {
        "quadratic": dapd.Quadratic(A.T @ A + 0.1 * np.eye(40), rng.standard_normal(40)),
        "sparse quadratic": dapd.Quadratic(sp.csr_array(S @ S.T + sp.eye_array(40)), rng.standard_normal(40)),
        "least squares": dapd.LeastSquares(A, rng.standard_normal(50), 0.1),
        "sparse least squares": dapd.LeastSquares(sp.csr_array(A), rng.standard_normal(50), 0.1),
        "logistic": dapd.Logistic(A, np.sign(rng.standard_normal(50)), 0.3),
    }


CASES = [
    *itertools.product(NAMES, ["huber", "diagonal", "block-diagonal", "sparse block-diagonal", "mixed"]),
    *itertools.product(
        NAMES[2:], ["quadratic", "sparse quadratic", "least squares", "sparse least squares", "logistic"]
    ),
]


def make(function, form, rng):
    M = rng.standard_normal((ROWS, 40)) / 6
    f = {**separable_functions(rng), **coupled_functions(rng)}[function]
    b = M @ rng.standard_normal(40)
    if form == "sparse":
        M = sp.csr_array(M)
    elif form == "mixed":
        M = dapd.ColumnBlocks([sp.csr_array(M[:, s]) if i % 2 else M[:, s] for i, s in enumerate(BLOCKS)])
    return dapd.Problem(f, M, b, blocks=BLOCKS)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(("name", "function"), CASES)
def test_iterates_are_the_papers(name, function, shared):
    rng = np.random.default_rng(2)
    form = ["dense", "sparse", "mixed"][CASES.index((name, function)) % 3]
    problem = make(function, form, rng)
    start = {"x0": rng.standard_normal(40), "y0": rng.standard_normal(ROWS)}
    method = dapd.METHODS[name].from_theory(problem, seed=5, shared_sample=shared, **start)
    expected = LITERAL[name](method, 1000)
    state = method.run(method.init(), 300)
    spent = method.oracle.counts.copy()
    plain = method.point(method.run(copy_of(state), 700))
    for core in CORES.values():
        method.oracle.reset()
        runner = native(method, 300, core)
        assert_same_state(runner.state, state, 1e-12)
        assert runner.counts.gradients == spent[1]
        products = runner.counts.block_products
        assert products == spent[0] if name != "y-sbc-dapd" else products <= spent[0]
        runner.advance(700)
        for found, by_python, wanted in zip(runner.point(), plain, expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)
            np.testing.assert_allclose(by_python, wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_refresh_and_rebase_leave_the_iterates_as_they_are(name):
    """Past several refreshes, native, plain and literal agree."""
    problem, spectrum, _ = instance("huber", 30.0, 4.0, N=3)
    method = dapd.METHODS[name].from_theory(problem, spectrum=spectrum, seed=1)
    method.plan = method.plan._replace(period=70, rebase=50)
    expected, state = LITERAL[name](method, 300), method.run(method.init(), 300)
    np.testing.assert_allclose(method.point(state)[0], expected[0], rtol=1e-9, atol=1e-9)
    for core in CORES.values():
        assert_same_state(native(method, 300, core).state, state, 1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_iterates_do_not_depend_on_chunks_or_threads(name, core):
    problem, spectrum, _ = instance("huber", 100.0, 10.0, N=5)
    cls = dapd.METHODS[name]

    def points(*chunks):
        runner = native(cls.from_theory(problem, spectrum=spectrum, seed=11), 0, core)
        for chunk in chunks:
            runner.advance(chunk)
        return np.concatenate(runner.point()).tobytes()

    once = points(30_000)  # beyond several refreshes
    assert points(1, 999, 4_000, 25_000) == once
    found = []
    threads = [threading.Thread(target=lambda: found.append(points(30_000))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [once] * 4


@pytest.mark.parametrize("name", NAMES)
def test_maintained_products_do_not_drift_in_ten_million_iterations(name):
    problem, spectrum, _ = instance("huber", 10.0, 3.0, N=4)
    method = dapd.METHODS[name].from_theory(problem, spectrum=spectrum, seed=0)
    state = native(method, 10_000_000 - 1, best()).state  # the last iteration before a refresh: drift at its greatest
    p, M, x = method.parameters, problem.M.dense(), method.point(state)[0]
    if name == "y-sbc-dapd":
        kept, exact = state.forward, M @ (x - p.t * problem.f.grad(x))
    elif name == "x-sbc-dapd":
        kept, exact = state.Mx_hat, M @ (p.xi * state.z - (p.xi - 1) * x)
    else:
        kept, exact = state.Mc - state.reach * state.scale * state.Me, M @ x
    assert np.linalg.norm(kept - exact) <= 1e-12 * np.linalg.norm(exact)
    np.testing.assert_allclose(x, problem.x_star, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_float32_keeps_its_digits_native_and_plain(name):
    problem, spectrum, _ = instance("huber", 1e3, 3.0, N=4)
    single = dapd.Problem(
        problem.f, problem.M.dense().astype(np.float32), problem.b.astype(np.float32), blocks=problem.blocks
    )
    method = dapd.METHODS[name].from_theory(single, spectrum=spectrum, seed=0)
    points = [method.point(method.run(method.init(), 12_000))]  # past several refreshes
    for x, y in points + [native(method, 40_000, core).point() for core in CORES.values()]:
        assert x.dtype == y.dtype == np.float32
        assert np.linalg.norm(x - problem.x_star) <= 1e-4 * np.linalg.norm(problem.x_star)


def test_a_hundred_million_block_products_keep_memory_flat():
    problem = dapd.Problem(dapd.PseudoHuber(0.5), np.eye(2, 6), [1.0, 2.0], blocks=3)
    runner = native(dapd.METHODS["x-sbc-dapd"].from_theory(problem, seed=0), 1_000, best())
    tracemalloc.start()
    before = resident()
    for _ in range(50):
        runner.advance(500_000)
    grown = resident() - before
    traced = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert runner.counts.block_products >= 100_000_000
    assert grown < 2_000_000
    assert traced < 100_000


def resident():
    """Bytes of memory in use, or 0 where the system does not say."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096
    except FileNotFoundError:
        return 0


def test_blocks_of_the_instances_are_uneven():
    """The tests above mean nothing for unequal blocks otherwise."""
    assert len({b.stop - b.start for b in blocks_of(5)}) > 2


def endless(core):
    problem, spectrum, _ = instance("huber", 100.0, 10.0, N=5)
    return native(dapd.METHODS["x-sbc-dapd"].from_theory(problem, spectrum=spectrum, seed=3), 0, core)


def test_a_deadline_ends_a_run_between_two_iterations(core):
    runner = endless(core)
    done = runner.advance(10**12, perf_counter() + 0.02)
    assert 0 < done == runner.state.k
    assert runner.counts.block_products == 4 * done + 5 * (done // runner.method.plan.period)
    again = endless(core)
    again.advance(done)
    assert_same_state(runner.state, again.state, 0.0)


def test_ctrl_c_ends_a_run_and_leaves_a_true_state(core):
    runner, main = endless(core), threading.main_thread()
    timer = threading.Timer(0.1, lambda: signal.pthread_kill(main.ident, signal.SIGINT))
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            runner.advance(10**12)
    finally:
        timer.cancel()
    again = endless(core)
    again.advance(runner.state.k)
    assert_same_state(runner.state, again.state, 0.0)
    assert again.counts.block_products == runner.counts.block_products


def bound_to(f, M=None):
    M = np.random.default_rng(0).standard_normal((2, 6)) if M is None else M
    return dapd.METHODS["x-sbc-dapd-nonseparable"].from_theory(
        dapd.Problem(f, M, np.ones(2), blocks=3), spectrum=dapd.Spectrum(4.0, 0.5, 3.0), seed=0
    )


class Said(dapd.PseudoHuber):
    """A function that says what the test wants."""

    def __init__(self, terms):
        super().__init__(0.5)
        self.terms = terms

    def lowered(self):
        return self.terms

    def block_grad(self, x, block):
        return 2 * x[block]


class Hinge(Loss):
    """A loss that the core does not know."""


class Other(dapd.PseudoHuber):
    """A function with another gradient than the class that says what it is."""

    def grad(self, x):
        return 2 * x


def terms_with_everything(rng):
    A, H, d = rng.standard_normal((4, 6)), np.eye(6) + 0.1, rng.standard_normal(6)
    operator = dapd.LeastSquares(A, np.ones(4), 1.0).A
    c, diagonal = rng.standard_normal(6), rng.uniform(1, 2, 6)
    return [
        Terms(ridge=0.7, c=c),
        Terms(SQUARE, d=d, H=diagonal),
        Terms(LOGISTIC, d=np.sign(d), ridge=0.3, H=H, c=c),
        Terms(PseudoHuberLoss(0.2), d=d, ridge=0.4, H=sp.csr_array(H)),
        Terms(PseudoHuberLoss(0.3), A=operator, d=d[:4], ridge=0.5, H=diagonal, c=c),
        Terms(PseudoHuberLoss(0.3), A=operator, H=diagonal),
        Terms(SQUARE, A=operator, d=d[:4], ridge=0.1, H=H, c=c),
        Terms(SQUARE, A=operator, ridge=0.1),
    ]


def gradient(t, x):
    """∇f from its definition."""
    u = x if t.A is None else t.A.forward(x)
    shifted = u - (0 if t.d is None else t.d)
    slope = {
        type(None): lambda: 0 * u,
        Square: lambda: shifted,
        LogisticLoss: lambda: -t.d / (1 + np.exp(t.d * u)),
        PseudoHuberLoss: lambda: shifted / np.hypot(shifted, t.loss.e),
    }[type(t.loss)]()
    H = np.zeros((6, 6)) if t.H is None else np.diag(t.H) if t.H.ndim == 1 else t.H
    return (slope if t.A is None else t.A.adjoint(slope)) + t.ridge * x + H @ x - (0 if t.c is None else t.c)


@pytest.mark.parametrize("case", range(8))
def test_every_lowered_function_has_its_gradient(case, core):
    """Alone in one block, and, unless A and a matrix H both join the blocks, as an f of all of x."""
    t = terms_with_everything(np.random.default_rng(4))[case]
    f = dapd.Smooth(
        lambda x: 0.0, lambda x: gradient(t, x), 1.0, 4.0, size=6, block_grad=lambda x, b: gradient(t, x)[b]
    )
    M = np.random.default_rng(0).standard_normal((2, 6))
    spectrum = dapd.Spectrum(4.0, 0.5, 3.0)
    for name, g, blocks in (("x-sbc-dapd", dapd.Separable([f]), 1), ("x-sbc-dapd-nonseparable", f, 3)):
        plain = dapd.METHODS[name].from_theory(dapd.Problem(g, M, np.ones(2), blocks=blocks), spectrum=spectrum, seed=0)
        said = Said(t)
        method = dapd.METHODS[name](
            dapd.Problem(dapd.Separable([said], sizes=[6]) if blocks == 1 else said, M, np.ones(2), blocks=blocks),
            plain.parameters, seed=0,
        )  # fmt: skip
        if blocks == 3:
            method.functions = None
            if t.A is not None and t.H is not None and t.H.ndim == 2:
                with pytest.raises(NotNative, match="joins the blocks both"):
                    BlockRunner(method, core)
                continue
        runner = BlockRunner(method, core)
        runner.state = plain.init()
        runner.advance(100)
        assert_same_state(runner.state, plain.run(plain.init(), 100), 1e-11)


def test_what_is_not_known_is_refused_with_its_reason(core):
    free = dapd.LeastSquares(dapd.ColumnBlocks([np.ones((3, 6))]), np.ones(3), 1.0)
    mine = type("Mine", (dapd.METHODS["x-sbc-dapd"],), {"update": staticmethod(lambda p, o, s, drawn: None)})
    huber = dapd.Problem(dapd.PseudoHuber(0.5), np.eye(2, 6), np.ones(2), blocks=3)
    for method, reason in (
        (bound_to(Other(0.5)), "Other is only available in Python"),
        (bound_to(Said(Terms(Hinge()))), "the loss Hinge"),
        (bound_to(free), "the A of LeastSquares is only available as a product"),
        (mine.from_theory(huber, seed=0), "no loop for Mine"),
    ):
        with pytest.raises(NotNative, match=reason):
            BlockRunner(method, core)
    with pytest.raises(ValueError, match=r"Said.lowered\(\) has c of shape \(5,\), expected \(2,\)"):
        BlockRunner(bound_to(Said(Terms(ridge=1.0, c=np.ones(5)))), core)


def test_an_unknown_code_never_falls_through(core, monkeypatch):
    def forged(functions, blocks, dtype):
        table = tabulate_blocks(functions, blocks, dtype)
        return table._replace(loss=np.full_like(table.loss, 9))

    monkeypatch.setattr("dapd.engines.native.blocks.tabulate_blocks", forged)
    with pytest.raises(ValueError, match="unknown loss"):
        BlockRunner(bound_to(dapd.PseudoHuber(0.5)), core)
