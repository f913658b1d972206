"""`dapd.jax.solve`: the solution as a function that JAX can differentiate, through the optimality conditions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from dapd.derivatives import host
from dapd.derivatives.data import Data, check_shapes
from dapd.derivatives.front import Front, Solution, SolveOptions
from dapd.derivatives.jax.host_calls import call_host
from dapd.derivatives.jax.smooth import Smooth
from dapd.derivatives.records import ParameterRecord, Sparse
from dapd.engines.jax.functions import register_kinds


def _solve(settings: SolveOptions, data: Data) -> Solution:
    register_kinds(data.phi)
    data = _arrays(data)
    _check(data)
    x, w, _ = _solution(settings, data)
    return Solution.of(data, x, w)


solve = Front(_solve).solve


def _arrays(data: Any) -> Any:
    """The data as JAX arrays, all floating ones of the same dtype."""
    kept = (Sparse, Smooth)

    def is_leaf(leaf: Any) -> bool:
        if type(leaf) is list:  # of numbers, or of f or φ
            return not any(isinstance(part, ParameterRecord) or hasattr(part, "with_parameters") for part in leaf)
        return isinstance(leaf, kept)

    def floating(leaf: Any) -> Any:
        if isinstance(leaf, kept):  # indices stay whole numbers
            return jax.tree.map(jnp.asarray, leaf)
        array = jnp.asarray(leaf)
        return array if jnp.issubdtype(array.dtype, jnp.inexact) else array.astype(float)

    data = jax.tree.map(floating, data, is_leaf=is_leaf)
    floats = [leaf for leaf in jax.tree.leaves(data) if jnp.issubdtype(leaf.dtype, jnp.inexact)]
    dtype = jnp.result_type(*floats)
    if not jnp.issubdtype(dtype, jnp.floating):
        raise TypeError(f"the data must be real numbers, found dtype {dtype}")
    dtype = jnp.promote_types(dtype, jnp.float32)
    return jax.tree.map(lambda leaf: leaf.astype(dtype) if jnp.issubdtype(leaf.dtype, jnp.inexact) else leaf, data)


def _check(data: Data) -> None:
    """Compare the shapes, which are known even of traced arrays."""
    check_shapes(data)
    if not any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(data)):
        return  # the classes of `dapd` say it better
    x, w = (np.ones(n, data.b.dtype) for n in data.lengths)
    try:
        found = jax.eval_shape(Data.residual, data, x, w, w)
    except (TypeError, ValueError) as error:
        raise ValueError(f"f or phi does not fit M of shape {data.M.shape}: {error}") from error
    if (found[0].shape, found[1].shape) != (x.shape, w.shape):
        raise ValueError(f"f or phi does not fit M of shape {data.M.shape}: ∇f or the prox has another length")


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _solution(settings: SolveOptions, data: Data) -> Any:
    """The point (x, w) and the steps of the prox; w is y, or (y, z) if x has bounds."""
    x, w = data.lengths
    return call_host(
        lambda systems: host.solutions([data for (data,) in systems], settings), (x, w, w), data.b.dtype, (data,)
    )


@_solution.defjvp
def _tangent(settings: SolveOptions, primals: tuple[Data], tangents: tuple[Data]) -> Any:
    (data,) = primals
    x, w, steps = _solution(settings, data)
    leaves, tree = jax.tree.flatten(data)
    moved = [k for k, leaf in enumerate(leaves) if jnp.issubdtype(leaf.dtype, jnp.inexact)]
    moves = jax.tree.leaves(tangents)
    # the solution is the root for all steps, so they count as constant
    point = x, w, lax.stop_gradient(steps)
    dx, dw = _move(settings, tree, tuple(moved), leaves, [moves[k] for k in moved], point)
    return (x, w, steps), (dx, dw, jnp.zeros_like(steps))


@partial(jax.jit, static_argnums=(0, 1, 2))
def _move(
    settings: SolveOptions, tree: Any, moved: tuple[int, ...], leaves: list[Any], moves: list[Any], point: Any
) -> Any:
    """How (x, w) moves if these leaves of the data do; compiled, so it is fast outside jit too."""

    def conditions(*some: jax.Array) -> jax.Array:
        others = dict(zip(moved, some, strict=True))
        data = jax.tree.unflatten(tree, [others.get(k, leaf) for k, leaf in enumerate(leaves)])
        return jnp.concatenate(data.residual(*point))

    data = jax.tree.unflatten(tree, leaves)
    _, change = jax.jvp(conditions, [leaves[k] for k in moved], moves)
    # one vector: JAX does not transpose a linear solve if only a part of its right-hand side is linear
    found, size = _linear_solve(settings, data, point, -change), point[0].size
    # nor does it derive one again whose right-hand side, the gradient of a linear loss, is constant
    found = found * (1.0 + 0.0 * point[0][0])
    return found[:size], found[size:]


def _linear_solve(settings: SolveOptions, data: Data, point: Any, rhs: jax.Array) -> Any:
    """J⁻¹ of the right-hand side, J the derivative of the conditions by (x, w)."""
    x, w, steps = point

    def times(d: jax.Array) -> jax.Array:
        moves = d[: x.size], d[x.size :]
        return jnp.concatenate(jax.jvp(lambda x, w: data.residual(x, w, steps), (x, w), moves)[1])

    def by(transpose: bool) -> Callable[[Any, jax.Array], jax.Array]:
        call = partial(_solvers, settings, transpose)
        return lambda _, r: call_host(call, (r.size,), r.dtype, (data, *point), r)[0]

    return lax.custom_linear_solve(times, rhs, by(False), by(True))


def _solvers(settings: SolveOptions, transpose: bool, systems: Sequence[Any]) -> Iterator[Callable[[Any], Any]]:
    datas, points = [data for data, *_ in systems], [point for _, *point in systems]
    return host.linear_solvers(datas, points, settings, transpose=transpose)
