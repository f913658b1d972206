"""f as second-order steps see it: ½xᵀPx − cᵀx + Σᵢ ℓᵢ(aᵢᵀx), with its gradient, curvatures, and slope along a line."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from dapd.arrays import Array
from dapd.functions.losses import Loss
from dapd.functions.terms import Part
from dapd.newton.matrices import DENSE, Matrix, explicit, scaled, stack

NONE = np.zeros(0)


class _Losses(NamedTuple):
    loss: Loss
    rows: slice
    d: Any


class Curvature:
    """A lowered f whose matrices are explicit."""

    def __init__(self, parts: list[Part]) -> None:
        self.size = parts[-1].at.stop
        self.c = linear_part(parts)
        self.P = _quadratic(parts)  # a vector (the diagonal), dense, or CSR
        matrices: list[Matrix] = []
        self.losses: list[_Losses] = []
        row = 0
        for part in parts:
            terms = part.terms
            if terms.loss is not None:
                own = sp.eye_array(part.size, format="csr") if terms.A is None else explicit(terms.A)
                matrices.append(_shifted(own, part.at.start, self.size))
                rows = slice(row, row + own.shape[0])
                self.losses.append(_Losses(terms.loss, rows, 0.0 if terms.d is None else terms.d))
                row = rows.stop
        self.rows = row
        self.quadratic = all(part.terms.is_quadratic for part in parts)
        self.A = stack(matrices, self.size)  # of all losses
        self.cost = 1.0  # what the losses are multiplied with

    def scaled(self, columns: Array, cost: float) -> Curvature:
        """cost·f(columns·x)."""
        other = copy(self)
        other.c, other.cost = cost * columns * self.c, cost * self.cost
        other.P = cost * (columns * columns * self.P if self.P.ndim == 1 else scaled(self.P, columns, columns))
        other.A = scaled(self.A, np.ones(self.rows), columns)
        return other

    def with_c(self, c: Array) -> Curvature:
        """The same with another c."""
        other = copy(self)
        other.c = c
        return other

    def image(self, x: Array) -> Array:
        """Ax."""
        return self.A @ x if self.rows else NONE

    def times(self, x: Array) -> Array:
        """Px."""
        return self.P * x if self.P.ndim == 1 else self.P @ x

    def _each(self, what: str, image: Array) -> Array:
        out = np.empty(self.rows)
        for loss, rows, d in self.losses:
            out[rows] = getattr(loss, what)(image[rows], d)
        return self.cost * out

    def gradient(self, x: Array, image: Array) -> Array:
        """∇f(x), with image = Ax."""
        g = self.times(x) - self.c
        return g + self.A.T @ self._each("slope", image) if self.rows else g

    def curvatures(self, image: Array) -> Array:
        """ℓ''ᵢ at Ax: the Hessian is P + Aᵀdiag(these)A."""
        return self._each("curvature", image)

    def along(self, x: Array, image: Array, d: Array, image_of_d: Array) -> Callable[[float], tuple[float, float]]:
        """The function t ↦ (first, second) derivative of f(x + t·d) by t."""
        slope, bend = float(d @ (self.times(x) - self.c)), float(d @ self.times(d))
        if not self.rows:
            return lambda t: (slope + t * bend, bend)

        def at(t: float) -> tuple[float, float]:
            u = image + t * image_of_d
            first = slope + t * bend + float(image_of_d @ self._each("slope", u))
            return first, bend + float((image_of_d * image_of_d) @ self._each("curvature", u))

        return at


def linear_part(parts: list[Part]) -> Array:
    """The c of all parts."""
    known = [(part.terms.c, part.size) for part in parts]
    return np.concatenate([np.zeros(n) if c is None else np.asarray(c, np.float64) for c, n in known])


def _quadratic(parts: list[Part]) -> Any:
    blocks = []
    for terms, n in ((part.terms, part.size) for part in parts):
        if terms.has_products_only:
            raise TypeError("H is a LinearOperator, so its entries are not known")
        H = np.zeros(n) if terms.H is None else terms.H
        if terms.ridge:
            H = H + terms.ridge if H.ndim == 1 else H + terms.ridge * sp.eye_array(n, format="csr")
        blocks.append(H)
    if all(block.ndim == 1 for block in blocks):
        return np.concatenate(blocks).astype(np.float64)
    if len(blocks) == 1 and not sp.issparse(blocks[0]):
        return np.asarray(blocks[0], np.float64)
    as_matrices = [sp.diags_array(block) if block.ndim == 1 else block for block in blocks]
    whole = sp.csr_array(sp.block_diag(as_matrices, format="csr") if len(blocks) > 1 else blocks[0], dtype=np.float64)
    diagonal = whole.diagonal()
    if np.count_nonzero(whole.data) == np.count_nonzero(diagonal):
        return diagonal
    return whole.toarray() if whole.nnz > DENSE * whole.shape[0] ** 2 else whole


def _shifted(matrix: Matrix, offset: int, columns: int) -> Matrix:
    """The matrix with its columns from `offset` on among `columns`."""
    rows, n = matrix.shape
    if n == columns:
        return matrix
    own = sp.csr_array(matrix)
    return sp.csr_array((own.data, own.indices + offset, own.indptr), shape=(rows, columns))
