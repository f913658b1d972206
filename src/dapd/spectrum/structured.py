"""Kronecker products and block-diagonal matrices, whose singular values are those of their parts."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import singledispatch

from dapd.operators.base import Operator
from dapd.operators.structured import BlockDiagonal, Kronecker
from dapd.spectrum.record import Estimate, Spectrum, zero_spectrum

Find = Callable[[Operator], Spectrum]


@singledispatch
def spectrum_of_parts(operator: Operator, find: Find, *, positive: bool) -> Spectrum:
    """The singular values of a map that has parts, from those that `find` returns for the parts."""
    raise TypeError(f"the singular values of {operator!r} are not those of parts")


def has_parts(operator: Operator) -> bool:
    """Whether `spectrum_of_parts` knows this kind of map."""
    return spectrum_of_parts.dispatch(type(operator)) is not spectrum_of_parts.dispatch(Operator)


@spectrum_of_parts.register
def _kronecker(operator: Kronecker, find: Find, *, positive: bool) -> Spectrum:
    """The singular values of A ⊗ B are the products of those of A and of B."""
    factors = operator.factors()
    if any(not factor.matrix.any() for factor in factors):
        return zero_spectrum(operator.shape[0], positive=positive)
    parts = [find(factor) for factor in factors]
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


@spectrum_of_parts.register
def _block_diagonal(operator: BlockDiagonal, find: Find, *, positive: bool) -> Spectrum:
    """The singular values of diag(M_1, …, M_N) are those of all blocks."""
    parts = [find(part) for part in operator.parts() if part.matrix.any()]
    if not parts:
        return zero_spectrum(operator.shape[0], positive=positive)
    high, low = max(parts, key=lambda part: part.s_max), min(parts, key=lambda part: part.s_min)
    how = {
        key: part.how[key]._replace(method="over the blocks; " + part.how[key].method)
        for key, part in (("s_max", high), ("s_min", low))
    }
    dependent = len(parts) < len(operator.matrices) and not positive  # a block of zeros
    return Spectrum(high.s_max, 0.0 if dependent else low.s_min, how=how)
