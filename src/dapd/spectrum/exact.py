"""Dense linear algebra: all eigenvalues of the smaller Gram matrix, or all singular values."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import scipy.linalg

from dapd.arrays import EPSILON, Array
from dapd.machine.rates import FACTORISATION
from dapd.operators.base import Operator
from dapd.operators.explicit import Dense
from dapd.spectrum.deadline import check_deadline, timed
from dapd.spectrum.lanczos import NOT_NUMBERS
from dapd.spectrum.record import TOO_SMALL, Estimate, Spectrum, zero_spectrum

SVD_ENTRIES = 50_000_000  # entries of M up to which singular values are computed without squaring


def zero_level(shape: tuple[int, int], dtype: np.dtype) -> float:
    """The level, relative to s_max, below which a singular value counts as zero, in the precision of M or float64."""
    return float(max(10 * max(shape) ** 0.5 * float(np.finfo(dtype).eps), 8 * min(shape) * EPSILON))


class _Values(NamedTuple):
    """Computed singular values, in increasing order."""

    values: Array
    low: Array  # a lower bound on each of them
    high: float  # an upper bound on the last
    zero: float  # values up to this level count as zero
    method: str


def exact(
    operator: Operator, name: str, *, positive: bool, svd_entries: int = SVD_ENTRIES, deadline: float = math.inf
) -> Spectrum:
    """s_max and s_min up to rounding; a value that may be zero up to rounding counts as zero."""
    rows, columns = operator.shape
    size, length = sorted(operator.shape)
    check_deadline(deadline, size**2 * (length + 2 * size) / FACTORISATION.dense)
    probes = operator.probes
    written = Dense(timed(operator, deadline).dense()) if probes else operator
    wide = written if rows <= columns else written.transposed()
    with np.errstate(over="ignore", invalid="ignore"):  # the check below gives a better message
        gram = wide.outer()
    if not np.isfinite(gram).all():
        raise ValueError(NOT_NUMBERS.format(name))
    if not gram.any():
        if wide.dense().any():
            raise ValueError(TOO_SMALL.format(name))
        return zero_spectrum(rows, positive=positive, products=probes)
    found = _from_gram(gram, zero_level(operator.shape, operator.dtype))
    # if squaring loses s_min, compute the singular values without it
    if found.values[0] <= 32 * found.zero and rows * columns <= svd_entries:
        check_deadline(deadline, 8 * size**2 * (length + size) / FACTORISATION.dense)
        found = _from_svd(wide.dense(), operator.dtype)
    first = int(np.flatnonzero(found.values > found.zero)[0])
    how = {
        "s_max": Estimate(found.method, probes, float(found.high / found.values[-1] - 1)),
        "s_min": Estimate(found.method, 0, float(1 - found.low[first] / found.values[first])),
    }
    dependent = rows > columns or first > 0
    return Spectrum(found.high, 0.0 if dependent and not positive else float(found.low[first]), how=how)


def _from_gram(gram: Array, level: float) -> _Values:
    squares = scipy.linalg.eigvalsh(gram, check_finite=False)
    error = 4 * len(gram) * EPSILON * squares[-1]
    low, high = np.sqrt(np.maximum(squares - error, 0.0)), float(np.sqrt(squares[-1] + error))
    zero = max(float(np.sqrt(2 * error)), level * high)
    return _Values(np.sqrt(np.maximum(squares, 0.0)), low, high, zero, "eigenvalues of the smaller Gram matrix")


def _from_svd(matrix: Array, dtype: np.dtype) -> _Values:
    values = scipy.linalg.svdvals(matrix.astype(np.float64), check_finite=False)[::-1]
    error = 4 * min(matrix.shape) * EPSILON * values[-1]
    high = float(values[-1] + error)
    # the level is at least twice the error, so subtracting the error leaves a larger value positive
    return _Values(values, values - error, high, zero_level(matrix.shape, dtype) * high, "singular values")
