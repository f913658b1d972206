"""A problem on the device of the jax engine, and the judge of the points that stay there.

The formulas of a certificate are those of `dapd.certificate`; their numbers are made there.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from functools import reduce
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dapd.arrays import EPSILON, Array, on_device, on_host
from dapd.certificate import certify
from dapd.certificate.certify import Certificate, CheckedPoint, error_of
from dapd.certificate.rays import WORTH_CHECKING, exceeds_supremum
from dapd.certificate.sums import ByNumPy, Number, Vectors, plain_columns, plain_products, plain_rows
from dapd.engines.jax.layout import layout, put
from dapd.engines.jax.maps import product_of
from dapd.engines.jax.program import Leaves, compiled_report, report
from dapd.engines.jax.pytree import pytree
from dapd.engines.jax.runner import Placed, place
from dapd.kinds.base import Phi
from dapd.operators.base import Operator
from dapd.problem.problem import Problem
from dapd.problem.sizes import Limits, Sizes, multipliers_of_bounds
from dapd.problem.sizes import within_bounds as held
from dapd.problem.way_back import Transformed, WayBack
from dapd.spectrum.estimate import Spectrum

SLACK = 64  # roundings within which a residual counts as one at which φ* is finite


@pytree()
class Measured(Placed):
    """A problem with the sizes of its data."""

    sizes: Sizes
    limits: Limits | None

    @property
    def rows(self) -> int:
        """The number of rows of M."""
        return int(self.sizes.rows.shape[0])

    @property
    def bounds(self) -> tuple[Array, Array]:
        """The bounds on x, infinite if there are none."""
        if self.limits is not None:
            return self.limits.lower, self.limits.upper
        infinite = jnp.full_like(self.sizes.columns, np.inf)
        return -infinite, infinite


class ByDevice(ByNumPy):
    """Computes with all vectors in one pass."""

    prox: Callable[..., Array] = staticmethod(lambda phi, v, step: phi.prox(v, step))
    pieces: Callable[[int], Iterable[slice]] = staticmethod(lambda size: [slice(None)])
    least: Callable[..., Number] = staticmethod(jnp.minimum)
    root: Callable[[Number], Number] = staticmethod(jnp.sqrt)

    def most(self, *numbers: Number) -> Number:
        return reduce(jnp.maximum, numbers)

    def length(self, *parts: Number) -> Number:
        return jnp.sqrt(sum(part * part for part in parts))

    def known(self, v: Number) -> Number:
        return jnp.where(jnp.isfinite(v), v, jnp.nan)

    def values(self, phi: Phi, z: Array, y: Array) -> tuple[Array, ...]:
        return phi.conjugate_terms(z), phi.terms(y)

    def numbers(self, parts: Iterable[Vectors]) -> tuple[list[Number], list[Number], list[Number]]:
        (part,) = parts
        sums = [*(v * v for v in part.lengths), *(v * w for v, w in part.products), *part.terms]
        shape = part.greatest[0].shape
        found = iter(_reduced([v for v in sums if v.shape == shape], part.greatest))
        sums = [next(found) if v.shape == shape else jnp.sum(v) for v in sums]  # else one for each group
        count = len(part.lengths)
        return list(map(jnp.sqrt, sums[:count])), sums[count:], list(found)


def _reduced(sums: list[Array], greatest: list[Array]) -> tuple[Array, ...]:
    """The sums of some vectors, and the greatest entries of others that are not negative, in a single pass over all."""
    vectors, count = (*sums, *greatest), len(sums)

    def both(one: tuple[Array, ...], other: tuple[Array, ...]) -> tuple[Array, ...]:
        pairs = list(zip(one, other, strict=True))
        return (*(a + b for a, b in pairs[:count]), *(jnp.maximum(a, b) for a, b in pairs[count:]))

    found: tuple[Array, ...] = jax.lax.reduce(vectors, tuple(jnp.zeros((), v.dtype) for v in vectors), both, (0,))
    return found


THERE = ByDevice()


def certificate_of(measured: Measured, x: Array, y: Array) -> Certificate:
    """The certificate without the distance; of a dual vector, the part for the rows of M counts."""
    y = y[: measured.rows]
    at = plain_products(measured.M, x, y)
    rows, columns = plain_rows(measured, y, at, THERE), plain_columns(measured, x, measured.f.grad(x), at, THERE)
    return certify.certificate_of(measured, x, rows, columns, by=THERE)


def checked_point(measured: Measured, way_back: WayBack, x: Array, y: Array) -> tuple[Array, Array, Array]:
    """The point that (x, y) is taken back to, x between its bounds, and its numbers, infinite if it is not finite."""
    x, y = (there.astype(v.dtype) for there, v in zip(way_back.of(x, y), (x, y), strict=True))
    x = within_bounds(measured, x, y)
    found = certificate_of(measured, x.astype(np.float64), y.astype(np.float64))
    return x, y, jnp.where(jnp.isfinite(error_of(found)), jnp.stack(found.numbers), jnp.inf)


@pytree()
class Completing:
    """A problem, another one whose points are taken back to it, and that one's bounds."""

    measured: Measured
    inner: Placed
    bounds: tuple[Array, Array]
    way_back: WayBack

    @functools.cached_property
    def leaves(self) -> Leaves:
        """Its arrays."""
        return Leaves(self)

    @property
    def gpu(self) -> Any:
        """The one GPU that it is on; None if it is elsewhere."""
        return self.measured.gpu


def checked_completed(given: Completing, x: Array, y: Array) -> tuple[Array, Array, Array]:
    """As `checked_point`, of a point of the other problem without the multipliers of its bounds."""
    return checked_point(given.measured, given.way_back, x, _completed(given.inner, x, y, given.bounds))


def within_bounds(measured: Measured, x: Array, dual: Array) -> Array:
    """The point between the bounds that belongs to x; `dual` may hold the multipliers of the bounds after y."""
    rows, limits = measured.rows, measured.limits
    return x if limits is None else held(limits, x, dual[rows:] if dual.shape[0] > rows else None)


def multipliers(measured: Measured, x: Array, y: Array) -> Array:
    """The multipliers of the bounds that stationarity asks for; zero if there are none."""
    limits = measured.limits
    if limits is None:
        return jnp.zeros_like(x)
    slopes = measured.f.grad(x) + measured.M.adjoint(y[: measured.rows])
    return multipliers_of_bounds(x, slopes, limits.lower, limits.upper)[0]


@jax.jit
def start_of(way_back: WayBack, x: Array, y: Array) -> tuple[Array, Array]:
    """The point that is taken back to (x, y)."""
    return way_back.start(x, y)


@jax.jit
def difference(way_back: WayBack, now: tuple[Array, Array], before: tuple[Array, Array]) -> tuple[Array, Array]:
    """How far apart two points are, taken back."""
    return way_back.of(now[0] - before[0], now[1] - before[1])


def objective_of(problem: Placed, x: Array) -> Array:
    """f(x) + φ*(Mx − b), the same at the nearest point at which φ* is finite, and whether that is the same point."""
    x = x.astype(np.float64)
    residual = problem.M.forward(x) - problem.b
    image = problem.phi.project_conjugate(residual)
    inside = jnp.all(abs(residual - image) <= SLACK * EPSILON * (1 + abs(residual)))
    value = problem.f.value(x) + jnp.sum(problem.phi.conjugate_terms(image))
    return jnp.stack([value, inside.astype(np.float64)])


def is_like_a_ray(problem: Measured, d: Array) -> Array:
    """As `rays.may_be_ray`."""
    d = problem.phi.project_recession(d[: problem.rows].astype(np.float64))
    gain = -jnp.sum(problem.b * d) - jnp.sum(problem.phi.terms(d))
    return exceeds_supremum(gain, problem.M, d, problem.bounds)


def is_descending(problem: Measured, steepness: Array, x: Array, v: Array) -> Array:
    """Whether ∇f(x)ᵀv + φ*∞(Mv) is negative, if products that are small count as zero."""
    x, v = x.astype(np.float64), v.astype(np.float64)
    v = jnp.clip(v / jnp.max(abs(v), initial=0.0), *(jnp.where(jnp.isinf(side), side, 0.0) for side in problem.bounds))
    image = problem.M.forward(v)
    allowed = problem.phi.project_conjugate_recession(image)
    gain = -jnp.sum(problem.f.grad(x) * v) - jnp.sum(problem.phi.conjugate_terms(allowed))
    return (gain > 0) & (jnp.max(abs(image - allowed), initial=0.0) <= WORTH_CHECKING * steepness)


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
        return bool(self.placed.phi.runs_on_device)

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
        inner = None if transform is None else transform.problem
        self.inner = None if inner is None or inner.lower is None or self.way_back is None else inner

    @property
    def completes(self) -> bool:
        """Whether `check` takes points without the multipliers of the bounds."""
        return self.inner is not None

    @functools.cached_property
    def completing(self) -> Completing:
        """What completes points and takes them back."""
        assert self.inner is not None
        assert self.way_back is not None
        return Completing(self.device.measured, place(self.inner), bounds_there(self.inner), self.way_back)

    def _back(self, x: Array, y: Array) -> tuple[Any, Array, Array]:
        """The way back that is left, and the point, both there."""
        way_back = self.way_back
        if way_back is None and self.transform is not None:
            way_back = self.device.way_back(None)
            x, y = self.transform.back(on_host(x), on_host(y))
        return way_back, _put(x, self.device.problem, dual=False), _put(y, self.device.problem, dual=True)

    def start(self, x: Array, y: Array) -> tuple[Array, Array]:
        """The start in the variables of the transform, on the device if it can take points back, else on the host."""
        if self.way_back is None and self.transform is not None:
            return self.transform.start(on_host(x), on_host(y))
        with jax.enable_x64(True):
            x, y = start_of(*self._back(x, y))
        return x, y

    def check(self, x: Array, y: Array) -> CheckedPoint:
        """The point in the given problem, and its certificate in float64, without the distance."""
        with jax.enable_x64(True):
            if self.inner is not None and len(y) == self.inner.rows and on_device(y):
                x, y, numbers = report(checked_completed, self.completing, x, y, others=2)
            else:
                x, y, numbers = report(checked_point, self.device.measured, *self._back(x, y), others=2)
        return CheckedPoint(x, y, Certificate.of_numbers(numbers.tolist(), self.accuracy))

    def distance(self, x: Array, y: Array, spectrum: Spectrum | None) -> float:
        """Infinite: the device computes no bound on the distance."""
        return math.inf

    def move(self, now: tuple[Array, Array], before: tuple[Array, Array]) -> tuple[Array, Array]:
        """The difference of the two points."""
        with jax.enable_x64(True):
            way_back, x, y = self._back(*now)
            dx, dy = difference(way_back, (x, y), self._back(*before)[1:])
        return dx, dy

    def may_be_ray(self, direction: Array) -> bool:
        """Whether products that are small, taken for zero, would make it one."""
        with jax.enable_x64(True):
            d = direction if on_device(direction) else put(direction, np.float64, dual=True)
            return bool(report(is_like_a_ray, self.device.measured, d))

    def may_descend(self, x: Array, direction: Array) -> bool:
        """Whether the slope is negative, and what must cancel, M's products that φ* does not allow, is small."""
        device = self.device
        if device.problem.f.mu > 0:
            return False
        with jax.enable_x64(True):
            x, v = (_put(part, device.problem, dual=False) for part in (x, direction))
            return bool(report(is_descending, device.measured, device.steepness, x, v))

    def objective(self, x: Array, y: Array, *, satisfied: bool) -> float:
        """The objective in float64; on the host if the device does not know f's value."""
        device = self.device
        if not hasattr(device.placed.f, "value"):
            return certify.objective(device.problem, on_host(x), on_host(y), satisfied)
        with jax.enable_x64(True):
            value, inside = report(objective_of, device.placed, _put(x, device.problem, dual=False))
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


def completed_there(problem: Problem, x: Array, y: Array) -> Array:
    """As `certify.completed`, in one vector on the device."""
    placed = place(problem)
    with jax.enable_x64(True):
        run = placed.leaves.program(compiled_report, _completed, 1, None)
        return run(placed.leaves.arrays, x, y, bounds_there(problem))


def bounds_there(problem: Problem) -> tuple[Array, Array]:
    """The bounds on the device, kept there for later solves."""

    def find() -> tuple[Array, Array]:
        return tuple(_put(v, problem, dual=False) for v in problem.bounds)

    return problem.memory.once(bounds_there, layout(), find)


def _completed(placed: Placed, x: Array, y: Array, bounds: tuple[Array, Array]) -> Array:
    z, _ = multipliers_of_bounds(x, placed.f.grad(x) + placed.M.adjoint(y), *bounds)
    return jnp.concatenate([y, z.astype(y.dtype)])
