"""The one loop: chunks of steps, looks at the certificate, limits, interrupt, progress, history."""

from __future__ import annotations

import math
from collections.abc import Callable
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from dapd.arguments import named, near_miss, number, whole
from dapd.arrays import Array
from dapd.certificate import Certificate, certify, proves_infeasible
from dapd.choose import choose
from dapd.methods import METHODS, Method
from dapd.methods.block import BlockMethod
from dapd.problem import Problem
from dapd.progress import Display, display
from dapd.result import SENTENCES, History, Result, Status
from dapd.spectrum import Spectrum

LIMIT = 1_000_000  # passes over M allowed where no limit is given
GLANCE = 10  # passes over M before the first look; later looks come every twentieth of the way
PULSE = 0.05  # seconds of steps between two looks at the clock
RUNAWAY = 1e10  # growth of the error that counts as divergence


class Info(NamedTuple):
    """What a callback is told."""

    iteration: int
    time: float
    x: Array
    y: Array
    certificate: Certificate


class Look(NamedTuple):
    """A point of the run with its certificate."""

    iteration: int
    time: float
    x: Array
    y: Array
    certificate: Certificate


@named
def solve(
    problem: Problem,
    method: str = "auto",
    *,
    tol: float = 1e-6,
    max_iterations: int | None = None,
    time_limit: float | None = None,
    x0: Any = None,
    y0: Any = None,
    spectrum: Spectrum | None = None,
    parameters: Any = None,
    engine: str = "numpy",
    seed: int | None = None,
    shared_sample: bool = False,
    callback: Callable[[Info], object] | None = None,
    progress: bool = False,
    history: bool = False,
) -> Result:
    """Solve a problem; no step size to choose.

    Parameters
    ----------
    problem : Problem
    method : str
        A name of `dapd.METHODS`, or "auto": the side, x-DAPD or y-DAPD, that the theorems favour, or its
        block-coordinate form where the problem has blocks and measured costs say that it will be faster.
    tol : float
        Stop when stationarity ≤ tol·(1 + max(‖∇f(x)‖, ‖Mᵀy‖)) and feasibility ≤ tol·(1 + max(‖Mx‖, ‖b‖)).
        0 means: run to a limit.
    max_iterations : int, optional
        Pairs of products with M and Mᵀ (CAPD: inner iterations); block iterations for a block-coordinate method that
        is named, rounds of N of them for one that "auto" chose. A million (rounds) where left out.
    time_limit : float, optional
        Seconds of solve time, set-up not included.
    x0, y0 : vector, optional
        Where to start; zero where left out.
    spectrum : Spectrum, optional
        Bounds on the singular values of M; where left out, the problem's own if it knows them, else estimated.
    parameters : record of `dapd.theory`, optional
        The method's parameters outright, instead of those of its theorem.
    engine : str
        "numpy".
    seed : int, optional
        For the block-coordinate methods, whose draws depend on it alone; fresh, and told in the message, where left
        out. The deterministic methods have no use for it.
    shared_sample : bool
        For the block-coordinate methods: one block an iteration for both steps (j = i), instead of two.
    callback : function, optional
        Called with an `Info` at each look; a true answer stops the solve.
    progress : bool
        Show a bar on a terminal, a log table elsewhere.
    history : bool
        Record residuals (and the error where x* is known) at log-spaced iterations, off the clock.
    """
    if not isinstance(problem, Problem):
        raise TypeError(f"problem must be a dapd.Problem, found {type(problem).__name__}")
    tol = number("tol", tol, least=0.0)
    if max_iterations is not None:
        max_iterations = whole("max_iterations", max_iterations, least=0)
    if time_limit is not None:
        time_limit = number("time_limit", time_limit, above=0.0)
    if engine != "numpy":
        raise ValueError(f"engine must be 'numpy', found {engine!r}")
    if seed is not None:
        whole("seed", seed, least=0)
    if spectrum is not None and not isinstance(spectrum, Spectrum):
        raise TypeError(f"spectrum must be a dapd.Spectrum, found {type(spectrum).__name__}")
    if callback is not None and not callable(callback):
        raise TypeError(f"callback must be callable, found {type(callback).__name__}")

    began = perf_counter()
    options = {"seed": seed, "shared_sample": bool(shared_sample)}
    bound, spectrum, note = _bind(problem, method, spectrum, parameters, {"x0": x0, "y0": y0}, options)
    # who names no limit, or no method, can't mean block iterations
    a_pass = bound.round if max_iterations is None or method == "auto" else 1
    limit = a_pass * (LIMIT if max_iterations is None else max_iterations)
    if isinstance(bound, BlockMethod) and seed is None:
        note = [*note, f"Blocks were drawn with seed={bound.seed}."]
    setup_time = perf_counter() - began
    loop = _Loop(bound, tol, limit, time_limit, callback, history)
    with (
        display(progress, bound.title, tol, limit) as shown,
        np.errstate(over="ignore", invalid="ignore"),
    ):
        status, look = loop.run(shown)
    return Result(
        x=look.x,
        y=look.y,
        status=status,
        message=" ".join([loop.reason or SENTENCES[status], *note]),
        iterations=loop.iteration,
        gradients=bound.oracle.gradients,
        products=bound.oracle.products,
        block_products=bound.oracle.block_products,
        certificate=look.certificate,
        solve_time=loop.seconds,
        setup_time=setup_time,
        history=loop.history(),
        method=bound.name,
        parameters=bound.parameters,
        spectrum=spectrum,
    )


def _bind(
    problem: Problem,
    name: str,
    spectrum: Spectrum | None,
    parameters: Any,
    start: dict[str, Any],
    options: dict[str, Any],
) -> tuple[Method, Spectrum | None, list[str]]:
    """Choose the method and its parameters; return with them what there is to say about the choice."""
    if name != "auto" and name not in METHODS:
        raise ValueError(f"unknown method {name!r}{near_miss(str(name), ['auto', *METHODS])}")
    if name != "auto" and not issubclass(METHODS[name], BlockMethod):
        if options["shared_sample"]:
            able = ", ".join(key for key, method in METHODS.items() if issubclass(method, BlockMethod))
            raise ValueError(f"shared_sample is for the block-coordinate methods ({able}), not for {name!r}")
        options = {}
    if parameters is not None:
        if name == "auto":
            raise ValueError("parameters belong to one method; name it with method=")
        return METHODS[name](problem, parameters, **start, **options), spectrum, []
    if name == "auto":
        return choose(problem, spectrum, start, options)
    METHODS[name].check(problem)
    spectrum = METHODS[name].spectrum_of(problem, spectrum)
    return METHODS[name].from_theory(problem, spectrum=spectrum, **start, **options), spectrum, []


class _Loop:
    """The state of one solve."""

    def __init__(
        self,
        method: Method,
        tol: float,
        limit: int,
        time_limit: float | None,
        callback: Callable[[Info], object] | None,
        history: bool,
    ) -> None:
        self.method, self.tol, self.limit = method, tol, limit
        self.time_limit = math.inf if time_limit is None else time_limit
        self.callback = callback
        self.iteration = 0
        self.seconds = 0.0
        self.reason = ""  # said instead of the status's own sentence
        self.looks: list[tuple[int, float, Certificate, float]] | None = [] if history else None

    def run(self, shown: Display) -> tuple[Status, Look]:
        """Step and look until something says stop."""
        first: Look | None = None
        best: Look | None = None
        look: Look | None = None
        pace = 1.0  # steps a pulse
        try:
            with _Watch(self):
                state = self.method.init()
            while True:
                before, look = look, self._look(state)
                first = first or look
                if best is None or look.certificate.error < best.certificate.error:
                    best = look
                shown.show(self.iteration, self.seconds, look.certificate, self._remaining(before, look))
                status = self._judge(first, before, look)
                if status is not None:
                    worse = status in (Status.interrupted, Status.diverged)
                    return status, best if worse else look
                steps = self._stride(before, look)
                while steps and self.seconds < self.time_limit:
                    chunk = min(steps, max(1, int(pace)))
                    with _Watch(self) as watch:
                        state = self.method.run(state, chunk)
                    self.iteration += chunk * self.method.iterations_per_step
                    steps -= chunk
                    pace = min(2 * pace, chunk * PULSE / max(watch.elapsed, 1e-9))
        except KeyboardInterrupt:
            if best is None:  # not even one point to give back
                raise
            return Status.interrupted, best

    def _look(self, state: Any) -> Look:
        """Certify the point of a state; off the clock when it is recorded in a history."""
        began = perf_counter()
        x, y = self.method.point(state)
        certificate = certify(self.method.problem, x, y)
        if self.looks is None:
            self.seconds += perf_counter() - began
        else:
            self.looks.append((self.iteration, self.seconds, certificate, self._error(x)))
        return Look(self.iteration, self.seconds, x, y, certificate)

    def _error(self, x: Array) -> float:
        star = self.method.problem.x_star
        return math.nan if star is None else float(np.linalg.norm(x - star) / (np.linalg.norm(star) or 1.0))

    def _judge(self, first: Look, before: Look | None, look: Look) -> Status | None:
        error = look.certificate.error
        if error <= self.tol and self.tol > 0:
            return Status.optimal
        if not error <= RUNAWAY * max(1.0, first.certificate.error):
            return Status.diverged
        if before is not None and proves_infeasible(self.method.problem, look.x, look.y - before.y):
            return Status.infeasible
        if self.callback is not None:
            info = Info(look.iteration, look.time, look.x.copy(), look.y.copy(), look.certificate)
            if self.callback(info):
                self.reason = "Stopped by the callback; this is the best point seen so far."
                return Status.interrupted
        if self.iteration + self.method.iterations_per_step > self.limit:
            return Status.iteration_limit
        if self.seconds >= self.time_limit:
            return Status.time_limit
        return None

    def _remaining(self, before: Look | None, look: Look) -> float:
        """Iterations to the tolerance if the error goes on falling as since the last look; nan if it does not."""
        if before is None or self.tol == 0:
            return math.nan
        old, new = before.certificate.error, look.certificate.error
        if not 0 < new < old:
            return math.nan
        return (look.iteration - before.iteration) * math.log(new / self.tol) / math.log(old / new)

    def _stride(self, before: Look | None, look: Look) -> int:
        """Steps to the next look: a twentieth of the way so far, or fewer where the end is near."""
        # a look costs passes over M, so that looks must be rounds apart
        shortest = (GLANCE if self.looks is None else 1) * self.method.round
        wait = max(shortest, self.iteration // 20)
        remaining = self._remaining(before, look)
        if remaining < wait:
            wait = max(shortest, math.ceil(remaining))
        a_step = self.method.iterations_per_step
        return max(1, min(math.ceil(wait / a_step), (self.limit - self.iteration) // a_step))

    def history(self) -> History | None:
        """What was recorded."""
        if self.looks is None:
            return None
        iterations, time, certificates, errors = zip(*self.looks, strict=True)
        return History(
            np.array(iterations),
            np.array(time),
            np.array([c.stationarity for c in certificates]),
            np.array([c.feasibility for c in certificates]),
            None if self.method.problem.x_star is None else np.array(errors),
        )


class _Watch:
    """Adds the time spent inside to the loop's solve time."""

    def __init__(self, loop: _Loop) -> None:
        self.loop = loop
        self.elapsed = 0.0

    def __enter__(self) -> _Watch:
        self.began = perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.elapsed = perf_counter() - self.began
        self.loop.seconds += self.elapsed
