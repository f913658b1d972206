"""The options of a solve, checked: each error names the option, what was found and what to do."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from dapd.arguments import near_miss, number, vector, whole
from dapd.arrays import Array
from dapd.certificate.certify import OBJECTIVE, SOLUTION
from dapd.engines import check_engine
from dapd.methods import METHODS
from dapd.problem.problem import Problem
from dapd.spectrum.estimate import Spectrum
from dapd.ways.search import Info


class Settings(NamedTuple):
    """The options of `solve`, whose docstring explains them."""

    method: str
    tolerances: tuple[float, float]  # relative and absolute; 0 is none
    accuracy: str
    max_iterations: int | None
    time_limit: float | None
    x0: Array | None
    y0: Array | None
    spectrum: Spectrum | None
    parameters: Any
    engine: str
    direct: bool
    seed: int | None
    shared_sample: bool
    callback: Callable[[Info], object] | None
    progress: bool
    history: bool
    mesh: Any
    checkpoint: Any


def check_settings(
    problem: Problem,
    *,
    method: str,
    tol: float | None,
    tol_absolute: float | None,
    accuracy: str,
    max_iterations: int | None,
    time_limit: float | None,
    x0: Any,
    y0: Any,
    spectrum: Spectrum | None,
    parameters: Any,
    engine: str,
    direct: bool,
    seed: int | None,
    shared_sample: bool,
    callback: Callable[[Info], object] | None,
    progress: bool,
    history: bool,
    mesh: Any,
    checkpoint: Any,
) -> Settings:
    """Raise if an option is wrong, by itself or for this problem."""
    if not isinstance(problem, Problem):
        raise TypeError(f"problem must be a dapd.Problem, found {type(problem).__name__}")
    tolerances = _tolerances(tol, tol_absolute)
    if accuracy not in (SOLUTION, OBJECTIVE):
        raise ValueError(f"accuracy must be {SOLUTION!r} or {OBJECTIVE!r}, found {accuracy!r}")
    if max_iterations is not None:
        max_iterations = whole("max_iterations", max_iterations, least=0)
    if time_limit is not None:
        time_limit = number("time_limit", time_limit, above=0.0)
    check_engine(engine)
    if mesh is not None and engine != "jax":
        raise ValueError(f"mesh is for engine='jax', found engine={engine!r}")
    if checkpoint is not None and not isinstance(checkpoint, (str, os.PathLike)):
        raise TypeError(f"checkpoint must be a path, found {type(checkpoint).__name__}")
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
    x0, y0 = _start("x0", x0, problem.columns, problem.dtype), _start("y0", y0, problem.rows, problem.dtype)
    if method == "auto" and parameters is not None:
        raise ValueError("parameters belong to one method; name it with method=")
    if method != "auto" and method not in METHODS:
        raise ValueError(f"unknown method {method!r}{near_miss(str(method), ['auto', *METHODS])}")
    return Settings(
        method,
        tolerances,
        accuracy,
        max_iterations,
        time_limit,
        x0,
        y0,
        spectrum,
        parameters,
        engine,
        direct,
        seed,
        shared_sample,
        callback,
        progress,
        history,
        mesh,
        checkpoint,
    )


def _tolerances(tol: float | None, tol_absolute: float | None) -> tuple[float, float]:
    """The relative and the absolute tolerance; 0 is none."""
    if tol is None:
        tol = 1e-6 if tol_absolute is None else 0.0
    tol_absolute = 0.0 if tol_absolute is None else tol_absolute
    return number("tol", tol, least=0.0), number("tol_absolute", tol_absolute, least=0.0)


def _start(name: str, value: Any, size: int, dtype: np.dtype[Any]) -> Array | None:
    """The first x or y, in the precision of the problem; None if it was not given."""
    if value is None:
        return None
    given = vector(name, value, size)
    if size and abs(given).max() > np.finfo(dtype).max:
        raise ValueError(f"{name} holds entries of {abs(given).max():.0e}, too large for {dtype}; use float64 data")
    return given.astype(dtype)
