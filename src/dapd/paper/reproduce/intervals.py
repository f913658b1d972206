"""The tables: 95 % intervals over seeds, ours and the paper's, and how they compare."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit  # Student's quantiles without scipy.stats, which is slow to import

from dapd.paper.reproduce.catalogue import Table
from dapd.paper.reproduce.published import INTERVALS
from dapd.paper.reproduce.runs import Record, Run, title

FEWEST = 3  # seeds needed to form an interval
ENOUGH = 20  # seeds needed to compare an interval with the paper's, which has as many


class ErrorInterval(NamedTuple):
    """A range of errors."""

    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.low:.2e} … {self.high:.2e}"


class Comparison(StrEnum):
    """An interval next to the paper's."""

    overlaps = "overlaps"
    better = "better"  # ours is below the paper's: no contradiction, but not the same either
    worse = "worse"
    undecided = "undecided"  # another budget, or too few seeds


class Row(NamedTuple):
    """One method of a table."""

    method: str
    errors: list[float]
    ours: ErrorInterval | None  # None: too few seeds
    paper: ErrorInterval
    verdict: Comparison
    remark: str

    @property
    def here(self) -> str:
        """Our interval, or the errors if there are too few."""
        return str(self.ours) if self.ours else ", ".join(f"{error:.2e}" for error in self.errors)


def log_interval(errors: Sequence[float]) -> ErrorInterval | None:
    """The 95 % confidence interval of the mean of log10(error), as errors, by Student's t; None if too few."""
    if len(errors) < FEWEST or not np.isfinite(errors).all():
        return None
    logs = np.log10(np.maximum(errors, 1e-300))
    half = stdtrit(len(logs) - 1, 0.975) * logs.std(ddof=1) / math.sqrt(len(logs))
    return ErrorInterval(float(10 ** (logs.mean() - half)), float(10 ** (logs.mean() + half)))


def rows(table: Table, records: Mapping[Run, Record], *, quick: bool, seeds: int) -> list[Row]:
    """Compare a table with the paper's, method by method."""
    errors: dict[str, list[float]] = {}
    for run in table.runs(quick=quick, seeds=seeds):
        errors.setdefault(run.method, []).append(records[run].error[-1])
    same = not quick or table.quick == table.full
    found = []
    for method, values in errors.items():
        ours, paper = log_interval(values), ErrorInterval(*INTERVALS[table.name][method])
        found.append(Row(method, values, ours, paper, *_judge(table, method, values, ours, paper, same)))
    return found


def _judge(
    table: Table, method: str, errors: list[float], ours: ErrorInterval | None, paper: ErrorInterval, same: bool
) -> tuple[Comparison, str]:
    """How the intervals compare, and a remark; `same` says that the budget is the paper's."""
    if not same:
        said = f"{table.quick:,} iterations here, {table.full:,} in the paper: not compared. --full compares."
        return Comparison.undecided, said
    name, note = title(method), table.notes.get(method, "")
    if lost := sum(not math.isfinite(error) for error in errors):
        return Comparison.worse, f"{lost} of {len(errors)} errors are not finite: {name} diverged."
    if ours is None or len(errors) < ENOUGH:
        seeds = f"{len(errors)} seed" + ("s" if len(errors) != 1 else "")
        return Comparison.undecided, f"{seeds} here, {ENOUGH} in the paper: not compared. --full takes {ENOUGH}."
    if ours.high < paper.low:
        return Comparison.better, f"{name} is better here by a factor of {paper.low / ours.high:.3g}. {note}".rstrip()
    if ours.low <= paper.high and paper.low <= ours.high:
        return Comparison.overlaps, ""
    return Comparison.worse, f"{name} is worse here by a factor of {ours.low / paper.high:.3g}. {note}".rstrip()


def table_csv(rows: Sequence[Row]) -> str:
    """One line per method, without times: two runs with the same seed give the same bytes."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["method", "seeds", "low", "high", "paper_low", "paper_high", "verdict"])
    for row in rows:
        low, high = row.ours or ("", "")
        writer.writerow([row.method, len(row.errors), low, high, *row.paper, row.verdict])
    return text.getvalue()


def runs_csv(runs: Sequence[Run], records: Mapping[Run, Record]) -> str:
    """Every recorded point of the runs, one per line; without times, as `table_csv`."""
    return _points(runs, records, ("iterations", "products", "error", "kkt"))


def seconds_csv(runs: Sequence[Run], records: Mapping[Run, Record]) -> str:
    """The time of every recorded point of the runs."""
    return _points(runs, records, ("iterations", "seconds"))


def _points(runs: Sequence[Run], records: Mapping[Run, Record], columns: Sequence[str]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["experiment", "method", "seed", *columns])
    for run in runs:
        record = records[run]
        points = zip(*(getattr(record, column) for column in columns), strict=True)
        writer.writerows((run.experiment, run.method, run.seed, *point) for point in points)
    return text.getvalue()
