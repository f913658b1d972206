"""f as a JAX function, and how JAX sees the records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

import jax
import numpy as np

from dapd.arrays import Array
from dapd.implicit import records
from dapd.implicit.records import FunctionRecord, is_fixed
from dapd.model import smooth


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

    fun: Callable[[Any, Any], Any] = records.fixed()
    theta: Any = None
    mu: float = records.fixed(0.0)
    L: float | None = records.fixed()

    def gradient(self, xp: Any, x: Array) -> Array:
        """By JAX."""
        return jax.grad(self.fun)(x, self.theta)

    def model(self) -> smooth.Function:
        """In float64, whatever the user's configuration is."""
        value, grad, _ = _compiled(self.fun)

        def ask(call: Any, x: Array) -> Any:
            with jax.enable_x64(True):
                return np.asarray(call(x, self.theta))

        return smooth.Smooth(lambda x: float(ask(value, x)), lambda x: ask(grad, x), self.mu, self.L)

    def hessian(self, x: Array) -> Array:
        """∇²f(x) with all its entries."""
        with jax.enable_x64(True):
            return np.asarray(_compiled(self.fun)[2](x, self.theta))


@cache
def _compiled(fun: Callable[[Any, Any], Any]) -> tuple[Any, Any, Any]:
    """The function, its gradient and its Hessian."""
    return jax.jit(fun), jax.jit(jax.grad(fun)), jax.jit(jax.hessian(fun))


for _kind in (Smooth, *(kind for kind in vars(records).values() if isinstance(kind, type) and hasattr(kind, "__dataclass_fields__"))):
    _fields = {one.name: is_fixed(one) for one in fields(_kind)}
    jax.tree_util.register_dataclass(
        _kind,
        data_fields=[name for name, constant in _fields.items() if not constant],
        meta_fields=[name for name, constant in _fields.items() if constant],
    )
