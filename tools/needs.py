"""Print what some extras of pyproject.toml need, and what dapd itself needs if it is one of the names.

    python tools/needs.py dapd test

The Makefile installs it while the core is compiled.
"""

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def needs(name: str) -> Iterator[str]:
    """The requirements of an extra; those that name other extras of dapd are replaced by what these need."""
    for one in PROJECT["dependencies"] if name == "dapd" else PROJECT["optional-dependencies"][name]:
        others = re.fullmatch(r"dapd\[(.+)\]", one)
        if others:
            yield from (need for other in others[1].split(",") for need in needs(other.strip()))
        else:
            yield one


print(*dict.fromkeys(need for name in sys.argv[1:] for need in needs(name)))
