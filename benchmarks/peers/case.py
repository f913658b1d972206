"""What a solver gets and what it gives back."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

from peers.canonical import Canonical
from peers.conic import Answer
from peers.model import Model


class Case:
    """A model with its conic form, which is built once."""

    def __init__(self, model: Model) -> None:
        self.model = model

    @cached_property
    def canonical(self) -> Canonical:
        """The conic form and the map to it."""
        return Canonical(self.model)

    @property
    def qp(self) -> Any:
        """The conic form alone."""
        return self.canonical.qp


class Attempt(NamedTuple):
    """One run of a solver. `seconds` includes the solver's set-up, not the translation of our data."""

    answer: Answer | None
    seconds: float
    claims: bool  # whether the solver says that it reached the tolerance
    status: str
    iterations: int = 0
    peak_megabytes: float = 0.0  # of the process, before the answer is translated; 0 if the solver does not say


def peak_megabytes() -> float:
    """The most memory that this process has used so far; 0 where the system does not tell."""
    if sys.platform == "win32":
        return 0.0
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20 if sys.platform == "darwin" else 1 << 10)


Solve = Callable[[Case, float, float], Attempt]  # case, tolerance, time limit


class Solver(NamedTuple):
    """How to run a solver, and for what."""

    module: str  # what must be installed
    solve: Solve
    applies: Callable[[Model], bool]
    tighter: tuple[float, ...] = (1.0,)  # factors on the tolerance, tried until the answer meets it
