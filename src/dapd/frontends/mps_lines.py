"""Check an MPS or QPS file line by line, since HiGHS reads past many mistakes and names no lines."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from dapd.arguments import near_miss

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
NOT_CONVEX = "integer variables are not supported, since dapd solves convex problems"


class Wrong(NamedTuple):
    """A mistake."""

    line: int
    message: str


class _Mistake(Exception):
    """What is wrong with the current line."""


def check_lines(lines: Sequence[str]) -> Wrong | None:
    """The first mistake; None if there is none, with fields separated by spaces or in fixed columns."""
    wrong = _Checker(lambda line: line.split()).check(lines)
    return None if wrong is None or _Checker(_fixed).check(lines) is None else wrong


def _fixed(line: str) -> list[str]:
    """The fields of a line in fixed columns, in which a name may contain spaces."""
    return [field for a, b in COLUMNS if (field := line[a:b].strip())]


class _Checker:
    """Goes through a file and remembers its names."""

    def __init__(self, split: Callable[[str], list[str]]) -> None:
        self.split = split
        self.section = ""
        self.rows: set[str] = set()
        self.columns: set[str] = set()

    def check(self, lines: Sequence[str]) -> Wrong | None:
        """The first mistake."""
        at = 0
        for at, line in enumerate(lines, start=1):
            if not line.strip() or line.startswith("*"):
                continue
            try:
                if not line[0].isspace() and self._header(line.split()):
                    continue
                if self.section == "ENDATA":
                    break
                self._data(self.split(line))
            except _Mistake as mistake:
                return Wrong(at, str(mistake))
        if self.section != "ENDATA":
            return Wrong(max(at, 1), "the file ends without ENDATA")
        return None

    def _header(self, words: list[str]) -> bool:
        """Enter a section; False if this is a data line that is not indented."""
        name = words[0].upper()
        if name in SECTIONS:
            if name in ("COLUMNS", "RHS", "RANGES", "BOUNDS") and not self.rows:
                raise _Mistake(f"{name} comes before any row of ROWS")
            self.section = name
            if name == "OBJSENSE" and len(words) > 1:
                self._objsense(words[1:])
            return True
        if name in OUTSIDE:
            raise _Mistake(f"section {name}: {OUTSIDE[name]}")
        if self.section == "OBJSENSE" and name in SENSES:
            return False
        if len(words) == 1 or not self.section or self.section == "NAME":
            raise _Mistake(f"unknown section {words[0]!r}{near_miss(name, SECTIONS)}")
        return False

    def _data(self, words: list[str]) -> None:
        readers = {
            "OBJSENSE": self._objsense,
            "ROWS": self._row,
            "COLUMNS": self._column,
            "RHS": self._side,
            "RANGES": self._side,
            "BOUNDS": self._bound,
            "QUADOBJ": self._product,
            "QMATRIX": self._product,
            "QSECTION": self._product,
        }
        if self.section not in readers:
            raise _Mistake(f"expected a section such as ROWS, found {' '.join(words)[:40]!r}")
        readers[self.section](words)

    def _objsense(self, words: list[str]) -> None:
        if words[0].upper() not in SENSES:
            raise _Mistake(f"OBJSENSE is MIN or MAX, found {words[0]!r}")

    def _row(self, words: list[str]) -> None:
        if len(words) != 2:
            raise _Mistake(f"a row has a type and a name, found {len(words)} fields")
        kind, name = words
        if kind.upper() not in ("N", "G", "L", "E"):
            raise _Mistake(f"a row is of type N, G, L or E, found {kind!r}")
        if name in self.rows:
            raise _Mistake(f"there are two rows {name!r}")
        self.rows.add(name)

    def _column(self, words: list[str]) -> None:
        if len(words) >= 3 and words[1].strip("'") == "MARKER":
            if words[2].strip("'") == "INTORG":
                raise _Mistake(NOT_CONVEX)
            return
        self.columns.add(words[0])
        self._pairs(words[1:])

    def _side(self, words: list[str]) -> None:
        self._pairs(words[1:] if len(words) % 2 else words)  # the name of the vector may be left out

    def _pairs(self, words: list[str]) -> None:
        if len(words) not in (2, 4):
            raise _Mistake(f"expected one or two pairs of a row and a number, found {len(words)} fields after the name")
        for name, value in zip(words[::2], words[1::2], strict=True):
            if name not in self.rows:
                raise _Mistake(f"there is no row {name!r}{near_miss(name, sorted(self.rows)[:1000])}")
            _number(value)

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
        self._known_column(names[-1])
        if valued:
            _number(words[-1], infinite=True)

    def _product(self, words: list[str]) -> None:
        if len(words) != 3:
            raise _Mistake(f"expected two variables and a number, found {len(words)} fields")
        self._known_column(words[0])
        self._known_column(words[1])
        _number(words[2])

    def _known_column(self, name: str) -> None:
        if name not in self.columns:
            raise _Mistake(f"there is no variable {name!r}{near_miss(name, sorted(self.columns)[:1000])}")


def _number(text: str, *, infinite: bool = False) -> None:
    try:
        value = float(text)
    except ValueError:
        raise _Mistake(f"{text!r} is not a number") from None
    if math.isnan(value) or (math.isinf(value) and not infinite):
        raise _Mistake(f"{text!r} is not a finite number")
