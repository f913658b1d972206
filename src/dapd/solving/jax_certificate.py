"""The certificate on a device: the formulas of `certificate.py` in JAX, for problems too large for the host.

A test holds the two equal.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dapd.arrays import EPSILON, Array
from dapd.engines.jax import Placed
from dapd.engines.jax_pytree import pytree
from dapd.presolve.transform import WayBack
from dapd.solving.proximal import Oracles, step_of
from dapd.solving.sums import BalancedStep

WORTH_CHECKING = 0.1  # part of the sizes of their terms up to which products may be left for a direction to be checked
SLACK = 64  # roundings within which a residual counts as one at which φ* is finite


@pytree()
class Measured:
    """A problem with the sizes of its data."""

    placed: Placed
    rows: Array
    duals: Array
    columns: Array
    unit: Array

    @property
    def gpu(self) -> Any:
        """The one GPU that it is on; None if it is elsewhere."""
        return self.placed.gpu


forward = jax.jit(lambda M, x: M.forward(x))
adjoint = jax.jit(lambda M, y: M.adjoint(y))


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


def proximal_step(placed: Placed, *step: Any) -> tuple[Array, Array]:
    """`proximal.step_of` there."""
    y, squares = step_of(Oracles(placed.f.grad, placed.phi.prox, placed.M, placed.b), *step)
    return y, jnp.stack(squares)


def look_at(measured: Measured, way_back: WayBack, x: Array, y: Array) -> tuple[Array, Array, Array]:
    """The point that (x, y) is taken back to, and its numbers, infinite if it is not finite."""
    x, y = (there.astype(v.dtype) for there, v in zip(way_back.of(x, y), (x, y), strict=True))
    numbers = certificate_of(measured, x.astype(np.float64), y.astype(np.float64))
    finite = jnp.all(jnp.isfinite(x)) & jnp.all(jnp.isfinite(y))
    return x, y, jnp.where(finite, numbers, jnp.inf)


@jax.jit
def start_of(way_back: WayBack, x: Array, y: Array) -> tuple[Array, Array]:
    """The point that is taken back to (x, y)."""
    columns, rows, x_places, y_places = way_back
    return _in_places((x / columns).astype(x.dtype), x_places), _in_places((y / rows).astype(y.dtype), y_places)


def _in_places(v: Array, places: Array | None) -> Array:
    """The vector w with w[places] = v."""
    return v if places is None else jnp.empty_like(v).at[places].set(v, unique_indices=True)


@jax.jit
def difference(way_back: WayBack, now: tuple[Array, Array], before: tuple[Array, Array]) -> tuple[Array, Array]:
    """How far apart two points are, taken back."""
    return way_back.of(now[0] - before[0], now[1] - before[1])


def objective_of(measured: Measured, x: Array, y: Array) -> Array:
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


def may_be_ray(problem: Placed, bounds: tuple[Array, Array], d: Array) -> Array:
    """Whether −bᵀd − φ∞(d) exceeds the supremum of −(Mᵀd)ᵀx, if products that are small count as zero."""
    d = problem.phi.project_recession(d[: problem.b.size].astype(np.float64))
    image, entries = problem.M.adjoint(d), problem.M.magnitudes()
    sizes = jnp.linalg.norm(d) if entries is None else _greatest(entries.adjoint(abs(d)))
    ends = jnp.where(image < 0, bounds[1], bounds[0])
    endless = jnp.isinf(ends)
    supremum = jnp.sum(jnp.where(endless, 0.0, -image * jnp.where(endless, 0.0, ends)))
    gain = -jnp.sum(problem.b * d) - problem.phi.value(d) - supremum
    return (gain > 0) & (_greatest(jnp.where(endless, image, 0.0)) <= WORTH_CHECKING * sizes)


def may_descend(problem: Placed, bounds: tuple[Array, Array], steepness: Array, x: Array, v: Array) -> Array:
    """Whether ∇f(x)ᵀv + φ*∞(Mv) is negative, if products that are small count as zero."""
    x, v = x.astype(np.float64), v.astype(np.float64)
    low, high = (jnp.where(jnp.isinf(side), side, 0.0) for side in bounds)
    v = jnp.clip(v / _greatest(v), low, high)
    image = problem.M.forward(v)
    allowed = problem.phi.project_conjugate_recession(image)
    gain = -jnp.sum(problem.f.grad(x) * v) - problem.phi.conjugate(allowed)
    return (gain > 0) & (_greatest(image - allowed) <= WORTH_CHECKING * steepness)


def _worst(errors: Array, sizes: Array) -> Array:
    """The greatest error relative to its size; inf if one of them is not finite."""
    relative = errors / sizes
    finite = jnp.isfinite(jnp.sum(relative * sizes))
    return jnp.where(finite, jnp.max(relative, initial=0.0), jnp.inf)


def _greatest(v: Array) -> Array:
    return jnp.max(abs(v), initial=0.0)
