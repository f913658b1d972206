"""f and φ on a device: the terms of f, and the canonical kinds of φ, which compute with the arrays of the device."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import copy
from operator import methodcaller
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dapd.arrays import Array
from dapd.engines.jax.layout import layout, put
from dapd.engines.jax.maps import check_traced, place_map
from dapd.engines.jax.pytree import pytree, register
from dapd.functions import Function
from dapd.functions.losses import Loss
from dapd.functions.terms import Part, Terms
from dapd.kinds.base import Phi, kinds_of
from dapd.kinds.by_rows import L1, Box, Interval, NonNegative, Rows, Zero, merged
from dapd.kinds.composed import Conjugate, Stack
from dapd.kinds.sets import Balls, GroupBall
from dapd.operators.convert import as_operator
from dapd.problem.problem import Problem

LARGE_PHI = 1 << 16  # rows from which each kind is evaluated by itself rather than by a table of rows
FEW_KINDS = 8  # more of them are always in a table
_NUMBERS: dict[type[Loss], tuple[str, ...]] = {}  # the attributes of a loss that are arrays on the device


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
    """Return f on the device."""
    if problem.terms is not None:
        return FunctionOf(tuple(p.size for p in problem.terms), tuple(_terms(p, dtype) for p in problem.terms))
    own = TracedFunction(problem.f)
    complaint = f"f = {type(problem.f).__name__} has a gradient that JAX cannot trace; see dapd.Smooth.from_jax"
    check_traced(own.grad, [problem.columns], (problem.columns,), dtype, complaint)
    return own


def place_rest(placed: Any, problem: Problem) -> Any:
    """The part of f, which is on the device already, that has no prox in closed form; None if there is none."""
    rest = problem.proximable.rest
    if rest is None or not isinstance(placed, FunctionOf):
        return None if rest is None else placed
    left = [part.terms for part in rest.parts(problem.columns) or []]
    parts = [
        terms._replace(
            ridge=jnp.zeros_like(terms.ridge),
            c=None,
            **{name: None for name in ("loss", "A", "d", "H") if getattr(own, name) is None},
        )
        for terms, own in zip(placed.parts, left, strict=True)
    ]
    return FunctionOf(placed.sizes, tuple(parts))


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


class Traced(Phi):
    """A φ of the caller's with a prox that JAX can trace; its numbers are part of the program."""

    def __init__(self, phi: Phi) -> None:
        self.phi = phi

    def prox(self, v: Array, step: Any) -> Array:
        return jnp.asarray(self.phi.prox(v, step)).astype(v.dtype)


for _kind in (Traced, Rows, Zero, NonNegative, Box, Interval, L1, Balls, GroupBall, Conjugate, Stack):
    register(_kind, methodcaller("parameters"))


def register_kinds(phi: Phi) -> None:
    """Let JAX look for arrays in φ and in what it is made of, whatever their classes."""
    register(type(phi), methodcaller("parameters"))
    for value in phi.parameters().values():
        for part in value if isinstance(value, list) else [value]:
            if hasattr(part, "with_parameters"):
                register_kinds(part)


def place_phi(problem: Problem, dtype: Any) -> Phi:
    """φ on the device."""
    kinds = kinds_of(problem.phi, problem.rows)
    return place_kinds(kinds, dtype, lambda v: put(v, v.dtype, dual=True))


def place_kinds(kinds: list[tuple[Phi, int]], dtype: Any, place: Callable[[Array], Array]) -> Phi:
    """Canonical kinds on the device; `place` puts vectors with an entry for each row there.

    Rows are in one table, so that all problems share a program, unless they are many. On a mesh they always are, as to
    cut what is divided would take messages.
    """
    if not (sum(n for _, n in kinds) >= LARGE_PHI and len(kinds) < FEW_KINDS and layout() is None):
        kinds = merged(kinds)
    placed = [_placed_kind(kind, n, dtype, place) for kind, n in kinds]
    return placed[0] if len(placed) == 1 else Stack(placed, sizes=[n for _, n in kinds])


def _placed_kind(kind: Phi, rows: int, dtype: Any, place: Callable[[Array], Array]) -> Phi:
    if not kind.runs_on_device:
        own = Traced(kind)
        complaint = f"φ = {kind.kind} has a prox that JAX cannot trace"
        check_traced(lambda v: own.prox(v, 1.0), [rows], (rows,), dtype, complaint)
        return own

    def there(value: Any) -> Array:
        vector = np.asarray(value)
        vector = vector if vector.dtype.kind in "biu" else vector.astype(dtype)
        return place(vector) if vector.shape == (rows,) and vector.dtype != np.int32 else jnp.asarray(vector)

    return kind.with_parameters({name: there(value) for name, value in kind.parameters().items() if value is not None})
