"""The largest norm of a block of columns."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from dapd.arrays import EPSILON
from dapd.operators.base import Operator
from dapd.operators.blocks import column_matrices
from dapd.operators.convert import as_operator
from dapd.spectrum.deadline import check_deadline
from dapd.spectrum.record import Estimate, Spectrum

SMALL_BLOCK = 300  # rows or columns up to which the Gram matrices of blocks are decomposed together
STACK = 4_000_000  # entries of blocks that are decomposed together
ERROR = 4 * SMALL_BLOCK * EPSILON  # relative error of the square of a norm


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
    greatest, kinds = 0.0, [(matrix.shape, sp.issparse(matrix)) for matrix in matrices]
    for kind in set(kinds):
        alike = [matrix for matrix, own in zip(matrices, kinds, strict=True) if own == kind]
        size = min(alike[0].shape)
        together = max(1, STACK // (size * (size if sp.issparse(alike[0]) else max(alike[0].shape))))
        for k in range(0, len(alike), together):
            check_deadline(deadline)
            grams = _grams(alike[k : k + together])
            greatest = max(greatest, float(np.linalg.eigvalsh(grams)[:, -1].max()))
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
