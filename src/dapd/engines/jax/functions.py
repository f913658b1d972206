"""f on a device: its own terms, with the arrays of the device."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dapd.arrays import Array
from dapd.engines.jax.layout import put
from dapd.engines.jax.maps import check_traced, place_map
from dapd.engines.jax.pytree import pytree, register
from dapd.functions import Function
from dapd.functions.losses import Loss
from dapd.functions.terms import Part, Terms
from dapd.operators.convert import as_operator
from dapd.problem.problem import Problem


@pytree("sizes")
class FunctionOf:
    """Σ f_i(x_i) over consecutive blocks of the given sizes, each in its terms."""

    sizes: tuple[int, ...]
    parts: tuple[Terms, ...]

    def _each(self, x: Array) -> Iterable[tuple[Terms, Array]]:
        """The terms in the precision of x, and their parts of x."""

        def fitting(v: Array) -> Array:
            return v.astype(x.dtype) if jnp.issubdtype(v.dtype, jnp.floating) else v

        pieces = jnp.split(x, np.cumsum(self.sizes)[:-1]) if len(self.sizes) > 1 else [x]
        return zip(jax.tree.map(fitting, self.parts), pieces, strict=True)

    def with_c(self, c: Any) -> FunctionOf:
        """The same with another c, in one block."""
        return FunctionOf(self.sizes, (self.parts[0]._replace(c=c),))

    def value(self, x: Array) -> Array:
        """The values of the blocks, added up."""
        return jnp.sum(jnp.stack([terms.value(piece) for terms, piece in self._each(x)]))

    def grad(self, x: Array) -> Array:
        """The gradients of the blocks, joined."""
        found = [terms.gradient(piece) for terms, piece in self._each(x)]
        return jnp.concatenate(found) if len(found) > 1 else found[0]


@pytree("f")
class TracedFunction:
    """A gradient of the caller's that is written in JAX, or in plain arithmetic."""

    f: Function

    def grad(self, x: Array) -> Array:
        """∇f(x)."""
        return jnp.asarray(self.f.grad(x)).astype(x.dtype)


def place_function(problem: Problem, dtype: Any) -> Any:
    """F on the device."""
    if problem.terms is not None:
        return FunctionOf(tuple(p.size for p in problem.terms), tuple(_terms(p, dtype) for p in problem.terms))
    own = TracedFunction(problem.f)
    complaint = f"f = {type(problem.f).__name__} has a gradient that JAX cannot trace; see dapd.Smooth.from_jax"
    check_traced(own.grad, [problem.columns], (problem.columns,), dtype, complaint)
    return own


def _terms(part: Part, dtype: Any) -> Terms:
    """The terms with arrays of the device."""
    terms, H = part.terms, part.terms.H
    if terms.has_products_only:
        complaint = "H is a LinearOperator, whose products JAX cannot trace"
        check_traced(H.matvec, [part.size], (part.size,), dtype, complaint)
    if H is not None:
        is_vector = isinstance(H, np.ndarray) and H.ndim == 1
        H = put(H, dtype, dual=False) if is_vector else place_map(as_operator(H, name="H"), dtype, "H")
    of_loss = jnp.asarray if terms.A is not None else _as_x
    return Terms(
        loss=None if terms.loss is None else _loss(terms.loss, dtype),
        A=None if terms.A is None else place_map(terms.A, dtype, "A"),
        d=None if terms.d is None else of_loss(terms.d, dtype),
        ridge=jnp.asarray(terms.ridge, dtype),
        H=H,
        c=None if terms.c is None else _as_x(terms.c, dtype),
    )


def _as_x(v: Array, dtype: Any) -> Array:
    """A vector as long as x, where x is."""
    return put(v, dtype, dual=False)


def _loss(loss: Loss, dtype: Any) -> Loss:
    """The loss with its numbers as arguments of compiled programs."""
    numbers = (name for name, value in vars(loss).items() if isinstance(value, (int, float, np.ndarray)))
    names = _NUMBERS.setdefault(type(loss), tuple(numbers))
    register(type(loss), lambda placed: {name: vars(placed)[name] for name in names})
    placed = copy(loss)
    vars(placed).update({name: jnp.asarray(vars(loss)[name], dtype) for name in names})
    return placed


_NUMBERS: dict[type[Loss], tuple[str, ...]] = {}  # the attributes of a loss that are arrays on the device
