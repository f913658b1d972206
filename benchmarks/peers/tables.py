"""Tables from the rows of a run. A row is one solver, one problem, one tolerance."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

Row = dict[str, Any]
SHIFT = 1.0  # seconds, added before a shifted geometric mean is taken
YARDSTICKS = ("OSQP", "Clarabel")


def geometric_mean(values: list[float], shift: float = 0.0) -> float:
    """exp(mean log(v + shift)) − shift."""
    return math.exp(sum(math.log(v + shift) for v in values) / len(values)) - shift if values else math.nan


def by_problem(rows: list[Row], tol: float) -> dict[tuple[str, str, int], dict[str, Row]]:
    """Problem -> solver -> row, at one tolerance."""
    found: dict[tuple[str, str, int], dict[str, Row]] = defaultdict(dict)
    for row in rows:
        if row["tol"] == tol:
            found[row["suite"], row["name"], row["seed"]][row["solver"]] = row
    return dict(found)


def names_of(rows: list[Row]) -> list[str]:
    """The solvers, in the order in which they ran."""
    return list(dict.fromkeys(row["solver"] for row in rows))


def summary(rows: list[Row], tol: float, limit: float) -> str:
    """How many problems each solver solved, and its shifted geometric mean of time, unsolved ones at the limit."""
    problems = by_problem(rows, tol)
    lines = ["| solver | solved | of | claimed and missed | shifted geometric mean, s |", "|---|---|---|---|---|"]
    for name in names_of(rows):
        own = [found[name] for found in problems.values() if name in found]
        times = [row["seconds"] if row["met"] else limit for row in own]
        solved, missed = sum(row["met"] for row in own), sum(row["missed"] for row in own)
        lines.append(f"| {name} | {solved} | {len(own)} | {missed} | {geometric_mean(times, SHIFT):.3g} |")
    return "\n".join(lines)


def ratios(rows: list[Row], tol: float, ours: str) -> str:
    """Our time divided by the better of OSQP's and Clarabel's, as a geometric mean over each family."""
    families: dict[str, list[float]] = defaultdict(list)
    unsolved: dict[str, int] = defaultdict(int)
    for found in by_problem(rows, tol).values():
        family = next(iter(found.values()))["family"] if "maros" not in next(iter(found.values()))["suite"] else "maros"
        best = min(
            (found[name]["seconds"] for name in YARDSTICKS if name in found and found[name]["met"]), default=None
        )
        if ours not in found or best is None:
            continue
        if found[ours]["met"]:
            families[family].append(found[ours]["seconds"] / best)
        else:
            unsolved[family] += 1
    lines = ["| family | problems | unsolved by us | our time / better of OSQP and Clarabel |", "|---|---|---|---|"]
    for family in dict.fromkeys([*families, *unsolved]):
        own = families.get(family, [])
        lines.append(f"| {family} | {len(own) + unsolved[family]} | {unsolved[family]} | {geometric_mean(own):.3g} |")
    everything = [ratio for own in families.values() for ratio in own]
    total = len(everything) + sum(unsolved.values())
    lines.append(f"| all | {total} | {sum(unsolved.values())} | {geometric_mean(everything):.3g} |")
    return "\n".join(lines)


def times(rows: list[Row], tol: float) -> str:
    """Seconds of each solver on each problem, a geometric mean over seeds; the fastest in bold."""
    solvers = names_of(rows)
    groups: dict[tuple[str, str], list[dict[str, Row]]] = defaultdict(list)
    for (suite, name, _), found in by_problem(rows, tol).items():
        groups[suite, name].append(found)
    lines = [f"| problem | {' | '.join(solvers)} |", "|---" * (len(solvers) + 1) + "|"]
    for (_, name), instances in groups.items():
        cells = {solver: cell([found[solver] for found in instances if solver in found]) for solver in solvers}
        best = min((seconds for seconds, _ in cells.values()), default=math.inf)
        shown = [f"**{text}**" if seconds == best < math.inf else text for seconds, text in cells.values()]
        lines.append(f"| {name} | {' | '.join(shown)} |")
    return "\n".join(lines)


def cell(rows: list[Row]) -> tuple[float, str]:
    """The time, for sorting and as text; a dagger if the solver claimed a tolerance that it missed."""
    if not rows:
        return math.inf, ""
    mark = "†" if any(row["missed"] for row in rows) else ""
    failed = [row for row in rows if not row["met"]]
    if failed:
        count = f" ({len(failed)} of {len(rows)})" if len(rows) > 1 else ""
        return math.inf, f"{reason(failed[0])}{count}{mark}"
    seconds = geometric_mean([max(row["seconds"], 1e-9) for row in rows])
    return seconds, f"{seconds:.2g}{mark}"


def reason(row: Row) -> str:
    """Why there is no answer, in a word."""
    if row["status"].startswith("refused"):
        return "refused"
    if row["status"].startswith("stopped") or row["seconds"] >= 0.99 * row["limit"]:
        return "time limit"
    return "missed" if row["claims"] else "failed"


def peers_win(rows: list[Row], tol: float, ours: list[str]) -> str:
    """The problems on which a peer is faster than our first setting, the default, and how many times."""
    lines = ["| problem | fastest | its time, s | ours, s | times slower |", "|---|---|---|---|---|"]
    for (_, name, seed), found in by_problem(rows, tol).items():
        if not any(setting in found for setting in ours):
            continue
        solved = {solver: row["seconds"] for solver, row in found.items() if row["met"]}
        own, *_ = [solved.pop(setting, math.inf) for setting in ours]
        fastest = min(solved, key=solved.__getitem__, default=None)
        if fastest is not None and solved[fastest] < own:
            ratio = "–" if own == math.inf else f"{own / solved[fastest]:.2g}"
            seconds = "unsolved" if own == math.inf else f"{own:.2g}"
            label = name if seed == 0 else f"{name}, seed {seed}"
            lines.append(f"| {label} | {fastest} | {solved[fastest]:.2g} | {seconds} | {ratio} |")
    return "\n".join(lines)
