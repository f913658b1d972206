"""A performance profile and plots of time against size, as PNG files."""

from __future__ import annotations

import math
from collections import defaultdict
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from peers.tables import Row, by_problem, names_of


def performance_profile(rows: list[Row], tol: float, file: Path) -> None:
    """Share of all problems, also those that a solver is not made for, solved within a factor of the fastest."""
    problems = by_problem(rows, tol)
    factors: dict[str, list[float]] = defaultdict(list)
    for found in problems.values():
        best = min((row["seconds"] for row in found.values() if row["met"]), default=math.inf)
        for name, row in found.items():
            factors[name].append(max(row["seconds"], 1e-9) / max(best, 1e-9) if row["met"] else math.inf)
    figure, axes = plt.subplots(figsize=(6.5, 4), layout="constrained")
    for name in names_of(rows):
        solved = sorted(factor for factor in factors[name] if factor < math.inf)
        if solved:
            shares = [(k + 1) / len(problems) for k in range(len(solved))]
            axes.step([*solved, 1e4], [*shares, shares[-1]], where="post", label=name)
    axes.set(xscale="log", xlim=(1, 1e4), ylim=(0, 1.02), xlabel="time / time of the fastest", ylabel="share solved")
    axes.set_title(f"Absolute {tol:g} on primal, dual and gap")
    axes.legend(fontsize="small")
    save(figure, file)


def scaling(rows: list[Row], tol: float, file: Path) -> bool:
    """Time against the number of variables, one panel per family with several sizes; False if there is none."""
    lines: dict[str, dict[str, list[tuple[int, float]]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if row["tol"] == tol and row["met"] and row["suite"] != "maros":
            lines[row["family"]][row["solver"]].append((row["variables"], max(row["seconds"], 1e-6)))
    families = [f for f, own in lines.items() if len({size for points in own.values() for size, _ in points}) > 1]
    if not families:
        return False
    columns = min(3, len(families))
    shape = math.ceil(len(families) / columns), columns
    figure, panels = plt.subplots(*shape, figsize=(4 * columns, 3 * shape[0]), layout="constrained", squeeze=False)
    colours = {name: f"C{k}" for k, name in enumerate(names_of(rows))}
    for panel in panels.flat[len(families) :]:
        panel.set_visible(False)
    for panel, family in zip(panels.flat, families, strict=False):
        for name, points in lines[family].items():
            panel.plot(*zip(*sorted(points), strict=True), ".-", label=name, color=colours[name])
        panel.set(xscale="log", yscale="log", title=family, xlabel="variables", ylabel="seconds")
        panel.legend(fontsize="x-small")
    save(figure, file)
    return True


def save(figure: plt.Figure, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=130)
    plt.close(figure)
