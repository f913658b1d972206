"""φ on a mesh if y is in sections: each section has a φ of its own."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from dapd.engines.jax.layout import whole_on_mesh
from dapd.engines.jax.mesh.map import MeshMap, Sections
from dapd.engines.jax.phi import place_rows
from dapd.engines.jax.pytree import pytree
from dapd.kinds.base import Phi
from dapd.kinds.composed import Stack
from dapd.kinds.lowered import Piece, Pieces, pieces_of
from dapd.problem.problem import Problem


@pytree()
class SectionsPhi:
    """φ, section by section."""

    parts: tuple[Any, ...]

    def prox(self, v: Sections, step: Any) -> Sections:
        """The prox of each section."""
        return Sections(tuple(part.prox(own, step) for part, own in zip(self.parts, v.parts, strict=True)))


def sections_of_phi(problem: Problem, M: MeshMap) -> SectionsPhi:
    """φ for the sections of y, in the problem's dtype."""
    phi, pieces = problem.phi, pieces_of(problem.phi, problem.rows)
    own: list[tuple[Phi, Pieces | None]]
    if pieces is not None:
        own = [(phi, some) for some in cut_pieces(pieces, M.rows)]
    else:
        own = [(part, pieces_of(part, rows)) for part, rows in zip(_cut_stack(phi, M.rows), M.rows, strict=True)]
    places = zip(own, M.rows, M.shardings, strict=True)
    return SectionsPhi(
        tuple(
            place_rows(part, some, rows, problem.dtype, partial(whole_on_mesh, sharding=sharding))
            for (part, some), rows, sharding in places
        )
    )


def _cut_stack(phi: Phi, sections: tuple[int, ...]) -> list[Phi]:
    """A φ that is only known by its prox, in its own parts."""
    parts, found = list(_parts(phi, sum(sections))), list[Phi]()
    for rows in sections:
        own, left = list[tuple[Phi, int]](), rows
        while parts and parts[0][1] <= left:
            own.append(parts.pop(0))
            left -= own[-1][1]
        if left:
            raise ValueError(
                f"φ = {type(phi).__name__} is only known by its prox, and on a mesh the parts of M lie differently; "
                "give dapd.Stack with a φ for each part of M"
            )
        found.append(own[0][0] if len(own) == 1 else Stack([part for part, _ in own], sizes=[n for _, n in own]))
    return found


def _parts(phi: Phi, rows: int) -> Iterator[tuple[Phi, int]]:
    """The parts of a stack with their rows, or φ itself."""
    if not isinstance(phi, Stack):
        yield phi, rows
        return
    for part, size in zip(phi.parts, phi.sizes, strict=True):
        yield from _parts(part, size or 0)


def cut_pieces(pieces: Pieces, sections: tuple[int, ...]) -> list[Pieces]:
    """The pieces of φ for the rows of each section."""
    left, found = list(pieces), list[Pieces]()
    for rows in sections:
        own: Pieces = []
        while rows:
            piece, length = left.pop(0)
            if length > rows:
                piece, rest = _cut_piece(piece, length, rows)
                left.insert(0, (rest, length - rows))
                length = rows
            own.append((piece, length))
            rows -= length
        found.append(own)
    return found


def _cut_piece(piece: Piece, length: int, rows: int) -> tuple[Piece, Piece]:
    """The piece for the first rows, and for the others."""
    if piece.sizes is None:
        at, count, sizes = rows, length, (None, None)
    else:
        ends = np.cumsum(piece.sizes)
        at, count = int(np.searchsorted(ends, rows)) + 1, len(ends)
        if ends[at - 1] != rows:
            raise ValueError(
                "a group of φ has rows in two parts of M, which lie differently on the devices of mesh; give the rows "
                "of a group in one part of M"
            )
        sizes = piece.sizes[:at], piece.sizes[at:]
    bounds = [np.broadcast_to(end, count) if np.ndim(end) else end for end in (piece.lower, piece.upper)]
    lower, upper = ([end[:at], end[at:]] if np.ndim(end) else [end, end] for end in bounds)
    first, others = (Piece(piece.code, lower[k], upper[k], sizes[k]) for k in (0, 1))
    return first, others
