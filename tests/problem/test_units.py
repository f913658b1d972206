"""Natural units: the core's against NumPy's, and what it refuses."""

import numpy as np
import pytest
import scipy.sparse as sp

import dapd
from dapd.machine.core import load, variants
from dapd.operators.convert import as_operator
from dapd.problem import units
from dapd.problem.units import Data, natural_units, plain_units

pytestmark = pytest.mark.skipif(not variants(), reason="the native core was not built")
ROWS, COLUMNS = 7, 11


def matrices(rng):
    dense = rng.standard_normal((ROWS, COLUMNS)) * 10.0 ** rng.uniform(-3, 3, (ROWS, 1))
    holes = np.where(rng.random((ROWS, COLUMNS)) < 0.4, dense, 0.0)
    stored = sp.csr_array(holes)
    stored.data[::3] = 0.0  # stored, and zero all the same
    return {
        "rows": dense,
        "columns": np.asfortranarray(dense),
        "float32": dense.astype(np.float32),
        "zeros": holes,
        "zeros by columns": np.asfortranarray(holes),
        "sparse": stored,
        "one row": dense[:1],
        "no entries": sp.csr_array((ROWS, COLUMNS)),
    }


def data(rng, shape, share):
    """Numbers of each kind, of which only a part is known."""

    def some(count):
        return np.where(rng.random(count) < share, 10.0 ** rng.uniform(-2, 2, count), 0.0)

    return Data(some(shape[0]), some(shape[0]), some(shape[1]), some(shape[1]), some(shape[1]))


@pytest.mark.parametrize("variant", variants())
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("name", matrices(np.random.default_rng(0)))
def test_the_core_finds_the_units_that_numpy_does(variant, share, name, monkeypatch):
    core = load(variant)
    monkeypatch.setattr(units, "load", lambda: core)
    rng = np.random.default_rng(1)
    M = as_operator(matrices(rng)[name])
    for _ in range(10):
        given = data(rng, M.shape, share)
        copies = [part.copy() for part in given]
        with np.errstate(all="ignore"):
            found, expected = natural_units(given, M), plain_units(given, M)
        for one, other in zip(found, expected, strict=True):
            # NumPy takes the roots in the precision of M
            np.testing.assert_allclose(one, other, rtol=1e-6 if name == "float32" else 1e-12)
        for part, copy in zip(given, copies, strict=True):
            np.testing.assert_array_equal(part, copy)


def test_numbers_that_may_be_rounding_are_left_to_numpy():
    core, M = load(), np.ones((2, 2))
    found = [np.empty(2) for _ in range(4)]
    kinds = [np.array([1.0, 1e-12]), np.zeros(2), np.zeros(2), np.ones(2), np.ones(2)]
    assert core.units_of_data(("dense", M, False), kinds, found, 1e-13, 1e-9, 10) is None
    kinds[0][1] = 1e-8
    assert core.units_of_data(("dense", M, False), kinds, found, 1e-13, 1e-9, 10) > 0


@pytest.mark.parametrize(
    "record",
    [
        ("dense", np.ones((2, 3)), False),
        ("csr", np.array([0, 1, 2], np.int32), np.array([0, 2], np.int32), np.ones(2)),
        ("csr", np.array([0, 1, 3], np.int32), np.array([0, 1], np.int32), np.ones(2)),
        ("csr", np.array([0, 1], np.int32), np.array([0], np.int32), np.ones(1)),
    ],
)
def test_a_matrix_that_does_not_fit_is_refused(record):
    with pytest.raises(ValueError, match=r"the matrix|indptr|indices"):
        load().units_of_data(record, [np.ones(2)] * 5, [np.empty(2)] * 4, 1e-13, 1e-9, 10)


def test_results_of_wrong_sizes_are_refused():
    with pytest.raises(ValueError, match="a result"):
        load().units_of_data(("dense", np.ones((2, 2)), False), [np.ones(2)] * 5, [np.empty(3)] * 4, 1e-13, 1e-9, 10)
    with pytest.raises(ValueError, match="another length"):
        load().units_of_data(
            ("dense", np.ones((2, 2)), False), [np.ones(2)] * 4 + [np.ones(1)], [np.empty(2)] * 4, 1e-13, 1e-9, 10
        )


def test_long_indices_of_a_sparse_matrix_are_shortened_and_its_entries_shared():
    M = sp.csr_array(np.eye(3))
    M.indices, M.indptr = M.indices.astype(np.int64), M.indptr.astype(np.int64)
    problem = dapd.Problem(dapd.Quadratic(np.ones(3)), M, np.ones(3))
    assert problem.M.matrix.indices.dtype == np.int32
    assert np.shares_memory(problem.M.matrix.data, M.data)
    assert M.indices.dtype == np.int64
