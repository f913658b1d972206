"""The clock of a solve, its deadline, and whether somebody has asked it to stop."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

PULSE = 0.1  # seconds of native code between two looks at the deadline


class Cancellation:
    """Asks all solves that run under it to stop, from any thread; each does when it looks at its deadline next."""

    def __init__(self) -> None:
        self.asked = False


_agreed: ContextVar[Callable[[], float] | None] = ContextVar("agreed", default=None)
_cancellation: ContextVar[Cancellation | None] = ContextVar("cancellation", default=None)


def perf_counter() -> float:
    """Seconds; in a solve by several processes the same in all of them, so all decide alike."""
    agreed = _agreed.get()
    return time.perf_counter() if agreed is None else agreed()


def cancellation() -> Cancellation | None:
    """What may ask this solve to stop; None if nothing can."""
    return _cancellation.get()


def is_cancelled() -> bool:
    """Whether somebody has asked this solve to stop."""
    found = _cancellation.get()
    return found is not None and found.asked


def seconds_left(deadline: float) -> float:
    """Seconds until a deadline on `perf_counter`; none if the solve was asked to stop."""
    if is_cancelled():
        return 0.0
    return math.inf if deadline == math.inf else deadline - perf_counter()


def is_over(deadline: float) -> bool:
    """Whether a solve must end: its deadline has passed, or it was asked to stop."""
    return seconds_left(deadline) <= 0.0


def pulse() -> float:
    """Seconds that native code may run before the deadline is looked at again."""
    return math.inf if _agreed.get() is None and _cancellation.get() is None else PULSE


@contextmanager
def agreeing(clock: Callable[[], float]) -> Iterator[None]:
    """Use this clock within the block."""
    token = _agreed.set(clock)
    try:
        yield
    finally:
        _agreed.reset(token)


@contextmanager
def under(own: Cancellation) -> Iterator[None]:
    """Let it stop the solves within the block."""
    token = _cancellation.set(own)
    try:
        yield
    finally:
        _cancellation.reset(token)
