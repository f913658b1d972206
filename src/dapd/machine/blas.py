"""One BLAS thread for small work: more threads gain little, and wait for each other on a busy machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any

SMALL = 1 << 16  # multiplications up to which BLAS uses one thread anyway
MANY = 2e10  # multiplications from which several threads pay off

_lock = Lock()
_inside: list[Any] = []  # one entry per active caller, all the same; the last caller restores the limit with it


@contextmanager
def single_blas(multiplications: float, most: float = float("inf")) -> Iterator[None]:
    """Limit BLAS to one thread for work of this size, up to `most`; the last active caller lifts the limit."""
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
    from threadpoolctl import ThreadpoolController  # the import takes 20 ms, and small problems do not need it

    return ThreadpoolController()
