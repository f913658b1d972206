"""Calls of NumPy code from traced functions; among them the products of constant maps, which JAX knows to be linear."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from dapd.derivatives.records import PRODUCTS
from dapd.operators.base import Operator

_product = Primitive("dapd_product")


def call_host(
    call: Callable[[Sequence[Any]], Iterable[Any]],
    lengths: Sequence[int],
    dtype: Any,
    system: tuple[Any, ...],
    rhs: Any = None,
) -> Any:
    """What call([system]) gives, in NumPy: vectors of the given lengths, or else a function of rhs that gives one.

    In a batch, `call` gets all different systems at once, which share the arrays that are not batched. What it gives
    for a system is used for all of its right-hand sides. If nothing is traced, `call` is called at once, so its errors
    arrive as they are.
    """
    leaves, tree = jax.tree.flatten((system, rhs))
    of_system = len(jax.tree.leaves(system))
    ranks = [leaf.ndim for leaf in leaves]
    wide = [leaf.dtype == jnp.float64 for leaf in leaves]

    def many(*words: Any) -> Any:
        arrays = [
            np.ascontiguousarray(word).view(np.float64)[..., 0] if long else np.asarray(word)
            for word, long in zip(words, wide, strict=True)
        ]
        leading = [array.shape[: array.ndim - rank] for array, rank in zip(arrays, ranks, strict=True)]
        batch = np.broadcast_shapes(*leading)
        views: dict[Any, Any] = {}
        users: dict[Any, list[Any]] = {}
        systems = []
        for index in np.ndindex(batch):
            keys = [(k, *(min(i, n - 1) for i, n in zip(index, lead, strict=True))) for k, lead in enumerate(leading)]
            parts = [views.setdefault(key, array[key[1:]]) for key, array in zip(keys, arrays, strict=True)]
            own, right = jax.tree.unflatten(tree, parts)
            place = tuple(keys[:of_system])  # what tells this system from others
            if place not in users:
                systems.append(own)
            users.setdefault(place, []).append((index, right))
        out = [np.empty((*batch, n), dtype) for n in lengths]
        for made, own_users in zip(call(systems), users.values(), strict=True):
            for index, right in own_users:
                for part, value in zip(out, made if rhs is None else [made(right)], strict=True):
                    part[index] = value
        return tuple(part[..., None].view(np.uint32) for part in out)

    if not any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
        own, right = jax.tree.unflatten(tree, [np.asarray(leaf) for leaf in leaves])
        (made,) = call([own])
        return tuple(jnp.asarray(np.asarray(part, dtype)) for part in (made if rhs is None else [made(right)]))
    count = np.dtype(dtype).itemsize // 4
    shapes = tuple(jax.ShapeDtypeStruct((n, count), np.uint32) for n in lengths)
    given = [_to_words(leaf) if long else leaf for leaf, long in zip(leaves, wide, strict=True)]
    found = jax.pure_callback(many, shapes, *given, vmap_method="expand_dims")
    return tuple(lax.bitcast_convert_type(part if count > 1 else part[..., 0], dtype) for part in found)


def _to_words(array: jax.Array) -> jax.Array:
    """float64 as pairs of uint32.

    JAX may call back in another thread, in which a local `jax.enable_x64` does not hold, and would round float64 there.
    """
    return lax.bitcast_convert_type(array, jnp.uint32)


def _call(v: Any, *, operator: Operator) -> Any:
    def products(systems: Sequence[Any]) -> list[Any]:
        return [lambda v: operator.forward(v.astype(float))]

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
