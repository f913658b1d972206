"""What every transform is: a problem, and the way there and back."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from dapd.arrays import Array
from dapd.functions import Function
from dapd.kinds.by_rows import Phi
from dapd.problem.problem import Problem
from dapd.problem.way_back import WayBack
from dapd.spectrum.estimate import Spectrum

FLOPS = 2e11  # most operations of a factorisation and of what it changes


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
