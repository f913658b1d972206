"""The oracle that NumPy arrays meet: gradients and dual steps, counted."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from time import perf_counter
from typing import Any

import numpy as np

from dapd.arrays import Array, in_dtype
from dapd.kernels.team import TimeUp
from dapd.model.problem import Problem


class Oracle:
    """What a method's `step` may ask of a problem, in the problem's precision."""

    def __init__(self, problem: Problem, couple: Callable[[Problem], Any] | None = None) -> None:
        self.problem, self._couple = problem, couple
        self.b = problem.b.astype(problem.dtype)
        self.gradients = 0
        self.products = 0  # with M and with Mᵀ, each counted
        self.deadline = math.inf  # on the performance counter: a step that takes long is given up then
        self.block_products = 0  # never any here

    @cached_property
    def crew(self) -> Any:
        """For one fused pass over M; None: two products. Compiled chunks do without it."""
        return None if self._couple is None else self._couple(self.problem)

    def reset(self) -> None:
        """Count anew."""
        self.gradients = self.products = 0

    def grad(self, x: Array) -> Array:
        """∇f(x)."""
        self.gradients += 1
        return self._own(self.problem.f.grad(x), x, "f.grad")

    def dual_step(self, v: Array, base: Array, step: float) -> tuple[Array, Array]:
        """prox_{step·φ}(base + Mv) and Mᵀ of it."""
        if perf_counter() > self.deadline:
            raise TimeUp
        self.products += 2
        if self.crew is not None:
            dtype = self.problem.dtype
            y, Mty = self.crew.dual_step(v.astype(dtype, copy=False), base.astype(dtype, copy=False), step)
            return y, Mty
        y, Mty = self.problem.M.dual_step(v, base, self.problem.phi, step)
        return self._own(y, base, "phi.prox"), self._own(Mty, v, "M's adjoint")

    def adjoint(self, y: Array) -> Array:
        """Mᵀy, for the first state alone; zero costs nothing."""
        if not y.any():
            return np.zeros(self.problem.columns, self.problem.dtype)
        self.products += 1
        return self._own(self.problem.M.adjoint(y), np.empty(self.problem.columns), "M's adjoint")

    def _own(self, array: Array, like: Array, source: str) -> Array:
        return in_dtype(array, like.shape, source, self.problem.dtype)
