"""Losses of Ax, or of x, with a ridge: least squares, logistic regression, and a smooth stand-in for ‖x‖₁."""

from __future__ import annotations

from typing import Any

import numpy as np

from dapd.arguments import named, number, vector
from dapd.functions.base import Function
from dapd.functions.losses import LOGISTIC, SQUARE, PseudoHuberLoss
from dapd.functions.terms import Terms
from dapd.operators.base import Operator
from dapd.operators.convert import as_operator
from dapd.spectrum.estimate import singular_range


class LeastSquares(Function):
    """½‖Ax − d‖² + (ridge/2)‖x‖²; A of any kind that a coupling may have."""

    _is_plain = False  # whether A is the identity

    @named
    def __init__(self, A: Any, d: Any, ridge: float = 0.0, *, mu: float | None = None, L: float | None = None) -> None:
        self.A: Operator = as_operator(A, name="A")
        rows, self.size = self.A.shape
        self.d = vector("d", d, rows)
        self.ridge = number("ridge", ridge, least=0.0)
        self._is_plain = self.A.identity_start == 0 and self.A.shape == (self.size, self.size)
        if L is None or (mu is None and self.ridge == 0.0):
            least, greatest = singular_range(self.A, name="A")
            L = greatest**2 + self.ridge if L is None else L
            mu = least**2 + self.ridge if mu is None and rows >= self.size else mu
        self._constants(self.ridge if mu is None else mu, L)

    def lowered(self) -> Terms:
        return Terms(SQUARE, None if self._is_plain else self.A, self.d, ridge=self.ridge)


class Logistic(Function):
    """Σ log(1 + exp(−labelᵢ·aᵢᵀx)) + (ridge/2)‖x‖², labels ±1; mu = ridge."""

    @named
    def __init__(self, A: Any, labels: Any, ridge: float = 0.0, *, L: float | None = None) -> None:
        self.A: Operator = as_operator(A, name="A")
        rows, self.size = self.A.shape
        self.labels = vector("labels", labels, rows)
        if not np.all(np.abs(self.labels) == 1):
            raise ValueError(f"labels must be +1 or -1, found {np.unique(self.labels)[:5]}")
        self.ridge = number("ridge", ridge, least=0.0)
        if L is None:
            L = singular_range(self.A, name="A")[1] ** 2 / 4 + self.ridge
        self._constants(self.ridge, L)

    def lowered(self) -> Terms:
        return Terms(LOGISTIC, self.A, self.labels, ridge=self.ridge)


class PseudoHuber(Function):
    """Σ √(x² + e²) + (e/2)x², a smooth strongly convex stand-in for ‖x‖₁; mu = e, L = 1/e + e."""

    @named
    def __init__(self, e: float) -> None:
        self.e = number("e", e, above=0.0)
        self._constants(self.e, 1 / self.e + self.e)

    @classmethod
    @named
    def with_condition(cls, kappa: float) -> PseudoHuber:
        """The function with L/mu = kappa."""
        return cls((number("kappa", kappa, above=1.0) - 1) ** -0.5)

    def split(self, blocks: list[slice]) -> list[Function]:
        return [self] * len(blocks)

    def lowered(self) -> Terms:
        return Terms(PseudoHuberLoss(self.e), ridge=self.e)
