"""f on a device, from its lowered form."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp

from dapd.arrays import Array
from dapd.engines.jax.layout import put
from dapd.engines.jax.maps import check_traced, place_map
from dapd.engines.jax.pytree import pytree
from dapd.functions import Function
from dapd.functions.terms import LOSSES, Terms
from dapd.kinds.lowered import has_valid_lowering
from dapd.operators.convert import as_operator
from dapd.problem.problem import Problem


@pytree("loss")
class TermsOf:
    """∇f of f(x) = Σᵢ ℓ(aᵢᵀx; dᵢ) + ½xᵀHx + (ridge/2)‖x‖² − cᵀx."""

    loss: str | None
    A: Any
    d: Array | None
    e: Array
    ridge: Array
    diagonal: Array | None
    H: Any
    c: Array | None

    def _of_loss(self, x: Array) -> tuple[Array, Any, Array]:
        """The arguments of the loss."""
        target = 0.0 if self.d is None else self.d.astype(x.dtype)
        return x if self.A is None else self.A.forward(x), target, self.e.astype(x.dtype)

    def value(self, x: Array) -> Array:
        """f(x)."""
        curved = self.ridge * x + (0.0 if self.diagonal is None else self.diagonal * x)
        curved = curved if self.H is None else curved + self.H.forward(x)
        total = jnp.sum(x * (0.5 * curved if self.c is None else 0.5 * curved - self.c))
        return total if self.loss is None else total + jnp.sum(LOSSES[self.loss].value(*self._of_loss(x)))

    def grad(self, x: Array) -> Array:
        """∇f(x)."""
        total = self.ridge.astype(x.dtype) * x
        if self.loss is not None:
            slopes = LOSSES[self.loss].slope(*self._of_loss(x))
            total = total + (slopes if self.A is None else self.A.adjoint(slopes))
        if self.diagonal is not None:
            total = total + self.diagonal.astype(x.dtype) * x
        if self.H is not None:
            total = total + self.H.forward(x)
        return total if self.c is None else total - self.c.astype(x.dtype)


@pytree("sizes")
class BlocksOf:
    """Σ f_i(x_i)."""

    sizes: tuple[int, ...]
    parts: tuple[Any, ...]

    def _each(self, x: Array) -> Iterable[tuple[Any, Array]]:
        """The blocks, and their parts of x."""
        return zip(self.parts, jnp.split(x, np.cumsum(self.sizes)[:-1]), strict=True)

    def value(self, x: Array) -> Array:
        """The values of the blocks, added up."""
        return jnp.sum(jnp.stack([part.value(piece) for part, piece in self._each(x)]))

    def grad(self, x: Array) -> Array:
        """The gradients of the blocks, joined."""
        return jnp.concatenate([part.grad(piece) for part, piece in self._each(x)])


@pytree("f")
class TracedFunction:
    """A gradient of the caller's that is written in JAX, or in plain arithmetic."""

    f: Function

    def grad(self, x: Array) -> Array:
        """∇f(x)."""
        return jnp.asarray(self.f.grad(x)).astype(x.dtype)


def place_function(problem: Problem, dtype: Any) -> Any:
    """F on the device."""
    f = problem.f
    terms = f.lowered() if has_valid_lowering(f, "grad") else None
    if isinstance(terms, Terms):
        return _terms(terms, problem.columns, dtype)
    if terms is not None:
        sizes = tuple(block.stop - block.start for block in problem.blocks or [])
        return BlocksOf(sizes, tuple(_terms(part, size, dtype) for part, size in zip(terms, sizes, strict=True)))
    own = TracedFunction(f)
    complaint = f"f = {type(f).__name__} has a gradient that JAX cannot trace; see dapd.Smooth.from_jax"
    check_traced(own.grad, [problem.columns], (problem.columns,), dtype, complaint)
    return own


def _terms(terms: Terms, size: int, dtype: Any) -> TermsOf:
    diagonal, H = None, None
    if terms.has_products_only:
        matvec = terms.H.matvec
        check_traced(matvec, [size], (size,), dtype, "H is a LinearOperator, whose products JAX cannot trace")
    if sp.issparse(terms.H) or terms.has_products_only:
        H = place_map(as_operator(terms.H, name="H"), dtype, "H")
    elif terms.H is not None and terms.H.ndim == 1:
        diagonal = put(terms.H, dtype, dual=False)
    elif terms.H is not None:
        H = place_map(as_operator(terms.H, name="H"), dtype, "H")
    return TermsOf(
        loss=terms.loss,
        A=None if terms.A is None else place_map(terms.A, dtype, "A"),
        d=None if terms.d is None else (jnp.asarray if terms.A is not None else _as_x)(terms.d, dtype),
        e=jnp.asarray(terms.e, dtype),
        ridge=jnp.asarray(terms.ridge, dtype),
        diagonal=diagonal,
        H=H,
        c=None if terms.c is None else _as_x(terms.c, dtype),
    )


def _as_x(v: Array, dtype: Any) -> Array:
    """A vector as long as x, where x is."""
    return put(v, dtype, dual=False)
