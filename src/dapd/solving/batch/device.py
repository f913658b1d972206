"""How a batch runs on the device: change of variables, lock step, certificates of the given problems, and the rest."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from dapd.arguments import TimeUp
from dapd.arrays import Array, on_host, owned
from dapd.certificate.certify import Certificate, certify, completed, error_of, excess_of
from dapd.engines.jax.batch.known import LOOK, Constants
from dapd.engines.jax.batch.lockstep import Lockstep
from dapd.engines.jax.batch.problem_tree import Certified, compiled_there, computed_there, stacked_list
from dapd.engines.protocol import Engine
from dapd.machine.clock import is_over, perf_counter, seconds_left
from dapd.machine.rates import COMPILATION
from dapd.methods.r2hpdhg import usual_weight
from dapd.presolve import STACKING, Presolve
from dapd.problem.problem import Problem
from dapd.solving.answer import NO_TURN, SENTENCES
from dapd.solving.batch.alone import one_by_one
from dapd.solving.batch.condensed import Change, condensed
from dapd.solving.batch.family import Batch, Family, as_family
from dapd.solving.batch.problem_stacks import stacked_condensed, stacked_family
from dapd.solving.batch.results import BatchResult, result_at
from dapd.solving.result import Result
from dapd.solving.settings import Settings
from dapd.spectrum.deadline import check_deadline
from dapd.spectrum.estimate import estimate_norm
from dapd.ways.causes import Cause
from dapd.ways.first_order import TRANSFORMS

ROUNDS = 3  # lock steps, each with stricter tolerances for the problems whose own certificate is not good enough
STRICTER = 0.1  # factor by which these tolerances are lowered
LONGEST_LOCK_STEP = 20_000  # iterations of all lock steps, after which `solve` takes over what is left
GOOD_START = 1e-3  # relative error below which a point is a better start than zero
COMPILED: set[Any] = set()  # kinds of batches that have run in lock step
TOGETHER = "Chose restarted first-order steps, in lock step with the other problems of the batch."
HURRIED = "The time limit is too short to compile a lock step, so the batch was solved one by one."


class LockStepPlan:
    """What runs in lock step; `back` takes all of its points to the given problems, and `certify` judges those."""

    def __init__(
        self,
        lockstep: Lockstep,
        back: Callable[[Array, Array], tuple[Array, Array]],
        certify: Callable[[Array, Array, str], Certified],
    ) -> None:
        self.lockstep, self.back, self.certify = lockstep, back, certify


def solve_on_device(batch: Batch, settings: Settings, began: float) -> BatchResult:
    """Solve a batch on the device, and what is left by itself."""
    deadline = math.inf if settings.time_limit is None else began + settings.time_limit
    family, count, first = as_family(batch), len(batch), batch[0]
    kind = _kind(family, first, count)
    hurried = kind not in COMPILED and seconds_left(deadline) < COMPILATION.batch
    plan = None if hurried else _plan(batch, family, deadline)
    setup_time = perf_counter() - began
    if plan is None or not any(settings.tolerances) or _most(settings) < LOOK:
        found = _nothing(first, count, settings.accuracy)
    else:
        found = _run(plan, settings, deadline, first)
        if found.end is not Cause.ctrl_c:
            COMPILED.add(kind)
    good = excess_of(found.certificate, *settings.tolerances) <= 1
    rest, own, end = np.flatnonzero(~good).tolist(), dict[int, Result](), found.end
    if rest and end is None:
        own, end = _alone(batch, rest, found, settings, began, HURRIED if hurried else "")
    causes = [Cause.certificate if well else end or Cause.certificate for well in good]
    error = error_of(found.certificate)
    for k, one in own.items():
        found.x[k], found.y[k], found.z[k], causes[k], error[k] = one.x, one.y, one.z, one.cause, one.certificate.error
        found.iterations[k] = one.iterations
    solve_time = perf_counter() - began - setup_time

    def result(k: int) -> Result:
        return own.get(k) or _result(batch[k], found, k, causes[k], settings.tolerances, (solve_time, setup_time))

    return BatchResult(
        x=found.x,
        y=found.y,
        z=found.z,
        status=[cause.status for cause in causes],
        error=error,
        iterations=found.iterations,
        solve_time=solve_time,
        setup_time=setup_time,
        result=result,
    )


class Together(NamedTuple):
    """What a lock step found for each problem; arrays with a row per problem, which may be written to."""

    x: Array
    y: Array
    z: Array  # the multipliers of the bounds that stationarity asks for
    certificate: Certificate  # of all of them
    iterations: Array  # until that point, or all of them if it is not good enough
    steps: int  # all of them
    ran: bool  # whether there was a lock step
    end: Cause | None  # why problems that are left are not solved one by one; None if they are


def _kind(family: Family | None, first: Problem, count: int) -> tuple[Any, ...]:
    """What programs are compiled for: a batch of the same kind usually needs no others."""
    kinds = map(type, (first.f, first.phi, first.M))
    stacked = [] if family is None else [v is not None for v in (family.b, family.c, family.bounds)]
    return (count, first.M.shape, first.dtype, first.lower is None, *kinds, *stacked)


def _plan(batch: Batch, family: Family | None, deadline: float) -> LockStepPlan | None:
    """How to run the batch in lock step; None if that is not possible, or not in time."""
    try:
        plan = None if family is None else _of_family(family)
        return plan or _of_list([batch[k] for k in range(len(batch))], deadline)
    except TimeUp:
        return None


def _most(settings: Settings) -> float:
    return math.inf if settings.max_iterations is None else settings.max_iterations


def _nothing(first: Problem, count: int, accuracy: str) -> Together:
    """No point is known yet: zero, or what is nearest to it between the bounds."""
    x, y, z = (np.zeros((count, size), first.dtype) for size in (first.columns, first.rows, first.columns))
    x[:] = first.within_bounds(x[0], y[0])
    return Together(x, y, z, Certificate.unknown(count, accuracy), np.zeros(count, int), 0, ran=False, end=None)


def _alone(
    batch: Batch,
    rest: list[int],
    found: Together,
    settings: Settings,
    began: float,
    why: str,
) -> tuple[dict[int, Result], Cause]:
    """What `solve` makes of the problems that are left, and why others had no turn."""
    error = error_of(found.certificate)

    def start(k: int) -> tuple[Array, Array, Array] | None:
        return (found.x[k].copy(), found.y[k].copy(), found.z[k].copy()) if error[k] < GOOD_START else None

    left = None if settings.max_iterations is None else settings.max_iterations - found.steps
    alone = replace(settings, engine="auto", max_iterations=left)
    results, end = one_by_one(batch, rest, alone, began, start)
    own = {k: _continued(one, found.steps, why) for k, one in zip(rest, results, strict=True) if one is not None}
    return own, end


def _continued(result: Result, steps: int, why: str) -> Result:
    """The result with what the lock step took before, or why there was none."""
    return replace(
        result,
        iterations=result.iterations + steps,
        gradients=result.gradients + steps,
        products=result.products + 2 * steps,
        message=f"{result.message} {why}" if why else result.message,
    )


def _result(
    problem: Problem,
    found: Together,
    k: int,
    cause: Cause,
    tolerances: tuple[float, float],
    times: tuple[float, float],
) -> Result:
    """The result of problem k, which was not solved by itself."""
    return result_at(
        problem,
        (found.x[k].copy(), found.y[k].copy(), found.z[k].copy()),
        cause,
        [SENTENCES[cause], TOGETHER] if found.ran else [NO_TURN[cause]],
        engine=Engine("jax"),
        tolerances=tolerances,
        accuracy=found.certificate.accuracy,
        iterations=int(found.iterations[k]),
        certificate=found.certificate.at(k) if found.ran else None,
        solve_time=times[0],
        setup_time=times[1],
    )


def _run(plan: LockStepPlan, settings: Settings, deadline: float, first: Problem) -> Together:
    """Lock steps until all certificates are good enough, or a limit is reached."""
    lockstep, most = plan.lockstep, _most(settings)
    limit = int(min(LONGEST_LOCK_STEP, most))
    count = len(lockstep)
    tol = np.full(count, max(settings.tolerances))
    at, taken, steps, end = lockstep.origin(), np.zeros(count, int), 0, None
    for _ in range(ROUNDS):
        found, done = lockstep.run(at, tol, limit - steps, deadline)
        more = np.asarray(found.iterations)
        taken, steps = np.where(more > 0, steps + more, taken), steps + done
        # a point is measured in the precision in which it is returned
        x, dual = (part.astype(first.dtype) for part in plan.back(found.x, found.y))
        x, z, certificate = plan.certify(x, dual, settings.accuracy)
        good = excess_of(certificate, *settings.tolerances) <= 1
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
    x, y, z = (owned(v).astype(first.dtype, copy=False) for v in (x, dual[:, : first.rows], z))
    return Together(x, y, z, certificate, np.where(good, taken, steps), steps, ran=True, end=end)


def _of_family(family: Family) -> LockStepPlan | None:
    """By the change of variables that all problems share."""
    form, given = computed_there(condensed, family), stacked_family(family)
    if form is None or given is None:
        return None
    one = np.ones(len(family))
    s_max, change = form.basis.s_max, form.basis.change
    known = Constants(L=one, mu=one, s_max=s_max * one, s_min=0 * one, weight=one / s_max)

    def back(v: Array, y: Array) -> Any:
        return compiled_there(Change.back, change, form.at, form.c, v, y)

    return LockStepPlan(stacked_condensed(form).lockstep(known), back, given.certify)


def _lacks_constants(problem: Problem) -> bool:
    """Whether part of f must be linearised and its L is not known: guesses take the parameters of theorems."""
    return problem.proximable.rest is not None and not problem.f.L


def _of_list(problems: list[Problem], deadline: float) -> LockStepPlan | None:
    """By a presolve of each problem; None if that leaves problems of different structures."""
    if _lacks_constants(problems[0]):
        return None
    transforms: list[Presolve] = []
    for problem in problems:
        check_deadline(deadline)
        again = transforms[-1].again(problem) if transforms else None
        transforms.append(again or Presolve.apply(problem, (*TRANSFORMS, *STACKING), deadline))
    simple = [transform.problem for transform in transforms]
    together = stacked_list(simple, deadline)
    if together is None or any(map(_lacks_constants, simple)):
        return None
    spectra = [problem.spectrum or estimate_norm(problem.M, deadline=deadline) for problem in simple]
    known = Constants(
        L=np.array([problem.f.L or 0.0 for problem in simple], float),
        mu=np.array([problem.f.mu for problem in simple]),
        s_max=np.array([spectrum.s_max or 1.0 for spectrum in spectra]),
        s_min=np.array([spectrum.s_min for spectrum in spectra]),
        weight=np.array([usual_weight(problem) for problem in simple]),
    )

    def back(x: Array, y: Array) -> tuple[Array, Array]:
        given = zip(transforms, on_host(x), on_host(y), strict=True)
        points = [transform.back(*point) for transform, *point in given]
        return np.stack([p for p, _ in points]), np.stack([q for _, q in points])

    def judge(x: Array, y: Array, accuracy: str) -> Certified:
        with np.errstate(all="ignore"):
            x = np.stack([p.within_bounds(u, v) for p, u, v in zip(problems, x, y, strict=True)])
            points = list(zip(problems, x, y, strict=True))
            z = np.stack([completed(*point)[1] for point in points])
            each = zip(*(certify(*point, with_distance=False).numbers for point in points), strict=True)
            return Certified(x, z, Certificate.of_numbers(map(np.array, each), accuracy))

    return LockStepPlan(together.lockstep(known), back, judge)
