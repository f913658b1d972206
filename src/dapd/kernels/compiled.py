"""How kernels are compiled: cached on disk, without the GIL, sums free to be vectorised."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., object])


def compiled(function: F) -> F:
    """Compile with Numba; NaN and infinity keep their meaning, only the order of sums is free."""
    return cast(F, numba.njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})(function))
