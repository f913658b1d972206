"""`dapd reproduce`: the paper's figures and tables."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.table import Table

from dapd import reproduce as paper
from dapd.engines.native.threads import cores
from dapd.paper.reproduce import sessions

QUICK_SEEDS, FULL_SEEDS = 1, 20
NAMES = f"Any of {', '.join(paper.ITEMS)}; or all, which is the default."


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
    make_report(items, Console(), out, full=full, seeds=seeds, jobs=jobs)


def make_report(
    items: list[paper.Item],
    console: Console,
    out: Path,
    *,
    full: bool,
    seeds: int | None = None,
    jobs: int | None = None,
) -> Path:
    """Compute what is missing, write the report, and return the path of its page."""
    seeds = seeds or (FULL_SEEDS if full else QUICK_SEEDS)
    jobs = jobs or cores()
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
    return page


def _summary(console: Console, outcome: paper.Outcome) -> None:
    """Print the tables, and how many checks agree."""
    shown = Table("table", "method", "here", "paper", "", title="Relative errors, 95 % intervals")
    colours = {"overlaps": "green", "better": "blue", "worse": "red", "undecided": "default"}
    for table in outcome.tables:
        for row in outcome.rows(table):
            here = str(row.ours) if row.ours else ", ".join(f"{error:.1e}" for error in row.errors)
            verdict = f"[{colours[row.verdict]}]{row.verdict}[/]"
            shown.add_row(table.name, paper.title(row.method), here, str(row.paper), verdict)
    if shown.row_count:
        console.print(shown)
    for line in paper.summary(outcome):
        console.print(line, highlight=False, soft_wrap=True)


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
