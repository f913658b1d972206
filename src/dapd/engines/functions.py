"""f cut into shares, one a thread, in the layout of the kernels; only the matrices of a Separable are copied."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse.linalg import LinearOperator

from dapd.arrays import Array
from dapd.engines.shares import csr, csr_rows, dense_layout, share_out
from dapd.kernels import block_function
from dapd.kernels.gradient import Apart, Diagonal, Full, Huber, Loss, Scattered
from dapd.kernels.rows import KEEP, LOGISTIC, NO_GROUPS, Table
from dapd.model.smooth import Function, LeastSquares, Logistic, PseudoHuber, Quadratic, Separable
from dapd.operators.base import Dense, Sparse


class FunctionShares(NamedTuple):
    """One entry a thread."""

    records: list[Any]  # of `kernels.gradient`
    rows: list[int]  # of A
    needs: str  # which of a team's buffers the kernel uses


def share_function(f: Function, columns: list[int], dtype: Any) -> FunctionShares | None:
    """Cut f at these columns; None where Python must be asked (a subclass may have another gradient)."""
    count = len(columns) - 1
    if type(f) is PseudoHuber:
        return FunctionShares([Huber(f.e)] * count, [0] * (count + 1), "")
    if type(f) is Quadratic and not isinstance(f.H, LinearOperator):
        return _quadratic(f, columns, dtype)
    if isinstance(f, (LeastSquares, Logistic)) and type(f.A) in (Dense, Sparse) and f.A.dtype == dtype:
        return _loss(f, count, dtype) if type(f) in (LeastSquares, Logistic) else None
    if type(f) is Separable and f.blocks is not None and count == 1:
        table = block_function.tabulate(f.functions, f.blocks, dtype)
        scratch: Array = np.empty(0 if table is None else max(table.matrix.rows), dtype)
        return None if table is None else FunctionShares([Apart(table, scratch)], [0, 0], "")
    return None


def _quadratic(f: Quadratic, columns: list[int], dtype: Any) -> FunctionShares | None:
    parts = [slice(a, b) for a, b in itertools.pairwise(columns)]
    c, nothing = f.c.astype(dtype), [0] * len(columns)
    if f.H.ndim == 1:
        H = f.H.astype(dtype)
        return FunctionShares([Diagonal(H[part], c[part]) for part in parts], nothing, "")
    if f.H.dtype != dtype:
        return None
    if not isinstance(f.H, np.ndarray):
        rows = csr(f.H)
        return FunctionShares([Scattered(csr_rows(rows, p.start, p.stop), c[p]) for p in parts], nothing, "x")
    layout = dense_layout(f.H)
    if not layout:
        return None
    by_rows = f.H if layout == "C" else f.H.T  # H is its own transpose
    return FunctionShares([Full(by_rows[part], -c[part]) for part in parts], nothing, "x")


def _loss(f: LeastSquares | Logistic, count: int, dtype: Any) -> FunctionShares | None:
    if isinstance(f, LeastSquares):
        code, of_rows, base = KEEP, np.zeros(1, dtype), -f.d.astype(dtype)
    else:
        code, of_rows, base = LOGISTIC, f.labels.astype(dtype), np.zeros(f.A.shape[0], dtype)
    table = Table(NO_GROUPS, np.array([code], np.uint8), of_rows, of_rows)
    shares = share_out(f.A, table, count, by_rows=True)
    if shares is None or len(shares.matrices) < count:
        return None
    records = [
        Loss(A, own, base[a:b], f.ridge)
        for A, own, a, b in zip(shares.matrices, shares.tables, shares.rows[:-1], shares.rows[1:], strict=True)
    ]
    return FunctionShares(records, shares.rows, shares.needs)
