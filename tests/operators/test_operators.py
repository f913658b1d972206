"""M: every kind computes the same products and never changes the given matrix."""

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, aslinearoperator

import dapd
from dapd.operators.convert import as_operator
from dapd.testing import check_adjoint

RNG = np.random.default_rng(0)
M = RNG.standard_normal((4, 6))
A, B = RNG.standard_normal((2, 3)), RNG.standard_normal((5, 4))


class Plain:
    """Neither NumPy nor SciPy: only shape, matvec and rmatvec."""

    shape = M.shape

    def matvec(self, x):
        return M @ x

    def rmatvec(self, y):
        return M.T @ y


class Columns(LinearOperator):
    """An operator that returns columns, as some do."""

    def __init__(self):
        super().__init__(np.float64, M.shape)

    def _matvec(self, x):
        return (M @ np.ravel(x))[:, None]

    def _rmatvec(self, y):
        return (M.T @ np.ravel(y))[:, None]


KINDS = {
    "array": (M, M),
    "fortran": (np.asfortranarray(M), M),
    "strided": (np.repeat(M, 2, axis=1)[:, ::2], M),
    "list": (M.tolist(), M),
    "integers": (np.arange(6).reshape(2, 3), np.arange(6.0).reshape(2, 3)),
    "csr array": (sp.csr_array(M), M),
    "csc matrix": (sp.csc_matrix(M), M),
    "coo with duplicates": (
        sp.coo_array(([1.0, 2.0, 3.0], ([0, 0, 1], [1, 1, 0])), (2, 2)),
        np.array([[0, 3.0], [3, 0]]),
    ),
    "linear operator": (aslinearoperator(M), M),
    "plain object": (Plain(), M),
    "columns": (Columns(), M),
    "kronecker": (dapd.Kronecker(A, B), np.kron(A, B)),
    "kronecker with identity": (dapd.Kronecker(-A.T, 3), np.kron(-A.T, np.eye(3))),
    "block diagonal": (dapd.BlockDiagonal([A, B, M[:2]]), scipy.linalg.block_diag(A, B, M[:2])),
    "equal blocks": (dapd.BlockDiagonal(np.stack([A, 2 * A])), scipy.linalg.block_diag(A, 2 * A)),
    "column blocks": (dapd.ColumnBlocks([M[:, :2], sp.csr_array(M[:, 2:5]), aslinearoperator(M[:, 5:])]), M),
}


@pytest.mark.parametrize("kind", KINDS)
def test_products_equal_those_of_the_matrix(kind):
    given, dense = KINDS[kind]
    operator = as_operator(given)
    x, y = RNG.standard_normal(dense.shape[1]), RNG.standard_normal(dense.shape[0])
    assert operator.shape == dense.shape
    assert np.allclose(operator.forward(x), dense @ x)
    assert np.allclose(operator.adjoint(y), dense.T @ y)
    assert np.allclose(operator.dense(), dense)
    assert np.allclose(operator.outer(), dense @ dense.T)
    turned = operator.transposed()
    assert np.allclose(turned.forward(y), dense.T @ y)
    assert np.allclose(turned.outer(), dense.T @ dense)
    part = operator.columns(slice(1, 2))
    assert np.allclose(part.forward(np.ones(1)), dense[:, 1])
    assert np.allclose(part.adjoint(y), dense[:, 1:2].T @ y)
    check_adjoint(given)


@pytest.mark.parametrize("kind", KINDS)
def test_sizes_equal_those_of_the_matrix(kind):
    given, dense = KINDS[kind]
    operator = as_operator(given)
    x, y = RNG.standard_normal(dense.shape[1]), RNG.standard_normal(dense.shape[0])
    norms, rows, columns = operator.row_norms, operator.row_sizes(x), operator.column_sizes(y)
    exact = np.linalg.norm(dense, axis=1)
    if operator.probes == 0 or kind.startswith(("kronecker", "block", "equal")):
        assert np.allclose(norms, exact)
        assert np.allclose(rows, abs(dense) @ abs(x))
        assert np.allclose(columns, abs(dense).T @ abs(y))
    else:  # estimates
        assert np.all((norms > 0.3 * exact) & (norms < 2 * exact))
        assert columns is None
        assert rows is None or np.all(rows <= abs(dense) @ abs(x) * (1 + 1e-12))


@pytest.mark.parametrize("order", ["C", "F"])
def test_sizes_of_a_matrix_of_several_sheets(order):
    large = np.asarray(RNG.standard_normal((700, 900)), order=order)
    x, y = RNG.standard_normal(900), RNG.standard_normal(700)
    operator = as_operator(large)
    assert np.allclose(operator.row_norms, np.linalg.norm(large, axis=1))
    assert np.allclose(operator.row_sizes(x), abs(large) @ abs(x))
    assert np.allclose(operator.column_sizes(y), abs(large).T @ abs(y))


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_norms_of_rows_neither_overflow_nor_underflow(kind):
    assert np.allclose(as_operator(kind(3e-160 * np.eye(2))).row_norms / 3e-160, 1.0)
    assert np.allclose(as_operator(kind(1e150 * np.eye(2))).row_norms / 1e150, 1.0)


@pytest.mark.parametrize("kind", KINDS)
def test_dual_step_returns_a_prox_and_its_adjoint_product(kind):
    given, dense = KINDS[kind]
    v, base = RNG.standard_normal(dense.shape[1]), RNG.standard_normal(dense.shape[0])
    y, Mty = as_operator(given).dual_step(v, base, dapd.L1(0.3), 0.7)
    assert np.allclose(y, dapd.L1(0.3).prox(base + dense @ v, 0.7))
    assert np.allclose(Mty, dense.T @ y)


def test_column_convention_of_kronecker():
    X = RNG.standard_normal((4, 3))
    product = dapd.Kronecker(A, B).forward(X.ravel(order="F"))
    assert np.allclose(product, (B @ X @ A.T).ravel(order="F"))


def test_products_in_another_precision_keep_all_digits():
    single = RNG.standard_normal((700, 900)).astype(np.float32)  # more than one panel
    x, y = RNG.standard_normal(900), RNG.standard_normal(700)
    operator = as_operator(single)
    assert np.allclose(operator.forward(x), single.astype(np.float64) @ x, rtol=1e-12, atol=1e-12)
    assert np.allclose(operator.adjoint(y), single.astype(np.float64).T @ y, rtol=1e-12, atol=1e-12)
    assert operator.forward(x).dtype == np.float64


def test_dense_matrix_is_not_copied_and_sparse_one_not_changed():
    assert as_operator(M).matrix is M
    loose = sp.csr_array((np.array([1.0, 2.0]), np.array([1, 1]), np.array([0, 2])), (1, 2))
    assert not loose.has_canonical_format
    as_operator(loose)
    assert loose.nnz == 2


def test_problem_copies_b():
    b = np.ones(4)
    problem = dapd.Problem(dapd.PseudoHuber(1.0), M, b)
    b[:] = 7
    assert np.array_equal(problem.b, np.ones(4))


@pytest.mark.parametrize("sheet", [1, 3, 7, 12, 1000])
@pytest.mark.parametrize("shape", [(1, 1), (1, 30), (30, 1), (5, 12), (12, 5), (0, 4)])
def test_sizes_of_rows_and_columns_do_not_depend_on_the_sheets(sheet, shape, monkeypatch):
    monkeypatch.setattr("dapd.operators.sizes.SHEET", sheet)
    matrix = np.random.default_rng(0).standard_normal(shape)
    x, y = np.arange(1.0, shape[1] + 1), np.arange(1.0, shape[0] + 1)
    for form in (matrix, np.asfortranarray(matrix)):
        operator = as_operator(form, empty=True)
        np.testing.assert_allclose(operator.row_norms, np.linalg.norm(matrix, axis=1))
        np.testing.assert_allclose(operator.row_sizes(x), abs(matrix) @ x)
        np.testing.assert_allclose(operator.column_sizes(y), abs(matrix).T @ y)
