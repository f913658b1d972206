"""What the paper observes in its figures, in our words, each with a check of which method reaches which error first.

A check compares the counts at which curves reach fixed errors. A longer run does not change a count, it only adds some,
so it can decide a check that was not decided, and never reverses one. A curve that ends before it reaches an error is
known to need more than its last count.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from dapd.paper.reproduce.runs import title

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

    def needs_more_than(self, level: float) -> float:
        """A count that is certainly too small for the level: the last one if it is not reached; 0 if it is."""
        return self.at[-1] if math.isinf(self.reaches(level)) else 0.0

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
    own: bool = field(default=False, kw_only=True)  # not a claim of the paper but ours, and counted apart

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


def sooner(one: Curve, other: Curve, level: float, factor: float) -> bool | None:
    """Whether `other` needs more than `factor` times as long as `one` to reach a level; None if not known yet."""
    at, later = one.reaches(level), other.reaches(level)
    if math.isfinite(at):
        if math.isfinite(later):
            return None if later == factor * at else later > factor * at
        return True if other.needs_more_than(level) >= factor * at else None
    return False if later <= factor * one.needs_more_than(level) else None


def together(answers: Iterable[bool | None]) -> bool | None:
    """Whether all are true: a false one decides, an open one leaves it open."""
    known = set(answers)
    return False if False in known else None if None in known else True


@dataclass(frozen=True)
class First(Claim):
    """`winner` is the first to reach the error `below` and every smaller error down to `down_to`.

    Larger errors do not count: a method may start slowly and still be the fastest. With a `factor`, every rival must
    need more than `factor` times as long.
    """

    winner: str
    below: float
    down_to: float
    over: tuple[str, ...] = ()  # the methods it beats; all others if empty
    factor: float = 1.0

    def __post_init__(self) -> None:
        if not FLOOR <= self.down_to <= self.below:
            raise ValueError(f"down_to must be in [{FLOOR:g}, {self.below:g}], found {self.down_to:g}")

    def about(self, shown: Iterable[str]) -> set[str]:
        return {self.winner, *(self.over or shown)}

    def judge(self, curves: Curves, unit: str) -> tuple[bool | None, str]:
        """Compare at levels a quarter of a decade apart; give the numbers at both ends."""
        rivals = [name for name in self.over or curves if name != self.winner]
        steps = math.ceil(4 * math.log10(self.below / self.down_to) - 1e-9)
        ladder = [self.below * (self.down_to / self.below) ** (k / max(1, steps)) for k in range(steps + 1)]
        answers = {
            level: together(sooner(curves[self.winner], curves[name], level, self.factor) for name in rivals)
            for level in ladder
        }
        shown = dict.fromkeys((self.below, self.down_to))
        numbers = [describe_arrivals(level, [self.winner, *rivals], curves, unit) for level in shown]
        by = f" by a factor above {self.factor:g}" if self.factor > 1 else ""
        lost = next((level for level, answer in answers.items() if answer is False), None)
        if lost is not None:
            numbers = [f"{title(self.winner)} does not lead{by} at {short_number(lost)}", *numbers]
        return together(answers.values()), "; ".join(numbers)


@dataclass(frozen=True)
class Order(Claim):
    """Each method reaches `level` before all in later groups.

    The paper ranks the groups, not the methods within a group. Methods within a factor of SEPARATED decide nothing.
    """

    ranking: tuple[tuple[str, ...], ...]
    level: float

    def about(self, shown: Iterable[str]) -> set[str]:
        return {name for group in self.ranking for name in group}

    def judge(self, curves: Curves, unit: str) -> tuple[bool | None, str]:
        answers = [
            self._ahead(curves[one], curves[other])
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
        return together(answers), "; ".join(evidence)

    def _ahead(self, one: Curve, other: Curve) -> bool | None:
        """Whether `one` is clearly ahead of `other`; None if neither is clearly ahead."""
        if sooner(one, other, self.level, SEPARATED):
            return True
        return False if sooner(other, one, self.level, SEPARATED) else None


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
        return {self.one, self.other}

    def judge(self, curves: Curves, unit: str) -> tuple[bool | None, str]:
        """Compare when they arrive; one that does not arrive may have run long enough to be slower for certain."""
        evidence = describe_arrivals(self.level, (self.one, self.other), curves, unit)
        pair = curves[self.one], curves[self.other]
        apart = [sooner(one, other, self.level, self.factor) for one, other in (pair, pair[::-1])]
        first, last = sorted(curve.reaches(self.level) for curve in pair)
        if math.isfinite(last):
            evidence += f", a factor of {last / first:.3g}"
        return (False if True in apart else None if None in apart else True), evidence


@dataclass(frozen=True)
class CatchesUp(Claim):
    """`late` is behind `early` at the count `start`, and has overtaken it by the count `end`."""

    late: str
    early: str
    start: float
    end: float

    def about(self, shown: Iterable[str]) -> set[str]:
        return {self.late, self.early}

    def judge(self, curves: Curves, unit: str) -> tuple[bool | None, str]:
        """Compare the errors at `start`, and look for a later point at which `late` is clearly ahead."""
        late, early = curves[self.late], curves[self.early]
        last = min(late.at[-1], early.at[-1])
        if last < self.start:
            return None, f"{last:,.0f} {unit} are too few to see it"
        ahead = [at for at in late.at if self.start < at <= last and SEPARATED * late.value_at(at) < early.value_at(at)]
        evidence = []
        for at in (self.start, *ahead[:1], last):
            pair = f"{title(self.late)} {late.value_at(at):.1e}, {title(self.early)} {early.value_at(at):.1e}"
            evidence.append(f"at {at:,.0f} {unit} {pair}")
        if late.value_at(self.start) <= early.value_at(self.start):
            return False, "; ".join(evidence)
        overtaken = bool(ahead) and ahead[0] <= self.end
        # the last count of a method with inner iterations may fall short of the budget by one outer iteration
        over = last >= 0.99 * self.end
        return (True if overtaken else False if over else None), "; ".join(dict.fromkeys(evidence))


@dataclass(frozen=True)
class FallsLinearly(Claim):
    """`method` falls from `start` to `level` by the count `end`, and equally fast in both halves of the way."""

    method: str
    start: float
    level: float
    end: float
    factor: float = 1.5

    def about(self, shown: Iterable[str]) -> set[str]:
        return {self.method}

    def judge(self, curves: Curves, unit: str) -> tuple[bool | None, str]:
        """Compare the halves; a run that ends before `end` decides nothing."""
        curve, name = curves[self.method], title(self.method)
        middle = math.sqrt(self.start * self.level)
        begun, half, done = (curve.reaches(level) for level in (self.start, middle, self.level))
        if math.isinf(done):
            evidence = f"{name} reached {min(curve.value):.1e} in {curve.at[-1]:,.0f} {unit}"
            return (False if curve.at[-1] >= self.end else None), evidence
        parts = half - begun, done - half
        ends = short_number(self.start), short_number(middle)
        evidence = f"{name} is below {short_number(self.level)} after {done:,.0f} {unit}: "
        evidence += f"{parts[0]:,.0f} from {ends[0]} to {ends[1]}, {parts[1]:,.0f} from there"
        return done <= self.end and 0 < max(parts) <= self.factor * min(parts), evidence
