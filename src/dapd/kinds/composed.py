"""φ made of other functions: a conjugate, by Moreau's identity, and a stack with a different φ for different rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from dapd.arguments import consecutive, named, whole
from dapd.arrays import Array, namespace
from dapd.kinds.base import Called, Phi, as_phi, is_own, kinds_of
from dapd.kinds.by_rows import ByRows
from dapd.kinds.sets import Paired


class HasProx(Protocol):
    """A convex g with `value(z)` and `prox(v, step)`, such as any φ of this package."""

    def value(self, z: Array) -> float:
        """g(z)."""

    def prox(self, v: Array, step: float) -> Array:
        """argmin_z g(z) + ‖z − v‖²/(2·step)."""


class Conjugate(Paired):
    """φ = g*, so the problem is min f(x) + g(Mx − b); its prox comes from that of g by Moreau.

    Parameters
    ----------
    g : object with `value(z)`, or that is called for its value, and `prox(v, step)`
        The value is g(z), a number, and `prox(v, step)` is argmin_z g(z) + ‖z − v‖²/(2·step), a new array like v. Any
        φ of dapd will do, and any of PyProximal. With `conjugate(y)`, g*(y), the value of φ is known too.
    """

    arguments = ("g",)

    @named
    def __init__(self, g: HasProx) -> None:
        is_called = callable(g) and not hasattr(g, "value")
        for need in ("prox(v, step)",) if is_called else ("value(z)", "prox(v, step)"):
            if not callable(getattr(g, need.partition("(")[0], None)):
                raise TypeError(
                    f"g must have a method {need}, and {type(g).__name__} has none; "
                    "Conjugate needs value(z) = g(z) and prox(v, step) = argmin_z g(z) + ‖z − v‖²/(2·step)"
                )
        self.g: Phi = g if isinstance(g, Phi) else Called(g, None if is_called else g.value)
        self.size = getattr(g, "size", None)

    def value(self, y: Array) -> float:
        return self.g.conjugate(y)

    def prox(self, v: Array, step: Any) -> Array:
        inner = self.g.prox(v / step, 1 / step)
        if getattr(inner, "shape", None) != v.shape:
            found = getattr(inner, "shape", type(inner).__name__)
            raise ValueError(f"g.prox returned {found}, expected an array of shape {v.shape}")
        return v - step * inner

    @property
    def row_steps(self) -> bool:
        return self.g.row_steps

    def pooled(self, sizes: Array) -> Array:
        return self.g.pooled(sizes)

    def conjugate_near(self, v: Array, step: Any) -> float:
        return self.g.value_at_prox(v / step, 1 / step)

    def recession(self, d: Array) -> float:
        return self.g.conjugate_recession(d)

    def project_recession(self, d: Array) -> Array:
        return self.g.project_conjugate_recession(d)

    def ends(self, rows: int) -> tuple[Array, Array]:
        of_residual, of_y = self.g.ends(rows)
        return of_y, of_residual

    def reach(self, rows: int) -> float:
        return self.g.steepness(rows)

    def project(self, y: Array) -> Array:
        return self.g.project_conjugate(y)

    def sized(self, rows: int) -> Phi:
        inner = self.g.sized(rows)
        return self if inner is self.g else Conjugate(inner)

    @property
    def kind(self) -> str:
        return f"Conjugate of {self.g.kind}"

    def canonical(self, rows: int) -> list[tuple[Phi, int]]:
        return [
            (kind.conjugated() or (self if kind is self.g else Conjugate(kind)), n)
            for kind, n in kinds_of(self.g, rows)
        ]

    def conjugated(self) -> Phi:
        return self.g

    def parameters(self) -> dict[str, Any]:
        return {"g": self.g}

    def checked(self) -> Phi:
        return Conjugate(self.g.checked())


class Stack(Paired):
    """A different φ for different rows: φ(y) = Σ_k φ_k(y_k), y cut into consecutive pieces.

    Parameters
    ----------
    parts : list of φ
        In the order of the rows.
    sizes : list of int, optional
        Rows of each part; None for a part with a fixed size, or for the one part that takes what is left.
    """

    arguments, leaves = ("parts", "sizes"), ("parts",)

    @named
    def __init__(self, parts: Sequence[Phi], sizes: Sequence[int | None] | None = None) -> None:
        if not parts:
            raise ValueError("parts is empty; give at least one φ")
        parts = [as_phi(part, f"parts[{k}]") for k, part in enumerate(parts)]
        if sizes is not None and len(sizes) != len(parts):
            raise ValueError(f"sizes has {len(sizes)} entries for {len(parts)} parts")
        given = [n if n is None else whole("sizes", n, least=1) for n in sizes or [None] * len(parts)]
        self.sizes = [part.size if n is None else n for part, n in zip(parts, given, strict=True)]
        self.parts = [p if n is None else p.sized(n) for p, n in zip(parts, self.sizes, strict=True)]
        unknown = self.sizes.count(None)
        if unknown > 1:
            raise ValueError(f"{unknown} of the parts have no size; give sizes=[...], at most one of them None")
        self.size = None if unknown else sum(n for n in self.sizes if n is not None)

    def conjugated(self) -> Phi:
        return Stack([Conjugate(part) for part in self.parts], sizes=self.sizes)

    @property
    def is_zero(self) -> bool:
        return all(part.is_zero for part in self.parts)

    @property
    def is_linear(self) -> bool:
        return all(part.is_linear for part in self.parts)

    def sized(self, rows: int) -> Phi:
        """Give the rows that are left to the part without a size."""
        if self.size is not None:
            return super().sized(rows)
        left = rows - sum(n for n in self.sizes if n is not None)
        if left < 1:
            raise ValueError(f"the parts of phi take {rows - left} rows or more, but M has {rows}")
        return Stack(self.parts, sizes=[left if n is None else n for n in self.sizes])

    @property
    def row_steps(self) -> bool:
        """Yes; a part that takes one step for all of its rows gets the first of theirs."""
        return True

    @cached_property
    def _all_by_rows(self) -> bool:
        """Whether every part takes one step per row, and measures each row by itself."""
        return all(part.row_steps and type(part).pooled is Phi.pooled for part in self.parts)

    def pooled(self, sizes: Array) -> Array:
        if self._all_by_rows:
            return sizes
        return self._joined("pooled", sizes)

    def steps(self, dual: Array, primal: Array) -> Any:
        if self._all_by_rows:
            return dual / primal
        pieces, xp = zip(self.parts, self._pieces(dual), self._pieces(primal), strict=True), namespace(dual)
        return xp.concat([xp.broadcast_to(part.steps(y, z), y.shape) for part, y, z in pieces])

    def _pieces(self, v: Array) -> list[Array]:
        return [v[piece] for piece in self.places]

    @cached_property
    def places(self) -> list[slice]:
        """The rows of each part."""
        return consecutive(n for n in self.sizes if n is not None)

    def _with_steps(self, v: Array, step: Any) -> list[tuple[Phi, Array, Any]]:
        steps = self._pieces(step) if np.ndim(step) else [step] * len(self.parts)
        own = [
            step if part.row_steps or not np.ndim(step) else step[0]
            for part, step in zip(self.parts, steps, strict=True)
        ]
        return list(zip(self.parts, self._pieces(v), own, strict=True))

    def _sum(self, name: str, v: Array) -> float:
        return sum((getattr(part, name)(piece) for part, piece in zip(self.parts, self._pieces(v), strict=True)), 0.0)

    def value(self, y: Array) -> float:
        return self._sum("value", y)

    def prox(self, v: Array, step: Any) -> Array:
        return namespace(v).concat([part.prox(piece, own) for part, piece, own in self._with_steps(v, step)])

    def conjugate_near(self, v: Array, step: Any) -> float:
        return sum((part.conjugate_near(piece, own) for part, piece, own in self._with_steps(v, step)), 0.0)

    def ends(self, rows: int) -> tuple[Array, Array]:
        found = [part.ends(n or 0) for part, n in zip(self.parts, self.sizes, strict=True)]
        of_residual, of_y = (np.concatenate(side) for side in zip(*found, strict=True))
        return of_residual, of_y

    def reach(self, rows: int) -> float:
        return math.hypot(*(part.reach(n or 0) for part, n in zip(self.parts, self.sizes, strict=True)))

    def _joined(self, name: str, v: Array) -> Array:
        pieces = zip(self.parts, self._pieces(v), strict=True)
        return namespace(v).concat([getattr(part, name)(piece) for part, piece in pieces])

    def terms(self, y: Array) -> Array:
        return self._joined("terms", y)

    def conjugate_terms(self, z: Array) -> Array:
        return self._joined("conjugate_terms", z)

    def project(self, y: Array) -> Array:
        return self._joined("project", y)

    def project_recession(self, d: Array) -> Array:
        return self._joined("project_recession", d)

    def recession(self, d: Array) -> float:
        return self._sum("recession", d)

    @property
    def kind(self) -> str:
        return "Stack of " + ", ".join(f"{part.kind} ({n})" for part, n in zip(self.parts, self.sizes, strict=True))

    @property
    def runs_on_device(self) -> bool:  # type: ignore[override]  # a constant of other classes
        """Whether all parts are known there."""
        return all(part.runs_on_device for part in self.parts)

    def canonical(self, rows: int) -> list[tuple[Phi, int]]:
        return [found for part, n in zip(self.parts, self.sizes, strict=True) for found in kinds_of(part, n or 0)]

    def checked(self) -> Phi:
        return Stack([part.checked() for part in self.parts], sizes=self.sizes)


# what the core's certificate computes of rows by itself
MEASURES = ("value", "prox", "conjugate", "steps", "pooled", "project", "project_conjugate")


def is_sum_over_rows(phi: Any) -> bool:
    """Whether φ measures each row by itself, by its interval."""
    if type(phi) is Stack:
        return all(map(is_sum_over_rows, phi.parts))
    return is_sum_over_rows(phi.g) if type(phi) is Conjugate else isinstance(phi, ByRows) and is_own(phi, *MEASURES)
