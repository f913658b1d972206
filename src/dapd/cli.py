"""The command `dapd`."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Annotated

import threadpoolctl
import typer
from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.table import Table

from dapd import reproduce as paper
from dapd.engines import installed, native
from dapd.engines.threads import available
from dapd.reproduce import machine, sessions

QUICK_SEEDS, FULL_SEEDS = 1, 20
NAMES = f"Any of {', '.join(paper.ITEMS)}; or all, which is the default."

app = typer.Typer(
    name="dapd",
    help="The optimal first-order solver for strongly convex problems with linear coupling.",
    no_args_is_help=True,
    add_completion=False,
)


@app.command()
def reproduce(
    names: Annotated[list[str] | None, typer.Argument(help=NAMES, show_default=False)] = None,
    full: Annotated[
        bool, typer.Option("--full/--quick", help="The paper's budgets, or smaller ones that take a few minutes.")
    ] = False,
    out: Annotated[
        Path, typer.Option(help="Folder for report, plots and CSV. Runs that are already there are not repeated.")
    ] = Path("report"),
    seeds: Annotated[
        int | None, typer.Option(min=1, help=f"Seeds of the tables: {FULL_SEEDS} with --full, else {QUICK_SEEDS}.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Processes with one thread each; one per core by default.")
    ] = None,
) -> None:
    """Compute the paper's figures and tables again, next to the published ones."""
    try:
        items = paper.choose(names or [])
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="NAMES") from None
    if out.exists() and not out.is_dir():
        raise typer.BadParameter(f"{out} is a file; give a folder", param_hint="--out")
    # reported now, not after hours of computing
    missing = [name for name in ("clarabel", "matplotlib") if importlib.util.find_spec(name) is None]
    if missing:
        raise typer.BadParameter(
            f"needs {' and '.join(missing)}; run pip install 'dapd[experiments]'", param_hint="reproduce"
        )
    console = Console()
    seeds = seeds or (FULL_SEEDS if full else QUICK_SEEDS)
    jobs = jobs or machine.cores()
    runs = [run for item in items for run in item.runs(quick=not full, seeds=seeds)]
    began = monotonic()
    log = sessions.Log(out / "runs", full=full, jobs=jobs)
    try:
        with _display(console) as shown:

            def show(progress: paper.Progress) -> None:
                shown.show(progress)
                if progress.finished is not None:
                    log.count()

            records = paper.complete(runs, out / "runs", jobs=jobs, show=show)
    except KeyboardInterrupt:
        console.print("Interrupted. Run the same command to continue.")
        raise typer.Exit(130) from None
    logged = sessions.read(out / "runs")
    outcome = paper.Outcome(items, records, quick=not full, seeds=seeds, sessions=logged)
    place = out
    if not full and paper.is_full(out / "index.html"):
        place = out / "quick"
        console.print(
            f"{out / 'index.html'} is a full report and is kept; the quick one goes to {place}", soft_wrap=True
        )
    page = paper.write_report(outcome, place)
    _summary(console, outcome)
    console.print(f"Took {monotonic() - began:.0f} s. Report: {page}", highlight=False, soft_wrap=True)


@app.command()
def info() -> None:
    """Show versions, cores, threads and engines, and which build of the native core runs."""
    table = Table(show_header=False, box=None)
    for name, text in machine.versions().items():
        table.add_row(name, text)
    table.add_row("processor", f"{machine.processor()}, {machine.cores()} cores")
    # several libraries may come with their own BLAS
    limits = {pool["internal_api"]: pool["num_threads"] for pool in threadpoolctl.threadpool_info()}
    threads = {"native": available(), **limits}
    table.add_row("threads", ", ".join(f"{name} {count}" for name, count in threads.items()))
    table.add_row("engines", ", ".join(installed()))
    table.add_row("native core", _core())
    table.add_row("device", "CPU")
    Console().print(table, soft_wrap=True)


def _core() -> str:
    """The build of the native core that a solve loads and the others that it could load, or why there is none."""
    found = native.variants()
    if not found:
        return (
            "not built, so the slower python engine runs; install a C++20 compiler (g++ or clang++) and reinstall: "
            "pip install --force-reinstall --no-deps --no-cache-dir dapd"
        )
    try:
        loaded = native.load()
    except ValueError as error:
        return str(error)
    name = loaded.__name__.removeprefix("dapd._core_") if loaded else ""
    return f"{name}; this processor runs {', '.join(found)} (DAPD_SIMD chooses)"


def _summary(console: Console, outcome: paper.Outcome) -> None:
    """Print the tables, and how many checks agree."""
    shown = Table("table", "method", "here", "paper", "", title="Relative errors, 95 % intervals")
    marks = {True: "[green]agrees[/]", False: "[red]differs[/]", None: "not compared"}
    for item in outcome.items:
        if isinstance(item, paper.Table):
            for row in outcome.rows(item):
                here = str(row.ours) if row.ours else ", ".join(f"{error:.1e}" for error in row.errors)
                shown.add_row(item.name, paper.title(row.method), here, str(row.paper), marks[row.agrees])
    if shown.row_count:
        console.print(shown)
    judged = outcome.judgements()
    console.print(
        f"{judged.count(True)} checks agree, {judged.count(False)} differ, {judged.count(None)} are not "
        "decided by this budget.",
        highlight=False,
        soft_wrap=True,
    )


class _Lines:
    """Without a terminal: one line per finished run, but not more often than one can read."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.began = monotonic()
        self.last_line = -10.0

    def show(self, progress: paper.Progress) -> None:
        """Print a line for a finished run."""
        now = monotonic() - self.began
        if progress.finished is None or (now < self.last_line + 2.0 and progress.runs_done < progress.runs):
            return
        self.last_line = now
        left = now * (progress.total / progress.done - 1) if progress.done else 0.0
        self.console.print(
            f"{progress.runs_done}/{progress.runs}  {progress.finished}  ({now:.0f} s, about {left:.0f} s left)",
            highlight=False,
            soft_wrap=True,
        )


class _Bar:
    """On a terminal: a bar with the remaining time."""

    def __init__(self, bar: Bar) -> None:
        self.bar = bar
        self.task = bar.add_task("", total=None, text="")

    def show(self, progress: paper.Progress) -> None:
        """Move the bar."""
        text = f"{progress.runs_done}/{progress.runs} runs"
        self.bar.update(self.task, completed=progress.done, total=progress.total, text=text)


@contextmanager
def _display(console: Console) -> Iterator[_Bar | _Lines]:
    if not console.is_terminal:
        yield _Lines(console)
        return
    columns = (BarColumn(), TextColumn("{task.fields[text]}"), TimeElapsedColumn(), TextColumn("left"))
    with Bar(*columns, TimeRemainingColumn(), console=console) as bar:
        yield _Bar(bar)
