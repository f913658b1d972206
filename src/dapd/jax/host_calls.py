"""Calls of NumPy code from traced functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np


def on_host(
    call: Callable[..., Any], lengths: Sequence[int], dtype: Any, system: tuple[Any, ...], rhs: Any = None
) -> Any:
    """call(*system), or call(*system)(rhs), in NumPy: vectors of the given lengths.

    In a batch, each `system` is set up once for all right-hand sides that share it. If nothing is traced, `call` is
    called at once, so its errors arrive as they are.
    """
    leaves, tree = jax.tree.flatten((system, rhs))
    of_system = len(jax.tree.leaves(system))
    ranks = [leaf.ndim for leaf in leaves]

    def one(*arrays: Any, made: Any = None) -> tuple[Any, Any]:
        own, right = jax.tree.unflatten(tree, arrays)
        made = call(*own) if made is None else made
        answer = made if rhs is None else made(right)
        return made, [np.asarray(part, dtype) for part in answer]

    def many(*arrays: Any) -> Any:
        arrays = tuple(np.asarray(array) for array in arrays)
        leading = [array.shape[: array.ndim - rank] for array, rank in zip(arrays, ranks, strict=True)]
        batch = np.broadcast_shapes(*leading)
        out = [np.empty((*batch, n), dtype) for n in lengths]
        made, last = None, None
        for at in np.ndindex(batch):
            places = [tuple(min(i, n - 1) for i, n in zip(at, lead, strict=True)) for lead in leading]
            if places[:of_system] != last:
                made, last = None, places[:of_system]
            made, answer = one(*(array[place] for array, place in zip(arrays, places, strict=True)), made=made)
            for part, value in zip(out, answer, strict=True):
                part[at] = value
        return tuple(out)

    if not any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
        return tuple(map(jax.numpy.asarray, one(*map(np.asarray, leaves))[1]))
    shapes = tuple(jax.ShapeDtypeStruct((n,), dtype) for n in lengths)
    return jax.pure_callback(many, shapes, *leaves, vmap_method="expand_dims")
