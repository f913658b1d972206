"""The state of a solve that its candidates share: the best point seen, and what was spent."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dapd.arrays import Array, on_host
from dapd.certificate.certify import SOLUTION, Certificate
from dapd.machine.clock import perf_counter
from dapd.problem.problem import Problem
from dapd.spectrum.estimate import Spectrum
from dapd.ways.judge import Judge, judge_of
from dapd.ways.kept import Kept

TINY = float(np.finfo(float).tiny)  # the least error of a point that does not meet a tolerance
ROUNDED = 0.1  # part of an error: if a rounding changes it by more, rounding is what is left of it


class Info(NamedTuple):
    """The state of a run, as a callback receives it."""

    iteration: int
    time: float
    x: Array
    y: Array
    certificate: Certificate
    z: Array | None = None  # the multipliers of the bounds on x; None if there are none


class Search:
    """Judges points by the certificate of the given problem, and keeps the best."""

    def __init__(
        self,
        problem: Problem,
        tolerances: tuple[float, float],
        limit: int,
        deadline: float,
        spectrum: Spectrum | None,
        kept: Kept | None = None,
        engine: str = "auto",
        accuracy: str = SOLUTION,
    ) -> None:
        self.problem, self.tolerances, self.limit, self.deadline = problem, tolerances, limit, deadline
        self.spectrum = spectrum
        self.accuracy = accuracy
        self.judging = judge_of(problem, engine, accuracy=accuracy)
        self.repeated = kept is not None  # whether there will be more solves of nearly the same problem
        self.kept = Kept() if kept is None else kept
        self.began = perf_counter()
        self.best: Info | None = None
        self.excess = math.inf  # how many times too large the error of the best point is
        self.last: Certificate  # of the last point
        # of the best point, 0 if that meets a tolerance; and the error when it last fell by more than rounding may
        self.error = self.much_better = math.inf
        self.slowdown = 1.0  # how much slower this machine is at the moment than estimates assume
        self.iterations = self.gradients = self.products = self.block_products = 0
        self.seconds: dict[str, float] = {}  # that each candidate took, by its title
        self.judged = self.judged_at_best = self.judged_at_doubt = 0  # points

    @property
    def point(self) -> Info:
        """The best point."""
        assert self.best is not None
        return self.best

    def judge(self, x: Array, y: Array, judging: Judge | None = None) -> float:
        """The relative error of a point, or 0 if it meets a tolerance; `judging` takes points of another form back.

        Absolute residuals would mislead: their gap is zero at a start that is far from anything.
        """
        with np.errstate(all="ignore"):
            x, y, certificate = (judging or self.judging).look(x, y, with_distance=False)
        return self.note(Info(self.iterations, 0.0, x, y, certificate))  # the time is told when the point is shown

    def note(self, look: Info) -> float:
        """Keep a point if it is the best, and return its error as `judge` does."""
        certificate = look.certificate
        own, excess = certificate.solution_error, certificate.excess(*self.tolerances)
        error = self._outside(excess, own)
        self.judged += 1
        self.last = certificate
        best = self.best
        if best is None or error < self.error or (error == 0.0 and own < best.certificate.solution_error):
            self.best, self.error, self.excess = look, error, excess
            if not error > (1 - ROUNDED) * self.much_better:  # less may be rounding
                self.much_better, self.judged_at_best = error, self.judged
        return error

    def guide(self, x: Array, y: Array, judging: Judge | None = None) -> float:
        """As `judge`, but the typical error: it falls although a single entry keeps the greatest one near 1."""
        return self.typical(self.last) if math.isfinite(self.judge(x, y, judging)) else math.inf

    def typical(self, certificate: Certificate) -> float:
        """The typical error of a point that is finite, or 0 if it meets a tolerance."""
        return self._outside(certificate.excess(*self.tolerances), certificate.typical_error)

    @staticmethod
    def _outside(excess: float, error: float) -> float:
        """An error that is 0 only if a tolerance is met, and inf instead of NaN."""
        if excess <= 1:
            return 0.0
        return math.inf if math.isnan(error) else max(error, TINY)

    def complete(self, look: Info) -> Info:
        """A point with the distance in its certificate, which points are judged without."""
        f = self.problem.f
        if not f.mu or f.L is None:  # then no distance is known
            return look
        with np.errstate(all="ignore"):
            distance = self.judging.distance(look.x, look.y, self.spectrum)
        return look._replace(certificate=look.certificate._replace(distance=distance))

    def is_rounding(self, every: int) -> bool:
        """Whether one rounding of each entry changes the error of the best point; asked again after `every` points."""
        if self.judged < self.judged_at_doubt + every:
            return False
        self.judged_at_doubt = self.judged
        rng, eps = np.random.default_rng(0), np.finfo(self.problem.dtype).eps
        x, y = (v * (1 + eps * rng.choice([-1, 1], v.size)).astype(v.dtype) for v in map(on_host, self.point[2:4]))
        with np.errstate(all="ignore"):
            moved = self.judging.look(x, y, with_distance=False).certificate.error
        error = self.point.certificate.error
        return abs(moved - error) > ROUNDED * error

    @property
    def done(self) -> bool:
        """Whether the best point meets a tolerance."""
        return self.error == 0.0
