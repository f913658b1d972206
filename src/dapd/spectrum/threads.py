"""One BLAS thread for small work: more of them gain nothing there, and wait for each other on a busy machine."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

from threadpoolctl import ThreadpoolController

MANY = 2e10  # multiplications from which several threads are worth it

_lock = Lock()
_inside: list[Any] = []  # one entry per caller inside; the first holds what has to be restored


@contextmanager
def threads_for(multiplications: float) -> Iterator[None]:
    """Limit BLAS to one thread if the work inside is small; the last of several callers restores the number."""
    if multiplications >= MANY:
        yield
        return
    with _lock:
        limited = _inside[0] if _inside else _controller().limit(limits=1, user_api="blas")
        _inside.append(limited)
    try:
        yield
    finally:
        with _lock:
            _inside.pop()
            if not _inside:
                limited.restore_original_limits()


@functools.cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()
