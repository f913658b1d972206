"""Rows of several matrices on top of each other, and their limits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from dapd.arguments import NO_BOUND, real, unmasked
from dapd.arrays import Array
from dapd.operators.convert import as_sparse, matrix_of


class LinearRows(NamedTuple):
    """lower ≤ matrix @ x ≤ upper."""

    matrix: Any
    lower: Array
    upper: Array


def joined(rows: Sequence[LinearRows]) -> LinearRows | None:
    """All rows as one; None if there are none."""
    if not rows:
        return None
    matrices, lower, upper = zip(*rows, strict=True)
    return LinearRows(stacked(matrices), np.concatenate(lower), np.concatenate(upper))


def stacked(blocks: Sequence[Any]) -> Any:
    """All rows as one matrix: sparse if one of them is, None if there are none."""
    if not blocks:
        return None
    if any(sp.issparse(block) for block in blocks):
        return sp.vstack(blocks, format="csr")
    return np.vstack(blocks)


def as_limits(name: str, limits: Any) -> Array:
    """Limits with those that mean none infinite, before anything is computed with them; NaN is an error."""
    values = unmasked(name, limits)
    if values.dtype.kind not in "biuf":
        return real(name, values)  # which says what is wrong
    none = abs(values) >= NO_BOUND
    return np.where(none, np.copysign(np.inf, values), real(name, np.where(none, 0.0, values), empty=True))


def matrix_for(columns: int, name: str, value: Any) -> Any:
    """A checked matrix, dense or CSR, for that many variables; one row may be a vector."""
    if sp.issparse(value):
        checked = as_sparse(name, value, empty=True)
    else:
        checked = matrix_of(name, np.atleast_2d(value), empty=True)
    if checked.shape[1] != columns:
        raise ValueError(f"{name} has {checked.shape[1]} columns, expected {columns}, the number of variables")
    return checked
