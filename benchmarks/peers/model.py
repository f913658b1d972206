"""A convex model in the form people write it: min f(x) + φ*(Mx − b) subject to lower ≤ x ≤ upper, in plain arrays.

`canonical.py` translates it for conic solvers, `with_dapd.py` for dapd.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Quadratic:
    """½xᵀPx + qᵀx; P a vector (its diagonal), dense or sparse."""

    P: Any
    q: Any


@dataclass(frozen=True)
class Squares:
    """½‖Ax − d‖² + (ridge/2)‖x‖²."""

    A: Any
    d: Any
    ridge: float = 0.0


@dataclass(frozen=True)
class PseudoHuber:
    """Σ √(x² + e²) + (e/2)x²."""

    e: float


@dataclass(frozen=True)
class Logistic:
    """Σ log(1 + exp(−labelᵢ·aᵢᵀx)) + (ridge/2)‖x‖²."""

    A: Any
    labels: Any
    ridge: float = 0.0


Cost = Quadratic | Squares | PseudoHuber | Logistic


@dataclass(frozen=True)
class _Bounds:
    """Two bounds per row."""

    lower: Any
    upper: Any

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self.lower)


class Within(_Bounds):
    """Rows with lower ≤ Mx − b ≤ upper."""


class Slopes(_Bounds):
    """Rows that add upper·r if r > 0 and lower·r if r < 0, with r = Mx − b; so lower ≤ y ≤ upper."""


@dataclass(frozen=True)
class Norms:
    """Groups of rows that add radius·‖r_t‖₂ each, with r = Mx − b; so ‖y_t‖₂ ≤ radius."""

    radius: Any
    sizes: Any

    @property
    def rows(self) -> int:
        """The number of rows."""
        return int(np.sum(self.sizes))


Part = Within | Slopes | Norms


@dataclass(frozen=True)
class Model:
    """min Σ_k f_k(x_k) + Σ_j φ_j*((Mx − b)_j) subject to lower ≤ x ≤ upper."""

    name: str
    family: str
    costs: list[tuple[Cost, int]]  # each with its number of variables
    M: Any
    b: Any
    parts: list[Part]
    lower: Any
    upper: Any
    form: str = "plain"  # how dapd gets M: plain, kronecker, row blocks or matrix-free
    factors: Any = None  # (A, B) with M = A ⊗ B; B an integer for an identity
    extra: dict[str, Any] = field(default_factory=dict)  # what only one solver needs, such as the shape of an image

    @property
    def variables(self) -> int:
        """The length of x."""
        return len(self.lower)

    @property
    def rows(self) -> int:
        """The length of b."""
        return len(self.b)

    @property
    def bounded(self) -> bool:
        """Whether a bound on x is finite."""
        return bool(np.isfinite(self.lower).any() or np.isfinite(self.upper).any())


def make(
    name: str,
    family: str,
    cost: Cost | list[tuple[Cost, int]],
    M: Any,
    b: Any,
    parts: Part | list[Part],
    bounds: tuple[Any, Any] = (-np.inf, np.inf),
    **more: Any,
) -> Model:
    """A model from its usual pieces: one cost, one kind of rows, and bounds that may be numbers."""
    columns = M.shape[1]
    lower, upper = (np.broadcast_to(np.asarray(bound, float), columns).copy() for bound in bounds)
    costs = cost if isinstance(cost, list) else [(cost, columns)]
    parts = parts if isinstance(parts, list) else [parts]
    return Model(name, family, costs, M, np.asarray(b, float), parts, lower, upper, **more)


def equations(rows: int) -> Within:
    """Mx = b."""
    return Within(np.zeros(rows), np.zeros(rows))


def inequalities(rows: int) -> Within:
    """Mx ≤ b."""
    return Within(np.full(rows, -np.inf), np.zeros(rows))
