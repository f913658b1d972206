"""The part of f whose prox is known in closed form, and the rest, which methods linearise."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dapd.arrays import Array, namespace
from dapd.functions.base import Function
from dapd.functions.composed import Composite
from dapd.functions.terms import Part, Terms, by_vector


class Proximable(NamedTuple):
    """f(x) = ½Σ hⱼxⱼ² − cᵀx + rest(x)."""

    curvature: Array | None  # h; None if it is zero
    c: Array | None
    rest: Function | None  # None if it is zero


class PrimalProx(NamedTuple):
    """The prox of ½Σ hⱼxⱼ² − cᵀx between bounds; each part may be absent, and a vector or one number."""

    curvature: Any = None
    c: Any = None
    lower: Any = None
    upper: Any = None

    def __call__(self, v: Array, step: Any) -> Array:
        """The x that minimises ½Σ hⱼxⱼ² − cᵀx + ‖x − v‖²/(2·step) between the bounds."""
        if self.c is not None:
            v = v + step * self.c
        return self._clipped(v if self.curvature is None else v / (1 + step * self.curvature))

    def minimiser(self, slope: Array) -> Array:
        """The x that minimises ½Σ hⱼxⱼ² − cᵀx + slopeᵀx between the bounds, for h > 0."""
        return self._clipped((-slope if self.c is None else self.c - slope) / self.curvature)

    def _clipped(self, v: Array) -> Array:
        xp = namespace(v)
        v = v if self.lower is None else xp.maximum(v, self.lower)
        return v if self.upper is None else xp.minimum(v, self.upper)

    def in_dtype(self, dtype: Any) -> PrimalProx:
        """The same in another precision."""
        return PrimalProx(*(None if v is None else np.asarray(v, dtype) for v in self))


def proximable(f: Function, size: int) -> Proximable:
    """Divide f of `size` variables."""
    parts = f.parts(size)
    if parts is None:
        return Proximable(None, None, f)
    h, c, rests = zip(*map(_divided, parts), strict=True)
    curvature, linear = np.concatenate(h), np.concatenate(c)
    return Proximable(
        curvature=curvature if curvature.any() else None,
        c=linear if linear.any() else None,
        rest=None if all(rest.L == 0 for rest in rests) else f.joined(rests),
    )


def _divided(part: Part) -> tuple[Array, Array, Function]:
    """The curvature, the linear part and the rest of the terms of some variables."""
    terms, size = by_vector(part.terms), part.size
    h = np.full(size, float(terms.ridge))
    c = np.zeros(size) if terms.c is None else np.array(terms.c, float)
    rest = Terms(loss=terms.loss, A=terms.A, d=terms.d, H=terms.H)
    if terms.H is not None and terms.H.ndim == 1:
        h, rest = h + terms.H, rest._replace(H=None)
    if terms.loss is not None and terms.loss.is_square and terms.A is None:
        h, c, rest = h + 1.0, c + terms.target, rest._replace(loss=None, d=None)
    if (rest.loss is None and rest.H is None) or part.L == 0:
        return h, c, Composite(Terms(), size, 0.0, 0.0)
    return h, c, Composite(rest, size, 0.0, None if part.L is None else part.L - min(float(h.min()), 0.5 * part.L))
