"""What every f answers: `value`, `grad`, its constants mu and L, and whatever is known of its terms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dapd.arguments import curvatures
from dapd.arrays import Array
from dapd.functions.terms import Part, Terms
from dapd.operators.base import Operator, describes
from dapd.operators.blocks import OnBlock

METHODS = ("value", "grad", "block_grad")  # a subclass with another one of these has other terms


class Function:
    """A convex f with μ‖d‖² ≤ (∇f(x + d) − ∇f(x))ᵀd ≤ L‖d‖². `size` is the number of its variables (None: any).

    mu = 0 is allowed, and L = None means that it is unknown; `method="auto"` needs neither. A subclass either gives
    `lowered`, from which all else comes, or `value` and `grad`.
    """

    mu: float = 0.0
    L: float | None = None
    size: int | None = None
    blocks: list[slice] | None = None  # consecutive ones over which f is known to separate
    c: Any = None  # the linear part, if it can be replaced

    def lowered(self) -> Terms | None:
        """The terms of f; None if only Python can evaluate the gradient."""
        return None

    def known_terms(self) -> Terms | None:
        """The result of `lowered`; None if a subclass overrides the value or a gradient, but not `lowered`."""
        return self.lowered() if describes(self, "lowered", *METHODS) else None

    def parts(self, size: int) -> list[Part] | None:
        """The terms of f for `size` variables, block by block if it separates; None if they are not known."""
        terms = self.known_terms()
        return None if terms is None else [Part(terms, slice(0, size), self.mu, self.L)]

    def joined(self, parts: Sequence[Function]) -> Function:
        """The function of such parts, changed: one for each of `parts`."""
        (part,) = parts
        return part

    @property
    def is_quadratic(self) -> bool:
        """Whether f is known to be quadratic."""
        parts = self.parts(self.size or 0)
        return parts is not None and all(part.terms.is_quadratic for part in parts)

    @property
    def work(self) -> int:
        """Multiplications with A and H in one gradient; 0 if unknown."""
        terms = self.lowered()
        return 0 if terms is None else terms.work

    def value(self, x: Array) -> float:
        """f(x); nan if it is not known."""
        terms = self.lowered()
        return np.nan if terms is None else float(terms.value(x))

    def grad(self, x: Array) -> Array:
        """∇f(x)."""
        terms = self.lowered()
        if terms is None:
            raise TypeError(f"{type(self).__name__} has no grad(x)")
        return terms.gradient(x)

    def block_grad(self, x: Array, block: slice) -> Array:
        """The block's part of ∇f(x)."""
        terms = self.lowered()
        if terms is None:
            raise TypeError(f"{type(self).__name__} has no block_grad(x, block); give Smooth one, or use a full method")
        return terms.block_gradient(x, block)

    def recession(self, v: Array) -> float:
        """Lim f(x + tv)/t for t → ∞, inf if f curves along v; nan if it is not known."""
        parts = self.parts(v.size)
        return np.nan if parts is None else sum(part.terms.recession(v[part.at]) for part in parts)

    def curved_maps(self, size: int) -> list[Operator]:
        """The maps that vanish along every direction in which f is linear at infinity, as far as they are known."""
        return [
            curved if part.size == size else OnBlock(curved, part.at, size)
            for part in self.parts(size) or []
            for curved in part.terms.curved_maps(part.size)
        ]

    def split(self, blocks: list[slice]) -> list[Function] | None:
        """f_1, …, f_N with f(x) = Σ f_i(x_i) over these blocks; None if f is not known to separate."""
        return None

    def sized(self, variables: int) -> Function:
        """Return f for a vector of `variables` entries, or say why it does not fit."""
        if self.size is not None and self.size != variables:
            raise ValueError(f"f has {self.size} variables, but M has {variables} columns")
        return self

    def divided(self, blocks: list[slice] | None) -> Function:
        """Return f over the blocks of a problem, or say why it does not fit."""
        return self

    def replaced(self, *, c: Any = None, H: Any = None) -> Function:
        """The same with another c or H, if it has these."""
        given = "c" if H is None else "H"
        raise TypeError(f"{given} belongs to a Quadratic f, but this f is {type(self).__name__}")

    def differs_in_c(self, other: Function) -> bool:
        """Whether both are known to be the same but for the c that each has."""
        terms, others = self.known_terms(), other.known_terms()
        known = terms is not None and others is not None and terms.differs_in_c(others)
        return known and self.c is not None and other.c is not None

    def _constants(self, mu: Any, L: Any) -> None:
        self.mu, self.L = curvatures(mu, L)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(mu={self.mu:.3g}, L={'unknown' if self.L is None else f'{self.L:.3g}'})"
