"""The report: every figure and table beside the paper's, in one HTML file that needs nothing else."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path

from dapd.reproduce import published
from dapd.reproduce.catalogue import Figure, Item, Panel, Table
from dapd.reproduce.claims import Curve, Verdict
from dapd.reproduce.intervals import Row, rows, runs_csv, table_csv
from dapd.reproduce.machine import cores, processor, versions
from dapd.reproduce.plots import AXES, MEASURES, picture
from dapd.reproduce.problems import EXPERIMENTS
from dapd.reproduce.runs import Record, Run, title, write

UNITS = {"iterations": "iterations", "products": "products with blocks"}
MARKS = {True: ("good", "✓ agrees"), False: ("bad", "✗ differs"), None: ("open", "– not decided")}


@dataclass(frozen=True)
class Outcome:
    """What was run, and how."""

    items: Sequence[Item]
    records: Mapping[Run, Record]
    quick: bool
    seeds: int
    jobs: int

    def runs(self, item: Item) -> list[Run]:
        """The runs of an item."""
        return item.runs(quick=self.quick, seeds=self.seeds)

    def curves(self, panel: Panel) -> list[Record]:
        """The records of a panel, one a method."""
        return [self.records[run] for run in panel.runs(quick=self.quick)]

    def verdicts(self, figure: Figure, panel: Panel) -> list[Verdict]:
        """What the paper observes in a panel, each observation held against our curves."""
        axis = figure.axes[0]
        curves = {
            record.run.method: Curve(getattr(record, axis), getattr(record, figure.measure))
            for record in self.curves(panel)
        }
        return [claim.check(curves, UNITS[axis]) for claim in panel.claims]

    def rows(self, table: Table) -> list[Row]:
        """A table's lines."""
        return rows(table, self.records, quick=self.quick, seeds=self.seeds)

    def seconds(self, runs: Sequence[Run]) -> float:
        """What the runs took, one core each."""
        return sum(self.records[run].wall for run in dict.fromkeys(runs))

    def judgements(self) -> list[bool | None]:
        """Every check of the figures and the tables."""
        found: list[bool | None] = []
        for item in self.items:
            if isinstance(item, Figure):
                found += [verdict.holds for panel in item.panels for verdict in self.verdicts(item, panel)]
            else:
                found += [row.agrees for row in self.rows(item)]
        return found


def write_report(outcome: Outcome, out: Path) -> Path:
    """Write pictures, CSV and index.html into a folder; return the path of the page."""
    sections = [
        _figure(outcome, item, out) if isinstance(item, Figure) else _table(outcome, item, out)
        for item in outcome.items
    ]
    body = "\n".join([_head(outcome), *sections, _references(outcome), _times(outcome), _machine()])
    css = files("dapd.reproduce").joinpath("report.css").read_text(encoding="utf-8")
    page = (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>dapd: the paper reproduced</title>\n<style>\n{css}</style>\n</head>\n"
        f"<body>\n{body}\n</body>\n</html>\n"
    )
    write(out / "index.html", page)
    return out / "index.html"


def _head(outcome: Outcome) -> str:
    judged = outcome.judgements()
    agree, differ, open_ = (judged.count(kind) for kind in (True, False, None))
    mode = (
        f"This is the quick report: the paper's problems with smaller budgets and {_seeds(outcome.seeds)}. What needs "
        "more is marked as not decided; <code>dapd reproduce --full</code> decides it."
        if outcome.quick
        else f"This is the full report, with the paper's budgets and {_seeds(outcome.seeds)}."
    )
    links = "".join(f'<li><a href="#{item.name}">{escape(_title(item))}</a></li>' for item in outcome.items)
    seconds = outcome.seconds([run for item in outcome.items for run in outcome.runs(item)])
    cards = [
        (f"{agree}", "checks agree with the paper"),
        (f"{differ}", "differ"),
        (f"{open_}", "not decided by this budget"),
        (f"{seconds:,.0f} s", "of computing, one core a run"),
    ]
    return (
        "<h1>The paper's experiments, reproduced by dapd</h1>\n"
        f'<p class="soft">{escape(published.PAPER)}</p>\n<p>{mode} Errors are measured by references that none of the '
        'methods shown has touched; their own residuals are at the end.</p>\n<ul class="summary">'
        + "".join(f"<li><b>{number}</b>{text}</li>" for number, text in cards)
        + f'</ul>\n<nav><ul>{links}<li><a href="#references">References</a></li>'
        '<li><a href="#times">Times</a></li><li><a href="#machine">Machine</a></li></ul></nav>'
    )


def _figure(outcome: Outcome, figure: Figure, out: Path) -> str:
    parts = [f'<h2 id="{figure.name}">{escape(figure.title)}</h2>']
    for panel in figure.panels:
        records = outcome.curves(panel)
        parts.append(f"<h3>{escape(EXPERIMENTS[panel.experiment].title)}</h3>")
        parts.append(f'<p class="soft">On this instance {_conditions(records[0])}.</p>')
        parts.append(_claims(outcome.verdicts(figure, panel)))
        images = []
        for axis in figure.axes:
            svg = picture(records, axis=axis, measure=figure.measure)
            write(out / f"{figure.name}_{panel.experiment}_{axis}.svg", svg)
            images.append(_image(svg, f"{MEASURES[figure.measure]} against {AXES[axis]}", records))
        parts.append(f'<div class="panels">{"".join(images)}</div>')
    write(out / f"{figure.name}.csv", runs_csv(outcome.runs(figure), outcome.records))
    return "\n".join(parts)


def _image(svg: str, caption: str, records: Sequence[Record]) -> str:
    names = ", ".join(title(record.run.method) for record in records)
    data = base64.b64encode(svg.encode()).decode()
    return (
        f'<figure><img alt="{escape(caption)}: {escape(names)}" src="data:image/svg+xml;base64,{data}">'
        f"<figcaption>{escape(caption)}</figcaption></figure>"
    )


def _claims(verdicts: Sequence[Verdict]) -> str:
    lines = []
    for verdict in verdicts:
        kind, mark = MARKS[verdict.holds]
        lines.append(
            f'<li class="{kind}"><span class="mark">{mark}</span> {escape(verdict.claim)}<br>'
            f'<span class="soft">{escape(verdict.evidence)}.</span></li>'
        )
    return f'<ul class="claims">{"".join(lines)}</ul>'


def _table(outcome: Outcome, table: Table, out: Path) -> str:
    lines = outcome.rows(table)
    write(out / f"{table.name}.csv", table_csv(lines))
    write(out / f"{table.name}_runs.csv", runs_csv(outcome.runs(table), outcome.records))
    iterations = table.quick if outcome.quick else table.full
    body = []
    for row in lines:
        kind, mark = MARKS[row.agrees]
        ours = str(row.ours) if row.ours else ", ".join(f"{error:.2e}" for error in row.errors)
        body.append(
            f'<tr class="{kind}"><td>{title(row.method)}</td><td class="number">{ours}</td>'
            f'<td class="number">{row.paper}</td><td><span class="mark">{mark}</span> {escape(row.remark)}</td></tr>'
        )
    return (
        f'<h2 id="{table.name}">{escape(_title(table))}</h2>\n<p class="soft">95 % confidence interval of the relative '
        f"error after {iterations:,} iterations over {_seeds(outcome.seeds)}, computed on its logarithm.</p>\n"
        '<div class="scroll"><table><thead><tr><th>method</th><th class="number">here</th><th class="number">paper</th>'
        f"<th></th></tr></thead><tbody>{''.join(body)}</tbody></table></div>"
    )


def _references(outcome: Outcome) -> str:
    worst: dict[str, tuple[float, float]] = {}
    for run, record in outcome.records.items():
        stationarity, feasibility = worst.get(run.experiment, (0.0, 0.0))
        worst[run.experiment] = max(stationarity, record.reference[0]), max(feasibility, record.reference[1])
    body = []
    for name, experiment in EXPERIMENTS.items():
        if name in worst:
            paper = published.GUROBI_RESIDUALS.get(name)
            theirs = "{:.1e}, {:.1e}".format(*paper) if paper else "not stated"
            body.append(
                f'<tr><td>{escape(experiment.title)}</td><td class="number">{worst[name][0]:.1e}</td>'
                f'<td class="number">{worst[name][1]:.1e}</td><td class="number">{theirs}</td></tr>'
            )
    return (
        '<h2 id="references">References</h2>\n<p>Compressed sensing is solved by Newton on its KKT system, system '
        "identification and the QP with an ℓ₁ norm by Clarabel's interior point with Newton after it, and the QP with "
        "inequalities is built from its solution. The worst residuals over all instances shown, beside those of the "
        'paper’s Gurobi solutions:</p>\n<div class="scroll"><table><thead><tr><th>problem</th>'
        '<th class="number">‖∇f(x) + Mᵀy‖</th><th class="number">‖y − prox(y + Mx − b)‖</th>'
        f'<th class="number">paper</th></tr></thead><tbody>{"".join(body)}</tbody></table></div>'
    )


def _times(outcome: Outcome) -> str:
    body = []
    for item in outcome.items:
        paper = sum(published.SECONDS[item.name])
        body.append(
            f'<tr><td>{escape(_title(item))}</td><td class="number">{outcome.seconds(outcome.runs(item)):,.1f} s</td>'
            f'<td class="number">{paper:,.1f} s</td></tr>'
        )
    total = outcome.seconds([run for item in outcome.items for run in outcome.runs(item)])
    there = sum(sum(published.SECONDS[item.name]) for item in outcome.items)
    body.append(
        f'<tr><th>together, a run that serves two counted once</th><th class="number">{total:,.1f} s</th>'
        f'<th class="number">{there:,.1f} s</th></tr>'
    )
    budget = "Budgets here are smaller than the paper's, so that the times don't compare. " if outcome.quick else ""
    return (
        f'<h2 id="times">Times</h2>\n<p>{budget}Here: the sum over runs, each on one core of {escape(processor())}; '
        f"{outcome.jobs} of them at a time, so that about {total / outcome.jobs:,.0f} s went by. Paper: wall-clock "
        f"seconds of its notebooks on all cores of its machine ({escape(published.MACHINE)}).</p>\n"
        '<div class="scroll"><table><thead><tr><th>part</th><th class="number">here</th><th class="number">paper</th>'
        f"</tr></thead><tbody>{''.join(body)}</tbody></table></div>"
    )


def _machine() -> str:
    body = "".join(f"<tr><td>{name}</td><td>{escape(text)}</td></tr>" for name, text in versions().items())
    return (
        f'<h2 id="machine">Machine</h2>\n<p>{escape(processor())}, {cores()} cores.</p>\n'
        f'<div class="scroll"><table><tbody>{body}</tbody></table></div>'
    )


def _title(item: Item) -> str:
    return item.title if isinstance(item, Figure) else f"Table: {item.title}"


def _seeds(count: int) -> str:
    return "one seed" if count == 1 else f"{count} seeds"


def _conditions(record: Record) -> str:
    return f"L/μ = {record.condition:.3g} and s_max²/s_min² = {record.coupling_condition:.3g}"
