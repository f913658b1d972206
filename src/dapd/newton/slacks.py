"""Slack columns of a Newton system: those with one entry, which can be eliminated without fill.

In [P + diag(h), Bᵀ; B, −I], a column j with the single entry β in row i, and only its diagonal in P, adds
β²/(P_jj + h_j) to the 1 of that row. Without such columns, a system is smaller, and a minimum degree ordering of it
takes far less time.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from dapd.arrays import Array

NO_COLUMNS = np.zeros(0, np.intp)


class Slacks(NamedTuple):
    """The slack columns of a matrix of rows, and what is left without them."""

    columns: Array
    row: Array  # of the entry of each
    value: Array  # and what it is
    diagonal: Array  # of P
    others: Array  # the other columns
    P: Any  # of these
    matrix: Any


def no_slacks(P: Any, matrix: Any) -> Slacks:
    """None of the columns."""
    return Slacks(NO_COLUMNS, NO_COLUMNS, np.zeros(0), np.zeros(0), np.arange(matrix.shape[1]), P, matrix)


def slacks_of(P: Any, matrix: Any, grouped: Array) -> Slacks:
    """The slack columns; a row that belongs to a group has none, since its group would have to be scaled as a whole."""
    rows, columns = matrix.shape
    slack = np.zeros(columns, bool)
    if sp.issparse(matrix) and (P.ndim == 1 or sp.issparse(P)):
        slack = np.bincount(matrix.indices, minlength=columns) == 1
        row_of = np.repeat(np.arange(rows), np.diff(matrix.indptr))
        if grouped.size:
            together = np.zeros(rows, bool)
            together[grouped] = True
            slack[matrix.indices[together[row_of]]] = False
        if P.ndim == 2:
            i, j = sp.coo_array(P).coords
            slack[i[i != j]] = False
    if not slack.any():
        return no_slacks(P, matrix)
    inside = slack[matrix.indices]
    found, others = matrix.indices[inside], np.flatnonzero(~slack)
    place = np.cumsum(~slack) - 1
    indptr = np.append(0, np.cumsum(~inside))[matrix.indptr]
    rest = sp.csr_array((matrix.data[~inside], place[matrix.indices[~inside]], indptr), shape=(rows, others.size))
    diagonal = (P if P.ndim == 1 else P.diagonal())[found]
    P = P[others] if P.ndim == 1 else sp.csr_array(P)[others][:, others]
    return Slacks(found, row_of[inside], matrix.data[inside], diagonal, others, P, rest)
