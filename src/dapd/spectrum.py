"""The singular values the theory needs, each with how it was found, at what cost and how surely.

Bounds are safe: s_max errs upwards and s_min downwards. Exact (dense eigenvalues or singular values) up to
EXACT rows; beyond that a Lanczos process without reorthogonalisation, which keeps three vectors, so that memory stays
proportional to M, and bounds its own error by the last component of each Ritz vector.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from dapd.arguments import named, number, partition
from dapd.arrays import Array
from dapd.operators import ColumnBlocks, Dense, Kronecker, Operator, Sparse, as_operator, pieces

EXACT = 3_000  # rows (or columns, if fewer) up to which dense linear algebra is used
PRODUCTS = 2_000  # products with M or Mᵀ that an iterative estimate may spend
STACK = 4_000_000  # entries of blocks whose norms are computed together
SVD_ENTRIES = 50_000_000  # entries of M up to which singular values are computed without squaring
RESOLVED = 0.05  # relative error bound on a squared singular value at which Lanczos stops
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
        At most the least of the singular values that belong to the rows; 0 when the rows are dependent.
    s_bar_max : float, optional
        At least the greatest singular value of any block of columns.
    """

    s_max: float
    s_min: float
    s_bar_max: float | None = None
    s_min_positive: float | None = (
        None  # at most the least positive singular value; s_min where the rows are independent
    )
    how: dict[str, Estimate] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        number("s_max", self.s_max, above=0.0)
        number("s_min", self.s_min, least=0.0)
        if self.s_min > self.s_max:
            raise ValueError(f"s_min must not exceed s_max, found {self.s_min:g} and {self.s_max:g}")
        if self.s_bar_max is not None:
            number("s_bar_max", self.s_bar_max, above=0.0)
        if self.s_min_positive is None and self.s_min > 0:
            object.__setattr__(self, "s_min_positive", self.s_min)

    @property
    def full_row_rank(self) -> bool:
        """Whether the rows of M are independent, as far as numbers can tell."""
        return self.s_min > 0

    @property
    def products(self) -> int:
        """Products with M or Mᵀ spent on all of it."""
        return sum(estimate.products for estimate in self.how.values())


@named
def estimate_spectrum(M: Any, blocks: int | list[slice] | None = None) -> Spectrum:
    """Estimate the singular values of M, and of its blocks of columns where `blocks` says what they are."""
    operator = as_operator(M)
    if isinstance(operator, ColumnBlocks) and blocks is None:
        blocks = operator.blocks
    found = _whole(operator)
    if blocks is None:
        return found
    greatest, how = _block_norm(operator, partition("blocks", blocks, operator.shape[1]))
    return Spectrum(found.s_max, found.s_min, greatest, found.s_min_positive, how={**found.how, "s_bar_max": how})


def with_block_norm(spectrum: Spectrum | None, M: Operator, blocks: list[slice]) -> Spectrum:
    """A spectrum that knows s_bar_max of these blocks, whatever it knew before."""
    if spectrum is None:
        return estimate_spectrum(M, blocks)
    if spectrum.s_bar_max is not None:
        return spectrum
    greatest, how = _block_norm(M, blocks)
    return replace(spectrum, s_bar_max=greatest, how={**spectrum.how, "s_bar_max": how})


def singular_range(operator: Operator) -> tuple[float, float]:
    """Safe bounds on the least and the greatest of the min(rows, columns) singular values."""
    found = _whole(operator if operator.shape[0] <= operator.shape[1] else operator.transposed())
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


def _whole(operator: Operator) -> Spectrum:
    if isinstance(operator, Kronecker):
        return _kronecker(operator)
    affordable = isinstance(operator, (Dense, Sparse, ColumnBlocks)) or min(operator.shape) <= PRODUCTS
    if min(operator.shape) <= EXACT and affordable:
        return _exact(operator)
    return _iterative(operator)


def _kronecker(operator: Kronecker) -> Spectrum:
    """The singular values of A ⊗ B are the products of those of A and of B."""
    parts = [_whole(factor) for factor in operator.factors()]
    how = {
        key: Estimate(
            "product over the Kronecker factors; " + parts[0].how[key].method,
            0,
            sum(part.how[key].residual for part in parts),
        )
        for key in ("s_max", "s_min")
    }
    return Spectrum(
        float(np.prod([part.s_max for part in parts])),
        float(np.prod([part.s_min for part in parts])),
        s_min_positive=float(np.prod([part.s_min_positive or 0.0 for part in parts])),
        how=how,
    )


def _exact(operator: Operator) -> Spectrum:
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
    positive = np.flatnonzero(values > zero)[0]
    independent = rows <= columns and positive == 0
    relative = float(values[positive] - low[positive]) / float(values[positive])
    how = {
        "s_max": Estimate(method, products, float(high / values[-1] - 1)),
        "s_min": Estimate(method, 0, relative),
    }
    least = float(low[positive])
    return Spectrum(float(high), least if independent else 0.0, s_min_positive=least, how=how)


class _Ritz(NamedTuple):
    value: float  # a Ritz value
    error: float  # an eigenvalue lies this near to it


def _iterative(operator: Operator) -> Spectrum:
    rows, columns = operator.shape
    wide = operator if rows <= columns else operator.transposed()

    def square(v: Array) -> Array:
        return wide.forward(wide.adjoint(v))

    low, high, steps = _lanczos(square, _start(wide.shape[0]), PRODUCTS // 2)
    dependent = low.value <= NEGLIGIBLE * high.value
    if dependent:
        # from a start in the range of M the process sees the positive singular values alone
        start = wide.forward(_start(wide.shape[1]))
        floor = 100 * NEGLIGIBLE * high.value
        low, _, more = _lanczos(square, start / np.linalg.norm(start), PRODUCTS // 2, floor=floor)
    else:
        more = 0
    resolved = low.error <= 0.2 * low.value
    if not resolved:
        warnings.warn(
            f"the least singular value was not resolved in {2 * (steps + more)} products (it is at most "
            f"{low.value**0.5:.3g}); half of that is used. Pass spectrum=Spectrum(s_max, s_min) if you know it",
            SpectrumWarning,
            stacklevel=4,
        )
    least = ((low.value - low.error) if resolved else low.value / 4) ** 0.5
    greatest = (high.value + high.error) ** 0.5
    how = {
        "s_max": Estimate("Lanczos", 2 * steps, high.error / high.value / 2),
        "s_min": Estimate("Lanczos", 2 * more, low.error / low.value / 2),
    }
    independent = rows <= columns and not dependent
    return Spectrum(greatest, least if independent else 0.0, s_min_positive=least, how=how)


def _lanczos(
    apply: Callable[[Array], Array], start: Array, limit: int, *, floor: float = -np.inf
) -> tuple[_Ritz, _Ritz, int]:
    """Return the extreme Ritz values (the least one above `floor`) and the steps taken."""
    diagonal: list[float] = []
    beside: list[float] = []
    before, v, beta = np.zeros_like(start), start, 0.0
    settled = 0
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
            values, vectors = scipy.linalg.eigh_tridiagonal(diagonal, beside[:-1])
            errors = np.abs(beta * vectors[-1])
            first = min(int(np.searchsorted(values, floor)), steps - 1)
            low = _Ritz(float(values[first]), float(errors[first]))
            high = _Ritz(float(values[-1]), float(errors[-1]))
            done = low.error <= RESOLVED * abs(low.value) and high.error <= RESOLVED / 10 * high.value
            # a Ritz value may rest near an eigenvalue before it finds the extreme one: wait for a second look
            settled = settled + 1 if done else 0
            if over or settled == 3 or (floor == -np.inf and abs(low.value) <= NEGLIGIBLE * high.value):
                return low, high, steps
        before, v = v, w / beta


def _start(size: int) -> Array:
    """A fixed random unit vector."""
    v = np.random.default_rng(0).standard_normal(size)
    return v / float(np.linalg.norm(v))


def _block_norm(operator: Operator, blocks: list[slice]) -> tuple[float, Estimate]:
    """The greatest norm of a block of columns."""
    method = "the greatest of the blocks' norms"
    matrices = pieces(operator, blocks)
    if matrices is not None and all(_small(matrix.shape) for matrix in matrices):
        return _stacked_norm(matrices), Estimate(method, 0, 4 * EXACT * float(np.finfo(np.float64).eps))
    found = [_norm(operator.columns(block)) for block in blocks]
    value, _, residual = max(found)
    return value, Estimate(method, sum(products for _, products, _ in found), residual)


def _small(shape: tuple[int, int]) -> bool:
    """Whether a block may be made dense and its Gram matrix decomposed."""
    return min(shape) <= EXACT and shape[0] * shape[1] <= SVD_ENTRIES


def _stacked_norm(matrices: list[Any]) -> float:
    """The greatest ‖B_i‖ from above: the Gram matrices of blocks of one width are decomposed together."""
    greatest = 0.0
    for width in {matrix.shape[1] for matrix in matrices}:
        alike = [matrix for matrix in matrices if matrix.shape[1] == width]
        together = max(1, STACK // (width * alike[0].shape[0]))
        for k in range(0, len(alike), together):
            stack = np.stack([m.toarray() if sp.issparse(m) else m for m in alike[k : k + together]]).astype(np.float64)
            turned = stack.transpose(0, 2, 1)
            gram = turned @ stack if width <= stack.shape[1] else stack @ turned
            greatest = max(greatest, float(np.linalg.eigvalsh(gram)[:, -1].max()))
    return float((greatest * (1 + 4 * EXACT * float(np.finfo(np.float64).eps))) ** 0.5)


def _norm(operator: Operator) -> tuple[float, int, float]:
    """‖M‖ from above, with its cost in products and its relative error."""
    wide = operator if operator.shape[0] <= operator.shape[1] else operator.transposed()
    size = wide.shape[0]
    if isinstance(wide, (Dense, Sparse)) and size <= EXACT:
        square = float(scipy.linalg.eigvalsh(wide.outer(), subset_by_index=[size - 1, size - 1])[0])
        relative = 4 * size * float(np.finfo(np.float64).eps)
        return (square * (1 + relative)) ** 0.5, 0, relative
    found = _whole(wide)
    return found.s_max, found.products, found.how["s_max"].residual
