"""The MPS format, fixed or free, with the sections of QPS for a quadratic objective."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from dapd.arguments import NO_BOUND, near_miss
from dapd.frontends.lines import NOT_CONVEX, TextModel, WrongLine

SECTIONS = (
    "NAME", "OBJSENSE", "ROWS", "COLUMNS", "RHS", "RANGES", "BOUNDS", "QUADOBJ", "QMATRIX", "QSECTION", "ENDATA",
)  # fmt: skip
COLUMNS = ((1, 3), (4, 12), (14, 22), (24, 36), (39, 47), (49, 61))  # of the fixed format
WITHOUT_VALUE, WITH_VALUE, INTEGER = {"FR", "MI", "PL"}, {"UP", "LO", "FX"}, {"BV", "LI", "UI", "SC", "SI"}
SENSES = ("MAX", "MIN", "MAXIMIZE", "MINIMIZE")
OUTSIDE = {  # sections of other classes of problems
    "QCMATRIX": "quadratic constraints are not supported",
    "CSECTION": "cones are not supported",
    "SOS": "special ordered sets are not supported, since dapd solves convex problems",
    "INDICATORS": "indicator constraints are not supported, since dapd solves convex problems",
}


def read_mps(text: str) -> tuple[dict[str, Any], float]:
    """The fields of the problem, minimised, and the sign: −1 if the file maximises.

    Fields of a line are separated by spaces or, if that gives no problem, in fixed columns.
    """
    lines = text.splitlines()
    try:
        return _Reader(lambda line: line.split()).read(lines)
    except WrongLine as wrong:
        try:
            return _Reader(_fixed).read(lines)
        except WrongLine:
            raise wrong from None


def _fixed(line: str) -> list[str]:
    """The fields of a line in fixed columns, in which a name may contain spaces."""
    return [field for a, b in COLUMNS if (field := line[a:b].strip())]


class _Mistake(Exception):
    """What is wrong with the current line."""


class _Reader(TextModel):
    """Goes through a file line by line."""

    no_lower = "some programs take for 0 and some for none; give it by LO or MI"

    def __init__(self, split: Callable[[str], list[str]]) -> None:
        super().__init__()
        self.split = split
        self.section = ""
        self.objective = ""  # the first row of type N; others are left out
        self.rows: dict[str, str] = {}  # the type of each
        self.numbers: dict[tuple[str, int], float] = {}  # by row and column
        self.sides: dict[str, float] = {}
        self.ranges: dict[str, float] = {}
        self.quadratic: dict[tuple[int, int], float] = {}  # the numbers of the quadratic objective
        self.both_triangles = False
        self.sets: dict[str, str] = {}  # the name of the vector in RHS, RANGES and BOUNDS

    def read(self, lines: Sequence[str]) -> tuple[dict[str, Any], float]:
        """The fields and the sign."""
        readers: dict[str, Callable[[list[str]], None]] = {
            "OBJSENSE": self._objsense,
            "ROWS": self._row,
            "COLUMNS": self._column,
            "RHS": lambda words: self._vector(words, self.sides, "right sides"),
            "RANGES": lambda words: self._vector(words, self.ranges, "ranges"),
            "BOUNDS": self._bound,
            "QUADOBJ": self._product,
            "QMATRIX": self._product,
            "QSECTION": self._product,
        }
        at = 0
        for at, line in enumerate(lines, start=1):
            if not line.strip() or line.startswith("*"):
                continue
            try:
                if not line[0].isspace() and self._header(line.split()):
                    continue
                if self.section == "ENDATA":
                    break
                words = self.split(line)
                if self.section not in readers:
                    raise _Mistake(f"expected a section such as ROWS, found {' '.join(words)[:40]!r}")
                readers[self.section](words)
            except _Mistake as mistake:
                raise WrongLine(at, str(mistake)) from None
        if self.section != "ENDATA":
            raise WrongLine(max(at, 1), "the file ends without ENDATA")
        self._finish()
        return self.fields()

    def _header(self, words: list[str]) -> bool:
        """Enter a section; False if this is a data line that is not indented."""
        name = words[0].upper()
        if name in SECTIONS:
            if name in ("COLUMNS", "RHS", "RANGES", "BOUNDS") and not self.rows:
                raise _Mistake(f"{name} comes before any row of ROWS")
            self.section = name
            if name == "OBJSENSE" and len(words) > 1:
                self._objsense(words[1:])
            if name == "QSECTION" and len(words) > 1 and words[1] != self.objective:
                raise _Mistake(f"QSECTION {words[1]}: quadratic constraints are not supported")
            self.both_triangles = name == "QMATRIX" or (self.both_triangles and name not in ("QUADOBJ", "QSECTION"))
            return True
        if name in OUTSIDE:
            raise _Mistake(f"section {name}: {OUTSIDE[name]}")
        if self.section == "OBJSENSE" and name in SENSES:
            return False
        if len(words) == 1 or not self.section or self.section == "NAME":
            raise _Mistake(f"unknown section {words[0]!r}{near_miss(name, SECTIONS)}")
        return False

    def _objsense(self, words: list[str]) -> None:
        if words[0].upper() not in SENSES:
            raise _Mistake(f"OBJSENSE is MIN or MAX, found {words[0]!r}")
        self.sign = -1.0 if words[0].upper().startswith("MAX") else 1.0

    def _row(self, words: list[str]) -> None:
        if len(words) != 2:
            raise _Mistake(f"a row has a type and a name, found {len(words)} fields")
        kind, name = words[0].upper(), words[1]
        if kind not in ("N", "G", "L", "E"):
            raise _Mistake(f"a row is of type N, G, L or E, found {words[0]!r}")
        if name in self.rows:
            raise _Mistake(f"there are two rows {name!r}")
        self.rows[name] = kind
        if kind == "N" and not self.objective:
            self.objective = name

    def _column(self, words: list[str]) -> None:
        if len(words) >= 3 and words[1].strip("'") == "MARKER":
            if words[2].strip("'") == "INTORG":
                raise _Mistake(NOT_CONVEX)
            return
        column = self.columns.setdefault(words[0], len(self.columns))
        for row, value in self._pairs(words[1:]):
            if (row, column) in self.numbers:
                raise _Mistake(f"there are two numbers for row {row!r} in column {words[0]!r}")
            self.numbers[row, column] = value

    def _vector(self, words: list[str], found: dict[str, float], what: str) -> None:
        if len(words) % 2:  # else the name of the vector is left out
            self._only_set(words[0])
            words = words[1:]
        for row, value in self._pairs(words):
            if row in found:
                raise _Mistake(f"row {row!r} has two {what}")
            if abs(value) >= NO_BOUND and found is self.sides and self.rows[row] == "E":
                raise _Mistake(f"row {row!r} is an equation, and its right side of {value:g} means that there is none")
            found[row] = value

    def _only_set(self, name: str) -> None:
        first = self.sets.setdefault(self.section, name)
        if name != first:
            raise _Mistake(f"{self.section} has several vectors, {first!r} and {name!r}; keep one of them")

    def _pairs(self, words: list[str]) -> list[tuple[str, float]]:
        if len(words) not in (2, 4):
            raise _Mistake(f"expected one or two pairs of a row and a number, found {len(words)} fields after the name")
        found = []
        for name, value in zip(words[::2], words[1::2], strict=True):
            if name not in self.rows:
                raise _Mistake(f"there is no row {name!r}{near_miss(name, sorted(self.rows)[:1000])}")
            found.append((name, _number(value)))
        return found

    def _bound(self, words: list[str]) -> None:
        kind = words[0].upper()
        if kind in INTEGER:
            raise _Mistake(f"bound of type {kind}: {NOT_CONVEX}")
        if kind not in WITHOUT_VALUE | WITH_VALUE:
            raise _Mistake(f"a bound is of type {', '.join(sorted(WITH_VALUE | WITHOUT_VALUE))}, found {words[0]!r}")
        valued = kind in WITH_VALUE
        names = words[1:-1] if valued else words[1:]
        if not valued and len(names) == 3:  # a value that has no meaning
            names = names[:2]
        if len(names) not in (1, 2):
            raise _Mistake(f"a bound of type {kind} has a variable{' and a number' if valued else ''}")
        if len(names) == 2:
            self._only_set(names[0])
        column = self._known_column(names[-1])
        value = _number(words[-1], infinite=True) if valued else math.inf
        ends = {"LO": (value, None), "UP": (None, value), "FX": (value, value), "MI": (-math.inf, None)}
        lower, upper = ends.get(kind, (-math.inf if kind == "FR" else None, math.inf))
        for found, end, what in ((self.lower, lower, "lower"), (self.upper, upper, "upper")):
            if end is not None:
                if column in found:
                    raise _Mistake(f"{names[-1]!r} has two {what} bounds")
                found[column] = end

    def _product(self, words: list[str]) -> None:
        if len(words) != 3:
            raise _Mistake(f"expected two variables and a number, found {len(words)} fields")
        place = self._known_column(words[0]), self._known_column(words[1])
        if place in self.quadratic or (not self.both_triangles and place[::-1] in self.quadratic):
            raise _Mistake(
                f"there are two numbers for {words[0]!r} and {words[1]!r}; {self.section} has one for a pair"
            )
        self.quadratic[place] = _number(words[2])

    def _known_column(self, name: str) -> int:
        if name not in self.columns:
            raise _Mistake(f"there is no variable {name!r}{near_miss(name, sorted(self.columns)[:1000])}")
        return self.columns[name]

    def _finish(self) -> None:
        names = [name for name, kind in self.rows.items() if kind != "N"]
        places = {name: at for at, name in enumerate(names)}
        numbers = self.numbers.items()
        self.entries = [(places[row], column, value) for (row, column), value in numbers if row in places]
        self.costs = {column: value for (row, column), value in numbers if row == self.objective}
        self.constant = -self.sides.get(self.objective, 0.0)
        self.limits = [self._limits(name) for name in names]
        self.products = [(i, j, value) for (i, j), value in self.quadratic.items()]
        if not self.both_triangles:
            self.products += [(j, i, value) for i, j, value in self.products if i != j]

    def _limits(self, row: str) -> tuple[float, float]:
        """The limits of a row; nothing is computed with a side that means none."""
        kind, side, width = self.rows[row], self.sides.get(row, 0.0), self.ranges.get(row)
        if abs(side) >= NO_BOUND:
            side, width = math.copysign(math.inf, side), None
        lower, upper = -math.inf if kind == "L" else side, math.inf if kind == "G" else side
        if width is None:
            return lower, upper
        span = math.inf if abs(width) >= NO_BOUND else abs(width)
        if kind == "L" or (kind == "E" and width < 0):
            return upper - span, upper
        return lower, lower + span


def _number(text: str, *, infinite: bool = False) -> float:
    try:
        value = float(text)
    except ValueError:
        raise _Mistake(f"{text!r} is not a number") from None
    if math.isnan(value) or (math.isinf(value) and not infinite):
        raise _Mistake(f"{text!r} is not a finite number")
    return value
