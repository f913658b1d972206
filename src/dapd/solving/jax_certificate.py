"""The certificate on a device: the formulas of `certificate.py` in JAX, for problems too large for the host.

A test holds the two equal.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dapd.arrays import Array, on_device, on_host
from dapd.engines.jax import Placed, place
from dapd.engines.jax_functions import PhiOf
from dapd.engines.jax_maps import pytree
from dapd.engines.jax_mesh import layout, put
from dapd.model.problem import Problem
from dapd.operators.base import Operator
from dapd.presolve import Presolve
from dapd.solving.certificate import BalancedStep, Certificate, objective
from dapd.solving.device import Look
from dapd.solving.measure import EPSILON
from dapd.solving.proximal import Oracles, step_of
from dapd.spectrum.estimate import Spectrum

ROUGH = 0.1  # part of the sizes of their terms up to which products may be left for a direction to be checked
SLACK = 64  # roundings within which a residual counts as one at which φ* is finite


@pytree()
class Measured:
    """A problem with the sizes of its data."""

    placed: Placed
    rows: Array
    duals: Array
    columns: Array
    unit: Array


class Device(Operator):
    """A large problem on the device; as an operator it is the problem's M, with products computed there."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.shape, self.dtype = problem.M.shape, problem.M.dtype
        self.memory = problem.M.memory

    @property
    def probes(self) -> int:
        """As those of M."""
        return self.problem.M.probes

    @property
    def work(self) -> int:
        """As that of M."""
        return self.problem.M.work

    def sparse(self) -> Any:
        """As that of M."""
        return self.problem.M.sparse()

    @property
    def placed(self) -> Placed:
        """The problem in float64."""
        return place(self.problem, np.float64)

    @property
    def can_certify(self) -> bool:
        """Whether φ's values and projections are known on the device."""
        return isinstance(self.placed.phi, PhiOf)

    def forward(self, x: Array) -> Array:
        """Mx, to and from NumPy."""
        with jax.enable_x64(True):
            return on_host(_forward(self.placed.M, put(x, np.float64, dual=False)))

    def adjoint(self, y: Array) -> Array:
        """Mᵀy, to and from NumPy."""
        with jax.enable_x64(True):
            return on_host(_adjoint(self.placed.M, put(y, np.float64, dual=True)))

    @property
    def measured(self) -> Measured:
        """The problem with the sizes of its data, kept there for later solves."""
        key = "measured", layout()
        if key not in self.problem.memory:
            with jax.enable_x64(True):
                sizes = self.problem.sizes
                rows, duals = (put(part, np.float64, dual=True) for part in (sizes.rows, sizes.duals))
                columns, unit = (put(part, np.float64, dual=False) for part in (sizes.columns, sizes.unit))
            self.problem.memory[key] = Measured(self.placed, rows, duals, columns, unit)
        found: Measured = self.problem.memory[key]
        return found

    @property
    def bounds(self) -> tuple[Array, Array]:
        """Those on x, kept there too."""
        key = "bounds", layout()
        if key not in self.problem.memory:
            with jax.enable_x64(True):
                self.problem.memory[key] = tuple(put(side, np.float64, dual=False) for side in self.problem.bounds)
        lower, upper = self.problem.memory[key]
        return lower, upper

    def factors(self, transform: Presolve | None) -> tuple[Array, Array] | None:
        """The factors that take points of `transform.problem` back, the last ones kept; None if it takes more."""
        key = "factors", transform is None, layout()
        factors: tuple[Array, Array] | None
        known, factors = self.problem.memory.get(key, (self, None))
        if known is not transform:
            factors = (1.0, 1.0) if transform is None else transform.factors
            if factors is not None:
                with jax.enable_x64(True):
                    factors = put(factors[0], np.float64, dual=False), put(factors[1], np.float64, dual=True)
            self.problem.memory[key] = transform, factors
        return factors


class OnDevice:
    """Judges on the device: one call of a compiled program per question, and nothing but its numbers moves."""

    def __init__(self, device: Device, bounded: Device, transform: Presolve | None) -> None:
        self.device, self.bounded, self.transform = device, bounded, transform
        self.factors = device.factors(transform)  # None: only the host can take points back

    def _back(self, x: Array, y: Array) -> tuple[Any, Array, Array]:
        """The factors that are left to be applied, and the point, both there."""
        factors = self.factors
        if factors is None and self.transform is not None:
            factors = self.device.factors(None)
            x, y = self.transform.back(on_host(x), on_host(y))
        return factors, _put(x, self.device.problem, dual=False), _put(y, self.device.problem, dual=True)

    def start(self, x: Array, y: Array) -> tuple[Array, Array]:
        """By the factors, or on the host."""
        if self.factors is None and self.transform is not None:
            return self.transform.start(on_host(x), on_host(y))
        with jax.enable_x64(True):
            x, y = _start(*self._back(x, y))
        return x, y

    def look(self, x: Array, y: Array, spectrum: Spectrum | None = None) -> Look:
        """In float64. `distance` is not computed."""
        with jax.enable_x64(True):
            x, y, numbers = _look(self.device.measured, *self._back(x, y))
            numbers = np.asarray(numbers)
        return Look(x, y, Certificate(*map(float, [*numbers, math.inf])))

    def move(self, now: tuple[Array, Array], before: tuple[Array, Array]) -> tuple[Array, Array]:
        """The difference of the two points."""
        with jax.enable_x64(True):
            factors, x, y = self._back(*now)
            dx, dy = _move(factors, (x, y), self._back(*before)[1:])
        return dx, dy

    def may_be_ray(self, direction: Array) -> bool:
        """Whether products that are small, taken for zero, would make it one."""
        with jax.enable_x64(True):
            d = direction if on_device(direction) else put(direction, np.float64, dual=True)
            return bool(_may_be_ray(self.bounded.placed, self.bounded.bounds, d))

    def objective(self, x: Array, y: Array, *, satisfied: bool) -> float:
        """In float64, there if f's value is known there."""
        device = self.device
        if not hasattr(device.placed.f, "value"):
            return objective(device.problem, on_host(x), on_host(y), satisfied)
        with jax.enable_x64(True):
            x, y = _put(x, device.problem, dual=False), _put(y, device.problem, dual=True)
            value, nearby, inside = np.asarray(_objective(device.measured, x, y))
        return float(value if inside else nearby if satisfied else np.inf)


def _put(v: Array, problem: Problem, *, dual: bool) -> Array:
    return v if on_device(v) else put(v, problem.dtype, dual=dual)


_forward = jax.jit(lambda M, x: M.forward(x))
_adjoint = jax.jit(lambda M, y: M.adjoint(y))


def certificate_of(measured: Measured, x: Array, y: Array) -> Array:
    """The numbers of a `Certificate`, but for the distance."""
    problem = measured.placed
    M, f, phi, b = problem.M, problem.f, problem.phi, problem.b
    grad, Mx, Mty = f.grad(x), M.forward(x), M.adjoint(y)
    residual = Mx - b
    rows, duals, steps = _balanced_step(measured, x, y, Mx)
    away = abs(y - phi.prox(y + steps * residual, steps)) + EPSILON * abs(y)
    slope = grad + Mty
    near, image = phi.project(y), phi.project_conjugate(residual)
    values = jnp.stack([phi.conjugate(image), phi.value(near)])
    gap = abs(jnp.sum(values) + jnp.sum(b * near) + jnp.sum(x * grad))
    size = jnp.sum(abs(values)) + jnp.sum(abs(b * near)) + jnp.sum(abs(x * grad))
    gap = jnp.where(jnp.isfinite(gap), gap + EPSILON * size, jnp.nan)
    return jnp.stack(
        [
            jnp.linalg.norm(slope),
            jnp.linalg.norm(y - phi.prox(y + residual, 1.0)),
            gap,
            _worst(abs(slope), measured.columns + abs(grad) + abs(Mty)),
            _worst(away, jnp.minimum(duals, steps * rows)),
            gap / (size + measured.unit),
            _greatest(residual - image),
            jnp.maximum(_greatest(slope), _greatest(y - near)),
        ]
    )


def _balanced_step(measured: Measured, x: Array, y: Array, Mx: Array) -> BalancedStep:
    phi, entries = measured.placed.phi, measured.placed.M.magnitudes()
    rows = phi.pooled(measured.rows + (abs(Mx) if entries is None else entries.forward(abs(x))))
    duals = phi.pooled(measured.duals + abs(y))
    return BalancedStep(rows, duals, duals / rows)


def proximal_step_there(problem: Problem, *step: Any) -> tuple[Array, Array]:
    """`proximal.step_of` on the device."""
    with jax.enable_x64(True):
        y, squares = _proximal_step(place(problem), *step)
        return y, np.asarray(squares)


@jax.jit
def _proximal_step(placed: Placed, *step: Any) -> tuple[Array, Array]:
    y, squares = step_of(Oracles(placed.f.grad, placed.phi.prox, placed.M, placed.b), *step)
    return y, jnp.stack(squares)


@jax.jit
def _look(measured: Measured, factors: tuple[Array, Array], x: Array, y: Array) -> tuple[Array, Array, Array]:
    """The point (columns·x, rows·y) and its numbers, infinite if it is not finite."""
    x, y = ((factor * v).astype(v.dtype) for factor, v in zip(factors, (x, y), strict=True))
    numbers = certificate_of(measured, x.astype(np.float64), y.astype(np.float64))
    finite = jnp.all(jnp.isfinite(x)) & jnp.all(jnp.isfinite(y))
    return x, y, jnp.where(finite, numbers, jnp.inf)


@jax.jit
def _start(factors: tuple[Array, Array], x: Array, y: Array) -> tuple[Array, Array]:
    return (x / factors[0]).astype(x.dtype), (y / factors[1]).astype(y.dtype)


@jax.jit
def _move(factors: tuple[Array, Array], now: tuple[Array, Array], before: tuple[Array, Array]) -> tuple[Array, Array]:
    return factors[0] * (now[0] - before[0]), factors[1] * (now[1] - before[1])


@jax.jit
def _objective(measured: Measured, x: Array, y: Array) -> Array:
    """F(x) + φ*(Mx − b), the same at the nearest point at which φ* is finite, and whether that is the same point."""
    x, y = x.astype(np.float64), y.astype(np.float64)
    problem, phi = measured.placed, measured.placed.phi
    Mx = problem.M.forward(x)
    residual = Mx - problem.b
    image, value = phi.project_conjugate(residual), problem.f.value(x)
    inside = jnp.all(abs(residual - image) <= SLACK * EPSILON * (1 + abs(residual)))
    steps = _balanced_step(measured, x, y, Mx).steps
    v = y + steps * residual
    p = phi.prox(v, steps)
    nearby = jnp.sum(p * ((v - p) / steps)) - phi.value(phi.project(p))
    return jnp.stack([value + phi.conjugate(image), value + nearby, inside.astype(np.float64)])


@jax.jit
def _may_be_ray(problem: Placed, bounds: tuple[Array, Array], d: Array) -> Array:
    """Whether −bᵀd − φ∞(d) exceeds the supremum of −(Mᵀd)ᵀx, if products that are small count as zero."""
    d = problem.phi.project_recession(d[: problem.b.size].astype(np.float64))
    image, entries = problem.M.adjoint(d), problem.M.magnitudes()
    sizes = jnp.linalg.norm(d) if entries is None else _greatest(entries.adjoint(abs(d)))
    ends = jnp.where(image < 0, bounds[1], bounds[0])
    endless = jnp.isinf(ends)
    supremum = jnp.sum(jnp.where(endless, 0.0, -image * jnp.where(endless, 0.0, ends)))
    gain = -jnp.sum(problem.b * d) - problem.phi.value(d) - supremum
    return (gain > 0) & (_greatest(jnp.where(endless, image, 0.0)) <= ROUGH * sizes)


def _worst(errors: Array, sizes: Array) -> Array:
    """The greatest error relative to its size; inf if one of them is not finite."""
    relative = errors / sizes
    finite = jnp.isfinite(jnp.sum(relative * sizes))
    return jnp.where(finite, jnp.max(relative, initial=0.0), jnp.inf)


def _greatest(v: Array) -> Array:
    return jnp.max(abs(v), initial=0.0)
