"""What every transform is: a problem, and the way there and back; and several of them, one after the other."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import copy
from functools import cached_property
from typing import Any, Self

from dapd.arguments import TimeUp
from dapd.arrays import Array
from dapd.functions import Function
from dapd.kinds.base import Phi
from dapd.machine.clock import is_over
from dapd.problem.problem import Problem
from dapd.problem.way_back import WayBack
from dapd.spectrum.estimate import Spectrum

FLOPS = 2e11  # most operations of a factorisation and of what it changes


class Transform:
    """A problem with the same solutions as another one, in other variables.

    `start` takes a point of the original problem to this one, and `back` takes one back; `back` of a solution is a
    solution. Neither changes its arguments. Of a problem with bounds, y holds the multipliers of the rows and, after
    them, those of the bounds.
    """

    name: str
    why: str  # a sentence: what was done
    problem: Problem
    way_back: WayBack | None = (
        None  # if entries are only multiplied and moved, so a device can take points back as well
    )

    def start(self, x: Array, y: Array) -> tuple[Array, Array]:
        """(x, y) of the original problem in the new variables."""
        assert self.way_back is not None  # what does more has its own `start` and `back`
        return self.way_back.start(x, y)

    def back(self, x: Array, y: Array) -> tuple[Array, Array]:
        """(x, y) of the original problem, the y of removed rows included."""
        assert self.way_back is not None
        return self.way_back.of(x, y)

    def new_b(self, b: Array) -> Array | None:
        """The b of the new problem for another b of the original one; None if the transform may depend on b."""
        return None

    def with_b(self, b: Array) -> Self | None:
        """The transform of the problem with another b; None if it may be another one."""
        new = self.new_b(b)
        if new is None:
            return None
        other = copy(self)
        other.problem = self.problem.replaced(b=new)
        return other


def rebuilt_problem(
    problem: Problem,
    *,
    f: Function | None = None,
    M: Any = None,
    b: Array | None = None,
    phi: Phi | None = None,
    bounds: tuple[Array, Array] | None = None,
    keep_blocks: bool = True,
    spectrum: Spectrum | None = None,
) -> Problem:
    """The problem with some of its parts replaced; bounds on its singular values hold only for its own M."""
    new = Problem(
        problem.f if f is None else f,
        problem.M if M is None else M,
        problem.b if b is None else b,
        problem.phi if phi is None else phi,
        blocks=problem.blocks if keep_blocks else None,
        spectrum=spectrum if M is not None else problem.spectrum,
    )
    new.lower, new.upper = (problem.lower, problem.upper) if bounds is None else bounds  # checked before
    return new


Apply = Callable[[Problem], Transform | None]


class Presolve:
    """Several transforms, one after the other; only those that changed something are kept."""

    def __init__(self, problem: Problem, transforms: Sequence[Transform]) -> None:
        self.original, self.transforms = problem, list(transforms)
        self.problem = transforms[-1].problem if transforms else problem

    @classmethod
    def apply(
        cls, problem: Problem, steps: Sequence[Apply], deadline: float = math.inf, *, on_device: bool = False
    ) -> Presolve:
        """Try each step, such as `RowScaling.apply`, on what those before it left; raise TimeUp if that takes long.

        For points that stay on a device, only transforms are kept that it can take back.
        """
        found: list[Transform] = []
        current = problem
        for step in steps:
            if is_over(deadline):
                raise TimeUp
            transform = step(current)
            if transform is not None and not (on_device and transform.way_back is None):
                found.append(transform)
                current = transform.problem
        return cls(problem, found)

    def again(self, problem: Problem) -> Presolve | None:
        """The same transforms of a problem that differs only in b; None if it differs in more, or b forbids them."""
        known = self.original
        if problem is known:
            return self
        if any(getattr(problem, name) is not getattr(known, name) for name in ("f", "M", "phi", "lower", "upper")):
            return None
        found: list[Transform] = []
        b = problem.b
        for transform in self.transforms:
            other = transform.with_b(b)
            if other is None:
                return None
            found.append(other)
            b = other.problem.b
        return Presolve(problem, found)

    @property
    def why(self) -> str:
        """What was done, in sentences; empty if nothing was."""
        return " ".join(transform.why for transform in self.transforms)

    @cached_property
    def way_back(self) -> WayBack | None:
        """The way back through all transforms at once; None if one of them does more than multiply and move entries."""
        found = WayBack()
        for transform in self.transforms:
            if transform.way_back is None:
                return None
            found = found.after(transform.way_back)
        return found

    def start(self, x: Array, y: Array) -> tuple[Array, Array]:
        """(x, y) of the original problem in the last one's variables."""
        for transform in self.transforms:
            x, y = transform.start(x, y)
        return x, y

    def back(self, x: Array, y: Array) -> tuple[Array, Array]:
        """(x, y) of the original problem."""
        if self.transforms and self.way_back is not None:
            return self.way_back.of(x, y)
        for transform in reversed(self.transforms):
            x, y = transform.back(x, y)
        return x, y
