"""Who judges the points of a solve: the host, or the device of the jax engine if the points stay there."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from dapd.arrays import Array, on_host
from dapd.certificate.certify import SOLUTION, Look, certify, distance_at, objective
from dapd.certificate.rays import may_be_ray
from dapd.presolve import Presolve
from dapd.problem.problem import Problem
from dapd.spectrum.estimate import Spectrum

if TYPE_CHECKING:
    from dapd.engines.jax.judge import Device, OnDevice


class OnHost:
    """Measures, by NumPy, points of a problem, or of a transformed one whose points it takes back first."""

    def __init__(self, problem: Problem, transform: Presolve | None, accuracy: str) -> None:
        self.problem, self.transform, self.accuracy = problem, transform, accuracy
        self.returns_exactly = transform is None  # whether what `start` returns is taken back to the same point

    def _back(self, x: Array, y: Array) -> tuple[Array, Array]:
        if not (isinstance(x, np.ndarray) and isinstance(y, np.ndarray)):
            x, y = on_host(x), on_host(y)
        return (x, y) if self.transform is None else self.transform.back(x, y)

    def start(self, x: Array, y: Array) -> tuple[Array, Array]:
        """A point of the given problem in the variables of the transformed one."""
        x, y = on_host(x), on_host(y)
        return (x, y) if self.transform is None else self.transform.start(x, y)

    def look(self, x: Array, y: Array, spectrum: Spectrum | None = None, *, with_distance: bool = True) -> Look:
        """The point of the given problem, and its certificate; a point of a device that is not finite has error inf."""
        from_device = not isinstance(x, np.ndarray)
        if from_device or self.transform is not None:
            x, y = self._back(x, y)
        if not x.dtype == y.dtype == self.problem.dtype:
            x, y = x.astype(self.problem.dtype, copy=False), y.astype(self.problem.dtype, copy=False)
        x = self.problem.within_bounds(x, y)
        certificate = certify(
            self.problem, x, y, accuracy=self.accuracy, spectrum=spectrum, with_distance=with_distance
        )
        if from_device and not (np.isfinite(x).all() and np.isfinite(y).all()):
            certificate = certificate._replace(stationarity_error=math.inf)
        return Look(x, y, certificate)

    def distance(self, x: Array, y: Array, spectrum: Spectrum | None) -> float:
        """The distance of a certificate, of a point of the given problem."""
        return distance_at(self.problem, x, y, spectrum)

    def move(self, now: tuple[Array, Array], before: tuple[Array, Array]) -> tuple[Array, Array]:
        """How x and y of the given problem moved from one point to another."""
        (x, y), (x_before, y_before) = self._back(*now), self._back(*before)
        return x - x_before, y - y_before

    def may_be_ray(self, direction: Array) -> bool:
        """Whether a direction of y is worth the check of `rays.proves_infeasible`."""
        with np.errstate(all="ignore"):
            return may_be_ray(self.problem, direction)

    def may_descend(self, x: Array, direction: Array) -> bool:
        """Whether a direction of x is worth the check of `rays.falling_ray`."""
        return not self.problem.f.mu > 0

    def objective(self, x: Array, y: Array, *, satisfied: bool) -> float:
        """As `certificate.objective`, of a point of the given problem."""
        return objective(self.problem, on_host(x), on_host(y), satisfied)


Judge: TypeAlias = "OnHost | OnDevice"  # which answers the same questions


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
