"""What the text formats share: mistakes with their lines, and the problem that a file states."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from dapd.arrays import Array

NOT_CONVEX = "integer variables are not supported, since dapd solves convex problems"

Entry = tuple[int, int, float]  # row, column, value


class WrongLine(Exception):
    """A mistake in a line."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(line, message)
        self.line, self.message = line, message


class TextModel:
    """What was read of a file so far."""

    no_lower: ClassVar[str]  # about an upper bound below 0 without a lower one; formatted with `name` and `upper`

    def __init__(self) -> None:
        self.sign = 1.0  # −1 if the file maximises
        self.columns: dict[str, int] = {}
        self.costs: dict[int, float] = {}
        self.constant = 0.0
        self.entries: list[Entry] = []  # of A
        self.limits: list[tuple[float, float]] = []  # of the rows
        self.products: list[Entry] = []  # of P
        self.lower: dict[int, float] = {}
        self.upper: dict[int, float] = {}

    def fields(self) -> tuple[dict[str, Any], float]:
        """The fields of the minimisation, as `dapd.problems.qp` names them, and the sign."""
        if not self.columns:
            raise ValueError("there are no variables")
        for name, at in self.columns.items():
            if self.upper.get(at, 0.0) < 0 and at not in self.lower:
                raise ValueError(
                    f"{name!r} has the upper bound {self.upper[at]:g} and no lower one, which "
                    + self.no_lower.format(name=name, upper=self.upper[at])
                )
        n, m = len(self.columns), len(self.limits)
        fields = {
            "q": self.sign * _vector(self.costs, n, 0.0),
            "r": self.sign * self.constant,
            "lb": _vector(self.lower, n, 0.0),
            "ub": _vector(self.upper, n, np.inf),
        }
        if m:
            fields["A"] = _sparse(self.entries, (m, n))
            fields["l"], fields["u"] = np.array(self.limits).T
        if self.products:
            fields["P"] = self.sign * _sparse(self.products, (n, n))
        return fields, self.sign


def _vector(given: dict[int, float], size: int, otherwise: float) -> Array:
    found = np.full(size, otherwise)
    found[list(given)] = list(given.values())
    return found


def _sparse(entries: list[Entry], shape: tuple[int, int]) -> Any:
    i, j, values = zip(*entries, strict=True) if entries else ([], [], [])
    return sp.csc_array(sp.coo_array((values, (i, j)), shape=shape, dtype=np.float64))
