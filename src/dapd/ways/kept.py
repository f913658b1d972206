"""What the solves of nearly the same problem leave for each other."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dapd.methods.guesses import Guess

if TYPE_CHECKING:
    from pathlib import Path

    from dapd.newton.newton import Newton
    from dapd.presolve import Presolve
    from dapd.ways.blocks import BlockComparison


@dataclass
class Learnt:
    """What first-order steps find out about a problem, for the next one that is nearly the same."""

    weight: float | None = None  # of y against x in r²HPDHG, relative to what is usual by the data
    guess: Guess | None = None  # of μ and s_min, as logarithms

    @property
    def numbers(self) -> list[float]:
        """As numbers, NaN for what is not known."""
        return [math.nan if v is None else float(v) for v in (self.weight, *(self.guess or (None, None)))]

    def take(self, numbers: list[float]) -> None:
        """Replace what such numbers know."""
        weight, mu, s = numbers
        if not math.isnan(weight):
            self.weight = weight
        if not math.isnan(mu + s):
            self.guess = Guess(mu, s)


@dataclass
class Kept:
    """Set-ups; each knows what it was made for."""

    candidate: str = ""  # the name of the one to try first
    newton: Newton | None = None
    transforms: dict[str, tuple[object, Presolve]] = field(default_factory=dict)  # steps tried, and what came of them
    blocks: BlockComparison | None = None
    learnt: Learnt = field(default_factory=Learnt)
    checkpoints: dict[Path, str] = field(default_factory=dict)
