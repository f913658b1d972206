"""The symbolic cost of a factorisation: exact counts on known patterns, and the core against plain Python."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from cores import CORES, needs_core
from minimum_degree import MinimumDegree

from dapd.newton import costs
from dapd.newton.costs import cost


def grid(side):
    line = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(side, side))
    return sp.csr_array(sp.kron(line, sp.eye_array(side)) + sp.kron(sp.eye_array(side), line))


def arrow(size):
    matrix = sp.lil_array((size, size))
    matrix.setdiag(1.0)
    matrix[0], matrix[:, 0] = 1.0, 1.0
    return sp.csr_array(matrix)


def random(size, density, seed=0):
    half = sp.random_array((size, size), density=density, rng=np.random.default_rng(seed))
    return sp.csr_array(half + half.T + sp.eye_array(size))


def kkt(rows, columns, density):
    M = sp.random_array((rows, columns), density=density, rng=np.random.default_rng(1))
    return sp.csr_array(sp.block_array([[sp.eye_array(columns), M.T], [M, -sp.eye_array(rows)]]))


def pattern(matrix):
    return matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32)


PATTERNS = {
    "grid": grid(15),
    "arrow": arrow(300),
    "sparse": random(200, 0.01),
    "denser": random(60, 0.2),
    "kkt": kkt(80, 120, 0.03),
    "dense rows": sp.csr_array(sp.block_array([[grid(20), np.ones((400, 3))], [np.ones((3, 400)), np.eye(3)]])),
    "full": sp.csr_array(np.ones((20, 20))),
    "diagonal": sp.csr_array(sp.eye_array(10)),
    "one": sp.csr_array(np.ones((1, 1))),
}


def eliminated(matrix, order):
    """Entries and flops of L, by eliminating the columns of a dense pattern one by one."""
    full = matrix.toarray() != 0
    full = (full | full.T)[np.ix_(order, order)]
    counts = []
    for k in range(len(full)):
        below = np.flatnonzero(full[k + 1 :, k]) + k + 1
        full[np.ix_(below, below)] = True
        counts.append(len(below))
    return sum(counts), sum(count**2 for count in counts)


def exact_minimum_degree(matrix):
    """The fill of the textbook's minimum degree ordering, each degree exact."""
    full = (matrix.toarray() != 0) | (matrix.toarray() != 0).T
    np.fill_diagonal(full, False)
    left, fill = set(range(len(full))), 0
    while left:
        pivot = min(left, key=lambda i: full[i].sum())
        near = np.flatnonzero(full[pivot])
        fill += len(near)
        full[np.ix_(near, near)] = True
        np.fill_diagonal(full, False)
        full[pivot], full[:, pivot] = False, False
        left.remove(pivot)
    return fill


@pytest.mark.parametrize(
    ("matrix", "fill", "flops"),
    [
        (sp.eye_array(10), 0, 0),
        (sp.csr_array(np.ones((20, 20))), 190, sum(k * k for k in range(20))),
        (arrow(300), 299, 299),
        (sp.diags_array([1.0, 2.0, 1.0], offsets=[-1, 0, 1], shape=(500, 500)), 499, 499),
        (sp.block_diag([np.ones((4, 4))] * 5), 30, 5 * 14),
    ],
    ids=["diagonal", "full", "arrow", "chain", "blocks"],
)
def test_known_patterns_are_counted_exactly(matrix, fill, flops):
    assert cost(matrix) == (fill, flops, True)


@pytest.mark.parametrize("name", ["grid", "sparse", "denser", "kkt", "arrow"])
def test_fill_is_close_to_that_of_exact_degrees(name):
    found, exact = cost(PATTERNS[name]).fill, exact_minimum_degree(PATTERNS[name])
    assert found <= 1.3 * exact


@needs_core
@pytest.mark.parametrize("variant", CORES)
@pytest.mark.parametrize("name", PATTERNS)
def test_core_and_python_count_alike(name, variant):
    indptr, indices = pattern(PATTERNS[name])
    ours = CORES[variant].symbolic_cost(indptr, indices, math.inf, math.inf)
    plain = MinimumDegree(indptr, indices).run(math.inf, math.inf)
    assert ours[2]
    assert plain[2]
    np.testing.assert_allclose(ours[0], plain[0], rtol=0.1)  # ties may be broken differently
    np.testing.assert_allclose(ours[1], plain[1], rtol=0.2)


@pytest.mark.parametrize("name", ["grid", "sparse", "denser", "kkt"])
def test_one_triangle_is_enough(name):
    matrix = PATTERNS[name]
    whole = cost(matrix)
    for half in (sp.triu(matrix), sp.tril(matrix, -1)):
        np.testing.assert_allclose(cost(half).fill, whole.fill, rtol=0.1)


def test_a_limit_ends_the_count_early():
    full = cost(grid(30))
    for limits in ({"limit": full.flops / 2}, {"fill_limit": full.fill / 2}):
        part = cost(grid(30), **limits)
        assert not part.complete
        assert part.fill < full.fill
        assert part.flops < full.flops
    assert cost(grid(30), full.flops, fill_limit=full.fill) == full


def test_dense_rows_cost_what_they_couple():
    n = 5000
    band = sp.diags_array([1.0, 1.0, 1.0], offsets=[-1, 0, 1], shape=(n, n))
    row = np.zeros((1, n))
    row[0, : n // 2] = 1.0
    found = cost(sp.block_array([[band, row.T], [row, np.eye(1)]]))
    assert found.complete
    assert n <= found.fill <= 2 * n


@pytest.mark.parametrize("name", PATTERNS)
def test_without_the_core_superlu_counts(monkeypatch, name):
    with_core = cost(PATTERNS[name])
    monkeypatch.setattr(costs, "load", lambda: None)
    np.testing.assert_allclose(cost(PATTERNS[name]), with_core, rtol=0.1)


def test_without_the_core_large_patterns_get_an_upper_bound(monkeypatch):
    with_core = cost(grid(60))
    monkeypatch.setattr(costs, "load", lambda: None)
    bound = cost(grid(60))
    assert bound.complete
    assert with_core.fill <= bound.fill <= 10 * with_core.fill
    assert not cost(grid(60), bound.flops / 2).complete


@pytest.mark.parametrize("name", PATTERNS)
def test_the_band_bounds_the_fill_of_every_pattern(monkeypatch, name):
    monkeypatch.setattr(costs, "load", lambda: None)
    monkeypatch.setattr(costs, "SLOW", 0)
    bound = cost(PATTERNS[name])
    found = MinimumDegree(*pattern(PATTERNS[name])).run(math.inf, math.inf)
    assert bound.fill >= 0.99 * found[0]
    assert bound.flops >= 0.99 * found[1]


def test_counts_are_those_of_an_elimination():
    matrix = random(120, 0.03)
    best = eliminated(matrix, np.argsort(np.diff(matrix.indptr), kind="stable"))
    assert cost(matrix).fill <= best[0]


def test_a_matrix_must_be_square():
    with pytest.raises(ValueError, match="square"):
        cost(sp.csr_array((2, 3)))
