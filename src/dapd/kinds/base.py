"""The dual term φ: `value` (inf outside the domain), `prox`, and φ* (`conjugate`), which is what it adds to the primal.

Every class is stateless and works on NumPy and JAX arrays alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from dapd.arrays import Array, is_foreign, namespace
from dapd.kinds.native import Numbers

FARTHER = 9  # powers of ten, from one rounding on, by which a point is moved into a domain
FLOOR = 1e-3  # part of the greatest entry that the others count as at least, where differences are taken
NEARBY = 1e-12  # the prox with this step is a projection onto the domain up to this times a subgradient


class Phi:
    """A closed convex φ with a prox. Subclass it with `value(y)` and `prox(v, step)` to bring your own.

    `prox` gets a read-only v and one step, and returns a new real array of the same shape. To run in JAX and to be
    differentiated, it computes with `+ − * /` and the functions of `dapd.arrays.namespace(v)`. `size` is the number of
    rows φ is made for (None: any). With these every engine, batch and derivative takes it; without `value`, neither
    the gap nor the objective of a result is known. All else is optional, and its default says that it is not known:

    - For the objective, and for the statuses of problems without a solution: `conjugate(z)` is φ*(z),
      `recession(d)` the slope of φ along d at infinity, `conjugate_recession(w)` that of φ*, and the two projections
      go to where these slopes are finite. Without them a solve of an infeasible or unbounded problem ends at a limit.
    - For what residuals are compared with: `row_steps` and `pooled` say which rows belong together, `ends`, `reach`
      and `steepness` how large y and Mx − b are.
    - For speed: `derivative`, `native`, `part`, `canonical` and the rest.

    Transforms of rows, Newton steps and Clarabel take problems whose rows are all intervals or balls (`Table.of`). With
    rows of another kind, even a few of a `Stack`, first-order steps solve the problem.
    """

    size: int | None = None
    arguments: ClassVar[tuple[str, ...]] = ()  # of a constructor that checks them; attributes have the same names
    leaves: ClassVar[tuple[str, ...] | None] = None  # names of the parameters; None: see `parameters`
    runs_on_device = False  # whether `terms` and projections are known, and take arrays of any library as `prox` does

    @property
    def kind(self) -> str:
        """What it is called in messages."""
        return type(self).__name__

    def canonical(self, rows: int) -> list[tuple[Phi, int]]:
        """φ as kinds for consecutive rows, each with their number, that know most of themselves; ask `kinds_of`."""
        return [(self, rows)]

    def part(self, at: slice, rows: int) -> Phi | None:
        """The kind of some of its rows; None if it cannot be cut there."""
        return None

    def conjugated(self) -> Phi | None:
        """φ* as such a kind; None if there is no better one than `Conjugate`."""
        return None

    def native(self, rows: int) -> Numbers | None:
        """φ in numbers of the core; None if the core does not know it."""
        return None

    def parameters(self) -> dict[str, Any]:
        """The arrays, or lists of φ, that φ may be differentiated by: of a φ of your own, those of JAX and PyTorch."""
        if self.leaves is None:
            return {name: value for name, value in self._own().items() if is_foreign(value)}
        return {name: getattr(self, name) for name in self.leaves}

    def with_parameters(self, given: Mapping[str, Any]) -> Self:
        """The same φ with other parameters, which are not checked."""
        other = object.__new__(type(self))
        vars(other).update(self._own() | dict(given))
        return other

    def _own(self) -> dict[str, Any]:
        """The attributes that are not derived from others."""
        kind = type(self)
        return {k: v for k, v in vars(self).items() if not isinstance(getattr(kind, k, None), cached_property)}

    def numbers(self) -> list[Any]:
        """All numbers that φ consists of, as far as they are attributes."""
        values = (value for _, value in sorted(self._own().items()))
        return [value for value in values if isinstance(value, (bool, int, float, np.ndarray, np.generic))]

    def checked(self) -> Phi:
        """The same with arrays of NumPy, whose numbers were checked."""
        if not self.arguments:
            return self
        return type(self)(**{name: _on_host(getattr(self, name)) for name in self.arguments})

    @property
    def is_foreign(self) -> bool:
        """Whether some parameter is an array of JAX or PyTorch."""
        parts = [
            part for value in self.parameters().values() for part in (value if isinstance(value, list) else [value])
        ]
        return any(part.is_foreign if isinstance(part, Phi) else is_foreign(part) for part in parts)

    def terms(self, y: Array) -> Array:
        """φ(y) of a y in dom φ, row by row or group by group."""
        raise NotImplementedError

    def conjugate_terms(self, z: Array) -> Array:
        """φ*(z) of a z in dom φ*, row by row or group by group."""
        raise NotImplementedError

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
        if self.row_steps:
            return dual / primal
        norm = namespace(dual).linalg.norm
        ratio = norm(dual) / norm(primal)
        return float(ratio) if isinstance(dual, np.ndarray) else ratio

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

    def derivative(self, v: Array, step: Any) -> Array:
        """The Jacobian of `prox` at v: the diagonal if `prox` takes one step per row, else a symmetric matrix.

        By central differences, unless a subclass knows better.
        """
        size = np.finfo(np.float64).eps ** (1 / 3) * (abs(v) + (FLOOR * np.max(abs(v), initial=0.0) or 1.0))
        if self.row_steps:
            return (self.prox(v + size, step) - self.prox(v - size, step)) / (2 * size)
        columns = [(self.prox(v + d, step) - self.prox(v - d, step)) / (2 * d.sum()) for d in np.diag(size)]
        jacobian = np.stack(columns, axis=1)
        return 0.5 * (jacobian + jacobian.T)

    def prox_by_rows(self, v: Array, steps: Array) -> Array:
        """The prox with the steps of all rows; a φ whose prox takes one step gets the first."""
        return self.prox(v, steps if self.row_steps else steps[0])

    def sized(self, rows: int) -> Phi:
        """Return this φ for a vector of `rows` entries, or say why it does not fit."""
        if self.size is not None and self.size != rows:
            raise ValueError(f"phi is made for {self.size} rows, but M has {rows}")
        return self

    def __repr__(self) -> str:
        shown = (f"{k}={v!r}" for k, v in self._own().items() if not k.startswith("_") and k != "size")
        return f"{type(self).__name__}({', '.join(shown)})"


class Called(Phi):
    """φ of an object with `prox(v, step)` that is called for its value, as those of PyProximal, or `evaluate` is.

    The value is a number, or a bool if it is an indicator; with `conjugate(z)`, φ* is known too.
    """

    def __init__(self, function: Any, evaluate: Callable[[Array], Any] | None = None) -> None:
        self.function = function
        self._evaluate = evaluate or function

    @property
    def kind(self) -> str:
        return type(self.function).__name__

    def value(self, y: Array) -> float:
        """The number; for a bool 0 if y is inside, up to the rounding that a projection leaves."""
        found = self._evaluate(y)
        if not isinstance(found, (bool, np.bool_)):
            return found  # type: ignore[no-any-return]  # a scalar of the object's own kind
        return indicator(found or np.all(abs(self.prox(y, 1.0) - y) <= _slack(y)))

    def value_at_prox(self, v: Array, step: Any) -> float:
        """For a bool 0, however few digits the projection has."""
        p = self.prox(v, step)
        return 0.0 if isinstance(self._evaluate(p), (bool, np.bool_)) else value_inside(self.value, p, v)

    def prox(self, v: Array, step: Any) -> Array:
        return self.function.prox(v, step)

    def conjugate(self, z: Array) -> float:
        return self.function.conjugate(z) if hasattr(self.function, "conjugate") else np.nan


class Opaque(Phi):
    """A φ whose class overrides the prox of another one, so no more is known than its prox."""

    def __init__(self, phi: Phi) -> None:
        self.phi, self.size = phi, phi.size

    @property
    def kind(self) -> str:
        return self.phi.kind

    def value(self, y: Array) -> float:
        return self.phi.value(y)

    def prox(self, v: Array, step: Any) -> Array:
        return self.phi.prox(v, step)


def is_own(phi: Phi, *names: str) -> bool:
    """Whether no class outside this package overrides one of these methods, unless it says again what φ is."""
    for kind in type(phi).__mro__:
        if kind.__module__.startswith("dapd.kinds.") or "canonical" in vars(kind):
            return True
        if any(name in vars(kind) for name in names):
            return False
    return False


def kinds_of(phi: Phi, rows: int) -> list[tuple[Phi, int]]:
    """φ as canonical kinds for consecutive rows, each with their number."""
    if type(phi).canonical is Phi.canonical:
        return [(phi, rows)]
    if not is_own(phi, "prox"):
        return [(Opaque(phi), rows)]
    found, left = phi.canonical(rows), rows
    for kind, n in found:
        left -= n
        if kind.size not in (None, n) or (left and kind is found[-1][0]):
            sizes = [n if one.size is None else one.size for one, n in found]
            raise ValueError(f"{phi.kind}.canonical({rows}) has kinds for {sizes} rows")
    return found


def numbers_of(phi: Phi, rows: int) -> list[tuple[Numbers, int]] | None:
    """φ in numbers of the core, for consecutive rows; None if there are some that the core does not know."""
    known: list[tuple[Numbers, int]] = []
    for kind, n in kinds_of(phi, rows):
        numbers = kind.native(n)
        if numbers is None:
            return None
        known.append((numbers, n))
    return known


def _on_host(value: Any) -> Any:
    return np.asarray(value.detach().cpu() if hasattr(value, "detach") else value) if is_foreign(value) else value


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
