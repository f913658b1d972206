"""M and φ cut into shares, one a thread, in the layout of the kernels; Kronecker factors and scattered M are copied."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np

from dapd.arrays import Array
from dapd.kernels.coupling import Columns, Factor, Factors, Products, Rows, Strip
from dapd.kernels.dense import LONG, panel_height
from dapd.kernels.diagonal import Blocks
from dapd.kernels.rows import Table, part
from dapd.kernels.sparse import Csr
from dapd.kernels.tiles import SIDE, tiled
from dapd.operators.base import Dense, Operator, Sparse
from dapd.operators.structured import BlockDiagonal, Kronecker

LARGE = 1 << 18  # entries of a sparse matrix that are worth another copy
FEW = 8  # entries a row: the processor mispredicts where a row of CSR ends
FAR = 1 << 13  # columns from one entry to the next, on average: x is read from far places
OWN = 1 << 20  # bytes that a core's own cache keeps from one step to the next
LINE = 8  # columns are cut at multiples of this: a cache line in float64


class Shares(NamedTuple):
    """One entry a thread."""

    matrices: list[Any]  # records of `kernels.coupling`
    tables: list[Table]
    rows: list[int]  # the first row of each, and the end
    columns: list[int]
    needs: str  # which of a team's buffers the kernel uses
    whole: bool = False  # each thread has all rows


def share_out(M: Operator, phi: Table, threads: int, by_rows: bool = False) -> Shares | None:
    """Cut M and φ for so many threads, or fewer; None where M is known by its products alone, or its layout is odd.

    `by_rows` asks for shares of rows alone, which go with any shares of columns.
    """
    if type(M) is Dense:
        return _dense(M.matrix, phi, threads, by_rows)
    if type(M) is Sparse:
        share = _tiled if scattered(M.matrix) and not by_rows else _sparse
        return share(M.matrix, phi, threads)
    if type(M) is Kronecker:
        return _kronecker(M, phi, threads)
    return _block_diagonal(M, phi, threads) if type(M) is BlockDiagonal else None


def cut(weights: Array, threads: int, allowed: Array) -> list[int]:
    """Ends of shares at `allowed` positions, the cumulated weight divided evenly; fewer shares where it must be."""
    goals = weights[-1] * np.arange(1, threads) / threads
    nearest = allowed[np.searchsorted(weights[allowed], goals)]
    return [int(end) for end in np.unique([0, *nearest, len(weights) - 1])]


def even(size: int, threads: int, multiple: int) -> list[int]:
    """The same number of columns for each."""
    inner = (round(size * t / threads / multiple) * multiple for t in range(1, threads))
    return [0, *(min(end, size) for end in inner), size]


def row_ends(phi: Table, rows: int) -> Array:
    """Where rows may be cut."""
    return phi.first if phi.first.size else np.arange(rows + 1)


def dense_layout(matrix: Array) -> str:
    """Return C, F, or nothing where kernels can't read it."""
    if not (matrix.flags.aligned and matrix.dtype.isnative):
        return ""
    return "C" if matrix.flags.c_contiguous else "F" if matrix.flags.f_contiguous else ""


def _dense(matrix: Array, phi: Table, threads: int, by_rows: bool) -> Shares | None:
    layout, count = dense_layout(matrix), matrix.shape[0]
    if not layout:
        return None
    if layout == "F" and panel_height(matrix.itemsize, matrix.shape[1]) < LONG:
        # a panel would either be too short to read, or too large to stay near: two products of BLAS do better
        if matrix.dtype != phi.lower.dtype:
            return None  # which BLAS can't mix
        return Shares([Products(matrix.T)], [phi], [0, count], [0, matrix.shape[1]], "")
    wide = layout == "C" and threads > 1 and 2 * count <= matrix.shape[1]
    if wide and matrix.nbytes <= threads * OWN and not by_rows:
        # to exchange y is cheaper than to exchange x, and M may be read twice: it stays near
        columns = even(matrix.shape[1], threads, LINE)
        strips = [Strip(matrix, left) for left in columns[:-1]]
        return Shares(strips, [phi] * threads, [0] * threads + [count], columns, "sums", whole=True)
    rows = cut(np.arange(count + 1), threads, row_ends(phi, count))
    pairs = list(itertools.pairwise(rows))
    records = [Rows(matrix[a:b]) if layout == "C" else Columns(matrix.T, a) for a, b in pairs]
    return _by_rows(records, phi, rows, matrix.shape[1])


def scattered(matrix: Any) -> bool:
    """Whether tiles are faster: a large sparse matrix with few entries a row, or far from each other in a long x."""
    if matrix.nnz < LARGE:
        return False
    if matrix.nnz < FEW * matrix.shape[0]:
        return True
    some = np.arange(0, matrix.nnz - 1, matrix.nnz // LARGE)
    jumps = np.abs(matrix.indices[some + 1].astype(np.int64) - matrix.indices[some])
    return bool(matrix.shape[1] * matrix.dtype.itemsize > OWN and jumps.mean() > FAR)


def _tiled(matrix: Any, phi: Table, threads: int) -> Shares:
    rows = cut(matrix.indptr.astype(np.int64), min(threads, matrix.shape[1]), row_ends(phi, matrix.shape[0]))
    threads, pairs = len(rows) - 1, list(itertools.pairwise(rows))
    tops = [np.linspace(a, b, 1 + -(-(b - a) // SIDE)).astype(np.int64) for a, b in pairs]
    M = tiled(csr(matrix), np.concatenate([*(top[:-1] for top in tops), rows[-1:]]), matrix.shape[1], threads)
    down = np.cumsum([0, *(len(top) - 1 for top in tops)]).tolist()
    entries = np.concatenate([[0], np.cumsum(np.diff(M.start.astype(np.int64), axis=1).sum(axis=0))])
    across = cut(entries, threads, np.arange(len(entries)))
    if len(across) <= threads:  # where all entries are in few columns
        across = even(len(entries) - 1, threads, 1)
    own = zip(down[:-1], down[1:], across[:-1], across[1:], strict=True)
    records = [M._replace(p=p, p_stop=p_stop, q=q, q_stop=q_stop) for p, p_stop, q, q_stop in own]
    return Shares(records, [part(phi, a, b) for a, b in pairs], rows, [int(M.left[q]) for q in across], "x y")


def _sparse(matrix: Any, phi: Table, threads: int) -> Shares:
    M = csr(matrix)
    rows = cut(matrix.indptr.astype(np.int64), threads, row_ends(phi, matrix.shape[0]))
    records = [csr_rows(M, a, b) for a, b in itertools.pairwise(rows)]
    return _by_rows(records, phi, rows, matrix.shape[1])


def _by_rows(records: list[Any], phi: Table, rows: list[int], columns: int) -> Shares:
    tables = [part(phi, a, b) for a, b in itertools.pairwise(rows)]
    return Shares(records, tables, rows, even(columns, len(records), LINE), "x parts")


def _kronecker(M: Kronecker, phi: Table, threads: int) -> Shares:
    dtype = phi.lower.dtype
    A = np.ascontiguousarray(M.A, dtype)
    if M.B is not None:
        B = np.ascontiguousarray(M.B, dtype)
        half = np.empty((A.shape[0], B.shape[1]), dtype)
        return Shares([Factors(A, B, half)], [phi], [0, M.shape[0]], [0, M.shape[1]], "")
    width = M.shape[0] // A.shape[0]
    allowed = row_ends(phi, M.shape[0])
    rows = cut(np.arange(M.shape[0] + 1), threads, allowed[allowed % width == 0])
    columns = even(M.shape[1], len(rows) - 1, width)
    turned = np.ascontiguousarray(A.T)
    tables, records = [], []
    for t in range(len(rows) - 1):
        tables.append(part(phi, rows[t], rows[t + 1]))
        own, own_columns = (slice(ends[t] // width, ends[t + 1] // width) for ends in (rows, columns))
        records.append(Factor(A[own], turned[own_columns]))
    return Shares(records, tables, rows, columns, "x y")


def _block_diagonal(M: BlockDiagonal, phi: Table, threads: int) -> Shares:
    at = np.cumsum([0, *(matrix.size for matrix in M.matrices)])
    row, column = (np.array([0, *(b.stop for b in blocks)]) for blocks in (M.row_blocks, M.column_blocks))
    # panels end where a block ends and no group goes on
    ends = np.flatnonzero(np.isin(row, row_ends(phi, M.shape[0])))
    blocks = cut(at, threads, ends)
    tables, records = [], []
    for a, b in itertools.pairwise(blocks):
        table = part(phi, row[a], row[b])
        panels = ends[(ends >= a) & (ends <= b)] - a
        own_rows = row[a : b + 1] - row[a]
        unit = np.searchsorted(table.first, own_rows[panels]) if phi.first.size else own_rows[panels]
        indices = (at[a : b + 1], own_rows, column[a : b + 1] - column[a], panels, unit)
        tables.append(table)
        records.append(Blocks(M.entries, *(index.astype(np.int64) for index in indices)))
    return Shares(records, tables, row[blocks].tolist(), column[blocks].tolist(), "")


def csr(matrix: Any) -> Csr:
    """A SciPy CSR array's own memory."""
    unsigned = np.uint32 if matrix.indices.dtype == np.int32 else np.uint64
    return Csr(matrix.indptr.view(unsigned), matrix.indices.view(unsigned), matrix.data)


def csr_rows(M: Csr, start: int, stop: int) -> Csr:
    """Some of its rows."""
    return M._replace(indptr=M.indptr[start : stop + 1])
