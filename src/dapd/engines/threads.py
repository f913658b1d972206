"""How many threads a solve may use, and how many are worth it on a busy machine."""

from __future__ import annotations

import os
import threading

TRIAL = 0.002  # seconds of steps that measure how fast a number of threads is
AGAIN = 0.25  # seconds of solving between two such trials
WARM, FIRST = 2, 16  # steps that start the threads, and steps of the first trial


def available() -> int:
    """As many threads as there are cores for this process, or as OMP_NUM_THREADS allows.

    One if this is not the main thread: then others share the cores already.
    """
    if threading.current_thread() is not threading.main_thread():
        return 1
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    named = os.environ.get("OMP_NUM_THREADS", "")
    return max(1, min(cores, int(named)) if named.isdigit() else cores)


class Choice:
    """One thread or all: whichever has lately been faster.

    Threads that run side by side wait for each other at every step, so another program on one of the cores holds up
    all of them. Which is faster is measured, now and again, on the steps of the solve itself.
    """

    def __init__(self, most: int) -> None:
        self.most, self.threads = most, most
        self.cost = dict.fromkeys({1, most}, 0.0)  # seconds per step, 0 if not known
        self.since = AGAIN  # seconds of solving since the last trial
        self.warm = False

    def next(self, steps: int) -> tuple[int, int]:
        """How many threads, and for how many of the steps."""
        if self.most == 1:
            return 1, steps
        if not self.warm:
            return self.most, min(steps, WARM)
        known = self.cost[self.threads]
        if not known:
            return self.threads, min(steps, FIRST)
        if self.since < AGAIN:
            return self.threads, steps
        self.since = 0.0
        other = 1 if self.threads > 1 else self.most
        return other, max(1, min(steps, int(TRIAL / (self.cost[other] or known))))

    def learn(self, threads: int, steps: int, seconds: float) -> None:
        """Take note of what steps took."""
        if self.most == 1 or steps == 0:
            return
        if not self.warm:
            self.warm = True
            return
        self.cost[threads] = seconds / steps
        self.since += seconds
        if all(self.cost.values()):
            self.threads = min(self.cost, key=lambda count: self.cost[count])
