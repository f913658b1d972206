"""The sizes of the rows of a matrix, computed one sheet at a time to avoid a copy of the whole matrix."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dapd.arrays import Array

SHEET = 1 << 18  # entries per sheet


def norms_of_rows(matrix: Array) -> Array:
    """The norms of the rows, without overflow or underflow of their squares."""
    peak = float(max(abs(matrix.min(initial=0.0)), abs(matrix.max(initial=0.0)))) or 1.0
    norms = np.zeros(len(matrix))
    for rows, columns in _sheets(matrix):
        part = matrix[rows, columns].astype(np.float64) / peak
        norms[rows] += np.einsum("ij,ij->i", part, part)
    return peak * np.sqrt(norms)


def magnitudes(matrix: Array, v: Array) -> Array:
    """|A||v|, one sheet of A at a time."""
    v = abs(v)
    if matrix.size <= SHEET:
        return abs(matrix) @ v
    total = np.zeros(len(matrix))
    for rows, columns in _sheets(matrix):
        total[rows] += abs(matrix[rows, columns]) @ v[columns]
    return total


def _sheets(matrix: Array) -> Iterator[tuple[slice, slice]]:
    """Sheets of a matrix: panels of rows or of columns, whichever are contiguous."""
    rows, columns = matrix.shape
    if matrix.flags.c_contiguous or not matrix.flags.f_contiguous:
        height = max(1, SHEET // columns)
        return ((slice(k, k + height), slice(None)) for k in range(0, rows, height))
    width = max(1, SHEET // max(1, rows))
    return ((slice(None), slice(k, k + width)) for k in range(0, columns, width))
