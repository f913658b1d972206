"""The problems of a batch one by one, in several threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from time import perf_counter
from typing import Any

import numpy as np

from dapd.arrays import Array
from dapd.batch.condensed import Condensed
from dapd.batch.result import BatchResult
from dapd.blas import SMALL, single_blas
from dapd.engines.threads import available
from dapd.model.problem import Problem
from dapd.model.smooth import Quadratic
from dapd.solving.certificate import certify, objective
from dapd.solving.request import satisfied, split_dual
from dapd.solving.result import SENTENCES, Result, Status
from dapd.solving.settings import Settings
from dapd.solving.solve import solve_checked
from dapd.spectrum.estimate import Spectrum

CHANGED = "Chose restarted DAPD in variables without equations that all problems of the batch share."
NATIVE = 0.05  # seconds from which a solve is mostly native code
ROUND, PAYS = 4, 1.2  # problems per thread before more threads are tried, and how much faster these must be
CLOSER = (0.3, 0.03, 0.003)  # parts of the tolerance to which a problem in other variables is solved, one by one


def one_by_one(
    problem_of: Callable[[int], Problem],
    which: Sequence[int],
    settings: Settings,
    began: float,
    starts: Callable[[int], tuple[Array, Array, Array] | None] | None = None,
    form: Condensed | None = None,
) -> list[Result]:
    """Solve some problems with at most a thread for each core; threads keep what the next problem can use.

    With `form`, each is first solved in the variables that all of them share.
    """

    def worker() -> Callable[[Sequence[int]], list[Result]]:
        kept: dict[str, Any] = {}
        shared = None if form is None else _Shared(form)

        def solve_some(some: Sequence[int]) -> list[Result]:
            found = []
            for at in some:
                left = None if settings.time_limit is None else began + settings.time_limit - perf_counter()
                own, z0 = settings._replace(time_limit=None if left is None else max(left, 1e-9)), None
                start = None if starts is None else starts(at)
                if start is not None:
                    x0, y0, z0 = start
                    own = own._replace(x0=x0, y0=y0)
                problem, result = problem_of(at), None
                if shared is not None and any(settings.tolerances):
                    result = shared.solve(problem, at, own)
                # what a lock step could not solve has little in common
                again = kept if starts is None else None
                found.append(result or solve_checked(problem, own, perf_counter(), z0=z0, kept=again))
            return found

        return solve_some

    threads = min(available(), len(which))
    return worker()(which) if threads <= 1 else _in_threads(worker, which, threads)


def _in_threads(
    worker: Callable[[], Callable[[Sequence[int]], list[Result]]], which: Sequence[int], most: int
) -> list[Result]:
    """The results of all; one more doubling of the threads for as long as it pays.

    What a solve does in Python holds up the solves of other threads. Problems that take long are mostly native code,
    so all threads start if the first problem takes long.
    """
    workers, results = [worker()], list[Result]()
    with single_blas(SMALL), ThreadPoolExecutor(most) as pool:  # threads of BLAS would wait for each other

        def round_of(threads: int, some: Sequence[int]) -> float:
            """Solve some problems; return how many per second."""
            workers.extend(worker() for _ in range(threads - len(workers)))
            began, found = perf_counter(), list[Any]([None] * len(some))
            parts = [some[k::threads] for k in range(threads)]
            for k, own in enumerate(pool.map(lambda solve, part: solve(part), workers, parts)):
                found[k::threads] = own
            results.extend(found)
            return len(some) / (perf_counter() - began)

        first = pool.submit(workers[0], which[:1])
        if not wait([first], timeout=NATIVE).done:
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
        f = Quadratic(np.ones(form.M.shape[1]))
        spectrum = Spectrum(form.s_max, 0.0)
        self.form, self.kept = form, dict[str, Any]()
        self.first = Problem(f, form.M, form.b[0], form.rows.phi(), spectrum=spectrum)

    def solve(self, problem: Problem, k: int, settings: Settings) -> Result | None:
        """Problem k; None if its certificate is not good enough for the given problem."""
        form = self.form
        phi = None
        if form.lower.ndim == 2:
            phi = replace(form.rows, lower=form.lower[k], upper=form.upper[k]).phi()
        simple = self.first.replaced(b=form.b[k], phi=phi)
        here = form._replace(at=form.at[k : k + 1], c=form.c if form.c.ndim == 1 else form.c[k : k + 1])
        x0, y0, iterations = None, None, 0
        for part in CLOSER:
            tolerances = part * max(settings.tolerances), 0.0
            own = settings._replace(tolerances=tolerances, spectrum=None, x0=x0, y0=y0)
            found = solve_checked(simple, own, perf_counter(), kept=self.kept)
            iterations += found.iterations
            x, dual = (v[0].astype(problem.dtype) for v in here.back(found.x[None], found.y[None]))
            with np.errstate(all="ignore"):
                certificate = certify(problem.stacked, x, dual)
            if certificate.meets(*settings.tolerances) or not found.converged:
                break
            x0, y0 = found.x, found.y
        if not certificate.meets(*settings.tolerances):
            return None
        with np.errstate(all="ignore"):
            value = objective(problem.stacked, x, dual, satisfied=satisfied(certificate, *settings.tolerances))
        y, z = split_dual(problem, dual)
        return replace(
            found,
            x=x,
            y=y,
            z=z,
            status=Status.optimal,
            iterations=iterations,
            certificate=certificate,
            objective=value,
            message=f"{SENTENCES[Status.optimal]} {CHANGED}",
            spectrum=problem.spectrum,
            ray=None,
        )


def batch_result(results: list[Result], solve_time: float, setup_time: float) -> BatchResult:
    """One result of many."""
    return BatchResult(
        x=np.stack([result.x for result in results]),
        y=np.stack([result.y for result in results]),
        z=np.stack([result.z for result in results]),
        status=[result.status for result in results],
        error=np.array([result.certificate.error for result in results]),
        iterations=np.array([result.iterations for result in results]),
        solve_time=solve_time,
        setup_time=setup_time,
        result=results.__getitem__,
    )
