"""The singular values that the theory needs; for each, how it was found, its cost and its error.

s_max is never too small and s_min never too large. This file chooses an approach; each approach has its own file.
"""

from __future__ import annotations

import math
from typing import Any, TypeVar

from dapd.arguments import named, partition, warn
from dapd.machine.blas import MANY, single_blas
from dapd.machine.rates import FACTORISATION
from dapd.operators.base import Operator
from dapd.operators.convert import as_operator
from dapd.spectrum.deadline import check_deadline
from dapd.spectrum.exact import exact
from dapd.spectrum.factored import Full, least_eigenvalue
from dapd.spectrum.lanczos import PRODUCTS, iterative
from dapd.spectrum.parts import block_norm, has_parts, spectrum_of_parts
from dapd.spectrum.record import Estimate, Spectrum, SpectrumWarning, zero_spectrum
from dapd.spectrum.sparse import STEPS_BEFORE_FACTOR, sparse, with_least
from dapd.spectrum.symmetric import symmetric_extremes

__all__ = [
    "Estimate",
    "Spectrum",
    "SpectrumWarning",
    "estimate_norm",
    "estimate_range",
    "estimate_spectrum",
    "singular_range",
    "symmetric_extremes",
    "with_block_norm",
]

T = TypeVar("T")

EXACT = 3_000  # rows (or columns, if fewer) of a dense M up to which all its singular values are computed
EXACT_SPARSE = 400  # rows (or columns, if fewer) of a sparse M up to which all its singular values are computed
FULL_ROWS = 6_000  # rows of a dense M up to which MMᵀ is formed if Lanczos does not resolve s_min
PROBE_ENTRIES = 4_000_000  # entries of a matrix-free M up to which its matrix is computed


@named
def estimate_spectrum(
    M: Any, blocks: int | list[slice] | None = None, *, positive: bool = False, deadline: float = math.inf
) -> Spectrum:
    """Estimate the singular values of M, and the norm of its blocks of columns if `blocks` is given.

    Parameters
    ----------
    M : array, sparse matrix, LinearOperator or operator of this package
        The matrix or map. An operator (such as `problem.M`) remembers the result.
    blocks : int or list of slices, optional
        The blocks of columns.
    positive : bool
        Whether s_min is the least positive singular value, which is enough for a problem of equations (φ linear).
    deadline : float
        A value of `time.perf_counter()`; `dapd.arguments.TimeUp` is raised if the estimate cannot end before it.
    """
    operator = as_operator(M)
    blocks = operator.column_partition if blocks is None else blocks
    found = estimate_range(operator, positive=positive, deadline=deadline)
    if blocks is None:
        return found
    return with_block_norm(found, operator, partition("blocks", blocks, operator.shape[1]), deadline=deadline)


def estimate_range(operator: Operator, *, positive: bool, deadline: float = math.inf) -> Spectrum:
    """s_max and s_min, without the norm of blocks.

    M = 0 gives Spectrum(1, 0), with `positive` Spectrum(1, 1): there is no positive singular value to bound.
    """

    def find() -> Spectrum:
        with single_blas(_multiplications(operator), MANY):
            return _whole(operator, "M", positive=positive, deadline=deadline)

    found = operator.memory.once(estimate_range, positive, find)
    if not found.resolved:
        warn(
            f"the least singular value was not resolved in {found.products} products; s_min = {found.s_min:.3g} is "
            "half of the least value seen. Pass spectrum=dapd.Spectrum(s_max, s_min) if you know better",
            SpectrumWarning,
        )
    return found


def estimate_norm(operator: Operator, *, deadline: float = math.inf) -> Spectrum:
    """s_max, with s_min = 0, for methods that need only s_max; both if that is cheap."""
    if _small(operator) or has_parts(operator) or min(operator.shape) == 0:
        return estimate_range(operator, positive=False, deadline=deadline)

    def find() -> Spectrum:
        with single_blas(_multiplications(operator), MANY):
            return iterative(operator, "M", positive=False, least=False, deadline=deadline)

    return operator.memory.once(estimate_norm, None, find)


def norm_alone(operator: Operator, *, deadline: float = math.inf) -> Spectrum:
    """s_max, for methods that have no use for s_min: singular values are not computed for its sake."""
    if not _small(operator) or has_parts(operator) or min(operator.shape) == 0:
        return estimate_norm(operator, deadline=deadline)

    def find() -> Spectrum:
        with single_blas(_multiplications(operator), MANY):
            return exact(operator, "M", positive=False, svd_entries=0, deadline=deadline)

    return operator.memory.once(norm_alone, None, find)


def with_block_norm(spectrum: Spectrum, M: Operator, blocks: list[slice], *, deadline: float = math.inf) -> Spectrum:
    """The spectrum with s_bar_max for these blocks."""
    if spectrum.s_bar_max is not None:
        return spectrum

    def norm(part: Operator) -> Spectrum:
        return estimate_norm(part, deadline=deadline)

    greatest, how = M.memory.once(block_norm, repr(blocks), lambda: block_norm(M, blocks, norm, deadline))
    return Spectrum(spectrum.s_max, spectrum.s_min, greatest, how={**spectrum.how, "s_bar_max": how})


def singular_range(operator: Operator, *, name: str, deadline: float = math.inf) -> tuple[float, float]:
    """Safe bounds on the least and the greatest of the min(rows, columns) singular values; 0 if unresolved."""
    wide = operator if operator.shape[0] <= operator.shape[1] else operator.transposed()
    with single_blas(_multiplications(wide), MANY):
        found = _whole(wide, name, positive=False, deadline=deadline)
    return found.s_min if found.resolved else 0.0, found.s_max


LANCZOS_STEPS = 100  # steps of Lanczos that a sparse matrix usually takes


def _multiplications(operator: Operator) -> float:
    """An estimate of the multiplications in BLAS; inf for matrix-free products, which may do anything."""
    if operator.probes > 0:
        return math.inf
    if operator.sparse() is not None:
        return float(LANCZOS_STEPS * operator.work)
    return float(min(operator.shape)) ** 2 * max(operator.shape)


def _small(operator: Operator) -> bool:
    """Whether dense linear algebra is the cheapest approach."""
    if operator.probes or min(operator.shape) > max(EXACT, EXACT_SPARSE):  # a sparse matrix of blocks takes time
        return False
    return min(operator.shape) <= (EXACT if operator.sparse() is None else EXACT_SPARSE)


def _whole(operator: Operator, name: str, *, positive: bool, deadline: float) -> Spectrum:
    """s_max and s_min by the cheapest approach."""
    if min(operator.shape) == 0:
        return zero_spectrum(operator.shape[0], positive=positive)

    def part(factor: Operator) -> Spectrum:
        return _whole(factor, name, positive=positive, deadline=deadline)

    if has_parts(operator):
        return spectrum_of_parts(operator, part, positive=positive)
    writable = 0 < operator.probes <= PRODUCTS and operator.shape[0] * operator.shape[1] <= PROBE_ENTRIES
    if _small(operator) or writable:
        return exact(operator, name, positive=positive, deadline=deadline)
    matrix = operator.sparse()
    if matrix is not None:
        return sparse(operator, matrix, name, positive=positive, deadline=deadline)
    if operator.probes == 0 and min(operator.shape) <= FULL_ROWS:
        return _dense(operator, name, positive=positive, deadline=deadline)
    return iterative(operator, name, positive=positive, deadline=deadline)


def _dense(operator: Operator, name: str, *, positive: bool, deadline: float) -> Spectrum:
    """Lanczos, then a Cholesky factor of the smaller Gram matrix if that does not resolve s_min."""
    found = iterative(operator, name, positive=positive, steps=STEPS_BEFORE_FACTOR, deadline=deadline)
    if found.resolved:
        return found
    wide = operator if operator.shape[0] <= operator.shape[1] else operator.transposed()
    check_deadline(deadline, wide.shape[0] * wide.work / FACTORISATION.dense)
    least = least_eigenvalue(Full(wide.outer(), found.s_max**2), positive=positive, deadline=deadline)
    return with_least(found, least, "dense Cholesky factor of MMᵀ")
