"""What the paper observes in its figures, in our words, each with a check: who reaches which error first."""

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
    """An observation of the paper's."""

    text: str

    def check(self, curves: Curves, unit: str) -> Verdict:
        """Hold it against curves."""
        holds, evidence = self.judge(curves, unit)
        return Verdict(self.text, holds, evidence)

    def judge(self, curves: Curves, unit: str) -> tuple[bool | None, str]:
        """Whether it holds, and the numbers."""
        raise TypeError(f"{type(self).__name__} has no judge(curves, unit)")


@dataclass(frozen=True)
class First(Claim):
    """`winner` is the first to reach the error `below` and every lesser one that it reaches.

    Greater errors are left out: a method may start slowly and be the fastest all the same.
    """

    winner: str
    below: float
    over: tuple[str, ...] = ()  # whom it beats; all the others where left out

    def judge(self, curves: Curves, unit: str) -> tuple[bool | None, str]:
        """Find the level from which the winner leads; give the numbers at `below` and at the end."""
        winner = curves[self.winner]
        rivals = {name: curves[name] for name in self.over or curves if name != self.winner}
        best = min(winner.value)
        if best > self.below:
            reached = any(min(rival.value) <= self.below for rival in rivals.values())
            told = f"{title(self.winner)} came to {best:.1e}, not to {self.below:.0e} in this budget"
            return (False if reached else None), told
        # quarters of a decade, from the least that the winner reaches upwards
        steps = math.floor(4 * math.log10(self.below / best) + 1e-9)
        ladder = [self.below * 10 ** (-k / 4) for k in range(steps, -13, -1)]
        lead = 0.0
        for level in ladder:
            if not winner.reaches(level) < min(rival.reaches(level) for rival in rivals.values()):
                break
            lead = level
        name = title(self.winner)
        numbers = [self._at(level, [self.winner, *rivals], curves, unit) for level in (self.below, ladder[0])]
        leads = f"{name} leads from {lead:.0e} down" if lead else f"{name} leads nowhere at the end"
        # a rival may be as exact, to rounding, but not go on where the winner is stuck
        stuck = any(min(rival.value) < best / 10 for rival in rivals.values())
        return lead >= self.below * (1 - 1e-9) and not stuck, "; ".join(dict.fromkeys([leads, *numbers]))

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
