"""What was asked of a solve, and the result that answers it."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from dapd.arrays import Array, on_host, owned
from dapd.blas import single_blas
from dapd.certificate.certify import SOLUTION, Certificate, certify, completed, objective
from dapd.clock import perf_counter
from dapd.engines import precision
from dapd.engines.protocol import Engine, Runner
from dapd.methods.block import BlockMethod
from dapd.problem.problem import Problem
from dapd.solving.loop import Loop
from dapd.solving.progress import display
from dapd.solving.result import SENTENCES, Result, Status
from dapd.spectrum.estimate import Spectrum
from dapd.spectrum.suspect import doubt_about
from dapd.ways.search import Info

ENDED_EARLY = (Status.iteration_limit, Status.time_limit, Status.interrupted)
ENOUGH_PASSES = 400  # passes over M after which a few more may find out whether the spectrum was wrong


class Request(NamedTuple):
    """What was asked, checked."""

    problem: Problem
    tolerances: tuple[float, float]
    limit: int  # iterations
    by_passes: bool  # the limit counts passes over M rather than block iterations
    deadline: float  # on the performance counter
    began: float
    callback: Callable[[Info], object] | None
    progress: bool
    history: bool
    accuracy: str


def run_method(asked: Request, runner: Runner, spectrum: Spectrum | None, note: list[str]) -> Result:
    """Run a method until its certificate meets a tolerance, or a limit is reached."""
    problem, bound = asked.problem, runner.method
    given = spectrum
    limit = (bound.round if asked.by_passes else 1) * asked.limit
    if spectrum is not None and not spectrum.resolved:
        note = [*note, f"s_min = {spectrum.s_min:.2g} is a guess, so the rate is not certain."]
    if isinstance(bound, BlockMethod) and bound.own_seed:
        note = [*note, f"Blocks were drawn with seed={bound.seed}."]
    setup_time = perf_counter() - asked.began
    loop = Loop(runner, asked.tolerances, limit, asked.deadline, asked.callback, asked.history, given, asked.accuracy)
    with (
        display(asked.progress, bound.title, asked.tolerances, limit) as shown,
        np.errstate(all="ignore"),
        single_blas(problem.M.work + problem.f.work) if runner.engine == "native" else nullcontext(),
    ):
        status, look = loop.run(shown)
        passes = loop.iteration // bound.round
        said = explained(status, loop.reason, look.certificate, asked, given, passes)
        good_enough = satisfied(look.certificate, *asked.tolerances)
        value = loop.judging.objective(look.x, look.y, satisfied=good_enough)
        x = owned(look.x)
        y, z = completed(problem, x, on_host(look.y))
    return Result(
        x=x,
        y=y,
        z=z,
        status=status,
        message=" ".join([*said, *note]),
        iterations=loop.iteration,
        gradients=runner.counts.gradients,
        products=runner.counts.products,
        block_products=runner.counts.block_products,
        certificate=look.certificate,
        objective=-math.inf if status is Status.unbounded else value,
        solve_time=loop.seconds,
        setup_time=setup_time,
        history=loop.history(),
        method=bound.name,
        parameters=bound.parameters,
        spectrum=spectrum,
        engine=Engine(runner.engine, runner.reason),
        ray=loop.ray,
        errors=np.array(loop.errors),
    )


def explained(
    status: Status, reason: str, certificate: Certificate, asked: Request, spectrum: Spectrum | None, passes: int
) -> list[str]:
    """Why a solve ended, with what is left, and whether the spectrum that it was given may be the reason."""
    said = reason or SENTENCES[status]
    stalled = status is Status.interrupted and reason.startswith("Stopped by rounding")
    slow = status is Status.iteration_limit and passes >= ENOUGH_PASSES
    if spectrum is not None and (stalled or slow or status is Status.diverged):
        doubt = doubt_about(asked.problem.stacked.M, spectrum, asked.deadline)
        if doubt and stalled:
            said = f"Stopped because the error no longer falls; this is the best point seen. {doubt}"
        elif doubt and status is Status.diverged:
            said = f"The iterates ran away; this is the best point seen. {doubt}"
        elif doubt:
            said = f"{said} {doubt}"
    return [said, *what_is_left(status, certificate, asked.tolerances)]


def what_is_left(status: Status, certificate: Certificate, tolerances: tuple[float, float]) -> list[str]:
    """A sentence about the parts of the error of a point that is not good enough."""
    tol, tol_absolute = tolerances
    if status not in ENDED_EARLY or not max(tolerances) or not math.isfinite(certificate.error):
        return []
    c = certificate
    if tol:
        parts = {"stationarity": c.stationarity_error, "feasibility": c.feasibility_error, "gap": c.gap_error}
        if c.accuracy == SOLUTION:
            parts["complementarity"] = c.complementarity_error
    else:
        parts = {"dual residual": c.dual, "primal residual": c.primal, "gap": c.gap}
    known = {name: abs(part) for name, part in parts.items() if not math.isnan(part)}
    worst, *others = (f"{name} {known[name]:.1e}" for name in sorted(known, key=lambda name: -known[name]))
    return [f"What is left: {worst}, where {tol or tol_absolute:g} was asked for ({', '.join(others)})."]


def in_kind_of(problem: Problem, result: Result) -> Result:
    """The result with JAX arrays if M or b of the problem was one."""
    return in_jax(result) if problem.from_jax else result


def in_jax(result: Result) -> Result:
    """The result with JAX arrays."""
    with precision("jax"):
        import jax.numpy as jnp

        x, y, z = (jnp.asarray(part) for part in (result.x, result.y, result.z))
        ray = None if result.ray is None else jnp.asarray(result.ray)
    return replace(result, x=x, y=y, z=z, ray=ray)


def first_point(problem: Problem, start: dict[str, Any]) -> tuple[Array, Array]:
    """Where to start if nothing is given."""
    x, y = start["x0"], start["y0"]
    return problem.start() if x is None else x, np.zeros(problem.stacked.rows, problem.dtype) if y is None else y


TOO_EARLY = {
    Status.time_limit: "The time limit passed during the set-up, so this is the start.",
    Status.interrupted: "Interrupted during the set-up, so this is the start.",
}


def out_of_time(asked: Request, method: str, start: dict[str, Any], status: Status = Status.time_limit) -> Result:
    """The start, for want of time to do more, or after Ctrl-C."""
    problem = asked.problem
    x, dual = first_point(problem, start)
    with np.errstate(all="ignore"):
        x = problem.within_bounds(x, dual)
        certificate = certify(problem, x, dual, accuracy=asked.accuracy)
        value = objective(problem, x, dual, satisfied=False)
        y, z = completed(problem, x, dual)
    return Result(
        x=x,
        y=y,
        z=z,
        status=status,
        message=TOO_EARLY[status],
        iterations=0,
        gradients=0,
        products=0,
        block_products=0,
        certificate=certificate,
        objective=value,
        solve_time=0.0,
        setup_time=perf_counter() - asked.began,
        history=None,
        method=method,
        parameters=None,
        spectrum=None,
        engine=Engine("python", "the set-up ended before any engine could run"),
    )


def satisfied(certificate: Certificate, tol: float, tol_absolute: float) -> bool:
    """Whether what is left of the constraints' residuals is within a tolerance."""
    return 0 < certificate.feasibility_error <= tol or certificate.meets(tol, tol_absolute)
