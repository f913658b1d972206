"""The oracle that NumPy arrays meet: gradients and dual steps, counted."""

from __future__ import annotations

import numpy as np

from dapd.arrays import Array
from dapd.problem import Problem


class Oracle:
    """What a method's `step` may ask of a problem, in the problem's precision."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.b = problem.b.astype(problem.dtype)
        self.gradients = 0
        self.products = 0  # with M and with Mᵀ, each counted
        self.block_products = 0  # never any here

    def reset(self) -> None:
        """Count anew."""
        self.gradients = self.products = 0

    def grad(self, x: Array) -> Array:
        """∇f(x)."""
        self.gradients += 1
        return self._own(self.problem.f.grad(x))

    def dual_step(self, v: Array, base: Array, step: float) -> tuple[Array, Array]:
        """prox_{step·φ}(base + Mv) and Mᵀ of it."""
        self.products += 2
        y, Mty = self.problem.M.dual_step(v, base, self.problem.phi, step)
        return self._own(y), self._own(Mty)

    def adjoint(self, y: Array) -> Array:
        """Mᵀy, for the first state alone; zero costs nothing."""
        if not y.any():
            return np.zeros(self.problem.columns, self.problem.dtype)
        self.products += 1
        return self._own(self.problem.M.adjoint(y))

    def _own(self, array: Array) -> Array:
        """In the problem's dtype: a float64 f must not turn float32 iterates into float64."""
        return array if array.dtype == self.problem.dtype else array.astype(self.problem.dtype)
