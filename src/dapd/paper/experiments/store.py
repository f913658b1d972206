"""References stored on disk, each under a digest of its problem."""

from __future__ import annotations

import hashlib
import os
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from dapd.arrays import Array
from dapd.problem.problem import Problem


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
    """The path of the file for the solution of the problem, whether it exists or not."""
    digest = hashlib.sha256()
    for part in (problem.f, problem.M, problem.b, problem.phi):
        _add_to_digest(digest, part)
    return (cache or directory()) / "references" / f"{digest.hexdigest()[:32]}.npz"


def _add_to_digest(digest: Any, value: Any) -> None:
    """Hash a value: arrays by their bytes, objects of the package by their public attributes."""
    if isinstance(value, np.ndarray):
        digest.update(f"{value.dtype.str}{value.shape}".encode())
        digest.update(np.ascontiguousarray(value).tobytes())
    elif hasattr(value, "__dict__"):
        digest.update(type(value).__qualname__.encode())
        for name, attribute in sorted(vars(value).items()):
            if not name.startswith("_"):
                digest.update(name.encode())
                _add_to_digest(digest, attribute)
    else:
        digest.update(repr(value).encode())


def load(place: Path) -> tuple[Array, Array] | None:
    """Return x and y, or None if there is no readable file."""
    try:
        with place.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            return stored["x"], stored["y"]
    except (OSError, KeyError, ValueError, zipfile.BadZipFile):  # absent, truncated, or another format
        return None


def save(place: Path, x: Array, y: Array) -> None:
    """Store the solution; the file appears completely or not at all, so several processes may do this at once."""
    place.parent.mkdir(parents=True, exist_ok=True)
    draft = place.with_suffix(f".{os.getpid()}.npz")
    np.savez(draft, x=x, y=y)
    draft.replace(place)
