"""Epochs of a restarted method on a device: one program takes steps, measures, and begins other epochs.

What M makes of y is not kept from step to step, as the native core keeps it: Mᵀy is one product, as Mᵀ of T(z) would
be, and costs less memory traffic than the three vectors that are linear in it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from dapd.arrays import Array
from dapd.methods import anchors
from dapd.methods.anchors import Epoch
from dapd.theory import R2Hpdhg

IMAGE = "Mt"  # how the names of fields begin that are Mᵀ of the field whose name follows


def without_images(state: Any) -> Any:
    """The state without products with Mᵀ and without its number of steps, which the epoch has."""
    return state._replace(k=None, **{name: None for name in state._fields if name.startswith(IMAGE)})


def with_images(state: Any, k: Any, adjoint: Callable[[Array], Array]) -> Any:
    """The whole state."""
    images = {name: adjoint(getattr(state, name[len(IMAGE) :])) for name in state._fields if name.startswith(IMAGE)}
    return state._replace(k=k, **images)


@functools.cache
def several_epochs(kind: Any, make_oracle: Callable[[Any], Any], together: int) -> Callable[..., Any]:
    """Some times `together` steps, after which alone there are measurements.

    The function of the placed problem, a state without images and the numbers of its epoch, (L, s_max), and how many
    times, returns the new state and numbers, and the point.
    """

    def chunk(placed: Any, carry: tuple[Any, Array], constants: Array, times: Any) -> Any:
        oracle = make_oracle(placed)

        def block(now: Any) -> Any:
            left, state, numbers = now
            epoch = Epoch(*numbers)
            p = parameters(epoch, constants, state.x.dtype)
            some = jnp.minimum(left, jnp.astype((epoch.next - epoch.k) // together, int))

            def turn(at: Any, state: Any) -> Any:
                for j in range(together):
                    state = stepped(kind, p, oracle, state, epoch.k + (together * at + j))
                return state

            state = jax.lax.fori_loop(0, some, turn, state)
            epoch = epoch._replace(k=epoch.k + together * some)
            return left - some, *after_steps(kind, p, oracle, state, epoch)

        _, state, numbers = jax.lax.while_loop(lambda now: now[0] > 0, block, (times, *carry))
        return (state, numbers), kind.point(state)

    return chunk


def stepped(kind: Any, p: Any, oracle: Any, state: Any, k: Any) -> Any:
    """The state after one more step; of the images, a step only needs that of y."""
    Mty = oracle.adjoint(state.y)
    images = {name: Mty for name in state._fields if name.startswith(IMAGE)}
    whole = state._replace(k=jnp.astype(k, state.x.dtype), **images)
    return without_images(kind.update(p, oracle, whole))


def after_steps(kind: Any, p: Any, oracle: Any, state: Any, epoch: Epoch) -> tuple[Any, Array]:
    """The state and the numbers of the epoch to go on with: those of another one if this one is over."""
    measures = epoch.k == epoch.next
    m = kind.measured(p, state._replace(k=jnp.astype(epoch.k, state.x.dtype)), oracle.adjoint)
    after, over, failed = anchors.measured(epoch, m, p)
    over, failed = measures & over, measures & failed
    anew, again = anchors.restarted(after, m), anchors.begun_again(after)
    epoch = chosen(failed, again, chosen(over, anew, chosen(measures, after, epoch)))

    def begun(state: Any) -> Any:
        return without_images(chosen(failed, kind.at_anchor(state), kind.at_plain(state)))

    return jax.lax.cond(over | failed, begun, lambda state: state, state), jnp.stack(epoch)


def parameters(epoch: Epoch, constants: Array, dtype: Any) -> R2Hpdhg:
    """The steps of an epoch in the precision of the vectors."""
    p = anchors.parameters(epoch, constants[0], constants[1])
    numbers: Any = (jnp.astype(number, dtype) for number in p)
    return R2Hpdhg(*numbers)


def chosen(first: Array, one: Any, other: Any) -> Any:
    """The one tree if `first` is true, else the other."""
    return jax.tree.map(lambda a, b: jnp.where(first, a, b), one, other)
