"""φ on a device, from its lowered form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dapd.arrays import Array
from dapd.engines.jax.layout import layout, put
from dapd.engines.jax.maps import check_traced
from dapd.engines.jax.pytree import pytree
from dapd.kinds.base import Phi
from dapd.kinds.lowered import BALL, CLIP, KEEP, SHRINK, SHRINK_BALL, Piece, Pieces, pieces_of
from dapd.problem.problem import Problem

LARGE_PHI = 1 << 16  # rows from which each piece of φ is evaluated by itself rather than by a table


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


def _as_y(v: Array) -> Array:
    """A vector as long as y, where y is."""
    return put(v, v.dtype, dual=True)


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
