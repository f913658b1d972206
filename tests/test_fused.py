"""One fused pass against two plain products, and compiled chunks against the same steps in Python."""

import os
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp

import dapd
from dapd.engines import compiled_engine, shares
from dapd.engines.compiled_engine import couple, engine
from dapd.engines.shares import scattered
from dapd.kernels import tiles
from dapd.kernels.coupling import Columns, Rows, Strip
from dapd.kernels.rows import tabulate
from dapd.kernels.tiles import Tiles
from instances import DETERMINISTIC, PHIS, quadratic_problem

SIZES = [
    (1, 1),
    (1, 9),
    (9, 1),
    (3, 5),
    (4, 4),
    (5, 17),
    (7, 3),
    (8, 64),
    (13, 31),
    (26, 45),
    (30, 512),
    (130, 67),
    (300, 512),
]
STEP = 0.7


def phis(rows):
    """Every φ that a table can hold, for so many rows."""
    rng = np.random.default_rng(rows)
    low, high = -rng.uniform(0, 1, rows), rng.uniform(0, 1, rows)
    low[::3], high[1::3] = -np.inf, np.inf
    simple = [
        dapd.Zero(),
        dapd.NonNegative(),
        dapd.Box(-0.3, 0.4),
        dapd.Box(low, high),
        dapd.Box(low, 1.0),
        dapd.Interval(-0.3, np.inf),
        dapd.Interval(low, high),
        dapd.L1(0.3),
        dapd.L1(np.abs(rng.standard_normal(rows))),
        dapd.GroupBall(0.5, rows),
        dapd.GroupBall(0.8, 1),
    ]
    if rows > 2:
        cut = [slice(0, 1), slice(1, rows - 1), slice(rows - 1, rows)]
        simple.append(dapd.GroupBall([0.4, 0.6, 0.8], cut))
        simple.append(dapd.Stack([dapd.Zero(), dapd.Box(low[1:], high[1:])], sizes=[1, rows - 1]))
        simple.append(dapd.Stack([dapd.L1(0.2), dapd.GroupBall(0.5, [slice(0, rows - 2)]), dapd.NonNegative()],
                                 sizes=[1, rows - 2, 1]))  # fmt: skip
    return simple + [dapd.Conjugate(phi) for phi in simple] + [dapd.Conjugate(dapd.Conjugate(simple[6]))]


def layouts(M):
    """The same matrix in every form that has a kernel."""
    yield M
    yield np.asfortranarray(M)
    yield sp.csr_array(M)


def check(M, phi, dtype=np.float64, threads=(1, 2, 3), tol=None):
    problem = dapd.Problem(dapd.PseudoHuber(1.0), M, np.zeros(M.shape[0], dtype), phi)
    rng = np.random.default_rng(1)
    v, base = rng.standard_normal(M.shape[1]).astype(dtype), rng.standard_normal(M.shape[0]).astype(dtype)
    y, Mty = problem.M.dual_step(v, base, problem.phi, STEP)
    tol = tol or 1e3 * np.finfo(dtype).eps
    for count in threads:
        crew = couple(problem, count)
        fast_y, fast_Mty = crew.dual_step(v, base, STEP)
        assert fast_y.dtype == fast_Mty.dtype == dtype
        scale = 1 + np.abs(problem.M.forward(np.abs(v))).max() + np.abs(y).sum()
        assert np.abs(fast_y - y).max() <= tol * scale
        assert np.abs(fast_Mty - Mty).max() <= tol * scale
    return crew.shares.matrices


@pytest.mark.parametrize("size", SIZES)
def test_one_pass_equals_two_products_for_every_phi_and_layout(size):
    M = np.random.default_rng(0).standard_normal(size)
    for phi in phis(size[0]):
        for form in layouts(M):
            check(form, phi)


@pytest.mark.parametrize("size", [(1, 9), (13, 31), (130, 67)])
def test_one_pass_in_float32(size):
    M = np.random.default_rng(0).standard_normal(size).astype(np.float32)
    for phi in phis(size[0]):
        for form in layouts(M):
            check(form, phi, np.float32)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_same_bits_wherever_in_a_cache_line_a_matrix_begins(dtype):
    rng = np.random.default_rng(0)
    for rows, columns in ((29, 71), (17, 16), (29, 33), (40, 160)):
        entries, v = rng.standard_normal(rows * columns).astype(dtype), rng.standard_normal(columns).astype(dtype)
        first = {}
        for offset in range(16):
            room = np.full(entries.size + 32, np.nan, dtype)  # what is beside M must not matter
            room[offset : offset + entries.size] = entries
            M = room[offset : offset + entries.size].reshape(rows, columns)
            check(M, dapd.NonNegative(), dtype)
            check(M.T, dapd.NonNegative(), dtype)
            for threads in (1, 2):
                crew = couple(dapd.Problem(dapd.PseudoHuber(1.0), M, np.zeros(rows, dtype)), threads)
                found = crew.dual_step(v, np.ones(rows, dtype), STEP)
                for one, other in zip(first.setdefault(threads, found), found, strict=True):
                    assert np.array_equal(one, other)


@pytest.mark.parametrize(
    ("rows", "columns", "kind"), [(20, 40, Strip), (20, 39, Rows), (200, 400, Strip), (600, 1200, Rows)]
)
def test_threads_share_columns_of_a_small_wide_matrix_and_rows_of_others(rows, columns, kind):
    problem = dapd.Problem(dapd.PseudoHuber(1.0), np.ones((rows, columns)), np.zeros(rows))
    assert {type(record) for record in couple(problem, 2).shares.matrices} == {kind}
    assert {type(record) for record in couple(problem, 1).shares.matrices} == {Rows}


def test_float32_matrix_with_float64_vectors_keeps_their_digits():
    M = np.random.default_rng(0).standard_normal((13, 31)).astype(np.float32)
    for form in (*layouts(M), dapd.Kronecker(M, 2), dapd.Kronecker(M, M[:2, :3]), dapd.BlockDiagonal([M, M[:2]])):
        check(form, dapd.L1(0.3), np.float64)
    wide = np.asfortranarray(np.ones((2, 5_000), np.float32))  # BLAS would have to mix
    problem = dapd.Problem(dapd.PseudoHuber(1.0), wide, np.ones(2), spectrum=dapd.Spectrum(100.0, 1.0))
    assert couple(problem, 1) is None
    assert dapd.solve(problem, "papc", max_iterations=10).iterations == 10


def test_empty_rows_and_columns_of_a_sparse_matrix():
    M = np.random.default_rng(0).standard_normal((12, 20))
    M[[0, 5, 6, 11]] = 0.0
    M[:, [0, 3, 19]] = 0.0
    for phi in phis(12):
        check(sp.csr_array(M), phi)
    empty = sp.csr_array((4, 7))
    check(empty, dapd.L1(0.3))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", [(1, 1), (1, 40), (40, 1), (50, 70), (90, 30)])
def test_tiles_equal_two_products(shape, dtype, monkeypatch):
    monkeypatch.setattr(shares, "scattered", lambda matrix: True)
    monkeypatch.setattr(shares, "SIDE", 16)  # many tiles, some of them empty
    monkeypatch.setattr(tiles, "SIDE", 16)
    rng = np.random.default_rng(0)
    for density in (0.0, 0.03, 0.3):
        M = sp.random_array(shape, density=density, format="csr", rng=rng, dtype=dtype)
        for phi in phis(shape[0]):
            assert {type(record) for record in check(M, phi, dtype)} == {Tiles}
        M.indices, M.indptr = M.indices.astype(np.int64), M.indptr.astype(np.int64)
        check(M, dapd.L1(0.3), dtype)


def test_tiles_are_for_large_matrices_whose_entries_are_far_apart():
    rng = np.random.default_rng(0)
    far = sp.random_array((2_000, 400_000), density=5e-4, format="csr", rng=rng)  # 200 a row, 2,000 columns apart
    assert not scattered(far)
    assert scattered(far[:, rng.permutation(400_000)])  # in no order within a row
    assert not scattered(sp.diags_array(np.ones((11, 50_000)), offsets=range(-5, 6), shape=(50_000, 50_000)).tocsr())
    assert scattered(sp.diags_array(np.ones((3, 200_000)), offsets=range(3), shape=(200_000, 200_000)).tocsr())
    assert not scattered(sp.random_array((1_000, 400_000), density=5e-4, format="csr", rng=rng))  # small


def test_chunks_with_tiles(monkeypatch):
    monkeypatch.setattr(shares, "scattered", lambda matrix: True)
    monkeypatch.setattr(shares, "SIDE", 3)
    monkeypatch.setattr(tiles, "SIDE", 3)
    problem = quadratic_problem(dapd.L1(0.3))
    sparse = dapd.Problem(problem.f, sp.csr_array(problem.M.matrix), problem.b, problem.phi)
    assert {type(share.M) for share in engine(sparse, 2).oracles} == {Tiles}
    zipped(sparse, "y-dapd")


def test_a_solve_with_tiles_is_the_plain_one():
    M = sp.diags_array([np.ones(100_000), np.full(99_999, 0.3), np.full(99_000, 0.1)], offsets=[0, 1, 1_000]).tocsr()
    problem = dapd.Problem(dapd.PseudoHuber(0.3), M, np.ones(100_000), spectrum=dapd.Spectrum(1.4, 0.6))
    assert {type(share.M) for share in dapd.METHODS["y-dapd"].from_theory(problem).packed.oracles} == {Tiles}
    fast, slow = (dapd.solve(problem, "y-dapd", tol=1e-8, engine=engine) for engine in ("numpy", "plain"))
    assert fast.converged
    assert np.abs(fast.x - slow.x).max() <= 1e-9


def test_sparse_matrix_with_64_bit_indices():
    M = sp.random_array((20, 30), density=0.2, format="csr", rng=np.random.default_rng(0))
    M.indices, M.indptr = M.indices.astype(np.int64), M.indptr.astype(np.int64)
    check(M, dapd.NonNegative())


def test_memory_layout_decides_the_kernel_and_nothing_is_copied():
    M = np.random.default_rng(0).standard_normal((6, 10))
    F, S = np.asfortranarray(M), sp.csr_array(M)
    for record in check(M, dapd.Zero()):
        assert isinstance(record, Rows)
        assert np.shares_memory(record.matrix, M)
    for record in check(F, dapd.Zero()):
        assert isinstance(record, Columns)
        assert np.shares_memory(record.transpose, F)
    for record in check(S, dapd.Zero()):
        assert np.shares_memory(record.values, S.data)
        assert np.shares_memory(record.indices, S.indices)


def test_read_only_matrix_is_taken_as_it_is():
    M = np.random.default_rng(0).standard_normal((6, 10))
    M.flags.writeable = False
    check(M, dapd.NonNegative())


def test_non_contiguous_matrix_takes_two_products_and_the_same_solution():
    problem = quadratic_problem(dapd.NonNegative())
    wide = np.zeros((6, 20))
    wide[:, ::2] = problem.M.matrix
    strided = dapd.Problem(problem.f, wide[:, ::2], problem.b, problem.phi)
    assert couple(strided, 1) is None
    assert np.allclose(dapd.solve(strided, tol=1e-9).x, problem.x_star, atol=1e-6)


class Own(dapd.L1):
    """A subclass may have another prox."""

    def prox(self, v, step):
        return np.clip(v, -1.0, 1.0)


def test_unknown_phi_is_left_to_python():
    for phi in (Own(0.1), dapd.Conjugate(Own(0.1)), dapd.Stack([dapd.Zero(), Own(0.1)], sizes=[3, 3])):
        assert tabulate(phi, 6, np.float64) is None
        assert not dapd.METHODS["papc"].from_theory(quadratic_problem(phi)).compiled


def test_nan_is_not_lost_in_a_prox():
    for phi in phis(9):
        crew = couple(dapd.Problem(dapd.PseudoHuber(1.0), np.eye(9), np.zeros(9), phi), 1)
        y, _ = crew.dual_step(np.full(9, np.nan), np.zeros(9), STEP)
        constant = np.isfinite(phi.prox(np.full(9, 3.0), STEP)) & np.isfinite(phi.prox(np.full(9, np.nan), STEP))
        assert np.isnan(y[~constant]).all()


def kronecker_problems():
    rng = np.random.default_rng(0)
    yield dapd.Kronecker(rng.standard_normal((3, 5)), 4), dapd.GroupBall(0.5, 4)
    yield dapd.Kronecker(rng.standard_normal((3, 5)), rng.standard_normal((2, 6))), dapd.L1(0.2)
    yield dapd.Kronecker(rng.standard_normal((3, 5)).T.copy().T, 1), dapd.NonNegative()
    yield dapd.BlockDiagonal(rng.standard_normal((4, 3, 5))), dapd.L1(0.2)
    yield dapd.BlockDiagonal(rng.standard_normal((4, 3, 5))), dapd.GroupBall(0.5, 3)
    yield dapd.BlockDiagonal(rng.standard_normal((4, 3, 5))), dapd.GroupBall(0.5, 2)  # groups across blocks
    yield dapd.BlockDiagonal([rng.standard_normal((k, k + 2)) for k in (1, 5, 2)]), dapd.Zero()


@pytest.mark.parametrize(("M", "phi"), list(kronecker_problems()))
def test_structured_couplings(M, phi):
    check(M, phi)


FUNCTIONS = {
    "pseudo-huber": lambda rng: dapd.PseudoHuber(0.3),
    "diagonal": lambda rng: dapd.Quadratic(np.linspace(1, 5, 10), rng.standard_normal(10)),
    "dense": lambda rng: dapd.Quadratic(np.diag(np.linspace(1, 5, 10)) + 0.1, rng.standard_normal(10)),
    "sparse": lambda rng: dapd.Quadratic(sp.diags_array(np.linspace(1, 5, 10)).tocsr(), rng.standard_normal(10)),
    "squares": lambda rng: dapd.LeastSquares(rng.standard_normal((15, 10)), rng.standard_normal(15), 0.5),
    "wide squares": lambda rng: dapd.LeastSquares(rng.standard_normal((4, 10)), rng.standard_normal(4), 0.5),
    "squares by columns": lambda rng: dapd.LeastSquares(rng.standard_normal((10, 15)).T, rng.standard_normal(15), 0.5),
    "sparse squares": lambda rng: dapd.LeastSquares(sp.csr_array(rng.standard_normal((15, 10))), np.ones(15), 0.5),
    "logistic": lambda rng: dapd.Logistic(rng.standard_normal((15, 10)), np.sign(rng.standard_normal(15)), 0.5),
    "separable": lambda rng: dapd.Separable([dapd.PseudoHuber(0.3), dapd.Quadratic(np.eye(4) + 1)], sizes=[6, 4]),
}


def zipped(problem, name, steps=200, tol=1e-10):
    """Compiled and plain states, zipped, on one thread and on several."""
    for threads in (1, 2, 3):
        zipped_on(threads, problem, name, steps, tol)


def zipped_on(threads, problem, name, steps, tol):
    rng = np.random.default_rng(7)
    spectrum = dapd.estimate_spectrum(problem.M, positive=True)
    given = {"spectrum": spectrum, "x0": rng.standard_normal(problem.columns)}
    method = dapd.METHODS[name].from_theory(problem, **given)
    plain = dapd.METHODS[name].from_theory(problem, engine="plain", **given)
    assert method.compiled
    assert not plain.compiled
    method.packed = engine(problem, threads)
    fast, slow = method.init(), plain.init()
    for _ in range(steps // 10):
        fast, slow = method.run(fast, 10), plain.run(slow, 10)
        assert type(fast) is type(slow)
        for a, b in zip(fast, slow, strict=True):
            assert a.dtype == b.dtype == problem.dtype
            assert np.linalg.norm(a - b) <= tol * max(np.linalg.norm(b), 1e-3)
    assert (method.oracle.products, method.oracle.gradients) == (plain.oracle.products, plain.oracle.gradients)


@pytest.mark.parametrize("name", DETERMINISTIC)
@pytest.mark.parametrize("phi", PHIS)
def test_compiled_chunks_are_the_plain_steps(name, phi):
    if not dapd.METHODS[name].any_phi and phi != "zero":
        return
    zipped(quadratic_problem(PHIS[phi]), name)


@pytest.mark.parametrize("name", ["x-dapd", "y-dapd", "capd"])
@pytest.mark.parametrize("f", ["pseudo-huber", "dense", "wide squares"])
def test_compiled_chunks_where_threads_share_columns(name, f):
    rng = np.random.default_rng(0)
    phi = dapd.Zero() if name == "capd" else dapd.GroupBall(0.5, 2)
    problem = dapd.Problem(FUNCTIONS[f](rng), rng.standard_normal((4, 10)), rng.standard_normal(4), phi)
    assert {type(share.M) for share in engine(problem, 2).oracles} == {Strip}
    zipped(problem, name)


@pytest.mark.parametrize("f", FUNCTIONS)
def test_compiled_gradient_of_every_function(f):
    rng = np.random.default_rng(0)
    problem = dapd.Problem(FUNCTIONS[f](rng), rng.standard_normal((6, 10)), rng.standard_normal(6), dapd.L1(0.3))
    zipped(problem, "x-dapd")


@pytest.mark.parametrize("name", DETERMINISTIC)
def test_compiled_chunks_in_float32(name):
    rng = np.random.default_rng(0)
    M = rng.standard_normal((6, 10)).astype(np.float32)
    f = dapd.Quadratic(np.linspace(1, 5, 10), rng.standard_normal(10))
    zipped(dapd.Problem(f, M, rng.standard_normal(6).astype(np.float32)), name, steps=20, tol=1e-4)


@pytest.mark.parametrize(("M", "phi"), list(kronecker_problems()))
def test_compiled_chunks_with_structured_couplings(M, phi):
    b = np.random.default_rng(0).standard_normal(M.shape[0])
    zipped(dapd.Problem(dapd.PseudoHuber(0.3), M, b, phi), "y-dapd")


@pytest.mark.parametrize("sparse", [False, True])
def test_threads_that_meet_in_the_gradient_alone(sparse):
    rng = np.random.default_rng(0)
    blocks = [rng.standard_normal((k % 5 + 1, k % 7 + 6)) for k in range(40)]
    M = dapd.BlockDiagonal(blocks)
    H = np.eye(M.shape[1]) + 1e-3 * np.ones((M.shape[1],) * 2)
    f = dapd.Quadratic(sp.csr_array(H) if sparse else H, rng.standard_normal(M.shape[1]))
    zipped(dapd.Problem(f, M, rng.standard_normal(M.shape[0]), dapd.NonNegative()), "papc")


def test_wide_matrix_in_columns():
    M = np.asfortranarray(np.random.default_rng(0).standard_normal((5, 1_500)))
    check(M, dapd.L1(0.3))
    zipped(dapd.Problem(dapd.PseudoHuber(0.3), M, np.ones(5), dapd.L1(0.3)), "x-dapd")


def test_sparse_and_fortran_ordered_chunks():
    problem = quadratic_problem(dapd.L1(0.3))
    for M in list(layouts(problem.M.matrix))[1:]:
        zipped(dapd.Problem(problem.f, M, problem.b, problem.phi), "x-dapd")


def test_a_function_of_the_users_keeps_the_fused_dual_step(monkeypatch):
    monkeypatch.setattr(compiled_engine, "VAST", 1)
    problem = quadratic_problem(dapd.L1(0.3), rows=60, columns=200)
    f = problem.f
    own = dapd.Problem(dapd.Smooth(f.value, f.grad, f.mu, f.L), problem.M, problem.b, problem.phi)
    method, plain = (dapd.METHODS["x-dapd"].from_theory(own, engine=engine) for engine in ("numpy", "plain"))
    assert not method.compiled
    assert method.oracle.crew is not None
    assert plain.oracle.crew is None
    a, b = method.run(method.init(), 50), plain.run(plain.init(), 50)
    assert np.allclose(a.x, b.x, rtol=1e-10, atol=1e-12)
    assert method.oracle.products == plain.oracle.products == 100


@pytest.mark.parametrize("name", DETERMINISTIC)
def test_run_leaves_the_state_alone_even_where_its_parts_share_memory(name):
    problem = quadratic_problem(dapd.Zero())
    method, plain = (dapd.METHODS[name].from_theory(problem, engine=engine) for engine in ("numpy", "plain"))
    state = plain.init()
    kept = [part.copy() for part in state]
    for a, b in zip(method.run(state, 20), plain.run(state, 20), strict=True):
        assert np.linalg.norm(a - b) <= 1e-10 * max(np.linalg.norm(b), 1e-3)
    assert all(np.array_equal(a, b) for a, b in zip(state, kept, strict=True))


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
@pytest.mark.parametrize("name", DETERMINISTIC)
def test_compiled_chunks_give_back_their_memory(name):
    rng = np.random.default_rng(0)
    M = rng.standard_normal((2, 20_000))
    problem = dapd.Problem(dapd.PseudoHuber(0.5), M, np.ones(2), spectrum=dapd.Spectrum(200.0, 20.0))
    method = dapd.METHODS[name].from_theory(problem)
    steps = 400 // method.iterations_per_step
    state = method.run(method.init(), steps)
    before = resident()
    method.run(state, steps)
    assert resident() - before < 40 * state.x.nbytes  # one vector an iteration would be 400


def resident():
    with open("/proc/self/status") as status:
        return 1024 * int(next(line for line in status if line.startswith("VmRSS")).split()[1])


def test_a_subclass_of_a_method_is_left_to_python():
    class Mine(dapd.METHODS["papc"]):
        pass

    assert not Mine.from_theory(quadratic_problem(dapd.Zero())).compiled


def test_capd_stops_in_the_middle_of_a_step_when_the_time_is_up():
    rng = np.random.default_rng(0)
    M = rng.standard_normal((300, 400))
    problem = dapd.Problem(dapd.PseudoHuber(0.1), M, rng.standard_normal(300), spectrum=dapd.Spectrum(40.0, 1e-3))
    result = dapd.solve(problem, "capd", tol=0, time_limit=0.3)
    assert result.status is dapd.Status.time_limit
    assert result.solve_time < 2.0


SCRIPT = """
import sys, numpy as np, dapd, numba
numba.set_num_threads(int(sys.argv[1]))
problem = dapd.experiments.compressed_sensing(0)
result = dapd.solve(problem, "y-dapd", tol=0, max_iterations=100_000, engine=sys.argv[2])
np.save(sys.argv[3], np.concatenate([result.x, result.y]))
"""


def test_long_run_agrees_with_the_plain_one_whatever_the_threads(tmp_path):
    env = {**os.environ, "NUMBA_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2"}
    found = {}
    for threads, kind in ((1, "numpy"), (2, "numpy"), (1, "plain")):
        path = tmp_path / f"{threads}{kind}.npy"
        subprocess.run([sys.executable, "-c", SCRIPT, str(threads), kind, str(path)], env=env, check=True)
        found[threads, kind] = np.load(path)
    plain = found.pop((1, "plain"))
    for compiled in found.values():
        assert np.linalg.norm(compiled - plain) <= 1e-9 * np.linalg.norm(plain)
