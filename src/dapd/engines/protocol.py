"""What the loop asks of an engine: bind a method once, then advance, look and count."""

from __future__ import annotations

from typing import Any, Protocol

from dapd.arrays import Array
from dapd.methods.base import Method
from dapd.problem.problem import Problem


class NotNative(Exception):
    """The native core cannot run this; the message says why."""


class CannotRun(ValueError):
    """The engine that was asked for cannot run this; the message says why, and which can."""


class Runner(Protocol):
    """A method bound to an engine; it owns the state."""

    method: Method
    engine: str  # which one it is
    reason: str  # why it is not a faster one, or what it calls Python for; empty if there is nothing to say

    def start(self) -> None:
        """Set the state to the method's first."""

    def advance(self, steps: int, deadline: float) -> int:
        """Take `steps` steps, or fewer if the deadline (of perf_counter) comes first; return how many."""

    def point(self) -> tuple[Array, Array]:
        """Copies of the (x, y) that the state stands for."""

    @property
    def state(self) -> Any:
        """A copy of the state."""

    @state.setter
    def state(self, state: Any) -> None: ...

    @property
    def counts(self) -> OracleCounts:
        """What the method has asked of the problem so far."""


class RestartedRunner(Runner, Protocol):
    """A runner that changes its method, as restarts do."""

    def rebind(self, method: Method) -> None:
        """Run this method from its first state; the counts go on."""


class OracleCounts(Protocol):
    """Questions to the oracle."""

    gradients: int  # ∇f, or of one block

    @property
    def products(self) -> int:
        """With M and with Mᵀ, each counted."""

    block_products: int  # with one block of M or its transpose


class Engine(str):
    """The name of the engine that ran, with the reason why no faster one did, or what it called; equal to the name."""

    name: str
    reason: str

    def __new__(cls, name: str, reason: str = "") -> Engine:
        """Such as "native", or "python" with a reason."""
        made = super().__new__(cls, f"{name}: {reason}" if reason else name)
        made.name, made.reason = name, reason
        return made

    def __eq__(self, other: object) -> bool:
        return other in (self.name, str(self))

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.name)


def check_same(before: Problem, after: Problem) -> None:
    """Raise if a runner of one problem cannot run a method of the other."""
    if before.M is not after.M or before.phi is not after.phi or before.f is not after.f:
        raise ValueError("a runner can only take methods of its own problem; bind a new one")
