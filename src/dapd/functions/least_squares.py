"""½‖Ax − d‖² + (ridge/2)‖x‖²."""

from __future__ import annotations

from typing import Any

from dapd.arguments import named, number, vector
from dapd.functions.base import Function
from dapd.functions.losses import SQUARE
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
