"""What the paper observes in its figures, in our words, each with a check: who reaches which error first."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from dapd.reproduce.runs import title

FLOOR = 1e-10  # below, rounding and the reference's own error take part
NEAR_START = 0.35  # above, no curve tells yet how fast its method is
SEPARATED = 1.15  # ways or errors nearer than this are not told apart
FAR = 2.0  # "by far", "much", "significantly"


class Curve(NamedTuple):
    """A measure of the error along one run; `at` counts iterations or products with blocks."""

    at: Sequence[float]
    value: Sequence[float]

    def reaches(self, level: float) -> float:
        """Where the value is first at or below the level, one at least; inf if nowhere."""
        return max(1, next((at for at, value in zip(self.at, self.value, strict=True) if value <= level), math.inf))

    def value_at(self, at: float) -> float:
        """The value at a point, log-linear between the recorded ones."""
        return float(10 ** np.interp(at, self.at, np.log10(np.maximum(self.value, 1e-300))))


Curves = Mapping[str, Curve]


def brief(level: float) -> str:
    """A level, as short as it goes: 1e-03, 1.8e-03."""
    return f"{level:.1e}".replace(".0e", "e")


def ways(level: float, names: Iterable[str], curves: Curves, unit: str) -> str:
    """Where each of the methods reaches a level, in words."""

    def when(name: str) -> str:
        at = curves[name].reaches(level)
        return f"{title(name)} " + (f"{at:,.0f}" if math.isfinite(at) else f"not in {curves[name].at[-1]:,.0f}")

    return f"{unit} to {brief(level)}: " + ", ".join(when(name) for name in names)


class Verdict(NamedTuple):
    """A claim held against our curves."""

    claim: str
    holds: bool | None  # None: the budget was too small to tell
    evidence: str


@dataclass(frozen=True)
class Claim:
    """An observation of the paper's."""

    text: str
    note: str = field(default="", kw_only=True)  # said where it does not hold

    def check(self, curves: Curves, unit: str) -> Verdict:
        """Hold it against curves."""
        holds, evidence = self.judge(curves, unit)
        return Verdict(self.text, holds, f"{evidence}. {self.note}" if self.note and holds is False else evidence)

    def about(self, shown: Iterable[str]) -> set[str]:
        """Those of the methods shown that it says something about: all of them, if it does not name them."""
        return set(shown)

    def judge(self, curves: Curves, unit: str) -> tuple[bool | None, str]:
        """Whether it holds, and the numbers."""
        raise TypeError(f"{type(self).__name__} has no judge(curves, unit)")


@dataclass(frozen=True)
class First(Claim):
    """`winner` is the first to reach the error `below` and every lesser one that it reaches, down to FLOOR.

    Greater errors are left out: a method may start slowly and be the fastest all the same. With a `factor`, every rival
    that gets to such an error needs more than that many times as long; one that never gets to `below` must have had so
    long to try.
    """

    winner: str
    below: float
    over: tuple[str, ...] = ()  # whom it beats; all the others where left out
    factor: float = 1.0

    def about(self, shown: Iterable[str]) -> set[str]:
        """The winner and whom it beats."""
        return {self.winner, *(self.over or shown)}

    def judge(self, curves: Curves, unit: str) -> tuple[bool | None, str]:
        """Find the level from which the winner leads; give the numbers at `below` and at the end."""
        winner, name = curves[self.winner], title(self.winner)
        rivals = {name: curves[name] for name in self.over or curves if name != self.winner}
        best = max(min(winner.value), FLOOR)
        if best > self.below:
            reached = any(min(rival.value) <= self.below for rival in rivals.values())
            told = f"{name} came to {best:.1e}, not to {brief(self.below)} in this budget"
            return (False if reached else None), told
        # quarters of a decade, from the least that the winner reaches upwards
        steps = math.floor(4 * math.log10(self.below / best) + 1e-9)
        ladder = [self.below * 10 ** (-k / 4) for k in range(steps, -13, -1)]
        lead = 0.0
        for level in ladder:
            if not min(rival.reaches(level) for rival in rivals.values()) > self.factor * winner.reaches(level):
                break
            lead = level
        least = min(min(rival.reaches(self.below), rival.at[-1]) for rival in rivals.values())
        least /= winner.reaches(self.below)
        by = f", by a factor above {self.factor:g}" if self.factor > 1 else ""
        leads = f"{name} leads from {brief(lead)} down{by}" if lead else f"{name} leads nowhere at the end{by}"
        numbers = [ways(level, [self.winner, *rivals], curves, unit) for level in (self.below, ladder[0])]
        told = "; ".join(dict.fromkeys([leads, *numbers]))
        # a rival may be as exact, to rounding, but not go on where the winner is stuck
        stuck = any(min(rival.value) < best / 10 for rival in rivals.values()) and best > FLOOR
        if stuck or lead < self.below * (1 - 1e-9):
            return False, told
        return (True if least >= self.factor else None), told


@dataclass(frozen=True)
class Order(Claim):
    """Each method is ahead of all in later groups: sooner at `level`, or with a lesser error where neither gets there.

    The paper ranks the groups, not the methods within one. Methods within SEPARATED of each other decide nothing, nor
    does anything before the first group is at the level.
    """

    ranking: tuple[tuple[str, ...], ...]
    level: float

    def about(self, shown: Iterable[str]) -> set[str]:
        """Everyone that has a rank."""
        return {name for group in self.ranking for name in group}

    def judge(self, curves: Curves, unit: str) -> tuple[bool | None, str]:
        """Compare every two methods of different groups."""
        leads = [
            self._lead(curves[one], curves[other])
            for k, group in enumerate(self.ranking)
            for one in group
            for later in self.ranking[k + 1 :]
            for other in later
        ]
        names = [name for group in self.ranking for name in group]
        told = [ways(self.level, sorted(names, key=lambda name: curves[name].reaches(self.level)), curves, unit)]
        if missing := [name for name in names if math.isinf(curves[name].reaches(self.level))]:
            told.append("at the end " + ", ".join(f"{title(name)} {curves[name].value[-1]:.1e}" for name in missing))
        arrived = all(math.isfinite(curves[name].reaches(self.level)) for name in self.ranking[0])
        anyone = any(math.isfinite(curves[name].reaches(self.level)) for name in names)
        if anyone and min(leads) < 1 / SEPARATED:
            return False, "; ".join(told)
        return (True if arrived and min(leads) > SEPARATED else None), "; ".join(told)

    def _lead(self, one: Curve, other: Curve) -> float:
        """How many times shorter one's way is, or lesser its error where neither gets to the level."""
        at, later = one.reaches(self.level), other.reaches(self.level)
        if math.isfinite(at) or math.isfinite(later):
            return later / at if math.isfinite(at) else 0.0
        end = min(one.at[-1], other.at[-1])
        return other.value_at(end) / one.value_at(end)


@dataclass(frozen=True)
class Alike(Claim):
    """`one` and `other` need about as long for the same error: their ways to `level` are within a factor."""

    one: str
    other: str
    level: float
    factor: float = 2.0

    def __post_init__(self) -> None:
        if not FLOOR <= self.level <= NEAR_START:
            raise ValueError(f"level must be in [{FLOOR:g}, {NEAR_START:g}], found {self.level:g}")

    def about(self, shown: Iterable[str]) -> set[str]:
        """The two."""
        return {self.one, self.other}

    def judge(self, curves: Curves, unit: str) -> tuple[bool | None, str]:
        """Compare the ways; where one does not get there, it may have had so long that it is slower for certain."""
        told = ways(self.level, (self.one, self.other), curves, unit)
        pair = [curves[name] for name in (self.one, self.other)]
        sooner, later = sorted(curve.reaches(self.level) for curve in pair)
        if math.isfinite(later):
            return later <= self.factor * sooner, f"{told}, a factor of {later / sooner:.3g}"
        tried = max(curve.at[-1] for curve in pair if math.isinf(curve.reaches(self.level)))
        return (False if tried >= self.factor * sooner else None), told


@dataclass(frozen=True)
class CatchesUp(Claim):
    """`late` is behind `early` at the point `start`, and has overtaken it by the end."""

    late: str
    early: str
    start: float

    def about(self, shown: Iterable[str]) -> set[str]:
        """The two."""
        return {self.late, self.early}

    def judge(self, curves: Curves, unit: str) -> tuple[bool | None, str]:
        """Compare the errors at the beginning with those at the end."""
        late, early = curves[self.late], curves[self.early]
        end = min(late.at[-1], early.at[-1])
        if end < 10 * self.start:
            return None, f"{end:,.0f} {unit} are too few to see it"
        told = []
        behind = []
        for at in (self.start, end):
            values = late.value_at(at), early.value_at(at)
            behind.append(values[0] > values[1])
            told.append(f"at {at:,.0f} {unit} {title(self.late)} {values[0]:.1e}, {title(self.early)} {values[1]:.1e}")
        return behind == [True, False], "; ".join(told)


@dataclass(frozen=True)
class FallsLinearly(Claim):
    """`method` falls from `start` to `level`, in about as long for the first half of the decades as for the second."""

    method: str
    start: float
    level: float
    factor: float = 1.5

    def about(self, shown: Iterable[str]) -> set[str]:
        """The one."""
        return {self.method}

    def judge(self, curves: Curves, unit: str) -> tuple[bool | None, str]:
        """Compare the halves; a run that is still on its way down has not decided."""
        curve, name = curves[self.method], title(self.method)
        middle = math.sqrt(self.start * self.level)
        begun, half, done = (curve.reaches(level) for level in (self.start, middle, self.level))
        if math.isinf(done):
            falling = curve.value[-1] < 0.9 * curve.value_at(curve.at[-1] / 2)
            told = f"{name} came to {min(curve.value):.1e} in {curve.at[-1]:,.0f} {unit}"
            return (None if falling else False), told
        parts = half - begun, done - half
        told = (
            f"{name} is below {brief(self.level)} after {done:,.0f} {unit}: {parts[0]:,.0f} from {brief(self.start)} "
        )
        told += f"to {brief(middle)}, {parts[1]:,.0f} from there"
        return 0 < max(parts) <= self.factor * min(parts), told
