"""A loss as the native core knows it: a number, and a parameter of its derivative."""

from __future__ import annotations

NONE, SQUARE, LOGISTIC, PSEUDO_HUBER, CALLED = range(5)  # src/core/loss.hpp has the same numbers
LOSS_CODES = {None: NONE, "square": SQUARE, "logistic": LOGISTIC, "pseudo-huber": PSEUDO_HUBER}
