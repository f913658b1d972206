"""The sources that define a result: a record made from others is not valid any more."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

import dapd

# kernels and engines are left out: tests hold them equal to the plain forms, so that a faster one voids nothing
DEFINING = ("theory/*.py", "methods/*.py", "experiments/**/*.py")


@cache
def digest() -> str:
    """SHA-256 of the names and contents of the defining files, shortened."""
    return fingerprint(Path(dapd.__file__).parent)


def fingerprint(package: Path) -> str:
    """The same for any folder that holds the package."""
    total = hashlib.sha256()
    for path in sorted({path for pattern in DEFINING for path in package.glob(pattern)}):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        total.update(f"{path.relative_to(package).as_posix()} {content}\n".encode())
    return total.hexdigest()[:16]
