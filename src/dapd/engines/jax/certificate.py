"""The certificate on a device, for problems too large for the host: the same formulas, with numbers that stay there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dapd.arrays import EPSILON, Array
from dapd.certificate import certify
from dapd.certificate.certify import Certificate, error_of
from dapd.certificate.rays import WORTH_CHECKING, exceeds_supremum
from dapd.certificate.sums import ByNumPy, Number, Vectors, plain_columns, plain_products, plain_rows
from dapd.engines.jax.pytree import pytree
from dapd.engines.jax.runner import Placed
from dapd.kinds.base import Phi
from dapd.methods.proximal import Oracles, step_of
from dapd.problem.sizes import Limits, Sizes, multipliers_of_bounds
from dapd.problem.sizes import within_bounds as held
from dapd.problem.way_back import WayBack

SLACK = 64  # roundings within which a residual counts as one at which φ* is finite


@pytree()
class Measured(Placed):
    """A problem with the sizes of its data."""

    sizes: Sizes
    limits: Limits | None

    @property
    def rows(self) -> int:
        """Those of M."""
        return int(self.sizes.rows.shape[0])

    @property
    def bounds(self) -> tuple[Array, Array]:
        """Those of x."""
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


def proximal_step(placed: Placed, *step: Any) -> tuple[Array, Array]:
    """`proximal.step_of` there."""
    y, squares = step_of(Oracles(placed.f.grad, placed.phi.prox, placed.M, placed.b), *step)
    return y, jnp.stack(squares)


def look_at(measured: Measured, way_back: WayBack, x: Array, y: Array) -> tuple[Array, Array, Array]:
    """The point that (x, y) is taken back to, x between its bounds, and its numbers, infinite if it is not finite."""
    x, y = (there.astype(v.dtype) for there, v in zip(way_back.of(x, y), (x, y), strict=True))
    x = within_bounds(measured, x, y)
    found = certificate_of(measured, x.astype(np.float64), y.astype(np.float64))
    return x, y, jnp.where(jnp.isfinite(error_of(found)), jnp.stack(found.numbers), jnp.inf)


def within_bounds(measured: Measured, x: Array, dual: Array) -> Array:
    """As `Problem.within_bounds`."""
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
    columns, rows, x_places, y_places = way_back
    return _in_places((x / columns).astype(x.dtype), x_places), _in_places((y / rows).astype(y.dtype), y_places)


def _in_places(v: Array, places: Array | None) -> Array:
    """The vector w with w[places] = v."""
    return v if places is None else jnp.empty_like(v).at[places].set(v, unique_indices=True)


@jax.jit
def difference(way_back: WayBack, now: tuple[Array, Array], before: tuple[Array, Array]) -> tuple[Array, Array]:
    """How far apart two points are, taken back."""
    return way_back.of(now[0] - before[0], now[1] - before[1])


def objective_of(problem: Placed, x: Array, y: Array) -> Array:
    """f(x) + φ*(Mx − b), the same at the nearest point at which φ* is finite, and whether that is the same point."""
    x = x.astype(np.float64)
    residual = problem.M.forward(x) - problem.b
    image = problem.phi.project_conjugate(residual)
    inside = jnp.all(abs(residual - image) <= SLACK * EPSILON * (1 + abs(residual)))
    value = problem.f.value(x) + jnp.sum(problem.phi.conjugate_terms(image))
    return jnp.stack([value, inside.astype(np.float64)])


def may_be_ray(problem: Measured, d: Array) -> Array:
    """As `rays.may_be_ray`."""
    d = problem.phi.project_recession(d[: problem.rows].astype(np.float64))
    gain = -jnp.sum(problem.b * d) - jnp.sum(problem.phi.terms(d))
    return exceeds_supremum(gain, problem.M, d, problem.bounds)


def may_descend(problem: Measured, steepness: Array, x: Array, v: Array) -> Array:
    """Whether ∇f(x)ᵀv + φ*∞(Mv) is negative, if products that are small count as zero."""
    x, v = x.astype(np.float64), v.astype(np.float64)
    v = jnp.clip(v / jnp.max(abs(v), initial=0.0), *(jnp.where(jnp.isinf(side), side, 0.0) for side in problem.bounds))
    image = problem.M.forward(v)
    allowed = problem.phi.project_conjugate_recession(image)
    gain = -jnp.sum(problem.f.grad(x) * v) - jnp.sum(problem.phi.conjugate_terms(allowed))
    return (gain > 0) & (jnp.max(abs(image - allowed), initial=0.0) <= WORTH_CHECKING * steepness)
