"""Whole chunks of iterations in compiled code: the methods' own `step`, and an oracle that compiled code can read.

Every thread runs the same steps on its own rows and columns: but for `grad` and `dual_step`, which meet the others
where they must, a step is arithmetic entry by entry.
"""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import overload, overload_method

from dapd.arrays import Array
from dapd.engines.functions import share_function
from dapd.engines.shares import Shares, share_out
from dapd.engines.threads import available, together
from dapd.kernels import coupling, gradient
from dapd.kernels.borrowed import borrowed
from dapd.kernels.compiled import inlined
from dapd.kernels.lazy import DUAL, assign, computed, leaf, multiplied
from dapd.kernels.rows import Table, tabulate
from dapd.kernels.team import Team, TimeUp, common, give_back, halted, take, teams
from dapd.model.problem import Problem
from dapd.model.smooth import Separable
from dapd.operators.base import Sparse

WORTH = 1 << 14  # multiplications of M and ∇f that make another thread worth its meetings
VAST = 1 << 25  # bytes of M from which Python calls the threads for every dual step: below, two products do better
SCATTERED = 16  # an entry of a sparse matrix takes about as long as so many of a dense one


class Share(NamedTuple):
    """What one thread knows of a problem."""

    M: Any  # a record of `coupling`
    phi: Table
    team: Team
    f: Any  # a record of `gradient`
    f_team: Team
    b: Array


class Oracle(NamedTuple):
    """What a compiled `step` may ask; vectors are expressions."""

    share: Share
    b: Any


@overload_method(types.NamedTuple, "grad", strict=False)
def _grad(o: Any, x: Any) -> Any:
    if o.instance_class is Oracle:
        return lambda o, x: leaf(gradient.grad(o.share.f, computed(x, o.share.team), o.share.f_team))
    return None


@overload_method(types.NamedTuple, "dual_step", strict=False)
def _dual_step(o: Any, v: Any, base: Any, step: Any) -> Any:
    if o.instance_class is not Oracle:
        return None

    def dual_step(o: Any, v: Any, base: Any, step: float) -> tuple[Any, Any]:
        share = o.share
        from_v, from_base = multiplied(v, share.team), computed(base, share.team)
        y, Mty = take(share.team, from_base), take(share.team, from_v)
        if not halted(share.team):
            coupling.dual_step(share.M, share.phi, from_v, from_base, step, share.team, y, Mty)
        return leaf(y), leaf(Mty)

    return dual_step


def stepped(p: Any, o: Oracle, s: Any) -> Any:
    """The `step` of the method that the record p belongs to."""
    raise NotImplementedError("declared for compiled code, which has an overload of it")


@overload(stepped, strict=False)
def _stepped(p: Any, o: Any, s: Any) -> Any:
    from dapd.methods import METHODS  # whose modules ask for this one

    return next(method.update for method in METHODS.values() if method.record is p.instance_class)


def leaves(s: Any) -> Any:
    """A state of arrays as one of expressions."""
    raise NotImplementedError("declared for compiled code, which has an overload of it")


@overload(leaves, strict=False)
def _leaves(s: Any) -> Any:
    state = s.instance_class
    return {
        3: lambda s: state(leaf(s[0]), leaf(s[1]), leaf(s[2])),
        4: lambda s: state(leaf(s[0]), leaf(s[1]), leaf(s[2]), leaf(s[3])),
        5: lambda s: state(leaf(s[0]), leaf(s[1]), leaf(s[2]), leaf(s[3]), leaf(s[4])),
    }[len(s)]


@inlined
def chunk(p: Any, share: Share, s: Any, steps: int) -> None:
    """Take so many steps in the arrays of a state, which must not share memory.

    Nothing is returned: to make an array for Python, Numba runs Python's own code, and there a waiting Ctrl-C would
    strike where it is not expected.
    """
    kept, state = borrowed(share), borrowed(s)
    o, now = Oracle(kept, leaf(kept.b)), leaves(state)
    for _ in range(steps):
        if halted(kept.team):
            return
        assign(stepped(p, o, now), state)
        give_back(kept.team)


class Crew:
    """The threads of a solve: how they share M and φ, and how they are stopped."""

    def __init__(self, shares: Shares, dtype: Any) -> None:
        longest = np.maximum(np.diff(shares.columns), shares.rows[-1] if shares.whole else np.diff(shares.rows))
        self.shares, self.common = shares, common(longest.tolist(), dtype)
        self.counts, self.halt = self.common[:2]
        self.lock = threading.Lock()  # buffers and counters serve one call at a time
        self.teams = self.team(shares.rows, shares.needs)

    def team(self, rows: list[int], needs: str) -> list[Team]:
        """Teams with buffers of their own."""
        return teams(self.shares.columns, rows, self.common, needs)

    def of_columns(self, vector: Array) -> list[Array]:
        """Each thread's share of a vector as long as x."""
        return [vector[a:b] for a, b in itertools.pairwise(self.shares.columns)]

    def of_rows(self, vector: Array) -> list[Array]:
        """The same for one as long as y; where each has all of it, the first has the vector and others have copies."""
        if self.shares.whole:
            return [vector, *(vector.copy() for _ in self.shares.matrices[1:])]
        return [vector[a:b] for a, b in itertools.pairwise(self.shares.rows)]

    def run(self, call: Callable[..., Any], arguments: list[tuple[Any, ...]], deadline: float = math.inf) -> None:
        """Call with each thread's arguments at the same time; TimeUp at the deadline, on the performance counter."""
        with self.lock, self._halt_at(deadline):
            self.counts[:] = 0
            if len(arguments) == 1:
                call(*arguments[0])
            else:
                together(call, arguments, lambda: self.halt.fill(1))
            if self.halt[0] != 0:
                raise TimeUp

    def dual_step(self, v: Array, base: Array, step: float) -> tuple[Array, Array]:
        """prox_{step·φ}(base + Mv) and Mᵀ of it, asked from Python."""
        shares, y, Mty = self.shares, np.empty_like(base), np.empty_like(v)
        vectors = (*map(self.of_columns, (v, Mty)), *map(self.of_rows, (base, y)))
        given = zip(shares.matrices, shares.tables, self.teams, *vectors, strict=True)
        self.run(
            coupling.fused,
            [
                (M, phi, own_v, own_base, step, team, own_y, own_Mty)
                for M, phi, team, own_v, own_Mty, own_base, own_y in given
            ],
        )
        return y, Mty

    @contextmanager
    def _halt_at(self, deadline: float) -> Iterator[None]:
        seconds = max(0.0, deadline - perf_counter())
        timer = threading.Timer(seconds, self.halt.fill, (1,)) if seconds <= threading.TIMEOUT_MAX else None
        if timer is not None:
            timer.start()
        try:
            yield
        finally:
            if timer is not None:
                timer.cancel()
                timer.join()
            self.halt[0] = 0


def couple(problem: Problem, threads: int | None = None) -> Crew | None:
    """M and φ as compiled code reads them, for Python to call; None where either is known to Python alone."""
    if threads is None:
        entries = problem.M.work * (SCATTERED if isinstance(problem.M, Sparse) else 1)
        if entries * problem.M.dtype.itemsize < VAST:
            return None
        threads = available()
    shares = _shares(problem, threads)
    return None if shares is None else Crew(shares, problem.dtype)


def _shares(problem: Problem, threads: int) -> Shares | None:
    phi = tabulate(problem.phi, problem.rows, problem.dtype)
    return None if phi is None else share_out(problem.M, phi, threads)


class Engine:
    """Compiled chunks for a problem."""

    def __init__(self, crew: Crew, oracles: list[Share]) -> None:
        self.crew, self.oracles = crew, oracles

    def run(self, parameters: Any, state: Any, steps: int, deadline: float) -> None:
        """Take so many steps, in the arrays of a state that has its own; TimeUp at the deadline leaves no state."""
        given = zip(self.oracles, self._shares(state), strict=True)
        self.crew.run(chunk, [(parameters, o, own, steps) for o, own in given], deadline)

    def _shares(self, state: Any) -> list[Any]:
        """Views of each thread's share of a state."""
        crew = self.crew
        parts = (crew.of_rows(v) if k in DUAL else crew.of_columns(v) for k, v in state._asdict().items())
        return [type(state)(*own) for own in zip(*parts, strict=True)]


def engine(problem: Problem, threads: int | None = None) -> Engine | None:
    """All of the problem as compiled code reads it; None where M, f or φ is known to Python alone."""
    if share_function(problem.f, [0, problem.columns], problem.dtype) is None:
        return None
    if threads is None:
        threads = max(1, min(available(), (problem.M.work + problem.f.work) // WORTH))
    if type(problem.f) is Separable:
        threads = 1
    for count in dict.fromkeys((threads, 1)):  # on one thread where f has fewer rows than there are threads
        shares = _shares(problem, count)
        f = None if shares is None else share_function(problem.f, shares.columns, problem.dtype)
        if shares is not None and f is not None:
            crew = Crew(shares, problem.dtype)
            b = crew.of_rows(problem.b.astype(problem.dtype))
            parts = (shares.matrices, shares.tables, crew.teams, f.records, crew.team(f.rows, f.needs), b)
            return Engine(crew, [Share(*own) for own in zip(*parts, strict=True)])
    return None
