"""A problem on the device of the jax engine, and the judge of the points that stay there."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dapd.arrays import Array, on_device, on_host
from dapd.certificate.certify import Certificate, Look, objective
from dapd.engines.jax import certificate as formulas
from dapd.engines.jax.certificate import Measured
from dapd.engines.jax.layout import layout, put
from dapd.engines.jax.maps import product_of
from dapd.engines.jax.program import report
from dapd.engines.jax.runner import Placed, place
from dapd.operators.base import Operator
from dapd.problem.problem import Problem
from dapd.problem.sizes import Limits, Sizes
from dapd.problem.way_back import Transformed, WayBack
from dapd.spectrum.estimate import Spectrum


class Device(Operator):
    """A large problem on the device; as an operator it is the problem's M, with products computed there."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.shape, self.dtype = problem.M.shape, problem.M.dtype
        self.memory = problem.M.memory

    @property
    def probes(self) -> int:
        """How many products M needs to become dense."""
        return self.problem.M.probes

    @property
    def work(self) -> int:
        """How many multiplications a product with M takes."""
        return self.problem.M.work

    def sparse(self) -> Any:
        """M as a sparse matrix, if it is one."""
        return self.problem.M.sparse()

    @property
    def placed(self) -> Placed:
        """The problem in float64."""
        return place(self.problem, np.float64)

    @property
    def can_certify(self) -> bool:
        """Whether φ's values and projections are known on the device."""
        return bool(self.placed.phi.anywhere)

    def forward(self, x: Array) -> Array:
        with jax.enable_x64(True):
            return on_host(product_of(self.placed.M, "forward", put(x, np.float64, dual=False)))

    def adjoint(self, y: Array) -> Array:
        with jax.enable_x64(True):
            return on_host(product_of(self.placed.M, "adjoint", put(y, np.float64, dual=True)))

    @property
    def measured(self) -> Measured:
        """The problem with its bounds and the sizes of its data, kept there for later solves."""
        with jax.enable_x64(True):
            return self.problem.memory.once(measured_of, layout(), lambda: measured_of(self.problem))

    @property
    def steepness(self) -> float:
        """The greatest norm of a row of M or of a map along which f bends."""
        maps = [self.problem.M, *self.problem.f.curved_maps(self.problem.columns)]
        return self.problem.memory.once(
            Device.steepness, None, lambda: max(float(np.max(one.row_norms, initial=0.0)) for one in maps)
        )

    def way_back(self, transform: Transformed | None) -> WayBack | None:
        """How points of `transform.problem` are taken back there, the last one kept; None if only the host can."""
        key = transform is None, layout()
        found: WayBack | None
        known, found = self.problem.memory.known(WayBack, key) or (self, None)
        if known is not transform:
            found = WayBack() if transform is None else transform.way_back
            if found is not None:
                found = _put_way_back(found)
            self.problem.memory.keep(WayBack, key, (transform, found))
        return found


class OnDevice:
    """Judges on the device: one call of a compiled program per question, and nothing but its numbers moves."""

    def __init__(self, device: Device, transform: Transformed | None, accuracy: str) -> None:
        self.device, self.transform, self.accuracy = device, transform, accuracy
        self.way_back = device.way_back(transform)  # None: only the host can take points back
        self.returns_exactly = self.way_back is not None

    def _back(self, x: Array, y: Array) -> tuple[Any, Array, Array]:
        """The way back that is left, and the point, both there."""
        way_back = self.way_back
        if way_back is None and self.transform is not None:
            way_back = self.device.way_back(None)
            x, y = self.transform.back(on_host(x), on_host(y))
        return way_back, _put(x, self.device.problem, dual=False), _put(y, self.device.problem, dual=True)

    def start(self, x: Array, y: Array) -> tuple[Array, Array]:
        """There, or on the host."""
        if self.way_back is None and self.transform is not None:
            return self.transform.start(on_host(x), on_host(y))
        with jax.enable_x64(True):
            x, y = formulas.start_of(*self._back(x, y))
        return x, y

    def look(self, x: Array, y: Array) -> Look:
        """The point in the given problem, and its certificate in float64, without the distance."""
        with jax.enable_x64(True):
            x, y, numbers = report(formulas.look_at, self.device.measured, *self._back(x, y), others=2)
        return Look(x, y, Certificate.of_numbers(numbers.tolist(), self.accuracy))

    def distance(self, x: Array, y: Array, spectrum: Spectrum | None) -> float:
        """Not known there."""
        return math.inf

    def move(self, now: tuple[Array, Array], before: tuple[Array, Array]) -> tuple[Array, Array]:
        """The difference of the two points."""
        with jax.enable_x64(True):
            way_back, x, y = self._back(*now)
            dx, dy = formulas.difference(way_back, (x, y), self._back(*before)[1:])
        return dx, dy

    def may_be_ray(self, direction: Array) -> bool:
        """Whether products that are small, taken for zero, would make it one."""
        with jax.enable_x64(True):
            d = direction if on_device(direction) else put(direction, np.float64, dual=True)
            return bool(report(formulas.may_be_ray, self.device.measured, d))

    def may_descend(self, x: Array, direction: Array) -> bool:
        """Whether the slope is negative, and what must cancel, M's products that φ* does not allow, is small."""
        device = self.device
        if device.problem.f.mu > 0:
            return False
        with jax.enable_x64(True):
            x, v = (_put(part, device.problem, dual=False) for part in (x, direction))
            return bool(report(formulas.may_descend, device.measured, device.steepness, x, v))

    def objective(self, x: Array, y: Array, *, satisfied: bool) -> float:
        """The objective in float64; on the host if the device does not know f's value."""
        device = self.device
        if not hasattr(device.placed.f, "value"):
            return objective(device.problem, on_host(x), on_host(y), satisfied)
        with jax.enable_x64(True):
            x, y = _put(x, device.problem, dual=False), _put(y, device.problem, dual=True)
            value, inside = report(formulas.objective_of, device.placed, x, y)
        return float(value if inside or satisfied else np.inf)


def measured_of(problem: Problem) -> Measured:
    """A problem on the device with the sizes of its data."""
    placed, limits = place(problem, np.float64), problem.limits
    sizes = (put(part, np.float64, dual=name in ("rows", "duals")) for name, part in problem.sizes._asdict().items())
    if limits is not None:
        limits = Limits(*(put(part, part.dtype, dual=False) for part in limits))
    return Measured(placed.M, placed.f, placed.phi, placed.b, Sizes(*sizes), limits)


def _put(v: Array, problem: Problem, *, dual: bool) -> Array:
    return v if on_device(v) else put(v, problem.dtype, dual=dual)


def _put_way_back(found: WayBack) -> WayBack:
    with jax.enable_x64(True):
        factors = put(found.columns, np.float64, dual=False), put(found.rows, np.float64, dual=True)
        places = (None if some is None else jnp.asarray(some) for some in (found.x_places, found.y_places))
        return WayBack(*factors, *places)


def proximal_step_there(problem: Problem, *step: Any) -> tuple[Array, Array]:
    """`proximal.step_of` on the device."""
    with jax.enable_x64(True):
        y, squares = report(formulas.proximal_step, place(problem), *step, others=1)
        return y, squares
