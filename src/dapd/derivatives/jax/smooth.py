"""f as a JAX function, and how JAX sees the records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

import jax
import numpy as np

from dapd import functions
from dapd.arrays import Array
from dapd.derivatives import records
from dapd.derivatives.hessian import Hessian
from dapd.derivatives.records import FunctionRecord, ParameterRecord
from dapd.engines.jax.pytree import register
from dapd.newton.costs import MEMORY
from dapd.newton.matrices import TooExpensive


@dataclass(frozen=True, eq=False)
class Smooth(FunctionRecord):
    """f(x) = fun(x, theta), a smooth convex function that JAX can differentiate twice.

    Parameters
    ----------
    fun : function of (x, theta)
        In jax.numpy. What you differentiate by has to be in theta, not in variables that the function refers to.
    theta : any tree of arrays
    mu, L : float, optional
        As in `dapd.Smooth`, if they are known.
    """

    fixed = ("fun", "mu", "L")
    fun: Callable[[Any, Any], Any]
    theta: Any = None
    mu: float = 0.0
    L: float | None = None

    def grad(self, x: Array) -> Array:
        return jax.grad(self.fun)(x, self.theta)

    def checked(self) -> functions.Function:
        """In float64, whatever the user's configuration is."""
        value, grad, _, _ = _compiled(self.fun)
        return functions.Smooth(
            lambda x: float(_in_double(value, x, self.theta)),
            lambda x: _in_double(grad, x, self.theta),
            self.mu,
            self.L,
        )

    def hessian(self, x: Array) -> Hessian:
        """∇²f(x)."""
        return _OfFunction(self, x)


class _OfFunction(Hessian):
    """∇²f(x), by JAX."""

    def __init__(self, f: Smooth, x: Array) -> None:
        super().__init__(x)
        self.f = f

    def times(self, d: Array) -> Array:
        """By a derivative of the gradient, without the entries."""
        return _in_double(_compiled(self.f.fun)[2], self.x, self.f.theta, d)

    def entries(self, seconds: float) -> Array:
        if self.x.size**2 > MEMORY:
            raise TooExpensive("the entries of the Hessian")
        return _in_double(_compiled(self.f.fun)[3], self.x, self.f.theta)


@cache
def _compiled(fun: Callable[[Any, Any], Any]) -> tuple[Any, Any, Any, Any]:
    """The function, its gradient, its Hessian's product with a vector, and the Hessian."""

    def times(x: Any, theta: Any, d: Any) -> Any:
        return jax.jvp(lambda x: jax.grad(fun)(x, theta), (x,), (d,))[1]

    return jax.jit(fun), jax.jit(jax.grad(fun)), jax.jit(times), jax.jit(jax.hessian(fun))


def _in_double(call: Callable[..., Any], *given: Any) -> Array:
    with jax.enable_x64(True):
        return np.asarray(call(*given))


def _arrays(record: Any) -> dict[str, Any]:
    return {one.name: getattr(record, one.name) for one in fields(record) if one.name not in record.fixed}


for _kind in (Smooth, *vars(records).values()):
    if isinstance(_kind, type) and issubclass(_kind, ParameterRecord):
        register(_kind, _arrays)
