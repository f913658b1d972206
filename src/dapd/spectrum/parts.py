"""Singular values from those of parts: blocks of columns, Kronecker factors and blocks on the diagonal."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import singledispatch
from typing import Any

import numpy as np
import scipy.sparse as sp

from dapd.arrays import EPSILON
from dapd.operators.base import Operator
from dapd.operators.blocks import column_matrices
from dapd.operators.convert import as_operator
from dapd.operators.structured import BlockDiagonal, Kronecker
from dapd.spectrum.deadline import check_deadline
from dapd.spectrum.record import Estimate, Spectrum, zero_spectrum

SMALL_BLOCK = 300  # rows or columns up to which the Gram matrices of blocks are decomposed together
STACK = 4_000_000  # entries of blocks that are decomposed together
ERROR = 4 * SMALL_BLOCK * EPSILON  # relative error of the square of a norm

Find = Callable[[Operator], Spectrum]


def block_norm(
    operator: Operator, blocks: list[slice], norm: Callable[[Operator], Spectrum], deadline: float = math.inf
) -> tuple[float, Estimate]:
    """An upper bound on the norms of all blocks; `norm` finds that of a large block."""
    matrices = column_matrices(operator, blocks)
    if matrices is None:
        parts, small = [operator.columns(block) for block in blocks], []
    else:
        small = [matrix for matrix in matrices if min(matrix.shape) <= SMALL_BLOCK]
        parts = [as_operator(matrix) for matrix in matrices if min(matrix.shape) > SMALL_BLOCK]
    found = [norm(part) for part in parts]
    greatest = max((spectrum.s_max for spectrum in found), default=0.0)
    residual = max((spectrum.how["s_max"].residual for spectrum in found), default=ERROR)
    greatest = max(greatest, _stacked_norm(small, deadline))
    how = Estimate("largest norm of the blocks", sum(part.products for part in found), residual)
    return greatest or 1.0, how  # for a zero matrix any positive number is a bound


def _stacked_norm(matrices: list[Any], deadline: float) -> float:
    """The largest norm; the Gram matrices of blocks of the same shape and kind are decomposed together."""
    matrices = [matrix for matrix in matrices if min(matrix.shape)]
    greatest, kinds = 0.0, [(matrix.shape, sp.issparse(matrix)) for matrix in matrices]
    for kind in set(kinds):
        alike = [matrix for matrix, own in zip(matrices, kinds, strict=True) if own == kind]
        size = min(alike[0].shape)
        together = max(1, STACK // (size * (size if sp.issparse(alike[0]) else max(alike[0].shape))))
        for k in range(0, len(alike), together):
            check_deadline(deadline)
            greatest = max(greatest, float(np.linalg.eigvalsh(_grams(alike[k : k + together]))[:, -1].max()))
    return float((greatest * (1 + ERROR)) ** 0.5)


def _grams(matrices: list[Any]) -> Any:
    """The smaller Gram matrix of each block."""
    rows, columns = matrices[0].shape
    if sp.issparse(matrices[0]):
        doubles = [matrix.astype(np.float64) for matrix in matrices]
        return np.stack([(m.T @ m if columns <= rows else m @ m.T).toarray() for m in doubles])
    stack = np.stack(matrices).astype(np.float64)
    turned = stack.transpose(0, 2, 1)
    return turned @ stack if columns <= rows else stack @ turned


@singledispatch
def spectrum_of_parts(operator: Operator, find: Find, *, positive: bool) -> Spectrum:
    """The singular values of a map that has parts, from those that `find` returns for the parts."""
    raise TypeError(f"the singular values of {operator!r} are not those of parts")


def has_parts(operator: Operator) -> bool:
    """Whether `spectrum_of_parts` knows this kind of map."""
    return spectrum_of_parts.dispatch(type(operator)) is not spectrum_of_parts.dispatch(Operator)


@spectrum_of_parts.register
def _kronecker(operator: Kronecker, find: Find, *, positive: bool) -> Spectrum:
    """The singular values of A ⊗ B are the products of those of A and of B."""
    factors = operator.factors()
    if any(not factor.matrix.any() for factor in factors):
        return zero_spectrum(operator.shape[0], positive=positive)
    parts = [find(factor) for factor in factors]
    how = {
        key: Estimate(
            "product over the Kronecker factors; " + parts[0].how[key].method,
            0,
            sum(part.how[key].residual for part in parts),
            all(part.how[key].resolved for part in parts),
        )
        for key in ("s_max", "s_min")
    }
    s_max, s_min = (math.prod(getattr(part, key) for part in parts) for key in ("s_max", "s_min"))
    return Spectrum(s_max, s_min, how=how)


@spectrum_of_parts.register
def _block_diagonal(operator: BlockDiagonal, find: Find, *, positive: bool) -> Spectrum:
    """The singular values of diag(M_1, …, M_N) are those of all blocks."""
    parts = [find(part) for part in operator.parts() if part.matrix.any()]
    if not parts:
        return zero_spectrum(operator.shape[0], positive=positive)
    high, low = max(parts, key=lambda part: part.s_max), min(parts, key=lambda part: part.s_min)
    how = {
        key: part.how[key]._replace(method="over the blocks; " + part.how[key].method)
        for key, part in (("s_max", high), ("s_min", low))
    }
    dependent = len(parts) < len(operator.matrices) and not positive  # a block of zeros
    return Spectrum(high.s_max, 0.0 if dependent else low.s_min, how=how)
