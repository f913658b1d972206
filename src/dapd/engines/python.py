"""The python engine: a method's own `step` on NumPy arrays, for every problem; the reference for the others."""

from __future__ import annotations

from typing import Any

from dapd.arguments import TimeUp
from dapd.arrays import Array
from dapd.engines.epochs import End, Epochs
from dapd.engines.protocol import check_same
from dapd.methods.anchors import Epoch
from dapd.methods.base import Method, copy_of


class PythonRunner:
    """A method's step, run by Python."""

    engine = "python"
    patience = 1

    def __init__(self, method: Method, *, reason: str = "") -> None:
        self.method, self.reason = method, reason
        self._state: Any = None
        self.epochs: Epochs | None = None

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
        self.epochs = Epochs(self.method) if self.method.is_restarted else None

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
                self._state = self._next()
            except TimeUp:
                return done
            if self.epochs is not None and self._state.k >= self.epochs.epoch.next:
                self._measure(self.epochs)
        return steps

    def _next(self) -> Any:
        method = self.method
        if self.epochs is None:
            return method.run(self._state, 1)
        return type(method).update(self.epochs.parameters, method.oracle, self._state)

    def _measure(self, epochs: Epochs) -> None:
        """Begin another epoch if it is time."""
        kind: Any = type(self.method)
        state = self._state
        end = epochs.measured(kind.measured(epochs.parameters, state), state.k)
        if end is not End.none:
            self._state = copy_of(kind.at_plain(state) if end is End.over else kind.at_anchor(state))

    @property
    def epoch(self) -> Epoch:
        """The current epoch, of a restarted method."""
        assert self.epochs is not None
        return self.epochs.epoch._replace(k=float(self._state.k))

    @epoch.setter
    def epoch(self, epoch: Epoch) -> None:
        assert self.epochs is not None
        self.epochs.epoch = epoch

    def completed(self) -> tuple[Array, Array]:
        """The y of the point, and the x that minimises with it; of a proximal method that takes all of f, curved."""
        state = self._state
        return self.method.oracle.primal_prox.minimiser(state.Mty_plain), state.y_plain.copy()

    def point(self) -> tuple[Array, Array]:
        """Copies of x and y."""
        x, y = self.method.point(self._state)
        return x.copy(), y.copy()
