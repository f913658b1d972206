"""s_min and mu of nearly singular matrices: never negative, never NaN, never above the truth."""

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from known_spectra import ORDER, block, differences, dyadic, ill_conditioned, shuffled_blocks
from scipy.sparse.linalg import aslinearoperator

import dapd
from dapd.spectrum import estimate as estimate_module
from dapd.spectrum import sparse as sparse_module
from dapd.spectrum import symmetric as symmetric_module
from dapd.spectrum.exact import zero_level
from dapd.spectrum.symmetric import symmetric_extremes

KINDS = {
    "dense": np.asarray,
    "sparse": sp.csr_array,
    "matrix-free": aslinearoperator,
    "tall": lambda M: np.vstack([M, np.zeros((3, M.shape[1]))]),
    "wide": lambda M: np.hstack([M, np.zeros((M.shape[0], 3))]),
}


@pytest.mark.parametrize("name", dict(ill_conditioned()))
def test_ill_conditioned_matrix_has_a_valid_spectrum(name):
    M = dict(ill_conditioned())[name]
    values = scipy.linalg.svdvals(M)
    level = zero_level(M.shape, M.dtype)
    for kind in ("dense", "sparse", "matrix-free"):
        found = dapd.estimate_spectrum(KINDS[kind](M))
        assert values[0] * (1 - 1e-13) <= found.s_max <= values[0] * (1 + 1e-9)
        assert found.s_min == 0 if values[-1] <= level * values[0] else 0 < found.s_min <= values[-1]
        positive = dapd.estimate_spectrum(KINDS[kind](M), positive=True)
        assert 0 < positive.s_min <= values[values > level * found.s_max][-1]
        assert np.isfinite(positive.how["s_min"].residual)


@pytest.mark.parametrize("name", [name for k, (name, _) in enumerate(ill_conditioned()) if k % 9 == 0])
def test_ill_conditioned_coupling_is_solved_or_a_rank_error(name):
    M = dict(ill_conditioned())[name]
    f, b = dapd.Quadratic(np.ones(len(M))), M @ np.ones(len(M))
    options = {"engine": "python", "max_iterations": 50}
    result = dapd.solve(dapd.Problem(f, M, b), **options)
    assert result.status in (dapd.Status.optimal, dapd.Status.iteration_limit)
    try:
        dapd.solve(dapd.Problem(f, M, b, dapd.NonNegative()), **options)
    except ValueError as error:
        assert "does not have full row rank" in str(error)  # noqa: PT017  # either ending is right


@pytest.mark.parametrize("kind", KINDS)
@given(deep=st.integers(0, 38), seed=st.integers(0, 999))
@settings(max_examples=25)
def test_exact_estimate_is_safe_and_close(kind, deep, seed):
    M = KINDS[kind](block(dyadic(np.random.default_rng(seed), deep, ORDER)))
    found = dapd.estimate_spectrum(M, positive=True)
    assert 1 <= found.s_max <= 1 + 1e-9
    assert 0.9 * 2.0**-deep <= found.s_min <= 2.0**-deep
    assert dapd.estimate_spectrum(M).s_min == (0 if kind == "tall" else found.s_min)


@pytest.mark.parametrize("kind", KINDS)
@given(deep=st.integers(0, 38), seed=st.integers(0, 999), zeros=st.integers(1, 8))
@settings(max_examples=25)
def test_exactly_dependent_rows_give_s_min_zero(kind, deep, seed, zeros):
    values = dyadic(np.random.default_rng(seed), deep, ORDER)
    values[:zeros] = 0.0
    M = KINDS[kind](block(values))
    assert dapd.estimate_spectrum(M).s_min == 0
    assert 0 < dapd.estimate_spectrum(M, positive=True).s_min <= values[zeros:].min()


ROUTES = {4: "Lanczos", 12: "banded Cholesky factor of MMᵀ", 18: "banded Cholesky", 30: "augmented", 36: "augmented"}


@pytest.mark.parametrize("deep", ROUTES)
@given(seed=st.integers(0, 999), extra=st.integers(0, 40))
@settings(max_examples=10)
def test_sparse_estimates_are_safe_and_close(deep, seed, extra):
    rng = np.random.default_rng(seed)
    M = shuffled_blocks(dyadic(rng, deep, 64 * ORDER), rng, extra)
    for positive in (False, True):
        found = dapd.estimate_spectrum(M, positive=positive)
        assert found.resolved
        assert ROUTES[deep] in found.how["s_min"].method
        assert 1 <= found.s_max <= 1.03
        assert 0.9 * 2.0**-deep <= found.s_min <= 2.0**-deep


@given(seed=st.integers(0, 999), deep=st.integers(1, 18), zeros=st.integers(1, 30))
@settings(max_examples=25)
def test_sparse_dependent_rows_leave_the_least_positive_value(seed, deep, zeros):
    rng = np.random.default_rng(seed)
    values = dyadic(rng, deep, 64 * ORDER)
    values[:zeros] = 0.0
    M = shuffled_blocks(values, rng)
    assert dapd.estimate_spectrum(M).s_min == 0
    found = dapd.estimate_spectrum(M, positive=True)
    assert found.resolved
    assert 0.9 * values[zeros:].min() <= found.s_min <= values[zeros:].min()


DENSE_ROUTES = {"scattered": "eigenvalues of the smaller Gram matrix", "dense": "dense Cholesky factor of MMᵀ"}


@pytest.mark.parametrize(("kind", "method"), DENSE_ROUTES.items())
@pytest.mark.parametrize("deep", [10, 16])
@pytest.mark.parametrize("zeros", [0, 5])
def test_dense_estimates_after_lanczos_are_safe_and_close(kind, method, deep, zeros, monkeypatch):
    monkeypatch.setattr(estimate_module, "EXACT", 100)
    monkeypatch.setattr(sparse_module, "GRAM_ENTRIES", 0)
    monkeypatch.setattr(sparse_module, "FEW", 0)
    rng = np.random.default_rng(deep)
    values = dyadic(rng, deep, 64 * ORDER)
    values[:zeros] = 0.0
    M = shuffled_blocks(values, rng)
    M = M if kind == "scattered" else M.toarray()
    found = dapd.estimate_spectrum(M, positive=True)
    assert found.how["s_min"].method == method
    assert values.max() <= found.s_max <= 1.03 * values.max()
    least = values[values > 0].min()
    assert 0.9 * least <= found.s_min <= least
    assert dapd.estimate_spectrum(M).s_min == (0 if zeros else found.s_min)


@pytest.mark.parametrize("f", [dapd.LeastSquares, dapd.Logistic])
@pytest.mark.parametrize("kind", KINDS)
def test_nearly_dependent_data_gives_mu_from_the_ridge_only(f, kind):
    A = KINDS[kind](np.diag(np.r_[np.ones(19), 1.3e-14]))
    assert f(A, np.ones(A.shape[0]), ridge=1.0).mu == 1.0


SYMMETRIC = {
    "dense": (np.asarray, 10**9),
    "dense factor": (np.asarray, 0),
    "sparse": (sp.csr_array, 10**9),
    "banded factor": (sp.csr_array, 0),
}


@pytest.mark.parametrize("kind", SYMMETRIC)
@pytest.mark.parametrize("shift", [1.0, 1e-4, 1e-8])
def test_eigenvalues_of_a_symmetric_matrix_are_safe_and_close(kind, shift, monkeypatch):
    form, exact = SYMMETRIC[kind]
    monkeypatch.setattr(symmetric_module, "SMALL", exact)
    monkeypatch.setattr(symmetric_module, "DENSE", exact)
    D = differences(301, 1).toarray()
    H = form(D @ D.T + shift * np.eye(300))
    low, high = symmetric_extremes(H, name="H")
    least, greatest = 4 * np.sin(np.pi / 602) ** 2 + shift, 4 * np.cos(np.pi / 602) ** 2 + shift
    assert 0.9 * least <= low <= least * (1 + 1e-12)
    assert greatest * (1 - 1e-12) <= high <= 1.02 * greatest


@pytest.mark.parametrize("coupled", [0, 1, 20, 120])
def test_rows_with_only_a_diagonal_entry_are_taken_as_they_are(coupled):
    rng = np.random.default_rng(coupled)
    A = np.diag(rng.uniform(1.0, 2.0, 200))
    at = rng.permutation(200)[:coupled]
    root = rng.standard_normal((coupled, coupled))
    A[np.ix_(at, at)] = root @ root.T + np.eye(coupled)
    values = np.linalg.eigvalsh(A)
    low, high = symmetric_extremes(sp.csr_array(A), name="H")
    assert low == pytest.approx(values[0], rel=1e-9)
    assert high == pytest.approx(values[-1], rel=1e-9)


@pytest.mark.parametrize("kind", SYMMETRIC)
def test_singular_and_indefinite_matrices_are_distinguished(kind, monkeypatch):
    form, exact = SYMMETRIC[kind]
    monkeypatch.setattr(symmetric_module, "SMALL", exact)
    monkeypatch.setattr(symmetric_module, "DENSE", exact)
    D = differences(300, 1).toarray()
    singular = D.T @ D
    assert symmetric_extremes(form(singular), name="H")[0] == 0
    assert symmetric_extremes(form(singular - 0.01 * np.eye(300)), name="H")[0] < 0
    assert symmetric_extremes(form(np.diag(np.r_[np.ones(299), -0.5])), name="H")[0] < 0
    for H in (singular, scipy.linalg.hilbert(40)):
        assert dapd.Quadratic(form(H)).mu == 0.0
    for H in (singular - 0.01 * np.eye(300), scipy.linalg.hilbert(40) - 1e-9 * np.eye(40)):
        with pytest.raises(ValueError, match="f is not convex"):
            dapd.Quadratic(form(H))


def test_gaussian_kernel_ends_with_an_honest_status():
    t = np.linspace(0, 1, 100)
    K = np.exp(-10 * (t[:, None] - t) ** 2)
    problem = dapd.Problem(dapd.Quadratic(np.ones(100)), K, K @ np.ones(100))
    result = dapd.solve(problem, engine="python", max_iterations=500)
    assert np.isfinite(result.x).all()
    assert result.converged == (result.certificate.error <= 1e-6)


def test_stored_zeros_beside_the_diagonal_change_nothing():
    # row 5 has a stored zero in column 8, which has none in row 5
    size = 60
    values = np.r_[np.ones(size), 0.0]
    values[5] = 100.0
    H = sp.csr_array((values, (np.r_[np.arange(size), 5], np.r_[np.arange(size), 8])), shape=(size, size))
    f = dapd.Quadratic(H)
    assert f.mu == pytest.approx(1.0)
    assert pytest.approx(100.0) == f.L
    H.data[H.indptr[5]] = -100.0
    with pytest.raises(ValueError, match="not convex"):
        dapd.Quadratic(H).mu  # noqa: B018
