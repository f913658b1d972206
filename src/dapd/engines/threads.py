"""How many threads a solve may use, and how many are worth it while other programs run beside it."""

from __future__ import annotations

import os
import threading
from functools import cache

from threadpoolctl import ThreadpoolController

TRIAL = 0.002  # seconds of steps that tell how fast so many threads are
AGAIN = 0.25  # seconds of solving between two such trials
PART = 0.05  # of the time, at most, goes to trials of what was slower last time


def available() -> int:
    """As many threads as there are cores for this process, or as OMP_NUM_THREADS and the limits of BLAS allow.

    One if this is not the main thread: then others share the cores already.
    """
    if threading.current_thread() is not threading.main_thread():
        return 1
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    named = os.environ.get("OMP_NUM_THREADS", "")
    limits = [pool["num_threads"] for pool in blas().info() if pool["user_api"] == "blas"]
    return max(1, min([cores, *limits, *([int(named)] if named.isdigit() else [])]))


@cache
def blas() -> ThreadpoolController:
    """The libraries of linear algebra that NumPy and SciPy have loaded."""
    return ThreadpoolController()


class Choice:
    """One thread or all: whichever has lately been faster.

    Threads that run side by side wait for each other at every step, so another program on one of the cores holds up
    all of them. Which is faster is measured, now and again, on the steps of the solve itself.
    """

    def __init__(self, most: int) -> None:
        self.most, self.threads = most, most
        self.cost = {count: 0.0 for count in {1, most}}  # seconds per step, 0 if not known
        self.since = AGAIN  # seconds of solving since the last trial

    def next(self, steps: int) -> tuple[int, int]:
        """How many threads, and for how many of the steps."""
        if self.most == 1:
            return 1, steps
        other = 1 if self.threads > 1 else self.most
        known = self.cost[self.threads]
        if known and self.since >= AGAIN:
            self.since = 0.0
            cost = self.cost[other] or known
            return other, max(1, min(steps, int(min(TRIAL, PART * AGAIN) / cost)))
        # the first steps are few, so that the other count is tried early
        return self.threads, steps if known else max(1, min(steps, self.first))

    first = 8

    def learn(self, threads: int, steps: int, seconds: float) -> None:
        """Take note of what steps took."""
        if self.most == 1 or steps == 0:
            return
        self.cost[threads] = seconds / steps
        self.since += seconds
        if all(self.cost.values()):
            self.threads = min(self.cost, key=lambda count: self.cost[count])
