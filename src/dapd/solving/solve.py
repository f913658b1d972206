"""The front door: check what was asked, choose the method, run the loop, hand over the result."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from dapd.arguments import TimeUp, named
from dapd.arrays import Array
from dapd.certificate.certify import SOLUTION, completed
from dapd.clock import perf_counter
from dapd.engines import bind, on_mesh, precision
from dapd.engines.protocol import Runner
from dapd.methods import METHODS
from dapd.methods.block import BlockMethod
from dapd.problem import ask
from dapd.problem.problem import Problem
from dapd.solving.auto import solve_auto
from dapd.solving.checkpoint import Checkpoint
from dapd.solving.request import Request, in_kind_of, out_of_time, run_method
from dapd.solving.result import Result, Status
from dapd.solving.settings import Settings, check_settings
from dapd.spectrum.estimate import Spectrum
from dapd.ways.search import Info

LIMIT = 1_000_000  # passes over M allowed if no limit is given
AT_BOUND = 1e-6  # relative distance from a bound at which x0 may have a multiplier


@named
def solve(
    problem: Problem,
    method: str = "auto",
    *,
    tol: float | None = None,
    tol_absolute: float | None = None,
    accuracy: str = SOLUTION,
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
    mesh: Any = None,
    checkpoint: Any = None,
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
        Stop when every coordinate of ∇f(x) + Mᵀy + z = 0 and every row of Mx − b ∈ ∂φ(y) holds to tol relative to the
        terms that meet in it, and the gap to tol relative to its terms: then (x, y, z) solves a problem each of whose
        numbers differs by about tol. `docs/certificate.md` has the formulas. 1e-6 if no tolerance is given.
    tol_absolute : float, optional
        Stop when the primal residual, the dual residual and the gap (∞-norm) are at most this. If both tolerances are
        given, either suffices; 0 is no tolerance, and without any the solve runs to a limit.
    accuracy : str
        What tol is about. "solution": complementarity too, row by row and bound by bound, so as many digits of x are
        right as the problem determines. "objective": feasibility and the gap suffice; the objective has these digits,
        and x about half of them. It takes fewer iterations where complementarity comes last, as in images.
    max_iterations : int, optional
        Pairs of products with M and Mᵀ (CAPD: inner iterations); block iterations for a block-coordinate method that
        is named, rounds of N of them for one that "auto" chose; of second-order steps and Clarabel, factorisations.
        The default is a million (rounds).
    time_limit : float, optional
        Seconds for the whole call, set-up included; checked between steps and between products of the set-up. A call
        whose set-up takes longer, or during whose set-up Ctrl-C is pressed, returns its start.
    x0, y0 : vector, optional
        Where to start; zero by default. The multipliers of the bounds start at zero; with "auto", x0 and y0, at what
        these imply where x0 is at a bound, so the solution of an earlier solve is one.
    spectrum : Spectrum, optional
        Bounds on the singular values of M; by default the problem's own if it has them, else estimated.
    parameters : record of `dapd.theory`, optional
        The method's parameters outright, instead of those of its theorem.
    engine : str
        "native": the C++ core, which knows every built-in f, φ and M; "python": the same steps in NumPy; "jax": the
        same steps compiled by XLA, on a GPU if JAX has one (docs/jax.md); "auto": native if it can run the problem and
        the method, else python. `result.engine` says which ran, and why. If it is not "auto", the method "auto" takes
        only first-order steps, as the engines have no others.
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
    mesh : jax.sharding.Mesh, optional
        For engine="jax": the devices, of one process or several, among which M is divided; see docs/cluster.md.
    checkpoint : path, optional
        A file for the best point so far, written at looks every few seconds and at the end. A later call with the same
        problem starts from it.
    """
    began = perf_counter()
    settings = check_settings(
        problem,
        method=method,
        tol=tol,
        tol_absolute=tol_absolute,
        accuracy=accuracy,
        max_iterations=max_iterations,
        time_limit=time_limit,
        x0=x0,
        y0=y0,
        spectrum=spectrum,
        parameters=parameters,
        engine=engine,
        direct=direct,
        seed=seed,
        shared_sample=shared_sample,
        callback=callback,
        progress=progress,
        history=history,
        mesh=mesh,
        checkpoint=checkpoint,
    )
    return solve_checked(problem, settings, began)


def solve_checked(
    problem: Problem, settings: Settings, began: float, *, z0: Array | None = None, kept: dict[str, Any] | None = None
) -> Result:
    """Solve with settings that fit; z0 are the first multipliers of the bounds, `kept` set-ups of earlier solves."""
    deadline = math.inf if settings.time_limit is None else began + settings.time_limit
    method, spectrum, callback, engine = settings.method, settings.spectrum, settings.callback, settings.engine
    options = {"seed": settings.seed, "shared_sample": settings.shared_sample}
    start = {"x0": settings.x0, "y0": settings.y0}
    if problem.lower is not None:
        if settings.y0 is not None:
            if z0 is None:
                z0 = np.zeros(problem.columns, problem.dtype)
                if method == "auto" and settings.x0 is not None:
                    z0 = implied_multipliers(problem, settings.x0, settings.y0).astype(problem.dtype)
            start["y0"] = np.concatenate([settings.y0, z0])
        if spectrum is not None:
            spectrum = problem.stacked_spectrum(spectrum)
        if callback is not None:
            callback = _split_for(callback, problem)
    asked = Request(
        problem,
        settings.tolerances,
        LIMIT if settings.max_iterations is None else settings.max_iterations,
        settings.max_iterations is None,
        deadline,
        began,
        callback,
        settings.progress,
        settings.history,
        settings.accuracy,
    )
    if settings.checkpoint is not None:
        own = None if kept is None else kept.setdefault("checkpoints", {})
        saved = Checkpoint(settings.checkpoint, problem, own)
        start = saved.start(start)
        asked = asked._replace(callback=saved.watching(asked.callback))
    try:
        context = precision(engine)  # which may have to import JAX
    except KeyboardInterrupt:
        return in_kind_of(problem, out_of_time(asked, method, start, Status.interrupted))
    with context, on_mesh(settings.mesh, problem.stacked.M):
        try:
            if method == "auto":
                result = solve_auto(asked, spectrum, start, options, engine, settings.direct, kept)
            else:
                bound = _bind(problem.stacked, method, spectrum, settings.parameters, start, options, engine, deadline)
                result = run_method(asked, *bound, [])
        except TimeUp:
            result = out_of_time(asked, method, start)
        except KeyboardInterrupt:
            result = out_of_time(asked, method, start, Status.interrupted)
        if settings.checkpoint is not None:
            saved.write(result.x, np.concatenate([result.y, result.z]) if problem.lower is not None else result.y)
    return in_kind_of(problem, result)


def implied_multipliers(problem: Problem, x: Array, y: Array) -> Array:
    """The z of the bounds that x is at with ∇f(x) + Mᵀy + z = 0, where its sign is right; zero elsewhere."""
    z = -(ask.gradient(problem.f, x) + problem.M.adjoint(y))
    at_lower, at_upper = (abs(x - end) <= AT_BOUND * (1 + abs(end)) for end in problem.bounds)
    return np.where(at_lower & (z < 0) | at_upper & (z > 0), z, 0.0)


def _split_for(callback: Callable[[Info], object], problem: Problem) -> Callable[[Info], object]:
    """The callback, told the multipliers of the bounds apart from y."""

    def told(info: Info) -> object:
        y, z = completed(problem, info.x, info.y)
        return callback(info._replace(y=y, z=z))

    return told


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
