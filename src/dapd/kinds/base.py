"""The dual term φ: `value` (inf outside the domain), `prox`, and φ* (`conjugate`), which is what it adds to the primal.

Every class is stateless and works on NumPy and JAX arrays alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dapd.arrays import Array
from dapd.kinds.lowered import Pieces

FARTHER = 9  # powers of ten, from one rounding on, by which a point is moved into a domain
NEARBY = 1e-12  # the prox with this step is a projection onto the domain up to this times a subgradient


class Phi:
    """A closed convex φ with a prox. Subclass it with `value(y)` and `prox(v, step)` to bring your own.

    `prox` gets a read-only v and one step, and returns a new real array of the same shape. `size` is the number of rows
    φ is made for (None: any). `conjugate(z)` is φ*(z); `recession(d)` is the slope of φ along d at infinity, and
    `conjugate_recession(w)` that of φ*. They are optional: without `conjugate` the objective of a result is known only
    if it is optimal, and without the others a solve of an infeasible or unbounded problem ends at its limit instead of
    with that status.
    """

    size: int | None = None

    @property
    def is_zero(self) -> bool:
        """Whether φ ≡ 0, the case of equality constraints."""
        return False

    @property
    def is_linear(self) -> bool:
        """Whether φ(y) = lᵀy, the case of the equations Mx − b = l: then y stays in the range of M."""
        return self.is_zero

    @property
    def row_steps(self) -> bool:
        """Whether `prox` takes a vector of steps, one per row. A φ of your own need not."""
        return False

    def pooled(self, sizes: Array) -> Array:
        """The sizes of the rows, equal in rows that are measured together."""
        return sizes

    def steps(self, dual: Array, primal: Array) -> Any:
        """A prox step near dual/primal: one per row if `prox` takes them, else one for all."""
        return dual / primal if self.row_steps else float(np.linalg.norm(dual) / np.linalg.norm(primal))

    def value(self, y: Array) -> float:
        """φ(y), inf outside the domain; nan if unknown."""
        return np.nan

    def prox(self, v: Array, step: Any) -> Array:
        """argmin_y φ(y) + ‖y − v‖²/(2·step)."""
        raise TypeError(f"{type(self).__name__} has no prox(v, step); a φ needs one")

    def conjugate(self, z: Array) -> float:
        """φ*(z) = sup_y zᵀy − φ(y); nan if unknown."""
        return np.nan

    def conjugate_near(self, v: Array, step: Any) -> float:
        """φ*(z) at z = (v − p)/step with p = prox(v, step): finite, since z ∈ ∂φ(p); nan if φ has no value."""
        p = self.prox(v, step)
        return float(np.sum(p * ((v - p) / step))) - value_inside(self.value, p, v)

    def value_at_prox(self, v: Array, step: Any) -> float:
        """φ at p = prox(v, step), where it is finite; if rounding took p out of dom φ, a little farther from v."""
        return value_inside(self.value, self.prox(v, step), v)

    def recession(self, d: Array) -> float:
        """Lim φ(y + td)/t for t → ∞; nan if unknown."""
        return np.nan

    def conjugate_recession(self, w: Array) -> float:
        """Lim φ*(z + tw)/t for t → ∞; nan if unknown."""
        return np.nan

    def project_recession(self, d: Array) -> Array:
        """The direction nearest to d along which φ stays finite: that itself if this is not known."""
        return d

    def project_conjugate_recession(self, w: Array) -> Array:
        """The direction nearest to w along which φ* stays finite: that itself if this is not known."""
        return w

    def ends(self, rows: int) -> tuple[Array, Array]:
        """The least positive number that φ compares each entry of Mx − b with, and each y_i; 0 if there is none."""
        return np.zeros(rows), np.zeros(rows)

    def reach(self, rows: int) -> float:
        """A bound on ‖y‖₂ in dom φ, so on the slope of φ*, for this many rows; inf if there is none."""
        return np.inf

    def steepness(self, rows: int) -> float:
        """A bound on the slope of φ, ‖∂φ‖₂, for this many rows; inf if there is none."""
        return np.inf

    def project(self, y: Array) -> Array:
        """The point of dom φ nearest to y; without a projection of its own, the prox with a small step."""
        # a prox is often inaccurate with such a step, so it is not asked without need
        return y if np.isfinite(self.value(y)) else self.prox(y, NEARBY)

    def project_conjugate(self, z: Array) -> Array:
        """The point of dom φ* nearest to z; by default from the prox, by Moreau."""
        return z if np.isfinite(self.conjugate(z)) else z - NEARBY * self.prox(z / NEARBY, 1 / NEARBY)

    def lowered(self, rows: int) -> Pieces | None:
        """φ on `rows` rows as pieces with known codes; None if only Python can evaluate the prox."""
        return None

    def sized(self, rows: int) -> Phi:
        """Return this φ for a vector of `rows` entries, or say why it does not fit."""
        if self.size is not None and self.size != rows:
            raise ValueError(f"phi is made for {self.size} rows, but M has {rows}")
        return self

    def __repr__(self) -> str:
        shown = (f"{k}={v!r}" for k, v in vars(self).items() if not k.startswith("_") and k != "size")
        return f"{type(self).__name__}({', '.join(shown)})"


class Called(Phi):
    """φ of an object that is called for its value and has `prox(v, step)`, as those of PyProximal.

    Its value is a number, or a bool if it is an indicator.
    """

    def __init__(self, function: Any) -> None:
        self.function = function

    def value(self, y: Array) -> float:
        """The number; for a bool 0 if y is inside, up to the rounding that a projection leaves."""
        found = self.function(y)
        if not isinstance(found, (bool, np.bool_)):
            return float(found)
        return indicator(found or np.all(abs(self.prox(y, 1.0) - y) <= _slack(y)))

    def value_at_prox(self, v: Array, step: Any) -> float:
        """For a bool 0, however few digits the projection has."""
        p = self.prox(v, step)
        return 0.0 if isinstance(self.function(p), (bool, np.bool_)) else value_inside(self.value, p, v)

    def prox(self, v: Array, step: Any) -> Array:
        """That of the object."""
        return self.function.prox(v, step)


def value_inside(value: Callable[[Array], float], p: Array, v: Array) -> float:
    """The value at p, a prox of v; if it is not finite, at the nearest point farther from v at which it is."""
    found, inward = float(value(p)), p - v
    length_of_move = float(np.linalg.norm(inward))
    move = np.finfo(p.dtype).eps * float(np.linalg.norm(p)) / (length_of_move or 1.0)
    for power in range(FARTHER if length_of_move > 0 else 0):
        if math.isfinite(found):
            break
        found = float(value(p + 10.0**power * move * inward))
    return found


def as_phi(phi: Any, name: str = "phi") -> Phi:
    """Return a φ as it is, or an object that PyProximal would accept as one; else raise an error with its name."""
    if isinstance(phi, Phi):
        return phi
    if isinstance(phi, type):
        raise TypeError(f"{name} is the class {phi.__name__}, not one of its objects; write {phi.__name__}(…)")
    if callable(phi) and callable(getattr(phi, "prox", None)):
        return Called(phi)
    raise TypeError(f"{name} must be a dapd.Phi, found {type(phi).__name__}; subclass dapd.Phi or use Conjugate")


def indicator(inside: Any) -> float:
    """0 if the condition holds, inf otherwise."""
    return 0.0 if inside else np.inf


def within(v: Array, lower: Any, upper: Any) -> bool:
    """Whether lower ≤ v ≤ upper, up to the rounding that a prox leaves."""
    slack = _slack(v)
    return bool(np.all(v >= lower - slack) and np.all(v <= upper + slack))


def _slack(v: Array) -> Any:
    return 64 * np.finfo(v.dtype).eps * (1 + abs(v)) if v.dtype.kind == "f" else 0


def length(value: Any, rows: int) -> float:
    """The norm of a vector, or of a number repeated in all rows."""
    return float(np.linalg.norm(np.broadcast_to(value, np.shape(value) or rows)))


def least_positive(*values: Array, most: float = np.inf) -> Array:
    """The least magnitude of entries below `most` that are not zero, entry by entry; 0 if there is none."""
    sizes = [np.where((abs(v) < most) & (v != 0), abs(v), np.inf) for v in values]
    least = np.minimum.reduce(sizes)
    return np.where(np.isinf(least), 0.0, least)


def like(value: Any, v: Array) -> Any:
    """A vector in v's dtype, so float32 stays float32; Python numbers already do."""
    return value.astype(v.dtype) if isinstance(value, np.ndarray) and value.dtype != v.dtype else value
