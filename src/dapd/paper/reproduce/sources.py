"""What made a result: the sources that define it, the versions of the libraries, and the processor."""

from __future__ import annotations

import hashlib
import platform
import re
from collections.abc import Iterator
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import dapd

PACKAGES = ("numpy", "scipy", "jax", "clarabel", "matplotlib")

ROOTS = (
    "theory/*.py",
    "methods/*.py",
    "paper/experiments/**/*.py",
    "engines/native/runner.py",
    "engines/native/blocks.py",
    "engines/python.py",
    "solving/race.py",
    "solving/answer.py",
    "ways/named.py",
)
# ruff sorts and formats the imports, so these find all of them; the modules are absolute
FROM = re.compile(r"^ *from (dapd[\w.]*) import (\([^)]*\)|.*)", re.MULTILINE)
IMPORT = re.compile(r"^ *import (dapd[\w.]*)", re.MULTILINE)
# also what only holds the set-ups of others
FRONT_DOORS = ("__init__.py", "engines/__init__.py", "solving/__init__.py", "ways/kept.py")


def versions() -> dict[str, str]:
    """The versions of Python and of the packages; "not installed" if a package is missing."""
    found = {"Python": platform.python_version(), "dapd": dapd.__version__}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def processor() -> str:
    """The name of the processor, as far as the system reports it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()


@cache
def digest() -> str:
    """The start of the SHA-256 of the names and contents of the defining files."""
    return fingerprint(Path(dapd.__file__).parent)


def fingerprint(package: Path) -> str:
    """The same for any folder that contains the package."""
    total = hashlib.sha256()
    for path in [*defining(package), *_core(package)]:
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        total.update(f"{path.relative_to(package.parent).as_posix()} {content}\n".encode())
    return total.hexdigest()[:16]


def defining(package: Path) -> list[Path]:
    """The Python files that define a result: the roots and what they import from the package."""
    left = {path for pattern in ROOTS for path in package.glob(pattern)}
    found: set[Path] = set()
    while left:
        path = left.pop()
        found.add(path)
        left |= set(_imported(path, package)) - found
    return sorted(found)


def _imported(path: Path, package: Path) -> Iterator[Path]:
    """The files of the package that a file imports, without the front doors."""
    text, names = path.read_text(encoding="utf-8"), []
    for module, things in FROM.findall(text):
        names += [module, *(f"{module}.{name}" for name in re.findall(r"\w+", things))]
    doors = {package / name for name in FRONT_DOORS}
    for _, *parts in (name.split(".") for name in [*names, *IMPORT.findall(text)]):
        place = package.joinpath(*parts)
        for file in (place.with_suffix(".py"), place / "__init__.py"):
            if file.is_file() and file not in doors:
                yield file


def _core(package: Path) -> list[Path]:
    """The sources of the native core, or its builds in an installation that has no sources."""
    sources = sorted(path for path in (package.parent / "core").rglob("*") if path.is_file())
    return sources or sorted(package.glob("_core_*"))
