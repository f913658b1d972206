"""Threads that run the same steps side by side, each on its own rows and columns, and meet where they must."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import intrinsic

from dapd.arrays import Array
from dapd.kernels.compiled import plain

SPINS = 4_000  # looks at the others before giving the core away
PAD = 16  # numbers between two counters: they must not share a cache line


class TimeUp(Exception):
    """The deadline passed in the middle of a step."""


class Team(NamedTuple):
    """What a thread knows of the others."""

    rank: int
    threads: int
    counts: Array  # meetings that each thread has come to
    halt: Array  # one number, not 0 when all are to stop
    start: int  # this thread's columns
    stop: int
    x: Array  # all columns of what is multiplied
    parts: Array  # each thread's part of a sum over its rows
    first: int  # this thread's first row
    y: Array  # all rows of what is multiplied


@intrinsic
def _load(context: Any, array: Any, index: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        return builder.load_atomic(builder.gep(data, [args[1]]), "acquire", 8)

    return types.int64(array, types.int64), code


@intrinsic
def _store(context: Any, array: Any, index: Any, value: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        builder.store_atomic(args[2], builder.gep(data, [args[1]]), "release", 8)
        return context.get_dummy_value()

    return types.void(array, types.int64, types.int64), code


_YIELDS = os.name == "posix"
_yield = types.ExternalFunction("sched_yield", types.int32())


@plain
def meet(team: Team) -> None:
    """Wait for all threads to come here."""
    turn = _load(team.counts, team.rank * PAD) + 1
    _store(team.counts, team.rank * PAD, turn)
    for other in range(team.threads):
        spins = 0
        while _load(team.counts, other * PAD) < turn:
            spins += 1
            if spins > SPINS:
                if _load(team.halt, 0) != 0:
                    raise TimeUp
                if _YIELDS:
                    _yield()


@plain
def all_columns(team: Team, x: Array) -> Array:
    """All of a vector, of which x is this thread's part."""
    if team.threads == 1:
        return x
    team.x[team.start : team.stop] = x
    meet(team)
    return team.x


@plain
def all_rows(team: Team, y: Array) -> Array:
    """All of a dual vector, of which y is this thread's part."""
    if team.threads == 1:
        return y
    team.y[team.first : team.first + y.size] = y
    meet(team)
    return team.y


@plain
def own_part(team: Team, out: Array) -> Array:
    """Where to put this thread's part of a sum over rows."""
    return out if team.threads == 1 else team.parts[team.rank]


@plain
def add_parts(team: Team, out: Array) -> None:
    """Set out to the sum of all parts, in this thread's columns."""
    if team.threads == 1:
        return
    meet(team)
    out[:] = team.parts[0, team.start : team.stop]
    for t in range(1, team.threads):
        part = team.parts[t, team.start : team.stop]
        for j in range(out.size):
            out[j] += part[j]


def teams(columns: list[int], rows: list[int], counts: Array, halt: Array, dtype: Any, needs: str) -> list[Team]:
    """The teams of all threads: bounds of their columns and rows, and the buffers that they `need`: x, parts, y."""
    threads = len(columns) - 1
    shared = threads > 1
    x = np.empty(columns[-1] if shared and "x" in needs else 0, dtype)
    parts = np.empty((threads, columns[-1] if shared and "parts" in needs else 0), dtype)
    y = np.empty(rows[-1] if shared and "y" in needs else 0, dtype)
    return [Team(t, threads, counts, halt, columns[t], columns[t + 1], x, parts, rows[t], y) for t in range(threads)]
