"""A path to a solution through the inside of all bounds (Mehrotra's predictor and corrector).

Each row of w = Mx − b has a pair (t, m): t = y and m = w if y is bounded, t = w and m = y if w is. A bound above t has
a distance a > 0 and a multiplier p > 0, one below it c and q, and m = p − q; an equation has no bounds, so m = w = 0.
Newton's method follows the solutions of ap = cq = ε as ε falls to zero. Its systems are those of semismooth Newton,
with weights between zero and infinity, so it does not matter which rows change sides, or how many.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from dapd.arrays import Array
from dapd.newton.scaled import ScaledProblem
from dapd.newton.systems import Singular

STEPS = 80  # most steps
BACK = 0.995  # part of the way to the nearest bound that a step may take
FAR = 1e10  # bounds beyond this are none
HELD = 1e4  # weight with which the start holds bounded w at their bounds, so y gets the size it will have
INSIDE = 0.25  # part of the distance between two bounds that the start keeps from each, at most 1
LEAST = 1e-2  # least mean of ap and cq at the start
FLOORS = (1e-11, 1e-9, 1e-7, 1e-5)  # numbers added to P and to inverse weights, the next one if a system breaks down
IDLE = 15  # steps without a point that lacks less after which a path has failed
NEAREST = 1e-30  # least distance to a bound
SHORT, SHORTS = 1e-3, 6  # length of a short step, and short steps after which a path has failed


class Point(NamedTuple):
    """A point inside all bounds."""

    x: Array
    y: Array
    t: Array
    p: Array  # zero if there is no bound, as q
    q: Array

    def moved(self, by: Point, length: float) -> Point:
        """Move by so much of a step."""
        return Point(*(one + length * other for one, other in zip(self, by, strict=True)))


class Lack(NamedTuple):
    """What a point lacks."""

    r: Array  # −(∇f + Mᵀy)
    gap: Array  # between w and t, or m if t is y
    drift: Array  # between y and m, by rounding, if t is w
    mean: float  # of ap and cq
    size: float  # the greatest of all


class Path:
    """The path of a problem with a quadratic f and without groups of rows."""

    def __init__(self, problem: ScaledProblem) -> None:
        self.problem, rows = problem, problem.rows
        self.floor = FLOORS[0]
        (low, high), (self.least, most) = rows.of_residual, rows.of_dual
        self.on_y = rows.linear  # rows whose t is y
        self.fixed = self.least == most  # those whose y is known
        self.level = np.where(self.on_y, low, 0.0)  # the w at which m is zero
        self.upper, self.lower = np.where(self.on_y, (most, self.least), (high, low))
        self.above, self.below = (self.upper < FAR) & ~self.fixed, (self.lower > -FAR) & ~self.fixed
        self.count = max(1, int(self.above.sum() + self.below.sum()))

    def run(self, x: Array, y: Array) -> Iterator[tuple[Array, Array, float]]:
        """x, y and the size of what they lack, step by step; (x, y) is anywhere. It ends if systems break down."""
        with suppress(Singular):
            at, shorts, least, idle = self._start(x, y), 0, np.inf, 0
            for _ in range(STEPS):
                a, c = self._distances(at.t)
                left = self._left(at, a, c)
                if not np.isfinite(left.size):
                    return
                yield at.x, at.y, left.size
                step, length = self._firm_step(at, a, c, left)
                at, shorts = at.moved(step, length), shorts + 1 if length < SHORT else 0
                least, idle = (left.size, 0) if left.size < least else (least, idle + 1)
                if shorts == SHORTS or idle == IDLE:
                    return

    def _firm_step(self, at: Point, a: Array, c: Array, left: Lack) -> tuple[Point, float]:
        while True:
            try:
                return self._step(at, a, c, left)
            except Singular:
                higher = [floor for floor in FLOORS if floor > self.floor]
                if not higher:
                    raise
                self.floor = higher[0]

    def _distances(self, t: Array) -> tuple[Array, Array]:
        """From t to its bounds; 1 if there is none. Rounding may make them zero, which they never are."""
        above, below = np.where(self.above, self.upper - t, 1.0), np.where(self.below, t - self.lower, 1.0)
        return np.maximum(above, NEAREST), np.maximum(below, NEAREST)

    def _left(self, at: Point, a: Array, c: Array) -> Lack:
        r, w = self.problem.residuals(at.x, at.y)
        gap = w - self.level - np.where(self.on_y, at.p - at.q, at.t)
        gap[self.fixed] = 0.0
        drift = np.where(self.on_y, 0.0, at.y - at.p + at.q)
        mean = self._mean(a, c, at.p, at.q)
        largest = max(1.0, float(np.max(abs(at.y), initial=0.0)))
        of_y = float(max(np.max(abs(r), initial=0.0), np.max(abs(drift), initial=0.0))) / largest
        return Lack(r, gap, drift, mean, max(of_y, float(np.max(abs(gap), initial=0.0)), mean))

    def _mean(self, a: Array, c: Array, p: Array, q: Array) -> float:
        return float(a @ p + c @ q) / self.count

    def _step(self, at: Point, a: Array, c: Array, left: Lack) -> tuple[Point, float]:
        """The next step and how much of it to take."""
        slope = at.p / a + at.q / c  # of m by t
        damped = 1.0 + self.floor * slope
        weights = np.where(self.on_y, 1.0 / (slope + self.floor), slope / damped)
        weights[self.fixed] = 0.0
        solve = self.problem.weighted(weights, self.floor)

        def towards(kp: Array, kq: Array) -> Point:
            """The step that changes ap and cq by these, to first order."""
            kp, kq = kp * self.above, kq * self.below
            k = kp / a - kq / c - left.drift
            dx, dy = solve(left.r, weights * left.gap + np.where(self.on_y, -weights * k, k / damped))
            dt = np.where(self.on_y, dy, self.problem.M @ dx + left.gap - self.floor * dy)
            return Point(dx, dy, dt, (kp + at.p * dt) / a, (kq - at.q * dt) / c)

        step = towards(-a * at.p, -c * at.q)
        length = min(1.0, self._longest(at, a, c, step))
        there = at.moved(step, length)
        reached = self._mean(a - length * step.t, c + length * step.t, there.p, there.q)
        aim = left.mean * (reached / left.mean) ** 3 if left.mean > 0.0 else 0.0
        step = towards(aim - a * at.p + step.t * step.p, aim - c * at.q - step.t * step.q)
        return step, min(1.0, BACK * self._longest(at, a, c, step))

    def _longest(self, at: Point, a: Array, c: Array, step: Point) -> float:
        """How far the step goes until it meets a bound."""
        above = ((self.above, a, -step.t), (self.above, at.p, step.p))
        below = ((self.below, c, step.t), (self.below, at.q, step.q))
        rates = [np.divide(-by, v, out=np.zeros(v.size), where=bounded) for bounded, v, by in (*above, *below)]
        fastest = float(np.max(rates, initial=0.0))
        return 1.0 / fastest if fastest > 0.0 else np.inf

    def _start(self, x: Array, y: Array) -> Point:
        """Near the solution of a problem with squares instead of bounds on t."""
        ended = self.above | self.below
        equations = self.on_y & ~ended & ~self.fixed
        r, w = self.problem.residuals(x, y)
        weights = np.where(equations, 1.0 / self.floor, np.where(self.on_y, 1.0, HELD))
        s = weights * (w - np.where(self.on_y, self.level, np.clip(w, self.lower, self.upper)))
        s = np.where(equations, s, s - y)
        weights[self.fixed], s[self.fixed] = 0.0, (self.least - y)[self.fixed]
        dx, dy = self.problem.weighted(weights, self.floor)(r, s)
        x, y, w = x + dx, y + dy, w + self.problem.M @ dx - self.level
        t, m = np.where(self.on_y, (y, w), (w, y))
        margin = np.minimum(1.0, np.where(self.above & self.below, INSIDE * (self.upper - self.lower), 1.0))
        t = np.maximum(t, np.where(self.below, self.lower + margin, -np.inf))
        t = np.minimum(t, np.where(self.above, self.upper - margin, np.inf))
        a, c = self._distances(t)
        nearest = np.minimum(np.where(self.above, a, np.inf), np.where(self.below, c, np.inf))[ended]
        mean = max(LEAST, float(np.median(abs(m[ended])) * np.median(nearest))) if ended.any() else 0.0
        p = np.where(self.above, np.maximum(m, 0.0) + mean / a, 0.0)
        q = np.where(self.below, np.maximum(-m, 0.0) + mean / c, 0.0)
        return Point(x, np.where(self.on_y, t, p - q), t, p, q)
