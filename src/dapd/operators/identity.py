"""Rows of an identity, which need no matrix."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from dapd.arguments import named, whole
from dapd.arrays import Array
from dapd.operators.base import Operator
from dapd.operators.explicit import Sparse


class Identity(Operator):
    """The entries start … start + rows − 1 of x; all of x if only `columns` is given.

    As a part of `RowBlocks` it puts bounds on x without storing a matrix.
    """

    divisible = True

    @named
    def __init__(self, columns: int, *, rows: int | None = None, start: int = 0) -> None:
        columns, start = whole("columns", columns, least=1), whole("start", start, least=0)
        rows = columns - start if rows is None else whole("rows", rows, least=1)
        if start + rows > columns or rows < 1:
            raise ValueError(
                f"{rows} rows from column {start} on need more than {columns} columns; reduce rows or start"
            )
        self.shape, self.start = (rows, columns), start
        self.dtype = np.dtype(np.float32)  # ones are exact in any precision, so the other rows decide the dtype

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.shape[0]} × {self.shape[1]})"  # its dtype is that of the problem

    @property
    def _own(self) -> slice:
        return slice(self.start, self.start + self.shape[0])

    @property
    def identity_start(self) -> int:
        return self.start

    @property
    def probes(self) -> int:
        return 0

    @property
    def work(self) -> int:
        return self.shape[0]

    def forward(self, x: Array) -> Array:
        return x[self._own].copy()

    def adjoint(self, y: Array) -> Array:
        full = np.zeros(self.shape[1], y.dtype)
        full[self._own] = y
        return full

    @cached_property
    def row_norms(self) -> Array:
        return np.ones(self.shape[0])

    def row_sizes(self, x: Array, power: float = 1) -> Array:
        return abs(x[self._own])

    def column_sizes(self, y: Array, power: float = 1) -> Array:
        return self.adjoint(abs(y))

    def sparse(self) -> Any:
        return sp.eye_array(*self.shape, k=self.start, format="csr")

    def stored(self, most: int) -> Operator | None:
        return Sparse(self.sparse().astype(self.dtype))

    def dense(self) -> Array:
        return np.eye(*self.shape, k=self.start)

    def lowered(self) -> tuple[Any, ...]:
        """("identity", rows, first column)."""
        return "identity", self.shape[0], self.start
