"""Lanczos without reorthogonalisation, which stores only three vectors: eigenvalues and singular values of maps."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.linalg

from dapd.arguments import TimeUp
from dapd.arrays import Array, on_host
from dapd.operators.base import Operator, check_adjoint
from dapd.spectrum.deadline import check_deadline
from dapd.spectrum.record import TOO_SMALL, Estimate, Spectrum, zero_spectrum

RESOLVED = 0.04  # relative error of an eigenvalue at which the process stops
NEGLIGIBLE = 1e-12  # an eigenvalue below this fraction of the largest counts as zero
NOT_NUMBERS = "{} gives NaN or infinite products, or numbers too large to square; check it, or rescale"

PRODUCTS = 2_000  # products with M or Mᵀ that an iterative estimate may spend
UNRESOLVED = 0.04  # relative error of a squared singular value from which it counts as unresolved: 10 % with the margin
MARGIN = 0.04  # subtracted (relatively) from an unproven s_min, in case of an undiscovered eigenvalue just below
MARGIN_ABOVE = 0.005  # added to an iterative s_max for the same reason
STEPS = 40  # steps of Lanczos, of two products each, that check given bounds
EXCESS = 1.05  # ratio from which a given bound counts as exceeded
FAR = 10.0  # ratio to the norm of M from which a given s_max is of little use


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


def iterative(
    operator: Operator,
    name: str,
    *,
    positive: bool,
    least: bool = True,
    steps: int | None = None,
    deadline: float = math.inf,
) -> Spectrum:
    """s_max and, with `least`, s_min in at most `steps` steps of two products."""
    rows, columns = operator.shape
    wide = operator if rows <= columns else operator.transposed()
    # products in float32 have rounding errors that must not be mistaken for a singular value
    single = operator.probes > 0 and operator.dtype == np.float32
    negligible = 30 * float(np.finfo(np.float32).eps) if single else NEGLIGIBLE
    extra = 0

    def start(turn: int) -> Array:
        nonlocal extra
        if not (positive and rows <= columns):
            return random_start(wide.shape[0], turn)
        # a start in the range of M gives only the positive singular values
        extra += 1
        v = wide.forward(random_start(wide.shape[1], turn))
        return v / (np.linalg.norm(v) or 1.0)

    limit = (PRODUCTS - 1) // 2 if steps is None else steps
    dependent = rows > columns and not positive
    search = LanczosSearch(limit, name, positive, least and not dependent, negligible, deadline)
    checked = operator.probes == 0

    def square(v: Array) -> Array:
        nonlocal checked
        u = wide.adjoint(v)
        w = wide.forward(u)
        if not checked:
            checked = True
            with np.errstate(over="ignore", invalid="ignore"):
                squares, product = float(u @ u), float(w @ v)  # ‖Mᵀv‖² both
                check_adjoint(name, abs(squares - product), squares)
        return w

    low, high, taken = extremes(square, start, search)
    if high.value <= 0:
        if np.any(wide.adjoint(random_start(wide.shape[0], 0))):
            raise ValueError(TOO_SMALL.format(name))
        return zero_spectrum(rows, positive=positive, products=2 * taken + extra + 1)
    s_max = (1 + MARGIN_ABOVE) * (high.value + high.error) ** 0.5
    how = {"s_max": Estimate("Lanczos", 2 * taken + extra, high.error / high.value / 2)}
    if not least:
        return Spectrum(s_max, 0.0, how=how)
    dependent = dependent or low.value <= negligible * high.value
    if dependent and not positive:
        how["s_min"] = Estimate("Lanczos, in the same run", 0, 0.0)
        return Spectrum(s_max, 0.0, how=how)
    resolved = low.error <= UNRESOLVED * low.value
    how["s_min"] = Estimate("Lanczos, in the same run", 0, low.error / low.value / 2, resolved)
    s_min = (1 - MARGIN) * (low.value - low.error) ** 0.5 if resolved else low.value**0.5 / 2
    return Spectrum(s_max, s_min, how=how)


def doubt_about(M: Operator, spectrum: Spectrum, deadline: float = math.inf) -> str:
    """A sentence if some vector shows that a bound is wrong, or far from M; empty if none is found in time.

    Ritz values of MMᵀ from a start in its range lie between the squares of the positive singular values, so they can
    show that s_max is too small or s_min too large, never that both are right.
    """

    def start(turn: int) -> Array:
        image = np.asarray(on_host(M.forward(random_start(M.shape[1], turn))), np.float64)
        return image / (float(np.linalg.norm(image)) or 1.0)

    def apply(y: Array) -> Array:
        return np.asarray(on_host(M.forward(M.adjoint(y))), np.float64)

    if not min(M.shape):
        return ""
    try:
        low, high, _ = extremes(apply, start, LanczosSearch(STEPS, "M", positive=True, deadline=deadline))
    except (TimeUp, ValueError):  # no time left, or products that overflow
        return ""
    longest, shortest = math.sqrt(max(high.value, 0.0)), math.sqrt(max(low.value, 0.0))
    if longest > EXCESS * spectrum.s_max:
        said = f"is wrong: M stretches some vector {_times(longest / spectrum.s_max)} as much as its s_max allows"
    elif spectrum.resolved and 0 < EXCESS * shortest < spectrum.s_min:
        said = f"is wrong: M shrinks some vector {_times(spectrum.s_min / shortest)} as much as its s_min allows"
    elif spectrum.s_max > FAR * longest > 0:
        said = f"makes steps too short: its s_max is about {_times(spectrum.s_max / longest)} the norm of M"
    else:
        return ""
    return f"The given `spectrum` {said}. Correct it, or leave it out to have it estimated."


def _times(ratio: float) -> str:
    return f"{ratio:.2g} times" if ratio < 10 else f"{ratio:,.0f} times"
