"""Ctrl-C in a batch: what is under way ends as if its time was up, and what was found until then is returned."""

from __future__ import annotations

import time
from collections.abc import Collection
from concurrent.futures import Future, wait
from dataclasses import replace
from typing import Any

from dapd.solving.result import SENTENCES, Result, Status, by_ctrl_c

AGES = 1e9  # seconds by which the clock leaps
NO_LIMIT = AGES / 2  # seconds, for solves that would have none


class Interrupt:
    """Whether Ctrl-C was pressed, and a clock that leaps then, for the threads that solve."""

    def __init__(self) -> None:
        self.pressed = False

    def clock(self) -> float:
        """As `time.perf_counter`, until it leaps."""
        return time.perf_counter() + (AGES if self.pressed else 0.0)

    def wait(self, futures: Collection[Future[Any]], timeout: float | None = None) -> bool:
        """Wait for them, after Ctrl-C until they have noticed; return whether all are done."""
        try:
            return not wait(futures, timeout).not_done
        except KeyboardInterrupt:
            self.pressed = True
            return not wait(futures).not_done

    def notice(self, result: Result) -> None:
        """Take note of a solve in the main thread that Ctrl-C ended."""
        if by_ctrl_c(result):
            self.pressed = True

    def told(self, result: Result, seconds: float) -> Result:
        """The result of a solve that took so many seconds, with true times, and with the reason if Ctrl-C ended it."""
        self.notice(result)
        if not self.pressed:
            return result
        setup_time = min(result.setup_time, seconds)
        solve_time = min(result.solve_time, seconds - setup_time)
        if result.status is Status.time_limit:
            result = replace(result, status=Status.interrupted, message=SENTENCES[Status.interrupted])
        return replace(result, setup_time=setup_time, solve_time=solve_time)
