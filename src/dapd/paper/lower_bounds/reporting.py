"""Methods against the bound, on one hard instance or over a grid of them: tables, plots and the numbers behind them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from rich.console import Console
from rich.table import Table

from dapd.arguments import named, near_miss, number, vector, whole
from dapd.arrays import Array
from dapd.paper.lower_bounds.instances import affine, affordable, dimension
from dapd.paper.lower_bounds.meter import AnyMethod, distinct, race

if TYPE_CHECKING:
    from matplotlib.axes import Axes
from typing import TYPE_CHECKING

from dapd.paper.lower_bounds.meter import Instance, Run, gradients_needed, needed

DETERMINISTIC = ("x-dapd", "y-dapd", "papc", "apapc", "capd", "condat-vu")


@dataclass(frozen=True)
class Landscape:
    """Iterations of each method over the grid; print it, or `plot` it."""

    methods: tuple[str, ...]
    conditions: Array  # L/μ, one per row
    ratios: Array  # s_max/s_min, one per column
    eps: float
    iterations: Array  # method × condition × ratio; nan if the limit came first
    times: Array  # the same as multiples of the optimum

    @property
    def winner(self) -> Array:
        """The index of the fastest method at each point of the grid."""
        return np.argmin(np.nan_to_num(self.times, nan=np.inf), axis=0)

    @property
    def best(self) -> Array:
        """How many times the optimum the winner takes; inf if no method reached eps."""
        return np.min(np.nan_to_num(self.times, nan=np.inf), axis=0)

    def exponent(self, method: str, along: Literal["condition", "ratio"], *, at: int = 0) -> float:
        """The fitted p in iterations ∝ (L/μ)^p or (s_max/s_min)^p, at one value of the other.

        Parameters
        ----------
        method : str
            One of `methods`.
        along : "condition" (L/μ) or "ratio" (s_max/s_min)
        at : int
            The row or column of the grid at which the other one is fixed.
        """
        if method not in self.methods:
            raise ValueError(f"no method {method!r} in this landscape{near_miss(method, self.methods)}")
        if along not in ("condition", "ratio"):
            raise ValueError(f"along must be 'condition' or 'ratio', found {along!r}")
        counts = self.iterations[self.methods.index(method)]
        axis, line = (self.conditions, counts[:, at]) if along == "condition" else (self.ratios, counts[at])
        arrived = np.isfinite(line)
        if arrived.sum() < 2:
            raise ValueError(f"{method} reached eps at {arrived.sum()} points of this line; a slope needs at least two")
        return float(np.polyfit(np.log(axis[arrived]), np.log(line[arrived]), 1)[0])

    def table(self) -> Table:
        """The winner, and how many times the optimum it takes, as a rich table."""
        table = Table(
            "L/μ \\ s_max/s_min",
            title=f"The fastest method to ε = {self.eps:g}, and how many times the optimum it takes",
        )
        for ratio in self.ratios:
            table.add_column(f"{ratio:.3g}", justify="right")
        for row, condition in enumerate(self.conditions):
            table.add_row(f"{condition:.3g}", *(self._cell(row, column) for column in range(self.ratios.size)))
        return table

    def _cell(self, row: int, column: int) -> str:
        best = self.best[row, column]
        return f"{self.methods[self.winner[row, column]]} {best:.3g}" if math.isfinite(best) else "none"

    def __rich__(self) -> Table:
        return self.table()

    def __str__(self) -> str:
        return as_text(self.table())

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the map: the text names the winner, the colour shows its times the optimum. Needs matplotlib."""
        import matplotlib.pyplot as plt

        if ax is None:
            ax = plt.subplots(layout="constrained")[1]
        shown = np.where(np.isfinite(self.best), self.best, np.nan)
        image = ax.imshow(shown, origin="lower", cmap="viridis_r", vmin=1.0, aspect="auto")
        middle = (1 + np.nanmax(shown)) / 2
        for row, column in np.ndindex(shown.shape):
            text = self._cell(row, column).replace(" ", "\n")
            shade = "white" if shown[row, column] > middle else "black"
            ax.text(column, row, text, ha="center", va="center", color=shade, fontsize="small")
        ax.set_xticks(range(self.ratios.size), [f"{ratio:.3g}" for ratio in self.ratios])
        ax.set_yticks(range(self.conditions.size), [f"{condition:.3g}" for condition in self.conditions])
        ax.set_xlabel("s_max / s_min")
        ax.set_ylabel("L / μ")
        ax.figure.colorbar(image, ax=ax, label="times the optimum")
        return ax


@named
def landscape(
    methods: Sequence[AnyMethod],
    conditions: Sequence[float],
    ratios: Sequence[float],
    *,
    eps: float = 1e-3,
    max_iterations: int = 1_000_000,
) -> Landscape:
    """Run methods on `affine` over a grid; at each point the dimension is just large enough for the bound to reach eps.

    Parameters
    ----------
    methods : sequence of str or function
        As for `report`.
    conditions, ratios : sequence of float
        L/μ ≥ 1 and s_max/s_min ≥ √5.
    eps : float
        Accuracy in y, relative to ‖y*‖, below 1/√8.
    max_iterations : int
        The limit for each method at each point.
    """
    rows, columns = vector("conditions", conditions), vector("ratios", ratios)
    eps = number("eps", eps, above=0.0)
    limit = whole("max_iterations", max_iterations, least=1)
    shape = (len(methods), rows.size, columns.size)
    iterations, times = np.full(shape, np.nan), np.full(shape, np.nan)
    labels = [""] * len(methods)
    for i, condition in enumerate(rows):
        for j, ratio in enumerate(columns):
            constants = {"L": float(condition), "mu": 1.0, "s_max": float(ratio), "s_min": 1.0}
            n = affordable(dimension(**constants, eps=eps), eps, "choose a smaller grid")
            instance = affine(**constants, n=n)
            for m, method in enumerate(methods):
                run = race(method, instance, eps, limit)
                labels[m] = run.method
                if run.iterations is not None:
                    iterations[m, i, j], times[m, i, j] = run.iterations, run.times
    return Landscape(tuple(distinct(labels)), rows, columns, eps, iterations, times)


def as_text(table: Table) -> str:
    """A rich table as plain text."""
    console = Console(width=120, no_color=True, force_terminal=False)
    with console.capture() as captured:
        console.print(table)
    return captured.get()


@dataclass(frozen=True)
class Report:
    """How close each method comes to the bound; print it, or `plot` it."""

    instance: Instance
    eps: float  # relative to ‖y*‖
    needed: int  # rounds that the bound requires
    runs: tuple[Run, ...]  # fastest first
    landscape: Landscape | None  # if a grid was given
    gradients_needed: int | None = None  # gradients that the classical bound requires, for the worst f with this L/μ

    def table(self) -> Table:
        """The runs as a rich table."""
        title = f"Rounds to ‖y − y*‖ ≤ {self.eps:g}·‖y*‖; no method needs fewer than {self.needed:,}"
        least = self.gradients_needed
        caption = (
            None if least is None else f"On the worst f with this L/μ no method needs fewer than {least:,} gradients"
        )
        table = Table("method", title=title, caption=caption)
        for heading in ("iterations", "rounds", "times the optimum", "gradients", "times that bound"):
            table.add_column(heading, justify="right")
        for run in self.runs:
            if run.iterations is None:
                why = "ended early" if run.ended else "not reached"
                table.add_row(run.method, why, f"> {run.at[-1]:,.0f}", f"> {run.at[-1] / self.needed:.3g}", "–", "–")
                continue
            known = math.isfinite(run.gradients)
            gradients = f"{run.gradients:,.0f}" if known else "–"
            times = f"{run.gradients / least:.3g}" if known and least else "–"
            table.add_row(run.method, f"{run.iterations:,}", f"{run.rounds:,.0f}", f"{run.times:.3g}", gradients, times)
        return table

    def __rich__(self) -> Table:
        return self.table()

    def __str__(self) -> str:
        return as_text(self.table()) + ("" if self.landscape is None else str(self.landscape))

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw error and bound against rounds; on these axes a horizontal distance is a ratio. Needs matplotlib."""
        import matplotlib.pyplot as plt

        if ax is None:
            ax = plt.subplots(layout="constrained")[1]
        for run in self.runs:
            why = "ended early" if run.ended else "not reached"
            result = why if run.iterations is None else f"{run.times:.3g} times the optimum"
            # a log scale cannot show the start
            ax.loglog(run.at[1:], run.error[1:], label=f"{run.method}: {result}")
        start = float(np.linalg.norm(self.instance.y_star))
        k = np.unique(np.geomspace(1, self.instance.reach, 400).astype(int))
        ax.loglog(k, self.instance.bound(k) / start, "k--", label="the theorem's bound")
        floor = np.array([self.instance.tail(int(j)) for j in k]) / start
        ax.loglog(k, floor, "k:", label="the part of y* not yet seen")
        ax.set_xlim(left=max(1.0, self.needed / 100))
        ax.set_ylim(self.eps / 2, 2)
        ax.set_xlabel("rounds (products with M or Mᵀ)")
        ax.set_ylabel("‖y − y*‖ / ‖y*‖")
        ax.grid(visible=True, which="major", alpha=0.3)
        ax.legend()
        return ax


@named
def report(
    methods: Sequence[AnyMethod] = DETERMINISTIC,
    instance: Instance | None = None,
    *,
    eps: float = 1e-5,
    max_iterations: int = 1_000_000,
    grid: tuple[Sequence[float], Sequence[float]] | None = None,
) -> Report:
    """Run methods on a hard instance and compare the rounds they take with the bound.

    Parameters
    ----------
    methods : sequence of str or function
        Names of `dapd.METHODS`, or functions that take the instance and yield (x, y), as for `rounds`.
    instance : HardProblem or ConvexConcave, optional
        By default `affine` with L/μ = 1000 and s_max/s_min = 10, large enough for the bound to reach eps.
    eps : float
        Accuracy in y, relative to ‖y*‖, below bound(0)/‖y*‖ (which is 1/√8 on `affine` and `block`); the dimension of
        the instance must be large enough for it.
    max_iterations : int
        The limit for each method.
    grid : pair of sequences, optional
        Values of L/μ and of s_max/s_min for a map of the fastest method (see `landscape`).
    """
    if isinstance(methods, str) or callable(methods):
        raise TypeError(f"methods must be a sequence, found {methods!r}; write [{methods!r}]")
    if instance is None:
        constants = {"L": 1000.0, "mu": 1.0, "s_max": 10.0, "s_min": 1.0}
        instance = affine(**constants, n=affordable(dimension(**constants, eps=eps), eps, "choose a larger eps"))
    limit = whole("max_iterations", max_iterations, least=1)
    optimum = needed(instance, eps)
    runs = [race(method, instance, eps, limit) for method in methods]
    labels = distinct([run.method for run in runs])
    runs = [run._replace(method=label) for run, label in zip(runs, labels, strict=True)]
    runs.sort(key=lambda run: math.inf if run.iterations is None else run.rounds)
    mapped = None if grid is None else landscape(methods, *grid, eps=eps, max_iterations=limit)
    return Report(instance, float(eps), optimum, tuple(runs), mapped, gradients_needed(instance, eps))
