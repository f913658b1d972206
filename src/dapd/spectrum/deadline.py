"""The deadline of an estimate, checked between products and before every factorisation."""

from __future__ import annotations

from time import perf_counter

from dapd.arguments import TimeUp

DENSE_FLOPS = 1e10  # multiplications per second of dense linear algebra, rather too few


def check_deadline(deadline: float, cost: float = 0.0) -> None:
    """Raise TimeUp if work of `cost` seconds cannot end before `deadline`, a value of time.perf_counter()."""
    if perf_counter() + cost > deadline:
        raise TimeUp("the deadline passed before the singular values were found")
