"""f as terms: value, gradient and curvature, for every f that is made of a loss and a quadratic."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator

from dapd.arguments import asked
from dapd.arrays import Array
from dapd.functions.losses import Loss
from dapd.operators.base import Operator
from dapd.operators.convert import as_operator
from dapd.operators.structured import Identity


def _symmetric(H: Any) -> Operator:
    """H as an operator; a LinearOperator need not have an adjoint of its own."""
    if isinstance(H, LinearOperator):
        return as_operator(LinearOperator(H.shape, matvec=H.matvec, rmatvec=H.matvec, dtype=H.dtype), name="H")
    return as_operator(sp.diags_array(H) if H.ndim == 1 else H, name="H")


class Terms(NamedTuple):
    """f(x) = Σᵢ ℓ(aᵢᵀx; dᵢ) + ½xᵀHx + (ridge/2)‖x‖² − cᵀx; every part may be absent."""

    loss: Loss | None = None
    A: Any = None  # an Operator, or what has its products on a device; None: the identity
    d: Array | None = None  # targets, or labels
    ridge: Any = 0.0
    H: Any = None  # a vector (the diagonal), a dense or CSR matrix, a LinearOperator, or what has `forward`
    c: Array | None = None

    @property
    def is_quadratic(self) -> bool:
        """Whether there is no loss, or a square one."""
        return self.loss is None or self.loss.is_square

    @property
    def has_products_only(self) -> bool:
        """Whether H is a LinearOperator, so its entries are not known."""
        return isinstance(self.H, LinearOperator)

    @property
    def is_scalable(self) -> bool:
        """Whether H and the matrix of a loss are known by their entries; a loss of x itself keeps its units."""
        explicit = self.loss is None or (self.A is not None and self.A.stored_matrix is not None)
        return explicit and not self.has_products_only

    @property
    def is_by_entry(self) -> bool:
        """Whether f is a sum over the entries of x."""
        return self.A is None and (self.H is None or self.H.ndim == 1)

    @property
    def work(self) -> int:
        """Multiplications of a gradient with A and H; 0 if that is not known."""
        of_A = 0 if self.A is None else 2 * self.A.work
        return of_A + int(getattr(self.H, "nnz", getattr(self.H, "size", 0)))

    def _image(self, x: Array) -> Array:
        return x if self.A is None else self.A.forward(x)

    def curved(self, x: Array) -> Array:
        """Hx."""
        H = self.H
        if isinstance(H, LinearOperator):
            return asked("H.matvec", H.matvec, x) if isinstance(x, np.ndarray) else H.matvec(x)
        if hasattr(H, "forward"):
            return H.forward(x)
        return H * x if H.ndim < 2 else H @ x

    @property
    def target(self) -> Any:
        """The d of the loss; 0 if there is none."""
        return 0.0 if self.d is None else self.d

    def value(self, x: Array) -> Any:
        """f(x)."""
        total = 0.5 * self.ridge * (x @ x)
        if self.loss is not None:
            total = total + self.loss.value(self._image(x), self.target).sum()
        if self.H is not None:
            total = total + 0.5 * (x @ self.curved(x))
        return total if self.c is None else total - x @ self.c

    def slopes(self, x: Array) -> Array:
        """ℓ'(aᵢᵀx; dᵢ)."""
        assert self.loss is not None
        return self.loss.slope(self._image(x), self.target)

    def gradient(self, x: Array) -> Array:
        """∇f(x)."""
        total = None
        if self.loss is not None:
            slopes = self.slopes(x)
            total = slopes if self.A is None else self.A.adjoint(slopes)
        if self.H is not None:
            total = self.curved(x) if total is None else total + self.curved(x)
        if total is None:
            total = self.ridge * x
        elif not isinstance(self.ridge, float) or self.ridge:  # it may be a symbol for a number
            total = total + self.ridge * x
        return total if self.c is None else total - self.c

    def block_gradient(self, x: Array, block: slice) -> Array:
        """The block's part of ∇f(x), at the cost of the block's part of H and Aᵀ."""
        total = self.ridge * x[block]
        if self.loss is not None and self.A is None:
            total = total + self._replace(d=self.d if self.d is None else self.d[block]).slopes(x[block])
        elif self.loss is not None:
            total = total + self.A.columns(block).adjoint(self.slopes(x))
        if self.has_products_only:
            total = total + self.curved(x)[block]
        elif self.H is not None:
            total = total + (self.H[block] * x[block] if self.H.ndim == 1 else self.H[block] @ x)
        return total if self.c is None else total - self.c[block]

    def curved_maps(self, size: int) -> list[Operator]:
        """The maps that vanish along every direction in which f is linear at infinity, for `size` variables."""
        found = [] if self.H is None else [_symmetric(self.H)]
        if self.loss is not None and self.loss.is_square:
            found.append(Identity(size) if self.A is None else self.A)
        return [*found, Identity(size)] if self.ridge else found

    def bend(self, v: Array) -> float:
        """How much the slope of the quadratic parts of f along v changes from x to x + v."""
        total = float(self.ridge * (v @ v))
        if self.H is not None:
            total += float(v @ self.curved(v))
        if self.loss is not None and self.loss.is_square:
            total += float(np.sum(self._image(v) ** 2))
        return total

    def recession(self, v: Array) -> float:
        """Lim f(x + tv)/t for t → ∞: inf if f curves along v, by more than rounding; nan if it is not known."""
        for curved in self.curved_maps(v.size):
            if not np.all(curved.cancels(curved.forward(v), v)):
                return math.inf
        total = 0.0 if self.c is None else -float(v @ self.c)
        if self.loss is not None and not self.loss.is_square:
            image = self._image(v)
            if self.A is not None:
                image = np.where(self.A.cancels(image, v), 0.0, image)
            total += float(np.sum(self.loss.recession(image, self.target)))
        return total

    def curvatures(self, x: Array) -> Array:
        """ℓ''(aᵢᵀx; dᵢ): the Hessian is Aᵀ diag(these) A + H + ridge·I."""
        assert self.loss is not None
        return self.loss.curvature(self._image(x), self.target)

    def curvature_by_entry(self, x: Array) -> Array:
        """The diagonal of the Hessian, and all of it, of a sum over the entries of x."""
        total = self.ridge if self.H is None else self.ridge + self.H
        return total if self.loss is None else total + self.curvatures(x)

    def diagonal(self, size: int) -> Array:
        """How much each entry of the gradient changes with a unit of its own variable, near zero, for `size` variables.

        The diagonal of the Hessian, without what maps that only have products add, but a loss of x itself may be
        sharp: then its slopes at −1 and 1 say more.
        """
        total = np.full(size, float(self.ridge))
        if self.H is not None and not self.has_products_only:
            total += self.H if self.H.ndim == 1 else self.H.diagonal()
        if self.loss is None:
            return total
        if self.A is None:
            return total + 0.5 * abs(self.slopes(np.ones(size)) - self.slopes(-np.ones(size)))
        curvatures = self.curvatures(np.zeros(size))
        sparse = self.A.sparse()
        if sparse is not None:
            return total + sp.csr_array(sparse).power(2).T @ curvatures
        if self.A.stored_matrix is not None:
            total += np.einsum("ij,ij,i->j", self.A.stored_matrix, self.A.stored_matrix, curvatures)
        return total

    def differs_in_c(self, other: Terms) -> bool:
        """Whether both differ in c at most: the loss is equal, and all else are the same objects."""
        names = (name for name in self._fields if name not in ("loss", "c"))
        return self.loss == other.loss and all(getattr(self, name) is getattr(other, name) for name in names)

    def check(self, name: str, size: int) -> None:
        """Raise if a part has a shape that does not fit `size` variables; `name` is that of the function."""
        rows = size if self.A is None else self.A.shape[0]
        shapes = {
            "A": (None if self.A is None else self.A.shape, (rows, size)),
            "d": (None if self.d is None else np.shape(self.d), (rows,)),
            "c": (None if self.c is None else np.shape(self.c), (size,)),
            "H": (None if self.H is None else self.H.shape, (size,) * (1 if self.H is None else len(self.H.shape))),
        }
        for part, (found, wanted) in shapes.items():
            if found is not None and tuple(found) != wanted:
                raise ValueError(f"{name}.lowered() has {part} of shape {tuple(found)}, expected {wanted}")
        if self.loss is not None and self.loss.needs and self.d is None:
            kind = type(self.loss).__name__.removesuffix("Loss").lower()
            raise ValueError(f"{name}.lowered() has a {kind} loss without {self.loss.needs}")


def by_vector(terms: Terms) -> Terms:
    """The same terms, a sparse H that is diagonal as a vector."""
    if not sp.issparse(terms.H) or terms.H.nnz > terms.H.shape[0]:
        return terms
    diagonal = terms.H.diagonal()
    return terms._replace(H=diagonal) if np.count_nonzero(diagonal) == terms.H.nnz else terms


class Part(NamedTuple):
    """The terms of consecutive variables, with bounds on their curvature."""

    terms: Terms
    at: slice
    mu: float
    L: float | None

    @property
    def size(self) -> int:
        """The number of variables."""
        return int(self.at.stop - self.at.start)
