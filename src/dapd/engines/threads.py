"""How many threads a solve may use, and how many are worth it on a busy machine."""

from __future__ import annotations

import os
import threading

TRIAL = 0.002  # seconds of steps that measure how fast a number of threads is
SOON, LATE = 0.01, 0.32  # seconds of solving between two trials: soon after a change, later if nothing changes
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
        self.wait = self.since = SOON  # seconds of solving from one trial to the next, and since the last
        self.warm = False  # threads that sleep take long to wake up, so their first steps are not measured
        self.woken = False  # for a trial

    def next(self, steps: int) -> tuple[int, int]:
        """How many threads, and for how many of the steps."""
        if self.most == 1:
            return 1, steps
        if not self.warm:
            return self.most, min(steps, WARM)
        known = self.cost[self.threads]
        if not known:
            return self.threads, min(steps, FIRST)
        if self.since < self.wait:
            return self.threads, steps
        if self.threads == 1 and not self.woken:
            self.warm, self.woken = False, True
            return self.most, min(steps, WARM)
        self.since, self.wait, self.woken = 0.0, min(2 * self.wait, LATE), False
        return 1 if self.threads > 1 else self.most, max(1, min(steps, int(TRIAL / known)))

    def learn(self, threads: int, steps: int, seconds: float) -> None:
        """Take note of what steps took."""
        if self.most == 1 or steps == 0:
            return
        if not self.warm:
            self.warm = True
            return
        # one step, such as a dual step that Python calls, says less than many
        weight = min(1.0, steps / FIRST) if threads == self.threads else 1.0
        known = self.cost[threads] or seconds / steps
        self.cost[threads] = known + weight * (seconds / steps - known)
        self.since += seconds
        if all(self.cost.values()):
            faster = min(self.cost, key=lambda count: self.cost[count])
            if faster != self.threads:  # perhaps only for a moment
                self.threads, self.wait = faster, SOON
