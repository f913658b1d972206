"""Singular values by a Lanczos process on MMᵀ, which stores three vectors and estimates its own error."""

from __future__ import annotations

import math

import numpy as np

from dapd.arrays import Array
from dapd.operators.base import Operator, check_adjoint
from dapd.spectrum.lanczos import NEGLIGIBLE, LanczosSearch, extremes, random_start
from dapd.spectrum.record import TOO_SMALL, Estimate, Spectrum, zero_spectrum

PRODUCTS = 2_000  # products with M or Mᵀ that an iterative estimate may spend
UNRESOLVED = 0.04  # relative error of a squared singular value from which it counts as unresolved: 10 % with the margin
MARGIN = 0.04  # subtracted (relatively) from an unproven s_min, in case of an undiscovered eigenvalue just below
MARGIN_ABOVE = 0.005  # added to an iterative s_max for the same reason


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
