"""½xᵀHx − cᵀx."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, aslinearoperator

from dapd.arguments import asked, named, real, vector
from dapd.arrays import Array
from dapd.functions.base import Function
from dapd.functions.terms import Terms
from dapd.operators.convert import as_sparse
from dapd.spectrum.estimate import symmetric_extremes
from dapd.spectrum.symmetric import check_symmetric, check_symmetric_products, ritz_range

ROUNDINGS = 16  # a least eigenvalue of H within so many roundings per row of zero counts as zero


class Quadratic(Function):
    """½xᵀHx − cᵀx.

    Parameters
    ----------
    H : vector (the diagonal), dense or sparse symmetric matrix, LinearOperator (SciPy, PyLops), or None (zero)
        Positive semidefinite; kept without a copy if it is an array of floats already: leave it unchanged then. Where
        mu and L are given, or H is a LinearOperator, only a few products look for a negative eigenvalue, so one among
        many may be missed.
    c : vector, optional
        Zero by default.
    mu, L : float, optional
        Bounds on the eigenvalues of H; computed by default. For a LinearOperator they cannot be: then mu = 0, and L is
        unknown.
    """

    @named
    def __init__(self, H: Any, c: Any = None, *, mu: float | None = None, L: float | None = None) -> None:
        if hasattr(H, "matvec"):
            H = aslinearoperator(H)
            self.H: Any = H
        elif H is None:
            if c is None:
                raise ValueError("H and c are both absent; give at least one of them")
            self.H = np.zeros(np.size(c))
        elif sp.issparse(H):
            self.H = as_sparse("H", H)
        else:
            self.H = real("H", H)
        shape = self.H.shape
        if not (len(shape) == 1 or (len(shape) == 2 and shape[0] == shape[1])):
            raise ValueError(f"H must be a vector (its diagonal) or a square matrix, found shape {shape}")
        self.size = shape[0]
        self.c = np.zeros(self.size) if c is None else vector("c", c, self.size)
        if isinstance(H, LinearOperator):
            self._constants(0.0 if mu is None else mu, L)
            self._check_products()
            return
        if len(shape) == 2:
            check_symmetric(self.H, name="H")
        low, high = self._eigenvalues(exact=mu is None or L is None)
        self._constants(low if mu is None else mu, high if L is None else L)

    @classmethod
    def _part(cls, H: Any, c: Array, mu: float, L: float | None) -> Quadratic:
        made = cls.__new__(cls)
        made.H, made.c, made.size, made.mu, made.L = H, c, len(c), mu, L
        return made

    def replaced(self, *, c: Any = None, H: Any = None) -> Quadratic:
        if H is None:
            other = copy(self)
            other.c = vector("c", c, self.size)
            return other
        if type(self) is not Quadratic:
            raise TypeError(
                f"H of the subclass {type(self).__name__} of Quadratic cannot be replaced; make a new Solver"
            )
        if hasattr(H, "matvec"):
            raise TypeError("H must be an array or a sparse matrix, since the eigenvalues of an operator are not known")
        size = np.shape(H)[0] if np.ndim(H) else None
        if size != self.size:
            raise ValueError(f"H is for {size} variables, expected {self.size}")
        return Quadratic(H, self.c if c is None else c)

    def _eigenvalues(self, *, exact: bool) -> tuple[float, float]:
        """Bounds on the eigenvalues of a stored H, or what a few products tell; raise if one of them is negative."""
        if self.H.ndim == 1:
            low, high = float(self.H.min()), float(self.H.max())
        elif exact:
            low, high = symmetric_extremes(self.H, name="H")
        else:
            low, high = ritz_range(lambda v: self.H @ v, self.H.shape[0], name="H")
        self._check_sign(low, high, float(ROUNDINGS * self.H.shape[0] * np.finfo(self.H.dtype).eps))
        return max(low, 0.0), max(high, 0.0)

    def _check_products(self) -> None:
        """Raise if a few products show that a LinearOperator is not symmetric and positive semidefinite."""
        single = self.H.dtype is not None and np.dtype(self.H.dtype) == np.float32
        rounding = float(np.finfo(np.float32 if single else np.float64).eps) ** 0.5  # products may be inexact
        check_symmetric_products(self._product, self.H.shape[0], rounding=rounding, name="H")
        self._check_sign(*ritz_range(self._product, self.H.shape[0], name="H"), rounding)

    def _product(self, v: Array) -> Array:
        product = np.asarray(asked("H.matvec", self.H.matvec, v))
        if product.dtype.kind != "f" or product.size != v.size:
            raise TypeError(f"H must give {v.size} real numbers, found shape {product.shape} of {product.dtype}")
        return product.reshape(v.size).astype(np.float64)

    @staticmethod
    def _check_sign(low: float, high: float, rounding: float) -> None:
        if low < -rounding * max(abs(low), abs(high)):
            raise ValueError(
                f"f is not convex: H has the eigenvalue {low:.3g}, or one below it, and it must be positive "
                "semidefinite; check its sign"
            )

    def split(self, blocks: list[slice]) -> list[Function] | None:
        if isinstance(self.H, LinearOperator) or not (self.H.ndim == 1 or _block_diagonal(self.H, blocks)):
            return None
        parts = [self.H[b] if self.H.ndim == 1 else self.H[b, b] for b in blocks]
        return [Quadratic._part(H, self.c[b], self.mu, self.L) for H, b in zip(parts, blocks, strict=True)]

    def lowered(self) -> Terms:
        return Terms(H=self.H, c=self.c)


def _block_diagonal(H: Any, blocks: list[slice]) -> bool:
    """Whether a dense or sparse H couples no two blocks."""
    if sp.issparse(H):
        owner = np.repeat(np.arange(len(blocks)), [b.stop - b.start for b in blocks])
        entries = H.tocoo()
        return bool(np.all(owner[entries.row] == owner[entries.col]))
    return not any(H[b, : b.start].any() or H[b, b.stop :].any() for b in blocks)
