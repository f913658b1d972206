"""Compiled kernels against their plain twins and against the paper's algorithms written out word for word."""

import itertools
import threading
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

import dapd
from block_instances import LITERAL, blocks_of, instance
from dapd.kernels import block_function, block_matrix
from dapd.kernels.draw import draw, key_of

NAMES = list(LITERAL)
BLOCKS = [slice(0, 7), slice(7, 20), slice(20, 21), slice(21, 40)]
ROWS = 12


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
def test_block_products_are_those_of_numpy(form, dtype):
    rng = np.random.default_rng(0)
    M = rng.standard_normal((ROWS, 40)) * (rng.uniform(size=(ROWS, 40)) < 0.4)
    cut = [M[:, block] for block in BLOCKS]
    thin = {"dense": [], "sparse": [0, 1, 2, 3], "mixed": [1, 2]}[form]
    B = block_matrix.pack([sp.csr_array(piece) if i in thin else piece for i, piece in enumerate(cut)], dtype)
    y, tolerance = rng.standard_normal(ROWS).astype(dtype), 100 * np.finfo(dtype).eps
    for i, piece in enumerate(cut):
        v = rng.standard_normal(piece.shape[1]).astype(dtype)
        out, total, squared = np.zeros_like(v), y.copy(), y.copy()
        block_matrix.dots(B, i, y, out)
        block_matrix.add(B, i, v, total)
        np.testing.assert_allclose(out, piece.T @ y, rtol=tolerance, atol=tolerance)
        block_matrix.add_square(B, i, y, v, squared)
        np.testing.assert_allclose(total, y + piece @ v, rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(squared, y + piece @ (piece.T @ y + v), rtol=100 * tolerance, atol=100 * tolerance)
    x, out = rng.standard_normal(40).astype(dtype), np.ones(ROWS, dtype)
    block_matrix.product(B, x, out)
    np.testing.assert_allclose(out, M @ x, rtol=10 * tolerance, atol=10 * tolerance)


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


def test_block_gradients_are_those_of_the_functions():
    rng = np.random.default_rng(0)
    functions = every_function(rng)
    blocks = [slice(5 * i, 5 * i + 5) for i in range(len(functions))]
    table = block_function.tabulate(functions, blocks, np.float64)
    for i, f in enumerate(functions):
        z, out = 3 * rng.standard_normal(5), np.empty(5)
        block_function.block_grad(table, i, z, out, np.empty(8))
        np.testing.assert_allclose(out, f.grad(z), rtol=1e-12, atol=1e-12)


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
def test_compiled_iterates_are_the_papers(name, function, shared):
    rng = np.random.default_rng(2)
    form = ["dense", "sparse", "mixed"][CASES.index((name, function)) % 3]
    problem = make(function, form, rng)
    start = {"x0": rng.standard_normal(40), "y0": rng.standard_normal(ROWS)}
    method = dapd.METHODS[name].from_theory(problem, seed=5, shared_sample=shared, **start)
    assert method.compiled
    expected = LITERAL[name](method, 2000)
    for state in (method.run(method.init(), 2000), method.run_plain(method.init(), 2000)):
        for found, wanted in zip(method.point(state), expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_refresh_and_rebase_leave_the_iterates_as_they_are(name):
    """Past several refreshes, compiled, plain and literal agree."""
    problem, spectrum, _ = instance("huber", 30.0, 4.0, N=3)
    method = dapd.METHODS[name].from_theory(problem, spectrum=spectrum, seed=1)
    method.plan = method.plan._replace(period=70, rebase=50)
    expected = LITERAL[name](method, 300)
    for state in (method.run(method.init(), 300), method.run_plain(method.init(), 300)):
        np.testing.assert_allclose(method.point(state)[0], expected[0], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_iterates_do_not_depend_on_chunks_or_threads(name):
    problem, spectrum, _ = instance("huber", 100.0, 10.0, N=5)
    cls = dapd.METHODS[name]

    def points(*chunks):
        method = cls.from_theory(problem, spectrum=spectrum, seed=11)
        state = method.init()
        for chunk in chunks:
            state = method.run(state, chunk)
        return np.concatenate(method.point(state)).tobytes()

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
    state = method.run(method.init(), 10_000_000 - 1)  # the last iteration before a refresh: drift at its greatest
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
def test_float32_keeps_its_digits_compiled_and_plain(name):
    problem, spectrum, _ = instance("huber", 1e3, 3.0, N=4)
    single = dapd.Problem(
        problem.f, problem.M.dense().astype(np.float32), problem.b.astype(np.float32), blocks=problem.blocks
    )
    method = dapd.METHODS[name].from_theory(single, spectrum=spectrum, seed=0)
    for run in (method.run, method.run_plain):
        x, y = method.point(run(method.init(), 40_000))
        assert x.dtype == y.dtype == np.float32
        assert np.linalg.norm(x - problem.x_star) <= 1e-4 * np.linalg.norm(problem.x_star)


def test_a_hundred_million_block_products_keep_memory_flat():
    problem = dapd.Problem(dapd.PseudoHuber(0.5), np.eye(2, 6), [1.0, 2.0], blocks=3)
    method = dapd.METHODS["x-sbc-dapd"].from_theory(problem, seed=0)
    state = method.run(method.init(), 1_000)
    tracemalloc.start()
    before = resident()
    for _ in range(50):
        state = method.run(state, 500_000)
    grown = resident() - before
    traced = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert method.oracle.block_products >= 100_000_000
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
