"""How far an approximate step is from the proximal-point step of an epoch."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from dapd.arrays import Array, on_device, on_host
from dapd.methods.proximal import Oracles, Parameters, step_of
from dapd.problem import ask
from dapd.problem.problem import Problem


class Accuracy(NamedTuple):
    """How far a point is from the proximal-point step, in the norm ‖(x, y)‖² = μ̂‖x‖² + δ‖y‖²."""

    y: Array  # the y that belongs to x: it maximises the problem of the epoch
    error: float  # a bound on the distance of (x, y) from the exact step
    length: float  # the distance of (x, y) from the centre
    rounding: float  # below this, the error is that of the arithmetic


def accuracy(problem: Problem, p: Parameters, x: Array, x_k: Array, y_k: Array) -> Accuracy:
    """Measure an approximate step from (x_k, y_k) by what is left of its optimality condition.

    With y = prox_{φ/δ}(y_k + (Mx − b)/δ), the one condition that does not hold exactly is v = ∇f(x) + Mᵀy + μ̂(x − x_k)
    = 0. The operator of the epoch is strongly monotone with constant 1 in the norm above, so the distance is at most
    ‖v‖/√μ̂.
    """
    if on_device(x):
        from dapd.engines.jax.judge import proximal_step_there as step_to  # jax is imported only if it is used
    else:
        step_to, x_k, y_k = _step_here, on_host(x_k), on_host(y_k)
    y, squares = step_to(problem, p.mu, p.delta, x, x_k, y_k)
    left, terms, moved_x, moved_y = map(float, squares)
    unit = 100 * float(np.finfo(problem.dtype).eps) / math.sqrt(p.mu)
    length = math.sqrt(p.mu * moved_x + p.delta * moved_y)
    return Accuracy(y, math.sqrt(left) / math.sqrt(p.mu), length, unit * math.sqrt(terms))


def _step_here(problem: Problem, *step: Any) -> tuple[Array, list[Any]]:
    asked = Oracles(partial(ask.gradient, problem.f), partial(ask.prox, problem.phi), problem.M, problem.b)
    return step_of(asked, *step)
