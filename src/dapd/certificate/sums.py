"""The sums of a certificate over rows and columns: by the native core in one pass each, or by formulas if it cannot.

The formulas are for arrays of NumPy or of a device; `ByNumPy` says how their vectors become numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.blas import dnrm2

from dapd.arrays import EPSILON, Array, namespace
from dapd.kinds.base import Phi
from dapd.machine.core import load
from dapd.operators.base import Operator
from dapd.operators.explicit import record_of
from dapd.problem import ask
from dapd.problem.problem import Problem
from dapd.problem.sizes import multipliers_of_bounds

PIECE = 1 << 16  # coordinates that are converted at a time
Number = Any  # a float, or an array of JAX without axes
Measurable = Any  # a Problem, or on a device what has its f, M, b, φ, sizes and limits

_as_float64 = partial(np.ascontiguousarray, dtype=np.float64)  # no call of Python for each vector


def norm_of_sum(v: Array, w: Array) -> float:
    """‖v + w‖₂."""
    return norm(np.array([norm(v[piece] + w[piece]) for piece in pieces(v.size)]))


def greatest(v: Array) -> float:
    """‖v‖∞, nan if an entry is."""
    return float(max(-v.min(), v.max())) + 0.0 if v.size else 0.0  # 0, not −0, if all entries are 0


def pieces(size: int) -> Iterator[slice]:
    """Parts of a vector, since x may be long: what is computed of a part takes no memory to speak of."""
    return (slice(start, start + PIECE) for start in range(0, size, PIECE))


def relative(errors: Array, sizes: Array) -> Array:
    """Errors relative to their sizes; inf where one is not finite."""
    found = errors / sizes
    if isinstance(found, np.ndarray) and math.isfinite(found @ sizes):  # so all are
        return found
    xp = namespace(found)
    return xp.where(xp.isfinite(found) & xp.isfinite(sizes), found, xp.inf)


def norm(v: Array) -> float:
    """‖v‖₂, whose squares neither overflow nor underflow."""
    return float(dnrm2(v)) if v.size else 0.0


class Products(NamedTuple):
    """Products of M with a point, and the sizes of their terms before these cancel."""

    Mx: Array
    rows: Array  # Σ_j |M_ij x_j|
    Mty: Array
    columns: Array  # Σ_i |M_ij y_i|


class RowSums(NamedTuple):
    """What `certify` needs of the rows; r and q are the points of dom φ* and dom φ nearest to Mx − b and y."""

    feasibility: Number  # ‖y − prox_φ(y + Mx − b)‖₂
    complementarity: Number  # the worst row of Mx − b ∈ ∂φ(y), relative to its own size
    errors: Number  # the root mean square of all rows, each relative to its own size
    outside: Number  # the worst of |Mx − b − r|_i/R_i and |y − q|_i/Y_i
    primal: Number  # ‖Mx − b − r‖∞
    dual: Number  # ‖y − q‖∞
    conjugate: Number  # φ*(r)
    value: Number  # φ(q)
    product: Number  # bᵀq
    sizes: Number  # Σ|b_i q_i|


class ColumnSums(NamedTuple):
    """What `certify` needs of the columns; z are the multipliers that `multipliers_of_bounds` gives."""

    norm: Number  # ‖∇f + Mᵀy + z‖₂
    greatest: Number  # ‖∇f + Mᵀy + z‖∞
    stationarity: Number  # the greatest |∇f + Mᵀy + z|_j relative to its own size
    natural: Number  # ‖min(|z|, distance of x from the bound of z)‖₂
    complementarity: Number  # the greatest of the same, each relative to its own size
    errors: Number  # the root mean square of both over all columns, each relative to its own size
    primal: Number  # how far x is outside its bounds, ∞-norm
    outside: Number  # the same relative to its own size
    product: Number  # xᵀ∇f + Σ_j sup{z_j x_j : lower_j ≤ x_j ≤ upper_j}
    sizes: Number  # the sizes of the terms of that


class BalancedStep(NamedTuple):
    """The prox steps at which an error of y and one of Mx − b count alike."""

    rows: Array  # R_i
    duals: Array  # Y_i
    steps: Any  # Y_i/R_i, or one number if the prox takes no more


class Vectors(NamedTuple):
    """What becomes numbers."""

    lengths: list[Array]  # vectors whose norms count
    products: list[tuple[Array, Array]]  # inner products
    greatest: list[Array]  # vectors without negative entries, of which the greatest counts
    terms: tuple[Any, ...] = ()  # vectors to be summed, or their sums


class ByNumPy:
    """How a certificate computes with arrays of NumPy, where a device computes in another way."""

    prox: Callable[..., Array] = staticmethod(ask.prox)
    pieces: Callable[[int], Iterable[slice]] = staticmethod(pieces)
    most: Callable[..., Number] = staticmethod(max)
    least: Callable[..., Number] = staticmethod(min)
    length: Callable[..., Number] = staticmethod(math.hypot)
    root: Callable[[Number], Number] = staticmethod(math.sqrt)

    def known(self, v: Number) -> Number:
        """The number; nan if it is not finite."""
        return float(v) if math.isfinite(v) else math.nan

    def values(self, phi: Phi, z: Array, y: Array) -> tuple[Any, ...]:
        """φ* and φ of points where they are finite, or terms of both."""
        return phi.conjugate(z), phi.value(y)

    def numbers(self, parts: Iterable[Vectors]) -> tuple[list[Number], list[Number], list[Number]]:
        """Norms, sums and greatest entries of vectors that come in pieces."""
        found = [
            (
                [norm(v) for v in part.lengths],
                [*(float(v @ w) for v, w in part.products), *map(float, part.terms)],
                [float(v.max(initial=0.0)) for v in part.greatest],
            )
            for part in parts
        ]
        if len(found) == 1:
            return found[0]
        lengths, sums, greatest = (np.array(numbers) for numbers in zip(*found, strict=True))
        return [norm(v) for v in lengths.T], sums.sum(axis=0).tolist(), greatest.max(axis=0).tolist()


NUMPY = ByNumPy()


def products_of(problem: Problem, x: Array, y: Array) -> Products:
    """The products at a point, each of the matrices that are stored read once if the core is there."""
    bands = problem.M.bands()
    if len(bands) == 1:
        return _products_of_band(bands[0][0], x, y)
    found = [_products_of_band(part, x, y[at]) for part, at in bands]
    above, sizes, pulls, pull_sizes = zip(*found, strict=True)
    totals = sum(pulls[1:], pulls[0]), sum(pull_sizes[1:], pull_sizes[0])
    return Products(np.concatenate(above), np.concatenate(sizes), *totals)


def _products_of_band(M: Operator, x: Array, y: Array) -> Products:
    record = record_of(M)
    core = load() if record is not None else None
    if core is not None:
        Mx, rows, Mty, columns = np.empty(M.shape[0]), np.empty(M.shape[0]), np.empty(M.shape[1]), np.empty(M.shape[1])
        core.products_of_certificate(record, [*map(_as_float64, (x, y))], [Mx, rows, Mty, columns])
        return Products(Mx, rows, Mty, columns)
    return plain_products(M, x, y)


def plain_products(M: Any, x: Array, y: Array) -> Products:
    """The same for any M.

    If entries are not known, only what is left after terms have cancelled is, which is no more.
    """
    Mx, Mty = M.forward(x), M.adjoint(y)
    rows, columns = M.row_sizes(x), M.column_sizes(y)
    return Products(Mx, abs(Mx) if rows is None else rows, Mty, abs(Mty) if columns is None else columns)


def balanced_step(problem: Measurable, y: Array, at: Products) -> BalancedStep:
    """The sizes of the rows, as in `certify`."""
    phi, sizes = problem.phi, problem.sizes
    rows = phi.pooled(sizes.rows + at.rows)
    duals = phi.pooled(sizes.duals + abs(y))
    return BalancedStep(rows, duals, phi.steps(duals, rows))


def measure_rows(problem: Problem, y: Array, at: Products) -> RowSums:
    """The sums at a point, in float64."""
    core = load()
    if core is not None and problem.row_table is not None:
        vectors = at.Mx, problem.b, y, problem.sizes.rows, problem.sizes.duals, at.rows
        found = core.rows_of_certificate(tuple(problem.row_table), [*map(_as_float64, vectors)])
        if all(map(math.isfinite, found)):  # else NumPy knows better what has overflowed
            squares, worst_row, errors, *others = found
            return RowSums(math.sqrt(squares), worst_row, math.sqrt(errors / max(1, y.size)), *others)
    return plain_rows(problem, y, at)


def plain_rows(problem: Measurable, y: Array, at: Products, by: ByNumPy = NUMPY) -> RowSums:
    """The same for any φ."""
    phi, residual, xp = problem.phi, at.Mx - problem.b, namespace(y)
    rows, duals, steps = balanced_step(problem, y, at)
    away = abs(y - by.prox(phi, y + steps * residual, steps)) + EPSILON * abs(y)
    near, image = phi.project(y), phi.project_conjugate(residual)
    beyond, off = abs(residual - image), abs(y - near)
    errors = relative(phi.pooled(away), xp.minimum(duals, steps * rows))
    outside = xp.maximum(relative(phi.pooled(beyond), rows), relative(phi.pooled(off), duals))
    vectors = Vectors(
        lengths=[y - by.prox(phi, y + residual, 1.0)],
        products=[(errors, errors), (problem.b, near), (abs(problem.b), abs(near))],
        greatest=[errors, outside, beyond, off],
        terms=by.values(phi, image, near),
    )
    (feasibility,), (squares, product, sizes, conjugate, value), greatest = by.numbers([vectors])
    error, out, primal, dual = greatest
    mean = by.root(squares / max(1, y.size))
    return RowSums(feasibility, error, mean, out, primal, dual, conjugate, value, product, sizes)


def measure_columns(problem: Problem, x: Array, grad: Array, at: Products) -> ColumnSums:
    """The sums at a point, in float64."""
    core = load()
    if core is not None:
        sizes, limits = problem.sizes, problem.limits
        bounds = [] if limits is None else [*limits[:2], limits.primal]
        vectors = x, grad, at.Mty, at.columns, sizes.columns, sizes.slopes, *bounds
        found = core.columns_of_certificate([*map(_as_float64, vectors)])
        if all(map(math.isfinite, found)):
            squares, peak, error, natural, part, errors, *others = found
            mean = math.sqrt(errors / max(1, x.size))
            return ColumnSums(math.sqrt(squares), peak, error, math.sqrt(natural), part, mean, *others)
    return plain_columns(problem, x, grad, at)


def plain_columns(problem: Measurable, x: Array, grad: Array, at: Products, by: ByNumPy = NUMPY) -> ColumnSums:
    """The same by the formulas."""
    vectors = (_column_vectors(problem, x, grad, at, piece) for piece in by.pieces(x.size))
    (length, natural), (squares, product, of_bounds, sizes, sizes_of_bounds), greatest = by.numbers(vectors)
    most, error, part, primal, out = greatest
    mean, product, sizes = by.root(squares / max(1, x.size)), product + of_bounds, sizes + sizes_of_bounds
    return ColumnSums(length, most, error, natural, part, mean, primal, out, product, sizes)


def _column_vectors(problem: Measurable, x: Array, grad: Array, at: Products, piece: slice) -> Vectors:
    sizes, limits, xp = problem.sizes, problem.limits, namespace(x)
    x, grad, slopes = x[piece], grad[piece], grad[piece] + at.Mty[piece]
    size = sizes.columns[piece] + abs(grad) + at.columns[piece] + 0 * x  # not finite if x is not
    z = end = natural = complementarity = beyond = outside = xp.zeros_like(x)
    if limits is not None:
        lower, upper, unit = limits.lower[piece], limits.upper[piece], limits.primal[piece]
        z, end = multipliers_of_bounds(x, slopes, lower, upper)
        away, near = abs(x - end) * (z != 0), xp.clip(x, lower, upper)
        natural, beyond = xp.minimum(abs(z), away), abs(x - near)
        complementarity = relative(xp.minimum(abs(z) / size, away / (unit + abs(x) + abs(end))), xp.ones_like(x))
        outside = relative(beyond, unit + abs(x) + abs(near))
    left = xp.where(z != 0, 0.0, slopes)
    error = relative(abs(left), size)
    errors, terms = error + complementarity, abs(grad) + sizes.slopes[piece]  # one of the first two is zero
    return Vectors(
        lengths=[left, natural],
        products=[(errors, errors), (x, grad), (z, end), (abs(x), terms), (abs(z), abs(end))],
        greatest=[abs(left), error, complementarity, beyond, outside],
    )
