"""The words of a file in CPLEX's LP format, by section."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from dapd.frontends.lines import WrongLine

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
