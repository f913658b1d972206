"""f made of given terms, or of functions of consecutive blocks of x."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dapd.arguments import consecutive, named, vector
from dapd.arrays import Array, namespace
from dapd.functions.base import METHODS, Function
from dapd.functions.terms import Part, Terms
from dapd.operators.base import describes


class Composite(Function):
    """Make f of terms and constants that were checked before."""

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
        vectors = {name: v for name, v in (("d", own.d), ("H", own.H), ("c", own.c)) if v is not None}
        terms = [own._replace(**{name: v[b] for name, v in vectors.items()}) for b in blocks]
        return [Composite(t, b.stop - b.start, self.mu, self.L) for t, b in zip(terms, blocks, strict=True)]


class Separable(Function):
    """Σ f_i(x_i), x cut into consecutive blocks, one function each.

    `sizes` gives the length of each block if a function does not know it (PseudoHuber); a Problem with
    `blocks=` fills them in.
    """

    @named
    def __init__(self, functions: Sequence[Function], *, sizes: Sequence[int] | None = None) -> None:
        if not functions:
            raise ValueError("functions is empty; give one function per block")
        for f in functions:
            if not isinstance(f, Function):
                raise TypeError(f"functions must be dapd functions, found {type(f).__name__}; wrap it in dapd.Smooth")
        if sizes is not None and len(sizes) != len(functions):
            raise ValueError(f"sizes has {len(sizes)} entries for {len(functions)} functions")
        if sizes is not None:
            functions = [f.sized(n) for f, n in zip(functions, sizes, strict=True)]
        self.functions = list(functions)
        known = list(sizes) if sizes is not None else [f.size for f in functions if f.size is not None]
        self.blocks = consecutive(known) if len(known) == len(functions) else None
        self.size = None if self.blocks is None else self.blocks[-1].stop
        greatest = [f.L for f in functions if f.L is not None]
        self._constants(min(f.mu for f in functions), max(greatest) if len(greatest) == len(functions) else None)

    def sized(self, variables: int) -> Function:
        self._known_blocks()
        return super().sized(variables)

    def _known_blocks(self) -> list[slice]:
        if self.blocks is None:
            raise ValueError("f has blocks of unknown size: give Separable sizes=[...], or the Problem blocks=")
        return self.blocks

    def _pieces(self, x: Array) -> list[tuple[Function, Array]]:
        return [(f, x[block]) for f, block in zip(self.functions, self._known_blocks(), strict=True)]

    def divided(self, blocks: list[slice] | None) -> Separable:
        """With the problem's blocks if its own are not known; else they must be the same."""
        f = self
        if f.blocks is None and blocks is not None:
            f = Separable(f.functions, sizes=[block.stop - block.start for block in blocks])
        if f.blocks is not None and f.blocks != blocks:
            raise ValueError("f has other blocks than the problem; make Separable's sizes and blocks= agree")
        return f

    @property
    def work(self) -> int:
        return sum(f.work for f in self.functions)

    def value(self, x: Array) -> float:
        return sum(f.value(piece) for f, piece in self._pieces(x))

    def grad(self, x: Array) -> Array:
        return namespace(x).concat([f.grad(piece) for f, piece in self._pieces(x)])

    def split(self, blocks: list[slice]) -> list[Function] | None:
        return list(self.functions) if blocks == self.blocks else None

    def block_grad(self, x: Array, block: slice) -> Array:
        return self.functions[self._known_blocks().index(block)].grad(x[block])

    def parts(self, size: int) -> list[Part] | None:
        found: list[Part] = []
        for f, block in zip(self.functions, self._known_blocks(), strict=True):
            own = f.parts(block.stop - block.start) if describes(self, "parts", *METHODS) else None
            if own is None:
                return None
            found += [one._replace(at=slice(block.start + one.at.start, block.start + one.at.stop)) for one in own]
        return found

    def joined(self, parts: Sequence[Function]) -> Function:
        return Separable(parts, sizes=[part.size or 0 for part in parts])
