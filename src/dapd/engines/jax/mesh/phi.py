"""φ on a mesh if y is in sections: each section has a φ of its own."""

from __future__ import annotations

from functools import partial
from typing import Any

from dapd.engines.jax.layout import whole_on_mesh
from dapd.engines.jax.mesh.map import MeshMap, Sections
from dapd.engines.jax.phi import place_kinds
from dapd.engines.jax.pytree import pytree
from dapd.kinds.base import Phi, kinds_of
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
    found = zip(cut(kinds_of(problem.phi, problem.rows), M.rows), M.shardings, strict=True)
    return SectionsPhi(
        tuple(place_kinds(own, problem.dtype, partial(whole_on_mesh, sharding=sharding)) for own, sharding in found)
    )


def cut(kinds: list[tuple[Phi, int]], sections: tuple[int, ...]) -> list[list[tuple[Phi, int]]]:
    """The canonical kinds for the rows of each section."""
    left, found = list(kinds), []
    for rows in sections:
        own: list[tuple[Phi, int]] = []
        while rows:
            kind, length = left.pop(0)
            if length > rows:
                left.insert(0, (_part(kind, slice(rows, length), length), length - rows))
                kind, length = _part(kind, slice(0, rows), length), rows
            own.append((kind, length))
            rows -= length
        found.append(own)
    return found


def _part(kind: Phi, at: slice, rows: int) -> Phi:
    part = kind.part(at, rows)
    if part is not None:
        return part
    if kind.anywhere:
        raise ValueError(
            "a group of φ has rows in two parts of M, which lie differently on the devices of mesh; give the rows "
            "of a group in one part of M"
        )
    raise ValueError(
        f"φ = {kind.kind} is only known by its prox, and on a mesh the parts of M lie differently; "
        "give dapd.Stack with a φ for each part of M"
    )
