"""CPLEX's LP format: an objective, rows and bounds as formulas.

It is read here since the reader of HiGHS takes 1 <= 4 x + 2 y <= 6 for two other rows, and overlooks what it does not
know.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from dapd.arguments import NO_BOUND, near_miss
from dapd.frontends.lines import NOT_CONVEX, TextModel, WrongLine

SECTIONS = {
    "objective": ("minimize", "minimum", "min", "maximize", "maximum", "max"),
    "rows": ("subject to", "such that", "st", "s.t.", "st."),
    "bounds": ("bounds", "bound"),
    "integers": ("generals", "general", "gen", "integers", "integer", "int", "binaries", "binary", "bin"),
    "semi-continuous": ("semi-continuous", "semis", "semi"),
    "sos": ("sos", "sos1", "sos2"),
    "other": ("lazy constraints", "user cuts", "general constraints", "gencons", "pwlobj", "scenario"),
    "end": ("end",),
}
KEYWORDS = {word: section for section, words in SECTIONS.items() for word in words}
HEADER = re.compile(
    rf"\s*({'|'.join(re.escape(word).replace(chr(92) + ' ', r'[ ]+') for word in sorted(KEYWORDS, key=len)[::-1])})"
    r"(?![\w.\[])(?!\s*:)",
    re.IGNORECASE,
)
NAME = r"(?:[A-Za-z_!\"#$%&(),;?@'`{}~|]|\.(?!\d))[\w.!\"#$%&(),;?@'`{}~|]*(?:\[[^\]\s]*\][\w.]*)*"
TOKEN = re.compile(
    rf"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|(?P<name>{NAME})|(?P<sign>->|<=|=<|>=|=>|[-+*/^:\[\]<>=]))"
)

OUTSIDE = {  # sections of other classes of problems
    "integers": NOT_CONVEX,
    "semi-continuous": "semi-continuous variables are not supported, since dapd solves convex problems",
    "sos": "special ordered sets are not supported, since dapd solves convex problems",
    "other": "this section is not supported",
}
INFINITE = ("inf", "infinity")
SENSES = {"<": "<", "<=": "<", "=<": "<", ">": ">", ">=": ">", "=>": ">", "=": "="}
OPPOSITE = {"<": ">", ">": "<", "=": "="}


class Token(NamedTuple):
    """A word of a file."""

    kind: str  # number, name or sign
    text: str
    line: int


END = Token("end", "the end of the section", 0)


class Tokens:
    """The words of a section, one after the other."""

    def __init__(self, line: int) -> None:
        self.line = line  # of the last word that was taken
        self.words: list[Token] = []
        self.at = 0

    @property
    def left(self) -> bool:
        """Whether there are words left."""
        return self.at < len(self.words)

    def peek(self, ahead: int = 0) -> Token:
        """The next word, or a later one, which stays."""
        return self.words[self.at + ahead] if self.at + ahead < len(self.words) else END

    def take(self, *wanted: str, what: str = "") -> Token:
        """The next word, if it is one of those that are wanted, by kind or by text."""
        token = self.peek()
        if wanted and token.kind not in wanted and token.text not in wanted:
            found = token.text if token is END else repr(token.text)
            raise WrongLine(
                token.line or self.line, f"expected {what or ' or '.join(map(repr, wanted))}, found {found}"
            )
        self.at, self.line = self.at + 1, token.line
        return token

    def accept(self, *wanted: str) -> Token | None:
        """The next word if it is one of those, else None."""
        token = self.peek()
        return self.take() if token is not END and (token.kind in wanted or token.text in wanted) else None


def sections(text: str) -> Iterator[tuple[str, str, Tokens]]:
    """Sections with the word that begins each, and their words."""
    lines = text.splitlines()
    section, word, tokens = "", "", Tokens(1)
    for number, line in enumerate(lines, start=1):
        rest = line.partition("\\")[0]  # without the comment
        if not rest.strip():
            continue
        header, after = _header(rest)
        if not section and KEYWORDS.get(header) != "objective":
            hint = "; only the LP format of CPLEX is read, not that of lp_solve" if ":" in rest else ""
            raise WrongLine(number, f"expected Minimize or Maximize, found {rest.strip()[:40]!r}{hint}")
        if header:
            if section:
                yield section, word, tokens
            if KEYWORDS[header] == "end":
                return
            section, word, tokens, rest = KEYWORDS[header], header, Tokens(number), after
        tokens.words.extend(_words(rest, number))
    raise WrongLine(max(len(lines), 1), "the file ends without End")


def _header(line: str) -> tuple[str, str]:
    """The word that begins a section and what follows it; an empty word if the line begins none."""
    found = HEADER.match(line)
    word = " ".join(found[1].lower().split()) if found else ""
    after = line[found.end() :] if found else ""
    # other sections have a line of their own, so their words may be variables too
    return (word, after) if not after.strip() or KEYWORDS[word] in ("objective", "rows") else ("", "")


def _words(line: str, number: int) -> Iterator[Token]:
    at, line = 0, line.rstrip()
    while at < len(line):
        found = TOKEN.match(line, at)
        if found is None:
            raise WrongLine(number, f"{line[at:].split()[0]!r} is neither a number nor a name")
        at = found.end()
        yield Token(str(found.lastgroup), found[str(found.lastgroup)], number)


def read_lp(text: str) -> tuple[dict[str, Any], float]:
    """The fields of the problem, minimised, and the sign: −1 if the file maximises."""
    model, seen = _Model(), set[str]()
    for section, word, tokens in sections(text):
        if section in seen and section in ("objective", "rows"):
            raise WrongLine(tokens.line, f"there are two sections {word}")
        seen.add(section)
        if section == "objective":
            model.sign = -1.0 if word.startswith("max") else 1.0
            model.read_objective(tokens)
        elif section == "rows":
            model.read_rows(tokens)
        elif section == "bounds":
            model.read_bounds(tokens)
        elif section in OUTSIDE and tokens.left:
            raise WrongLine(tokens.line, f"{word}: {OUTSIDE[section]}")
    return model.fields()


class _Model(TextModel):
    no_lower = "is then 0; give it as in -inf <= {name} <= {upper:g}"

    def __init__(self) -> None:
        super().__init__()
        self.row_names: set[str] = set()

    def variable(self, name: str) -> int:
        return self.columns.setdefault(name, len(self.columns))

    def read_objective(self, tokens: Tokens) -> None:
        _label(tokens)
        self.costs, self.constant = self._sum(tokens, quadratic=True)
        if tokens.left:
            tokens.take("+", "-", what="+, - or the end of the objective")

    def read_rows(self, tokens: Tokens) -> None:
        while tokens.left:
            label = _label(tokens)
            if label and label in self.row_names:
                raise WrongLine(tokens.line, f"there are two rows {label!r}")
            self.row_names.add(label)
            self._row(tokens)
            if tokens.peek().line == tokens.line:
                raise WrongLine(
                    tokens.line,
                    f"{tokens.peek().text!r} does not belong here: terms are joined by + or -, the right side of a row "
                    "is one number, and the next row begins on another line",
                )

    def _row(self, tokens: Tokens) -> None:
        is_empty = tokens.peek().text in SENSES  # as in c: <= 3
        left, constant = self._sum(tokens)
        limits = {"<": np.inf, ">": -np.inf}
        sense = SENSES[tokens.take(*SENSES, what="<=, >= or =").text]
        if left or is_empty:
            limits = _limited(limits, sense, _signed(tokens))
        else:  # a number on the left, and perhaps another one on the right
            limits = _limited(limits, OPPOSITE[sense], _limit(constant))
            left, constant = self._sum(tokens)
            if not left:
                raise WrongLine(tokens.line, "a row without variables")
            second = tokens.accept(*SENSES)
            if second is not None:
                if SENSES[second.text] != sense or sense == "=":
                    raise WrongLine(tokens.line, "a row with two limits has <= twice or >= twice")
                limits = _limited(limits, sense, _signed(tokens))
        if tokens.peek().text == "->":
            raise WrongLine(tokens.line, "indicator constraints are not supported, since dapd solves convex problems")
        self.entries += [(len(self.limits), column, value) for column, value in left.items()]
        self.limits.append((limits[">"] - constant, limits["<"] - constant))

    def _sum(self, tokens: Tokens, *, quadratic: bool = False) -> tuple[dict[int, float], float]:
        """Coefficients of variables, and the constant, of a sum that ends where no sign follows."""
        linear: dict[int, float] = {}
        constant, first = 0.0, True
        while first or tokens.peek().text in ("+", "-"):
            if first and tokens.peek().kind not in ("number", "name") and tokens.peek().text not in ("+", "-", "["):
                break
            first, sign = False, _signs(tokens)
            if tokens.peek().text == "[":
                if not quadratic:
                    raise WrongLine(tokens.peek().line, "quadratic constraints are not supported")
                self._group(tokens, sign)
                continue
            number = tokens.accept("number")
            name = None if tokens.peek(1).text == ":" else tokens.accept("name")  # not the label of the next row
            if number is None and name is None:
                tokens.take("number", "name", what="a number or a variable")
            value = sign * (1.0 if number is None else float(number.text))
            if name is None:
                constant += value
            else:
                at = self.variable(name.text)
                linear[at] = linear.get(at, 0.0) + value
        return linear, constant

    def _group(self, tokens: Tokens, sign: float) -> None:
        """[ … ]/2, a sum of squares and products."""
        tokens.take("[")
        first = True
        while first or tokens.peek().text in ("+", "-"):
            first, factor = False, sign * _signs(tokens)
            number = tokens.accept("number")
            i = self.variable(tokens.take("name", what="a variable").text)
            if tokens.take("^", "*", what="^2 or * and a variable").text == "^":
                j, power = i, tokens.take("number", what="2")
                if float(power.text) != 2:
                    raise WrongLine(power.line, f"a power is 2, found {power.text}")
            else:
                j = self.variable(tokens.take("name", what="a variable").text)
            half = factor * (1.0 if number is None else float(number.text)) / 2
            self.products += [(i, j, half), (j, i, half)]
        tokens.take("]")
        tokens.take("/", what="/2 after ]")
        if float(tokens.take("number", what="2").text) != 2:
            raise WrongLine(tokens.line, "squares and products in the objective are [ … ]/2")

    def read_bounds(self, tokens: Tokens) -> None:
        while tokens.left:
            line = tokens.peek().line
            self._bound(tokens)
            if tokens.peek().line == line:
                raise WrongLine(line, f"{tokens.peek().text!r} after a bound; each bound has a line of its own")

    def _bound(self, tokens: Tokens) -> None:
        sides = []
        if tokens.peek().kind != "name" or tokens.peek().text.lower() in INFINITE:
            value = _signed(tokens)
            sides.append((OPPOSITE[SENSES[tokens.take(*SENSES, what="<=, >= or =").text]], value))
        name = tokens.take("name", what="a variable")
        if name.text not in self.columns:
            known = near_miss(name.text, list(self.columns)[:1000])
            raise WrongLine(name.line, f"there is no variable {name.text!r}{known}")
        at = self.columns[name.text]
        free = tokens.peek()
        if not sides and free.text.lower() == "free":
            tokens.take()
            self.lower[at], self.upper[at] = -np.inf, np.inf
            return
        sense = tokens.accept(*SENSES)
        if sense is not None:
            sides.append((SENSES[sense.text], _signed(tokens)))
        if not sides:
            tokens.take(*SENSES, what="<=, >=, = or free")
        for side, value in sides:
            if side in ("<", "="):
                self.upper[at] = value
            if side in (">", "="):
                self.lower[at] = value


def _label(tokens: Tokens) -> str:
    """The name of the objective or of a row, if there is one."""
    if tokens.peek().kind in ("name", "number") and tokens.peek(1).text == ":":
        name = tokens.take().text
        tokens.take(":")
        return name
    return ""


def _signs(tokens: Tokens) -> float:
    sign = 1.0
    while (found := tokens.accept("+", "-")) is not None:
        sign = -sign if found.text == "-" else sign
    return sign


def _signed(tokens: Tokens) -> float:
    """A limit: a number with signs, perhaps infinite."""
    sign = _signs(tokens)
    if tokens.peek().text.lower() in INFINITE:
        tokens.take()
        return sign * math.inf
    return _limit(sign * float(tokens.take("number", what="a number").text))


def _limit(value: float) -> float:
    """A limit that is infinite if it means none, before anything is computed with it."""
    return math.copysign(math.inf, value) if abs(value) >= NO_BOUND else value


def _limited(limits: dict[str, float], sense: str, value: float) -> dict[str, float]:
    return {side: value if sense in (side, "=") else limit for side, limit in limits.items()}
