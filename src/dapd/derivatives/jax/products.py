"""Products of constant linear maps in NumPy, as a linear function that JAX can differentiate, transpose and batch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from dapd.derivatives.jax.host_calls import call_host
from dapd.derivatives.records import PRODUCTS
from dapd.operators.base import Operator

_product = Primitive("dapd_product")


def _call(v: Any, *, operator: Operator) -> Any:
    def products(systems: Sequence[Any]) -> list[Any]:
        return [lambda v: [operator.forward(v.astype(float))]]

    if v.ndim > 1:
        return jax.vmap(partial(_call, operator=operator))(v)
    return call_host(products, operator.shape[:1], v.dtype, (), v)[0]


def _batched(args: Any, axes: Any, *, operator: Operator) -> Any:
    return _product.bind(jnp.moveaxis(args[0], axes[0], 0), operator=operator), 0


def _shape(v: Any, *, operator: Operator) -> Any:
    return jax.core.ShapedArray((*v.shape[:-1], operator.shape[0]), v.dtype)


_product.def_impl(_call)
_product.def_abstract_eval(_shape)
ad.deflinear2(_product, lambda slope, _, *, operator: [_product.bind(slope, operator=operator.transposed())])
batching.primitive_batchers[_product] = _batched
mlir.register_lowering(_product, mlir.lower_fun(_call, multiple_results=False))
PRODUCTS["jax"] = lambda operator, v: _product.bind(v, operator=operator)
