"""The singular values the theory needs, each with how it was found, at what cost and how surely.

s_max errs upwards and s_min downwards. Exact (dense eigenvalues or singular values) up to EXACT rows; beyond that a
Lanczos process without reorthogonalisation, which keeps three vectors, so that memory stays proportional to M, and
estimates its own error (`lanczos.py`). A value that it can't resolve is said to be so.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from dapd.arguments import named, number, partition, warn
from dapd.arrays import Array
from dapd.operators.base import ColumnBlocks, Dense, Operator, as_operator, pieces
from dapd.operators.structured import BlockDiagonal, Kronecker
from dapd.spectrum.lanczos import NEGLIGIBLE, NOT_NUMBERS, extremes, random_start

T = TypeVar("T")

NOTHING = "{} is zero, or too small to square; check it, or rescale"

EXACT = 3_000  # rows (or columns, if fewer) up to which dense linear algebra is used
PRODUCTS = 2_000  # products with M or Mᵀ that an iterative estimate may spend
STACK = 4_000_000  # entries of blocks whose norms are computed together
SVD_ENTRIES = 50_000_000  # entries of M up to which singular values are computed without squaring
PROBE_ENTRIES = 4_000_000  # entries of a matrix-free M up to which it is written out
UNRESOLVED = 0.1  # relative error of a squared singular value that is too much
MARGIN = 0.04  # taken off an iterative s_min, for an eigenvalue not yet found just below
MARGIN_ABOVE = 0.005  # added to an iterative s_max likewise


class SpectrumWarning(UserWarning):
    """A singular value could not be resolved in the products allowed."""


class Estimate(NamedTuple):
    """How one number of a Spectrum was obtained."""

    method: str  # in words
    products: int  # products with M or Mᵀ spent on it
    residual: float  # estimated relative error of the number, before it was moved to the safe side
    resolved: bool = True  # False: the number is a guess, on no safe side


@dataclass(frozen=True, init=False)
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
    s_bar_max: float | None
    how: dict[str, Estimate] = field(compare=False)

    @named
    def __init__(
        self, s_max: float, s_min: float, s_bar_max: float | None = None, *, how: dict[str, Estimate] | None = None
    ) -> None:
        values = {"s_max": number("s_max", s_max, above=0.0), "s_min": number("s_min", s_min, least=0.0)}
        if values["s_min"] > values["s_max"]:
            raise ValueError(f"s_min must not exceed s_max, found {s_min:g} and {s_max:g}")
        bar = None if s_bar_max is None else number("s_bar_max", s_bar_max, above=0.0)
        # the class is frozen for everybody else
        for name, value in {**values, "s_bar_max": bar, "how": how or {}}.items():
            object.__setattr__(self, name, value)

    @property
    def resolved(self) -> bool:
        """False where s_min is a guess."""
        return all(estimate.resolved for estimate in self.how.values())

    @property
    def products(self) -> int:
        """Products with M or Mᵀ spent on all of it."""
        return sum(estimate.products for estimate in self.how.values())


@named
def estimate_spectrum(M: Any, blocks: int | list[slice] | None = None, *, positive: bool = False) -> Spectrum:
    """Estimate the singular values of M, and of its blocks of columns where `blocks` says what they are.

    With `positive`, s_min is the least positive singular value: all that a problem with φ ≡ 0 needs. An operator
    (such as `problem.M`) remembers what was found.
    """
    operator = as_operator(M)
    if isinstance(operator, ColumnBlocks) and blocks is None:
        blocks = operator.blocks
    found = estimate_range(operator, positive=positive)
    return found if blocks is None else with_block_norm(found, operator, partition("blocks", blocks, operator.shape[1]))


def estimate_range(operator: Operator, *, positive: bool) -> Spectrum:
    """s_max and s_min, without a thought of blocks."""
    found = _remembered(operator, f"positive={positive}", lambda: _whole(operator, "M", positive=positive))
    if not found.resolved:
        warn(
            f"the least singular value was not resolved in {found.products} products; s_min = {found.s_min:.3g} is "
            "half of the least value seen. Pass spectrum=dapd.Spectrum(s_max, s_min) if you know better",
            SpectrumWarning,
        )
    return found


def estimate_norm(operator: Operator) -> Spectrum:
    """s_max alone, with s_min = 0, for the methods that need no more; all of it where that costs little."""
    if _explicit_and_small(operator) or isinstance(operator, (Kronecker, BlockDiagonal)):
        return estimate_range(operator, positive=False)
    return _remembered(operator, "norm", lambda: _iterative(operator, "M", positive=False, least=False))


def with_block_norm(spectrum: Spectrum, M: Operator, blocks: list[slice]) -> Spectrum:
    """The spectrum, knowing s_bar_max of these blocks."""
    if spectrum.s_bar_max is not None:
        return spectrum
    greatest, how = _remembered(M, f"norms of {blocks}", lambda: _block_norm(M, blocks))
    return Spectrum(spectrum.s_max, spectrum.s_min, greatest, how={**spectrum.how, "s_bar_max": how})


def singular_range(operator: Operator, *, name: str) -> tuple[float, float]:
    """Safe bounds on the least and the greatest of the min(rows, columns) singular values; 0 where unresolved."""
    wide = operator if operator.shape[0] <= operator.shape[1] else operator.transposed()
    found = _whole(wide, name, positive=False)
    return found.s_min if found.resolved else 0.0, found.s_max


def symmetric_extremes(H: Any, *, name: str) -> tuple[float, float]:
    """Safe bounds on the eigenvalues of a symmetric dense or sparse matrix; the lower is 0 where unresolved."""
    epsilon = float(np.finfo(H.dtype).eps)
    if abs(H - H.T).max() > max(1e-10, 100 * epsilon) * abs(H).max():
        raise ValueError(f"{name} must be symmetric; use ({name} + {name}.T)/2")
    size = H.shape[0]
    if size <= EXACT:
        values = scipy.linalg.eigvalsh((H.toarray() if sp.issparse(H) else H).astype(np.float64))
        error = size * np.finfo(np.float64).eps * max(abs(values[0]), abs(values[-1]))
        return float(values[0] - error), float(values[-1] + error)
    low, high, _ = extremes(lambda v: H @ v, lambda turn: random_start(size, turn), PRODUCTS, name)
    settled = low.error <= UNRESOLVED * abs(low.value)
    least = (1 - 2 * MARGIN) * (low.value - low.error) if settled else 0.0
    return least, (1 + 2 * MARGIN_ABOVE) * (high.value + high.error)


def _remembered(operator: Operator, key: str, find: Callable[[], T]) -> T:
    """What was found before for this operator, or what `find` finds now."""
    if key not in operator.memory:
        operator.memory[key] = find()
    found: T = operator.memory[key]
    return found


def _explicit_and_small(operator: Operator) -> bool:
    return operator.probes == 0 and min(operator.shape) <= EXACT


def _whole(operator: Operator, name: str, *, positive: bool) -> Spectrum:
    if isinstance(operator, Kronecker):
        return _kronecker(operator, name, positive)
    if isinstance(operator, BlockDiagonal):
        return _block_diagonal(operator, name, positive)
    writable = operator.probes <= PRODUCTS and operator.shape[0] * operator.shape[1] <= PROBE_ENTRIES
    if _explicit_and_small(operator) or writable:
        return _exact(operator, name, positive)
    return _iterative(operator, name, positive=positive)


def _kronecker(operator: Kronecker, name: str, positive: bool) -> Spectrum:
    """The singular values of A ⊗ B are the products of those of A and of B."""
    parts = [_whole(factor, name, positive=positive) for factor in operator.factors()]
    how = {
        key: Estimate(
            "product over the Kronecker factors; " + parts[0].how[key].method,
            0,
            sum(part.how[key].residual for part in parts),
            all(part.how[key].resolved for part in parts),
        )
        for key in ("s_max", "s_min")
    }
    s_max, s_min = (math.prod(getattr(part, key) for part in parts) for key in ("s_max", "s_min"))
    return Spectrum(s_max, s_min, how=how)


def _block_diagonal(operator: BlockDiagonal, name: str, positive: bool) -> Spectrum:
    """The singular values of all blocks."""
    parts = [_whole(part, name, positive=positive) for part in operator.parts() if part.matrix.any()]
    if not parts:
        raise ValueError(NOTHING.format(name))
    high, low = max(parts, key=lambda part: part.s_max), min(parts, key=lambda part: part.s_min)
    how = {
        key: part.how[key]._replace(method="over the blocks; " + part.how[key].method)
        for key, part in (("s_max", high), ("s_min", low))
    }
    dependent = len(parts) < len(operator.matrices) and not positive  # a block of zeros
    return Spectrum(high.s_max, 0.0 if dependent else low.s_min, how=how)


def _exact(operator: Operator, name: str, positive: bool) -> Spectrum:
    rows, columns = operator.shape
    probes = operator.probes
    written = Dense(operator.dense()) if probes else operator
    wide = written if rows <= columns else written.transposed()
    with np.errstate(over="ignore", invalid="ignore"):  # said better below
        gram = wide.outer()
    squares = _squared(gram, name)
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
    first = int(np.flatnonzero(values > zero)[0])
    how = {
        "s_max": Estimate(method, probes, float(high / values[-1] - 1)),
        "s_min": Estimate(method, 0, float(1 - low[first] / values[first])),
    }
    dependent = rows > columns or first > 0
    return Spectrum(float(high), 0.0 if dependent and not positive else float(low[first]), how=how)


def _squared(gram: Array, name: str) -> Array:
    """The eigenvalues of a Gram matrix, if its entries are numbers and not all zero."""
    if not np.isfinite(gram).all():
        raise ValueError(NOT_NUMBERS.format(name))
    if not gram.any():
        raise ValueError(NOTHING.format(name))
    return scipy.linalg.eigvalsh(gram)


def _iterative(operator: Operator, name: str, *, positive: bool, least: bool = True) -> Spectrum:
    rows, columns = operator.shape
    wide = operator if rows <= columns else operator.transposed()
    extra = 0

    def start(turn: int) -> Array:
        nonlocal extra
        if not (positive and rows <= columns):
            return random_start(wide.shape[0], turn)
        # from the range of M the process sees the positive singular values alone
        extra += 1
        v = wide.forward(random_start(wide.shape[1], turn))
        return v / (np.linalg.norm(v) or 1.0)

    low, high, steps = extremes(
        lambda v: wide.forward(wide.adjoint(v)), start, (PRODUCTS - 1) // 2, name, positive=positive, least=least
    )
    if high.value <= 0:
        raise ValueError(NOTHING.format(name))
    s_max = (1 + MARGIN_ABOVE) * (high.value + high.error) ** 0.5
    how = {"s_max": Estimate("Lanczos", 2 * steps + extra, high.error / high.value / 2)}
    if not least:
        return Spectrum(s_max, 0.0, how=how)
    dependent = rows > columns or low.value <= NEGLIGIBLE * high.value
    if dependent and not positive:
        how["s_min"] = Estimate("Lanczos, in the same run", 0, 0.0)
        return Spectrum(s_max, 0.0, how=how)
    resolved = low.error <= UNRESOLVED * low.value
    how["s_min"] = Estimate("Lanczos, in the same run", 0, low.error / low.value / 2, resolved)
    s_min = (1 - MARGIN) * (low.value - low.error) ** 0.5 if resolved else low.value**0.5 / 2
    return Spectrum(s_max, s_min, how=how)


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
    if _explicit_and_small(wide):
        square = float(scipy.linalg.eigvalsh(wide.outer(), subset_by_index=[size - 1, size - 1])[0])
        relative = 4 * size * float(np.finfo(np.float64).eps)
        return (square * (1 + relative)) ** 0.5, 0, relative
    found = estimate_norm(wide)
    return found.s_max, found.products, found.how["s_max"].residual
