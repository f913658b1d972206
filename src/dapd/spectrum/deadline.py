"""The deadline of an estimate, checked between products and before every factorisation."""

from __future__ import annotations

from dapd.arguments import TimeUp
from dapd.arrays import Array
from dapd.machine.clock import seconds_left
from dapd.operators.base import Operator
from dapd.operators.blocks import ColumnBlocks


def check_deadline(deadline: float, cost: float = 0.0) -> None:
    """Raise TimeUp if work of `cost` seconds cannot end before `deadline`, a value of time.perf_counter()."""
    if seconds_left(deadline) < cost:
        raise TimeUp("the deadline passed before the singular values were found")


def timed(operator: Operator, deadline: float) -> Operator:
    """The same map, except that products after the deadline raise TimeUp."""
    blocks = operator.column_partition
    if blocks is not None:
        return ColumnBlocks([timed(operator.columns(block), deadline) for block in blocks])
    return _Timed(operator, deadline) if operator.probes else operator


class _Timed(Operator):
    def __init__(self, inner: Operator, deadline: float) -> None:
        self.inner, self.deadline = inner, deadline
        self.shape, self.dtype, self.name = inner.shape, inner.dtype, inner.name

    def forward(self, x: Array) -> Array:
        check_deadline(self.deadline)
        return self.inner.forward(x)

    def adjoint(self, y: Array) -> Array:
        check_deadline(self.deadline)
        return self.inner.adjoint(y)
