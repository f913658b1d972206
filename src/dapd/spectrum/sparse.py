"""Explicit sparse matrices: orthogonal rows directly, then Lanczos, then a factor of MMᵀ if that is cheap."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from dapd.arrays import EPSILON
from dapd.operators.base import Operator
from dapd.operators.explicit import Sparse
from dapd.spectrum.exact import exact
from dapd.spectrum.factored import Band, Least, Ordering, band_cost, banded, least_eigenvalue, least_square_unsquared
from dapd.spectrum.lanczos import iterative
from dapd.spectrum.record import Estimate, Spectrum, zero_spectrum

SAMPLE = 200  # rows of MMᵀ that are computed to predict its number of entries
GRAM_ENTRIES = 2  # MMᵀ is formed if it has at most this many entries per entry of M
BAND_ENTRIES = 64  # a banded factor is formed if it has at most this many entries per entry of MMᵀ
BAND_SECONDS = 2.0  # most seconds of the factorisation of a band
FEW = 1_000_000  # a matrix of any kind may have this many entries
ORTHOGONAL = 1e-8  # the rest of a row of MMᵀ is neglected up to this fraction of its diagonal entry
FULL_GRAM_ROWS = 3_000  # rows up to which MMᵀ may become dense if Lanczos does not resolve s_min
STEPS_BEFORE_FACTOR = 100  # steps of Lanczos before a factorisation, which costs no more than they do
STEPS_BEFORE_FULL = 300  # steps of Lanczos before a sparse MMᵀ becomes dense


class Gram(NamedTuple):
    """An explicit sparse symmetric matrix, with simple facts about its rows."""

    matrix: Any
    diagonal: Any
    off_diagonal_sums: Any  # Σ |entries| of each row without its diagonal entry
    ordering: Ordering | None  # None if the band is too wide to factorise

    @classmethod
    def of(cls, matrix: Any) -> Gram:
        """Analyse a matrix."""
        matrix.eliminate_zeros()
        diagonal = matrix.diagonal()
        gram = cls(matrix, diagonal, np.asarray(abs(matrix).sum(axis=1)).ravel() - np.abs(diagonal), None)
        if matrix.nnz == 0 or gram.nearly_diagonal:
            return gram
        ordering, size = banded(matrix), matrix.shape[0]
        affordable = size * (ordering.width + 1) <= BAND_ENTRIES * matrix.nnz + FEW
        affordable &= band_cost(size, ordering.width) <= BAND_SECONDS
        return gram._replace(ordering=ordering) if affordable else gram

    @property
    def nearly_diagonal(self) -> bool:
        """Whether every eigenvalue is a diagonal entry, up to a fraction of ORTHOGONAL."""
        # the differences of sums have rounding errors
        return bool(np.all(self.off_diagonal_sums <= ORTHOGONAL * np.abs(self.diagonal)))

    @property
    def above(self) -> float:
        """Gershgorin's bound on the largest eigenvalue."""
        return float((self.diagonal + self.off_diagonal_sums).max())


def sparse(operator: Operator, matrix: Any, name: str, *, positive: bool, deadline: float = math.inf) -> Spectrum:
    """s_max and s_min of an explicit sparse matrix."""
    rows, columns = matrix.shape
    wide = (matrix if rows <= columns else matrix.T).tocsr().astype(np.float64, copy=False)
    if not wide.data.all():  # a row of stored zeros is an empty row
        wide = wide.copy()
        wide.eliminate_zeros()
    filled = np.diff(wide.indptr) > 0
    independent = rows <= columns and bool(filled.all())
    if not (positive or independent):
        found = iterative(operator, name, positive=False, least=False, deadline=deadline)
        how = found.how | {"s_min": Estimate("an empty row, or more rows than columns", 0, 0.0)}
        return Spectrum(found.s_max, 0.0, how=how)
    if not filled.all():
        wide = wide[filled]
    if wide.nnz == 0:
        return zero_spectrum(rows, positive=positive)
    return _independent(wide, name, positive=positive, deadline=deadline)


def _independent(wide: Any, name: str, *, positive: bool, deadline: float) -> Spectrum:
    """The singular values of a matrix with no empty row and no more rows than columns."""
    gram = Gram.of(wide @ wide.T) if _gram_is_sparse(wide) else None
    if gram is None:
        return _scattered(Sparse(wide), name, positive=positive, deadline=deadline)
    if gram.nearly_diagonal:
        return _orthogonal(gram)
    found = None
    if gram.ordering is not None:
        found = _banded(wide, gram, name, positive=positive, deadline=deadline)
    if found is None or not found.resolved:
        found = _scattered(Sparse(wide), name, positive=positive, deadline=deadline)
    s_max = min(found.s_max, gram.above**0.5 * (1 + 4 * EPSILON * wide.shape[0]))
    return Spectrum(s_max, found.s_min, how=found.how)


def _scattered(operator: Operator, name: str, *, positive: bool, deadline: float) -> Spectrum:
    """Lanczos, then dense linear algebra if that does not resolve s_min and there are few rows."""
    few = operator.shape[0] <= FULL_GRAM_ROWS
    steps = STEPS_BEFORE_FULL if few else None
    found = iterative(operator, name, positive=positive, steps=steps, deadline=deadline)
    if found.resolved or not few:
        return found
    return exact(operator, name, positive=positive, svd_entries=FEW, deadline=deadline)


def _banded(wide: Any, gram: Gram, name: str, *, positive: bool, deadline: float) -> Spectrum:
    """Lanczos, then a banded factor of MMᵀ, then one of M itself if squaring loses s_min."""
    found = iterative(Sparse(wide), name, positive=positive, steps=STEPS_BEFORE_FACTOR, deadline=deadline)
    if found.resolved and found.s_min > 0:
        return found
    assert gram.ordering is not None
    band = Band(gram.matrix, gram.ordering, norm=gram.above, terms=int(np.diff(wide.indptr).max()))
    least = least_eigenvalue(band, positive=False, deadline=deadline)
    if least is not None and least.singular:
        unsquared = least_square_unsquared(wide, found.s_max, deadline)
        if unsquared is not None and not (unsquared.singular and positive):
            return with_least(found, unsquared, "banded factor of the augmented matrix")
        if positive:
            least = least_eigenvalue(band, positive=True, deadline=deadline)
    return with_least(found, least, "banded Cholesky factor of MMᵀ")


def with_least(found: Spectrum, least: Least | None, method: str) -> Spectrum:
    """The spectrum with an s_min from a factor, if there is one."""
    if least is None:
        return found
    how = found.how | {"s_min": Estimate(method, 0, least.error / 2, least.resolved)}
    return Spectrum(found.s_max, min(least.lower**0.5, found.s_max), how=how)


def _gram_is_sparse(wide: Any) -> bool:
    """Whether MMᵀ has few entries, estimated from a sample of its rows."""
    size = wide.shape[0]
    rows = np.unique(np.linspace(0, size - 1, SAMPLE).astype(int))
    entries = (wide[rows] @ wide.T).nnz / len(rows) * size
    return bool(entries <= GRAM_ENTRIES * wide.nnz + FEW)


def _orthogonal(gram: Gram) -> Spectrum:
    """The spectrum of orthogonal rows: the singular values are their norms, up to Gershgorin's discs."""
    error = 4 * EPSILON * gram.matrix.shape[0] ** 0.5
    low, high = float((gram.diagonal - gram.off_diagonal_sums).min()), gram.above
    how = Estimate("norms of orthogonal rows", 0, error)
    return Spectrum((1 + error) * high**0.5, (1 - error) * low**0.5, how={"s_max": how, "s_min": how})
