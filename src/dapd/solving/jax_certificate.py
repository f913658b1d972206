"""The certificate on a device: the formulas of `certificate.py` in JAX, for problems too large for the host.

A test holds the two equal.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dapd.arrays import Array, on_device, on_host
from dapd.engines.jax import Placed, place
from dapd.engines.jax_functions import PhiOf
from dapd.engines.jax_layout import put
from dapd.engines.jax_maps import pytree
from dapd.model.problem import Problem
from dapd.operators.base import Operator
from dapd.presolve import Presolve
from dapd.solving.certificate import Certificate
from dapd.solving.measure import EPSILON
from dapd.spectrum.estimate import Spectrum

ROUGH = 0.1  # part of the sizes of their terms up to which products may be left for a direction to be checked


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

    @cached_property
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

    def way_back(self, transform: Presolve) -> Callable[[Array, Array], tuple[Array, Array]]:
        """`transform.back` on the device if every transform has a form for it."""
        rows, columns = self.shape

        def moved(v: Array) -> Array:
            with jax.enable_x64(True):
                return put(v, np.float64, dual=len(v) == rows and (rows != columns or bool(np.any(v != 1))))

        placed = transform.placed(moved)
        if placed is not None:
            return placed.back
        return lambda x, y: transform.back(on_host(x), on_host(y))

    @cached_property
    def _measured(self) -> Measured:
        sizes = self.problem.sizes
        rows, duals = (put(part, np.float64, dual=True) for part in (sizes.rows, sizes.duals))
        columns, unit = put(sizes.columns, np.float64, dual=False), put(sizes.unit, np.float64, dual=False)
        return Measured(self.placed, rows, duals, columns, unit)

    @cached_property
    def _bounds(self) -> tuple[Array, Array]:
        lower, upper = (put(side, np.float64, dual=False) for side in self.problem.bounds)
        return lower, upper

    def may_be_ray(self, direction: Array) -> bool:
        """Whether a direction of y is worth the check that `ends.proves_infeasible` makes on the host."""
        with jax.enable_x64(True):
            d = _put(direction[: self.problem.rows], dual=True)
            return bool(_may_be_ray(self.placed, self._bounds, d))

    def certify(self, x: Array, y: Array, spectrum: Spectrum | None) -> Certificate:
        """Measure (x, y) in float64. `distance` is not computed."""
        with jax.enable_x64(True):
            x, y = _put(x, dual=False), _put(y, dual=True)
            numbers = np.asarray(_certificate(self._measured, x, y))
        return Certificate(*map(float, [*numbers, math.inf]))


def _put(v: Array, *, dual: bool) -> Array:
    return v.astype(np.float64) if on_device(v) else put(v, np.float64, dual=dual)


_forward = jax.jit(lambda M, x: M.forward(x))
_adjoint = jax.jit(lambda M, y: M.adjoint(y))


def certificate_of(measured: Measured, x: Array, y: Array) -> Array:
    """The numbers of a `Certificate`, but for the distance."""
    problem = measured.placed
    M, f, phi, b = problem.M, problem.f, problem.phi, problem.b
    grad, Mx, Mty = f.grad(x), M.forward(x), M.adjoint(y)
    residual = Mx - b
    entries = M.magnitudes()
    rows = phi.pooled(measured.rows + (abs(Mx) if entries is None else entries.forward(abs(x))))
    duals = phi.pooled(measured.duals + abs(y))
    steps = duals / rows
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


_certificate = jax.jit(certificate_of)


@jax.jit
def _may_be_ray(problem: Placed, bounds: tuple[Array, Array], d: Array) -> Array:
    """Whether −bᵀd − φ∞(d) exceeds the supremum of −(Mᵀd)ᵀx, if products that are small count as zero."""
    d = problem.phi.project_recession(d)
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
