"""Epochs of r²HPDHG, as the problems of a lock step take them: each problem has its own epoch."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from dapd.arrays import Array
from dapd.engines.jax.batch.known import LOOK, Best, Constants
from dapd.engines.jax.epochs import after_steps, parameters, stepped, without_images
from dapd.engines.jax.runner import Oracle
from dapd.methods.anchors import Epoch, first_epoch
from dapd.methods.r2hpdhg import R2HPDHG


class Anchored(NamedTuple):
    """Where the epochs of a problem are."""

    state: Any  # without what M makes of it
    numbers: Array  # of the epoch
    error: Array  # when it last halved


class Anchoring:
    """The steps and the epochs of one problem; all of its f has a prox."""

    def begin(self, placed: Any, known: Constants, best: Best) -> Anchored:
        """The first anchor."""
        epoch = first_epoch(known.weight.astype(float), placed.prox.curvature is not None)
        p = parameters(epoch, (0.0, known.s_max), best.x.dtype)
        state = R2HPDHG.first(p, Oracle(placed), best.x, best.y)
        return Anchored(without_images(state), jnp.stack(epoch), best.error)

    def steps(self, placed: Any, known: Constants, now: Anchored) -> tuple[Anchored, Array, Array]:
        """`LOOK` iterations, and the point after them; then a measurement."""
        oracle, epoch = Oracle(placed), Epoch(*now.numbers)
        p = parameters(epoch, (0.0, known.s_max), now.state.x.dtype)
        state = jax.lax.fori_loop(0, LOOK, lambda j, s: stepped(R2HPDHG, p, oracle, s, epoch.k + j), now.state)
        point, k = R2HPDHG.point(state), epoch.k + LOOK  # where all problems are measured, whatever their epochs ask
        state, numbers = after_steps(R2HPDHG, p, oracle, state, epoch._replace(k=k, next=k))
        return Anchored(state, numbers, now.error), *point

    def checked(self, placed: Any, known: Constants, now: Anchored, last: Best, best: Best) -> Anchored:
        """After a convergence check: let the epoch know whether the best error has halved."""
        halved = best.error <= 0.5 * now.error
        epoch = Epoch(*now.numbers)
        epoch = epoch._replace(halved=jnp.where(halved, 1.0, epoch.halved))
        return Anchored(now.state, jnp.stack(epoch), jnp.where(halved, best.error, now.error))
