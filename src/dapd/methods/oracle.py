"""The operations that a `step` may use, evaluated by NumPy and counted: the reference for every engine."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dapd.arguments import TimeUp
from dapd.arrays import Array, in_dtype
from dapd.machine.clock import is_over
from dapd.problem import ask
from dapd.problem.problem import Problem


def repeated(o: Any, count: Any, body: Callable[[Any], Any], carry: Any) -> Any:
    """`body` applied `count` times to `carry`: a loop of the oracle's own if it has one, as compilers need."""
    loop = getattr(type(o), "repeat", None)
    if loop is not None:
        return loop(o, count, body, carry)
    for _ in range(count):
        carry = body(carry)
    return carry


class Oracle:
    """Gradients and dual steps in the precision of the problem."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.b = problem.b.astype(problem.dtype, copy=False)
        self.gradients = 0
        self.products = 0  # with M and with Mᵀ, each counted
        self.block_products = 0  # none here
        self.deadline = math.inf  # a value of time.perf_counter(); dual steps after it raise TimeUp

    def reset(self) -> None:
        """Set the counts to zero."""
        self.gradients = self.products = 0

    def grad(self, x: Array) -> Array:
        """∇f(x)."""
        self.gradients += 1
        return in_dtype(ask.gradient(self.problem.f, x), x.shape, "f.grad", self.problem.dtype)

    def dual_step(self, v: Array, base: Array, step: float) -> tuple[Array, Array]:
        """prox_{step·φ}(base + Mv) and Mᵀ of it."""
        if is_over(self.deadline):
            raise TimeUp
        self.products += 2
        problem = self.problem
        y = ask.prox(problem.phi, base + problem.M.forward(v), step)
        y = in_dtype(y, base.shape, "phi.prox", problem.dtype)
        return y, in_dtype(problem.M.adjoint(y), (problem.columns,), "M's adjoint", problem.dtype)

    def adjoint(self, y: Array) -> Array:
        """Mᵀy, only for the first state; if y is zero, it makes no product."""
        problem = self.problem
        if not y.any():
            return np.zeros(problem.columns, problem.dtype)
        self.products += 1
        return in_dtype(problem.M.adjoint(y), (problem.columns,), "M's adjoint", problem.dtype)
