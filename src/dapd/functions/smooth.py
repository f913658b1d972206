"""Any other convex f, from its value and its gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dapd.arguments import named
from dapd.arrays import Array
from dapd.functions.base import Function


class Smooth(Function):
    """Any other convex f, from `value(x)`, `grad(x)` and its constants, if they are known.

    `grad(x)` gets a read-only x and returns a new real array of the same shape; so does `block_grad(x, block)`, the
    entries of ∇f(x) in a slice, which the block-coordinate method for a nonseparable f asks for.
    """

    @named
    def __init__(
        self,
        value: Callable[[Array], float],
        grad: Callable[[Array], Array],
        mu: float = 0.0,
        L: float | None = None,
        *,
        size: int | None = None,
        block_grad: Callable[[Array, slice], Array] | None = None,
    ) -> None:
        for name, call in (("value", value), ("grad", grad), ("block_grad", block_grad or grad)):
            if not callable(call):
                raise TypeError(f"{name} must be callable, found {type(call).__name__}")
        self._value, self._grad, self._block_grad = value, grad, block_grad
        self.size = size
        self._constants(mu, L)

    @classmethod
    @named
    def from_jax(
        cls, fun: Callable[[Any], Any], mu: float = 0.0, L: float | None = None, *, size: int | None = None
    ) -> Smooth:
        """Make f of one function of a JAX array that returns a number; `jax.grad` computes its gradient.

        The jax engine compiles it into its steps, and the python engine calls it, in float64 or in the precision of x.
        """
        return SmoothFromJax(fun, mu, L, size=size)

    def value(self, x: Array) -> float:
        return self._value(x)

    def grad(self, x: Array) -> Array:
        return self._grad(x)

    def block_grad(self, x: Array, block: slice) -> Array:
        if self._block_grad is None:
            raise TypeError("Smooth has no block_grad(x, block); give it one, or use a full method")
        return self._block_grad(x, block)


class SmoothFromJax(Smooth):
    """A function that is written in JAX."""

    def __init__(self, fun: Callable[[Any], Any], mu: float, L: float | None, *, size: int | None) -> None:
        if not callable(fun):
            raise TypeError(f"fun must be callable, found {type(fun).__name__}")
        try:
            import jax
        except ModuleNotFoundError as error:
            if error.name != "jax":
                raise
            raise ImportError("Smooth.from_jax needs JAX, which is not installed; pip install jax") from None
        self.fun, gradient = fun, jax.grad(fun)
        compiled = jax.jit(jax.value_and_grad(fun))

        def evaluated(x: Array) -> Any:
            with jax.enable_x64(True):
                return compiled(x)

        def grad(x: Array) -> Array:
            return np.asarray(evaluated(x)[1]) if isinstance(x, np.ndarray) else gradient(x)

        super().__init__(lambda x: float(evaluated(x)[0]), grad, mu, L, size=size)
