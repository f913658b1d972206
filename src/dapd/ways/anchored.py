"""Epochs of r²HPDHG: they guess nothing, and converge whenever there is a saddle point."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from dapd import theory
from dapd.arrays import Array
from dapd.methods.anchors import TOGETHER, begun, parameters
from dapd.methods.r2hpdhg import R2HPDHG, last_step, usual_weight
from dapd.ways.tracks import Bench, Curvature, Judged, Track

MOST_SKIPS = 3  # convergence checks between two trials of the x that minimises with y, if that is not better
RARELY, OFTEN = 40, 10  # iterations between two convergence checks: so many at least, and one in so many of all


class Anchored(Track):
    """One run of r²HPDHG, checked now and again."""

    kind = "anchored"

    def __init__(self, bench: Bench, curvature: Curvature) -> None:
        self.curvature, self.halved = curvature, math.inf
        self.usual = usual_weight(bench.problem)
        split = bench.problem.proximable
        self.completes = split.rest is None and split.curvature is not None and bool((split.curvature > 0).all())
        self.skipped = self.skips = 0  # checks since it was tried, and until it is tried again
        self.at = bench.best  # where the method starts anew
        self.moved = False  # whether to go on from the best point instead of the last one
        super().__init__(bench)

    def adopt(self, x: Array, y: Array) -> None:
        super().adopt(x, y)
        self.at, self.moved = self.bench.last, True

    def _method(self) -> R2HPDHG:
        """The method from the best point on, with the weight that was learnt, or that is usual by the data."""
        bench, problem = self.bench, self.bench.problem
        weight = self.usual * (bench.work.learnt.weight or 1.0)
        p = theory.r2hpdhg(L=self.curvature.L, s_max=bench.s_max, weight=weight)
        return R2HPDHG(problem, p, x0=self.at.x, y0=self.at.y)

    def _run(self) -> Iterator[None]:
        bench, epoch = self.bench, None
        while True:
            bench.take(self._method())
            runner: Any = bench.runner
            if epoch is not None:
                runner.epoch = begun(epoch, epoch.step)
            self.moved, before = False, bench.best
            while not self.moved:
                after = bench.advance(self._stride())
                self._complete(after)
                epoch = runner.epoch
                bench.work.learnt.weight = epoch.weight / self.usual
                if self._has_halved():
                    runner.epoch = epoch = epoch._replace(halved=1.0)
                yield
                if self._steps_were_too_long(before, after):
                    self.at, self.moved = bench.best, True
                before = after

    def _has_halved(self) -> bool:
        """Whether the best error has halved since the last time that it had."""
        error = self.bench.best.error
        if not math.isfinite(error) or error > 0.5 * self.halved:
            return False
        self.halved = error
        return True

    def _steps_were_too_long(self, before: Judged, after: Judged) -> bool:
        """Whether an L that is not known has turned out too small, at the last step or since the last check."""
        if self.curvature.is_known:
            return False
        runner: Any = self.bench.runner
        state = runner.state
        step = last_step(parameters(runner.epoch, self.curvature.L, self.bench.s_max), state) if state.k > 0 else None
        return (step is not None and self.curvature.fails_at(*step)) or self.curvature.was_too_small(before, after)

    def _complete(self, found: Judged) -> None:
        """Judge also the x that minimises with the current y, if that is known in closed form and often better."""
        if not self.completes or self.bench.over:
            return
        if self.skipped < self.skips:
            self.skipped += 1
            return
        self.skipped = 0
        runner: Any = self.bench.runner
        last = self.bench.last
        other = self.bench.keep(*runner.completed())
        self.bench.last = last  # a ray is looked for where the steps go
        self.skips = 0 if other.error < found.error else min(MOST_SKIPS, 2 * self.skips + 1)

    def _stride(self) -> int:
        """Iterations until the next convergence check: whole numbers of measurements."""
        runner: Any = self.bench.runner
        wait = max(RARELY * runner.patience, self.bench.iterations // OFTEN)
        return int(math.ceil(wait / TOGETHER) * TOGETHER)
