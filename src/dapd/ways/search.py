"""The state of a solve that its candidates share: who judges points, the best one seen, and what was spent."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from dapd.arrays import Array, on_host
from dapd.certificate.certify import SOLUTION, Certificate, CheckedPoint, certify, distance_at, objective
from dapd.certificate.rays import may_be_ray
from dapd.machine.clock import perf_counter
from dapd.presolve import Presolve
from dapd.problem.problem import Problem
from dapd.spectrum.estimate import Spectrum
from dapd.ways.kept import Kept, Learnt

if TYPE_CHECKING:
    from dapd.engines.jax.judge import Device, OnDevice

Judge: TypeAlias = "OnHost | OnDevice"  # the device is that of the jax engine, if the points stay there
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
        learnt: Learnt | None = None,
    ) -> None:
        self.problem, self.tolerances, self.limit, self.deadline = problem, tolerances, limit, deadline
        self.spectrum = spectrum
        self.accuracy = accuracy
        self.judging = judge_of(problem, engine, accuracy=accuracy)
        self.repeated = kept is not None  # whether there will be more solves of nearly the same problem
        self.kept = Kept() if kept is None else kept
        self.learnt = learnt or self.kept.learnt
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
            x, y, certificate = (judging or self.judging).check(x, y)
        return self.note(Info(self.iterations, 0.0, x, y, certificate))  # the time is told when the point is shown

    def note(self, info: Info) -> float:
        """Keep a point if it is the best, and return its error as `judge` does."""
        certificate = info.certificate
        own, excess = certificate.solution_error, certificate.excess(*self.tolerances)
        error = self._outside(excess, own)
        self.judged += 1
        self.last = certificate
        best = self.best
        if best is None or error < self.error or (error == 0.0 and own < best.certificate.solution_error):
            self.best, self.error, self.excess = info, error, excess
            if not error > (1 - ROUNDED) * self.much_better:  # less may be rounding
                self.much_better, self.judged_at_best = error, self.judged
        return error

    def judge_typical(self, x: Array, y: Array, judging: Judge | None = None) -> float:
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

    def complete(self, info: Info) -> Info:
        """A point with the distance in its certificate, which points are judged without."""
        f = self.problem.f
        if not f.mu or f.L is None:  # then no distance is known
            return info
        with np.errstate(all="ignore"):
            distance = self.judging.distance(info.x, info.y, self.spectrum)
        return info._replace(certificate=info.certificate._replace(distance=distance))

    def is_rounding(self, every: int) -> bool:
        """Whether one rounding of each entry changes the error of the best point; asked again after `every` points."""
        if self.judged < self.judged_at_doubt + every:
            return False
        self.judged_at_doubt = self.judged
        rng, eps = np.random.default_rng(0), np.finfo(self.problem.dtype).eps
        x, y = (v * (1 + eps * rng.choice([-1, 1], v.size)).astype(v.dtype) for v in map(on_host, self.point[2:4]))
        with np.errstate(all="ignore"):
            moved = self.judging.check(x, y).certificate.error
        error = self.point.certificate.error
        return abs(moved - error) > ROUNDED * error

    @property
    def done(self) -> bool:
        """Whether the best point meets a tolerance."""
        return self.error == 0.0


class OnHost:
    """Measures points of a problem by NumPy, or of a transformed one whose points it takes back first."""

    completes = False

    def __init__(self, problem: Problem, transform: Presolve | None, accuracy: str) -> None:
        self.problem, self.transform, self.accuracy = problem, transform, accuracy
        self.returns_exactly = transform is None  # whether what `start` returns is taken back to the same point

    def _back(self, x: Array, y: Array) -> tuple[Array, Array]:
        x, y = on_host(x), on_host(y)
        return (x, y) if self.transform is None else self.transform.back(x, y)

    def start(self, x: Array, y: Array) -> tuple[Array, Array]:
        """A point of the given problem in the variables of the transformed one."""
        x, y = on_host(x), on_host(y)
        return (x, y) if self.transform is None else self.transform.start(x, y)

    def check(self, x: Array, y: Array) -> CheckedPoint:
        """The point of the given problem, and its certificate without a distance; inf if a device found no numbers."""
        from_device, dtype = not isinstance(x, np.ndarray), self.problem.dtype
        x, y = self._back(x, y)
        x, y = x.astype(dtype, copy=False), y.astype(dtype, copy=False)
        x = self.problem.within_bounds(x, y)
        certificate = certify(self.problem, x, y, accuracy=self.accuracy, with_distance=False)
        if from_device and not (np.isfinite(x).all() and np.isfinite(y).all()):
            certificate = certificate._replace(stationarity_error=math.inf)
        return CheckedPoint(x, y, certificate)

    def distance(self, x: Array, y: Array, spectrum: Spectrum | None) -> float:
        """The distance of a certificate, of a point of the given problem, in float64; inf if it is not known."""
        return distance_at(self.problem, x, y, spectrum)

    def move(self, now: tuple[Array, Array], before: tuple[Array, Array]) -> tuple[Array, Array]:
        """How x and y of the given problem moved from one point to another."""
        (x, y), (x_before, y_before) = self._back(*now), self._back(*before)
        return x - x_before, y - y_before

    def may_be_ray(self, direction: Array) -> bool:
        """Whether a direction of y, its small products taken for zero, is worth `rays.proves_infeasible`."""
        with np.errstate(all="ignore"):
            return may_be_ray(self.problem, direction)

    def may_descend(self, x: Array, direction: Array) -> bool:
        """Whether a direction of x is worth `rays.falling_ray`: unless f is strongly convex."""
        return not self.problem.f.mu > 0

    def objective(self, x: Array, y: Array, *, satisfied: bool) -> float:
        """As `certificate.objective`, of a point of the given problem."""
        return objective(self.problem, on_host(x), on_host(y), satisfied)


def judge_of(problem: Problem, engine: str, transform: Presolve | None = None, accuracy: str = SOLUTION) -> Judge:
    """The judge of a problem; of points of `transform.problem` if that is given."""
    device = on_the_device(problem, engine)
    if device is None or not device.can_certify:
        return OnHost(problem, transform, accuracy)
    from dapd.engines.jax.judge import OnDevice

    return OnDevice(device, transform, accuracy)


def on_the_device(problem: Problem, engine: str) -> Device | None:
    """The problem on the device of the jax engine; None if it is small, or if another engine runs it."""
    if engine != "jax":
        return None
    from dapd.engines.jax.judge import Device  # jax is imported only if it is asked for
    from dapd.engines.jax.runner import is_large

    return Device(problem) if is_large(problem) else None
