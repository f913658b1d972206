"""The clock of a solve: `time.perf_counter`, or one that several solves or processes agree on."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

PULSE = 0.1  # seconds
_agreed: ContextVar[Callable[[], float] | None] = ContextVar("agreed", default=None)


def perf_counter() -> float:
    """Seconds; in a solve by several processes the same in all of them, so all decide alike."""
    agreed = _agreed.get()
    return time.perf_counter() if agreed is None else agreed()


def pulse() -> float:
    """Seconds that native code may run before the clock is asked again: an agreed one may leap."""
    return math.inf if _agreed.get() is None else PULSE


@contextmanager
def agreeing(clock: Callable[[], float]) -> Iterator[None]:
    """Use this clock within the block."""
    token = _agreed.set(clock)
    try:
        yield
    finally:
        _agreed.reset(token)
