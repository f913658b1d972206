"""The problems of a batch one by one, in several threads."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from dapd.arrays import Array
from dapd.certificate.certify import certify
from dapd.engines.native.threads import available
from dapd.engines.protocol import Engine
from dapd.machine.blas import SMALL, single_blas
from dapd.machine.clock import Cancellation, is_over, perf_counter, under
from dapd.problem.problem import Problem
from dapd.solving.answer import NO_TURN, SENTENCES, Spent, answer
from dapd.solving.batch.condensed import Condensed
from dapd.solving.batch.family import Batch
from dapd.solving.batch.results import BatchResult, result_at
from dapd.solving.result import Result
from dapd.solving.settings import Settings
from dapd.solving.solve import Solve
from dapd.ways.causes import Cause
from dapd.ways.kept import Kept
from dapd.ways.search import Info

CHANGED = "Chose restarted first-order steps in variables without equations that all problems of the batch share."
SolveSome = Callable[[Sequence[int]], "list[Result | None]"]
NATIVE = 0.05  # seconds from which a solve is mostly native code
ROUND, PAYS = 4, 1.2  # problems per thread before more threads are tried, and ratio of speeds from which these stay
CLOSER = (0.3, 0.03, 0.003)  # parts of the tolerance to which a problem in other variables is solved, one by one


class OneByOne(NamedTuple):
    """What became of some problems."""

    results: list[Result | None]  # None: it was not its turn before the end
    end: Cause  # why some problems had no turn


def one_by_one(
    batch: Batch,
    which: Sequence[int],
    settings: Settings,
    began: float,
    starts: Callable[[int], tuple[Array, Array, Array] | None] | None = None,
    form: Condensed | None = None,
) -> OneByOne:
    """Solve some problems with at most a thread for each core; threads keep what the next problem can use.

    With `form`, each is first solved in the variables that all of them share.
    """
    cancellation = Cancellation()
    deadline = math.inf if settings.time_limit is None else began + settings.time_limit

    def worker() -> SolveSome:
        # what a lock step could not solve has little in common
        kept = Kept() if starts is None else None
        shared = None if form is None else _Shared(form)

        def solve_some(some: Sequence[int]) -> list[Result | None]:
            with under(cancellation):
                return [None if is_over(deadline) else solve_one(at) for at in some]

        def solve_one(at: int) -> Result:
            try:
                result = attempt(at)
            except KeyboardInterrupt:  # during the set-up of a solve in the main thread
                cancellation.asked = True
                result = attempt(at)
            cancellation.asked |= result.cause is Cause.ctrl_c
            return result

        def attempt(at: int) -> Result:
            start, z0, own = None if starts is None else starts(at), None, settings
            if start is not None:
                x0, y0, z0 = start
                own = replace(own, x0=x0, y0=y0)
            problem, result = batch[at], None
            if shared is not None and any(settings.tolerances):
                result = shared.solve(problem, at, own, deadline)
            return result or Solve(problem, _until(deadline, own), perf_counter(), z0=z0, kept=kept).run()

        return solve_some

    threads = min(available(), len(which))
    results = worker()(which) if threads <= 1 else _in_threads(worker, which, threads, cancellation)
    return OneByOne(results, Cause.ctrl_c if cancellation.asked else Cause.deadline)


def _until(deadline: float, settings: Settings) -> Settings:
    """The settings with the time that is left."""
    return settings if math.isinf(deadline) else replace(settings, time_limit=max(deadline - perf_counter(), 1e-9))


def _is_done(futures: Collection[Future[Any]], cancellation: Cancellation, timeout: float | None = None) -> bool:
    """Wait for them, after Ctrl-C until they have noticed; return whether all are done."""
    try:
        return not wait(futures, timeout).not_done
    except KeyboardInterrupt:
        cancellation.asked = True
        return not wait(futures).not_done


def _in_threads(
    worker: Callable[[], SolveSome], which: Sequence[int], most: int, cancellation: Cancellation
) -> list[Result | None]:
    """The results of all; one more doubling of the threads for as long as it pays.

    What a solve does in Python holds up the solves of other threads. Problems that take long are mostly native code,
    so all threads start if the first problem takes long.
    """
    workers, results = [worker()], list[Result | None]()
    with single_blas(SMALL), ThreadPoolExecutor(most) as pool:  # threads of BLAS would wait for each other

        def round_of(threads: int, some: Sequence[int]) -> float:
            """Solve some problems; return how many per second."""
            workers.extend(worker() for _ in range(threads - len(workers)))
            began, found = perf_counter(), list[Any]([None] * len(some))
            parts = [pool.submit(workers[k], some[k::threads]) for k in range(threads)]
            _is_done(parts, cancellation)
            for k, part in enumerate(parts):
                found[k::threads] = part.result()
            results.extend(found)
            return len(some) / (perf_counter() - began)

        first = pool.submit(workers[0], which[:1])
        if not _is_done([first], cancellation, timeout=NATIVE):
            workers[0] = worker()  # the first one is busy
            round_of(most, which[1:])
            return first.result() + results
        results.extend(first.result())
        threads, best = 1, round_of(1, which[1 : 1 + ROUND])
        while len(results) < len(which) and threads < most:
            more = min(2 * threads, most)
            rate = round_of(more, which[len(results) : len(results) + ROUND * more])
            if rate < PAYS * best:
                break
            threads, best = more, rate
        round_of(threads, which[len(results) :])
    return results


class _Shared:
    """A family in its new variables, for one thread."""

    def __init__(self, form: Condensed) -> None:
        self.form, self.kept, self.first = form, Kept(), form.first

    def solve(self, problem: Problem, k: int, settings: Settings, deadline: float) -> Result | None:
        """Problem k; None if its certificate is not good enough for the given problem."""
        form = self.form
        phi = None
        if form.lower.ndim == 2:
            phi = replace(form.basis.rows, lower=form.lower[k], upper=form.upper[k]).phi()
        simple = self.first.replaced(b=form.b[k], phi=phi)
        here = form._replace(at=form.at[k : k + 1], c=form.c if form.c.ndim == 1 else form.c[k : k + 1])
        x0, y0, iterations = None, None, 0
        for part in CLOSER:
            own = replace(settings, tol=part * max(settings.tolerances), tol_absolute=None, spectrum=None, x0=x0, y0=y0)
            found = Solve(simple, _until(deadline, own), perf_counter(), kept=self.kept).run()
            iterations += found.iterations
            x, dual = (v[0].astype(problem.dtype) for v in here.back(found.x[None], found.y[None]))
            x = problem.within_bounds(x, dual)
            with np.errstate(all="ignore"):
                certificate = certify(problem, x, dual, accuracy=settings.accuracy)
            if certificate.meets(*settings.tolerances) or not found.converged:
                break
            x0, y0 = found.x, found.y
        if not certificate.meets(*settings.tolerances):
            return None
        return answer(
            problem,
            Info(iterations, found.solve_time, x, dual, certificate),
            Cause.certificate,
            [SENTENCES[Cause.certificate], CHANGED],
            method=found.method,
            engine=found.engine,
            tolerances=settings.tolerances,
            spent=Spent(iterations, found.gradients, found.products),
            solve_time=found.solve_time,
            setup_time=found.setup_time,
            errors=found.errors,
            spectrum=problem.spectrum,
        )


def batch_result(batch: Batch, solved: OneByOne, setup_time: float, solve_time: float) -> BatchResult:
    """One result of many."""
    first, results = batch[0], solved.results
    zero = np.zeros(first.columns, first.dtype), np.zeros(first.rows, first.dtype), np.zeros(first.columns, first.dtype)

    def result(k: int) -> Result:
        found = results[k]
        if found is None:
            x, y, z = (part.copy() for part in zero)
            engine = Engine("python", "nothing had to be run yet")
            found = result_at(batch[k], (x, y, z), solved.end, [NO_TURN[solved.end]], engine=engine)
        return found

    return BatchResult(
        x=np.stack([zero[0] if one is None else one.x for one in results]),
        y=np.stack([zero[1] if one is None else one.y for one in results]),
        z=np.stack([zero[2] if one is None else one.z for one in results]),
        status=[solved.end.status if one is None else one.status for one in results],
        error=np.array([math.inf if one is None else one.certificate.error for one in results]),
        iterations=np.array([0 if one is None else one.iterations for one in results]),
        solve_time=solve_time,
        setup_time=setup_time,
        result=result,
    )
