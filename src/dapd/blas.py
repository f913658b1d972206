"""One BLAS thread for small work: more of them gain little there, and wait for each other on a busy machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any

SMALL = 1 << 16  # multiplications up to which BLAS uses one thread anyway
MANY = 2e10  # multiplications from which several threads are worth it

_lock = Lock()
_inside: list[Any] = []  # one entry per caller inside; the first holds what has to be restored


@contextmanager
def single_blas(multiplications: float, most: float = float("inf")) -> Iterator[None]:
    """Limit BLAS to one thread for work of this size, up to `most`; the last of several callers lifts the limit."""
    if not SMALL <= multiplications < most:
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


@cache
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController  # takes 20 ms to look around, and small problems do without

    return ThreadpoolController()
