"""The clock of a solve: `time.perf_counter`, or the one that the processes of a solve agree on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_agreed: ContextVar[Callable[[], float] | None] = ContextVar("agreed", default=None)


def perf_counter() -> float:
    """Seconds; in a solve by several processes the same in all of them, so all decide alike."""
    agreed = _agreed.get()
    return time.perf_counter() if agreed is None else agreed()


@contextmanager
def agreeing(clock: Callable[[], float]) -> Iterator[None]:
    """Use this clock within the block."""
    token = _agreed.set(clock)
    try:
        yield
    finally:
        _agreed.reset(token)
