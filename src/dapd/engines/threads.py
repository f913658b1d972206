"""Threads for compiled code: how many a solve may use, and calls on all of them at once."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import cache
from typing import Any

import numba
from threadpoolctl import ThreadpoolController

_pool: ThreadPoolExecutor | None = None
_alone = threading.Lock()  # all threads of a call must run at once, so that no other call may take some of them


def _forget() -> None:
    """A forked child has none of its parent's threads."""
    global _pool, _alone
    _pool, _alone = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def available() -> int:
    """As many threads as Numba and BLAS may use; one beside the main thread, where others share the cores already."""
    if threading.current_thread() is not threading.main_thread():
        return 1
    limits = [pool["num_threads"] for pool in _blas().info() if pool["user_api"] == "blas"]
    return max(1, min(int(limit) for limit in [numba.get_num_threads(), *limits]))


def together(call: Callable[..., Any], arguments: list[tuple[Any, ...]], stop: Callable[[], None]) -> None:
    """Call with each of the arguments at the same time; where one call fails, `stop` must bring the others home."""
    with _alone, _blas().limit(limits=1, user_api="blas"):  # the cores are taken
        _together(call, arguments, stop)


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController()


def _together(call: Callable[..., Any], arguments: list[tuple[Any, ...]], stop: Callable[[], None]) -> None:
    global _pool
    failures: list[BaseException] = []

    def guarded(*given: Any) -> None:
        try:
            call(*given)
        except BaseException as error:
            failures.append(error)
            stop()

    if _pool is None or _pool._max_workers < len(arguments) - 1:
        _pool = ThreadPoolExecutor(len(arguments) - 1, "dapd")
    futures: list[Future[None]] = []
    try:
        for given in arguments[1:]:
            futures.append(_pool.submit(guarded, *given))
        guarded(*arguments[0])
        wait(futures)
    except BaseException as interrupt:  # a Ctrl-C between the calls: nobody may be left waiting for the others
        failures.insert(0, interrupt)
        stop()
        _bring_home(futures)
    if failures:
        raise failures[0]  # the others failed for being stopped


def _bring_home(futures: list[Future[None]]) -> None:
    """Wait for all, however often Ctrl-C is pressed: it won't take long."""
    while True:
        try:
            wait(futures)
            return
        except KeyboardInterrupt:
            continue
