"""Leaps: moves along a straight line of what moves so for a long time, until that changes the error.

If an error stays the same, a few entries are usually on their way to where a constraint lets go or begins to bind, with
a speed as small as the error.
"""

from __future__ import annotations

import math
from typing import Any

from dapd.arrays import Array
from dapd.engines import in_one_program
from dapd.methods.guesses import SHORTEST, reduction
from dapd.ways.tracks import Bench, Judged

STILL = 0.02  # change of the error, as a logarithm, that ends a leap
NEAR = 0.1  # greatest error at which a leap may start; larger relative errors may stay constant without a reason
LEAPS = 8  # leaps without a better point after which no other is tried until there is one
FEWEST_MOVES, FARTHEST = 8, 2.0**20  # moves of the shortest leap that counts, and of the longest one
STRAIGHT = 0.05  # relative difference of two consecutive moves up to which an entry goes straight on


class Leaps:
    """The leaps of a track, and whether they led anywhere."""

    def __init__(self, bench: Bench) -> None:
        self.bench, self.in_vain, self.leapt_at = bench, 0, math.inf  # leaps since a better point, and its error

    def is_near(self, at: Judged) -> bool:
        """Whether the point is about as good as the best one, and so near a solution that its error says something."""
        return at.error <= min(NEAR, self.bench.best.error * math.exp(STILL)) and not self.bench.over

    @property
    def may_be_tried(self) -> bool:
        """Whether the last few leaps led to a better point; else they lead nowhere."""
        if self.bench.best.error < self.leapt_at * math.exp(-STILL):
            self.in_vain, self.leapt_at = 0, self.bench.best.error
        self.in_vain += 1
        return self.in_vain <= LEAPS

    def leap(self, at: Judged, fast: float) -> Judged | None:
        """Move along what moves in a straight line, until that changes the error; None if it does so soon.

        Entries take part that are at least `fast` times as fast as the fastest one, and whose moves in two pieces of
        the same length hardly differ.
        """
        bench, pieces = self.bench, [at]
        while len(pieces) < 3:
            if bench.over:
                return None
            pieces.append(bench.advance(SHORTEST))
        start = pieces[-1]
        *moves, straight = in_one_program(straight_moves, *(piece[k] for k in (0, 1) for piece in pieces), fast)
        if not straight:
            return None
        found, reached, step, growing = start, 0.0, 1.0, True
        while step >= 1 and not bench.over:
            tried = bench.keep(*in_one_program(moved, start.x, start.y, *moves, reached + step))
            fell = error_fell(start, tried)
            if fell > -STILL:
                found, reached = tried, reached + step
            if fell > STILL:
                break
            growing = growing and fell > -STILL and step < FARTHEST
            step = 2 * step if growing else step / 2
        return found if reached >= FEWEST_MOVES else None


def error_fell(before: Judged, after: Judged) -> float:
    """How far, as a logarithm."""
    return float(reduction(before.error, after.error))


def straight_moves(
    x1: Array, x2: Array, x3: Array, y1: Array, y2: Array, y3: Array, fast: float
) -> tuple[Array, Array, Any]:
    """Moves of x and y, of their fast entries that go straight through three points; and whether there are any."""
    (dx, fastest_x), (dy, fastest_y) = _straight(x1, x2, x3, fast), _straight(y1, y2, y3, fast)
    return dx, dy, fastest_x + fastest_y > 0


def _straight(first: Array, second: Array, third: Array, fast: float) -> tuple[Array, Any]:
    before, after = second - first, third - second
    straight = after * (abs(after - before) <= STRAIGHT * abs(after))
    speeds = abs(straight)
    fastest = speeds.max(initial=0.0)
    return straight * (speeds >= fast * fastest), fastest


def moved(x: Array, y: Array, dx: Array, dy: Array, steps: float) -> tuple[Array, Array]:
    """The point after so many moves."""
    return x + steps * dx, y + steps * dy
