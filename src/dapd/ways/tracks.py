"""What the tracks of a first-order solve share: forms of the problem, the work done, and one runner each."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import numpy as np

from dapd.arrays import EPSILON, Array, on_device, on_host
from dapd.certificate.sums import greatest
from dapd.engines import bind
from dapd.engines.protocol import Engine, RestartedRunner
from dapd.functions import Function
from dapd.machine.clock import is_over
from dapd.methods.base import Method
from dapd.problem import ask
from dapd.problem.problem import Problem
from dapd.ways.kept import Learnt

ENDLESS = 1e100  # entries of a point from which its method has diverged, since they will soon be too large to square
FARTHER = 10.0  # ratio of errors from which a track goes on from a better point than its own
PROBES = 3  # gradients for a first estimate of an unknown L
SHORTER = 16  # most times that a probe which leaves the domain of f is made shorter
LEAP = 8.0  # factor by which a probe is made shorter, and by which an L that was too small is raised
ROUNDINGS = 64.0  # roundings of the values of f up to which they say nothing


class Judged(NamedTuple):
    """A point and its error."""

    x: Array
    y: Array
    error: float


@dataclass
class Form:
    """A problem in the variables of a track, and the way there and back."""

    problem: Problem
    judge: Callable[[Array, Array], float]  # the error of a point of it, at most about 1 and small near solutions
    s_max: float  # a bound on ‖M‖
    s_min: float | None = None  # with f.mu > 0, a positive value lets the theorem's constants take part
    start: Callable[[Array, Array], tuple[Array, Array]] = lambda x, y: (x, y)  # from the variables all tracks share
    back: Callable[[Array, Array], tuple[Array, Array]] = lambda x, y: (x, y)


@dataclass
class Work:
    """What all tracks have done, and may do."""

    engine: str
    deadline: float
    tol: float
    allowed: Callable[[], float]  # iterations in all
    learnt: Learnt
    iterations: int = 0
    error: float = math.inf  # the least one

    @property
    def over(self) -> bool:
        """Whether the best point is good enough, or a limit is reached."""
        late = is_over(self.deadline) or self.iterations >= self.allowed()
        return late or self.error <= self.tol


class Bench:
    """Runs methods of one form of the problem and keeps the best point."""

    def __init__(self, form: Form, work: Work, start: tuple[Array, Array], start_error: float | None = None) -> None:
        self.form, self.problem, self.work = form, form.problem, work
        self.s_max = form.s_max or 1.0  # of a zero M, any bound is true
        self.runner: RestartedRunner | None = None
        self.asked = 0  # gradients beside those of the methods
        x, y = (part if on_device(part) else np.asarray(part, self.problem.dtype) for part in start)
        error = self.judge(x, y) if start_error is None else start_error
        self.best = self.last = Judged(x, y, error)  # of all points, and the last one
        self.work.error = min(self.work.error, error)

    def judge(self, x: Array, y: Array) -> float:
        """The error of a point; inf if it is not a number, or far away."""
        with np.errstate(all="ignore"):
            # who judges a point of a device calls it inf if it is not finite, since to ask first would be one more wait
            near = on_device(x) or all(greatest(on_host(part)) < ENDLESS for part in (x, y))  # false for NaN
            error = float(self.form.judge(x, y)) if near else math.inf
        return math.inf if math.isnan(error) else error

    @property
    def over(self) -> bool:
        """Whether there is nothing left to do."""
        return self.work.over

    @property
    def iterations(self) -> int:
        """Those of all tracks."""
        return self.work.iterations

    @property
    def ran(self) -> Engine:
        """The engine of the runner, with the reason why no faster one runs."""
        if self.runner is None:
            return Engine("python", "nothing had to be run yet")
        return Engine(self.runner.engine, self.runner.reason)

    def counts(self) -> tuple[int, int]:
        """Gradients and products so far."""
        made = (0, 0) if self.runner is None else (self.runner.counts.gradients, self.runner.counts.products)
        return made[0] + self.asked, made[1]

    def take(self, method: Method) -> None:
        """Make the runner run this method from its start."""
        if self.runner is None:
            made = cast(RestartedRunner, bind(method, self.work.engine))  # no block-coordinate method comes here
            made.start()
            self.runner = made
        else:
            self.runner.rebind(method)

    def runs(self, method: Method | None) -> bool:
        """Whether the runner still has this method's state."""
        return method is not None and self.runner is not None and self.runner.method is method

    def advance(self, steps: int) -> Judged:
        """Take steps with the current method and judge its point."""
        assert self.runner is not None
        with np.errstate(all="ignore"):
            most = max(0, self.work.allowed() - self.work.iterations)
            self.work.iterations += self.runner.advance(int(min(steps, most)), self.work.deadline)
            x, y = self.runner.point()
        return self.keep(x, y)

    def keep(self, x: Array, y: Array) -> Judged:
        """Judge a point, and keep it if it is the best so far."""
        self.last = found = Judged(x, y, self.judge(x, y))
        if found.error < self.best.error:
            self.best = found
            self.work.error = min(self.work.error, found.error)
        return found

    def resume(self, method: Method, state: Any, steps: int) -> tuple[Judged, Any]:
        """Take steps with a method from its state, or from its start if that is None; the point and the new state."""
        if state is None or not self.runs(method):
            self.take(method)
            assert self.runner is not None
            if state is not None:
                self.runner.state = state
        found = self.advance(steps)
        assert self.runner is not None
        return found, self.runner.state


class Curvature:
    """L of f, or of the part of it that is linearised: known, or learnt from differences of gradients."""

    def __init__(self, f: Function | None, bench: Bench) -> None:
        self.f, self.bench, self.is_known = f, bench, f is None or f.L is not None
        self.L = 0.0 if f is None else float(f.L) if f.L is not None else max(f.mu, self._probe(on_host(bench.best.x)))

    def gradient(self, x: Array) -> Array:
        """∇f(x), counted."""
        assert self.f is not None
        self.bench.asked += 1
        return ask.gradient(self.f, on_host(x))

    def _probe(self, x: Array) -> float:
        """A lower bound on L: how much ∇f changes along a few directions, each the last change."""
        direction = np.random.default_rng(0).standard_normal(x.size)
        before, found = self.gradient(x), 0.0
        for _ in range(PROBES):
            size = float(np.linalg.norm(direction))
            if not 0 < size < math.inf:
                break
            direction = direction * ((1 + float(np.linalg.norm(x))) / size)
            change = self.gradient(x + direction) - before
            for _ in range(SHORTER):  # f may not be defined so far away
                if np.isfinite(change).all():
                    break
                direction = direction / LEAP
                change = self.gradient(x + direction) - before
            else:
                break
            found = max(found, float(np.linalg.norm(change) / np.linalg.norm(direction)))
            direction = change
        return found

    def fails_at(self, x: Array, x_next: Array) -> bool:
        """Whether f(x⁺) > f(x) + ∇f(x)ᵀ(x⁺ − x) + (L/4)‖x⁺ − x‖² by more than rounding; then L is made larger.

        With L/4, twice what is usual, a step that passes takes a point no farther from any saddle point.
        """
        if self.f is None or self.is_known:
            return False
        x, x_next = on_host(x), on_host(x_next)
        move = x_next - x
        before, after, slope = self.f.value(x), self.f.value(x_next), float(self.gradient(x) @ move)
        square = float(move @ move)
        rounding = ROUNDINGS * EPSILON * (abs(before) + abs(after) + abs(slope))
        if not after - before - slope > 0.25 * self.L * square + rounding or not square > 0:  # not if f has no value
            return False
        self._raise(max(2 * self.L, 4 * (after - before - slope) / square))
        return True

    def was_too_small(self, before: Judged, after: Judged, blown_up: float = math.inf) -> bool:
        """Whether L is too small for an epoch from one point to another; then L is made larger.

        The gradients at both points may show it, or an error that grew more than `blown_up` times.
        """
        if self.is_known:
            return False
        if not math.isfinite(after.error) or after.error > blown_up * before.error:
            self.L = LEAP * (self.L or 1.0)
            return True
        slope, old = self.gradient(after.x), self.gradient(before.x)
        change, least = np.linalg.norm(slope - old), ROUNDINGS * EPSILON * np.linalg.norm(slope)
        seen = float(change / (np.linalg.norm(on_host(after.x) - on_host(before.x)) or 1.0))
        if seen > self.L and change > least:
            self._raise(2 * seen)
            return True
        return False

    def _raise(self, L: float) -> None:
        """Make L so large, but not at once, as points of steps that were too long may be far from all solutions."""
        self.L = min(L, LEAP * self.L) if self.L > 0 else L


class Track:
    """One way to choose epochs; `epochs` yields after each."""

    kind: str

    def __init__(self, bench: Bench) -> None:
        self.bench, self.done = bench, 0  # iterations
        self.adopted = math.inf  # the error of the last point of another track
        self.epochs = self._run()

    def _run(self) -> Iterator[None]:
        raise NotImplementedError

    @property
    def is_ready(self) -> bool:
        """Whether it can take its turn."""
        return True

    def adopt(self, x: Array, y: Array) -> None:
        """Go on from a much better point of another track."""
        self.bench.keep(x, y)
