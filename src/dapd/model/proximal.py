"""The dual term φ: `value` (inf outside the domain), `prox`, and φ* (`conjugate`), which is what it adds to the primal.

Every class is stateless and works on NumPy and JAX arrays alike.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dapd.arguments import bound, named, partition, whole
from dapd.arrays import Array, namespace
from dapd.model.lowered import BALL, CLIP, KEEP, SHRINK, Piece, Pieces, has_valid_lowering

NEARBY = 1e-12  # the prox with this step is a projection onto the domain up to this times a subgradient


def support(z: Array, lower: Any, upper: Any) -> float:
    """sup{zᵀy : lower ≤ y ≤ upper}; infinite bounds cost nothing if z is zero."""
    lower, upper = np.broadcast_to(lower, z.shape), np.broadcast_to(upper, z.shape)
    up, down = z > 0, z < 0
    return float(np.sum(upper[up] * z[up]) + np.sum(lower[down] * z[down]))


def indicator(inside: Any) -> float:
    """0 if the condition holds, inf otherwise."""
    return 0.0 if inside else np.inf


def within(v: Array, lower: Any, upper: Any) -> bool:
    """Whether lower ≤ v ≤ upper, up to the rounding that a prox leaves."""
    slack = 64 * np.finfo(v.dtype).eps * (1 + abs(v)) if v.dtype.kind == "f" else 0
    return bool(np.all(v >= lower - slack) and np.all(v <= upper + slack))


class Phi:
    """A closed convex φ with a prox. Subclass it with `value(y)` and `prox(v, step)` to bring your own.

    `prox` gets a read-only v and one step, and returns a new real array of the same shape. `size` is the number of rows
    φ is made for (None: any). `conjugate(z)` is φ*(z); `recession(d)` is the slope of φ along d at infinity. Both are
    optional: without `conjugate` the objective of a result is known only if it is optimal, and without `recession` a
    solve of an infeasible problem ends at its limit instead of with the status `infeasible`.
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
        return float(np.sum(p * ((v - p) / step))) - float(self.value(p))

    def recession(self, d: Array) -> float:
        """Lim φ(y + td)/t for t → ∞; nan if unknown."""
        return np.nan

    def reach(self, rows: int) -> float:
        """A bound on ‖y‖₂ in dom φ, so on the slope of φ*, for this many rows; inf if there is none."""
        return np.inf

    def steepness(self, rows: int) -> float:
        """A bound on the slope of φ, ‖∂φ‖₂, for this many rows; inf if there is none."""
        return np.inf

    def project(self, y: Array) -> Array:
        """The point of dom φ nearest to y; without a projection of its own, the prox with a small step."""
        return self.prox(y, NEARBY)

    def project_conjugate(self, z: Array) -> Array:
        """The point of dom φ* nearest to z; by default from the prox, by Moreau."""
        return z - NEARBY * self.prox(z / NEARBY, 1 / NEARBY)

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


class _ByRows(Phi):
    """A φ that is a sum over the rows."""

    @property
    def row_steps(self) -> bool:
        """True, unless a subclass overrides the prox."""
        return has_valid_lowering(self, "prox")


class Zero(_ByRows):
    """φ ≡ 0: the constraint Mx = b."""

    def steepness(self, rows: int) -> float:
        """0."""
        return 0.0

    def project(self, y: Array) -> Array:
        """The identity."""
        return y

    def project_conjugate(self, z: Array) -> Array:
        """0."""
        return 0 * z

    @property
    def is_zero(self) -> bool:
        """Always true."""
        return True

    def value(self, y: Array) -> float:
        """0."""
        return 0.0

    def prox(self, v: Array, step: Any) -> Array:
        """The identity."""
        return v

    def conjugate(self, z: Array) -> float:
        """The indicator of z = 0."""
        return indicator(within(z, 0, 0))

    def recession(self, d: Array) -> float:
        """0."""
        return 0.0

    def lowered(self, rows: int) -> Pieces | None:
        """One piece."""
        return [(Piece(KEEP), rows)]


class NonNegative(_ByRows):
    """Indicator of y ≥ 0: the constraint Mx ≤ b."""

    def project(self, y: Array) -> Array:
        """max(y, 0)."""
        return np.maximum(y, 0)

    def project_conjugate(self, z: Array) -> Array:
        """min(z, 0)."""
        return np.minimum(z, 0)

    def value(self, y: Array) -> float:
        """0 if y ≥ 0."""
        return indicator(within(y, 0, np.inf))

    def prox(self, v: Array, step: Any) -> Array:
        """max(v, 0)."""
        return namespace(v).maximum(v, 0 * v)

    def conjugate(self, z: Array) -> float:
        """The indicator of z ≤ 0."""
        return indicator(within(z, -np.inf, 0))

    def recession(self, d: Array) -> float:
        """φ itself, which is a cone's indicator."""
        return self.value(d)

    def lowered(self, rows: int) -> Pieces | None:
        """One piece."""
        return [(Piece(CLIP, 0.0, np.inf), rows)]


class Box(_ByRows):
    """Indicator of lower ≤ y ≤ upper (numbers or vectors, infinite if unbounded)."""

    @named
    def __init__(self, lower: Any, upper: Any) -> None:
        self.lower, self.upper = bound("lower", lower), bound("upper", upper)
        self.size = _checked_bounds(self.lower, self.upper)

    def value(self, y: Array) -> float:
        """0 inside the box."""
        return indicator(within(y, self.lower, self.upper))

    def prox(self, v: Array, step: Any) -> Array:
        """Clip v to the box."""
        return namespace(v).clip(v, _like(self.lower, v), _like(self.upper, v))

    def reach(self, rows: int) -> float:
        """That of the box's farthest corner."""
        return _length(np.maximum(np.abs(self.lower), np.abs(self.upper)), rows)

    def project(self, y: Array) -> Array:
        """Clip y to the box."""
        return np.clip(y, self.lower, self.upper)

    def project_conjugate(self, z: Array) -> Array:
        """Clip z to the directions in which the box is bounded."""
        return np.clip(z, *_barrier(self.lower, self.upper))

    def conjugate(self, z: Array) -> float:
        """sup{zᵀy : lower ≤ y ≤ upper}."""
        return support(z, self.lower, self.upper)

    def recession(self, d: Array) -> float:
        """The indicator of the directions in which the box is unbounded."""
        inside = ((d <= 0) | (self.upper == np.inf)) & ((d >= 0) | (self.lower == -np.inf))
        return indicator(np.all(inside))

    def lowered(self, rows: int) -> Pieces | None:
        """One piece."""
        return [(Piece(CLIP, self.lower, self.upper), rows)]


class Interval(_ByRows):
    """φ(y) = sup{zᵀy : lower ≤ z ≤ upper}: the constraint lower ≤ Mx − b ≤ upper, row by row.

    Equal bounds make an equation, one infinite bound an inequality, two a free row.
    """

    @named
    def __init__(self, lower: Any, upper: Any) -> None:
        self.lower, self.upper = bound("lower", lower), bound("upper", upper)
        self.size = _checked_bounds(self.lower, self.upper)

    @property
    def is_linear(self) -> bool:
        """Whether every row is an equation."""
        return bool(np.all(np.equal(self.lower, self.upper)))

    def value(self, y: Array) -> float:
        """sup{zᵀy : lower ≤ z ≤ upper}."""
        return support(y, self.lower, self.upper)

    def prox(self, v: Array, step: Any) -> Array:
        """Shrink v towards zero by step·upper from above and step·lower from below."""
        return _shrink(v, step * _like(self.lower, v), step * _like(self.upper, v))

    def steepness(self, rows: int) -> float:
        """The norm of the greater bounds."""
        return _length(np.maximum(np.abs(self.lower), np.abs(self.upper)), rows)

    def project(self, y: Array) -> Array:
        """Clip y to the signs that its bounds allow: y ≥ 0 without a lower bound, y ≤ 0 without an upper one."""
        return np.clip(y, *_barrier(self.lower, self.upper))

    def project_conjugate(self, z: Array) -> Array:
        """Clip z to the bounds."""
        return np.clip(z, self.lower, self.upper)

    def conjugate(self, z: Array) -> float:
        """The indicator of lower ≤ z ≤ upper."""
        return indicator(within(z, self.lower, self.upper))

    def recession(self, d: Array) -> float:
        """φ itself, which is positively homogeneous."""
        return self.value(d)

    def lowered(self, rows: int) -> Pieces | None:
        """One piece."""
        return [(Piece(SHRINK, self.lower, self.upper), rows)]


class L1(_ByRows):
    """φ(y) = Σ nuᵢ|yᵢ|: the constraint |Mx − b| ≤ nu, row by row."""

    @named
    def __init__(self, nu: Any) -> None:
        self.nu = bound("nu", nu)
        self.size = _common_size(self.nu)
        if np.any(np.asarray(self.nu) < 0) or not np.all(np.isfinite(self.nu)):
            raise ValueError("nu must be finite and >= 0; some entry is not")

    @property
    def is_linear(self) -> bool:
        """Whether nu = 0."""
        return not np.any(self.nu)

    def value(self, y: Array) -> float:
        """Σ nuᵢ|yᵢ|."""
        return np.sum(self.nu * abs(y))  # type: ignore[no-any-return]  # a scalar of y's own kind

    def prox(self, v: Array, step: Any) -> Array:
        """Soft thresholding at step·nu."""
        threshold = step * _like(self.nu, v)
        return _shrink(v, -threshold, threshold)

    def steepness(self, rows: int) -> float:
        """‖nu‖₂."""
        return _length(self.nu, rows)

    def project(self, y: Array) -> Array:
        """The identity."""
        return y

    def project_conjugate(self, z: Array) -> Array:
        """Clip z to |z| ≤ nu."""
        return np.clip(z, -self.nu, self.nu)

    def conjugate(self, z: Array) -> float:
        """The indicator of |z| ≤ nu."""
        return indicator(within(z, -self.nu, self.nu))

    def recession(self, d: Array) -> float:
        """φ itself, which is positively homogeneous."""
        return self.value(d)

    def lowered(self, rows: int) -> Pieces | None:
        """One piece."""
        return [(Piece(SHRINK, -self.nu, self.nu), rows)]


class GroupBall(Phi):
    """Indicator of ‖y_t‖₂ ≤ radius for each group t of rows: adds Σ_t radius‖(Mx − b)_t‖₂ to f.

    Parameters
    ----------
    radius : float or vector
        One for all groups, or one each.
    groups : int or list of slices
        The size of consecutive equal groups, or the groups themselves (consecutive, covering all rows).
    """

    @named
    def __init__(self, radius: Any, groups: int | list[slice]) -> None:
        self.radius = bound("radius", radius)
        if np.any(np.asarray(self.radius) <= 0) or not np.all(np.isfinite(self.radius)):
            raise ValueError("radius must be finite and > 0; some entry is not")
        count = None if isinstance(self.radius, float) else len(self.radius)
        if isinstance(groups, list):
            if not groups or not isinstance(getattr(groups[-1], "stop", None), int):
                raise ValueError(
                    "groups must be a list of slices, the last with a stop, such as [slice(0, 2), slice(2, 5)]"
                )
            self.groups: int | list[slice] = partition("groups", groups, groups[-1].stop)
            sizes = [piece.stop - piece.start for piece in self.groups]
            self.size = sum(sizes)
            self._owner = np.repeat(np.arange(len(sizes)), sizes)
            if count is not None and count != len(sizes):
                raise ValueError(f"radius has {count} entries for {len(sizes)} groups")
        else:
            self.groups = whole("groups", groups, least=1)
            self.size = None if count is None else count * self.groups

    def sized(self, rows: int) -> Phi:
        """Check that the groups divide the rows."""
        if not isinstance(self.groups, list) and rows % self.groups:
            raise ValueError(f"phi has groups of {self.groups} rows, which do not divide the {rows} rows of M")
        return super().sized(rows)

    @property
    def row_steps(self) -> bool:
        """Yes: a projection has no use for the step."""
        return type(self).__module__ == __name__

    def pooled(self, sizes: Array) -> Array:
        """The norm of each group, in each of its rows."""
        norms = self._norms(sizes)
        return norms[self._owner] if isinstance(self.groups, list) else np.repeat(norms, self.groups)

    def _norms(self, v: Array) -> Array:
        """The Euclidean norm of each group."""
        xp = namespace(v)
        if not isinstance(self.groups, list):
            return xp.sqrt(xp.sum(xp.reshape(v * v, (-1, self.groups)), axis=1))
        known = {} if xp is np else {"length": len(self.groups)}  # JAX wants the number of bins ahead
        return xp.sqrt(xp.bincount(self._owner, v * v, **known).astype(v.dtype))

    def value(self, y: Array) -> float:
        """0 if every group lies in its ball, up to the rounding of its norm."""
        return indicator(within(self._norms(y), 0, self.radius))

    def prox(self, v: Array, step: Any) -> Array:
        """Scale each group back to its ball."""
        xp = namespace(v)
        radius = _like(self.radius, v)
        scale = radius / xp.maximum(self._norms(v), radius)
        if isinstance(self.groups, list):
            return v * scale[self._owner]
        return xp.reshape(xp.reshape(v, (-1, self.groups)) * scale[:, None], v.shape)

    def reach(self, rows: int) -> float:
        """The norm of the radii."""
        return _length(self.radius, rows // self.groups if isinstance(self.groups, int) else len(self.groups))

    def project(self, y: Array) -> Array:
        """The prox."""
        return self.prox(y, 1.0)

    def project_conjugate(self, z: Array) -> Array:
        """The identity."""
        return z

    def conjugate(self, z: Array) -> float:
        """Σ_t radius‖z_t‖₂."""
        return float(np.sum(self.radius * self._norms(z)))

    def recession(self, d: Array) -> float:
        """The indicator of zero: the balls are bounded."""
        return indicator(not np.any(d))

    def lowered(self, rows: int) -> Pieces | None:
        """One piece, with its groups."""
        if isinstance(self.groups, list):
            sizes = [group.stop - group.start for group in self.groups]
        else:
            sizes = [self.groups] * (rows // self.groups)
        return [(Piece(BALL, self.radius, sizes=sizes), rows)]


def _shrink(v: Array, low: Any, high: Any) -> Array:
    """V − clip(v, low, high), written to be exactly zero in between, infinite bounds included."""
    xp = namespace(v)
    zero = 0 * v
    return xp.maximum(v - high, zero) + xp.minimum(v - low, zero)


def _length(value: Any, rows: int) -> float:
    """The norm of a vector, or of a number repeated in all rows."""
    return float(np.linalg.norm(np.broadcast_to(value, np.shape(value) or rows)))


def _barrier(lower: Any, upper: Any) -> tuple[Any, Any]:
    """The y for which sup{zᵀy : lower ≤ z ≤ upper} is finite, as bounds."""
    return np.where(np.isinf(lower), 0.0, -np.inf), np.where(np.isinf(upper), 0.0, np.inf)


def _like(value: Any, v: Array) -> Any:
    """A vector in v's dtype, so float32 stays float32; Python numbers already do."""
    return value.astype(v.dtype) if isinstance(value, np.ndarray) and value.dtype != v.dtype else value


def _checked_bounds(lower: float | np.ndarray, upper: float | np.ndarray) -> int | None:
    """The length of two bounds that leave something between them."""
    size = _common_size(lower, upper)
    if np.any(np.asarray(lower) > upper):
        raise ValueError("lower must not be above upper; some entry is")
    if np.any(lower == np.inf) or np.any(upper == -np.inf):
        raise ValueError("lower must be below +inf and upper above -inf in every row")
    return size


def _common_size(*values: float | np.ndarray) -> int | None:
    """The length of the vectors among `values`, None if all are numbers."""
    sizes = {len(value) for value in values if isinstance(value, np.ndarray)}
    if len(sizes) > 1:
        raise ValueError(f"bounds of different lengths: {sorted(sizes)}")
    return sizes.pop() if sizes else None
