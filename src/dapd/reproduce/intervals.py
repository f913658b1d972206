"""The tables: 95 % intervals over seeds, ours beside the paper's, and what to say where they differ."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import scipy.stats

from dapd.reproduce.catalogue import Table
from dapd.reproduce.published import INTERVALS
from dapd.reproduce.runs import Record, Run, title

FEWEST = 3  # seeds that make an interval


class Interval(NamedTuple):
    """A range of errors."""

    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.low:.2e} … {self.high:.2e}"


class Row(NamedTuple):
    """One method of a table."""

    method: str
    errors: list[float]
    ours: Interval | None  # None: too few seeds
    paper: Interval
    agrees: bool | None  # None: not to be compared
    remark: str


def log_interval(errors: Sequence[float]) -> Interval | None:
    """The 95 % confidence interval of the mean of log10(error), as errors: Student's t."""
    if len(errors) < FEWEST:
        return None
    logs = np.log10(np.maximum(errors, 1e-300))
    half = scipy.stats.t.ppf(0.975, len(logs) - 1) * logs.std(ddof=1) / math.sqrt(len(logs))
    return Interval(float(10 ** (logs.mean() - half)), float(10 ** (logs.mean() + half)))


def rows(table: Table, records: Mapping[Run, Record], *, quick: bool, seeds: int) -> list[Row]:
    """Compare a table with the paper's, method by method."""
    errors: dict[str, list[float]] = {}
    for run in table.runs(quick=quick, seeds=seeds):
        errors.setdefault(run.method, []).append(records[run].error[-1])
    same = not quick or table.quick == table.full
    return [_compare(table, method, values, same) for method, values in errors.items()]


def _compare(table: Table, method: str, errors: list[float], same: bool) -> Row:
    ours, paper = log_interval(errors), Interval(*INTERVALS[table.name][method])
    name = title(method)
    if not same:
        remark = f"{table.quick:,} iterations here, {table.full:,} in the paper: not compared. --full compares."
        return Row(method, errors, ours, paper, None, remark)
    if ours is None:
        remark = f"{len(errors)} of the {FEWEST} seeds that an interval needs: not compared. --full takes 20."
        return Row(method, errors, ours, paper, None, remark)
    if ours.high < paper.low:
        factor = paper.low / ours.high
        remark = f"{name} is better here by a factor of {factor:.2g}. {table.note}".rstrip()
        return Row(method, errors, ours, paper, True, remark)
    if ours.low > paper.high:
        factor = ours.low / paper.high
        return Row(method, errors, ours, paper, False, f"{name} is worse here by a factor of {factor:.2g}.")
    return Row(method, errors, ours, paper, True, "")


def table_csv(rows: Sequence[Row]) -> str:
    """One line a method; no times, so that two runs with one seed give the same bytes."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["method", "seeds", "low", "high", "paper_low", "paper_high", "agrees"])
    for row in rows:
        low, high = row.ours or ("", "")
        agrees = "" if row.agrees is None else row.agrees
        writer.writerow([row.method, len(row.errors), low, high, *row.paper, agrees])
    return text.getvalue()


def runs_csv(runs: Sequence[Run], records: Mapping[Run, Record]) -> str:
    """Every recorded point of the runs, one a line."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    columns = ("iterations", "products", "seconds", "error", "kkt")
    writer.writerow(["experiment", "method", "seed", *columns])
    for run in runs:
        record = records[run]
        points = zip(*(getattr(record, column) for column in columns), strict=True)
        writer.writerows((run.experiment, run.method, run.seed, *point) for point in points)
    return text.getvalue()
