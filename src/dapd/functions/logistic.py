"""Logistic regression."""

from __future__ import annotations

from typing import Any

import numpy as np

from dapd.arguments import named, number, vector
from dapd.functions.base import Function
from dapd.functions.losses import LOGISTIC
from dapd.functions.terms import Terms
from dapd.operators.base import Operator
from dapd.operators.convert import as_operator
from dapd.spectrum.estimate import singular_range


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
