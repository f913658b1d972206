"""The python engine: a method's own `step` on NumPy arrays, for every problem; the reference for the others."""

from __future__ import annotations

from typing import Any

from dapd.arguments import TimeUp
from dapd.arrays import Array
from dapd.engines.protocol import check_same
from dapd.methods.base import Method, copy_of


class PythonRunner:
    """A method's step, run by Python."""

    engine = "python"

    def __init__(self, method: Method, *, reason: str = "") -> None:
        self.method, self.reason = method, reason
        self._state: Any = None

    def rebind(self, method: Method) -> None:
        """Run this method from its first state; the counts go on."""
        check_same(self.method.problem, method.problem)
        gradients, products = self.counts.gradients, self.counts.products
        self.method = method
        self.start()
        method.oracle.gradients += gradients
        method.oracle.products += products

    def start(self) -> None:
        """Set the state to the method's first, and count what that takes."""
        self.method.oracle.reset()
        self._state = copy_of(self.method.init())

    @property
    def state(self) -> Any:
        """A copy of the state."""
        return copy_of(self._state)

    @state.setter
    def state(self, state: Any) -> None:
        self._state = copy_of(state)

    @property
    def counts(self) -> Any:
        """The oracle's."""
        return self.method.oracle

    def advance(self, steps: int, deadline: float) -> int:
        """Take `steps` steps, or fewer if the deadline comes first, which also ends a long step; return how many."""
        self.method.oracle.deadline = deadline
        for done in range(steps):
            try:
                self._state = self.method.run(self._state, 1)
            except TimeUp:
                return done
        return steps

    def point(self) -> tuple[Array, Array]:
        """Copies of x and y."""
        x, y = self.method.point(self._state)
        return x.copy(), y.copy()
