"""Sparse matrices: structure and factors instead of dense linear algebra, and deadlines."""

import math
import time

import numpy as np
import pytest
import scipy.sparse as sp
from known_spectra import differences, incidence
from scipy.sparse.linalg import LinearOperator, aslinearoperator
from threadpoolctl import threadpool_info, threadpool_limits

import dapd
from dapd.arguments import TimeUp
from dapd.machine.blas import MANY, single_blas
from dapd.operators.convert import as_operator
from dapd.operators.explicit import Dense, Sparse
from dapd.spectrum import exact as exact_module
from dapd.spectrum.estimate import (
    estimate_norm,
    estimate_range,
    singular_range,
    symmetric_extremes,
    with_block_norm,
)


@pytest.fixture
def no_dense_algebra(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("a sparse matrix was made dense")

    for name in ("eigvalsh", "svdvals"):
        monkeypatch.setattr(exact_module.scipy.linalg, name, refuse)


def assert_safe_and_close(found, s_max, s_min, within=0.05):
    assert found.resolved
    assert s_max * (1 - 1e-12) <= found.s_max <= s_max * (1 + within)
    assert s_min * (1 - within) <= found.s_min <= s_min * (1 + 1e-12)


@pytest.mark.usefixtures("no_dense_algebra")
class TestStructure:
    @pytest.mark.parametrize("positive", [False, True])
    def test_identity_and_permuted_diagonal_cost_no_product(self, positive):
        values = np.random.default_rng(0).uniform(0.1, 3.0, 2_000)
        where = np.random.default_rng(1).permutation(5_000)[:2_000]
        M = sp.csr_array((values, (np.arange(2_000), where)), (2_000, 5_000))
        for matrix, low, high in ((sp.eye_array(2_000), 1.0, 1.0), (M, values.min(), values.max())):
            found = dapd.estimate_spectrum(matrix, positive=positive)
            assert_safe_and_close(found, high, low, 1e-6)
            assert found.products == 0

    def test_orthogonal_rows_may_share_columns(self):
        pairs = sp.kron(sp.eye_array(500), np.array([[1.0, 1.0], [0.5, -0.5]]), format="csr")
        assert_safe_and_close(dapd.estimate_spectrum(pairs), 2**0.5, 0.5**0.5, 1e-6)

    @pytest.mark.parametrize("size", [500, 2_000, 20_000])
    @pytest.mark.parametrize("positive", [False, True])
    def test_path_has_its_known_spectrum(self, size, positive):
        found = dapd.estimate_spectrum(differences(size, 1), positive=positive)
        assert_safe_and_close(found, 2 * np.cos(np.pi / (2 * size)), 2 * np.sin(np.pi / (2 * size)))

    @pytest.mark.parametrize("size", [500, 3_001])
    def test_cycle_has_dependent_rows(self, size):
        nodes = np.random.default_rng(0).permutation(size)
        M = incidence(nodes, np.roll(nodes, 1), size)
        assert dapd.estimate_spectrum(M).s_min == 0
        found = dapd.estimate_spectrum(M, positive=True)
        assert_safe_and_close(found, 2.0, 2 * np.sin(np.pi / size))

    @pytest.mark.parametrize("size", [2_000, 30_000])
    def test_value_that_squaring_would_lose_is_found(self, size):
        # the square of the path's matrix: tridiagonal, with eigenvalues 4 sin²(kπ/(2(n + 1)))
        D = differences(size + 1, 1)
        found = dapd.estimate_spectrum((D @ D.T).tocsr())
        angle = np.pi / (2 * (size + 1))
        assert_safe_and_close(found, 4 * np.cos(angle) ** 2, 4 * np.sin(angle) ** 2)

    def test_empty_rows_do_not_count_as_positive_singular_values(self):
        D = differences(800, 1).tolil()
        D[400] = 0.0
        assert dapd.estimate_spectrum(D.tocsr()).s_min == 0
        found = dapd.estimate_spectrum(D.tocsr(), positive=True)
        assert 2 * np.sin(np.pi / 1_600) <= found.s_min <= 2 * np.sin(np.pi / (2 * 401)) * (1 + 1e-12)

    def test_tall_matrix_uses_its_columns(self):
        D = differences(1_000, 1)
        assert dapd.estimate_spectrum(D.T).s_min == 0
        assert_safe_and_close(dapd.estimate_spectrum(D.T, positive=True), 2.0, 2 * np.sin(np.pi / 2_000))
        assert singular_range(as_operator(D.T), name="A")[0] > 0

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_sparse_blocks_of_columns_form_one_sparse_matrix(self, dtype):
        D = differences(1_001, 1).astype(dtype)
        M = dapd.ColumnBlocks([D[:, :500], D[:, 500:]])
        found = dapd.estimate_spectrum(M)
        assert_safe_and_close(found, 2.0, 2 * np.sin(np.pi / 2_002))
        assert 2 * np.cos(np.pi / 1_001) <= found.s_bar_max <= 2.05


def test_random_graph_against_dense_singular_values():
    rng = np.random.default_rng(0)
    tails, heads = rng.integers(0, 500, 2_000), rng.integers(500, 600, 2_000)
    M = incidence(np.r_[tails, np.arange(599)], np.r_[heads, np.arange(1, 600)], 600)
    values = np.linalg.svd(M.toarray(), compute_uv=False)
    assert dapd.estimate_spectrum(M).s_min == 0
    assert_safe_and_close(dapd.estimate_spectrum(M, positive=True), values[0], values[-2])


def test_matrix_free_float32_does_not_mistake_noise_for_a_singular_value():
    D = differences(4_000, 1)
    M = sp.vstack([sp.eye_array(4_000), D]).T.tocsr()[:, 2_000:].astype(np.float32)

    def single(A):
        return lambda v: (A @ v.ravel().astype(np.float32)).astype(np.float32)

    linear = LinearOperator(M.shape, matvec=single(M), rmatvec=single(M.T.tocsr()), dtype=np.float32)
    dependent = LinearOperator(
        (4_001, M.shape[1]),
        matvec=lambda v: np.append(linear.matvec(v), np.float32(0.0)),
        rmatvec=lambda y: linear.rmatvec(y[:-1]),
        dtype=np.float32,
    )
    assert dapd.estimate_spectrum(dependent).s_min == 0


@pytest.mark.parametrize("kind", [sp.csr_array, lambda M: M.toarray()])
def test_norms_of_large_and_small_blocks_are_bounded(kind):
    rng = np.random.default_rng(0)
    M = sp.random_array((500, 1_000), density=0.02, rng=rng, format="csr")
    blocks = [slice(0, 400), slice(400, 401), slice(401, 402), slice(402, 990), slice(990, 1_000)]
    exact = max(np.linalg.norm(M[:, block].toarray(), 2) for block in blocks)
    assert exact <= dapd.estimate_spectrum(kind(M), blocks=blocks).s_bar_max <= 1.02 * exact


LARGE = differences(5_000, 1)
SCATTERED = sp.random_array((2_000, 4_000), density=1e-3, rng=np.random.default_rng(0), format="csr")
EVERY = {
    "dense": lambda: Dense(np.eye(5, 8)),
    "sparse": lambda: Sparse(LARGE),
    "scattered": lambda: Sparse(SCATTERED),
    "matrix-free": lambda: as_operator(aslinearoperator(np.eye(5, 8))),
    "large matrix-free": lambda: as_operator(aslinearoperator(LARGE)),
    "blocks": lambda: dapd.ColumnBlocks([aslinearoperator(np.eye(5)), np.ones((5, 2))]),
    "Kronecker": lambda: dapd.Kronecker(np.eye(3), 2),
    "block-diagonal": lambda: dapd.BlockDiagonal([np.eye(3), np.ones((2, 2))]),
}


@pytest.mark.parametrize("kind", EVERY)
def test_past_deadline_ends_every_estimate_and_stores_nothing(kind):
    M, past = EVERY[kind](), time.perf_counter() - 1.0
    for positive in (False, True):
        with pytest.raises(TimeUp):
            estimate_range(M, positive=positive, deadline=past)
    with pytest.raises(TimeUp):
        estimate_norm(M, deadline=past)
    with pytest.raises(TimeUp):
        dapd.estimate_spectrum(M, deadline=past)
    with pytest.raises(TimeUp):
        singular_range(M, name="A", deadline=past)
    with pytest.raises(TimeUp):
        with_block_norm(dapd.Spectrum(1.0, 0.5), M, [slice(0, M.shape[1])], deadline=past)
    assert not M.memory
    assert estimate_norm(M, deadline=math.inf).s_max > 0


@pytest.mark.parametrize("H", [np.eye(4) * 2.0, sp.csr_array(LARGE @ LARGE.T)])
def test_past_deadline_ends_the_search_for_eigenvalues(H):
    with pytest.raises(TimeUp):
        symmetric_extremes(H, name="H", deadline=time.perf_counter() - 1.0)


@pytest.mark.parametrize("size", [100, 3_000])
def test_deadline_is_checked_between_slow_products(size):
    products = 0

    def slow(v):
        nonlocal products
        products += 1
        time.sleep(0.02)
        return v.ravel() * np.linspace(1e-3, 1.0, size)

    M = as_operator(LinearOperator((size, size), matvec=slow, rmatvec=slow, dtype=np.float64))
    with pytest.raises(TimeUp):
        estimate_range(M, positive=False, deadline=time.perf_counter() + 0.2)
    assert 0 < products <= 11


def test_factorisation_that_cannot_end_in_time_is_not_started(monkeypatch):
    monkeypatch.setattr(exact_module.scipy.linalg, "eigvalsh", lambda *_, **__: pytest.fail("it was begun"))
    with pytest.raises(TimeUp):
        dapd.estimate_spectrum(np.eye(2_000, 4_000), deadline=time.perf_counter() + 0.05)


def blas_threads():
    return {pool["filepath"]: pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


def test_small_work_uses_one_blas_thread_and_restores_the_others():
    with threadpool_limits(2, "blas"):
        before = blas_threads()
        first, second = single_blas(1e6, MANY), single_blas(1e6, MANY)
        first.__enter__()
        second.__enter__()
        assert set(blas_threads().values()) == {1}
        first.__exit__(None, None, None)  # the other one is still active
        assert set(blas_threads().values()) == {1}
        second.__exit__(None, None, None)
        assert blas_threads() == before
        with single_blas(math.inf, MANY):
            assert blas_threads() == before


def test_products_of_the_user_keep_their_threads():
    seen = []

    def product(v):
        seen.append(blas_threads())
        return v.ravel()

    with threadpool_limits(2, "blas"):
        before = blas_threads()
        dapd.estimate_spectrum(LinearOperator((3, 3), matvec=product, rmatvec=product, dtype=np.float64))
    assert all(threads == before for threads in seen)
