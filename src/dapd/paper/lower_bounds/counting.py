"""A coupling that counts the rounds spent on its products."""

from __future__ import annotations

import copy

from dapd.arrays import Array
from dapd.operators.base import Operator
from dapd.paper.lower_bounds.instances import HardProblem
from dapd.paper.lower_bounds.saddle import ConvexConcave

Instance = HardProblem | ConvexConcave


class RoundCount:
    """The number of rounds so far."""

    rounds = 0


class CountedMap(Operator):
    """A matrix-free map; each product counts one round per block of columns."""

    def __init__(self, inner: Operator, blocks: list[slice], tally: RoundCount) -> None:
        self.inner, self.blocks, self.tally = inner, blocks, tally
        self.shape, self.dtype = inner.shape, inner.dtype

    def forward(self, x: Array) -> Array:
        self.tally.rounds += len(self.blocks)
        return self.inner.forward(x)

    def adjoint(self, y: Array) -> Array:
        self.tally.rounds += len(self.blocks)
        return self.inner.adjoint(y)

    def divides(self, blocks: list[slice]) -> bool:
        """Whether the original map divides into these blocks."""
        return self.inner.divides(blocks)

    def columns(self, block: slice) -> Operator:
        """The columns; their products add to the same count."""
        start, stop, _ = block.indices(self.shape[1])
        parts = [slice(max(start, own.start) - start, min(stop, own.stop) - start) for own in self.blocks]
        touched = [part for part in parts if part.start < part.stop]
        return CountedMap(self.inner.columns(block), touched, self.tally)


def counted(instance: Instance) -> tuple[Instance, RoundCount]:
    """The same instance with a coupling that counts its products, and the count."""
    tally, twin = RoundCount(), copy.copy(instance)
    blocks = [slice(0, instance.M.shape[1])]
    if isinstance(instance, HardProblem) and instance.blocks is not None:
        blocks = instance.blocks
    twin.M = CountedMap(instance.M, blocks, tally)
    return twin, tally
