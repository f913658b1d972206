"""Iterations of dapd's first-order steps: by its own certificate, and until an outside judge accepts a point."""

from __future__ import annotations

import math
from time import perf_counter
from typing import Any, NamedTuple

import dapd
from first_order_parts.contestants import FINEST, lifted
from first_order_parts.instances import Instance, dapd_problem
from peers.case import Case
from peers.solvers import MANY
from peers.with_dapd import known_options

LATE, ROUNDS = 0.02, 4  # a first accepted check that may be later than this is looked for again, at most so often


class Count(NamedTuple):
    """What it took."""

    iterations: int
    seconds: float
    met: bool
    error: float  # that was reached
    late: float = 0.0  # by which part of the iterations an earlier point may have been accepted
    gave_up: bool = False  # whether the solver ended before its limit without meeting the tolerance


class Runs:
    """Solves of one instance that differ in when they end."""

    def __init__(self, instance: Instance, limit: float, accuracy: str) -> None:
        self.judge, self.limit = instance.judge, limit
        self.model = instance.make()
        self.case = Case(self.model)
        self.options: dict[str, Any] = {"engine": "native", "direct": False, "time_limit": limit}
        self.options |= known_options({"accuracy": accuracy})

    def solve(self, **options: Any) -> Any:
        """First-order steps from zero, with a problem that nothing is known of."""
        return dapd.solve(dapd_problem(self.model), **{"max_iterations": MANY, **self.options, **options})

    def own(self, tol: float) -> Count:
        """Until the package's certificate meets a tolerance."""
        began = perf_counter()
        found = self.solve(tol=tol)
        seconds = perf_counter() - began
        ended = not found.converged and seconds < self.limit
        return Count(found.iterations, seconds, found.converged, found.certificate.error, 0.0, ended)

    def outside(self, tol: float) -> Count:
        """Until the judge accepts the best point of a convergence check; the judge's own time counts too."""
        checks, errors = [0], [math.inf]

        def seen(info: Any) -> bool:
            if info.iteration > checks[-1]:
                checks.append(info.iteration)
            errors.append(self.error_of(info))
            return errors[-1] <= tol

        began = perf_counter()
        found = self.solve(tol=FINEST, callback=seen)
        seconds = perf_counter() - began
        error = min(errors[-1], self.error_of(found))
        if error > tol:
            return Count(found.iterations, seconds, False, min(errors), 0.0, seconds < self.limit)
        low, high = (checks[-2] if len(checks) > 1 else 0), checks[-1]
        low, high = self._narrowed(low, high, tol)
        return Count(high, seconds, True, error, (high - low) / max(high, 1))

    def _narrowed(self, low: int, high: int, tol: float) -> tuple[int, int]:
        """A shorter interval of iterations in which the first accepted point lies, by runs that end in between."""
        for _ in range(ROUNDS):
            if high - low <= LATE * high:
                break
            middle = (low + high) // 2
            found = self.solve(tol=FINEST, max_iterations=middle)
            if self.error_of(found) <= tol:
                high = min(high, max(found.iterations, low + 1))
            else:
                low = middle
        return low, high

    def error_of(self, point: Any) -> float:
        """What the judge says of the x, y and z of an `Info` or a `Result`."""
        return self.judge(self.case, lifted(self.case, point))
