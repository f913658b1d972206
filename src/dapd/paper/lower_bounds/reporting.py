"""Methods against the bound on one hard instance: a table, a plot and the numbers behind them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from rich.table import Table

from dapd.arguments import named, whole
from dapd.paper.lower_bounds.counting import Instance
from dapd.paper.lower_bounds.instances import affine, affordable, dimension
from dapd.paper.lower_bounds.landscape import Landscape, as_text, landscape
from dapd.paper.lower_bounds.meter import AnyMethod, Run, distinct, gradients_needed, needed, race

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DETERMINISTIC = ("x-dapd", "y-dapd", "papc", "apapc", "capd", "condat-vu")


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
