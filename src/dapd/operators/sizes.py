"""Sizes and products of the rows of a matrix, computed one sheet at a time to avoid a copy of the whole matrix."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from dapd.arrays import Array

SHEET = 1 << 18  # entries per sheet


def norms_of_rows(matrix: Array) -> Array:
    """The norms of the rows, without overflow or underflow of their squares."""
    peak = float(max(abs(matrix.min(initial=0.0)), abs(matrix.max(initial=0.0)))) or 1.0
    norms = np.zeros(len(matrix))
    for rows, columns in sheets(matrix):
        part = matrix[rows, columns].astype(np.float64) / peak
        norms[rows] += np.einsum("ij,ij->i", part, part)
    return peak * np.sqrt(norms)


def magnitudes(matrix: Array, v: Array, power: float = 1) -> Array:
    """|A||v|, with the entries of |A| to this power, one sheet of A at a time."""
    v = abs(v)
    if matrix.size <= SHEET:
        return raised(matrix, power) @ v
    total = np.zeros(len(matrix))
    for rows, columns in sheets(matrix):
        total[rows] += raised(matrix[rows, columns], power) @ v[columns]
    return total


def raised(entries: Array, power: float) -> Array:
    """The magnitudes of some entries to a power; to the power of 0, which are not zero."""
    if power == 0:
        return (entries != 0).astype(np.float32)
    if power == 0.25:  # a general power takes ten times as long
        return np.sqrt(np.sqrt(abs(entries)))
    return abs(entries) if power == 1 else abs(entries) ** power


def outer(matrix: Array) -> Array:
    """AAᵀ in float64, summed over sheets of whole columns."""
    rows, columns = matrix.shape
    total = np.zeros((rows, rows))
    width = max(rows, SHEET // rows)
    for k in range(0, columns, width):
        part = matrix[:, k : k + width].astype(np.float64, copy=False)
        total += part @ part.T
    return total


def sheets(matrix: Array) -> Iterator[tuple[slice, slice]]:
    """Sheets of a matrix, each of a few whole rows or columns that lie together, or of a part of one."""
    rows, columns = matrix.shape
    by_rows = matrix.flags.c_contiguous or not matrix.flags.f_contiguous
    length = min(SHEET, columns if by_rows else rows)
    count = max(1, SHEET // max(1, length))
    height, width = (count, max(1, length)) if by_rows else (max(1, length), count)
    for top, left in itertools.product(range(0, rows, height), range(0, columns, width)):
        yield slice(top, top + height), slice(left, left + width)
