"""CPLEX's LP format: an objective, rows and bounds as formulas.

It is read here since the reader of HiGHS takes 1 <= 4 x + 2 y <= 6 for two other rows, and overlooks what it does not
know.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse as sp

from dapd.arguments import NO_BOUND, near_miss
from dapd.frontends.lines import NOT_CONVEX, WrongLine
from dapd.frontends.lp_words import Tokens, sections

OUTSIDE = {  # sections of other classes of problems
    "integers": NOT_CONVEX,
    "semi-continuous": "semi-continuous variables are not supported, since dapd solves convex problems",
    "sos": "special ordered sets are not supported, since dapd solves convex problems",
    "other": "this section is not supported",
}
INFINITE = ("inf", "infinity")
SENSES = {"<": "<", "<=": "<", "=<": "<", ">": ">", ">=": ">", "=>": ">", "=": "="}
OPPOSITE = {"<": ">", ">": "<", "=": "="}


def read_lp(text: str) -> tuple[dict[str, Any], float]:
    """The fields of the problem, minimised, and the sign: −1 if the file maximises."""
    model = _Model()
    sign, seen = 1.0, set[str]()
    for section, word, tokens in sections(text):
        if section in seen and section in ("objective", "rows"):
            raise WrongLine(tokens.line, f"there are two sections {word}")
        seen.add(section)
        if section == "objective":
            sign = -1.0 if word.startswith("max") else 1.0
            model.read_objective(tokens)
        elif section == "rows":
            model.read_rows(tokens)
        elif section == "bounds":
            model.read_bounds(tokens)
        elif section in OUTSIDE and tokens.left:
            raise WrongLine(tokens.line, f"{word}: {OUTSIDE[section]}")
    return model.fields(sign), sign


class _Model:
    """What was read so far."""

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self.costs: dict[int, float] = {}
        self.constant = 0.0
        self.products: list[tuple[int, int, float]] = []  # i, j and the coefficient of x_i x_j
        self.rows: list[tuple[dict[int, float], float, float]] = []  # coefficients and limits
        self.row_names: set[str] = set()
        self.lower: dict[int, float] = {}
        self.upper: dict[int, float] = {}

    def variable(self, name: str) -> int:
        return self.names.setdefault(name, len(self.names))

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
            self.rows.append(self._row(tokens))
            if tokens.peek().line == tokens.line:
                raise WrongLine(
                    tokens.line,
                    f"{tokens.peek().text!r} does not belong here: terms are joined by + or -, the right side of a row "
                    "is one number, and the next row begins on another line",
                )

    def _row(self, tokens: Tokens) -> tuple[dict[int, float], float, float]:
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
        return left, limits[">"] - constant, limits["<"] - constant

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
            self.products.append((i, j, factor * (1.0 if number is None else float(number.text)) / 2))
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
        if name.text not in self.names:
            known = near_miss(name.text, list(self.names)[:1000])
            raise WrongLine(name.line, f"there is no variable {name.text!r}{known}")
        at = self.names[name.text]
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

    def fields(self, sign: float) -> dict[str, Any]:
        """The fields, as `dapd.problems.qp` names them, of the minimisation."""
        if not self.names:
            raise ValueError("there are no variables")
        for name, at in self.names.items():
            if self.upper.get(at, 0.0) < 0 and at not in self.lower:
                raise ValueError(
                    f"{name!r} has the upper bound {self.upper[at]:g} and no lower one, which is then 0; give it as in "
                    f"-inf <= {name} <= {self.upper[at]:g}"
                )
        n, m = len(self.names), len(self.rows)
        costs = np.zeros(n)
        costs[list(self.costs)] = list(self.costs.values())
        lower, upper = np.zeros(n), np.full(n, np.inf)
        lower[list(self.lower)], upper[list(self.upper)] = list(self.lower.values()), list(self.upper.values())
        fields = {"q": sign * costs, "r": sign * self.constant, "lb": lower, "ub": upper}
        if m:
            entries = [(i, j, value) for i, (row, _, _) in enumerate(self.rows) for j, value in row.items()]
            fields["A"] = _sparse(entries, (m, n))
            fields["l"], fields["u"] = np.array([row[1:] for row in self.rows]).T
        if self.products:
            half = _sparse(self.products, (n, n))
            fields["P"] = sign * (half + half.T)
        return fields


def _sparse(entries: list[tuple[int, int, float]], shape: tuple[int, int]) -> Any:
    i, j, values = zip(*entries, strict=True) if entries else ([], [], [])
    return sp.csc_array(sp.coo_array((values, (i, j)), shape=shape))


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
