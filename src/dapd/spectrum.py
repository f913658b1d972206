"""The singular values the theory needs, each with how it was found, at what cost and how surely.

Bounds are safe: s_max errs upwards and s_min downwards. Exact (dense eigenvalues or singular values) up to
EXACT rows; beyond that a Lanczos process without reorthogonalisation, which keeps three vectors, so that memory stays
proportional to M, and measures its own error (`_ritz`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from dapd.arguments import named, number, partition
from dapd.arrays import Array
from dapd.operators import ColumnBlocks, Dense, Kronecker, Operator, Sparse, as_operator

EXACT = 3_000  # rows (or columns, if fewer) up to which dense linear algebra is used
PRODUCTS = 2_000  # products with M or Mᵀ that an iterative estimate may spend
SVD_ENTRIES = 50_000_000  # entries of M up to which singular values are computed without squaring
RESOLVED = 0.05  # relative error bound on a squared singular value at which Lanczos stops
MARGIN = 0.04  # taken off an iterative s_min, for an eigenvalue not yet found just below
UNRESOLVED = 0.1  # relative error of a squared singular value that is too much
NEGLIGIBLE = 1e-12  # a squared singular value below this part of the greatest counts as zero in Lanczos


class SpectrumWarning(UserWarning):
    """A singular value could not be resolved in the products allowed."""


class Estimate(NamedTuple):
    """How one number of a Spectrum was obtained."""

    method: str  # in words
    products: int  # products with M or Mᵀ spent on it
    residual: float  # bound on the relative error of the number, before it was moved to the safe side


@dataclass(frozen=True)
class Spectrum:
    """Bounds on the singular values of M.

    Parameters
    ----------
    s_max : float
        At least the greatest singular value.
    s_min : float
        At most the least of the singular values that belong to the rows, so 0 when the rows are dependent. Where φ ≡ 0
        and y⁰ is in the range of M, the least positive one may stand here.
    s_bar_max : float, optional
        At least the greatest singular value of any block of columns.
    """

    s_max: float
    s_min: float
    s_bar_max: float | None = None
    how: dict[str, Estimate] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        number("s_max", self.s_max, above=0.0)
        number("s_min", self.s_min, least=0.0)
        if self.s_min > self.s_max:
            raise ValueError(f"s_min must not exceed s_max, found {self.s_min:g} and {self.s_max:g}")
        if self.s_bar_max is not None:
            number("s_bar_max", self.s_bar_max, above=0.0)

    @property
    def products(self) -> int:
        """Products with M or Mᵀ spent on all of it."""
        return sum(estimate.products for estimate in self.how.values())


@named
def estimate_spectrum(M: Any, blocks: int | list[slice] | None = None, *, positive: bool = False) -> Spectrum:
    """Estimate the singular values of M, and of its blocks of columns where `blocks` says what they are.

    With `positive`, s_min is the least positive singular value: all that a problem with φ ≡ 0 needs.
    """
    operator = as_operator(M)
    if isinstance(operator, ColumnBlocks) and blocks is None:
        blocks = operator.blocks
    found = _whole(operator, positive)
    if blocks is None:
        return found
    greatest, how = _block_norm(operator, partition("blocks", blocks, operator.shape[1]))
    return Spectrum(found.s_max, found.s_min, greatest, how={**found.how, "s_bar_max": how})


def singular_range(operator: Operator) -> tuple[float, float]:
    """Safe bounds on the least and the greatest of the min(rows, columns) singular values."""
    found = _whole(operator if operator.shape[0] <= operator.shape[1] else operator.transposed(), positive=False)
    return found.s_min, found.s_max


def symmetric_extremes(H: Any, *, name: str) -> tuple[float, float]:
    """Safe bounds on the eigenvalues of a symmetric dense or sparse matrix."""
    scale = abs(H).max()
    if abs(H - H.T).max() > 1e-10 * scale:
        raise ValueError(f"{name} must be symmetric; use ({name} + {name}.T)/2")
    size = H.shape[0]
    if size <= EXACT:
        values = scipy.linalg.eigvalsh(H.toarray() if sp.issparse(H) else H)
        error = size * np.finfo(np.float64).eps * max(abs(values[0]), abs(values[-1]))
        return float(values[0] - error), float(values[-1] + error)
    low, high, _ = _lanczos(lambda v: H @ v, _start(size), PRODUCTS)
    return low.value - low.error, high.value + high.error


def _whole(operator: Operator, positive: bool) -> Spectrum:
    if isinstance(operator, Kronecker):
        return _kronecker(operator, positive)
    affordable = isinstance(operator, (Dense, Sparse, ColumnBlocks)) or min(operator.shape) <= PRODUCTS
    if min(operator.shape) <= EXACT and affordable:
        return _exact(operator, positive)
    return _iterative(operator, positive)


def _kronecker(operator: Kronecker, positive: bool) -> Spectrum:
    """The singular values of A ⊗ B are the products of those of A and of B."""
    parts = [_whole(factor, positive) for factor in operator.factors()]
    how = {
        key: Estimate(
            "product over the Kronecker factors; " + parts[0].how[key].method,
            0,
            sum(part.how[key].residual for part in parts),
        )
        for key in ("s_max", "s_min")
    }
    s_max, s_min = (float(np.prod([getattr(part, key) for part in parts])) for key in ("s_max", "s_min"))
    return Spectrum(s_max, s_min, how=how)


def _exact(operator: Operator, positive: bool) -> Spectrum:
    rows, columns = operator.shape
    wide = operator if rows <= columns else operator.transposed()
    products = 0 if isinstance(operator, (Dense, Sparse, ColumnBlocks)) else min(operator.shape)
    if products:
        wide = Dense(wide.dense())
    squares = scipy.linalg.eigvalsh(wide.outer())
    epsilon = float(np.finfo(np.float64).eps)
    error = 4 * min(rows, columns) * epsilon * squares[-1]
    method = "eigenvalues of the smaller Gram matrix"
    if squares[0] <= 1e3 * error and rows * columns <= SVD_ENTRIES:
        method = "singular values"
        values = scipy.linalg.svdvals(wide.dense().astype(np.float64))[::-1]
        slack = 4 * min(rows, columns) * epsilon * values[-1]
        low, high = values - slack, values[-1] + slack
        zero = 10 * max(rows, columns) ** 0.5 * float(np.finfo(operator.dtype).eps) * values[-1]
    else:
        values = np.sqrt(np.maximum(squares, 0.0))
        low, high = np.sqrt(np.maximum(squares - error, 0.0)), np.sqrt(squares[-1] + error)
        zero = np.sqrt(2 * error)
    if values[-1] == 0.0:
        raise ValueError("M is zero: there is no coupling to solve for")
    first = int(np.flatnonzero(values > zero)[0])
    how = {
        "s_max": Estimate(method, products, float(high / values[-1] - 1)),
        "s_min": Estimate(method, 0, float(1 - low[first] / values[first])),
    }
    dependent = rows > columns or first > 0
    return Spectrum(float(high), 0.0 if dependent and not positive else float(low[first]), how=how)


class _Ritz(NamedTuple):
    value: float  # a Ritz value
    error: float  # how far the eigenvalue is from it


def _iterative(operator: Operator, positive: bool) -> Spectrum:
    rows, columns = operator.shape
    wide = operator if rows <= columns else operator.transposed()
    start, extra = _start(wide.shape[0]), 0
    if positive and rows <= columns:
        # from the range of M the process sees the positive singular values alone
        start, extra = wide.forward(_start(wide.shape[1])), 1
        start /= np.linalg.norm(start)
    limit = (PRODUCTS - extra) // 2
    low, high, steps = _lanczos(lambda v: wide.forward(wide.adjoint(v)), start, limit, positive=positive)
    dependent = rows > columns or low.value <= NEGLIGIBLE * high.value
    least = (1 - MARGIN) * max(low.value - low.error, 0.0) ** 0.5
    if dependent and not positive:
        least = 0.0
    elif low.error > UNRESOLVED * low.value:
        least = low.value**0.5 / 2
        warnings.warn(
            f"the least singular value was not resolved in {2 * steps} products (it is at most "
            f"{low.value**0.5:.3g}); half of that is used. Pass spectrum=Spectrum(s_max, s_min) if you know it",
            SpectrumWarning,
            stacklevel=5,
        )
    how = {
        "s_max": Estimate("Lanczos", 2 * steps + extra, high.error / high.value / 2),
        "s_min": Estimate("Lanczos, in the same run", 0, low.error / low.value / 2 if low.value > 0 else 0.0),
    }
    return Spectrum((high.value + high.error) ** 0.5, least, how=how)


def _lanczos(
    apply: Callable[[Array], Array], start: Array, limit: int, *, positive: bool = False
) -> tuple[_Ritz, _Ritz, int]:
    """Return the extreme Ritz values (with `positive` the least that does not count as zero) and the steps taken."""
    diagonal: list[float] = []
    beside: list[float] = []
    before, v, beta = np.zeros_like(start), start, 0.0
    since = limit  # the step from which the values have looked settled
    seen: list[tuple[int, float, float]] = []  # steps and the extreme Ritz values at earlier looks
    while True:
        w = apply(v) - beta * before
        alpha = float(v @ w)
        w -= alpha * v
        beta = float(np.linalg.norm(w))
        diagonal.append(alpha)
        beside.append(beta)
        steps = len(diagonal)
        # an invariant subspace: every Ritz value is an eigenvalue
        over = steps == limit or beta <= 1e-14 * max(map(abs, diagonal))
        if over or steps % max(10, steps // 10) == 0:
            values = scipy.linalg.eigvalsh_tridiagonal(diagonal, beside[:-1])
            first = min(int(np.searchsorted(values, 100 * NEGLIGIBLE * values[-1])), steps - 1) if positive else 0
            then = next((look for look in reversed(seen) if 2 * look[0] <= steps), (0, np.inf, -np.inf))
            low = _ritz(diagonal, beside, first, then[1])
            high = _ritz(diagonal, beside, steps - 1, then[2])
            seen.append((steps, low.value, high.value))
            done = low.error <= RESOLVED * abs(low.value) and high.error <= RESOLVED / 10 * high.value
            # a Ritz value may rest near an eigenvalue before it finds the extreme one: go on half as far again
            since = min(since, steps) if done else limit
            if over or steps >= 1.5 * since or abs(low.value) <= NEGLIGIBLE * high.value:
                return low, high, steps
        before, v = v, w / beta


def _ritz(diagonal: list[float], beside: list[float], index: int, then: float) -> _Ritz:
    """A Ritz value with its error: the residual of its vector, or where that is less, how far it came since `then`.

    In a cluster of eigenvalues the residual stays large long after the value is right; but there the value nears the
    edge as 1/steps², so that it has a third of the way since half the steps still to go.
    """
    value, vector = scipy.linalg.eigh_tridiagonal(diagonal, beside[:-1], select="i", select_range=(index, index))
    residual = abs(beside[-1] * float(vector[-1, 0]))
    return _Ritz(float(value[0]), min(residual, abs(then - float(value[0]))))


def _start(size: int) -> Array:
    """A fixed random unit vector."""
    v = np.random.default_rng(0).standard_normal(size)
    return v / float(np.linalg.norm(v))


def _block_norm(operator: Operator, blocks: list[slice]) -> tuple[float, Estimate]:
    """The greatest norm of a block of columns."""
    found = [_norm(operator.columns(block)) for block in blocks]
    value, _, residual = max(found)
    return value, Estimate("the greatest of the blocks' norms", sum(products for _, products, _ in found), residual)


def _norm(operator: Operator) -> tuple[float, int, float]:
    """‖M‖ from above, with its cost in products and its relative error."""
    wide = operator if operator.shape[0] <= operator.shape[1] else operator.transposed()
    size = wide.shape[0]
    if isinstance(wide, (Dense, Sparse)) and size <= EXACT:
        square = float(scipy.linalg.eigvalsh(wide.outer(), subset_by_index=[size - 1, size - 1])[0])
        relative = 4 * size * float(np.finfo(np.float64).eps)
        return (square * (1 + relative)) ** 0.5, 0, relative
    found = _whole(wide, positive=False)
    return found.s_max, found.products, found.how["s_max"].residual
