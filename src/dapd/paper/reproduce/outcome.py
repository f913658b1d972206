"""The outcome: every check of the figures, the tables and of our own means, each counted once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dapd import theory
from dapd.paper.reproduce import published, sessions
from dapd.paper.reproduce.catalogue import ITEMS, Figure, Item, Panel, Table
from dapd.paper.reproduce.claims import Curve, Verdict
from dapd.paper.reproduce.intervals import ENOUGH, Comparison, Row, rows
from dapd.paper.reproduce.plots import papers_scale
from dapd.paper.reproduce.runs import BLOCK_PRODUCTS, EXPERIMENTS, Record, Run
from dapd.paper.reproduce.sessions import Session

UNITS = {"iterations": "iterations", "products": "products with blocks"}
EXACT = 1e-10  # largest residual allowed in a reference
CLOSE = 0.02  # how far a prediction may be off


class Check(NamedTuple):
    """A verdict in its panel."""

    verdict: Verdict
    evidence: Hashable  # equal claims about the same runs have the same
    own: bool  # not a claim of the paper
    repeated: bool  # an earlier figure already shows it


class Reference(NamedTuple):
    """The worst residuals of an experiment's references, over the instances shown."""

    experiment: str
    stationarity: float
    feasibility: float

    @property
    def holds(self) -> bool:
        """Whether it is exact enough to measure errors by."""
        return self.stationarity <= EXACT and self.feasibility <= EXACT


class Prediction(NamedTuple):
    """What theory says of a run, and what was counted."""

    run: Run
    Pi: float | None
    counted: theory.Counts
    predicted: theory.Counts  # with the gradients of the start

    @property
    def pairs(self) -> list[tuple[str, float, float]]:
        """Gradients and products, counted and predicted."""
        counted, predicted = (pair.products + pair.block_products for pair in (self.counted, self.predicted))
        return [("gradients", self.counted.gradients, self.predicted.gradients), ("products", counted, predicted)]

    @property
    def deviation(self) -> float:
        """How far the predictions are off, relative to them."""
        return max(abs(counted - predicted) / predicted for _, counted, predicted in self.pairs)

    @property
    def holds(self) -> bool:
        """Whether gradients and products are as predicted."""
        return self.deviation <= CLOSE


class Tally(NamedTuple):
    """How many checks have which result."""

    claims: Counter[bool | None]  # of the paper about its figures
    intervals: Counter[Comparison]
    own: Counter[bool | None]  # of our references, predictions and clock, and claims that are not the paper's


@dataclass(frozen=True)
class Outcome:
    """What was run, with which budgets and seeds."""

    items: Sequence[Item]
    records: Mapping[Run, Record]
    quick: bool
    seeds: int
    sessions: Sequence[Session] = ()

    def runs(self, item: Item) -> list[Run]:
        """The runs of an item."""
        return item.runs(quick=self.quick, seeds=self.seeds)

    def all_runs(self) -> list[Run]:
        """The runs of all items, each once."""
        return list(dict.fromkeys(run for item in self.items for run in self.runs(item)))

    @property
    def figures(self) -> list[Figure]:
        """The figures among the items."""
        return [item for item in self.items if isinstance(item, Figure)]

    @property
    def tables(self) -> list[Table]:
        """The tables among the items."""
        return [item for item in self.items if isinstance(item, Table)]

    def curves(self, panel: Panel) -> list[Record]:
        """The records of a panel, one per method."""
        return [self.records[run] for run in panel.runs(quick=self.quick)]

    def verdicts(self, figure: Figure, panel: Panel, *, papers_count: bool = False) -> list[Verdict]:
        """The claims about a panel, each compared with our curves.

        With `papers_count`, products with blocks are counted as in the paper, up to the same budget.
        """
        axis = figure.axes[0]
        curves = {}
        for record in self.curves(panel):
            scale = papers_scale(record) if papers_count and axis == "products" else 1.0
            points = zip(getattr(record, axis), getattr(record, figure.measure), strict=True)
            end = getattr(record, axis)[-1]
            within = [(scale * at, value) for at, value in points if scale * at <= end]
            curves[record.run.method] = Curve([at for at, _ in within], [value for _, value in within])
        return [claim.check(curves, UNITS[axis]) for claim in panel.claims]

    def inner(self, panel: Panel) -> Verdict | None:
        """CAPD's number of inner iterations next to the paper's; None if it is not shown."""
        ours = next((record.inner for record in self.curves(panel) if record.run.method == "capd"), None)
        if ours is None:
            return None
        theirs = published.INNER[panel.experiment]
        return Verdict(f"CAPD makes {theirs:,} inner iterations.", ours == theirs, f"{ours:,} here")

    def checks(self, figure: Figure) -> list[list[Check]]:
        """The checks of each panel of a figure."""
        before = self.figures[: self.figures.index(figure)]
        seen = {check.evidence for item in before for panel in item.panels for check in self._checks(item, panel)}
        return [
            [check._replace(repeated=check.evidence in seen) for check in self._checks(figure, panel)]
            for panel in figure.panels
        ]

    def _checks(self, figure: Figure, panel: Panel) -> Iterator[Check]:
        for claim, verdict in zip(panel.claims, self.verdicts(figure, panel), strict=True):
            about = claim.about(panel.methods)
            runs = frozenset(run for run in panel.runs(quick=self.quick) if run.method in about)
            yield Check(verdict, (claim, runs, figure.axes[0], figure.measure), claim.own, repeated=False)
        if inner := self.inner(panel):
            yield Check(inner, ("inner", panel.experiment, panel.seed), own=False, repeated=False)

    def rows(self, table: Table) -> list[Row]:
        """The rows of a table."""
        return rows(table, self.records, quick=self.quick, seeds=self.seeds)

    def references(self) -> list[Reference]:
        """The references, one per experiment."""
        found: dict[str, list[tuple[float, float]]] = {}
        for run, record in self.records.items():
            found.setdefault(run.experiment, []).append(record.reference)
        worst = {name: np.max(pairs, axis=0).tolist() for name, pairs in found.items()}  # a NaN stays one
        return [Reference(name, *worst[name]) for name in EXPERIMENTS if name in worst]

    def predictions(self) -> list[Prediction]:
        """The longest run of each method in the figures of each experiment, with what theory says of it."""
        found: dict[tuple[str, str], Record] = {}
        for run in sorted(
            (run for figure in self.figures for run in self.runs(figure)), key=lambda one: one.iterations
        ):
            found[run.experiment, run.method] = self.records[run]
        return [
            Prediction(record.run, record.Pi, record.counted, _with_start(record))
            for name in EXPERIMENTS
            for (experiment, _), record in sorted(found.items())
            if experiment == name and record.iterations[-1]
        ]

    def seconds(self, runs: Sequence[Run]) -> float:
        """The time of the runs, one core each."""
        return sum(self.records[run].wall for run in dict.fromkeys(runs))

    @property
    def complete(self) -> bool:
        """Whether this covers everything that the paper shows, with its budgets and seeds."""
        return not self.quick and self.seeds >= ENOUGH and {item.name for item in self.items} == set(ITEMS)

    def clock(self) -> float | None:
        """Wall-clock seconds of all runs; None if the log is incomplete."""
        return sessions.total(self.sessions, len(self.all_runs()))

    def faster(self) -> bool | None:
        """Whether all runs together were faster than the paper's; None if the log is incomplete."""
        clock = self.clock()
        return None if clock is None else clock < published.TOTAL_SECONDS

    def tally(self) -> Tally:
        """Count the results of all checks; the same evidence counts once."""
        shown = [check for figure in self.figures for panel in self.checks(figure) for check in panel]
        kinds: dict[bool, dict[Hashable, bool | None]] = {False: {}, True: {}}
        for check in shown:
            kinds[check.own][check.evidence] = check.verdict.holds
        own = [*kinds[True].values(), *(one.holds for one in self.references()), *(p.holds for p in self.predictions())]
        if self.complete:
            own.append(self.faster())
        intervals = Counter(row.verdict for table in self.tables for row in self.rows(table))
        return Tally(Counter(kinds[False].values()), intervals, Counter(own))


def _with_start(record: Record) -> theory.Counts:
    """The prediction and the gradients of the start: one per block if f is separable."""
    by_blocks = record.run.method in BLOCK_PRODUCTS
    start = EXPERIMENTS[record.run.experiment].blocks if by_blocks else 0
    return record.predicted._replace(gradients=record.predicted.gradients + start)
