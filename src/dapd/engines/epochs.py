"""The epochs of a restarted method, as an engine that runs on the host keeps them."""

from __future__ import annotations

from enum import IntEnum

from dapd.methods import anchors
from dapd.methods.anchors import Epoch, Measured
from dapd.methods.base import Method
from dapd.theory import R2Hpdhg


class End(IntEnum):
    """Why an epoch ended; src/core/epoch.hpp has the same numbers."""

    none = 0
    over = 1
    failed = 2


class Epochs:
    """The current epoch of a method, and its parameters."""

    def __init__(self, method: Method) -> None:
        p = method.parameters
        self.constants = p.L, p.s_max
        self.epoch = anchors.first_epoch(p.weight, method.problem.f.L != 0)

    @property
    def epoch(self) -> Epoch:
        """The numbers that the epoch goes on with."""
        return self._epoch

    @epoch.setter
    def epoch(self, epoch: Epoch) -> None:
        self._epoch = Epoch(*map(float, epoch))
        self.parameters = R2Hpdhg(*map(float, anchors.parameters(self._epoch, *self.constants)))

    def measured(self, m: Measured, k: float) -> End:
        """Take note of a measurement after k steps; whether the epoch has ended, so another one has begun."""
        epoch, over, failed = anchors.measured(self._epoch._replace(k=k), m, self.parameters)
        end = End.failed if failed else End.over if over else End.none
        self.go_on(epoch, m, end)
        return end

    def go_on(self, epoch: Epoch, m: Measured, end: End) -> None:
        """Go on with this epoch, or with the one after it."""
        if end is End.none:
            self._epoch = Epoch(*map(float, epoch))
        else:
            self.epoch = anchors.begun_again(epoch) if end is End.failed else anchors.restarted(epoch, m)
