"""How a batch runs on the device: change of variables, lock step, certificates of the given problems, and the rest."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from dapd.arguments import TimeUp
from dapd.arrays import Array, on_host, owned
from dapd.certificate.certify import NUMBERS, certificate_with, certify, completed, error_of, excess_of
from dapd.clock import is_over, perf_counter, seconds_left
from dapd.engines.protocol import Engine
from dapd.presolve import Presolve
from dapd.problem.problem import Problem
from dapd.solving.batch.alone import one_by_one
from dapd.solving.batch.family import Family, family_of_list
from dapd.solving.batch.lockstep import LOOK, Constants, Lockstep
from dapd.solving.batch.results import BatchResult, result_at
from dapd.solving.batch.stacked import (
    Certified,
    condensed_there,
    stacked_condensed,
    stacked_family,
    stacked_list,
    way_back,
)
from dapd.solving.result import Result
from dapd.solving.sentences import NO_TURN, SENTENCES
from dapd.solving.settings import Settings
from dapd.spectrum.deadline import check_deadline
from dapd.spectrum.estimate import estimate_norm
from dapd.ways.causes import Cause
from dapd.ways.first_order import TRANSFORMS

ROUNDS = 3  # of a lock step, with stricter tolerances for the problems whose own certificate is not good enough
STRICTER = 0.1
LONGEST_LOCK_STEP = 20_000  # iterations of a lock step, after which `solve` takes over what is left
GOOD_START = 1e-3  # relative error of a point from which it is a better start than zero
UNKNOWN = np.full(NUMBERS, math.inf)
COMPILING = 4.0  # seconds that it usually takes to compile what a new kind of batch needs
COMPILED: set[Any] = set()  # kinds of batches that have run in lock step
TOGETHER = "Chose restarted DAPD, in lock step with the other problems of the batch."
HURRIED = "The time limit is too short to compile a lock step, so the batch was solved one by one."


class LockStepPlan:
    """What runs in lock step; `back` takes all of its points to the given problems, and `certify` judges those."""

    def __init__(
        self,
        lockstep: Lockstep,
        back: Callable[[Array, Array], tuple[Array, Array]],
        certify: Callable[[Array, Array], Certified],
    ) -> None:
        self.lockstep, self.back, self.certify = lockstep, back, certify


def solve_on_device(batch: Family | list[Problem], settings: Settings, began: float) -> BatchResult:
    """Solve a batch on the device, and what is left by itself."""
    deadline = math.inf if settings.time_limit is None else began + settings.time_limit
    family = batch if isinstance(batch, Family) else family_of_list(batch)
    problem_of = batch.problem if isinstance(batch, Family) else batch.__getitem__
    count, first = len(batch), problem_of(0)
    kind, plan = _kind(family, first, count), None
    hurried = kind not in COMPILED and seconds_left(deadline) < COMPILING
    try:
        if not hurried:
            plan = None if family is None else _of_family(family)
            plan = plan or _of_list([problem_of(k) for k in range(count)], deadline)
    except TimeUp:
        plan = None
    setup_time = perf_counter() - began
    most = math.inf if settings.max_iterations is None else settings.max_iterations
    found = None
    if plan is not None and any(settings.tolerances) and most >= LOOK:
        found = _run(plan, settings, deadline, first.dtype)
        if found.end is not Cause.ctrl_c:
            COMPILED.add(kind)
    x, y, z, numbers, iterations, end = _parts(first, count, found)
    good = excess_of(numbers, *settings.tolerances, settings.accuracy) <= 1
    error, rest = error_of(numbers, settings.accuracy), np.flatnonzero(~good).tolist()
    own: dict[int, Result] = {}
    if rest and end is None:

        def start(k: int) -> tuple[Array, Array, Array] | None:
            return (x[k].copy(), y[k].copy(), z[k].copy()) if error[k] < GOOD_START else None

        steps = 0 if found is None else found.steps
        left = None if settings.max_iterations is None else settings.max_iterations - steps
        alone = replace(settings, engine="auto", max_iterations=left)
        results, end = one_by_one(problem_of, rest, alone, began, start)
        own = {k: _with_steps(one, steps) for k, one in zip(rest, results, strict=True) if one is not None}
        if hurried:
            own = {k: replace(one, message=f"{one.message} {HURRIED}") for k, one in own.items()}
    causes = [Cause.certificate if well else end or Cause.certificate for well in good]
    for k, one in own.items():
        x[k], y[k], z[k], causes[k], error[k] = one.x, one.y, one.z, one.cause, one.certificate.error
        iterations[k] = one.iterations
    solve_time = perf_counter() - began - setup_time

    def result(k: int) -> Result:
        if k in own:
            return own[k]
        said = [SENTENCES[causes[k]], TOGETHER] if found else [NO_TURN[causes[k]]]
        return result_at(
            problem_of(k),
            (x[k].copy(), y[k].copy(), z[k].copy()),
            causes[k],
            said,
            engine=Engine("jax"),
            tolerances=settings.tolerances,
            accuracy=settings.accuracy,
            iterations=int(iterations[k]),
            certificate=certificate_with(numbers[k], settings.accuracy) if found else None,
            solve_time=solve_time,
            setup_time=setup_time,
        )

    return BatchResult(
        x=x,
        y=y,
        z=z,
        status=[cause.status for cause in causes],
        error=error,
        iterations=iterations,
        solve_time=solve_time,
        setup_time=setup_time,
        result=result,
    )


class Together(NamedTuple):
    """What a lock step found for each problem."""

    x: Array
    dual: Array  # y, perhaps with multipliers of the bounds after it
    z: Array  # the multipliers of the bounds that stationarity asks for
    numbers: Array  # of the certificates
    iterations: Array  # until that point, or all of them if it is not good enough
    steps: int  # all of them
    end: Cause | None  # why no other way may be tried for those that are not good enough


def _kind(family: Family | None, first: Problem, count: int) -> tuple[Any, ...]:
    """What programs are compiled for: a batch of the same kind usually needs no others."""
    parts = (first.f, first.phi, first.M)
    stacked = [None if v is None else v.shape for v in (family.b, family.c, family.lower)] if family else []
    return (count, first.M.shape, first.dtype, first.lower is None, *map(type, parts), *stacked)


def _parts(
    first: Problem, count: int, found: Together | None
) -> tuple[Array, Array, Array, Array, Array, Cause | None]:
    """x, y, z, the numbers of certificates, iterations and the end of a lock step, or of none."""
    if found is None:
        x, y, z = np.zeros((count, first.columns)), np.zeros((count, first.rows)), np.zeros((count, first.columns))
        x = np.stack([first.within_bounds(x[0], y[0])] * count) if first.lower is not None else x
        numbers, iterations, end = np.tile(UNKNOWN, (count, 1)), np.zeros(count, int), None
    else:
        x, y, z, numbers, iterations, _, end = found
    x, y, z = owned(x), owned(y[:, : first.rows]), owned(z)
    x, y, z = (part.astype(first.dtype, copy=False) for part in (x, y, z))
    return x, y, z, numbers, iterations, end


def _with_steps(result: Result, steps: int) -> Result:
    """The result with what the lock step took before."""
    return replace(
        result,
        iterations=result.iterations + steps,
        gradients=result.gradients + steps,
        products=result.products + 2 * steps,
    )


def _run(plan: LockStepPlan, settings: Settings, deadline: float, dtype: Any) -> Together:
    """Lock steps until all certificates are good enough, or a limit is reached."""
    lockstep = plan.lockstep
    most = math.inf if settings.max_iterations is None else settings.max_iterations
    limit = int(min(LONGEST_LOCK_STEP, most))
    count = len(lockstep.known.L)
    tol = np.full(count, max(settings.tolerances))
    at, taken, steps, end = lockstep.origin(), np.zeros(count, int), 0, None
    for _ in range(ROUNDS):
        found, done = lockstep.run(at, tol, limit - steps, deadline)
        more = np.asarray(found.iterations)
        taken, steps = np.where(more > 0, steps + more, taken), steps + done
        # a point is measured in the precision in which it is returned
        x, dual = (part.astype(dtype) for part in plan.back(found.x, found.y))
        x, z, numbers = plan.certify(x, dual)
        good = excess_of(numbers, *settings.tolerances, settings.accuracy) <= 1
        if lockstep.interrupted:
            end = Cause.ctrl_c
        elif is_over(deadline):
            end = Cause.deadline
        elif steps + LOOK > most:
            end = Cause.limit
        if good.all() or end is not None or steps + LOOK > limit:
            break
        at = found.x, found.y
        tol = np.where(good, np.inf, STRICTER * np.minimum(tol, np.asarray(found.error)))
    return Together(x, dual, z, numbers, np.where(good, taken, steps), steps, end)


def _of_family(family: Family) -> LockStepPlan | None:
    """By the change of variables that all problems share."""
    form, given = condensed_there(family), stacked_family(family)
    if form is None or given is None:
        return None
    one = np.ones(len(family))
    known = Constants(L=one, mu=one, s_max=form.s_max * one, s_min=0 * one)
    return LockStepPlan(stacked_condensed(form).lockstep(known), way_back(form), given.certify)


def _of_list(problems: list[Problem], deadline: float) -> LockStepPlan | None:
    """By a presolve of each problem; None if that leaves problems of different structures."""
    stacked = [problem.stacked for problem in problems]
    if not stacked[0].f.L:  # a lock step takes the parameters of theorems
        return None
    transforms: list[Presolve] = []
    for problem in stacked:
        check_deadline(deadline)
        again = transforms[-1].again(problem) if transforms else None
        transforms.append(again or Presolve.apply(problem, TRANSFORMS, deadline))
    simple = [transform.problem for transform in transforms]
    together = stacked_list(simple, deadline)
    if together is None or any(not problem.f.L for problem in simple):
        return None
    spectra = [problem.spectrum or estimate_norm(problem.M, deadline=deadline) for problem in simple]
    known = Constants(
        L=np.array([problem.f.L for problem in simple], float),
        mu=np.array([problem.f.mu for problem in simple]),
        s_max=np.array([spectrum.s_max or 1.0 for spectrum in spectra]),
        s_min=np.array([spectrum.s_min for spectrum in spectra]),
    )

    def back(x: Array, y: Array) -> tuple[Array, Array]:
        given = zip(transforms, on_host(x), on_host(y), strict=True)
        points = [transform.back(*point) for transform, *point in given]
        return np.stack([p for p, _ in points]), np.stack([q for _, q in points])

    def judge(x: Array, y: Array) -> Certified:
        with np.errstate(all="ignore"):
            x = np.stack([p.within_bounds(u, v) for p, u, v in zip(problems, x, y, strict=True)])
            points = list(zip(problems, x, y, strict=True))
            z = np.stack([completed(*point)[1] for point in points])
            return Certified(x, z, np.array([certify(*point)[:NUMBERS] for point in points]))

    return LockStepPlan(together.lockstep(known), back, judge)
