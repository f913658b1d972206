"""What the paper observes in its figures, in our words, each with a check of which method reaches which error first."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from dapd.reproduce.runs import title

FLOOR = 1e-10  # below it, rounding and the error of the reference matter
NEAR_START = 0.35  # above it, a curve does not show yet how fast its method is
SEPARATED = 1.15  # counts or errors within this factor are considered equal
FAR = 2.0  # "by far", "much", "significantly"


class Curve(NamedTuple):
    """A measure of the error along one run; `at` counts iterations or products with blocks."""

    at: Sequence[float]
    value: Sequence[float]

    def reaches(self, level: float) -> float:
        """The first position with a value at or below the level, at least 1; inf if there is none."""
        return max(1, next((at for at, value in zip(self.at, self.value, strict=True) if value <= level), math.inf))

    def value_at(self, at: float) -> float:
        """The value at any position, interpolated log-linearly between the recorded ones."""
        return float(10 ** np.interp(at, self.at, np.log10(np.maximum(self.value, 1e-300))))


Curves = Mapping[str, Curve]


def short_number(level: float) -> str:
    """A level as a short text: 1e-03, 1.8e-03."""
    return f"{level:.1e}".replace(".0e", "e")


def describe_arrivals(level: float, names: Iterable[str], curves: Curves, unit: str) -> str:
    """A text that says when each method reaches a level."""

    def when(name: str) -> str:
        at = curves[name].reaches(level)
        return f"{title(name)} " + (f"{at:,.0f}" if math.isfinite(at) else f"not in {curves[name].at[-1]:,.0f}")

    return f"{unit} to {short_number(level)}: " + ", ".join(when(name) for name in names)


class Verdict(NamedTuple):
    """A claim compared with our curves."""

    claim: str
    holds: bool | None  # None: the budget was too small to tell
    evidence: str


@dataclass(frozen=True)
class Claim:
    """An observation that the paper makes."""

    text: str
    note: str = field(default="", kw_only=True)  # shown if the claim does not hold

    def check(self, curves: Curves, unit: str) -> Verdict:
        """Compare the claim with curves."""
        holds, evidence = self.judge(curves, unit)
        return Verdict(self.text, holds, f"{evidence}. {self.note}" if self.note and holds is False else evidence)

    def about(self, shown: Iterable[str]) -> set[str]:
        """The shown methods that the claim is about: all of them, unless it names some."""
        return set(shown)

    def judge(self, curves: Curves, unit: str) -> tuple[bool | None, str]:
        """Whether the claim holds, and the numbers that show it."""
        raise TypeError(f"{type(self).__name__} has no judge(curves, unit)")


@dataclass(frozen=True)
class First(Claim):
    """`winner` is the first to reach the error `below` and every smaller error that it reaches, down to FLOOR.

    Larger errors do not count: a method may start slowly and still be the fastest. With a `factor`, every rival that
    reaches such an error must need more than `factor` times as long. A rival that never reaches `below` must have run
    at least that long.
    """

    winner: str
    below: float
    over: tuple[str, ...] = ()  # the methods it beats; all others if empty
    factor: float = 1.0

    def about(self, shown: Iterable[str]) -> set[str]:
        """The winner and the methods it beats."""
        return {self.winner, *(self.over or shown)}

    def judge(self, curves: Curves, unit: str) -> tuple[bool | None, str]:
        """Find the level from which the winner leads; give the numbers at `below` and at the end."""
        winner, name = curves[self.winner], title(self.winner)
        rivals = {name: curves[name] for name in self.over or curves if name != self.winner}
        best = max(min(winner.value), FLOOR)
        if best > self.below:
            reached = any(min(rival.value) <= self.below for rival in rivals.values())
            evidence = f"{name} reached {best:.1e}, not {short_number(self.below)} in this budget"
            return (False if reached else None), evidence
        # levels a quarter of a decade apart, upwards from the smallest error of the winner
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
        leads = f"{name} leads from {short_number(lead)} down{by}" if lead else f"{name} has no lead at the end{by}"
        numbers = [describe_arrivals(level, [self.winner, *rivals], curves, unit) for level in (self.below, ladder[0])]
        evidence = "; ".join(dict.fromkeys([leads, *numbers]))
        # a rival may be equally exact, to rounding, but must not make progress if the winner is stuck
        stuck = any(min(rival.value) < best / 10 for rival in rivals.values()) and best > FLOOR
        if stuck or lead < self.below * (1 - 1e-9):
            return False, evidence
        return (True if least >= self.factor else None), evidence


@dataclass(frozen=True)
class Order(Claim):
    """Each method beats all in later groups: it is sooner at `level`, or has a smaller error if neither gets there.

    The paper ranks the groups, not the methods within a group. Methods within a factor of SEPARATED decide nothing.
    Neither does anything that happens before the first group reaches the level.
    """

    ranking: tuple[tuple[str, ...], ...]
    level: float

    def about(self, shown: Iterable[str]) -> set[str]:
        """Every method that has a rank."""
        return {name for group in self.ranking for name in group}

    def judge(self, curves: Curves, unit: str) -> tuple[bool | None, str]:
        """Compare all pairs of methods from different groups."""
        leads = [
            self._lead(curves[one], curves[other])
            for k, group in enumerate(self.ranking)
            for one in group
            for later in self.ranking[k + 1 :]
            for other in later
        ]
        names = [name for group in self.ranking for name in group]
        by_arrival = sorted(names, key=lambda name: curves[name].reaches(self.level))
        evidence = [describe_arrivals(self.level, by_arrival, curves, unit)]
        if missing := [name for name in names if math.isinf(curves[name].reaches(self.level))]:
            evidence.append(
                "at the end " + ", ".join(f"{title(name)} {curves[name].value[-1]:.1e}" for name in missing)
            )
        arrived = all(math.isfinite(curves[name].reaches(self.level)) for name in self.ranking[0])
        anyone = any(math.isfinite(curves[name].reaches(self.level)) for name in names)
        if anyone and min(leads) < 1 / SEPARATED:
            return False, "; ".join(evidence)
        return (True if arrived and min(leads) > SEPARATED else None), "; ".join(evidence)

    def _lead(self, one: Curve, other: Curve) -> float:
        """How many times sooner `one` arrives than `other`, or how many times smaller its error is if neither does."""
        at, later = one.reaches(self.level), other.reaches(self.level)
        if math.isfinite(at) or math.isfinite(later):
            return later / at if math.isfinite(at) else 0.0
        end = min(one.at[-1], other.at[-1])
        return other.value_at(end) / one.value_at(end)


@dataclass(frozen=True)
class Alike(Claim):
    """`one` and `other` need about equally long to reach the error `level`, within a factor."""

    one: str
    other: str
    level: float
    factor: float = 2.0

    def __post_init__(self) -> None:
        if not FLOOR <= self.level <= NEAR_START:
            raise ValueError(f"level must be in [{FLOOR:g}, {NEAR_START:g}], found {self.level:g}")

    def about(self, shown: Iterable[str]) -> set[str]:
        """The two methods."""
        return {self.one, self.other}

    def judge(self, curves: Curves, unit: str) -> tuple[bool | None, str]:
        """Compare when they arrive; one that does not arrive may have run long enough to be slower for certain."""
        evidence = describe_arrivals(self.level, (self.one, self.other), curves, unit)
        pair = [curves[name] for name in (self.one, self.other)]
        sooner, later = sorted(curve.reaches(self.level) for curve in pair)
        if math.isfinite(later):
            return later <= self.factor * sooner, f"{evidence}, a factor of {later / sooner:.3g}"
        tried = max(curve.at[-1] for curve in pair if math.isinf(curve.reaches(self.level)))
        return (False if tried >= self.factor * sooner else None), evidence


@dataclass(frozen=True)
class CatchesUp(Claim):
    """`late` is behind `early` at the point `start`, and has overtaken it by the end."""

    late: str
    early: str
    start: float

    def about(self, shown: Iterable[str]) -> set[str]:
        """The two methods."""
        return {self.late, self.early}

    def judge(self, curves: Curves, unit: str) -> tuple[bool | None, str]:
        """Compare the errors at `start` and at the end."""
        late, early = curves[self.late], curves[self.early]
        end = min(late.at[-1], early.at[-1])
        if end < 10 * self.start:
            return None, f"{end:,.0f} {unit} are too few to see it"
        evidence = []
        behind = []
        for at in (self.start, end):
            values = late.value_at(at), early.value_at(at)
            behind.append(values[0] > values[1])
            evidence.append(
                f"at {at:,.0f} {unit} {title(self.late)} {values[0]:.1e}, {title(self.early)} {values[1]:.1e}"
            )
        return behind == [True, False], "; ".join(evidence)


@dataclass(frozen=True)
class FallsLinearly(Claim):
    """`method` falls from `start` to `level`; both halves of the decades between them take about equally long."""

    method: str
    start: float
    level: float
    factor: float = 1.5

    def about(self, shown: Iterable[str]) -> set[str]:
        """The one method."""
        return {self.method}

    def judge(self, curves: Curves, unit: str) -> tuple[bool | None, str]:
        """Compare the halves; a run that is still falling decides nothing."""
        curve, name = curves[self.method], title(self.method)
        middle = math.sqrt(self.start * self.level)
        begun, half, done = (curve.reaches(level) for level in (self.start, middle, self.level))
        if math.isinf(done):
            falling = curve.value[-1] < 0.9 * curve.value_at(curve.at[-1] / 2)
            evidence = f"{name} reached {min(curve.value):.1e} in {curve.at[-1]:,.0f} {unit}"
            return (None if falling else False), evidence
        parts = half - begun, done - half
        ends = short_number(self.start), short_number(middle)
        evidence = f"{name} is below {short_number(self.level)} after {done:,.0f} {unit}: "
        evidence += f"{parts[0]:,.0f} from {ends[0]} to {ends[1]}, {parts[1]:,.0f} from there"
        return 0 < max(parts) <= self.factor * min(parts), evidence
