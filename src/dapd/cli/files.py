"""`dapd solve` and `dapd explain`: problems in files."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console

import dapd
from dapd.frontends.files import MAX_BYTES, Loaded, check_output, load, save
from dapd.solving.progress import LogTable

EXITS = {
    dapd.Status.optimal: 0,
    dapd.Status.infeasible: 3,
    dapd.Status.unbounded: 4,
    dapd.Status.iteration_limit: 5,
    dapd.Status.time_limit: 5,
    dapd.Status.diverged: 6,
    dapd.Status.interrupted: 6,
}
CTRL_C = 130
METHODS = ["auto", *dapd.METHODS]

Problems = Annotated[
    Path,
    typer.Argument(
        help="A .npz, .mat, .json (P, q, A, l, u, lb, ub of ½xᵀPx + qᵀx, l ≤ Ax ≤ u, lb ≤ x ≤ ub), .qps, .mps or .lp "
        "file, perhaps packed as .gz.",
        show_default=False,
    ),
]
Tolerance = Annotated[float | None, typer.Option(help="Relative tolerance of the certificate; 1e-6 by default.")]
Absolute = Annotated[float | None, typer.Option(help="Absolute tolerance; if both are given, either suffices.")]
MaxBytes = Annotated[int, typer.Option(help="What the file may take when it is unpacked.", min=1)]
TimeLimit = Annotated[float | None, typer.Option(help="Seconds.")]


def solve(
    file: Problems,
    method: Annotated[
        str, typer.Option(help="auto, or a method of the paper.", autocompletion=lambda: METHODS)
    ] = "auto",
    tol: Tolerance = None,
    tol_absolute: Absolute = None,
    accuracy: Annotated[str, typer.Option(help="What the tolerance is of: solution or objective.")] = "solution",
    time_limit: TimeLimit = None,
    max_iterations: Annotated[int | None, typer.Option(help="Iterations; a million by default.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write x, y, z, status and objective here: .npz or .json.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the residuals here: .png, .svg or .pdf.")] = None,
    explain: Annotated[bool, typer.Option(help="Show first how long each way would take.")] = False,
    max_bytes: MaxBytes = MAX_BYTES,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only the status and the objective.")] = False,
) -> None:
    """Solve a quadratic program in a file.

    Exit status:

    - 0 optimal
    - 2 the file or an option is wrong
    - 3 infeasible
    - 4 unbounded
    - 5 stopped at a limit
    - 6 diverged, or stopped by rounding
    - 130 stopped by Ctrl-C
    """
    console = Console(highlight=False, soft_wrap=True)
    log = Console(highlight=False, soft_wrap=True, quiet=quiet)
    with _errors():
        if output is not None:
            check_output(output)
        if plot is not None and find_spec("matplotlib") is None:
            raise ValueError("--plot needs matplotlib; run pip install 'dapd[plot]'")
        loaded = load(file, max_bytes=max_bytes)
        limits: dict[str, Any] = {"tol": tol, "tol_absolute": tol_absolute, "time_limit": time_limit}
        _banner(log, file, loaded, method, tol, tol_absolute)
        if explain:
            console.print(dapd.explain(loaded.problem, **limits), markup=False)
        how: dict[str, Any] = {"method": method, "max_iterations": max_iterations, "accuracy": accuracy}
        result = _run(console, quiet, loaded.problem, history=plot is not None, **how, **limits)
        value = loaded.objective(result)  # with the constant and the sign of the file
        if quiet:
            console.print(f"{result.status} {value:.12g}", markup=False)
        log.print(f"\n{dataclasses.replace(result, objective=value).summary()}", markup=False)
        if output is not None:
            save(output, result, objective=value)
            log.print(f"Answer: {output}", markup=False)
        if plot is not None:
            _draw(result, plot)
            log.print(f"Plot: {plot}", markup=False)
    raise typer.Exit(CTRL_C if result.cause is dapd.Cause.ctrl_c else EXITS[result.status])


def explain(
    file: Problems,
    tol: Tolerance = None,
    tol_absolute: Absolute = None,
    time_limit: TimeLimit = None,
    max_bytes: MaxBytes = MAX_BYTES,
) -> None:
    """Show how long each way to solve a file is predicted to take, and which one `solve` would try first."""
    with _errors():
        problem = load(file, max_bytes=max_bytes).problem
        typer.echo(dapd.explain(problem, tol=tol, tol_absolute=tol_absolute, time_limit=time_limit))


@contextmanager
def _errors() -> Iterator[None]:
    """Turn an error in a file or an option into one line and the exit status 2."""
    try:
        yield
    except (ValueError, TypeError, OSError) as error:
        Console(stderr=True, highlight=False, soft_wrap=True).print(f"Error: {error}", markup=False)
        raise typer.Exit(2) from None


def _banner(
    console: Console, file: Path, loaded: Loaded, method: str, tol: float | None, tol_absolute: float | None
) -> None:
    problem = loaded.problem
    bounded = int(np.sum(np.isfinite(problem.bounds[0]) | np.isfinite(problem.bounds[1])))
    wanted = [f"relative {tol:g}"] if tol else [] if tol_absolute else ["relative 1e-06"]
    wanted += [f"absolute {tol_absolute:g}"] if tol_absolute else []
    console.print(f"[bold]dapd {dapd.__version__}[/]: optimal first-order and second-order methods for convex problems")
    rows = [
        ("problem", f"{file.name}, {'maximise' if loaded.sign < 0 else 'minimise'}"),
        ("variables", f"{problem.columns:,}, of which {bounded:,} bounded"),
        ("rows", f"{problem.rows:,} with {problem.M.work:,} entries"),
        ("method", f"{method}, tolerance {' or '.join(wanted)}"),
    ]
    for name, text in rows:
        console.print(f"{name:>10}  {text}", markup=False)


def _run(console: Console, quiet: bool, problem: dapd.Problem, **options: Any) -> dapd.Result:
    """Solve, with a log table unless it is to be quiet."""
    if quiet:
        return dapd.solve(problem, **options)

    def show(info: dapd.Info) -> None:
        table.show(info.iteration, info.time, info.certificate, math.nan)

    with LogTable(console, "") as table:
        return dapd.solve(problem, callback=show, **options)


def _draw(result: dapd.Result, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    axes = result.plot()
    figure: Any = axes[0].figure
    try:
        figure.savefig(path, dpi=150)
    except ValueError as error:
        raise ValueError(f"--plot {path}: {str(error).splitlines()[0]}") from None
