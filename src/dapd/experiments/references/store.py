"""References kept on disk, each under a digest of its problem's content."""

from __future__ import annotations

import hashlib
import os
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from dapd.arrays import Array
from dapd.model.problem import Problem


def directory() -> Path:
    """The user's cache directory for this package; DAPD_CACHE_DIR overrides it."""
    if chosen := os.environ.get("DAPD_CACHE_DIR"):
        return Path(chosen)
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "dapd"


def path(problem: Problem, cache: Path | None = None) -> Path:
    """The file that holds the problem's solution, whether it exists or not."""
    digest = hashlib.sha256()
    for part in (problem.f, problem.M, problem.b, problem.phi):
        _feed(digest, part)
    return (cache or directory()) / "references" / f"{digest.hexdigest()[:32]}.npz"


def _feed(digest: Any, value: Any) -> None:
    """Hash what an object is made of: arrays by their bytes, the package's own objects by their public attributes."""
    if isinstance(value, np.ndarray):
        digest.update(f"{value.dtype.str}{value.shape}".encode())
        digest.update(np.ascontiguousarray(value).tobytes())
    elif hasattr(value, "__dict__"):
        digest.update(type(value).__qualname__.encode())
        for name, attribute in sorted(vars(value).items()):
            if not name.startswith("_"):
                digest.update(name.encode())
                _feed(digest, attribute)
    else:
        digest.update(repr(value).encode())


def load(place: Path) -> tuple[Array, Array] | None:
    """Return x and y, or None where there is no readable file."""
    try:
        with place.open("rb") as file, np.load(file, allow_pickle=False) as kept:
            return kept["x"], kept["y"]
    except (OSError, KeyError, ValueError, zipfile.BadZipFile):  # absent, cut short, or something else
        return None


def save(place: Path, x: Array, y: Array) -> None:
    """Keep the solution; two processes may do so at once, for the file appears whole or not at all."""
    place.parent.mkdir(parents=True, exist_ok=True)
    draft = place.with_suffix(f".{os.getpid()}.npz")
    np.savez(draft, x=x, y=y)
    draft.replace(place)
