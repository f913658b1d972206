"""Threads for compiled code: how many a solve may use, and calls on all of them at once."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numba
from threadpoolctl import threadpool_info

_pool: ThreadPoolExecutor | None = None


def _forget() -> None:
    """A forked child has none of its parent's threads."""
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def available() -> int:
    """As many threads as Numba and BLAS may use; one beside the main thread, where others share the cores already."""
    if threading.current_thread() is not threading.main_thread():
        return 1
    limits = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]
    return max(1, min(int(limit) for limit in [numba.get_num_threads(), *limits]))


def together(call: Callable[..., Any], arguments: list[tuple[Any, ...]], stop: Callable[[], None]) -> list[Any]:
    """Call with each of the arguments at the same time; where one call fails, `stop` must bring the others home."""
    global _pool

    def guarded(*given: Any) -> Any:
        try:
            return call(*given)
        except BaseException as error:
            failures.append(error)
            stop()
            raise

    failures: list[BaseException] = []
    others = arguments[1:]
    if others and (_pool is None or _pool._max_workers < len(others)):
        _pool = ThreadPoolExecutor(len(others), "dapd")
    futures = [_pool.submit(guarded, *given) for given in others] if _pool is not None else []
    try:
        return [guarded(*arguments[0]), *(future.result() for future in futures)]
    except BaseException:
        stop()  # also when a Ctrl-C comes before the first call
        for future in futures:
            future.exception()
        if failures:
            raise failures[0] from None  # the others failed for being stopped
        raise
