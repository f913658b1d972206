"""The optimality conditions, whose root is the solution: ∇f(x) + Mᵀy + z = 0, y = prox_{sφ}(y + s(Mx − b))."""

from __future__ import annotations

from typing import Any

from dapd.arrays import Array
from dapd.derivatives.data import Data
from dapd.derivatives.records import products_of
from dapd.kinds.by_rows import Interval


def residual(xp: Any, data: Data, x: Array, w: Array, steps: Array) -> tuple[Array, Array]:
    """What is left of the conditions at x and w, which is y, or (y, z) if x has bounds; steps are those of the prox.

    The root is the same for all steps > 0, but rounding must not decide which rows bind: so y and steps·(Mx − b)
    should be of similar size.
    """
    rows = data.b.shape[0]
    y, z = w[:rows], w[rows:]
    M = products_of(data.M)
    slope = data.f.grad(x) + M.adjoint(y)
    dual = y - data.phi.prox_by_rows(y + steps[:rows] * (M.forward(x) - data.b), steps[:rows])
    if data.lower is None:
        return slope, dual
    bounds = z - Interval.between(data.lower, data.upper).prox(z + steps[rows:] * x, steps[rows:])
    return slope + z, xp.concatenate([dual, bounds])
