"""Explicit sparse matrices of couplings and of f, as factorisations need them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator

from dapd.arrays import Array
from dapd.model.lowered import has_valid_lowering
from dapd.model.smooth import Function, Separable
from dapd.model.terms import Terms
from dapd.operators.base import Dense, Operator
from dapd.operators.columns import ColumnBlocks
from dapd.operators.stacked import RowBlocks
from dapd.operators.structured import BlockDiagonal, Kronecker


def entries(operator: Operator) -> int | None:
    """How many entries the explicit matrix has at most; None if the matrix is not known."""
    if isinstance(operator, (RowBlocks, ColumnBlocks)):
        counts = [entries(part) for part in operator.operators]
        known = [count for count in counts if count is not None]
        return sum(known) if len(known) == len(counts) else None
    if isinstance(operator, Kronecker):
        second = operator.shape[1] // operator.A.shape[1] if operator.B is None else operator.B.size
        return int(operator.A.size * second)
    return None if operator.probes and not isinstance(operator, BlockDiagonal) else operator.work


def explicit(operator: Operator) -> Any:
    """The matrix as CSR in float64; only for an operator with known `entries`."""
    if isinstance(operator, (RowBlocks, ColumnBlocks)):
        parts = [explicit(part) for part in operator.operators]
        return (sp.vstack if isinstance(operator, RowBlocks) else sp.hstack)(parts, format="csr")
    if isinstance(operator, Kronecker):
        second = sp.eye_array(operator.shape[1] // operator.A.shape[1]) if operator.B is None else operator.B
        # without the format, blocks would be stored with their zeros
        return sp.kron(sp.csr_array(operator.A), sp.csr_array(second), format="csr").astype(np.float64)
    if isinstance(operator, BlockDiagonal):
        return sp.csr_array(sp.block_diag(operator.matrices, format="csr"), dtype=np.float64)
    if isinstance(operator, Dense):
        return _filled(operator.matrix)
    return operator.sparse().astype(np.float64)


def _filled(matrix: Array) -> Any:
    """A dense matrix as CSR, without a search for its zeros if it has none."""
    rows, columns = matrix.shape
    if not np.all(matrix):
        return sp.csr_array(matrix, dtype=np.float64)
    indices = np.tile(np.arange(columns, dtype=np.int32), rows)
    indptr = np.arange(0, rows * columns + 1, columns)
    return sp.csr_array((matrix.astype(np.float64).ravel(), indices, indptr), shape=matrix.shape)


class QuadraticForm(NamedTuple):
    """f(x) = ½xᵀPx + qᵀx + ½‖Bx − d‖² + a constant."""

    P: Any  # CSC
    q: Array
    B: Any  # CSR, perhaps without rows
    d: Array


def quadratic(f: Function, variables: int) -> QuadraticForm | None:
    """The explicit matrices of f; None if f is not quadratic, or if a matrix is not known."""
    terms = f.lowered() if has_valid_lowering(f, "value", "grad") else None
    if terms is None:
        return None
    blocks = f.blocks if isinstance(f, Separable) else None
    lengths = [variables] if blocks is None else [block.stop - block.start for block in blocks]
    parts = [_of_terms(own, n) for own, n in zip([terms] if isinstance(terms, Terms) else terms, lengths, strict=True)]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    if len(known) == 1:
        return known[0]
    P, q, B, d = zip(*known, strict=True)
    whole = sp.block_diag(P, format="csc"), np.concatenate(q), sp.block_diag(B, format="csr"), np.concatenate(d)
    return QuadraticForm(*whole)


def _of_terms(terms: Terms, n: int) -> QuadraticForm | None:
    if terms.loss not in (None, "square") or isinstance(terms.H, LinearOperator):
        return None
    if terms.A is not None and entries(terms.A) is None:
        return None
    q = np.zeros(n) if terms.c is None else -terms.c.astype(np.float64)
    P = sp.csc_array((n, n))
    if terms.H is not None:
        H = terms.H.astype(np.float64)
        P = sp.diags_array(H).tocsc() if H.ndim == 1 else sp.csc_array(H)
    ridge = terms.ridge + (terms.loss == "square" and terms.A is None)
    if ridge:
        P = P + ridge * sp.eye_array(n, format="csc")
    if terms.A is None:
        q = q - terms.d if terms.loss == "square" and terms.d is not None else q
        return QuadraticForm(P, q, sp.csr_array((0, n)), np.zeros(0))
    A, d = explicit(terms.A), np.zeros(terms.A.shape[0]) if terms.d is None else terms.d.astype(np.float64)
    squares = float(np.sum(np.diff(A.indptr).astype(np.float64) ** 2))
    if min(squares, float(n) ** 2) <= 2 * A.nnz + 4 * len(d):  # AᵀA has fewer entries than A and the residuals
        product = terms.A.dense().T @ terms.A.dense() if isinstance(terms.A, Dense) else A.T @ A
        return QuadraticForm(P + sp.csc_array(product), q - A.T @ d, sp.csr_array((0, n)), np.zeros(0))
    return QuadraticForm(P, q, A, d)
