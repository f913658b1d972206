"""What a solve shows while it runs: a bar on a terminal, a log table elsewhere, or nothing.

rich is imported by the first solve that shows something, since importing it takes a tenth of a second.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Self

from dapd.certificate.certify import Certificate

if TYPE_CHECKING:
    from rich.console import Console


class Display:
    """What both kinds share: open from the beginning, closed at the end of a with statement."""

    def show(self, iteration: int, seconds: float, certificate: Certificate, remaining: float) -> None:
        """Show the last convergence check; `remaining` is the predicted number of iterations to go, nan if unknown."""

    def stop(self) -> None:
        """Close it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class Bar(Display):
    """A bar that fills up as the error falls towards the tolerance (or the iterations towards their limit)."""

    def __init__(self, console: Console, title: str, tolerances: tuple[float, float], limit: int) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        self.tolerances, self.limit = tolerances, limit
        self.first = math.nan
        self.bar = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[text]}"),
            TimeElapsedColumn(),
            console=console,
        )
        self.task = self.bar.add_task(title, total=1.0, text="")
        self.bar.start()

    def stop(self) -> None:
        self.bar.stop()

    def show(self, iteration: int, seconds: float, certificate: Certificate, remaining: float) -> None:
        excess = certificate.excess(*self.tolerances)
        if math.isnan(self.first):
            self.first = excess
        if 1 < self.first < math.inf and excess > 0:
            done = math.log(self.first / max(excess, 1.0)) / math.log(self.first)
        else:
            done = iteration / max(1, self.limit)
        # short enough for 80 columns: iteration, stationarity, feasibility, time to go
        text = f"{iteration:,} │ {certificate.stationarity:.0e} {certificate.feasibility:.0e}"
        if math.isfinite(remaining) and iteration:
            text += f" │ {max(0.0, seconds / iteration * remaining):.0f} s left"
        self.bar.update(self.task, completed=max(0.0, done), text=text)


class LogTable(Display):
    """A row now and then, as OSQP and SCS print."""

    def __init__(self, console: Console, title: str) -> None:
        self.console = console
        self.printed = (-1, 0.0)  # iteration and time of the last row
        self.row = ""  # of the last convergence check, if it has not been printed yet
        head = f"{'iteration':>10} {'stationarity':>13} {'feasibility':>12} {'gap':>9} {'time':>9}"
        console.print(f"{title}\n{head}", highlight=False)

    def show(self, iteration: int, seconds: float, certificate: Certificate, remaining: float) -> None:
        """Print a row if enough has happened since the last."""
        self.row = (
            f"{iteration:>10,} {certificate.stationarity:>13.2e} {certificate.feasibility:>12.2e} "
            f"{certificate.gap:>9.1e} {seconds:>8.2f}s"
        )
        if iteration >= 1.5 * self.printed[0] or seconds >= self.printed[1] + 5.0:
            self.printed = (iteration, seconds)
            self.stop()

    def stop(self) -> None:
        """Print the row that is left."""
        if self.row:
            self.console.print(self.row, highlight=False)
        self.row = ""


def display(title: str, tolerances: tuple[float, float], limit: int) -> Display:
    """Choose what fits: a bar on a terminal, a table off it."""
    from rich.console import Console

    console = Console()
    return Bar(console, title, tolerances, limit) if console.is_terminal else LogTable(console, title)
