"""Rows of several matrices on top of each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp


def stacked(blocks: Sequence[Any]) -> Any:
    """All rows as one matrix: sparse if one of them is, None if there are none."""
    if not blocks:
        return None
    if any(sp.issparse(block) for block in blocks):
        return sp.vstack(blocks, format="csr")
    return np.vstack(blocks)
