"""A smooth stand-in for ‖x‖₁."""

from __future__ import annotations

from dapd.arguments import named, number
from dapd.functions.base import Function
from dapd.functions.losses import PseudoHuberLoss
from dapd.functions.terms import Terms


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
