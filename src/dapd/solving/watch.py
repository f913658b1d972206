"""Whoever looks on while a solve runs: the display, the callback, and the record of its convergence checks."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from dapd.arrays import Array, on_host, owned
from dapd.solving.progress import Display
from dapd.solving.result import History
from dapd.ways.search import Info


class Watch:
    """Shows, records and hands on each convergence check."""

    def __init__(
        self,
        shown: Display | None,
        callback: Callable[[Info], object] | None = None,
        *,
        is_recorded: bool = False,
        x_star: Array | None = None,
    ) -> None:
        self.shown, self.callback, self.is_recorded, self.x_star = shown, callback, is_recorded, x_star
        self.errors: list[tuple[int, float]] = []  # iteration and relative error
        self.rows: list[tuple[int, float, float, float, float]] = []  # of the history

    def look(self, look: Info, remaining: float, complete: Callable[[Info], Info]) -> bool:
        """Whether the callback says stop; `complete` adds to a point what only a callback may read."""
        c = look.certificate
        if self.shown is not None:
            self.shown.show(look.iteration, look.time, c, remaining)
        self.errors.append((look.iteration, c.error))
        if self.is_recorded:
            self.rows.append((look.iteration, look.time, c.stationarity, c.feasibility, self._error(look.x)))
        if self.callback is None:
            return False
        if math.isinf(c.distance):
            look = complete(look)
        return bool(self.callback(look._replace(x=owned(look.x), y=owned(look.y))))

    def _error(self, x: Array) -> float:
        star = self.x_star
        return math.nan if star is None else float(np.linalg.norm(on_host(x) - star) / (np.linalg.norm(star) or 1.0))

    def history(self) -> History | None:
        """What was recorded."""
        if not self.is_recorded:
            return None
        iterations, time, stationarity, feasibility, errors = map(np.array, zip(*self.rows, strict=True))
        return History(iterations, time, stationarity, feasibility, None if self.x_star is None else errors)
