"""Newton systems whose rows couple only a few neighbours, as those of differences, splines and dynamics do."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import lapack

from dapd.arrays import Array
from dapd.machine.rates import BAND
from dapd.newton.matrices import Split
from dapd.newton.systems import Base, Singular
from dapd.newton.weights import Groups


class BandedSystem(Base):
    """Banded Cholesky of I + B(P + diag(h))⁻¹Bᵀ, if P is diagonal and a row shares columns only with near ones."""

    def __init__(self, P: Any, rows: Split, groups: Groups) -> None:
        super().__init__(P, rows, groups, eliminate=False)
        by_column = sp.csr_array(self.core).tocsc()
        by_column.sort_indices()
        count, row = self.core.shape[0], by_column.indices
        column = np.repeat(np.arange(by_column.shape[1]), np.diff(by_column.indptr))
        starts, places, products, columns = np.arange(row.size), [], [], []
        self.width = _width(by_column)
        for step in range(int(np.diff(by_column.indptr).max(initial=0))):
            starts = starts[starts < row.size - step]
            starts = starts[column[starts] == column[starts + step]]
            places.append(row[starts] * (self.width + 1) + row[starts + step] - row[starts])
            products.append(by_column.data[starts] * by_column.data[starts + step])
            columns.append(column[starts])
        none = np.zeros(0, np.intp)
        self.places, self.columns = np.concatenate([none, *places]), np.concatenate([none, *columns])
        self.products = np.concatenate([np.zeros(0), *products])
        self.shape = (count, self.width + 1)
        self.H: Array | None = None

    def _factor(self, h: Array) -> None:
        H = self.slacks.P + h
        if self.H is None or not np.array_equal(H, self.H):
            weights, self.H = self.products / H[self.columns], None
            self.gram = np.bincount(self.places, weights, minlength=self.shape[0] * self.shape[1]).reshape(self.shape)
            self.H = H  # after what belongs to it, since an interrupt may come in between
        across, band = self.core_T.across, self.gram * self.core_T.across[:, None]
        for step in range(self.width + 1):
            band[: across.size - step, step] *= across[step:]
        band[:, 0] += 1.0
        self.factors, broken = lapack.dpbtrf(band.T, lower=1, overwrite_ab=1)
        if broken:
            raise Singular("a banded factorisation broke down")

    def _once(self, r: Array, s: Array) -> tuple[Array, Array]:
        assert self.H is not None
        z, _ = lapack.dpbtrs(self.factors, self._forward(r / self.H) - s, lower=1, overwrite_b=1)
        return (r - self._adjoint(z)) / self.H, z


def banded_seconds(matrix: Any) -> tuple[float, float]:
    """What a factorisation takes, and the places in the band of BBᵀ."""
    by_column = sp.csr_array(matrix).tocsc()
    by_column.sort_indices()
    lengths, width = np.diff(by_column.indptr).astype(np.float64), _width(by_column)
    count = matrix.shape[0]
    once = BAND.row + BAND.place * (width + 1) + float(width) ** 2 / BAND.wide
    return once * count + BAND.pair * float(lengths @ lengths) / 2, float(count) * (width + 1)


def _width(by_column: Any) -> int:
    """How far apart two rows with an entry in the same column are at most; columns of a sorted CSC matrix."""
    starts, ends = by_column.indptr[:-1], by_column.indptr[1:]
    filled = ends > starts
    return int((by_column.indices[ends[filled] - 1] - by_column.indices[starts[filled]]).max(initial=0))
