"""How and why a solve ended: decided in `solving/race.py`, of lock steps on a device in `solving/batch/device.py`.

`solving/answer.py` says it in words, and makes the result.
"""

from __future__ import annotations

from enum import StrEnum


class Status(StrEnum):
    """How a solve ended."""

    optimal = "optimal"
    iteration_limit = "iteration_limit"
    time_limit = "time_limit"
    interrupted = "interrupted"
    diverged = "diverged"
    infeasible = "infeasible"
    unbounded = "unbounded"


class Cause(StrEnum):
    """Why a solve ended; each cause has one status."""

    certificate = "certificate"  # it meets a tolerance
    limit = "limit"  # of iterations
    deadline = "deadline"
    callback = "callback"
    ctrl_c = "ctrl_c"  # or another cancellation
    rounding = "rounding"
    no_progress = "no_progress"
    divergence = "divergence"
    contradiction = "contradiction"  # a ray proves that no x satisfies the constraints
    descent = "descent"  # a ray proves that the objective falls without end

    @property
    def status(self) -> Status:
        """The status that a user sees."""
        return STATUSES[self]


STATUSES = {
    Cause.certificate: Status.optimal,
    Cause.limit: Status.iteration_limit,
    Cause.deadline: Status.time_limit,
    Cause.callback: Status.interrupted,
    Cause.ctrl_c: Status.interrupted,
    Cause.rounding: Status.interrupted,
    Cause.no_progress: Status.interrupted,
    Cause.divergence: Status.diverged,
    Cause.contradiction: Status.infeasible,
    Cause.descent: Status.unbounded,
}
