"""What every f answers: `value`, `grad`, its constants mu and L, and whatever is known of its terms."""

from __future__ import annotations

from typing import Any

import numpy as np

from dapd.arguments import curvatures
from dapd.arrays import Array
from dapd.functions.terms import Terms
from dapd.kinds.lowered import has_valid_lowering
from dapd.operators.base import Operator


class Function:
    """A convex f with μ‖d‖² ≤ (∇f(x + d) − ∇f(x))ᵀd ≤ L‖d‖². `size` is the number of its variables (None: any).

    mu = 0 is allowed, and L = None means that it is unknown; `method="auto"` needs neither. A subclass either gives
    `lowered`, from which all else comes, or `value` and `grad`.
    """

    mu: float = 0.0
    L: float | None = None
    size: int | None = None

    def lowered(self) -> Terms | list[Terms] | None:
        """The terms of f, or those of each block; None if only Python can evaluate the gradient."""
        return None

    def _terms(self, need: str) -> Terms:
        terms = self.lowered()
        if not isinstance(terms, Terms):
            raise TypeError(f"{type(self).__name__} has no {need}")
        return terms

    @property
    def work(self) -> int:
        """Multiplications with A and H in one gradient; 0 if unknown."""
        terms = self.lowered()
        return terms.work if isinstance(terms, Terms) else 0

    def value(self, x: Array) -> float:
        """f(x); nan if it is not known."""
        terms = self.lowered()
        return terms.value(x) if isinstance(terms, Terms) else np.nan

    def grad(self, x: Array) -> Array:
        """∇f(x)."""
        return self._terms("grad(x)").gradient(x)

    def block_grad(self, x: Array, block: slice) -> Array:
        """The block's part of ∇f(x)."""
        return self._terms("block_grad(x, block); give Smooth one, or use a full method").block_gradient(x, block)

    def recession(self, v: Array) -> float:
        """Lim f(x + tv)/t for t → ∞, inf if f curves along v; nan if it is not known."""
        terms = self.lowered() if has_valid_lowering(self, "grad") else None
        return terms.recession(v) if isinstance(terms, Terms) else np.nan

    def curved_maps(self, size: int) -> list[Operator]:
        """The maps that vanish along every direction in which f is linear at infinity, as far as they are known."""
        terms = self.lowered() if has_valid_lowering(self, "grad") else None
        return terms.curved_maps(size) if isinstance(terms, Terms) else []

    def split(self, blocks: list[slice]) -> list[Function] | None:
        """f_1, …, f_N with f(x) = Σ f_i(x_i) over these blocks; None if f is not known to separate."""
        return None

    def sized(self, variables: int) -> Function:
        """Return f for a vector of `variables` entries, or say why it does not fit."""
        if self.size is not None and self.size != variables:
            raise ValueError(f"f has {self.size} variables, but M has {variables} columns")
        return self

    def _constants(self, mu: Any, L: Any) -> None:
        self.mu, self.L = curvatures(mu, L)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(mu={self.mu:.3g}, L={'unknown' if self.L is None else f'{self.L:.3g}'})"
