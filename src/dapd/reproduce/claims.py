"""The paper's sentences about its figures, each with a check: who reaches which error first."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dapd.reproduce.runs import title


class Curve(NamedTuple):
    """A measure of the error along one run; `at` counts iterations or products with blocks."""

    at: Sequence[float]
    value: Sequence[float]

    def reaches(self, level: float) -> float:
        """Where the value is first at or below the level; inf if nowhere."""
        return next((at for at, value in zip(self.at, self.value, strict=True) if value <= level), math.inf)

    def value_at(self, at: float) -> float:
        """The value at a point, log-linear between the recorded ones."""
        return float(10 ** np.interp(at, self.at, np.log10(np.maximum(self.value, 1e-300))))


Curves = Mapping[str, Curve]


class Verdict(NamedTuple):
    """A claim held against our curves."""

    claim: str
    holds: bool | None  # None: the budget was too small to tell
    evidence: str


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper's."""

    text: str

    def check(self, curves: Curves, unit: str) -> Verdict:
        """Hold the sentence against curves."""
        holds, evidence = self.judge(curves, unit)
        return Verdict(self.text, holds, evidence)

    def judge(self, curves: Curves, unit: str) -> tuple[bool | None, str]:
        """Whether it holds, and the numbers."""
        raise TypeError(f"{type(self).__name__} has no judge(curves, unit)")


@dataclass(frozen=True)
class First(Claim):
    """`winner` is the first to reach the error `below`, and every tenth of it that it reaches."""

    winner: str
    below: float
    over: tuple[str, ...] = ()  # whom it beats; all the others where left out

    def judge(self, curves: Curves, unit: str) -> tuple[bool | None, str]:
        """Compare level by level; the evidence is given at the first and at the last."""
        others = [name for name in curves if name != self.winner and (not self.over or name in self.over)]
        best = min(curves[self.winner].value)
        if best > self.below:
            rivals = min(min(curves[name].value) for name in others)
            told = f"no one reached {self.below:.0e} in this budget; {title(self.winner)} came to {best:.1e}"
            return (False if rivals <= self.below else None), told
        levels = [self.below * 10.0**-k for k in range(20) if self.below * 10.0**-k >= best]
        holds = all(
            curves[self.winner].reaches(level) < min(curves[name].reaches(level) for name in others) for level in levels
        )
        shown = dict.fromkeys([levels[0], levels[-1]])
        return holds, "; ".join(self._at(level, [self.winner, *others], curves, unit) for level in shown)

    @staticmethod
    def _at(level: float, names: Sequence[str], curves: Curves, unit: str) -> str:
        def when(name: str) -> str:
            at = curves[name].reaches(level)
            return f"{title(name)} " + (f"{at:,.0f}" if math.isfinite(at) else f"not in {curves[name].at[-1]:,.0f}")

        return f"{unit} to {level:.0e}: " + ", ".join(when(name) for name in names)


@dataclass(frozen=True)
class Alike(Claim):
    """`one` and `other` end with errors within a factor of each other, or need about as long for the same error."""

    one: str
    other: str
    factor: float = 3.0

    def judge(self, curves: Curves, unit: str) -> tuple[bool | None, str]:
        """Compare where the slower one ends: the errors there, else the lengths of the ways there."""
        a, b = curves[self.one], curves[self.other]
        end = min(a.at[-1], b.at[-1])
        errors = a.value_at(end), b.value_at(end)
        level = max(errors)
        ways = a.reaches(level * (1 + 1e-9)), b.reaches(level * (1 + 1e-9))
        spread = [max(pair) / min(pair) for pair in (errors, ways)]
        told = f"after {end:,.0f} {unit} {title(self.one)} is at {errors[0]:.1e}, "
        told += f"{title(self.other)} at {errors[1]:.1e}; the way to {level:.1e} differs by a factor of {spread[1]:.2g}"
        return min(spread) <= self.factor, told


@dataclass(frozen=True)
class CatchesUp(Claim):
    """`late` is behind `early` at the point `start`, and its lag shrinks or turns into a lead by the end."""

    late: str
    early: str
    start: float

    def judge(self, curves: Curves, unit: str) -> tuple[bool | None, str]:
        """Compare the lag at the beginning with that at the end."""
        late, early = curves[self.late], curves[self.early]
        end = min(late.at[-1], early.at[-1])
        if end < 10 * self.start:
            return None, f"{end:,.0f} {unit} are too few to see it"
        told = []
        lags = []
        for at in (self.start, end):
            values = late.value_at(at), early.value_at(at)
            lags.append(math.log10(values[0] / values[1]))
            told.append(f"at {at:,.0f} {unit} {title(self.late)} {values[0]:.1e}, {title(self.early)} {values[1]:.1e}")
        return lags[0] > 0 > lags[1], "; ".join(told)


@dataclass(frozen=True)
class FallsBelow(Claim):
    """`method` falls below a level."""

    method: str
    level: float

    def judge(self, curves: Curves, unit: str) -> tuple[bool | None, str]:
        """Look at the least value; a run that is still on its way down has not decided."""
        curve = curves[self.method]
        at = curve.reaches(self.level)
        if math.isfinite(at):
            return True, f"{title(self.method)} is below {self.level:.0e} after {at:,.0f} {unit}"
        told = f"{title(self.method)} came to {min(curve.value):.1e} in {curve.at[-1]:,.0f} {unit}"
        falling = curve.value[-1] < 0.5 * curve.value_at(curve.at[-1] / 1.3)
        return (None if falling else False), told
