"""Threads that run the same steps side by side, each on its own rows and columns, and meet where they must."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import intrinsic

from dapd.arguments import TimeUp as TimeUp  # compiled code never raises it: Numba would lose what it allocated
from dapd.arrays import Array
from dapd.kernels.compiled import copy, inlined

SPINS = 4_000  # looks at the others before giving the core away
LINE = 128  # bytes of a cache line, or more: what two threads write to must not share one
PAD = LINE // 8  # so many counters
BRIEF = 1 << 12  # entries of vectors that are kept room for; longer ones cost more to compute than to allocate
VECTORS = 12  # that are kept room for; more are allocated


class Team(NamedTuple):
    """What a thread knows of the others."""

    rank: int
    threads: int
    counts: Array  # meetings that each thread has come to
    halt: Array  # one number, not 0 when all are to stop
    start: int  # this thread's columns
    stop: int
    x: Array  # all columns of what is multiplied
    parts: Array  # each thread's part of a sum over its rows; or two for each, of a sum over its columns
    first: int  # this thread's first row
    y: Array  # all rows of what is multiplied
    room: Array  # for the vectors of a step
    used: Array  # one number: how much of it


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


@inlined
def halted(team: Team) -> bool:
    """Whether all are to stop: what a step computes from now on is of no use."""
    return bool(_load(team.halt, 0) != 0)


@inlined
def meet(team: Team) -> None:
    """Wait for all threads to come here, or for a halt."""
    turn = _load(team.counts, team.rank * PAD) + 1
    _store(team.counts, team.rank * PAD, turn)
    for other in range(team.threads):
        spins = 0
        while _load(team.counts, other * PAD) < turn:
            spins += 1
            if spins > SPINS:
                if halted(team):
                    return
                if _YIELDS:
                    _yield()


@inlined
def take(team: Team, like: Array) -> Array:
    """A vector with the length of another, in this step."""
    start = team.used[0]
    stop = start + like.size
    if stop > team.room.size:
        return np.empty_like(like)
    line = LINE // like.itemsize
    team.used[0] = (stop + line - 1) // line * line
    return team.room[start:stop]


@inlined
def give_back(team: Team) -> None:
    """Give up all vectors that were taken: a step is at its end."""
    team.used[0] = 0


@inlined
def own_columns(team: Team, like: Array) -> Array:
    """Where to make what `all_columns` is to have, best: it need not be copied then."""
    return team.x[team.start : team.stop] if team.x.size > 0 else take(team, like)


@inlined
def all_columns(team: Team, x: Array) -> Array:
    """All of a vector, of which x is this thread's part."""
    if team.threads == 1:
        return x
    own = team.x[team.start : team.stop]
    if own.ctypes.data != x.ctypes.data:
        copy(x, own)
    meet(team)
    return team.x


@inlined
def all_rows(team: Team, y: Array) -> Array:
    """All of a dual vector, of which y is this thread's part."""
    if team.threads == 1:
        return y
    copy(y, team.y[team.first : team.first + y.size])
    meet(team)
    return team.y


@inlined
def own_part(team: Team, out: Array) -> Array:
    """Where to put this thread's part of a sum over rows."""
    return out if team.threads == 1 else team.parts[team.rank, : team.x.size]


@inlined
def add_parts(team: Team, out: Array) -> None:
    """Set out to the sum of all parts, in this thread's columns."""
    if team.threads == 1:
        return
    meet(team)
    copy(team.parts[0, team.start : team.stop], out)
    for t in range(1, team.threads):
        part = team.parts[t, team.start : team.stop]
        for j in range(out.size):
            out[j] += part[j]


@inlined
def own_sum(team: Team, rows: int) -> Array:
    """Where to put this thread's part of a sum over columns, before `add_sums`."""
    return team.parts[_first_sum(team) + team.rank, :rows]


@inlined
def add_sums(team: Team, y: Array) -> None:
    """Set y to the sum of all parts, the same on each thread."""
    first = _first_sum(team)
    meet(team)
    copy(team.parts[first], y)
    for t in range(1, team.threads):
        for i in range(y.size):
            y[i] += team.parts[first + t, i]


@inlined
def _first_sum(team: Team) -> int:
    # a thread may write its next part while others still read this one, but not the one after: they have to meet first
    turn: int = _load(team.counts, team.rank * PAD) % 2
    return team.threads * turn


class Common(NamedTuple):
    """What a thread's teams have in common."""

    counts: Array
    halt: Array
    rooms: list[Array]  # one a thread
    used: list[Array]


def common(longest: list[int], dtype: Any) -> Common:
    """For threads whose longest vectors are so long."""
    counts, halt = (lined(1, PAD * len(longest), np.int64)[0] for _ in range(2))
    used = [lined(1, PAD, np.int64)[0] for _ in longest]
    line = LINE // np.dtype(dtype).itemsize
    lengths = [VECTORS * -(-size // line) * line if size <= BRIEF else 0 for size in longest]
    return Common(counts, halt, [lined(1, length, dtype)[0] for length in lengths], used)


def teams(columns: list[int], rows: list[int], shared: Common, needs: str) -> list[Team]:
    """The teams of all threads: bounds of columns and rows, and the buffers that they `need`: x, parts, sums, y."""
    threads, dtype = len(columns) - 1, shared.rooms[0].dtype
    n, m = (ends[-1] if threads > 1 else 0 for ends in (columns, rows))
    x = lined(1, n if "x" in needs else 0, dtype)[0, :n]
    parts = lined(2 * threads, m, dtype) if "sums" in needs else lined(threads, n if "parts" in needs else 0, dtype)
    y = lined(1, m if "y" in needs else 0, dtype)[0, :m]
    given = zip(range(threads), columns[:-1], columns[1:], rows[:-1], shared.rooms, shared.used, strict=True)
    return [
        Team(t, threads, shared.counts, shared.halt, start, stop, x, parts, first, y, room, used)
        for t, start, stop, first, room, used in given
    ]


def lined(rows: int, columns: int, dtype: Any) -> Array:
    """Rows that begin with a cache line, as long as asked or a little longer."""
    line = LINE // np.dtype(dtype).itemsize
    length = -(-columns // line) * line
    raw = np.zeros(rows * length + line, dtype)
    start = -raw.ctypes.data % LINE // raw.itemsize
    return raw[start : start + rows * length].reshape(rows, length)
