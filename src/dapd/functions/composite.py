"""f from given terms and constants."""

from __future__ import annotations

from typing import Any

from dapd.arguments import vector
from dapd.arrays import Array
from dapd.functions.base import Function
from dapd.functions.terms import Terms


class Composite(Function):
    """Of terms and constants that were checked before."""

    def __init__(self, terms: Terms, size: int | None, mu: float, L: float | None) -> None:
        self._terms, self.size, self.mu, self.L, self.c = terms, size, mu, L, terms.c

    def lowered(self) -> Terms:
        return self._terms

    def replaced(self, *, c: Any = None, H: Any = None) -> Function:
        if H is not None or self.c is None:
            return super().replaced(c=c, H=H)
        return Composite(self._terms._replace(c=vector("c", c, self.size)), self.size, self.mu, self.L)

    def split(self, blocks: list[slice]) -> list[Function] | None:
        own = self._terms
        if not own.is_by_entry:
            return None

        def part(v: Array | None, block: slice) -> Array | None:
            return None if v is None else v[block]

        terms = [own._replace(d=part(own.d, b), H=part(own.H, b), c=part(own.c, b)) for b in blocks]
        return [Composite(t, b.stop - b.start, self.mu, self.L) for t, b in zip(terms, blocks, strict=True)]
