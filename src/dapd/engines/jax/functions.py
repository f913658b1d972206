"""f and φ on a device, from their lowered forms."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator

from dapd.arrays import Array
from dapd.engines.jax.layout import layout, put
from dapd.engines.jax.maps import check_traced, place_map
from dapd.engines.jax.pytree import pytree
from dapd.functions.smooth import Function
from dapd.functions.terms import LOSSES, Terms
from dapd.kinds.base import Phi
from dapd.kinds.lowered import BALL, CLIP, KEEP, SHRINK, SHRINK_BALL, Piece, Pieces, has_valid_lowering, pieces_of
from dapd.operators.convert import as_operator
from dapd.problem.problem import Problem

LARGE_PHI = 1 << 16  # rows from which each piece of φ is evaluated by itself rather than by a table


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
    if isinstance(terms.H, LinearOperator):
        matvec = terms.H.matvec
        check_traced(matvec, [size], (size,), dtype, "H is a LinearOperator, whose products JAX cannot trace")
    if sp.issparse(terms.H) or isinstance(terms.H, LinearOperator):
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


def _as_y(v: Array) -> Array:
    """A vector as long as y, where y is."""
    return put(v, v.dtype, dual=True)


def _as_x(v: Array, dtype: Any) -> Array:
    """A vector as long as x, where x is."""
    return put(v, dtype, dual=False)


@pytree("code", "rows")
class RowsOf:
    """Rows that are kept, clipped or shrunk, by one code or by one code per row."""

    code: int | None
    rows: int
    codes: Array | None
    lower: Array
    upper: Array

    def prox(self, v: Array, step: Any) -> Array:
        """The prox, row by row."""
        lower, upper, code = self.lower.astype(v.dtype), self.upper.astype(v.dtype), self.code
        if code == KEEP:
            return v
        if code == CLIP:
            return jnp.clip(v, lower, upper)
        if code == SHRINK:
            return _shrunk(v, step * lower, step * upper)
        clipped, shrunk = jnp.clip(v, lower, upper), _shrunk(v, step * lower, step * upper)
        return jnp.where(self.codes == KEEP, v, jnp.where(self.codes == CLIP, clipped, shrunk))

    def pooled(self, sizes: Array) -> Array:
        """The sizes themselves."""
        return sizes

    def _by_code(self, kept: Any, clipped: Any, shrunk: Any) -> Any:
        """What belongs to the code of each row."""
        if self.codes is None:
            return {KEEP: kept, CLIP: clipped, SHRINK: shrunk}[self.code or 0]
        return jnp.where(self.codes == KEEP, kept, jnp.where(self.codes == CLIP, clipped, shrunk))

    def _bounded(self, v: Array) -> Array:
        """V, clipped to the directions in which the intervals are bounded."""
        low, high = jnp.where(jnp.isinf(self.lower), 0.0, -jnp.inf), jnp.where(jnp.isinf(self.upper), 0.0, jnp.inf)
        return jnp.clip(v, low, high)

    def _support(self, v: Array) -> Array:
        ends = jnp.where(v > 0, self.upper, jnp.where(v < 0, self.lower, 0.0))
        return jnp.where(v == 0, 0.0, ends * v)

    def project(self, y: Array) -> Array:
        """The point of dom φ nearest to y."""
        return self._by_code(y, jnp.clip(y, self.lower, self.upper), self._bounded(y))

    def project_recession(self, d: Array) -> Array:
        """The direction nearest to d along which φ stays finite."""
        low, high = jnp.where(jnp.isinf(self.lower), -jnp.inf, 0.0), jnp.where(jnp.isinf(self.upper), jnp.inf, 0.0)
        return self._by_code(d, jnp.clip(d, low, high), self._bounded(d))

    def project_conjugate(self, z: Array) -> Array:
        """The point of dom φ* nearest to z."""
        return self._by_code(0 * z, self._bounded(z), jnp.clip(z, self.lower, self.upper))

    def project_conjugate_recession(self, w: Array) -> Array:
        """The direction nearest to w along which φ* stays finite."""
        low, high = jnp.where(jnp.isinf(self.lower), -jnp.inf, 0.0), jnp.where(jnp.isinf(self.upper), jnp.inf, 0.0)
        return self._by_code(0 * w, self._bounded(w), jnp.clip(w, low, high))

    def values(self, q: Array) -> Array:
        """φ(q) of a q in dom φ, row by row."""
        return self._by_code(0 * q, 0 * q, self._support(q))

    def conjugates(self, r: Array) -> Array:
        """φ*(r) of an r in dom φ*, row by row."""
        return self._by_code(0 * r, self._support(r), 0 * r)


def _shrunk(v: Array, low: Array, high: Array) -> Array:
    return jnp.maximum(v - high, 0) + jnp.minimum(v - low, 0)


@pytree("inside", "rows", "equal", "count")
class BallsOf:
    """Groups of rows that are projected onto balls, or shrunk by them."""

    inside: bool
    rows: int
    equal: int | None  # rows of each group if all have the same number
    count: int  # of the groups
    radius: Array  # one number, or one per group
    owner: Array | None  # the group of each row, if groups are unequal

    def norms(self, v: Array) -> Array:
        """The norm of each group."""
        if self.owner is None:
            return jnp.sqrt(jnp.sum((v * v).reshape(-1, self.equal), axis=1))
        return jnp.sqrt(jax.ops.segment_sum(v * v, self.owner, num_segments=self.count, indices_are_sorted=True))

    def _spread(self, values: Array) -> Array:
        return values[self.owner] if self.equal is None else jnp.repeat(values, self.equal)

    def prox(self, v: Array, step: Any) -> Array:
        """Scale each group."""
        if self.inside:
            return self._inside(v)
        radius = jnp.broadcast_to(self.radius.astype(v.dtype), (self.count,))
        norms = self.norms(v)
        outside = norms > 0
        part = self._spread(jnp.where(outside, radius / jnp.where(outside, norms, 1), jnp.inf))
        return v * jnp.maximum(0, 1 - step * part)

    def pooled(self, sizes: Array) -> Array:
        """The norm of each group, in each of its rows."""
        return self._spread(self.norms(sizes))

    def _inside(self, v: Array) -> Array:
        """V, projected onto the balls."""
        radius = jnp.broadcast_to(self.radius.astype(v.dtype), (self.count,))
        return v * self._spread(radius / jnp.maximum(self.norms(v), radius))

    def project(self, y: Array) -> Array:
        """The point of dom φ nearest to y."""
        return self._inside(y) if self.inside else y

    def project_recession(self, d: Array) -> Array:
        """The direction nearest to d along which φ stays finite."""
        return 0 * d if self.inside else d

    def project_conjugate(self, z: Array) -> Array:
        """The point of dom φ* nearest to z."""
        return z if self.inside else self._inside(z)

    def project_conjugate_recession(self, w: Array) -> Array:
        """The direction nearest to w along which φ* stays finite."""
        return w if self.inside else 0 * w

    def values(self, q: Array) -> Array:
        """φ(q) of a q in dom φ, group by group."""
        return 0 * q if self.inside else self.radius * self.norms(q)

    def conjugates(self, r: Array) -> Array:
        """φ*(r) of an r in dom φ*, group by group."""
        return self.radius * self.norms(r) if self.inside else 0 * r


@pytree()
class PhiOf:
    """φ, part by part."""

    parts: tuple[Any, ...]

    def each(self, call: Any, *vectors: Any) -> Array:
        """`call` of each part and its own rows of the vectors; numbers stay as they are."""
        ends = np.cumsum([part.rows for part in self.parts])[:-1]
        if not len(ends):
            return call(self.parts[0], *vectors)
        split = [jnp.split(v, ends) if jnp.ndim(v) else [v] * len(self.parts) for v in vectors]
        return jnp.concatenate([call(part, *own) for part, *own in zip(self.parts, *split, strict=True)])

    def prox(self, v: Array, step: Any) -> Array:
        """The prox with one step, or with one per row."""
        return self.each(lambda part, own, s: part.prox(own, s), v, step)

    def pooled(self, sizes: Array) -> Array:
        """The sizes of the rows, equal in rows that are measured together."""
        return self.each(lambda part, own: part.pooled(own), sizes)

    def project(self, y: Array) -> Array:
        """The point of dom φ nearest to y."""
        return self.each(lambda part, own: part.project(own), y)

    def project_recession(self, d: Array) -> Array:
        """The direction nearest to d along which φ stays finite."""
        return self.each(lambda part, own: part.project_recession(own), d)

    def project_conjugate(self, z: Array) -> Array:
        """The point of dom φ* nearest to z."""
        return self.each(lambda part, own: part.project_conjugate(own), z)

    def project_conjugate_recession(self, w: Array) -> Array:
        """The direction nearest to w along which φ* stays finite."""
        return self.each(lambda part, own: part.project_conjugate_recession(own), w)

    def value(self, q: Array) -> Array:
        """φ(q) of a q in dom φ."""
        return jnp.sum(self.each(lambda part, own: jnp.sum(part.values(own))[None], q))

    def conjugate(self, r: Array) -> Array:
        """φ*(r) of an r in dom φ*."""
        return jnp.sum(self.each(lambda part, own: jnp.sum(part.conjugates(own))[None], r))


@pytree("phi")
class TracedPhi:
    """A φ of the caller's with a prox that JAX can trace."""

    phi: Phi

    def prox(self, v: Array, step: Any) -> Array:
        """The caller's."""
        return jnp.asarray(self.phi.prox(v, step)).astype(v.dtype)


def place_phi(problem: Problem, dtype: Any) -> Any:
    """φ on the device."""
    return place_rows(problem.phi, pieces_of(problem.phi, problem.rows), problem.rows, dtype, _as_y)


def place_rows(phi: Phi, pieces: Pieces | None, rows: int, dtype: Any, place: Callable[[Array], Array]) -> Any:
    """φ of some rows on the device; `place` puts vectors with an entry for each of them there."""
    if pieces is None:
        own = TracedPhi(phi)
        complaint = f"φ = {type(phi).__name__} has a prox that JAX cannot trace"
        check_traced(lambda v: own.prox(v, 1.0), [rows], (rows,), dtype, complaint)
        return own
    parts: list[Any] = []
    table: Pieces = []
    for piece, length in pieces:
        if piece.code in (BALL, SHRINK_BALL):
            parts += _rows(table, dtype, place)
            table = []
            parts.append(_balls(piece, length, dtype))
        else:
            table.append((piece, length))
    return PhiOf((*parts, *_rows(table, dtype, place)))


def _rows(pieces: Pieces, dtype: Any, place: Callable[[Array], Array]) -> list[RowsOf]:
    """Pieces by rows: each by itself if they are long, else in one table, so that all problems share a program.

    On a mesh they are always in a table, as to cut what is divided would take messages.
    """
    total = sum(length for _, length in pieces)
    if not total and not pieces:
        return []
    if total >= LARGE_PHI and len(pieces) < 8 and layout() is None:
        return [RowsOf(p.code, n, None, jnp.asarray(p.lower, dtype), jnp.asarray(p.upper, dtype)) for p, n in pieces]
    codes = np.concatenate([np.full(n, p.code, np.uint8) for p, n in pieces])
    lower, upper = (np.concatenate([np.broadcast_to(np.asarray(p[k], dtype), n) for p, n in pieces]) for k in (1, 2))
    return [RowsOf(None, total, place(codes), place(lower), place(upper))]


def _balls(piece: Piece, rows: int, dtype: Any) -> BallsOf:
    sizes = np.asarray(piece.sizes)
    equal = int(sizes[0]) if np.all(sizes == sizes[0]) else None
    owner = None if equal is not None else jnp.asarray(np.repeat(np.arange(len(sizes), dtype=np.int32), sizes))
    return BallsOf(piece.code == BALL, rows, equal, len(sizes), jnp.asarray(piece.lower, dtype), owner)
