"""The options of a solve, checked: each error names the option, what was found and what to do."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np

from dapd.arguments import near_miss, number, vector, whole
from dapd.arrays import Array
from dapd.certificate.certify import OBJECTIVE, SOLUTION
from dapd.engines import ENGINES, check_engine
from dapd.methods import METHODS
from dapd.problem.problem import Problem
from dapd.spectrum.estimate import Spectrum
from dapd.ways.search import Info

Call = TypeVar("Call", bound=Callable[..., Any])


@dataclass(frozen=True, kw_only=True, eq=False)
class Settings:
    """The options of a solve.

    Parameters
    ----------
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
        Where to start; zero by default. The multipliers of the bounds start at zero. With "auto", and with x0 and y0
        given, they start where ∇f(x0) + Mᵀy0 + z = 0 holds for each variable that is at a bound, so a solve can start
        from the solution of an earlier one.
    spectrum : Spectrum, optional
        Bounds on the singular values of M; by default the problem's own if it has them, else estimated.
    parameters : record of `dapd.theory`, optional
        The method's parameters outright, instead of those of its theorem.
    engine : str
        "native": the C++ core, which calls Python for an f or φ that it does not know; "python": the same steps in
        NumPy; "jax": the same steps compiled by XLA, on a GPU if JAX has one (docs/jax.md); "auto": native if it can
        run the problem and the method, else python. `result.engine` says which ran, and why. If it is not "auto", the
        method "auto" takes only first-order steps, as the engines have no others.
    direct : bool
        Whether "auto" may hand the problem to Clarabel, if it is installed and predicted to be faster.
    seed : int, optional
        For the block-coordinate methods, whose draws depend only on it; by default a fresh one, which the message
        states. The deterministic methods ignore it.
    shared_sample : bool
        For the block-coordinate methods: one block per iteration for both steps (j = i), instead of two.
    callback : function, optional
        Called with an `Info` at each convergence check; a true answer stops the solve.
    progress : bool
        Show a bar on a terminal, a log table elsewhere.
    history : bool
        Record residuals (and the error if x* is known) at log-spaced iterations. The time that this takes does not
        count.
    mesh : jax.sharding.Mesh, optional
        For engine="jax": the devices, of one process or several, among which M is divided; see docs/cluster.md.
    checkpoint : path, optional
        A file for the best point so far, written at convergence checks every few seconds and at the end. A later call
        with the same problem starts from it.
    """

    method: str = "auto"
    tol: float | None = None
    tol_absolute: float | None = None
    accuracy: str = SOLUTION
    max_iterations: int | None = None
    time_limit: float | None = None
    x0: Any = None
    y0: Any = None
    spectrum: Spectrum | None = None
    parameters: Any = None
    engine: str = "auto"
    direct: bool = True
    seed: int | None = None
    shared_sample: bool = False
    callback: Callable[[Info], object] | None = None
    progress: bool = False
    history: bool = False
    mesh: Any = None
    checkpoint: Any = None

    def __post_init__(self) -> None:
        for name, check in CHECKS.items():
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, check(name, value))
        if self.accuracy not in (SOLUTION, OBJECTIVE):
            raise ValueError(f"accuracy must be {SOLUTION!r} or {OBJECTIVE!r}, found {self.accuracy!r}")
        if self.engine not in ENGINES:
            check_engine(self.engine)
        if self.mesh is not None and self.engine != "jax":
            raise ValueError(f"mesh is for engine='jax', found engine={self.engine!r}")
        for name, kind, expected in KINDS:
            value = getattr(self, name)
            if value is not None and not isinstance(value, kind):
                found = repr(value) if kind is bool else type(value).__name__
                raise TypeError(f"{name} must be {expected}, found {found}")
        if self.callback is not None and not callable(self.callback):
            raise TypeError(f"callback must be callable, found {type(self.callback).__name__}")
        if self.method == "auto" and self.parameters is not None:
            raise ValueError("parameters belong to one method; name it with method=")
        if self.method != "auto" and self.method not in METHODS:
            raise ValueError(f"unknown method {self.method!r}{near_miss(str(self.method), ['auto', *METHODS])}")

    @property
    def tolerances(self) -> tuple[float, float]:
        """The relative and the absolute tolerance; 0 is none."""
        usual = 1e-6 if self.tol_absolute is None else 0.0
        return usual if self.tol is None else self.tol, self.tol_absolute or 0.0

    def fitting(self, problem: Any) -> Settings:
        """The same for this problem: its start is checked, and in the problem's precision."""
        if not isinstance(problem, Problem):
            raise TypeError(f"problem must be a dapd.Problem, found {type(problem).__name__}")
        if self.x0 is None and self.y0 is None:
            return self
        x0 = _start("x0", self.x0, problem.columns, problem.dtype)
        return replace(self, x0=x0, y0=_start("y0", self.y0, problem.rows, problem.dtype))


CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "tol": partial(number, least=0.0),
    "tol_absolute": partial(number, least=0.0),
    "max_iterations": partial(whole, least=0),
    "time_limit": partial(number, above=0.0),
    "seed": partial(whole, least=0),
}
KINDS: tuple[tuple[str, Any, str], ...] = (
    ("checkpoint", (str, os.PathLike), "a path"),
    ("shared_sample", bool, "True or False"),
    ("direct", bool, "True or False"),
    ("spectrum", Spectrum, "a dapd.Spectrum"),
)
OPTIONS = {field.name: field.default for field in fields(Settings)}


def explains_options(call: Call) -> Call:
    """Put the options, as `Settings` explains them, where the docstring of a function says OPTIONS."""
    text = (Settings.__doc__ or "").partition("----------\n")[2].strip()
    call.__doc__ = (call.__doc__ or "").replace("OPTIONS", text)
    return call


def _start(name: str, value: Any, size: int, dtype: np.dtype[Any]) -> Array | None:
    """The first x or y, in the precision of the problem; None if it was not given."""
    if value is None:
        return None
    given = vector(name, value, size)
    if size and abs(given).max() > np.finfo(dtype).max:
        raise ValueError(f"{name} holds entries of {abs(given).max():.0e}, too large for {dtype}; use float64 data")
    return given.astype(dtype)
