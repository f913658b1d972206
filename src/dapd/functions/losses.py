"""Losses ℓ(u; d) of single numbers, which f adds up over the rows of Ax; one class per loss."""

from __future__ import annotations

from typing import Any

import numpy as np

from dapd.arrays import Array, namespace
from dapd.functions import native
from dapd.functions.native import NativeLoss


class Loss:
    """A smooth and convex ℓ(u; d), entry by entry; d is what each row has of its own, or 0.

    A subclass gives `value`, `slope` and `curvature`, on arrays of NumPy, JAX and PyTorch alike (`namespace(u)` is the
    module of their functions). What else it does not say counts as unknown, and then nothing relies on it. Its
    attributes are the same for all rows; losses of one class with equal attributes are equal.
    """

    is_square = False  # whether ℓ(u; d) = ½(u − d)²
    is_shifted = False  # whether ℓ(u; d) = ℓ(u − d; 0)
    needs = ""  # what d is called if there is no ℓ without it

    def value(self, u: Array, d: Any) -> Array:
        """ℓ(u; d)."""
        raise NotImplementedError

    def slope(self, u: Array, d: Any) -> Array:
        """ℓ'(u; d)."""
        raise NotImplementedError

    def curvature(self, u: Array, d: Any) -> Array:
        """ℓ''(u; d)."""
        raise NotImplementedError

    def greatest_curvature(self) -> float | None:
        """A bound on ℓ''."""
        return None

    def recession(self, v: Array, d: Any) -> Array:
        """Lim ℓ(tv; d)/t for t → ∞; nan if it is not known."""
        return np.full(np.shape(v), np.nan)

    def shifted(self, d: Any, shift: Array) -> Any:
        """The d' with ℓ(u + shift; d) = ℓ(u; d'); None if it is not known, or there is none."""
        return d - shift if self.is_shifted else None

    def norm_with(self) -> float | None:
        """The number e with ℓ(u; d) = ‖(u − d, e)‖₂, for standard cones; None if ℓ is no such norm."""
        return None

    def native(self) -> NativeLoss | None:
        """How the native core knows it; None if it does not."""
        return None

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((type(self), *vars(self).items()))


class Square(Loss):
    """½(u − d)²."""

    is_square = is_shifted = True

    def value(self, u: Array, d: Any) -> Array:
        return 0.5 * (u - d) ** 2

    def slope(self, u: Array, d: Any) -> Array:
        return u - d

    def curvature(self, u: Array, d: Any) -> Array:
        return namespace(u).ones_like(u)

    def greatest_curvature(self) -> float:
        return 1.0

    def recession(self, v: Array, d: Any) -> Array:
        return np.where(v == 0, 0.0, np.inf)

    def native(self) -> NativeLoss:
        return NativeLoss(native.SQUARE)


class LogisticLoss(Loss):
    """log(1 + exp(−d·u)), d = ±1."""

    needs = "labels"

    def value(self, u: Array, d: Any) -> Array:
        xp = namespace(u)
        return xp.logaddexp(xp.zeros_like(u), -d * u)

    def slope(self, u: Array, d: Any) -> Array:
        # 1/(1 + exp(m)) = ½(1 − tanh(m/2)) never overflows
        return -0.5 * d * (1.0 - namespace(u).tanh(0.5 * d * u))

    def curvature(self, u: Array, d: Any) -> Array:
        return 0.25 * (1.0 - namespace(u).tanh(0.5 * d * u) ** 2)

    def greatest_curvature(self) -> float:
        return 0.25

    def recession(self, v: Array, d: Any) -> Array:
        return np.maximum(0.0, -d * v)

    def native(self) -> NativeLoss:
        return NativeLoss(native.LOGISTIC)


class PseudoHuberLoss(Loss):
    """√((u − d)² + e²)."""

    is_shifted = True

    def __init__(self, e: Any) -> None:
        self.e = e

    def value(self, u: Array, d: Any) -> Array:
        return namespace(u).sqrt((u - d) ** 2 + self.e**2)

    def slope(self, u: Array, d: Any) -> Array:
        away = u if isinstance(d, float) and d == 0.0 else u - d  # no copy of a long x
        return away / namespace(u).sqrt(away**2 + self.e**2)

    def curvature(self, u: Array, d: Any) -> Array:
        return self.e**2 / ((u - d) ** 2 + self.e**2) ** 1.5

    def greatest_curvature(self) -> float:
        return 1 / float(self.e)

    def recession(self, v: Array, d: Any) -> Array:
        return abs(v)

    def norm_with(self) -> float:
        return float(self.e)

    def native(self) -> NativeLoss:
        return NativeLoss(native.PSEUDO_HUBER, self.e)


SQUARE, LOGISTIC = Square(), LogisticLoss()
