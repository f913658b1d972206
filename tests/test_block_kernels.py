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

import dapd
from block_instances import LITERAL, blocks_of, instance
from cores import CORES, assert_same_state, best, native, needs_core, on_each_core
from dapd.methods.base import copy_of

pytestmark = needs_core
NAMES = list(LITERAL)
BLOCKS = [slice(0, 7), slice(7, 20), slice(20, 21), slice(21, 40)]
ROWS = 12


@on_each_core
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("form", ["dense", "sparse", "mixed"])
@pytest.mark.parametrize("rows", [1, 3, 8, 15, 16, 17, 31, 40, 100, 700])
def test_steps_are_the_plain_ones_for_every_shape_of_a_block(rows, form, dtype, core):
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


@on_each_core
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
    expected = LITERAL[name](method, 2000)
    state = method.run(method.init(), 300)
    spent = method.oracle.counts.copy()
    plain = method.point(method.run(copy_of(state), 1700))
    for core in CORES.values():
        method.oracle.reset()
        runner = native(method, 300, core)
        assert_same_state(runner.state, state, 1e-12)
        assert runner.counts[1] == spent[1]
        assert runner.counts[0] == spent[0] if name != "y-sbc-dapd" else runner.counts[0] <= spent[0]
        runner.advance(1700)
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


@on_each_core
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
    points = [method.point(method.run(method.init(), 40_000))]
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
    assert runner.counts[0] >= 100_000_000
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


@on_each_core
def test_a_deadline_ends_a_run_between_two_iterations(core):
    runner = endless(core)
    done = runner.advance(10**12, perf_counter() + 0.02)
    assert 0 < done == runner.state.k
    assert runner.counts[0] == 4 * done + 5 * (done // runner.method.plan.period)
    again = endless(core)
    again.advance(done)
    assert_same_state(runner.state, again.state, 0.0)


@on_each_core
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
    assert again.counts[0] == runner.counts[0]
