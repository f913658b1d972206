"""The outcome: every check of the figures, the tables, the references and the clock, each counted once."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dapd.reproduce import published, sessions
from dapd.reproduce.catalogue import ITEMS, Figure, Item, Panel, Table
from dapd.reproduce.claims import Claim, Curve, Verdict
from dapd.reproduce.intervals import ENOUGH, Row, rows
from dapd.reproduce.problems import BLOCK_PRODUCTS, EXPERIMENTS
from dapd.reproduce.runs import SHARED, Record, Run
from dapd.reproduce.sessions import Session

UNITS = {"iterations": "iterations", "products": "products with blocks"}
EXACT = 1e-10  # largest residual allowed in a reference


class Reference(NamedTuple):
    """The worst residuals of an experiment's references, over the instances shown."""

    experiment: str
    stationarity: float
    feasibility: float

    @property
    def holds(self) -> bool:
        """Whether it is exact enough to measure errors by."""
        return self.stationarity <= EXACT and self.feasibility <= EXACT


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

    def curves(self, panel: Panel) -> list[Record]:
        """The records of a panel, one per method."""
        return [self.records[run] for run in panel.runs(quick=self.quick)]

    def verdicts(self, figure: Figure, panel: Panel, *, papers_count: bool = False) -> list[Verdict]:
        """The claims that the paper makes about a panel, each compared with our curves.

        With `papers_count`, products with blocks are counted as in the paper, up to the same budget.
        """
        axis = figure.axes[0]
        curves = {}
        for record in self.curves(panel):
            scale = _papers_scale(record.run.method) if papers_count and axis == "products" else 1.0
            points = zip(getattr(record, axis), getattr(record, figure.measure), strict=True)
            end = getattr(record, axis)[-1]
            within = [(scale * at, value) for at, value in points if scale * at <= end]
            curves[record.run.method] = Curve([at for at, _ in within], [value for _, value in within])
        return [claim.check(curves, UNITS[axis]) for claim in panel.claims]

    def evidence(self, figure: Figure, panel: Panel, claim: Claim) -> Hashable:
        """A key for what a claim is about; equal claims about the same runs have the same key."""
        about = claim.about(panel.methods)
        runs = frozenset(run for run in panel.runs(quick=self.quick) if run.method in about)
        return claim, runs, figure.axes[0], figure.measure

    def repeats(self, figure: Figure) -> set[Hashable]:
        """Evidence that earlier figures already show."""
        before = [item for item in self.items[: list(self.items).index(figure)] if isinstance(item, Figure)]
        return {self.evidence(item, panel, claim) for item in before for panel in item.panels for claim in panel.claims}

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

    def judgements(self) -> list[bool | None]:
        """The result of every check; the same evidence counts once."""
        found: dict[Hashable, bool | None] = {}
        for item in self.items:
            if isinstance(item, Figure):
                for panel in item.panels:
                    for claim, verdict in zip(panel.claims, self.verdicts(item, panel), strict=True):
                        found[self.evidence(item, panel, claim)] = verdict.holds
            else:
                found |= {(item.name, row.method): row.agrees for row in self.rows(item)}
        found |= {reference.experiment: reference.holds for reference in self.references()}
        if self.complete:
            found["clock"] = self.faster()
        return list(found.values())


def _papers_scale(method: str) -> float:
    """The number of products per iteration that the paper counts, divided by ours."""
    theirs = published.BLOCK_PRODUCTS.get(method.removesuffix(SHARED))
    return theirs / BLOCK_PRODUCTS[method] if theirs else 1.0
