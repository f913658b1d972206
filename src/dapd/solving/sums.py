"""The sums of a certificate over rows and columns: by the native core in one pass each, or by NumPy if it cannot."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from dapd.arrays import EPSILON, Array
from dapd.engines.native import load
from dapd.model import ask
from dapd.model.problem import Problem
from dapd.solving.measure import greatest, norm, pieces, worst

Number = Any  # a float, or an array of JAX without axes


class RowSums(NamedTuple):
    """What `certify` needs of the rows; r and q are the points of dom φ* and dom φ nearest to Mx − b and y."""

    feasibility: Number  # ‖y − prox_φ(y + Mx − b)‖₂
    error: Number  # the worst row of Mx − b ∈ ∂φ(y), relative to its own size
    primal: Number  # ‖Mx − b − r‖∞
    dual: Number  # ‖y − q‖∞
    conjugate: Number  # φ*(r)
    value: Number  # φ(q)
    product: Number  # bᵀq
    sizes: Number  # Σ|b_i q_i|


class ColumnSums(NamedTuple):
    """What `certify` needs of the columns."""

    norm: Number  # ‖∇f + Mᵀy‖₂
    greatest: Number  # ‖∇f + Mᵀy‖∞
    worst: Number  # the greatest |∇f + Mᵀy|_j relative to its own size
    product: Number  # xᵀ∇f
    sizes: Number  # Σ|x_j ∇f_j|


class BalancedStep(NamedTuple):
    """The prox steps at which an error of y and one of Mx − b count alike."""

    rows: Array  # R_i
    duals: Array  # Y_i
    steps: Any  # Y_i/R_i, or one number if the prox takes no more


def balanced_step(problem: Problem, x: Array, y: Array, Mx: Array) -> BalancedStep:
    """The sizes of the rows, as in `certify`."""
    phi, sizes = problem.phi, problem.sizes
    rows = phi.pooled(sizes.rows + _entries(problem, x, Mx))
    duals = phi.pooled(sizes.duals + abs(y))
    return BalancedStep(rows, duals, phi.steps(duals, rows))


def _entries(problem: Problem, x: Array, Mx: Array) -> Array:
    """Σ_j |M_ij x_j|, or |Mx| if that is not known."""
    known = problem.M.row_sizes(x)
    return abs(Mx) if known is None else known


def measure_rows(problem: Problem, x: Array, y: Array, Mx: Array) -> RowSums:
    """The sums at a point, in float64."""
    core = load()
    if core is not None and problem.row_table is not None:
        vectors = Mx, problem.b, y, problem.sizes.rows, problem.sizes.duals, _entries(problem, x, Mx)
        found = core.rows_of_certificate(tuple(problem.row_table), _contiguous(*vectors))
        if all(map(math.isfinite, found)):  # else NumPy knows better what has overflowed
            return RowSums(math.sqrt(found[0]), *found[1:])
    return plain_rows(problem, x, y, Mx)


def plain_rows(problem: Problem, x: Array, y: Array, Mx: Array) -> RowSums:
    """The same by NumPy, for any φ."""
    phi, residual = problem.phi, Mx - problem.b
    balance = balanced_step(problem, x, y, Mx)
    fixed = ask.prox(phi, y + residual, 1.0)
    away = abs(y - ask.prox(phi, y + balance.steps * residual, balance.steps)) + EPSILON * abs(y)
    near, image = phi.project(y), phi.project_conjugate(residual)
    return RowSums(
        feasibility=norm(y - fixed),
        error=worst(away, np.minimum(balance.duals, balance.steps * balance.rows)),
        primal=greatest(residual - image),
        dual=greatest(y - near),
        conjugate=float(phi.conjugate(image)),
        value=float(phi.value(near)),
        product=float(problem.b @ near),
        sizes=float(abs(problem.b) @ abs(near)),
    )


def measure_columns(problem: Problem, x: Array, grad: Array, Mty: Array) -> ColumnSums:
    """The sums at a point, in float64."""
    core = load()
    if core is not None:
        found = core.columns_of_certificate(_contiguous(x, grad, Mty, problem.sizes.columns))
        if all(map(math.isfinite, found)):
            return ColumnSums(math.sqrt(found[0]), *found[1:])
    return plain_columns(problem, x, grad, Mty)


def plain_columns(problem: Problem, x: Array, grad: Array, Mty: Array) -> ColumnSums:
    """The same by NumPy."""
    found = []
    for piece in pieces(x.size):
        v, w = grad[piece], Mty[piece]
        slopes = v + w
        relative = worst(abs(slopes), problem.sizes.columns[piece] + abs(v) + abs(w))
        found.append((norm(slopes), greatest(slopes), relative, float(abs(x[piece]) @ abs(v))))
    norms, peaks, worsts, sizes = (np.array(column) for column in zip(*found, strict=True))
    return ColumnSums(norm(norms), greatest(peaks), float(worsts.max()), float(x @ grad), float(sizes.sum()))


def _contiguous(*vectors: Array) -> list[Array]:
    return [np.ascontiguousarray(vector, np.float64) for vector in vectors]
