"""What a method's `step` may ask of a problem, evaluated by NumPy and counted: the reference for every engine."""

from __future__ import annotations

import math
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np

from dapd.arguments import TimeUp
from dapd.arrays import Array
from dapd.model.problem import Problem

DualStep = Callable[[Array, Array, float], tuple[Array, Array]]


class Oracle:
    """Gradients and dual steps in the problem's precision.

    `dual_step` may be given from outside: one pass over M is faster than two products.
    """

    def __init__(self, problem: Problem, dual_step: DualStep | None = None) -> None:
        self.problem, self._dual_step = problem, dual_step or self._two_products
        self.b = problem.b.astype(problem.dtype)
        self.gradients = 0
        self.products = 0  # with M and with Mᵀ, each counted
        self.block_products = 0  # never any here
        self.deadline = math.inf  # on the performance counter: a step that takes long is given up then

    def reset(self) -> None:
        """Count anew."""
        self.gradients = self.products = 0

    def grad(self, x: Array) -> Array:
        """∇f(x)."""
        self.gradients += 1
        return in_dtype(self.problem.f.grad(x), x.shape, "f.grad", self.problem.dtype)

    def dual_step(self, v: Array, base: Array, step: float) -> tuple[Array, Array]:
        """prox_{step·φ}(base + Mv) and Mᵀ of it."""
        if perf_counter() > self.deadline:
            raise TimeUp
        self.products += 2
        return self._dual_step(v, base, step)

    def adjoint(self, y: Array) -> Array:
        """Mᵀy, only for the first state; zero costs nothing."""
        problem = self.problem
        if not y.any():
            return np.zeros(problem.columns, problem.dtype)
        self.products += 1
        return in_dtype(problem.M.adjoint(y), (problem.columns,), "M's adjoint", problem.dtype)

    def _two_products(self, v: Array, base: Array, step: float) -> tuple[Array, Array]:
        problem = self.problem
        y = in_dtype(problem.phi.prox(base + problem.M.forward(v), step), base.shape, "phi.prox", problem.dtype)
        return y, in_dtype(problem.M.adjoint(y), v.shape, "M's adjoint", problem.dtype)


def in_dtype(array: Array, shape: tuple[int, ...], source: str, dtype: np.dtype[Any]) -> Array:
    """Check the shape, and convert to the problem's dtype: a float64 f must not make float32 iterates float64."""
    found = getattr(array, "shape", None)
    if found != shape:
        what = type(array).__name__ if found is None else f"shape {found}"
        raise ValueError(f"{source} returned {what}, expected an array of shape {shape}")
    return array if array.dtype == dtype else array.astype(dtype)
