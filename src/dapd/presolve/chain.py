"""Several transforms, one after the other."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property

from dapd.arguments import TimeUp
from dapd.arrays import Array
from dapd.machine.clock import is_over
from dapd.presolve.transform import Entrywise, ForAnyB, Transform
from dapd.problem.problem import Problem
from dapd.problem.way_back import WayBack

Apply = Callable[[Problem], Transform | None]


class Presolve:
    """The transforms that changed something, in order; itself a transform."""

    name = "presolve"

    def __init__(self, problem: Problem, transforms: Sequence[Transform]) -> None:
        self.original, self.transforms = problem, list(transforms)
        self.problem = transforms[-1].problem if transforms else problem

    @classmethod
    def apply(cls, problem: Problem, steps: Sequence[Apply], deadline: float = math.inf) -> Presolve:
        """Try each step, such as `RowScaling.apply`, on what those before it left; raise TimeUp if that takes long."""
        found: list[Transform] = []
        current = problem
        for step in steps:
            if is_over(deadline):
                raise TimeUp
            transform = step(current)
            if transform is not None:
                found.append(transform)
                current = transform.problem
        return cls(problem, found)

    def again(self, problem: Problem) -> Presolve | None:
        """The same transforms of a problem that differs only in b; None if it differs in more, or b forbids them."""
        known = self.original
        if problem is known:
            return self
        if not (problem.f is known.f and problem.M is known.M and problem.phi is known.phi):
            return None
        found: list[Transform] = []
        b = problem.b
        for transform in self.transforms:
            other = transform.with_b(b) if isinstance(transform, ForAnyB) else None
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
            if not isinstance(transform, Entrywise):
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
