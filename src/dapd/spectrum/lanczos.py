"""Extreme eigenvalues of a symmetric map by Lanczos without reorthogonalisation, which stores only three vectors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.linalg

from dapd.arrays import Array
from dapd.spectrum.deadline import check_deadline

RESOLVED = 0.04  # relative error of an eigenvalue at which the process stops
NEGLIGIBLE = 1e-12  # an eigenvalue below this fraction of the largest counts as zero
NOT_NUMBERS = "{} gives NaN or infinite products, or numbers too large to square; check it, or rescale"


class Ritz(NamedTuple):
    """An approximate eigenvalue."""

    value: float  # a Ritz value
    error: float  # an estimate of its distance from an eigenvalue


class LanczosSearch(NamedTuple):
    """What a Lanczos process looks for, and when it stops."""

    limit: int  # the number of steps in all runs together
    name: str  # of the matrix, for error messages
    positive: bool = False  # the least eigenvalue that does not count as zero, instead of the least
    least: bool = True  # False: only the largest eigenvalue is needed
    negligible: float = NEGLIGIBLE  # fraction of the largest eigenvalue that counts as zero
    deadline: float = math.inf  # a value of time.perf_counter()


def extremes(
    apply: Callable[[Array], Array], start: Callable[[int], Array], search: LanczosSearch
) -> tuple[Ritz, Ritz, int]:
    """The extreme Ritz values of one Lanczos run, or of several if one ends in an invariant subspace."""
    run = _lanczos(apply, start(0), search)
    low, high, steps = run.low, run.high, run.steps
    turn = 0
    while run.closed and steps < search.limit:
        turn += 1
        run = _lanczos(apply, start(turn), search._replace(limit=search.limit - steps))
        steps += run.steps
        same = run.low.value >= low.value * (1 - 1e-9) and run.high.value <= high.value * (1 + 1e-9)
        low, high = min(low, run.low), max(high, run.high)
        if same:
            break
    return low, high, steps


class _Run(NamedTuple):
    low: Ritz
    high: Ritz
    steps: int
    closed: bool  # it ended in an invariant subspace, which may not contain the extremes


def _lanczos(apply: Callable[[Array], Array], start: Array, search: LanczosSearch) -> _Run:
    """Lanczos until the extreme Ritz values (with `positive` the least that does not count as zero) are settled."""
    diagonal: list[float] = []
    off_diagonal: list[float] = []
    before, v, beta = np.zeros_like(start), start, 0.0
    since = search.limit  # the step from which the values look settled
    seen: list[tuple[int, float, float]] = []  # steps and extreme Ritz values at earlier checks
    while True:
        check_deadline(search.deadline)
        w = apply(v) - beta * before
        alpha = float(v @ w)
        w -= alpha * v
        beta = float(np.linalg.norm(w))
        if not math.isfinite(beta):
            raise ValueError(NOT_NUMBERS.format(search.name))
        diagonal.append(alpha)
        off_diagonal.append(beta)
        steps = len(diagonal)
        closed = beta <= 1e-14 * max(map(abs, diagonal))
        over = closed or steps == search.limit
        if over or steps % max(10, steps // 10) == 0:
            then = next((look for look in reversed(seen) if 2 * look[0] <= steps), (0, np.inf, -np.inf))
            high = _ritz(diagonal, off_diagonal, steps - 1, then[2])
            first = _below(diagonal, off_diagonal, search.negligible * high.value) if search.positive else 0
            # with values below it that count as zero, this one may be on its way there: then only its residual tells
            low = _ritz(diagonal, off_diagonal, min(first, steps - 1), np.inf if first else then[1])
            seen.append((steps, low.value, high.value))
            done = high.error <= RESOLVED / 10 * high.value
            done = done and (not search.least or low.error <= RESOLVED * abs(low.value))
            # a Ritz value may stagnate near an eigenvalue before it finds the extreme one: continue half as long again
            since = min(since, steps) if done else search.limit
            if over or steps >= 1.5 * since or (search.least and abs(low.value) <= search.negligible * high.value):
                return _Run(low, high, steps, closed)
        before, v = v, w / beta


def _below(diagonal: list[float], off_diagonal: list[float], level: float) -> int:
    """How many eigenvalues of the tridiagonal matrix are below `level` > 0."""
    # by Sylvester's law, this is the number of negative pivots
    count, pivot = 0, 1.0
    for d, e in zip(diagonal, [0.0, *off_diagonal[:-1]], strict=True):
        pivot = d - level - e * e / (pivot or 1e-300)
        count += pivot < 0
    return count


def _ritz(diagonal: list[float], off_diagonal: list[float], index: int, then: float) -> Ritz:
    """A Ritz value with its error: the residual of its vector or, if that is less, its change since `then`.

    In a cluster of eigenvalues the residual stays large long after the value is right. But there the value approaches
    the edge as 1/steps², so what is left is a third of the change since half the steps.
    """
    value, vector = scipy.linalg.eigh_tridiagonal(diagonal, off_diagonal[:-1], select="i", select_range=(index, index))
    residual = abs(off_diagonal[-1] * float(vector[-1, 0]))
    return Ritz(float(value[0]), min(residual, abs(then - float(value[0]))))


def random_start(size: int, turn: int) -> Array:
    """A fixed random unit vector, from a seed that is unlikely to be used for data."""
    v = np.random.default_rng([0x64617064, turn]).standard_normal(size)
    return v / float(np.linalg.norm(v))
