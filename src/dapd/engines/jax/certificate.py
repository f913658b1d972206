"""The certificate on a device: the formulas of `certificate.py` in JAX, for problems too large for the host.

A test holds the two equal.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dapd.arrays import EPSILON, Array
from dapd.certificate.certify import GUARD, Certificate, error_of
from dapd.certificate.rays import WORTH_CHECKING
from dapd.certificate.sums import ColumnSums, Products, RowSums
from dapd.engines.jax.maps import with_column_sizes, with_sizes
from dapd.engines.jax.program import Leaves
from dapd.engines.jax.pytree import pytree
from dapd.engines.jax.runner import Placed
from dapd.methods.proximal import Oracles, step_of
from dapd.problem.sizes import Limits, multipliers_of_bounds
from dapd.problem.sizes import within_bounds as held
from dapd.problem.way_back import WayBack

SLACK = 64  # roundings within which a residual counts as one at which φ* is finite


@pytree()
class Measured:
    """A problem with the sizes of its data."""

    placed: Placed
    rows: Array
    duals: Array
    columns: Array
    slopes: Array
    objective: Array
    most: Array
    curvature: Array
    limits: Limits | None

    @cached_property
    def leaves(self) -> Leaves:
        """Its arrays."""
        return Leaves(self)

    @property
    def gpu(self) -> Any:
        """The one GPU that it is on; None if it is elsewhere."""
        return self.placed.gpu


forward = jax.jit(lambda M, x: M.forward(x))
adjoint = jax.jit(lambda M, y: M.adjoint(y))


def certificate_of(measured: Measured, x: Array, y: Array) -> Certificate:
    """The certificate without the distance; of a dual vector, the part for the rows of M counts."""
    placed, y = measured.placed, y[: measured.rows.shape[0]]
    at = _products(measured, x, y)
    columns = _column_sums(measured, x, placed.f.grad(x), at)
    residual, sizes = at.Mx - placed.b, measured.rows + at.rows
    parts = placed.phi.each(_row_sums, y, residual, sizes, measured.duals + abs(y), placed.b)
    rows = _together(parts.reshape(-1, len(RowSums._fields)), y.size)
    gap = abs(rows.conjugate + rows.value + rows.product + columns.product)
    size = abs(rows.conjugate) + abs(rows.value) + rows.sizes + columns.sizes
    gap = jnp.where(jnp.isfinite(gap), gap + GUARD * (size + jnp.sum(measured.curvature * x * x)), jnp.nan)
    outside = columns.outside
    numbers: dict[str, Any] = {
        "stationarity": columns.norm,
        "feasibility": jnp.sqrt(rows.feasibility**2 + columns.natural**2 + columns.primal**2),
        "gap": gap,
        "stationarity_error": columns.stationarity,
        "feasibility_error": jnp.maximum(rows.outside, outside),
        "complementarity_error": jnp.maximum(
            jnp.maximum(rows.complementarity, columns.complementarity), columns.outside
        ),
        "gap_error": gap / (jnp.minimum(size, measured.most) + measured.objective),
        "primal": jnp.maximum(rows.primal, columns.primal),
        "dual": jnp.maximum(columns.greatest, rows.dual),
        "typical_error": jnp.maximum(columns.errors, rows.errors),
    }
    return Certificate(**numbers, distance=np.inf)


def _products(measured: Measured, x: Array, y: Array) -> Products:
    Mx, rows = with_sizes(measured.placed.M, x)
    Mty, columns = with_column_sizes(measured.placed.M, y)
    return Products(Mx, abs(Mx) if rows is None else rows, Mty, abs(Mty) if columns is None else columns)


def _column_sums(measured: Measured, x: Array, grad: Array, at: Products) -> ColumnSums:
    slope, products = grad + at.Mty, x * grad
    size = measured.columns + abs(grad) + at.columns + 0 * x  # not finite if x is not
    terms, left, limits = abs(x) * (abs(grad) + measured.slopes), slope, measured.limits
    zero = jnp.zeros_like(x)
    natural, complementarity, primal, outside = zero, zero, zero, zero
    if limits is not None:
        z, bound = multipliers_of_bounds(x, slope, limits.lower, limits.upper)
        left, away = slope * (z == 0), abs(x - bound) * (z != 0)
        natural = jnp.minimum(abs(z), away)
        complementarity = jnp.minimum(abs(z) / size, away / (limits.primal + abs(x) + abs(bound)))
        near = jnp.clip(x, limits.lower, limits.upper)
        primal = abs(x - near)
        outside = _relative(primal, limits.primal + abs(x) + abs(near))
        products, terms = products + z * bound, terms + abs(z * bound)
    relative = _relative(abs(left), size)
    sums = [left * left, natural * natural, relative**2 + complementarity**2, products, terms]
    found, most = _reduced(sums, [abs(left), relative, complementarity, primal, outside])
    squares, natural, errors, product, terms = found
    greatest, stationarity, complementarity, primal, outside = most
    lengths = jnp.sqrt(squares), jnp.sqrt(natural), jnp.sqrt(errors / max(1, x.size))
    return ColumnSums(
        lengths[0],
        greatest,
        stationarity,
        lengths[1],
        complementarity,
        lengths[2],
        primal,
        outside,
        product,
        terms,
    )


def _row_sums(phi: Any, y: Array, residual: Array, rows: Array, duals: Array, b: Array) -> Array:
    """`RowSums` of the rows of one part of φ, with squares where it has roots."""
    rows, duals = phi.pooled(rows), phi.pooled(duals)
    steps = duals / rows
    near, image = phi.project(y), phi.project_conjugate(residual)
    away, move = y - phi.prox(y + steps * residual, steps), y - phi.prox(y + residual, 1.0)
    relative = _relative(phi.pooled(abs(away) + EPSILON * abs(y)), jnp.minimum(duals, steps * rows))
    beyond, off = abs(residual - image), abs(y - near)
    outside = jnp.maximum(_relative(phi.pooled(beyond), rows), _relative(phi.pooled(off), duals))
    sums = move * move, relative * relative, phi.conjugate_terms(image), phi.terms(near), b * near, abs(b * near)
    by_row = [v if v.shape == y.shape else jnp.zeros_like(y) for v in sums]
    found, (error, out, primal, dual) = _reduced(by_row, [relative, outside, beyond, off])
    by_group = [jnp.sum(v) if v.shape != y.shape else one for v, one in zip(sums, found, strict=True)]
    return jnp.stack(RowSums(by_group[0], error, by_group[1], out, primal, dual, *by_group[2:]))


def _together(parts: Array, count: int) -> RowSums:
    """The numbers of all rows, from those of each part of φ."""
    sums, greatest = RowSums(*jnp.sum(parts, axis=0)), RowSums(*jnp.max(parts, axis=0))
    return sums._replace(
        feasibility=jnp.sqrt(sums.feasibility),
        errors=jnp.sqrt(sums.errors / max(1, count)),
        complementarity=greatest.complementarity,
        outside=greatest.outside,
        primal=greatest.primal,
        dual=greatest.dual,
    )


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
    limits, rows = measured.limits, measured.rows.shape[0]
    if limits is None:
        return x
    z = dual[rows:] if dual.shape[0] > rows else None
    return held(Limits(*(part.astype(x.dtype) for part in limits)), x, z)


def multipliers(measured: Measured, x: Array, y: Array) -> Array:
    """The multipliers of the bounds that stationarity asks for; zero if there are none."""
    limits = measured.limits
    if limits is None:
        return jnp.zeros_like(x)
    slopes = measured.placed.f.grad(x) + measured.placed.M.adjoint(y[: measured.rows.shape[0]])
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


def objective_of(measured: Measured, x: Array, y: Array) -> Array:
    """f(x) + φ*(Mx − b), the same at the nearest point at which φ* is finite, and whether that is the same point."""
    x = x.astype(np.float64)
    problem, phi = measured.placed, measured.placed.phi
    residual = problem.M.forward(x) - problem.b
    image = phi.project_conjugate(residual)
    inside = jnp.all(abs(residual - image) <= SLACK * EPSILON * (1 + abs(residual)))
    return jnp.stack([problem.f.value(x) + _total(phi, "conjugate_terms", image), inside.astype(np.float64)])


def may_be_ray(problem: Placed, bounds: tuple[Array, Array], d: Array) -> Array:
    """Whether −bᵀd − φ∞(d) exceeds the supremum of −(Mᵀd)ᵀx, if products that are small count as zero."""
    d = problem.phi.project_recession(d[: problem.b.size].astype(np.float64))
    image, entries = problem.M.adjoint(d), problem.M.magnitudes()
    sizes = jnp.linalg.norm(d) if entries is None else _greatest(entries.adjoint(abs(d)))
    ends = jnp.where(image < 0, bounds[1], bounds[0])
    endless = jnp.isinf(ends)
    supremum = jnp.sum(jnp.where(endless, 0.0, -image * jnp.where(endless, 0.0, ends)))
    gain = -jnp.sum(problem.b * d) - _total(problem.phi, "terms", d) - supremum
    return (gain > 0) & (_greatest(jnp.where(endless, image, 0.0)) <= WORTH_CHECKING * sizes)


def may_descend(problem: Placed, bounds: tuple[Array, Array], steepness: Array, x: Array, v: Array) -> Array:
    """Whether ∇f(x)ᵀv + φ*∞(Mv) is negative, if products that are small count as zero."""
    x, v = x.astype(np.float64), v.astype(np.float64)
    low, high = (jnp.where(jnp.isinf(side), side, 0.0) for side in bounds)
    v = jnp.clip(v / _greatest(v), low, high)
    image = problem.M.forward(v)
    allowed = problem.phi.project_conjugate_recession(image)
    gain = -jnp.sum(problem.f.grad(x) * v) - _total(problem.phi, "conjugate_terms", allowed)
    return (gain > 0) & (_greatest(image - allowed) <= WORTH_CHECKING * steepness)


def _total(phi: Any, terms: str, v: Array) -> Array:
    """The sum of the terms of all parts of φ."""
    return jnp.sum(phi.each(lambda part, own: jnp.sum(getattr(part, terms)(own))[None], v))


def _relative(errors: Array, sizes: Array) -> Array:
    """Errors relative to their sizes; inf if one is not finite."""
    relative = errors / sizes
    return jnp.where(jnp.isfinite(relative) & jnp.isfinite(sizes), relative, jnp.inf)


def _reduced(sums: list[Array], greatest: list[Array]) -> tuple[list[Array], list[Array]]:
    """The sums of some vectors, and the greatest entries of others that are not negative, in a single pass over all."""
    vectors, count = (*sums, *greatest), len(sums)

    def both(one: tuple[Array, ...], other: tuple[Array, ...]) -> tuple[Array, ...]:
        pairs = list(zip(one, other, strict=True))
        return (*(a + b for a, b in pairs[:count]), *(jnp.maximum(a, b) for a, b in pairs[count:]))

    found = jax.lax.reduce(vectors, tuple(jnp.zeros((), v.dtype) for v in vectors), both, (0,))
    return list(found[:count]), list(found[count:])


def _greatest(v: Array) -> Array:
    return jnp.max(abs(v), initial=0.0)
