"""The native dual step, one pass over M, against two plain products: every kind of M and φ, variant, thread count."""

import numpy as np
import pytest
import scipy.sparse as sp
from dual_steps import FusedDualStep
from native_steps import STEP, STRUCTURED, check, problem_with
from scipy.sparse.linalg import aslinearoperator

import dapd
from dapd.engines.native import maps as records
from dapd.engines.native.layout import coupling
from dapd.engines.native.maps import fills_vectors, moves_on, scattered
from dapd.engines.protocol import NotNative
from dapd.machine.core import load, variants
from dapd.operators.base import Operator
from dapd.operators.factors import ScaledMap

SIZES = [(1, 1), (1, 9), (9, 1), (3, 5), (4, 4), (5, 17), (7, 3), (8, 64), (13, 31), (26, 45), (30, 512), (130, 67)]

pytestmark = pytest.mark.skipif(not variants(), reason="the native core was not built")


@pytest.fixture(params=variants())
def core(request):
    return load(request.param)


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
    return M, np.asfortranarray(M), sp.csr_array(M), dapd.RowBlocks([M, dapd.Identity(M.shape[1])])


def form(M, phi, dtype=np.float64):
    """How a sparse M is read by rows and by columns."""
    kind, record = coupling(problem_with(M, phi, dtype), 2)[0]
    assert kind == "two-way"
    return record[0]


def padded(phi, M):
    """φ for the rows of M, of which it knows the first ones."""
    rows = M.shape[0]
    known = phi.size or (rows if not isinstance(M, dapd.RowBlocks) else rows - M.shape[1])
    return phi if known == rows else dapd.Stack([phi, dapd.Box(-1.0, 1.0)], sizes=[known, rows - known])


def every_phi_and_layout(core, M):
    for k, phi in enumerate(phis(M.shape[0])):
        for form in layouts(M):
            check(core, form, padded(phi, form), M.dtype.type, threads=(1, 2 + k % 3))


@pytest.mark.parametrize("size", SIZES)
def test_one_pass_equals_two_products_for_every_phi_and_layout(core, size):
    every_phi_and_layout(core, np.random.default_rng(0).standard_normal(size))


@pytest.mark.parametrize("size", [(1, 9), (13, 31), (130, 67)])
def test_one_pass_in_float32(core, size):
    every_phi_and_layout(core, np.random.default_rng(0).standard_normal(size).astype(np.float32))


@pytest.mark.parametrize("size", [(7, 40), (60, 50), (300, 512)])
def test_every_number_of_threads_from_one_to_nine(core, size):
    M = np.random.default_rng(0).standard_normal(size)
    for form in layouts(M):
        check(core, form, dapd.L1(0.3), threads=range(1, 10))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_same_bits_wherever_in_a_cache_line_a_matrix_begins(core, dtype):
    rng = np.random.default_rng(0)
    for rows, columns in ((29, 71), (17, 16), (29, 33), (40, 160)):
        entries, v = rng.standard_normal(rows * columns).astype(dtype), rng.standard_normal(columns).astype(dtype)
        first = {}
        for offset in range(16):
            room = np.full(entries.size + 32, np.nan, dtype)  # what is beside M must not matter
            room[offset : offset + entries.size] = entries
            M = room[offset : offset + entries.size].reshape(rows, columns)
            check(core, M, dapd.NonNegative(), dtype, threads=(1, 2))
            check(core, M.T, dapd.NonNegative(), dtype, threads=(1, 2))
            for threads in (1, 2):
                fused = FusedDualStep(problem_with(M, dapd.Zero(), dtype), threads=threads, core=core)
                found = fused(v, np.ones(rows, dtype), STEP)
                for one, other in zip(first.setdefault(threads, found), found, strict=True):
                    assert np.array_equal(one, other)


def test_vectors_may_begin_anywhere_and_be_strided(core):
    rng = np.random.default_rng(0)
    M = rng.standard_normal((9, 21))
    problem = problem_with(M, dapd.L1(0.3))
    v, base = rng.standard_normal(21), rng.standard_normal(9)
    fused = FusedDualStep(problem, threads=1, core=core)
    first = fused(v, base, STEP)
    for offset in range(1, 9):
        room = np.full(64, np.nan)
        room[offset : offset + 21], room[offset + 30 : offset + 39] = v, base
        found = fused(room[offset : offset + 21], room[offset + 30 : offset + 39], STEP)
        assert all(np.array_equal(one, other) for one, other in zip(first, found, strict=True))
    wide = np.full(63, np.nan)
    wide[::3] = v
    assert np.array_equal(fused(wide[::3], base, STEP)[0], first[0])


def test_strided_views_of_a_matrix(core):
    wide = np.random.default_rng(0).standard_normal((14, 40))
    for view in (wide[:, ::2], wide[::2], wide[3:, 5:], wide[::-1], wide.T[::3, 2:]):
        check(core, view, dapd.NonNegative())


def test_big_endian_and_unaligned_matrices_are_read_right(core):
    M = np.random.default_rng(0).standard_normal((6, 10))
    unaligned = np.frombuffer(b"x" + M.tobytes(), np.uint8)[1:].view(np.float64).reshape(M.shape)
    for form in (M.astype(">f8"), unaligned):
        check(core, form, dapd.NonNegative())


def test_float32_matrix_with_float64_vectors_keeps_their_digits(core):
    M = np.random.default_rng(0).standard_normal((13, 31)).astype(np.float32)
    others = dapd.Kronecker(M, 2), dapd.Kronecker(M, M[:2, :3]), dapd.BlockDiagonal([M, M[:2]])
    for form in (*layouts(M), *others, np.asfortranarray(M[:2]), sp.csr_array(M[:, :3])):
        check(core, form, dapd.L1(0.3), np.float64)


def test_empty_rows_and_columns_of_a_sparse_matrix(core):
    M = np.random.default_rng(0).standard_normal((12, 20))
    M[[0, 5, 6, 11]] = 0.0
    M[:, [0, 3, 19]] = 0.0
    for phi in phis(12):
        check(core, sp.csr_array(M), phi)
    check(core, sp.csr_array((4, 7)), dapd.L1(0.3))


def test_a_matrix_without_rows(core):
    for M in (np.zeros((0, 7)), sp.csr_array((0, 7))):
        check(core, M, dapd.Zero())


@pytest.mark.parametrize("kind", ["tiles", "sorted"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", [(1, 1), (1, 40), (40, 1), (50, 70), (90, 30)])
def test_tiles_and_sorted_rows_equal_two_products(core, shape, dtype, kind, monkeypatch):
    monkeypatch.setattr(records, "scattered", lambda record, shape, threads: True)
    monkeypatch.setattr(records, "fills_vectors", lambda indptr, indices, columns: kind == "sorted")
    rng = np.random.default_rng(0)
    for density in (0.0, 0.03, 0.3):
        M = sp.random_array(shape, density=density, format="csr", rng=rng, dtype=dtype)
        for k, phi in enumerate(phis(shape[0])):
            assert form(M, phi, dtype) == kind
            check(core, M, phi, dtype, threads=(1, 2 + k % 3))
        check(core, dapd.RowBlocks([dapd.Identity(shape[1]), M, M]), dapd.L1(0.3), dtype, threads=(1, 2, 5))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_runs_equal_two_products(core, dtype, monkeypatch):
    monkeypatch.setattr(records, "moves_on", lambda indptr, indices: True)
    rng = np.random.default_rng(0)
    steps = sp.diags_array([-np.ones(8), np.ones(8)], offsets=[0, 1], shape=(8, 9))
    one = sp.eye_array(9)
    for M in (
        sp.vstack([sp.kron(steps, one), sp.kron(one, steps)]),  # differences in two directions
        sp.diags_array(rng.standard_normal((3, 40)), offsets=[-2, 0, 5], shape=(40, 40)),  # values of their own
        sp.diags_array([np.ones(9_000), np.full(9_000, -2.0), np.ones(9_000)], offsets=[0, 1, 2], shape=(9_000, 9_002)),
        sp.random_array((30, 50), density=0.1, rng=rng),  # no runs to speak of, and rows without entries
        sp.csr_array((5, 8)),
    ):
        M = sp.csr_array(M).astype(dtype)
        rows = M.shape[0]
        for k, phi in enumerate(phis(rows) if rows < 200 else [dapd.Zero(), dapd.Box(-0.3, 0.4)]):
            assert form(M, phi, dtype) == "runs"
            check(core, M, phi, dtype, threads=(1, 2 + k % 3))
        check(core, dapd.RowBlocks([M, dapd.Identity(M.shape[1]), M]), dapd.L1(0.3), dtype, threads=(1, 2, 5))


def test_runs_are_for_rows_that_move_on_by_a_column():
    def moves(M):
        M = sp.csr_array(M)
        return moves_on(M.indptr, M.indices)

    D, one = sp.diags_array([-np.ones(99), np.ones(99)], offsets=[0, 1], shape=(99, 100)), sp.eye_array(100)
    assert moves(sp.vstack([sp.kron(D, one), sp.kron(one, D)]))
    assert moves(sp.diags_array(np.ones((3, 5_000)), offsets=range(3), shape=(5_000, 5_000)))
    assert not moves(sp.diags_array(np.ones((3, 500)), offsets=range(3), shape=(500, 500)))  # small
    assert not moves(sp.kron(one, np.ones((10, 10))))
    assert not moves(sp.kron(sp.diags_array(np.ones((2, 3_000)), offsets=[0, 1]), np.ones((3, 1))))  # three rows alike
    short = sp.kron(sp.eye_array(1_000), sp.diags_array(np.ones((2, 9)), offsets=[0, 1], shape=(8, 9)))
    assert not moves(short)  # runs of 8
    empty = sp.csr_array((4_096, 5_000))
    assert not moves(sp.vstack([empty, sp.csr_array(np.ones((1, 5_000)))]))


def test_tiles_of_a_matrix_with_more_rows_and_columns_than_one_holds(core):
    shape = (70_001, 110_000)
    M = sp.random_array(shape, density=5e-5, format="csr", rng=np.random.default_rng(0))
    phi = dapd.Stack([dapd.GroupBall(0.5, 3), dapd.L1(0.2)], sizes=[3_000, None])
    assert form(M, phi) == "tiles"
    check(core, M, phi, threads=(1, 3))
    tall = dapd.GroupBall(0.5, [slice(0, 70_000), slice(70_000, 70_001)])  # a group that no tile holds
    assert coupling(problem_with(M, tall), 1)[0][0] == "csr"
    check(core, M, tall, threads=(1, 2))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_sorted_rows_of_several_panels(core, dtype):
    rng = np.random.default_rng(0)
    ends = np.sort(rng.integers(9_000, size=(2, 40_000)), axis=0)
    entries = rng.standard_normal(80_000).astype(dtype)
    M = sp.csr_array((entries, (ends.ravel(), np.tile(np.arange(40_000), 2))), shape=(9_000, 40_000))
    phi = dapd.Stack([dapd.GroupBall(0.5, 3), dapd.L1(0.2)], sizes=[3_000, None])
    assert form(M, phi, dtype) == "sorted"
    check(core, M, phi, dtype, threads=(1, 3))
    bounded = dapd.RowBlocks([M, dapd.Identity(40_000)])
    check(core, bounded, dapd.Stack([phi, dapd.Box(-0.3, 0.4)], sizes=[9_000, 40_000]), dtype, threads=(1, 2))


def test_tiles_and_sorted_rows_on_one_another_cut_columns_at_the_same_places(core, monkeypatch):
    monkeypatch.setattr(records, "scattered", lambda record, shape, threads: True)
    monkeypatch.setattr(records, "fills_vectors", lambda indptr, indices, columns: indptr.size == 41)
    rng = np.random.default_rng(0)
    A, B = (sp.random_array((rows, 9_001), density=0.01, format="csr", rng=rng) for rows in (40, 60))
    for parts in ([A, B], [B, A], [A, dapd.Identity(9_001), A]):
        check(core, dapd.RowBlocks(parts), dapd.L1(0.3), threads=(1, 2, 3, 5))


def test_rows_are_sorted_if_they_fill_vectors():
    def sorts(M):
        return fills_vectors(M.indptr, M.indices, M.shape[1])

    rng = np.random.default_rng(0)
    assert sorts(sp.random_array((40_000, 90_000), density=5e-5, format="csr", rng=rng))
    assert not sorts(sp.random_array((40_000, 200_000), density=5e-5, format="csr", rng=rng))  # x is not near
    assert not sorts(sp.random_array((40, 90_000), density=1e-2, format="csr", rng=rng))  # long rows
    assert not sorts(sp.random_array((40, 200), density=0.1, format="csr", rng=rng))  # few of each length


def test_tiles_are_for_large_matrices_whose_entries_are_far_apart():
    rng = np.random.default_rng(0)

    def tiles(M, threads=1):
        return scattered(dapd.Problem(dapd.PseudoHuber(1.0), M, np.zeros(M.shape[0])).M.lowered(), M.shape, threads)

    far = sp.random_array((2_000, 400_000), density=5e-4, format="csr", rng=rng)  # 200 per row, 2,000 columns apart
    assert not tiles(far)
    assert tiles(far, threads=2)  # each thread would need a sum as long as x
    jumping = sp.csr_array((far.data, rng.permutation(400_000)[far.indices], far.indptr), shape=far.shape)
    assert scattered(("csr", jumping.indptr, jumping.indices, jumping.data), far.shape, 1)  # in no order within a row
    assert not tiles(sp.diags_array(np.ones((11, 50_000)), offsets=range(-5, 6), shape=(50_000, 50_000)).tocsr())
    assert tiles(sp.diags_array(np.ones((3, 200_000)), offsets=range(3), shape=(200_000, 200_000)).tocsr())
    assert not tiles(sp.random_array((1_000, 400_000), density=5e-4, format="csr", rng=rng))  # small
    assert tiles(sp.random_array((40_000, 100_000), density=5e-5, format="csr", rng=rng))  # 2 per column


@pytest.mark.parametrize(("size", "kind"), [(50_000, "sorted"), (110_000, "tiles")])
def test_a_solve_with_scattered_entries_is_the_plain_one(size, kind):
    M = sp.diags_array([np.ones(size), np.full(size - 1, 0.3), np.full(size - 1_000, 0.1)], offsets=[0, 1, 1_000])
    M = M.tocsr()[np.random.default_rng(0).permutation(size)]
    problem = dapd.Problem(dapd.PseudoHuber(0.3), M, np.ones(size), spectrum=dapd.Spectrum(1.4, 0.6))
    assert coupling(problem, 1)[0][1][0] == kind
    fast, slow = (dapd.solve(problem, "y-dapd", tol=1e-8, engine=engine) for engine in ("native", "python"))
    assert fast.converged
    assert np.abs(fast.x - slow.x).max() <= 1e-9


def test_sparse_matrix_with_64_bit_indices(core):
    M = sp.random_array((20, 30), density=0.2, format="csr", rng=np.random.default_rng(0))
    M.indptr = M.indptr.astype(np.int64)
    check(core, M, dapd.NonNegative())  # one of the two only
    M.indices = M.indices.astype(np.int64)
    check(core, M, dapd.NonNegative())


class LongIndices(Operator):
    """A sparse matrix as an operator of the caller's own, which hands over indices of 64 bits."""

    def __init__(self, matrix):
        self.matrix, self.shape, self.dtype = matrix, matrix.shape, matrix.dtype

    def forward(self, x):
        return self.matrix @ x

    def adjoint(self, y):
        return self.matrix.T @ y

    def lowered(self):
        return "csr", *(part.astype(np.int64) for part in (self.matrix.indptr, self.matrix.indices)), self.matrix.data


def test_indices_of_64_bits_are_shortened_if_they_can_be(core, monkeypatch):
    size = 3_000
    M = sp.diags_array([np.ones(size), np.full(size - 1, 0.3)], offsets=[0, 1]).tocsr()
    assert form(LongIndices(M), dapd.Zero()) == "runs"
    check(core, LongIndices(M), dapd.NonNegative())
    monkeypatch.setattr(records, "short_indices", lambda *indices: indices)  # as if there were too many entries
    assert coupling(problem_with(LongIndices(M), dapd.Zero()), 1)[0][0] == "csr"
    check(core, LongIndices(M), dapd.NonNegative())


@pytest.mark.parametrize(
    ("rows", "columns", "threads", "kind"),
    [
        (20, 40, 2, "strips"),
        (20, 40, 1, "dense"),
        (20, 39, 2, "dense"),
        (200, 400, 2, "strips"),
        (600, 1200, 2, "dense"),
    ],
)
def test_threads_share_columns_of_a_small_wide_matrix_and_rows_of_others(rows, columns, threads, kind):
    assert coupling(problem_with(np.ones((rows, columns)), dapd.Zero()), threads)[0][0] == kind


def test_wide_matrix_in_columns(core):
    M = np.asfortranarray(np.random.default_rng(0).standard_normal((5, 1_500)))
    assert coupling(problem_with(M, dapd.Zero()), 1)[0][0] == "strips"
    for phi in phis(5):
        check(core, M, phi)


def test_memory_layout_decides_the_kernel_and_nothing_is_copied():
    M = np.random.default_rng(0).standard_normal((6, 10))
    F, S = np.asfortranarray(M), sp.csr_array(M)
    kind, entries, transposed = coupling(problem_with(M, dapd.Zero()), 1)[0]
    assert (kind, transposed) == ("dense", False)
    assert np.shares_memory(entries, M)
    kind, entries, transposed = coupling(problem_with(F, dapd.Zero()), 1)[0]
    assert (kind, transposed) == ("dense", True)
    assert np.shares_memory(entries, F)
    kind, indptr, indices, values = coupling(problem_with(S, dapd.Zero()), 1)[0]
    assert kind == "csr"
    assert np.shares_memory(values, S.data)
    assert np.shares_memory(indices, S.indices)
    assert np.shares_memory(indptr, S.indptr)


def test_read_only_matrix_is_taken_as_it_is(core):
    M = np.random.default_rng(0).standard_normal((6, 10))
    M.flags.writeable = False
    assert np.shares_memory(coupling(problem_with(M, dapd.Zero()), 1)[0][1], M)
    check(core, M, dapd.NonNegative())


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", STRUCTURED)
def test_structured_couplings(core, name, dtype):
    M, phi = STRUCTURED[name]
    check(core, M, phi, np.float64, threads=(1, 2, 3, 4, 7))
    if dtype == np.float32:
        check(core, in_float32(M), phi, np.float32, threads=(1, 2, 3, 4, 7))


def in_float32(M):
    if isinstance(M, dapd.Kronecker):
        B = M.shape[0] // len(M.A) if M.B is None else M.B.astype(np.float32)
        return dapd.Kronecker(M.A.astype(np.float32), B)
    if isinstance(M, dapd.BlockDiagonal):
        return dapd.BlockDiagonal([matrix.astype(np.float32) for matrix in M.matrices])
    parts = [part if isinstance(part, dapd.Identity) else part.matrix.astype(np.float32) for part in M.operators]
    return dapd.RowBlocks(parts)


def test_a_group_with_rows_in_two_stacked_blocks_is_left_to_python():
    rng = np.random.default_rng(0)
    M = dapd.RowBlocks([rng.standard_normal((3, 8)), rng.standard_normal((5, 8))])
    problem = problem_with(M, dapd.GroupBall(0.5, 2))
    with pytest.raises(NotNative, match="rows in two of the blocks"):
        coupling(problem, 1)
    result = dapd.solve(problem, "papc", spectrum=dapd.Spectrum(6.0, 1.0))
    assert result.converged
    assert result.engine == "python"
    assert "rows in two of the blocks" in result.engine.reason


def test_identity_as_a_coupling_of_its_own(core):
    for form in (dapd.Identity(9), dapd.Identity(9, rows=4, start=3)):
        check(core, form, dapd.Box(-0.2, 0.3))


class Own(dapd.L1):
    """A subclass may have another prox."""

    def prox(self, v, step):
        return np.clip(v, -1.0, 1.0)


def test_a_prox_that_only_python_knows_is_called(core):
    M = np.random.default_rng(0).standard_normal((6, 10))
    for phi in (Own(0.1), dapd.Conjugate(Own(0.1)), dapd.Stack([dapd.Zero(), Own(0.1)], sizes=[3, 3])):
        check(core, M, phi)


def test_a_map_that_only_python_knows_is_refused_by_name():
    M = np.random.default_rng(0).standard_normal((6, 10))
    for form in (
        aslinearoperator(M),
        dapd.ColumnBlocks([M[:, :4], aslinearoperator(M[:, 4:])]),
        dapd.RowBlocks([M, aslinearoperator(M)]),
        dapd.RowBlocks([Doubled([M])]),
        dapd.ColumnBlocks([Doubled([M])]),
    ):
        with pytest.raises(NotNative, match="whose products are only available in Python"):
            FusedDualStep(problem_with(form, dapd.Zero()))


class Doubled(dapd.BlockDiagonal):
    """A subclass may have other products."""

    def forward(self, x):
        return 2 * super().forward(x)

    def adjoint(self, y):
        return 2 * super().adjoint(y)


def composed(dtype):
    """Maps that are made of others, and have no kernel of their own."""
    rng = np.random.default_rng(5)

    def random(*shape):
        return rng.standard_normal(shape).astype(dtype)

    product, blocks = dapd.Kronecker(random(3, 4), random(2, 5)), dapd.BlockDiagonal([random(2, 8), random(4, 12)])
    thin = sp.random_array((6, 5), density=0.4, rng=rng, dtype=dtype, format="csr")
    scales = rng.uniform(1, 2, 6), rng.uniform(1, 2, 20)
    return {
        "Kronecker above bounds": dapd.RowBlocks([product, dapd.Identity(20)]),
        "blocks above bounds": dapd.RowBlocks([blocks, dapd.Identity(20)]),
        "columns above bounds": dapd.RowBlocks([dapd.ColumnBlocks([random(6, 4), random(6, 16)]), dapd.Identity(20)]),
        "stacks in a stack": dapd.RowBlocks([dapd.RowBlocks([product, blocks]), dapd.Identity(20), blocks]),
        "dense beside sparse": dapd.ColumnBlocks([random(6, 4), thin]),
        "Kronecker beside an identity": dapd.ColumnBlocks([product, dapd.Identity(6)]),
        "scaled Kronecker": ScaledMap(product, *scales),
        "scaled columns": ScaledMap(dapd.ColumnBlocks([random(6, 15), thin]), *scales),
    }


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", composed(np.float64))
def test_maps_made_of_others(core, name, dtype):
    M = composed(dtype)[name]
    for phi in (dapd.Zero(), dapd.Box(-0.2, 0.3), dapd.Interval(-0.1, 0.2)):
        check(core, M, phi, dtype)


@pytest.mark.parametrize(
    "M",
    [
        dapd.Kronecker(np.vander(np.linspace(0.5, 1.0, 3), 4), np.vander(np.linspace(0.3, 1.0, 2), 5)),
        dapd.BlockDiagonal([np.vander(np.linspace(0.5, 1.0, 3), 10), np.eye(3, 10)]),
        dapd.ColumnBlocks([np.vander(np.linspace(0.5, 1.0, 6), 8), sp.eye_array(6, 12).tocsr()]),
    ],
    ids=lambda M: type(M).__name__,
)
def test_structure_beside_bounds_is_solved_by_the_core(M):
    x = np.linspace(-0.2, 0.2, 20)
    problem = dapd.Problem(dapd.Quadratic(np.linspace(1, 2, 20)), M, M.forward(x), bounds=(-0.2, 0.2))
    result = dapd.solve(problem, engine="native", tol=1e-8)
    assert result.converged
    assert result.engine == "native"
    assert result.x == pytest.approx(dapd.solve(problem, engine="python", tol=1e-8).x, abs=1e-6)


def test_structure_that_is_too_large_for_one_matrix_is_named_with_what_to_do(monkeypatch):
    product = dapd.Kronecker(np.ones((8, 8)), np.ones((8, 8)))
    problem = dapd.Problem(dapd.Quadratic(np.ones(64)), product, np.ones(64), dapd.NonNegative(), bounds=(-1, 1))
    monkeypatch.setattr("dapd.engines.FORMED", 4_000)
    monkeypatch.setattr("dapd.engines.FEW", 4_000)
    message = r"has Kronecker\(64 × 64, float64\), which .* as one matrix .* more than 4,000 entries; use engine='auto'"
    with pytest.raises(ValueError, match=message):
        dapd.solve(problem, "papc", engine="native")
    result = dapd.solve(problem, "papc", spectrum=dapd.Spectrum(64.0, 0.0))
    assert result.engine == "python"
    assert "Kronecker(64 × 64" in result.engine.reason


def test_a_least_squares_f_with_structure_runs_in_the_core():
    A = dapd.Kronecker(np.vander(np.linspace(0.5, 1.0, 3), 2), 2)
    problem = dapd.Problem(dapd.LeastSquares(A, np.arange(6.0), 0.1), np.ones((1, 4)), [1.0])
    result = dapd.solve(problem, engine="native")
    assert result.converged
    assert result.x == pytest.approx(dapd.solve(problem, engine="python").x, abs=1e-5)


def test_nan_is_not_lost_in_a_prox(core):
    for phi in phis(9):
        fused = FusedDualStep(problem_with(np.eye(9), phi), threads=1, core=core)
        y, _ = fused(np.full(9, np.nan), np.zeros(9), STEP)
        constant = np.isfinite(phi.prox(np.full(9, 3.0), STEP)) & np.isfinite(phi.prox(np.full(9, np.nan), STEP))
        assert np.isnan(y[~constant]).all()


def test_infinite_numbers_go_through_a_prox_as_in_numpy(core):
    for phi in phis(9):
        if isinstance(phi, dapd.GroupBall) or "GroupBall" in repr(phi):
            continue  # inf/inf
        fused = FusedDualStep(problem_with(np.zeros((9, 2)), phi), threads=1, core=core)
        base = np.array([np.inf, -np.inf] * 4 + [np.inf])
        with np.errstate(invalid="ignore"):
            plain = phi.prox(base, STEP)
        y, _ = fused(np.zeros(2), base, STEP)
        known = np.isfinite(plain)
        assert np.array_equal(y[known], plain[known])


def test_a_vector_of_another_length_is_an_error(core):
    fused = FusedDualStep(problem_with(np.ones((3, 5)), dapd.Zero()), core=core)
    with pytest.raises(ValueError, match="another length"):
        fused(np.ones(4), np.ones(3), STEP)


def test_an_unknown_code_of_phi_is_an_error(core):
    step = FusedDualStep(problem_with(np.ones((3, 5)), dapd.Zero()), core=core)
    step.phi = step.phi._replace(code=np.array([99], np.uint8))
    with pytest.raises(ValueError, match="unknown code"):
        step.bound(STEP)


def test_an_unknown_variant_is_an_error_that_lists_the_known_ones(monkeypatch):
    load.cache_clear()
    monkeypatch.setenv("DAPD_SIMD", "mmx")
    with pytest.raises(ValueError, match=f"DAPD_SIMD must be one of {variants()[0]}"):
        load()
    load.cache_clear()
