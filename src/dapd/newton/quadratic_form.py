"""The explicit matrices of a quadratic f."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from dapd.arrays import Array
from dapd.functions.terms import Part
from dapd.newton.matrices import csr_of
from dapd.problem.problem import Problem


class QuadraticForm(NamedTuple):
    """f(x) = ½xᵀPx + qᵀx + ½‖Bx − d‖² + a constant."""

    P: Any  # a vector (the diagonal), an array, or CSC
    q: Array
    B: Any  # CSR, or None if there is no such term
    d: Array


def quadratic(problem: Problem) -> QuadraticForm | None:
    """The explicit matrices of f; None if f is not quadratic, or if a matrix is not known."""
    known = []
    for part in problem.terms or []:
        form = _of_terms(part)
        if form is None:
            return None
        known.append(form)
    if len(known) <= 1:
        return known[0] if known else None
    P, q, B, d = zip(*known, strict=True)
    rows = [sp.csr_array((0, p.shape[0])) if own is None else own for own, p in zip(B, P, strict=True)]
    whole_P = sp.block_diag([_matrix(own) for own in P], format="csc")
    return QuadraticForm(whole_P, np.concatenate(q), sp.block_diag(rows, format="csr"), np.concatenate(d))


def _of_terms(part: Part) -> QuadraticForm | None:
    terms, n = part.terms, part.size
    if not terms.is_quadratic or terms.has_products_only:
        return None
    if terms.A is not None and terms.A.entry_count is None:
        return None
    q = np.zeros(n) if terms.c is None else -terms.c.astype(np.float64)
    ridge = terms.ridge + (terms.loss is not None and terms.A is None)
    H = terms.H
    if H is None or H.ndim == 1:
        P = np.full(n, float(ridge)) if H is None else H.astype(np.float64) + ridge
    else:
        P = _symmetric(H)
        P = P + ridge * (np.eye(n) if isinstance(P, np.ndarray) else sp.eye_array(n, format="csc")) if ridge else P
    if terms.A is None:
        q = q - terms.d if terms.loss is not None and terms.d is not None else q
        return QuadraticForm(P, q, None, np.zeros(0))
    A, d = csr_of(terms.A), np.zeros(terms.A.shape[0]) if terms.d is None else terms.d.astype(np.float64)
    squares = float(np.sum(np.diff(A.indptr).astype(np.float64) ** 2))
    if min(squares, float(n) ** 2) <= 2 * A.nnz + 4 * len(d):  # AᵀA has fewer entries than A and the residuals
        dense = isinstance(terms.A.stored_matrix, np.ndarray)
        product = terms.A.dense().T @ terms.A.dense() if dense else A.T @ A
        return QuadraticForm(_matrix(P) + sp.csc_array(product), q - A.T @ d, None, np.zeros(0))
    return QuadraticForm(P, q, A, d)


def _matrix(P: Any) -> Any:
    """A sparse matrix, also of a vector that is a diagonal."""
    return sp.csc_array(P) if np.ndim(P) != 1 else sp.diags_array(P).tocsc()


def _symmetric(H: Any) -> Any:
    """A symmetric matrix, in CSC if it is sparse: its rows are its columns."""
    if not sp.issparse(H):
        return np.asarray(H, np.float64)
    if H.format == "csr":
        return sp.csc_array((H.data.astype(np.float64, copy=False), H.indices, H.indptr), shape=H.shape)
    return sp.csc_array(H, dtype=np.float64)
