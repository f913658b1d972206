"""What the loop asks of an engine: bind a method once, then advance, look and count."""

from __future__ import annotations

from typing import Any, Protocol

from dapd.arrays import Array


class Runner(Protocol):
    """A method bound to an engine; it owns the state."""

    engine: str  # which one
    reason: str  # why not a faster one; empty if there is none

    def start(self) -> None:
        """Set the state to the method's first."""

    def advance(self, steps: int, deadline: float) -> int:
        """Take so many steps, or fewer if the deadline (on the performance counter) comes first; return how many."""

    def point(self) -> tuple[Array, Array]:
        """Copies of the (x, y) that the state stands for."""

    @property
    def state(self) -> Any:
        """A copy of the state."""

    @state.setter
    def state(self, state: Any) -> None: ...

    @property
    def counts(self) -> Counts:
        """What the method has asked of the problem so far."""


class Counts(Protocol):
    """Questions to the oracle."""

    gradients: int
    products: int
    block_products: int
