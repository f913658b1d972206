"""The distances from a solution, of which the Lyapunov functions are made."""

from __future__ import annotations

from typing import Any

from dapd.arrays import Array


class SaddlePoint:
    """The distances from a solution (x*, y*) of a problem that make up the Lyapunov functions."""

    def __init__(self, problem: Any, x: Array, y: Array) -> None:
        self.problem, self.x, self.y = problem, x, y
        self._value, self._grad = problem.f.value(x), problem.f.grad(x)
        self._slope = problem.M.forward(x) - problem.b  # g* ∈ ∂φ(y*)

    def bregman_f(self, x: Array) -> Any:
        """D_f(x, x*)."""
        return self.problem.f.value(x) - self._value - self._grad @ (x - self.x)

    def bregman_phi(self, y: Array) -> Any:
        """D_φ(y, y*)."""
        phi = self.problem.phi
        return phi.value(y) - phi.value(self.y) - self._slope @ (y - self.y)

    def primal(self, x: Array) -> Any:
        """‖x − x*‖²."""
        d = x - self.x
        return d @ d

    def coupled(self, y: Array) -> Any:
        """‖Mᵀ(y − y*)‖²."""
        d = self.problem.M.adjoint(y - self.y)
        return d @ d

    def dual(self, y: Array, c: Any) -> Any:
        """‖y − y*‖² in the norm of I − cMMᵀ."""
        d = y - self.y
        return d @ d - c * self.coupled(y)
