"""Calls of NumPy code from traced functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def call_host(
    call: Callable[..., Any], lengths: Sequence[int], dtype: Any, system: tuple[Any, ...], rhs: Any = None
) -> Any:
    """call(*system), or call(*system)(rhs), in NumPy: vectors of the given lengths.

    In a batch, each `system` is set up once for all right-hand sides that share it. If nothing is traced, `call` is
    called at once, so its errors arrive as they are.
    """
    leaves, tree = jax.tree.flatten((system, rhs))
    of_system = len(jax.tree.leaves(system))
    ranks = [leaf.ndim for leaf in leaves]
    wide = [leaf.dtype == jnp.float64 for leaf in leaves]

    def one(arrays: Sequence[Any], made: Any = None) -> tuple[Any, list[Any]]:
        own, right = jax.tree.unflatten(tree, arrays)
        made = call(*own) if made is None else made
        answer = made if rhs is None else made(right)
        return made, [np.asarray(part, dtype) for part in answer]

    def many(*words: Any) -> Any:
        arrays = [_from_words(word) if long else np.asarray(word) for word, long in zip(words, wide, strict=True)]
        leading = [array.shape[: array.ndim - rank] for array, rank in zip(arrays, ranks, strict=True)]
        batch = np.broadcast_shapes(*leading)
        out = [np.empty((*batch, n), dtype) for n in lengths]
        made, last = None, None
        for at in np.ndindex(batch):
            places = [tuple(min(i, n - 1) for i, n in zip(at, lead, strict=True)) for lead in leading]
            if places[:of_system] != last:
                made, last = None, places[:of_system]
            made, answer = one([array[place] for array, place in zip(arrays, places, strict=True)], made)
            for part, value in zip(out, answer, strict=True):
                part[at] = value
        return tuple(part[..., None].view(np.uint32) for part in out)

    if not any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
        return tuple(map(jnp.asarray, one([np.asarray(leaf) for leaf in leaves])[1]))
    count = np.dtype(dtype).itemsize // 4
    shapes = tuple(jax.ShapeDtypeStruct((n, count), np.uint32) for n in lengths)
    given = [_to_words(leaf) if long else leaf for leaf, long in zip(leaves, wide, strict=True)]
    found = jax.pure_callback(many, shapes, *given, vmap_method="expand_dims")
    return tuple(_join(part, dtype) for part in found)


def _to_words(array: jax.Array) -> jax.Array:
    """float64 as pairs of uint32.

    JAX may call back in another thread, in which a local `jax.enable_x64` does not hold, and would round float64 there.
    """
    return lax.bitcast_convert_type(array, jnp.uint32)


def _from_words(words: Any) -> Any:
    return np.ascontiguousarray(words).view(np.float64)[..., 0]


def _join(words: jax.Array, dtype: Any) -> jax.Array:
    return lax.bitcast_convert_type(words if np.dtype(dtype).itemsize > 4 else words[..., 0], dtype)
