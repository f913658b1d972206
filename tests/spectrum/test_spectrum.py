"""Singular values: safe, close, and honest about how they were found."""

import tracemalloc
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from counting import Counting
from hypothesis import given, settings
from hypothesis import strategies as st
from instances import matrix, quadratic_problem
from scipy.sparse.linalg import LinearOperator, aslinearoperator

import dapd
from dapd.certificate.certify import certify
from dapd.operators.convert import as_operator
from dapd.operators.explicit import Dense, Sparse
from dapd.spectrum import lanczos as iterative_module
from dapd.spectrum.estimate import estimate_norm, estimate_range
from dapd.spectrum.lanczos import random_start


def singular(M):
    return np.linalg.svd(M, compute_uv=False)


def assert_safe_and_close(found, s_max, s_min, within):
    assert s_max * (1 - 1e-12) <= found.s_max <= s_max * (1 + within)
    assert s_min * (1 - within) <= found.s_min <= s_min * (1 + 1e-9)


@pytest.mark.parametrize("kind", [np.asarray, np.asfortranarray, sp.csr_array, sp.csc_matrix, aslinearoperator])
@given(order=st.floats(0.0, 6.0), rows=st.integers(1, 12), extra=st.integers(0, 12), seed=st.integers(0, 99))
@settings(max_examples=25)
def test_estimates_of_small_matrices_are_exact(kind, order, rows, extra, seed):
    M = matrix(np.random.default_rng(seed), 10.0**order, rows, rows + extra, s_max=7.0)
    values = singular(M)
    assert_safe_and_close(dapd.estimate_spectrum(kind(M)), values[0], values[-1], 0.01)


def test_float32_matrix_is_not_mistaken_for_rank_deficient():
    M = matrix(np.random.default_rng(0), 1e3, 20, 40).astype(np.float32)
    values = singular(M.astype(np.float64))
    assert_safe_and_close(dapd.estimate_spectrum(M), values[0], values[-1], 0.01)


def diagonal_band(rows, columns, ratio, seed=0):
    """A large sparse matrix whose singular values are known: a permuted diagonal."""
    rng = np.random.default_rng(seed)
    values = rng.uniform(1.0 / ratio, 1.0, rows)
    values[:2] = 1.0 / ratio, 1.0
    where = rng.permutation(columns)[:rows]
    return sp.csr_array((values, (np.arange(rows), where)), (rows, columns))


@pytest.mark.parametrize("ratio", [1.5, 10.0, 100.0])
def test_estimates_of_large_matrices_are_iterative(ratio):
    found = dapd.estimate_spectrum(aslinearoperator(diagonal_band(4_000, 9_000, ratio)))
    assert_safe_and_close(found, 1.0, 1.0 / ratio, 0.10)
    assert found.products <= 2_000
    assert found.how["s_max"].method == "Lanczos"
    assert 0 <= found.how["s_min"].residual < 0.1


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("rows", [50, 4_000])
def test_products_are_counted_and_bounded(rows, positive):
    operator = Counting(diagonal_band(rows, 2 * rows, 50.0))
    found = dapd.estimate_spectrum(operator, positive=positive)
    assert found.products == operator.products <= 2_000


def test_unresolved_value_gives_a_warning():
    # the incidence matrix of a path, matrix-free: too ill-conditioned for 2,000 products
    size = 5_000
    M = aslinearoperator(sp.diags_array([1.0, -1.0], offsets=[0, 1], shape=(size, size + 1)).tocsr())
    with pytest.warns(dapd.SpectrumWarning, match="least singular value was not resolved") as caught:
        found = dapd.estimate_spectrum(M)
    assert caught[0].filename == __file__
    assert found.products <= 2_000
    assert not found.resolved
    assert not found.how["s_min"].resolved
    assert found.s_max >= 2 * np.cos(np.pi / (2 * (size + 1)))
    with pytest.warns(dapd.SpectrumWarning):
        result = dapd.solve(dapd.Problem(dapd.PseudoHuber(1.0), M, np.ones(size)), "y-dapd", max_iterations=0)
    assert "is a guess" in result.message
    # methods that do not need s_min neither compute it nor warn
    problem = dapd.Problem(dapd.PseudoHuber(1.0), M, np.ones(size), dapd.NonNegative())
    assert dapd.solve(problem, "papc", max_iterations=0).spectrum.products < 500
    dapd.solve(problem, max_iterations=1)


def test_unresolved_mu_is_zero():
    A = aslinearoperator(sp.diags_array([1.0, -1.0], offsets=[0, 1], shape=(6_000, 6_000)).tocsr())
    assert dapd.LeastSquares(A, np.ones(6_000)).mu == 0.0


def test_invariant_subspace_does_not_hide_the_extremes():
    # the start of the process is an eigenvector
    u = random_start(4_000, 0)

    def product(x):
        return x - 0.9 * u * (u @ x)

    found = dapd.estimate_spectrum(LinearOperator((4_000, 4_000), matvec=product, rmatvec=product, dtype=float))
    assert_safe_and_close(found, 1.0, 0.1, 0.10)


def test_small_singular_value_among_equations_is_not_dropped():
    values = np.r_[np.random.default_rng(0).uniform(0.3, 1.0, 3_499), 3e-6]
    M = sp.csr_array((values, (np.arange(3_500), np.arange(3_500))), (3_500, 4_000))
    assert dapd.estimate_spectrum(M, positive=True).s_min <= 3e-6


@pytest.mark.parametrize("seed", range(10))
def test_iterative_s_max_is_an_upper_bound(seed):
    values = np.sqrt(np.random.default_rng(seed).uniform(0.01, 1.0, 4_000))
    M = sp.csr_array((values, (np.arange(4_000), np.arange(4_000))), (4_000, 5_000))
    assert values.max() <= dapd.estimate_spectrum(M).s_max <= 1.02 * values.max()


def test_large_matrix_free_maps_are_not_written_out():
    M = diagonal_band(100, 100_000, 5.0)
    tracemalloc.start()
    found = dapd.estimate_spectrum(aslinearoperator(M))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert_safe_and_close(found, 1.0, 0.2, 0.10)
    assert peak < 20 * 8 * 100_000


def test_products_of_matrix_free_blocks_are_counted():
    parts = [Counting(matrix(np.random.default_rng(k), 3.0, 50, 60)) for k in range(2)]
    found = dapd.estimate_spectrum(dapd.ColumnBlocks(parts))
    assert found.products == sum(part.products for part in parts) <= 2_000


ZEROS = {
    "dense": np.zeros((2, 3)),
    "tall": np.zeros((3, 2)),
    "small sparse": sp.csr_array((4, 5)),
    "sparse": sp.csr_array((4_000, 5_000)),
    "matrix-free": aslinearoperator(np.zeros((2, 3))),
    "large matrix-free": aslinearoperator(sp.csr_array((4_000, 5_000))),
    "Kronecker": dapd.Kronecker(np.zeros((2, 3)), np.eye(2)),
    "block-diagonal": dapd.BlockDiagonal([np.zeros((2, 2))]),
}


@pytest.mark.parametrize("kind", ZEROS)
def test_every_positive_number_bounds_a_zero_matrix(kind):
    M = ZEROS[kind]
    assert dapd.estimate_spectrum(M) == dapd.Spectrum(1.0, 0.0)
    assert dapd.estimate_spectrum(M, positive=True) == dapd.Spectrum(1.0, 1.0)
    assert dapd.estimate_spectrum(M, blocks=2).s_bar_max > 0
    assert estimate_norm(as_operator(M)).s_max > 0
    assert "M is zero" in dapd.estimate_spectrum(M).how["s_max"].method


def test_a_matrix_without_rows_has_independent_rows():
    for M in (Dense(np.zeros((0, 3))), Sparse(sp.csr_array((0, 3)))):
        assert estimate_range(M, positive=False) == dapd.Spectrum(1.0, 1.0)
        assert estimate_norm(M).s_max > 0


@pytest.mark.parametrize("M", [np.full((2, 3), 1e-170), aslinearoperator(sp.eye_array(4_000) * 1e-170)])
def test_matrix_too_small_to_square_is_an_error(M):
    with pytest.raises(ValueError, match="M is too small to square"):
        dapd.estimate_spectrum(M)


@pytest.mark.parametrize(
    ("M", "message"),
    [
        (np.full((2, 3), 1e170), r"M holds entries of 1e\+170, too large to square"),
        (aslinearoperator(np.full((2, 3), 1e170)), "M gives NaN or infinite products"),
        (aslinearoperator(np.full((2, 3), np.nan)), "M gives NaN or infinite products"),
    ],
)
def test_products_that_are_not_finite_are_an_error(M, message):
    with pytest.raises(ValueError, match=message):
        dapd.estimate_spectrum(M)


def test_kronecker_spectrum_comes_from_the_factors():
    rng = np.random.default_rng(0)
    A, B = matrix(rng, 4.0, 3, 5), matrix(rng, 2.0, 2, 2)
    for B_given, B_matrix in ((B, B), (4, np.eye(4))):
        values = singular(np.kron(A, B_matrix))
        found = dapd.estimate_spectrum(dapd.Kronecker(A, B_given))
        assert_safe_and_close(found, values[0], values[-1], 0.01)
        assert found.products == 0
    tall = dapd.Kronecker(A.T, 4)
    assert dapd.estimate_spectrum(tall).s_min == 0
    assert dapd.estimate_spectrum(tall, positive=True).s_min == pytest.approx(singular(A)[-1])


def test_block_norms_bound_every_block_and_are_close():
    M = matrix(np.random.default_rng(0), 4.0, 5, 12)
    expected = max(singular(M[:, k : k + 3])[0] for k in range(0, 12, 3))
    blocks = [M[:, k : k + 3] for k in range(0, 12, 3)]
    for found in (
        dapd.estimate_spectrum(M, blocks=4),
        dapd.estimate_spectrum(sp.csr_array(M), blocks=4),
        dapd.estimate_spectrum(aslinearoperator(M), blocks=4),
        dapd.estimate_spectrum(dapd.ColumnBlocks(blocks)),
    ):
        assert expected * (1 - 1e-12) <= found.s_bar_max <= expected * 1.01


def test_the_norm_of_dense_blocks_beside_sparse_ones_of_the_same_width():
    M = matrix(np.random.default_rng(0), 4.0, 5, 12)
    blocks = [M[:, :3], sp.csr_array(M[:, 3:6]), M[:, 6:9], sp.csr_array(M[:, 9:])]
    expected = max(singular(M[:, k : k + 3])[0] for k in range(0, 12, 3))
    assert dapd.estimate_spectrum(dapd.ColumnBlocks(blocks)).s_bar_max == pytest.approx(expected)
    problem = dapd.Problem(dapd.Quadratic(np.linspace(1, 2, 12)), dapd.ColumnBlocks(blocks), np.ones(5), dapd.Zero())
    assert dapd.solve(problem).converged


def dependent_rows(kind):
    """A matrix with one row that is the sum of two others, and its least positive singular value."""
    if kind == "small":
        M = matrix(np.random.default_rng(0), 5.0, 6, 10)
        M[5] = M[0] + M[1]
        return M, singular(M)[4]
    M = diagonal_band(4_000, 9_000, 10.0).tolil()
    M[7] = 0.0
    return M.tocsr(), 0.1


@pytest.mark.parametrize("kind", ["small", "large"])
def test_rank_deficiency_is_detected_and_the_least_positive_value_found(kind):
    M, least = dependent_rows(kind)
    assert dapd.estimate_spectrum(M).s_min == 0
    found = dapd.estimate_spectrum(M, positive=True)
    assert 0.9 * least <= found.s_min <= least * (1 + 1e-9)
    assert found.products <= 2_000


def test_large_dependent_rows_are_found_without_an_empty_row():
    M = diagonal_band(4_000, 9_000, 10.0)
    M = sp.vstack([M, M[:1] + M[1:2]]).tocsr()
    assert dapd.estimate_spectrum(M).s_min == 0
    assert 0.09 <= dapd.estimate_spectrum(M, positive=True).s_min <= 0.1


def test_tall_matrix_has_dependent_rows():
    tall = matrix(np.random.default_rng(0), 5.0, 6, 10).T
    assert dapd.estimate_spectrum(tall).s_min == 0
    assert dapd.estimate_spectrum(tall, positive=True).s_min == pytest.approx(0.2)


@pytest.mark.parametrize("engine", ["auto", "native", "python"])
def test_auto_solves_what_dependent_rows_leave_without_a_rate(engine):
    M, _ = dependent_rows("small")
    problem = dapd.Problem(dapd.PseudoHuber(0.5), M, np.ones(6), dapd.NonNegative())
    result = dapd.solve(problem, engine=engine, tol=1e-9)
    assert result.converged
    assert certify(problem, result.x, result.y).error <= 1e-9


@pytest.mark.parametrize("method", ["x-dapd", "y-dapd"])
def test_dependent_rows_are_an_error_if_the_theory_needs_full_rank(method):
    M, _ = dependent_rows("small")
    problem = dapd.Problem(dapd.PseudoHuber(0.5), M, np.ones(6), dapd.NonNegative())
    with pytest.raises(ValueError, match=r"M \(6 × 10\) does not have full row rank.*Remove dependent rows"):
        dapd.solve(problem, method)


@pytest.mark.parametrize("method", ["auto", "x-dapd", "y-dapd", "apapc", "capd"])
def test_equations_may_have_dependent_rows(method):
    M, _ = dependent_rows("small")
    problem = dapd.Problem(dapd.PseudoHuber(0.5), M, M @ np.linspace(-1, 1, 10))
    result = dapd.solve(problem, method, tol=1e-9)
    assert result.converged
    assert np.linalg.norm(M @ result.x - problem.b) < 1e-8


def test_papc_does_not_need_full_rank():
    M, _ = dependent_rows("small")
    problem = dapd.Problem(dapd.PseudoHuber(0.5), M, np.ones(6) / 10, dapd.NonNegative())
    result = dapd.solve(problem, "papc", tol=1e-9)
    assert result.converged
    assert result.parameters.Pi == np.inf


def test_memory_stays_proportional_to_the_nonzeros(monkeypatch):
    monkeypatch.setattr(iterative_module, "PRODUCTS", 41)  # memory does not grow with the products
    rows, columns, nonzeros = 200_000, 500_000, 2_000_000
    rng = np.random.default_rng(0)
    # every row and most columns get an entry, so the matrix is not trivially rank-deficient
    i = np.concatenate([np.arange(rows), rng.integers(0, rows, nonzeros - rows)])
    j = np.concatenate([rng.permutation(columns)[:rows], rng.integers(0, columns, nonzeros - rows)])
    M = sp.csr_array((rng.uniform(0.5, 1.5, nonzeros), (i, j)), (rows, columns))
    tracemalloc.start()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dapd.SpectrumWarning)
        found = dapd.estimate_spectrum(M)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.s_max > 0
    assert peak < 10 * 8 * (rows + columns) + M.data.nbytes + M.indices.nbytes


def test_solve_takes_a_spectrum_as_given():
    problem = quadratic_problem(dapd.NonNegative())
    given_spectrum = dapd.Spectrum(2.0, 0.1)
    result = dapd.solve(problem, "y-dapd", spectrum=given_spectrum)
    assert result.spectrum is given_spectrum
    assert result.parameters == dapd.theory.y_dapd(L=problem.f.L, mu=problem.f.mu, s_max=2.0, s_min=0.1)


def test_block_diagonal_has_the_singular_values_of_its_blocks():
    rng = np.random.default_rng(0)
    blocks = [rng.standard_normal(shape) for shape in ((2, 5), (3, 3), (1, 4))]
    values = np.concatenate([np.linalg.svd(block, compute_uv=False) for block in blocks])
    found = dapd.estimate_spectrum(dapd.BlockDiagonal(blocks))
    assert np.isclose(found.s_max, values.max(), rtol=1e-9)
    assert np.isclose(found.s_min, values.min(), rtol=1e-6)
    assert found.s_max >= values.max()
    assert found.s_min <= values.min()
    with_zeros = dapd.BlockDiagonal([*blocks, np.zeros((2, 2))])
    assert dapd.estimate_spectrum(with_zeros).s_min == 0
    assert dapd.estimate_spectrum(with_zeros, positive=True).s_min == found.s_min
    tall = dapd.BlockDiagonal([blocks[0].T, blocks[1]])
    assert dapd.estimate_spectrum(tall).s_min == 0


def test_blocks_of_a_matrix_without_rows():
    f = dapd.Separable([dapd.Quadratic(np.ones(1)), dapd.Quadratic(np.ones(2))])
    assert dapd.solve(dapd.Problem(f, np.zeros((0, 3)), [])).status == "optimal"


def test_a_row_of_stored_zeros_is_an_empty_row():
    M = sp.csr_array((np.array([3.0, 0.0, 0.0, 2.0]), np.array([0, 1, 2, 3]), np.array([0, 1, 3, 4])), shape=(3, 4))
    assert dapd.estimate_spectrum(M).s_min == 0
    assert dapd.estimate_spectrum(M, positive=True).s_min == pytest.approx(2.0, rel=1e-6)
    assert M.nnz == 4  # nothing of the caller's is changed
