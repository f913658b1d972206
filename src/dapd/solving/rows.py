"""The rows' part of a certificate: by the native core in one pass if φ is a sum over rows, else by NumPy."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from dapd.arrays import EPSILON, Array
from dapd.engines.native import load
from dapd.model import ask
from dapd.model.problem import Problem
from dapd.solving.measure import greatest, norm, worst


class RowSums(NamedTuple):
    """What `certify` needs of the rows; r and q are the points of dom φ* and dom φ nearest to Mx − b and y."""

    feasibility: float  # ‖y − prox_φ(y + Mx − b)‖₂
    error: float  # the worst row of Mx − b ∈ ∂φ(y), relative to its own size
    primal: float  # ‖Mx − b − r‖∞
    dual: float  # ‖y − q‖∞
    conjugate: float  # φ*(r)
    value: float  # φ(q)
    product: float  # bᵀq
    sizes: float  # Σ|b_i q_i|


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
        found = core.rows_of_certificate(
            tuple(problem.row_table), [np.ascontiguousarray(vector, np.float64) for vector in vectors]
        )
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
