"""How kernels are compiled: cached on disk, without the GIL, sums free to be vectorised."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar, cast

import numba

from dapd.arrays import Array

F = TypeVar("F", bound=Callable[..., object])
FREE = {"reassoc", "contract"}  # NaN and infinity keep their meaning, only the order of sums is free


def _digest() -> str:
    """What compiled code is made from: Numba itself only looks at the file of the function that it loads."""
    package = Path(__file__).parents[1]
    sources = [
        package / "theory" / "__init__.py",
        *(f for part in ("kernels", "engines", "methods") for f in package.glob(f"{part}/*.py")),
    ]
    found = hashlib.sha256(b"".join(source.read_bytes() for source in sorted(sources)))
    return found.hexdigest()[:12]


DIGEST = _digest()


def _cached(function: F, **options: object) -> F:
    # the name of the file that keeps the code comes from this name
    function.__qualname__ = f"{function.__qualname__}_{DIGEST}"
    return cast(F, numba.njit(cache=True, nogil=True, **options)(function))


# inlining is said outright: what is not said, Numba takes over from the caller
def compiled(function: F) -> F:
    """Compile with Numba."""
    return _cached(function, fastmath=FREE, forceinline=False)


def plain(function: F) -> F:
    """Compile with Numba, sums in their order: where entries are gathered, vectorised code is slower."""
    return _cached(function, forceinline=False)


def inlined(function: F) -> F:
    """Compile with Numba, as a part of every caller: a record with many arrays takes longer to hand on than to use."""
    return _cached(function, forceinline=True)


@inlined
def copy(a: Array, out: Array) -> None:
    """Set out = a, of the same length: Numba's own assignment compiles the text of an error, which takes seconds."""
    for i in range(out.size):
        out[i] = a[i]
