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
from dapd.implicit.records import FunctionRecord, ParameterRecord
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

    fixed = ("fun", "mu", "L")
    fun: Callable[[Any, Any], Any]
    theta: Any = None
    mu: float = 0.0
    L: float | None = None

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


def _register(kind: Any) -> None:
    """Let JAX look for arrays in the fields of a record.

    Not by `register_dataclass`: in JAX 0.10 the trees of two dataclasses with as many fields count as equal.
    """
    arrays = [one.name for one in fields(kind) if one.name not in kind.fixed]

    def flatten(record: Any) -> tuple[list[Any], tuple[Any, ...]]:
        return [getattr(record, name) for name in arrays], tuple(getattr(record, name) for name in kind.fixed)

    def unflatten(fixed: tuple[Any, ...], values: Any) -> Any:
        return kind(**dict(zip(arrays, values, strict=True)), **dict(zip(kind.fixed, fixed, strict=True)))

    jax.tree_util.register_pytree_node(kind, flatten, unflatten)


for _kind in (Smooth, *vars(records).values()):
    if isinstance(_kind, type) and issubclass(_kind, ParameterRecord):
        _register(_kind)
