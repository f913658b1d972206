"""The derivative of a loss as the core reads it, in a table like that of φ."""

from __future__ import annotations

from typing import Any

import numpy as np

from dapd.arrays import Array
from dapd.functions.terms import Terms
from dapd.kinds.lowered import HUBER, KEEP, LOGISTIC, NO_GROUPS, UnitTable

LOSS_CODES = {"square": KEEP, "logistic": LOGISTIC, "pseudo-huber": HUBER}  # what the derivative does to u


def loss_table(terms: Terms, dtype: Any) -> tuple[UnitTable, Array | None]:
    """The derivative of the loss as a table, and what is added to its argument first."""
    shift = None if terms.d is None or terms.loss == "logistic" else -terms.d.astype(dtype)
    code = LOSS_CODES[terms.loss or ""]
    of_row = terms.d if terms.loss == "logistic" else terms.e
    lower = np.atleast_1d(np.asarray(of_row, dtype))
    return UnitTable(NO_GROUPS, np.array([code], np.uint8), lower, lower), shift
