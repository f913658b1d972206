"""f as a record of terms: value, gradient and curvature, for every f that is made of a known loss and a quadratic."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator

from dapd.arguments import asked
from dapd.arrays import Array, namespace
from dapd.operators.base import Operator
from dapd.operators.convert import as_operator
from dapd.operators.stacked import Identity


class Loss(NamedTuple):
    """ℓ(u; d), entry by entry; e is a parameter of some."""

    value: Callable[[Array, Any, float], Array]
    slope: Callable[[Array, Any, float], Array]
    curvature: Callable[[Array, Any, float], Array]


def _logistic_slope(u: Array, d: Array, e: float) -> Array:
    # 1/(1 + exp(m)) = ½(1 − tanh(m/2)) never overflows
    return -0.5 * d * (1.0 - namespace(u).tanh(0.5 * d * u))


def _pseudo_huber_slope(u: Array, d: Any, e: float) -> Array:
    shifted = u if isinstance(d, float) and d == 0.0 else u - d  # no copy of a long x
    return shifted / namespace(u).sqrt(shifted**2 + e**2)


LOSSES = {  # ½(u − d)², log(1 + exp(−d·u)), √((u − d)² + e²)
    "square": Loss(lambda u, d, e: 0.5 * (u - d) ** 2, lambda u, d, e: u - d, lambda u, d, e: np.ones_like(u)),
    "logistic": Loss(
        lambda u, d, e: namespace(u).logaddexp(0.0, -d * u),
        _logistic_slope,
        lambda u, d, e: 0.25 * (1.0 - np.tanh(0.5 * d * u) ** 2),
    ),
    "pseudo-huber": Loss(
        lambda u, d, e: namespace(u).sqrt((u - d) ** 2 + e**2),
        _pseudo_huber_slope,
        lambda u, d, e: e**2 / ((u - d) ** 2 + e**2) ** 1.5,
    ),
}


def _symmetric(H: Any) -> Operator:
    """H as an operator; a LinearOperator need not have an adjoint of its own."""
    if isinstance(H, LinearOperator):
        return as_operator(LinearOperator(H.shape, matvec=H.matvec, rmatvec=H.matvec, dtype=H.dtype), name="H")
    return as_operator(sp.diags_array(H) if H.ndim == 1 else H, name="H")


class Terms(NamedTuple):
    """f(x) = Σᵢ ℓ(aᵢᵀx; dᵢ) + ½xᵀHx + (ridge/2)‖x‖² − cᵀx; every part may be absent."""

    loss: str | None = None  # a name in LOSSES
    A: Operator | None = None  # None: the identity
    d: Array | None = None  # targets, or labels
    e: float = 0.0  # of the pseudo-Huber loss
    ridge: float = 0.0
    H: Any = None  # a vector (the diagonal), a dense or CSR matrix, or a LinearOperator
    c: Array | None = None

    @property
    def has_products_only(self) -> bool:
        """Whether H is a LinearOperator, so its entries are not known."""
        return isinstance(self.H, LinearOperator)

    @property
    def work(self) -> int:
        """Multiplications of a gradient with A and H; 0 if that is not known."""
        of_A = 0 if self.A is None else 2 * self.A.work
        return of_A + int(getattr(self.H, "nnz", getattr(self.H, "size", 0)))

    def _image(self, x: Array) -> Array:
        return x if self.A is None else self.A.forward(x)

    def _curved(self, x: Array) -> Array:
        """Hx."""
        if self.has_products_only:
            return asked("H.matvec", self.H.matvec, x) if isinstance(x, np.ndarray) else self.H.matvec(x)
        return self.H * x if self.H.ndim == 1 else self.H @ x

    @property
    def _target(self) -> Any:
        return 0.0 if self.d is None else self.d

    def value(self, x: Array) -> float:
        """f(x)."""
        total = 0.5 * self.ridge * (x @ x)
        if self.loss is not None:
            total = total + np.sum(LOSSES[self.loss].value(self._image(x), self._target, self.e))
        if self.H is not None:
            total = total + 0.5 * (x @ self._curved(x))
        return float(total if self.c is None else total - x @ self.c)

    def slopes(self, x: Array) -> Array:
        """ℓ'(aᵢᵀx; dᵢ)."""
        return LOSSES[self.loss or ""].slope(self._image(x), self._target, self.e)

    def gradient(self, x: Array) -> Array:
        """∇f(x)."""
        parts = []
        if self.loss is not None:
            slopes = self.slopes(x)
            parts.append(slopes if self.A is None else self.A.adjoint(slopes))
        if self.H is not None:
            parts.append(self._curved(x))
        if not parts:
            total = self.ridge * x
        else:
            total = sum(parts[1:], parts[0])
            total = total + self.ridge * x if self.ridge else total
        return total if self.c is None else total - self.c

    def block_gradient(self, x: Array, block: slice) -> Array:
        """The block's part of ∇f(x), at the cost of the block's part of H and Aᵀ."""
        total = self.ridge * x[block]
        if self.loss is not None and self.A is None:
            own = self._replace(d=self.d if self.d is None else self.d[block])
            total = total + own.slopes(x[block])
        elif self.A is not None:
            total = total + self.A.columns(block).adjoint(self.slopes(x))
        if self.has_products_only:
            total = total + self._curved(x)[block]
        elif self.H is not None:
            total = total + (self.H[block] * x[block] if self.H.ndim == 1 else self.H[block] @ x)
        return total if self.c is None else total - self.c[block]

    def curved_maps(self, size: int) -> list[Operator]:
        """The maps that vanish along every direction in which f is linear at infinity, for `size` variables."""
        found = [] if self.H is None else [_symmetric(self.H)]
        if self.loss == "square":
            found.append(Identity(size) if self.A is None else self.A)
        return [*found, Identity(size)] if self.ridge else found

    def bend(self, v: Array) -> float:
        """How much the slope of the quadratic parts of f along v changes from x to x + v."""
        total = self.ridge * float(v @ v)
        if self.H is not None:
            total += float(v @ self._curved(v))
        if self.loss == "square":
            total += float(np.sum(self._image(v) ** 2))
        return total

    def recession(self, v: Array) -> float:
        """Lim f(x + tv)/t for t → ∞: inf if f curves along v, by more than rounding."""
        for curved in self.curved_maps(v.size):
            if not np.all(curved.cancels(curved.forward(v), v)):
                return math.inf
        total = 0.0 if self.c is None else -float(v @ self.c)
        if self.loss in ("logistic", "pseudo-huber"):
            image = self._image(v)
            if self.A is not None:
                image = np.where(self.A.cancels(image, v), 0.0, image)
            slopes = np.maximum(0.0, -self._target * image) if self.loss == "logistic" else abs(image)
            total += float(np.sum(slopes))
        return total

    def curvatures(self, x: Array) -> Array:
        """ℓ''(aᵢᵀx; dᵢ): the Hessian is Aᵀ diag(these) A + H + ridge·I."""
        return LOSSES[self.loss or ""].curvature(self._image(x), self._target, self.e)

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
