"""M as the native core reads it: what it says of itself, in the layout that is fastest."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np

from dapd.arrays import Array
from dapd.engines.protocol import NotNative
from dapd.operators.base import Operator, describes, stored
from dapd.operators.explicit import as_entries, short_indices
from dapd.operators.factors import ScaledMap

BY_ROWS = ("dense", "csr", "stacked", "identity")  # records of maps whose rows are stored, or need not be
FEW = 1 << 15  # entries of a map with structure up to which the core is faster with its matrix than Python without
OWN = 1 << 20  # bytes of M that a core's own cache keeps from one step to the next
PANEL_BYTES, PANEL_ROWS = 1 << 19, 64  # bytes of a panel of columns that stays in the cache, and least rows of one
LARGE_SPARSE = 1 << 18  # entries of a sparse matrix that are worth another copy
SHORT_ROW = 8  # entries per row below which CSR is slow, since the processor mispredicts where a row ends
WORTH_TILES = 1 << 16  # entries from which a wide sparse matrix may be cut into tiles
THIN, TILED_ROW = 4, 16  # entries per column, and per row, below which a wide sparse matrix is cut into tiles
PATTERN, SAMPLED_ROWS = 1 << 12, 64  # entries from which a matrix is searched for runs, and rows that are sampled first
RUN_LENGTH = 16  # entries of a run, on average, from which runs are faster
NEAR_VECTOR = 100_000  # entries of x and y up to which they stay in the cache, so rows are sorted by their length
LONGEST_SORTED = 64  # entries of the longest row that is sorted by its length
SORTED_ROWS = 2048  # rows of a panel of sorted rows, as in src/core/sorted_rows.hpp
AT_ONCE = 8  # lanes of a vector, usually
PADDING = 1.5  # greatest ratio of the entries that are stored to fill vectors and the given ones
SIDE = 1 << 15  # rows of a tile, and of the tallest group that fits into one
FAR_APART = 1 << 13  # mean distance, in columns, of consecutive entries from which x is read from far places


def matrix(M: Operator, dtype: Any, name: str, most: int = FEW, *, by_rows: bool = False) -> tuple[Any, ...]:
    """The record of a linear map, its entries in the problem's dtype, or in float32 if that is narrower.

    With `by_rows`, each of its rows is known by itself.
    Parts of a map that have no record, or one that does not fit there, become matrices of at most `most` entries.
    """
    record = M.lowered() if describes(M, "lowered", "forward", "adjoint") else None
    if record is not None and by_rows and record[0] not in BY_ROWS:
        record = None
    bands = [part for part, _ in M.bands()] if describes(M, "bands", "forward", "adjoint") else [M]
    if record is None and len(bands) > 1:
        parts = [_as_rows(part, most) for part in bands]
        heights = (part.shape[0] for part in bands)
        record = None if None in parts else ("stacked", *zip(heights, parts, strict=True))
    elif record is None:
        record = _as_rows(M, most)
    if record is None:
        raise NotNative(_why_not(name, obstacle(M, most), most))
    return converted(record, dtype)


def _as_rows(part: Operator, most: int) -> tuple[Any, ...] | None:
    """A record of rows that others can stand on; None if there is none."""
    record = part.lowered() if describes(part, "lowered", "forward", "adjoint") else None
    if record is not None and record[0] in ("dense", "csr", "identity"):
        return record
    made = part.memory.once(stored, most, lambda: stored(part, most))
    return None if made is None else made.lowered()


@singledispatch
def obstacle(M: Operator, most: int) -> Operator:
    """The part of M that is no matrix of at most `most` entries; M itself if it is not made of others."""
    return next((obstacle(part, most) for part, _, _ in M.placed_parts() if _as_rows(part, most) is None), M)


@obstacle.register
def _(M: ScaledMap, most: int) -> Operator:
    return obstacle(M.inner, most)


def _why_not(name: str, part: Operator, most: int) -> str:
    if describes(part, "stored", "forward", "adjoint"):
        return f"{name} has {part!r}, which the core needs as one matrix here, and it has more than {most:,} entries"
    return f"{name} has {part!r}, whose products are only available in Python"


def converted(record: tuple[Any, ...], dtype: Any) -> tuple[Any, ...]:
    """The record with arrays that the core can read beside vectors of this dtype."""
    exact = record[0] == "kronecker"
    if record[0] == "csr":
        record = ("csr", *short_indices(*record[1:3]), *record[3:])

    def fitting(part: Any) -> Any:
        if isinstance(part, tuple):
            return converted(part, dtype)
        if not isinstance(part, np.ndarray) or part.dtype.kind != "f":
            return part
        fits = part.dtype == dtype or (part.dtype == np.float32 and not exact)
        return part if fits else as_entries(part, dtype)

    return tuple(map(fitting, record))


def laid_out(record: tuple[Any, ...], shape: tuple[int, int], threads: int, tallest: int = 1) -> tuple[Any, ...]:
    """The record with the fastest kernel for this matrix; `tallest` is the size of φ's largest group of rows."""
    rows, columns = shape
    parts = [part for _, part in record[1:]] if record[0] == "stacked" else [record]
    if all(part[0] in ("csr", "identity") for part in parts):
        made = [part if part[0] == "identity" else _two_way(part, columns, threads, tallest) for part in parts]
        if any(part is not None and part[0] == "tiles" for part in made):  # all parts must cut x at the same places
            made = [("tiles", *part[1:]) if part is not None and part[0] == "sorted" else part for part in made]
        if None not in made and any(part[0] == "csr" for part in parts):
            heights = [height for height, _ in record[1:]] if record[0] == "stacked" else []
            return "two-way", ("stacked", *zip(heights, made, strict=True)) if heights else made[0]
    if record[0] == "dense":
        entries, transposed = record[1:]
        # exchanging y is cheaper than exchanging x, and M may be read twice if it stays near
        small = threads > 1 and 2 * rows <= columns and entries.nbytes <= threads * OWN
        # panels would be too short to read, or too large to stay near
        flat = transposed and PANEL_ROWS * entries.itemsize * columns > PANEL_BYTES
        if flat or (small and not transposed):
            return "strips", entries, transposed
    return record


def _two_way(record: tuple[Any, ...], columns: int, threads: int, tallest: int) -> tuple[Any, ...] | None:
    """The record in a form that is faster by rows and by columns than CSR is by rows alone; None if there is none."""
    _, indptr, indices, _ = record
    if indices.dtype != np.int32:  # more than 2³¹ entries; the core makes these forms from short indices only
        return None
    if moves_on(indptr, indices):
        return "runs", *record[1:]
    if tallest <= SIDE and scattered(record, (indptr.size - 1, columns), threads):
        return "sorted" if fills_vectors(indptr, indices, columns) else "tiles", *record[1:]
    return None


def moves_on(indptr: Array, indices: Array) -> bool:
    """Whether the entries of most rows stand one column to the right of those of the row before."""
    if indices.size < PATTERN or indptr.size <= SAMPLED_ROWS:
        return False
    widths = np.diff(indptr)
    some = np.linspace(0, widths.size - 2, SAMPLED_ROWS).astype(int)
    first = indices[np.minimum(indptr[some], indices.size - 1)]
    following = indices[np.minimum(indptr[some + 1], indices.size - 1)]
    if np.mean((widths[some] == widths[some + 1]) & (following == first + 1)) < 0.5:
        return False
    follows = widths[1:] == widths[:-1]
    later = np.arange(indptr[1], indices.size)
    other = later[indices[later] != indices[later - np.repeat(widths[1:], widths[1:])] + 1]
    follows[np.searchsorted(indptr, other, side="right") - 2] = False
    diagonals = widths[0] + widths[1:][~follows].sum()
    return bool(RUN_LENGTH * diagonals <= indices.size)


def scattered(record: tuple[Any, ...], shape: tuple[int, int], threads: int) -> bool:
    """Whether tiles or sorted rows are faster than CSR.

    They are for a large sparse matrix with few entries per row, or far from each other in a long x.
    """
    _, _, indices, values = record
    rows, columns = shape
    if WORTH_TILES <= values.size < THIN * columns and (threads > 1 or values.size < TILED_ROW * rows):
        return True
    if values.size < LARGE_SPARSE:
        return False
    if values.size < SHORT_ROW * rows:
        return True
    some = np.arange(0, values.size - 1, values.size // LARGE_SPARSE)
    jumps = np.abs(indices[some + 1].astype(np.int64) - indices[some])
    return bool(columns * values.itemsize > OWN and jumps.mean() > FAR_APART)


def fills_vectors(indptr: Array, indices: Array, columns: int) -> bool:
    """Whether x and y stay near, and enough rows, and columns, of one length stand close together to fill vectors."""
    if max(indptr.size, columns) > NEAR_VECTOR:
        return False
    for counts in (np.diff(indptr), np.bincount(indices, minlength=columns)):
        longest = int(counts.max())
        if longest > LONGEST_SORTED:
            return False
        alike = np.bincount(np.arange(counts.size) // SORTED_ROWS * (longest + 1) + counts)
        filled = -(-alike // AT_ONCE) * AT_ONCE * (np.arange(alike.size) % (longest + 1))
        if filled.sum() > PADDING * indices.size:
            return False
    return True
