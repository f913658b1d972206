"""Optimality, measured in float64 at the point that is returned, independently of the method."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.blas import dnrm2

from dapd.arrays import Array
from dapd.model import ask
from dapd.model.problem import Problem

PIECE = 1 << 16  # coordinates at a time
EPSILON = float(np.finfo(np.float64).eps)
FAR = 1e6  # a point this many times farther out than x is no answer: no x nearer is feasible
SLIGHT = 1e-9  # part of a row's size, or of the longest row's, that counts as rounding
CANCELLED = 1e3  # roundings within which a sum of terms counts as zero


class Certificate(NamedTuple):
    """How far (x, y) is from optimal."""

    stationarity: float  # ‖∇f(x) + Mᵀy‖₂
    feasibility: float  # ‖y − prox_φ(y + Mx − b)‖₂
    gap: float  # bound on the distance between primal and dual objective, see `certify`
    stationarity_error: float  # the worst coordinate of ∇f(x) + Mᵀy, relative to its own size
    feasibility_error: float  # the worst row of Mx − b ∈ ∂φ(y), relative to its own size

    @property
    def error(self) -> float:
        """The greater of the two relative errors, which `tol` bounds; inf if anything in it is not finite."""
        return max(self.stationarity_error, self.feasibility_error)


def certify(problem: Problem, x: Array, y: Array) -> Certificate:
    """Measure (x, y).

    Each coordinate and each row is judged by itself. With the sizes

        S_j = |∇f_j(0)| + |∇f_j(x)| + |(Mᵀy)_j| + μ,    R_i = |b_i| + Σ_j|M_ij x_j| + ‖M_i‖₂,    Y_i = |y_i| + μ/‖M_i‖₂

    and p_i = prox_{s_iφ}(y + s(Mx − b))_i at the steps s_i = Y_i/R_i, `stationarity_error` is the greatest
    |∇f(x) + Mᵀy|_j / S_j and `feasibility_error` the greatest |y_i − p_i| / Y_i. An `error` of at most tol means that
    Mx − b, moved by at most tol·R_i, lies in ∂φ(p), that p_i is within tol·Y_i of y_i, and that ∇f(x) + Mᵀy is within
    tol·S_j of 0. The error stays the same if a row of M and b, or all data, is multiplied by a constant. The rows of a
    group of a GroupBall are measured together. A φ of the user's own takes one step s for all rows, so its rows are
    held to both |y_i − p_i| ≤ tol·Y_i and |y_i − p_i| ≤ tol·s·R_i.

    With y⁺ = prox_φ(y + Mx − b), the point r⁺ = Mx − b + y − y⁺ lies in ∂φ(y⁺), so f(x) + φ*(r⁺) is finite: the primal
    objective with the residual moved by `feasibility`. The dual objective at y⁺ is within ‖∇f(x) + Mᵀy⁺‖²/(2μ) of its
    Lagrangian value, and the two differ by y⁺ᵀ(y − y⁺); `gap` is the sum of both, in absolute value.
    """
    x, y = x.astype(np.float64, copy=False), y.astype(np.float64, copy=False)
    grad = np.asarray(ask.gradient(problem.f, x), np.float64)
    Mx = problem.M.forward(x)
    residual = Mx - problem.b
    fixed = ask.prox(problem.phi, y + residual, 1.0)
    balance = balanced_step(problem, x, y, Mx)
    away = abs(y - ask.prox(problem.phi, y + balance.steps * residual, balance.steps)) + EPSILON * abs(y)
    slope = _norm_of_sum(grad, problem.M.adjoint(fixed))
    Mty = problem.M.adjoint(y)
    return Certificate(
        stationarity=_norm_of_sum(grad, Mty),
        feasibility=_norm(y - fixed),
        gap=abs(float(fixed @ (y - fixed))) + (slope * slope / (2 * problem.f.mu) if problem.f.mu else math.inf),
        stationarity_error=_worst_coordinate(grad, Mty, problem.sizes.columns),
        feasibility_error=_worst(away, np.minimum(balance.duals, balance.steps * balance.rows)),
    )


class BalancedStep(NamedTuple):
    """The prox steps at which an error of y and one of Mx − b count alike."""

    rows: Array  # R_i
    duals: Array  # Y_i
    steps: Any  # Y_i/R_i, or one number if the prox takes no more


def balanced_step(problem: Problem, x: Array, y: Array, Mx: Array) -> BalancedStep:
    """The sizes of the rows, as in `certify`."""
    phi, sizes, entries = problem.phi, problem.sizes, problem.M.row_sizes(x)
    rows = phi.pooled(sizes.rows + (abs(Mx) if entries is None else entries))
    duals = phi.pooled(sizes.duals + abs(y))
    return BalancedStep(rows, duals, phi.steps(duals, rows))


def blame(problem: Problem, x: Array, y: Array) -> None:
    """Raise an error that names what gives NaN or infinite numbers at (x, y), if there is such a thing."""
    x, y = x.astype(np.float64, copy=False), y.astype(np.float64, copy=False)
    where = f"returned NaN or infinite numbers at the {'start' if x.any() or y.any() else 'start, x = 0 and y = 0'}"
    if not np.isfinite(ask.gradient(problem.f, x)).all():
        raise ValueError(f"f.grad {where}; check f with dapd.testing.check_gradient")
    Mx = problem.M.forward(x)
    if not (np.isfinite(Mx).all() and np.isfinite(problem.M.adjoint(y)).all()):
        raise ValueError(f"a product with M or its transpose {where}; check M with dapd.testing.check_adjoint")
    if not np.isfinite(ask.prox(problem.phi, y + Mx - problem.b, 1.0)).all():
        raise ValueError(f"phi.prox {where}; check φ with dapd.testing.check_prox")


def objective(problem: Problem, x: Array, y: Array, satisfied: bool) -> float:
    """f(x) + φ*(Mx − b); if the residual counts as `satisfied`, at the nearest point at which φ* is finite."""
    x, y = x.astype(np.float64, copy=False), y.astype(np.float64, copy=False)
    Mx = problem.M.forward(x)
    residual = Mx - problem.b
    rest = float(problem.phi.conjugate(residual))
    if satisfied and not math.isfinite(rest):
        steps = balanced_step(problem, x, y, Mx).steps
        rest = problem.phi.conjugate_near(y + steps * residual, steps)
    return ask.value(problem.f, x) + rest


def proves_infeasible(problem: Problem, x: Array, direction: Array) -> bool:
    """Whether a direction d in which y runs away shows that no x satisfies the constraints.

    For every feasible x, −bᵀd − φ∞(d) ≤ −(Mᵀd)ᵀx (Farkas). So Mᵀd must cancel to rounding in each coordinate, what is
    left of it must be nothing within FAR times x, and the left side must be more than rounding of its terms.
    """
    d = direction.astype(np.float64)
    weights = abs(d) * problem.M.row_norms
    longest = float(np.max(weights, initial=0.0))
    if not (0.0 < longest < math.inf):
        d = np.where(problem.M.row_norms > 0, 0.0, d)  # rows of zeros are proof by themselves
    else:
        d = np.where((weights < SLIGHT * longest) & (problem.M.row_norms > 0), 0.0, d / longest)
    violation = -float(problem.b @ d) - problem.phi.recession(d)
    if not violation > 0:
        return False
    Mx = problem.M.forward(x.astype(np.float64, copy=False))
    if not violation > SLIGHT * float(abs(d) @ balanced_step(problem, x, d, Mx).rows):
        return False
    image, entries = problem.M.adjoint(d), problem.M.column_sizes(d)
    terms = np.broadcast_to(np.linalg.norm(d * problem.M.row_norms) if entries is None else entries, image.shape)
    rounding = CANCELLED * float(np.finfo(problem.dtype).eps)
    left = 0.0
    for piece in _pieces(image.size):
        if not np.all(abs(image[piece]) <= rounding * terms[piece]):
            return False
        left += float(abs(image[piece]) @ (1 + abs(x[piece])))
    return violation > FAR * left


def _worst_coordinate(grad: Array, Mty: Array, sizes: Array) -> float:
    """The greatest |grad + Mty|_j relative to sizes_j + |grad_j| + |Mty_j|."""
    triples = ((grad[piece], Mty[piece], sizes[piece]) for piece in _pieces(grad.size))
    return max((_worst(abs(g + h), size + abs(g) + abs(h)) for g, h, size in triples), default=0.0)


def _norm_of_sum(v: Array, w: Array) -> float:
    """‖v + w‖₂."""
    return _norm(np.array([_norm(v[piece] + w[piece]) for piece in _pieces(v.size)]))


def _pieces(size: int) -> Iterator[slice]:
    """Parts of a vector, since x may be long: what is computed of a part takes no memory to speak of."""
    return (slice(start, start + PIECE) for start in range(0, size, PIECE))


def _worst(errors: Array, sizes: Array) -> float:
    """The greatest error relative to its size; inf if one of them is not finite."""
    relative = errors / sizes
    finite = math.isfinite(float(relative @ sizes))  # not so if either has an entry that is not
    return (float(relative.max()) if relative.size else 0.0) if finite else math.inf


def _norm(v: Array) -> float:
    """‖v‖₂, whose squares neither overflow nor underflow."""
    return float(dnrm2(v)) if v.size else 0.0
