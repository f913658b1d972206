"""What every transform is: a problem, and the way there and back."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from dapd.arrays import Array
from dapd.model.problem import Problem
from dapd.model.proximal import Phi
from dapd.model.smooth import Function
from dapd.spectrum.estimate import Spectrum

FLOPS = 2e11  # of a factorisation and of what it changes, at most


class Transform(Protocol):
    """A problem with the same solutions as another one, in other variables.

    `start` takes a point of the original problem to this one, and `back` takes one back; `back` of a solution is a
    solution. Neither changes its arguments.
    """

    name: str
    why: str  # a sentence: what was done
    problem: Problem

    def start(self, x: Array, y: Array) -> tuple[Array, Array]:
        """(x, y) of the original problem in the new variables."""

    def back(self, x: Array, y: Array) -> tuple[Array, Array]:
        """(x, y) of the original problem, the y of removed rows included."""


@runtime_checkable
class ForAnyB(Transform, Protocol):
    """A transform that depends on f, M and φ alone, so it serves every b."""

    def with_b(self, b: Array) -> Transform | None:
        """The transform of the problem with another b; None if that b forbids it."""


class WayBack(NamedTuple):
    """x = columns·x̂[x_places] and y = rows·ŷ[y_places], of NumPy or of JAX arrays."""

    columns: Any = 1.0  # a vector, or a number if all entries are the same
    rows: Any = 1.0
    x_places: Array | None = None  # None: all entries stay in their places
    y_places: Array | None = None

    def after(self, last: WayBack) -> WayBack:
        """The way back by `last` first, and then by this one."""
        return WayBack(
            self.columns * _at(self.x_places, last.columns),
            self.rows * _at(self.y_places, last.rows),
            _composed(self.x_places, last.x_places),
            _composed(self.y_places, last.y_places),
        )

    def of(self, x: Array, y: Array) -> tuple[Array, Array]:
        """The point (x, y) taken back."""
        return self.columns * _at(self.x_places, x), self.rows * _at(self.y_places, y)


def _at(places: Array | None, v: Any) -> Any:
    """v[places]; a number is the same in all places."""
    return v if places is None or np.ndim(v) == 0 else v[places]


def _composed(places: Array | None, before: Array | None) -> Array | None:
    """v[before][places] is v[these]."""
    return places if before is None else _at(places, before)


@runtime_checkable
class Entrywise(Transform, Protocol):
    """A transform that only multiplies and moves entries, so a device can take points there and back as well."""

    @property
    def way_back(self) -> WayBack:
        """How a point is taken back."""


def rebuilt_problem(
    problem: Problem,
    *,
    f: Function | None = None,
    M: Any = None,
    b: Array | None = None,
    phi: Phi | None = None,
    keep_blocks: bool = True,
    spectrum: Spectrum | None = None,
) -> Problem:
    """The problem with some of its parts replaced; bounds on its singular values hold only for its own M."""
    return Problem(
        problem.f if f is None else f,
        problem.M if M is None else M,
        problem.b if b is None else b,
        problem.phi if phi is None else phi,
        blocks=problem.blocks if keep_blocks else None,
        spectrum=spectrum if M is not None else problem.spectrum,
    )
