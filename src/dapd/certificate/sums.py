"""The sums of a certificate over rows and columns: by the native core in one pass each, or by NumPy if it cannot."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from dapd.arrays import EPSILON, Array
from dapd.certificate.norms import greatest, norm, pieces, worst
from dapd.machine.core import load
from dapd.operators.base import Operator
from dapd.operators.explicit import record_of
from dapd.problem import ask
from dapd.problem.problem import Problem
from dapd.problem.sizes import multipliers_of_bounds

Number = Any  # a float, or an array of JAX without axes


_as_float64 = partial(np.ascontiguousarray, dtype=np.float64)  # no call of Python for each vector


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


def products_of(problem: Problem, x: Array, y: Array) -> Products:
    """The products at a point, each of the matrices that are stored read once if the core is there."""
    bands = problem.M.bands()
    if len(bands) == 1:
        return _products_of_band(bands[0][0], x, y)
    found = [_products_of_band(part, x, y[at]) for part, at in bands]
    above, sizes, pulls, pull_sizes = zip(*found, strict=True)
    ends = np.concatenate(above), np.concatenate(sizes), sum(pulls[1:], pulls[0]), sum(pull_sizes[1:], pull_sizes[0])
    return Products(*ends)


def _products_of_band(M: Operator, x: Array, y: Array) -> Products:
    record = record_of(M)
    core = load() if record is not None else None
    if core is not None:
        Mx, rows, Mty, columns = np.empty(M.shape[0]), np.empty(M.shape[0]), np.empty(M.shape[1]), np.empty(M.shape[1])
        core.products_of_certificate(record, [*map(_as_float64, (x, y))], [Mx, rows, Mty, columns])
        return Products(Mx, rows, Mty, columns)
    return plain_products(M, x, y)


def plain_products(M: Operator, x: Array, y: Array) -> Products:
    """The same by NumPy, for any M.

    If entries are not known, only what is left after terms have cancelled is, which is no more.
    """
    Mx, Mty = M.forward(x), M.adjoint(y)
    rows, columns = M.row_sizes(x), M.column_sizes(y)
    return Products(Mx, abs(Mx) if rows is None else rows, Mty, abs(Mty) if columns is None else columns)


def balanced_step(problem: Problem, y: Array, at: Products) -> BalancedStep:
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


def plain_rows(problem: Problem, y: Array, at: Products) -> RowSums:
    """The same by NumPy, for any φ."""
    phi, residual = problem.phi, at.Mx - problem.b
    balance = balanced_step(problem, y, at)
    fixed = ask.prox(phi, y + residual, 1.0)
    away = abs(y - ask.prox(phi, y + balance.steps * residual, balance.steps)) + EPSILON * abs(y)
    near, image = phi.project(y), phi.project_conjugate(residual)
    errors = phi.pooled(away), np.minimum(balance.duals, balance.steps * balance.rows)
    beyond = worst(phi.pooled(abs(residual - image)), balance.rows), worst(phi.pooled(abs(y - near)), balance.duals)
    return RowSums(
        feasibility=norm(y - fixed),
        complementarity=worst(*errors),
        errors=math.sqrt(_squares(*errors) / max(1, y.size)),
        outside=max(beyond),
        primal=greatest(residual - image),
        dual=greatest(y - near),
        conjugate=float(phi.conjugate(image)),
        value=float(phi.value(near)),
        product=float(problem.b @ near),
        sizes=float(abs(problem.b) @ abs(near)),
    )


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


def plain_columns(problem: Problem, x: Array, grad: Array, at: Products) -> ColumnSums:
    """The same by NumPy."""
    found = [_some_columns(problem, x, grad, at, piece) for piece in pieces(x.size)]
    sums = ColumnSums(*(np.array(column) for column in zip(*found, strict=True)))
    most = {name: float(getattr(sums, name).max()) for name in ("stationarity", "complementarity", "primal", "outside")}
    return sums._replace(
        norm=norm(sums.norm),
        greatest=greatest(sums.greatest),
        natural=norm(sums.natural),
        errors=math.sqrt(float(sums.errors.sum()) / max(1, x.size)),
        product=float(sums.product.sum()),
        sizes=float(sums.sizes.sum()),
        **most,
    )


def _some_columns(problem: Problem, x: Array, grad: Array, at: Products, piece: slice) -> ColumnSums:
    sizes, limits = problem.sizes, problem.limits
    x, grad, slopes = x[piece], grad[piece], grad[piece] + at.Mty[piece]
    size = sizes.columns[piece] + abs(grad) + at.columns[piece]
    product, terms = float(x @ grad), float(abs(x) @ (abs(grad) + sizes.slopes[piece]))
    natural = complementarity = primal = outside = errors = 0.0
    left = slopes
    if limits is not None:
        lower, upper, unit = limits.lower[piece], limits.upper[piece], limits.primal[piece]
        z, end = multipliers_of_bounds(x, slopes, lower, upper)
        left = np.where(z != 0, 0.0, slopes)
        lengths = unit + abs(x) + abs(end)
        away = abs(x - end) * (z != 0)
        natural = norm(np.minimum(abs(z), away))
        parts = np.minimum(abs(z) / size, away / lengths), np.ones(x.size)
        complementarity, errors = worst(*parts), _squares(*parts)
        beyond = np.maximum(np.maximum(lower - x, x - upper), 0.0)
        near = np.clip(x, lower, upper)
        primal, outside = greatest(beyond), worst(beyond, unit + abs(x) + abs(near))
        product += float(z @ end)
        terms += float(abs(z) @ abs(end))
    errors += _squares(left, size)
    return ColumnSums(
        norm(left),
        greatest(left),
        worst(abs(left), size),
        natural,
        complementarity,
        errors,
        primal,
        outside,
        product,
        terms,
    )


def _squares(errors: Array, sizes: Array) -> float:
    relative = errors / sizes
    return float(relative @ relative)
