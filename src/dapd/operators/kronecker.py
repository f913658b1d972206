"""Kronecker products, which are never formed."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from dapd.arguments import named, whole
from dapd.arrays import Array
from dapd.operators.base import Operator
from dapd.operators.convert import matrix_of
from dapd.operators.explicit import Dense, Sparse, as_entries
from dapd.operators.sizes import norms_of_rows, raised


class Kronecker(Operator):
    """A ⊗ B, never formed: (A ⊗ B)x = (A X Bᵀ) where x holds the rows of X one after the other.

    In the column-by-column convention, vec(BXAᵀ) = (A ⊗ B) vec(X).

    Parameters
    ----------
    A : dense matrix
        The first factor.
    B : dense matrix or int
        The second factor; an integer k stands for the k × k identity.
    """

    @named
    def __init__(self, A: Any, B: Any) -> None:
        self.A = matrix_of("A", A)
        identity = isinstance(B, (int, np.integer))
        self.B = None if identity else matrix_of("B", B)
        p, q = (whole("B", B, least=1),) * 2 if self.B is None else self.B.shape
        self.shape = (self.A.shape[0] * p, self.A.shape[1] * q)
        self.dtype = self.A.dtype if self.B is None else np.result_type(self.A, self.B)

    @property
    def work(self) -> int:
        (p, q), width = self.A.shape, self.shape[1] // self.A.shape[1]
        return int(p * q * width + (0 if self.B is None else p * self.B.size))

    @property
    def entry_count(self) -> int:
        """How many entries the matrix has that are not zero because of its structure."""
        return int(self.A.size * (self.shape[1] // self.A.shape[1] if self.B is None else self.B.size))

    def forward(self, x: Array) -> Array:
        X = self.A @ x.reshape(self.A.shape[1], -1)
        return (X if self.B is None else X @ self.B.T).ravel()

    def adjoint(self, y: Array) -> Array:
        Y = self.A.T @ y.reshape(self.A.shape[0], -1)
        return (Y if self.B is None else Y @ self.B).ravel()

    def formed(self) -> Any:
        """The matrix as CSR."""
        B = sp.eye_array(self.shape[0] // self.A.shape[0], dtype=self.dtype) if self.B is None else sp.csr_array(self.B)
        # without the format, blocks would be stored with their zeros
        return sp.csr_array(sp.kron(sp.csr_array(self.A), B, format="csr"))

    def stored(self, most: int) -> Operator | None:
        return Sparse(self.formed()) if self.entry_count <= most else None

    def lowered(self) -> tuple[Any, ...]:
        """("kronecker", A, B or None, rows and columns of B)."""
        p, q = self.A.shape
        B = None if self.B is None else as_entries(self.B, self.dtype)
        return "kronecker", as_entries(self.A, self.dtype), B, self.shape[0] // p, self.shape[1] // q

    @cached_property
    def row_norms(self) -> Array:
        other = np.ones(self.shape[0] // len(self.A)) if self.B is None else norms_of_rows(self.B)
        return np.outer(norms_of_rows(self.A), other).ravel()

    def row_sizes(self, x: Array, power: float = 1) -> Array:
        X = raised(self.A, power) @ abs(x).reshape(self.A.shape[1], -1)
        return (X if self.B is None else X @ raised(self.B.T, power)).ravel()

    def column_sizes(self, y: Array, power: float = 1) -> Array:
        Y = raised(self.A.T, power) @ abs(y).reshape(self.A.shape[0], -1)
        return (Y if self.B is None else Y @ raised(self.B, power)).ravel()

    def factors(self) -> list[Dense]:
        """The factors that are not an identity; the singular values of A ⊗ B are the products of theirs."""
        return [Dense(factor) for factor in (self.A, self.B) if factor is not None]
