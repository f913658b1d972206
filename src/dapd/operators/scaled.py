"""A map of any kind with its rows and columns multiplied by factors."""

from __future__ import annotations

import scipy.sparse as sp

from dapd.arrays import Array
from dapd.operators.base import Operator, stored
from dapd.operators.explicit import Dense, Sparse


class ScaledMap(Operator):
    """diag(rows)·M·diag(columns) of a map whose entries cannot be changed."""

    def __init__(self, inner: Operator, rows: Array, columns: Array) -> None:
        self.inner, self.rows, self.scales = inner, rows.astype(inner.dtype), columns.astype(inner.dtype)
        self.shape, self.dtype = inner.shape, inner.dtype

    @property
    def probes(self) -> int:
        return self.inner.probes

    @property
    def work(self) -> int:
        return self.inner.work

    def forward(self, x: Array) -> Array:
        return self.rows * self.inner.forward(self.scales * x)

    def adjoint(self, y: Array) -> Array:
        return self.scales * self.inner.adjoint(self.rows * y)

    def stored(self, most: int) -> Operator | None:
        inner = stored(self.inner, most)
        if isinstance(inner, Sparse):
            return Sparse(sp.csr_array(sp.diags_array(self.rows) @ inner.matrix @ sp.diags_array(self.scales)))
        return Dense(self.rows[:, None] * inner.matrix * self.scales) if isinstance(inner, Dense) else None

    def row_sizes(self, x: Array, power: float = 1) -> Array | None:
        sizes = self.inner.row_sizes(self.scales**power * x, power)
        return None if sizes is None else self.rows**power * sizes

    def column_sizes(self, y: Array, power: float = 1) -> Array | None:
        sizes = self.inner.column_sizes(self.rows**power * y, power)
        return None if sizes is None else self.scales**power * sizes
