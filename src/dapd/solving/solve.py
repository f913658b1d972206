"""The front door: check what was asked, choose the method, run the loop, hand over the result."""

from __future__ import annotations

import math
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np

from dapd.arguments import TimeUp, named, near_miss, number, vector, whole
from dapd.arrays import Array
from dapd.engines import bind, check_engine
from dapd.engines.protocol import Runner
from dapd.methods import METHODS
from dapd.methods.block import BlockMethod
from dapd.model.problem import Problem
from dapd.solving.auto import solve_auto
from dapd.solving.loop import Info
from dapd.solving.request import Request, out_of_time, run_method
from dapd.solving.result import Result
from dapd.spectrum.estimate import Spectrum

LIMIT = 1_000_000  # passes over M allowed if no limit is given


@named
def solve(
    problem: Problem,
    method: str = "auto",
    *,
    tol: float | None = None,
    tol_absolute: float | None = None,
    max_iterations: int | None = None,
    time_limit: float | None = None,
    x0: Any = None,
    y0: Any = None,
    spectrum: Spectrum | None = None,
    parameters: Any = None,
    engine: str = "auto",
    direct: bool = True,
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
        A name of `dapd.METHODS`, which is then exactly the method of its paper, or "auto", which solves every convex
        problem that has a solution: by restarted x-DAPD and y-DAPD, second-order steps, Clarabel or a block-coordinate
        method, whichever is predicted to be fastest. The message says which and why; `dapd.explain` compares them all.
    tol : float
        Stop when every coordinate of ∇f(x) + Mᵀy = 0 and every row of Mx − b ∈ ∂φ(y) holds to tol relative to its own
        size, which includes the effect of one unit of x, and the gap to tol relative to its terms;
        `docs/certificate.md` has the formulas. 1e-6 if no tolerance is given.
    tol_absolute : float, optional
        Stop when the primal residual, the dual residual and the gap (∞-norm) are at most this. If both tolerances are
        given, either suffices; 0 is no tolerance, and without any the solve runs to a limit.
    max_iterations : int, optional
        Pairs of products with M and Mᵀ (CAPD: inner iterations); block iterations for a block-coordinate method that
        is named, rounds of N of them for one that "auto" chose; of second-order steps and Clarabel, factorisations.
        The default is a million (rounds).
    time_limit : float, optional
        Seconds for the whole call, set-up included; checked between steps and between products of the set-up. A call
        whose set-up takes longer returns its start.
    x0, y0 : vector, optional
        Where to start; zero by default. The multipliers of the bounds start at zero.
    spectrum : Spectrum, optional
        Bounds on the singular values of M; by default the problem's own if it has them, else estimated.
    parameters : record of `dapd.theory`, optional
        The method's parameters outright, instead of those of its theorem.
    engine : str
        "native": the C++ core, which knows every built-in f, φ and M; "python": the same steps in NumPy; "auto":
        native if it can run the problem and the method, else python. `result.engine` says which ran, and why. If it
        is not "auto", the method "auto" takes only first-order steps, as the engines have no others.
    direct : bool
        Whether "auto" may hand the problem to Clarabel, if it is installed and predicted to be faster.
    seed : int, optional
        For the block-coordinate methods, whose draws depend only on it; by default a fresh one, which the message
        states. The deterministic methods ignore it.
    shared_sample : bool
        For the block-coordinate methods: one block per iteration for both steps (j = i), instead of two.
    callback : function, optional
        Called with an `Info` at each look; a true answer stops the solve.
    progress : bool
        Show a bar on a terminal, a log table elsewhere.
    history : bool
        Record residuals (and the error if x* is known) at log-spaced iterations, off the clock.
    """
    began = perf_counter()
    if not isinstance(problem, Problem):
        raise TypeError(f"problem must be a dapd.Problem, found {type(problem).__name__}")
    tolerances = _tolerances(tol, tol_absolute)
    if max_iterations is not None:
        max_iterations = whole("max_iterations", max_iterations, least=0)
    if time_limit is not None:
        time_limit = number("time_limit", time_limit, above=0.0)
    check_engine(engine)
    if seed is not None:
        whole("seed", seed, least=0)
    if not isinstance(shared_sample, bool):
        raise TypeError(f"shared_sample must be True or False, found {shared_sample!r}")
    if not isinstance(direct, bool):
        raise TypeError(f"direct must be True or False, found {direct!r}")
    if spectrum is not None and not isinstance(spectrum, Spectrum):
        raise TypeError(f"spectrum must be a dapd.Spectrum, found {type(spectrum).__name__}")
    if callback is not None and not callable(callback):
        raise TypeError(f"callback must be callable, found {type(callback).__name__}")

    deadline = math.inf if time_limit is None else began + time_limit
    x0, y0 = _start("x0", x0, problem.columns, problem.dtype), _start("y0", y0, problem.rows, problem.dtype)
    options = {"seed": seed, "shared_sample": shared_sample}
    start = {"x0": x0, "y0": y0}
    if problem.lower is not None:
        if y0 is not None:
            start["y0"] = np.concatenate([y0, np.zeros(problem.columns, problem.dtype)])
        if spectrum is not None:
            spectrum = problem.stacked_spectrum(spectrum)
        if callback is not None:
            callback = _split_for(callback, problem.rows)
    limit = LIMIT if max_iterations is None else max_iterations
    asked = Request(problem, tolerances, limit, max_iterations is None, deadline, began, callback, progress, history)
    try:
        if method == "auto":
            if parameters is not None:
                raise ValueError("parameters belong to one method; name it with method=")
            return solve_auto(asked, spectrum, start, options, engine, direct)
        runner, spectrum = _bind(problem.stacked, method, spectrum, parameters, start, options, engine, deadline)
        return run_method(asked, runner, spectrum, [])
    except TimeUp:
        return out_of_time(asked, method, start)


def _tolerances(tol: float | None, tol_absolute: float | None) -> tuple[float, float]:
    """The relative and the absolute tolerance; 0 is none."""
    if tol is None:
        tol = 1e-6 if tol_absolute is None else 0.0
    return number("tol", tol, least=0.0), number("tol_absolute", tol_absolute or 0.0, least=0.0)


def _start(name: str, value: Any, size: int, dtype: np.dtype[Any]) -> Array | None:
    """The first x or y, in the precision of the problem; None if it was not given."""
    if value is None:
        return None
    given = vector(name, value, size)
    if size and abs(given).max() > np.finfo(dtype).max:
        raise ValueError(f"{name} holds entries of {abs(given).max():.0e}, too large for {dtype}; use float64 data")
    return given.astype(dtype)


def _split_for(callback: Callable[[Info], object], rows: int) -> Callable[[Info], object]:
    """The callback, told the multipliers of the bounds apart from y."""
    return lambda info: callback(info._replace(y=info.y[:rows], z=info.y[rows:]))


def _bind(
    problem: Problem,
    name: str,
    spectrum: Spectrum | None,
    parameters: Any,
    start: dict[str, Any],
    options: dict[str, Any],
    engine: str,
    deadline: float,
) -> tuple[Runner, Spectrum | None]:
    """A named method with its parameters and an engine."""
    if name not in METHODS:
        raise ValueError(f"unknown method {name!r}{near_miss(str(name), ['auto', *METHODS])}")
    if not issubclass(METHODS[name], BlockMethod):
        if options["shared_sample"]:
            able = ", ".join(key for key, method in METHODS.items() if issubclass(method, BlockMethod))
            raise ValueError(f"shared_sample is for the block-coordinate methods ({able}), not for {name!r}")
        options = {}
    if parameters is not None:
        return bind(METHODS[name](problem, parameters, **start, **options), engine), spectrum
    METHODS[name].check(problem)
    METHODS[name].constants_of(problem)
    spectrum = METHODS[name].spectrum_of(problem, spectrum, deadline=deadline)
    return bind(METHODS[name].from_theory(problem, spectrum=spectrum, **start, **options), engine), spectrum
