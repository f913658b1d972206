"""Linear constraints l ≤ Cx ≤ u as M, b and φ, and matrices as CSR."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from dapd.arguments import interval, numbers, renamed
from dapd.arrays import Array
from dapd.kinds.by_rows import Interval, NonNegative, Phi, Zero
from dapd.operators.base import Operator
from dapd.operators.convert import as_operator, as_sparse, matrix_of


class Rows(NamedTuple):
    """The rows of a problem."""

    M: Operator
    b: Array
    phi: Phi


def between(C: Any, l: Any, u: Any, columns: int | None) -> Rows:  # noqa: E741
    """L ≤ Cx ≤ u by the simplest φ: Zero if l = u, NonNegative if there is no l, else Interval; C may be None."""
    if C is None:
        for name, value in (("l", l), ("u", u)):
            if value is not None:
                raise ValueError(f"{name} is given without C; limits on x itself are bounds=(lower, upper)")
        return Rows(as_operator(np.zeros((0, columns or 0)), empty=True), np.zeros(0), Zero())
    M = as_operator(C, name="C")
    sides = _limit("l", -np.inf if l is None else l, M.shape[0]), _limit("u", np.inf if u is None else u, M.shape[0])
    with renamed(lower="l", upper="u"):
        lower, upper = interval(*sides)
    if np.array_equal(lower, upper):
        return Rows(M, lower, Zero())
    if np.all(np.isneginf(lower)) and np.all(np.isfinite(upper)):
        return Rows(M, upper, NonNegative())
    return Rows(M, np.zeros(M.shape[0]), Interval.between(lower, upper))


def _limit(name: str, value: Any, rows: int) -> Array:
    given = np.asarray(numbers(name, value))
    if given.ndim and given.size != rows:
        raise ValueError(f"{name} has {given.size} entries, but C has {rows} rows")
    return np.array(np.broadcast_to(given, rows))


def as_csr(name: str, matrix: Any) -> Any:
    """A dense or sparse matrix as a checked CSR array."""
    return as_sparse(name, matrix if sp.issparse(matrix) else matrix_of(name, matrix))
