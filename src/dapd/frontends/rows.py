"""Rows of several matrices on top of each other, and their limits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from dapd.arguments import NO_BOUND
from dapd.arrays import Array


def stacked(blocks: Sequence[Any]) -> Any:
    """All rows as one matrix: sparse if one of them is, None if there are none."""
    if not blocks:
        return None
    if any(sp.issparse(block) for block in blocks):
        return sp.vstack(blocks, format="csr")
    return np.vstack(blocks)


def open_ended(limits: Any) -> Array:
    """Limits with those that mean none infinite, before anything is computed with them."""
    values = np.asarray(limits, np.float64)
    return np.where(abs(values) >= NO_BOUND, np.copysign(np.inf, values), values)
