"""How many threads a solve may use, and how many are worth it on a busy machine."""

from __future__ import annotations

import math
import os
import threading
from statistics import median

TRIAL, CALLS = 0.002, 3  # seconds and calls, at least, in which the speed of a number of threads is measured
SOON, LATE = 0.01, 0.32  # seconds between two trials of the number of threads: after a change, and at most
OFTEN, RARELY = 8, 60  # steps, at least, until a trial of more threads, and until one of fewer
WARM, FIRST = 2, 16  # steps that start the threads, and most steps of a trial's first call


def cores() -> int:
    """The number of cores that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def available() -> int:
    """As many threads as there are cores for this process, or as OMP_NUM_THREADS allows.

    One if this is not the main thread: then others share the cores already.
    """
    if threading.current_thread() is not threading.main_thread():
        return 1
    named = os.environ.get("OMP_NUM_THREADS", "")
    return max(1, min(cores(), int(named)) if named.isdigit() else cores())


class ThreadChoice:
    """One thread or all: whichever has lately been faster.

    Threads that run side by side wait for each other at every step, so another program on one of the cores holds up
    all of them. Which is faster is measured, now and again, on the steps of the solve itself.
    """

    def __init__(self, most: int) -> None:
        self.most, self.threads = most, most
        self.cost: dict[int, float] = {}  # seconds per step
        self._watch()
        self._try(most)

    def _watch(self) -> None:
        """Look soon whether the other number is faster: in seconds and in steps."""
        self.wait, self.between = SOON, OFTEN if self.threads < self.most else RARELY

    def _try(self, threads: int) -> None:
        """Measure the next steps on so many threads."""
        self.trial: int | None = threads
        self.warm = WARM if threads > 1 else 0  # threads that sleep take long to wake up: not measured
        self.steps, self.seconds, self.since = 0, 0.0, 0.0
        self.calls: list[float] = []  # seconds per step of each

    def _in_vain(self) -> bool:
        """Whether one thread on trial was slower than all of them; if it was only held up, later trials show it."""
        return self.trial == 1 and min(self.calls) > self.cost.get(self.most, math.inf)

    def next(self, steps: int) -> tuple[int, int]:
        """How many threads, and for how many of the steps."""
        if self.most == 1:
            return 1, steps
        if self.trial is None and self.since >= max(self.wait, self.between * self.cost[self.threads]):
            self.wait, self.between = min(2 * self.wait, LATE), min(2 * self.between, RARELY)
            self._try(1 if self.threads > 1 else self.most)
        if self.trial is None:
            return self.threads, steps
        if self.warm:
            return self.trial, min(steps, self.warm)
        if self.seconds:
            per_step = self.seconds / self.steps
        else:  # about that of the other number, so a trial of long steps does not take many of them
            per_step = max(min(self.cost.values(), default=0.0), TRIAL / CALLS / FIRST)
        return self.trial, min(steps, max(1, int(TRIAL / CALLS / per_step)))

    def learn(self, threads: int, steps: int, seconds: float) -> None:
        """Take note of what steps took."""
        if self.most == 1 or steps == 0:
            return
        if self.trial is None:  # a few steps say less than many
            self.cost[threads] += min(1.0, steps / FIRST) * (seconds / steps - self.cost[threads])
            self.since += seconds
        elif self.warm:
            self.warm = max(0, self.warm - steps)
            return
        else:
            self.steps, self.seconds = self.steps + steps, self.seconds + seconds
            self.calls.append(seconds / steps)
            if self.seconds < TRIAL or (len(self.calls) < CALLS and not self._in_vain()):
                return
            self.cost[threads], self.trial = median(self.calls), None  # one call may have been held up
            if len(self.cost) == 1:  # the other is next
                self.since = math.inf
        if len(self.cost) > 1:
            faster = min(self.cost, key=lambda count: self.cost[count])
            if faster != self.threads:  # perhaps only for a moment
                self.threads = faster
                self._watch()
