"""φ on a device: its canonical kinds, which compute with arrays of JAX, as pytrees."""

from __future__ import annotations

from collections.abc import Callable
from operator import methodcaller
from typing import Any

import jax.numpy as jnp
import numpy as np

from dapd.arrays import Array
from dapd.engines.jax.layout import layout, put
from dapd.engines.jax.maps import check_traced
from dapd.engines.jax.pytree import register
from dapd.kinds.base import Phi, kinds_of
from dapd.kinds.by_rows import L1, Box, Interval, NonNegative, Rows, Zero, merged
from dapd.kinds.composed import Conjugate, Stack
from dapd.kinds.groups import Balls, GroupBall
from dapd.problem.problem import Problem

LARGE_PHI = 1 << 16  # rows from which each kind is evaluated by itself rather than by a table of rows
FEW_KINDS = 8  # more of them are always in a table


class Traced(Phi):
    """A φ of the caller's with a prox that JAX can trace; its numbers are part of the program."""

    def __init__(self, phi: Phi) -> None:
        self.phi = phi

    def prox(self, v: Array, step: Any) -> Array:
        return jnp.asarray(self.phi.prox(v, step)).astype(v.dtype)


for _kind in (Traced, Rows, Zero, NonNegative, Box, Interval, L1, Balls, GroupBall, Conjugate, Stack):
    register(_kind, methodcaller("parameters"))


def register_kinds(phi: Phi) -> None:
    """Let JAX look for arrays in φ and in what it is made of, whatever their classes."""
    register(type(phi), methodcaller("parameters"))
    for value in phi.parameters().values():
        for part in value if isinstance(value, list) else [value]:
            if hasattr(part, "with_parameters"):
                register_kinds(part)


def place_phi(problem: Problem, dtype: Any) -> Phi:
    """φ on the device."""
    kinds = kinds_of(problem.phi, problem.rows)
    return place_kinds(kinds, dtype, lambda v: put(v, v.dtype, dual=True))


def place_kinds(kinds: list[tuple[Phi, int]], dtype: Any, place: Callable[[Array], Array]) -> Phi:
    """Canonical kinds on the device; `place` puts vectors with an entry for each row there.

    Rows are in one table, so that all problems share a program, unless they are many. On a mesh they always are, as to
    cut what is divided would take messages.
    """
    if not (sum(n for _, n in kinds) >= LARGE_PHI and len(kinds) < FEW_KINDS and layout() is None):
        kinds = merged(kinds)
    placed = [_placed(kind, n, dtype, place) for kind, n in kinds]
    return placed[0] if len(placed) == 1 else Stack(placed, sizes=[n for _, n in kinds])


def _placed(kind: Phi, rows: int, dtype: Any, place: Callable[[Array], Array]) -> Phi:
    if not kind.anywhere:
        own = Traced(kind)
        complaint = f"φ = {kind.kind} has a prox that JAX cannot trace"
        check_traced(lambda v: own.prox(v, 1.0), [rows], (rows,), dtype, complaint)
        return own

    def there(value: Any) -> Array:
        vector = np.asarray(value)
        vector = vector if vector.dtype.kind in "biu" else vector.astype(dtype)
        return place(vector) if vector.shape == (rows,) and vector.dtype != np.int32 else jnp.asarray(vector)

    return kind.with_parameters({name: there(value) for name, value in kind.parameters().items() if value is not None})
