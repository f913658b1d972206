"""The one place where a result is made: what it says, and how it comes back in the caller's kind of arrays."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from dapd.arrays import on_host, owned
from dapd.certificate.certify import SOLUTION, Certificate, completed, objective
from dapd.engines import as_jax
from dapd.engines.protocol import Engine
from dapd.problem.problem import Problem
from dapd.solving.result import Result
from dapd.spectrum.estimate import Spectrum
from dapd.spectrum.lanczos import doubt_about
from dapd.ways.causes import STATUSES, Cause, Status
from dapd.ways.named import STALLED
from dapd.ways.search import Info

ENDED_EARLY = (Status.iteration_limit, Status.time_limit, Status.interrupted)
ENOUGH_PASSES = 400  # passes over M after which a few more may find out whether the spectrum was wrong
BEST, BEST_POINT = "this is the best point seen", "This is the best point seen"
SENTENCES = {
    Cause.certificate: "The certificate meets the tolerance.",
    Cause.limit: "Stopped at the iteration limit before the certificate met the tolerance.",
    Cause.deadline: "Stopped at the time limit before the certificate met the tolerance.",
    Cause.callback: f"Stopped by the callback; {BEST} so far.",
    Cause.ctrl_c: f"Interrupted; {BEST} so far.",
    Cause.no_progress: f"No algorithm makes progress any more; {BEST} so far.",
    Cause.divergence: f"The iterates diverged, so L or s_max is too small or a gradient is wrong; {BEST}. "
    "Check f with dapd.testing.check_gradient and check_strong_convexity.",
    Cause.contradiction: "No x satisfies the constraints: some of them contradict each other (`ray` proves it).",
    Cause.descent: "From x, the objective falls without end along a direction that keeps the constraints (`ray`), "
    "so there is no minimum.",
}
AT_THE_START = {
    Cause.deadline: "The time limit passed during the set-up, so this is the start.",
    Cause.ctrl_c: "Interrupted during the set-up, so this is the start.",
}
NO_TURN = {
    Cause.deadline: "The time limit of the batch passed before this problem had its turn, so this is the start.",
    Cause.ctrl_c: "The batch was interrupted before this problem had its turn, so this is the start.",
}
NO_POINT = (
    "The objective falls without end along a direction that keeps the constraints, but no x that satisfies them was "
    "found: if there is one, there is no minimum."
)
NO_BLOCKS = "shared_sample had no block method to act on."


class Spent(NamedTuple):
    """The work of a solve: iterations, gradients and products."""

    iterations: int = 0
    gradients: int = 0
    products: int = 0
    block_products: int = 0


def answer(
    problem: Problem,
    point: Info,
    cause: Cause,
    sentences: list[str],
    *,
    method: str,
    engine: Engine,
    tolerances: tuple[float, float],
    spent: Spent,
    solve_time: float,
    setup_time: float,
    value: Callable[..., float] | None = None,
    **others: Any,
) -> Result:
    """The result at a point; `value` computes the objective there, on the host by default."""
    certificate = point.certificate
    is_satisfied = cause is Cause.certificate or 0 < certificate.feasibility_error <= tolerances[0]
    is_satisfied = is_satisfied or certificate.meets(*tolerances)
    with np.errstate(all="ignore"):
        if cause is Cause.descent:
            found = -math.inf
        elif value is not None:
            found = value(point.x, point.y, satisfied=is_satisfied)
        else:
            found = objective(problem, point.x, point.y, is_satisfied)
        x = owned(point.x)
        y, z = completed(problem, x, on_host(point.y)) if point.z is None else (owned(point.y), owned(point.z))
    return Result(
        x=x,
        y=y,
        z=z,
        status=STATUSES[cause],
        cause=cause,
        message=" ".join(filter(None, sentences)),
        **spent._asdict(),
        certificate=certificate,
        objective=found,
        solve_time=solve_time,
        setup_time=setup_time,
        method=method,
        engine=engine,
        **others,
    )


def in_kind_of(problem: Problem, result: Result) -> Result:
    """The result with JAX arrays if M or b of the problem was one."""
    return in_jax(result) if problem.from_jax else result


def in_jax(result: Result) -> Result:
    """The result with JAX arrays."""
    x, y, z = as_jax(result.x, result.y, result.z)
    return replace(result, x=x, y=y, z=z, ray=None if result.ray is None else as_jax(result.ray)[0])


def why_it_ended(
    cause: Cause,
    certificate: Certificate,
    problem: Problem,
    spectrum: Spectrum | None,
    passes: int,
    deadline: float,
    *,
    is_named: bool,
) -> str:
    """The cause in a sentence or two, and whether the spectrum that the solve was given may be the reason."""
    said = _rounding(problem, certificate, is_named) if cause is Cause.rounding else SENTENCES[cause]
    is_slow = cause is Cause.limit and passes >= ENOUGH_PASSES
    if spectrum is None or not (is_slow or cause in (Cause.rounding, Cause.divergence)):
        return said
    doubt = doubt_about(problem.stacked.M, spectrum, deadline)
    if not doubt:
        return said
    if cause is Cause.rounding:
        said = f"Stopped because the error no longer falls; {BEST}."
    elif cause is Cause.divergence:
        said = f"The iterates diverged; {BEST}."
    return f"{said} {doubt}"


def _rounding(problem: Problem, certificate: Certificate, is_named: bool) -> str:
    dtype, error = problem.dtype, certificate.error
    remedy = "a larger tol" if dtype == np.float64 else "float64, or a larger tol"
    is_tiny = error <= STALLED * float(np.finfo(dtype).eps)
    wrong = ", unless mu or L of f is wrong" if is_named and not is_tiny else ""
    return f"Stopped by rounding in {dtype}, which keeps the error at {error:.1e}{wrong}. {BEST_POINT}; use {remedy}."


def what_is_left(status: Status, certificate: Certificate, tolerances: tuple[float, float]) -> str:
    """The parts of the error of a point that is not good enough; empty if there is nothing to say."""
    tol, tol_absolute = tolerances
    if status not in ENDED_EARLY or not max(tolerances) or not math.isfinite(certificate.error):
        return ""
    c = certificate
    if tol:
        parts = {"stationarity": c.stationarity_error, "feasibility": c.feasibility_error, "gap": c.gap_error}
        if c.accuracy == SOLUTION:
            parts["complementarity"] = c.complementarity_error
    else:
        parts = {"dual residual": c.dual, "primal residual": c.primal, "gap": c.gap}
    known = {name: abs(part) for name, part in parts.items() if not math.isnan(part)}
    worst, *others = (f"{name} {known[name]:.1e}" for name in sorted(known, key=lambda name: -known[name]))
    return f"What is left: {worst}, where {tol or tol_absolute:g} was asked for ({', '.join(others)})."


def who_ran(seconds: dict[str, float]) -> str:
    """Which candidates ran, and for how long."""
    ran = [f"{title} for {time:.2g} s" for title, time in sorted(seconds.items(), key=lambda pair: -pair[1])]
    return f"Ran {ran[0]}." if len(ran) == 1 else f"Ran {', '.join(ran[:-1])} and {ran[-1]}."
