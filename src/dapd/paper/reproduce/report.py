"""The report: every figure and table next to the paper's, in one self-contained HTML file."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path

from dapd.engines.native.threads import cores
from dapd.paper.reproduce import published
from dapd.paper.reproduce.catalogue import Figure, Item, Panel, Table
from dapd.paper.reproduce.claims import Order, Verdict
from dapd.paper.reproduce.intervals import Comparison, runs_csv, seconds_csv, table_csv
from dapd.paper.reproduce.kept import conditions, seeds_text, title_of, write_outcome
from dapd.paper.reproduce.outcome import CLOSE, EXACT, Check, Outcome
from dapd.paper.reproduce.plots import AXES, MEASURES, papers_scale, picture
from dapd.paper.reproduce.runs import EXPERIMENTS, Record, Run, title, write
from dapd.paper.reproduce.sources import processor, versions

STATIONARITY, FEASIBILITY = "‖∇f(x) + Mᵀy‖", "‖y − prox(y + Mx − b)‖"
MARKS = {True: ("good", "✓ agrees"), False: ("bad", "✗ differs"), None: ("open", "– undecided")}
INTERVAL_MARKS = {
    Comparison.overlaps: ("good", "✓ overlaps"),
    Comparison.better: ("better", "▲ better"),
    Comparison.worse: ("bad", "✗ worse"),
    Comparison.undecided: ("open", "– undecided"),
}
DrawFigure = Callable[[tuple[Run, ...], str, str], str]


def write_report(outcome: Outcome, out: Path) -> Path:
    """Write pictures, CSV, index.html and what is worth keeping into a folder; return the path of the page."""

    @cache  # figures share runs
    def draw(runs: tuple[Run, ...], axis: str, measure: str) -> str:
        return picture([outcome.records[run] for run in runs], axis=axis, measure=measure)

    sections = [
        _figure(outcome, item, out, draw) if isinstance(item, Figure) else _table(outcome, item, out)
        for item in outcome.items
    ]
    parts = [_head(outcome), *sections, _predictions(outcome), _references(outcome), _times(outcome), _machine()]
    body = "\n".join(parts)
    write_outcome(outcome, out, out / "outcome")
    css = files("dapd.paper.reproduce").joinpath("report.css").read_text(encoding="utf-8")
    page = (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"{_kind(outcome.quick)}\n"
        f"<title>dapd: the paper reproduced</title>\n<style>\n{css}</style>\n</head>\n"
        f"<body>\n{body}\n</body>\n</html>\n"
    )
    write(out / "index.html", page)
    return out / "index.html"


def is_full(page: Path) -> bool:
    """Whether a page is a full report."""
    try:
        return _kind(False) in page.read_text(encoding="utf-8")
    except OSError:
        return False


def _kind(quick: bool) -> str:
    return f'<meta name="dapd-report" content="{"quick" if quick else "full"}">'


def _head(outcome: Outcome) -> str:
    tally = outcome.tally()
    mode = (
        f"This is the quick report: the paper's problems with smaller budgets and {seeds_text(outcome.seeds)}. Checks "
        "that need more are undecided; <code>dapd reproduce --full</code> decides most of them."
        if outcome.quick
        else "This is the full report, with the paper's budgets as far as it states them, and "
        f"{seeds_text(outcome.seeds)}."
    )
    links = "".join(f'<li><a href="#{item.name}">{escape(title_of(item))}</a></li>' for item in outcome.items)
    seconds = outcome.seconds(outcome.all_runs())
    cards = [
        (
            f"{tally.claims[True]}",
            f"claims of the paper hold, {tally.claims[False]} differ, {tally.claims[None]} are undecided",
        ),
        (
            f"{tally.intervals[Comparison.overlaps]}",
            "intervals overlap, "
            f"{tally.intervals[Comparison.better]} are better, {tally.intervals[Comparison.worse]} worse, "
            f"{tally.intervals[Comparison.undecided]} undecided",
        ),
        (
            f"{tally.own[True]}",
            "checks of our own references, predictions and clock hold, "
            f"{tally.own[False]} do not, {tally.own[None]} are undecided",
        ),
        (f"{seconds:,.0f} s", "of computing, one core per run"),
    ]
    return (
        "<h1>The paper's experiments, reproduced by dapd</h1>\n"
        f'<p class="soft">{escape(published.PAPER)}</p>\n<p>{mode} Errors are measured against references that were '
        'computed without any of the methods shown; their own residuals are at the end.</p>\n<ul class="summary">'
        + "".join(f"<li><b>{number}</b>{text}</li>" for number, text in cards)
        + f'</ul>\n<nav><ul>{links}<li><a href="#predictions">Predicted and counted</a></li>'
        '<li><a href="#references">References</a></li>'
        '<li><a href="#times">Times</a></li><li><a href="#machine">Machine</a></li></ul></nav>'
    )


def _figure(outcome: Outcome, figure: Figure, out: Path, draw: DrawFigure) -> str:
    parts = [f'<h2 id="{figure.name}">{escape(figure.title)}</h2>']
    for panel, checks in zip(figure.panels, outcome.checks(figure), strict=True):
        records = outcome.curves(panel)
        parts.append(f"<h3>{escape(EXPERIMENTS[panel.experiment].title)}</h3>")
        parts.append(f'<p class="soft">On this instance (seed {panel.seed}) {escape(conditions(records))}.</p>')
        parts.append(_claims(checks))
        parts.append(_by_the_papers_count(outcome, figure, panel))
        images = []
        for axis in figure.axes:
            svg = draw(tuple(record.run for record in records), axis, figure.measure)
            write(out / f"{figure.name}_{panel.experiment}_{axis}.svg", svg)
            caption = f"{MEASURES[figure.measure]} against {AXES[axis]}"
            if axis == "iterations":
                whole = EXPERIMENTS[panel.experiment].blocks == 1
                caption += "; BMM = 2 × iterations here" if whole else ", each method's own"
            images.append(_image(svg, caption, records))
        parts.append(f'<div class="panels">{"".join(images)}</div>{_shorter(records)}')
    _write_points(outcome, figure, out / f"{figure.name}.csv")
    return "\n".join(parts)


def _write_points(outcome: Outcome, item: Item, path: Path) -> None:
    """Write the points of all curves, and apart from them their times, which no two runs have in common."""
    write(path, runs_csv(outcome.runs(item), outcome.records))
    write(path.with_name(f"{path.stem}_seconds.csv"), seconds_csv(outcome.runs(item), outcome.records))


def _by_the_papers_count(outcome: Outcome, figure: Figure, panel: Panel) -> str:
    """What changes if the products of y-SBC-DAPD are counted as in the paper."""
    scale = next((papers_scale(one) for one in outcome.curves(panel) if one.run.method == "y-sbc-dapd"), 1.0)
    if scale == 1.0:
        return ""
    theirs = published.PUBLISHED_BLOCK_PRODUCTS["y-sbc-dapd"]
    ours = f"{theirs / scale:.3g}"
    here, there = outcome.verdicts(figure, panel), outcome.verdicts(figure, panel, papers_count=True)
    changed = [new for old, new in zip(here, there, strict=True) if new.holds is not old.holds]
    changes = "; ".join(f"{MARKS[one.holds][1]}: {one.claim} {one.evidence}" for one in changed)
    order = next(one.evidence for one, claim in zip(there, panel.claims, strict=True) if isinstance(claim, Order))
    return (
        f'<p class="soft">y-SBC-DAPD takes {ours} products with blocks per iteration here, since MMᵀ is stored, and '
        f"{theirs} in the paper's count; the plot shows both. With {theirs}, "
        + escape(f"these checks change: {changes}." if changed else f"every check gives the same result ({order}).")
        + "</p>"
    )


def _shorter(records: Sequence[Record]) -> str:
    """A footnote for methods with inner iterations, whose last outer iteration may not fit into the budget."""
    ends = {
        title(record.run.method): f"{record.iterations[-1]:,} of {record.run.iterations:,}"
        for record in records
        if record.iterations[-1] < record.run.iterations
    }
    notes = [
        f"{name} ends after {text} iterations, with its last complete outer iteration" for name, text in ends.items()
    ]
    return f'<p class="soft">{escape("; ".join(notes))}.</p>' if notes else ""


def _image(svg: str, caption: str, records: Sequence[Record]) -> str:
    names = ", ".join(title(record.run.method) for record in records)
    data = base64.b64encode(svg.encode()).decode()
    return (
        f'<figure><img alt="{escape(caption)}: {escape(names)}" src="data:image/svg+xml;base64,{data}">'
        f"<figcaption>{escape(caption)}</figcaption></figure>"
    )


def _claims(checks: Sequence[Check]) -> str:
    lines = []
    for verdict, _, own, repeated in checks:
        kind, mark = MARKS[verdict.holds]
        counted = " The same runs as above, counted there." if repeated else ""
        counted += " Our own check, not a claim of the paper." if own else ""
        lines.append(
            f'<li class="{kind}{" again" if repeated else ""}"><span class="mark">{mark}</span> '
            f'{escape(verdict.claim)}<br><span class="soft">{escape(verdict.evidence)}.{counted}</span></li>'
        )
    return f'<ul class="claims">{"".join(lines)}</ul>'


def _table(outcome: Outcome, table: Table, out: Path) -> str:
    lines = outcome.rows(table)
    write(out / f"{table.name}.csv", table_csv(lines))
    _write_points(outcome, table, out / f"{table.name}_runs.csv")
    iterations = table.quick if outcome.quick else table.full
    body = []
    for row in lines:
        kind, mark = INTERVAL_MARKS[row.verdict]
        whole = ' class="number"' if row.ours or len(row.errors) == 1 else ""  # a list of errors may wrap
        body.append(
            f'<tr class="{kind}"><td>{title(row.method)}</td><td{whole} data-label="here">{row.here}</td>'
            f'<td class="number" data-label="paper">{row.paper}</td>'
            f'<td><span class="mark">{mark}</span> {escape(row.remark)}</td></tr>'
        )
    shown = [outcome.records[run] for run in outcome.runs(table) if run.seed == 0]
    return (
        f'<h2 id="{table.name}">{escape(title_of(table))}</h2>\n<p class="soft">95 % confidence interval of the '
        f"relative error after {iterations:,} iterations over {seeds_text(outcome.seeds)}, computed on its "
        "logarithm.</p>\n" + _grid(["method", "here", "paper", ""], body) + _shorter(shown)
    )


def _predictions(outcome: Outcome) -> str:
    body = []
    for one in outcome.predictions():
        kind, mark = MARKS[one.holds]
        cells = [f'<td class="number" data-label="{name}">{counted:,.0f}</td>' for name, counted, _ in one.pairs]
        body.append(
            f'<tr class="{kind}"><td>{escape(one.run.experiment)}</td><td>{title(one.run.method)}</td>'
            f'<td class="number" data-label="Π">{f"{one.Pi:,.0f}" if one.Pi else "–"}</td>{"".join(cells)}'
            f'<td data-label="predicted"><span class="mark">{mark.split()[0]}</span> {one.deviation:.1%} off</td></tr>'
        )
    return (
        '<h2 id="predictions">Predicted and counted</h2>\n<p>Gradients and products with M or Mᵀ (those of a '
        "block-coordinate method are with single blocks), and how far <code>dapd.theory.counts</code> is off, at most "
        f"{CLOSE:.0%}. The theorem of a method says that its error measure Ψ shrinks by the factor 1 − 1/Π per "
        "iteration (CAPD: per outer one).</p>\n"
        + _grid(["problem", "method", "Π", "gradients", "products", "predicted"], body)
    )


def _references(outcome: Outcome) -> str:
    body = []
    for one in outcome.references():
        kind, mark = MARKS[one.holds]
        paper = published.GUROBI_RESIDUALS.get(one.experiment)
        theirs = "{:.1e}, {:.1e}".format(*paper) if paper else "not stated"
        body.append(
            f'<tr class="{kind}"><td>{escape(EXPERIMENTS[one.experiment].title)}</td>'
            f'<td class="number" data-label="{STATIONARITY}">{one.stationarity:.1e}</td>'
            f'<td class="number" data-label="{FEASIBILITY}">{one.feasibility:.1e}</td>'
            f'<td class="number" data-label="paper">{theirs}</td>'
            f'<td><span class="mark">{mark.split()[0]} {"≤" if one.holds else ">"} {EXACT:.0e}</span></td></tr>'
        )
    return (
        '<h2 id="references">References</h2>\n<p>Compressed sensing is solved by Newton on its KKT system, system '
        "identification and the QP with an ℓ₁ norm by Clarabel's interior point followed by Newton, and the QP with "
        "inequalities is built from its solution. These are the worst residuals over all instances, next to those of "
        f"the paper’s Gurobi solutions; ours must be at most {EXACT:.0e}, in absolute terms:</p>\n"
        + _grid(["problem", STATIONARITY, FEASIBILITY, "paper", ""], body)
    )


def _times(outcome: Outcome) -> str:
    times = [
        (title_of(item), outcome.seconds(outcome.runs(item)), sum(published.SECONDS[item.name]))
        for item in outcome.items
    ]
    together = outcome.seconds(outcome.all_runs()), sum(there for _, _, there in times)
    body = [
        f'<tr><td>{escape(part)}</td><td class="number" data-label="here">{here:,.1f} s</td>'
        f'<td class="number" data-label="paper">{there:,.1f} s</td></tr>'
        for part, here, there in (*times, ("together, shared runs counted once", *together))
    ]
    budget = "Budgets here are smaller than the paper's, so the times are not comparable. " if outcome.quick else ""
    made_on = ", ".join(sorted({outcome.records[run].processor for run in outcome.all_runs()}))
    return (
        f'<h2 id="times">Times</h2>\n<p>{budget}Here: the sum over runs, each on one core of {escape(made_on)}. Paper: '
        f"wall-clock seconds of its notebooks on all cores of its machine ({escape(published.MACHINE)}).</p>\n"
        + _clock(outcome)
        + _grid(["part", "here", "paper"], body)
    )


def _clock(outcome: Outcome) -> str:
    """The total wall-clock time next to the paper's: a check that only the full report has."""
    if not outcome.complete:
        return ""
    clock, paper = outcome.clock(), published.TOTAL_SECONDS
    jobs = ", ".join(sorted({str(session.jobs) for session in outcome.sessions if session.full}))
    evidence = (
        f"Wall-clock time without drawing this page: {clock:,.0f} s here with --jobs {jobs}, "
        f"{paper:,.0f} s in the paper, on 16 cores"
        if clock is not None
        else "The log of sessions does not cover every run"
    )
    verdict = Verdict("Everything together takes less time than in the paper.", outcome.faster(), evidence)
    return _claims([Check(verdict, "clock", own=True, repeated=False)])


def _grid(heads: Sequence[str], body: Sequence[str]) -> str:
    """A table that becomes a stack of cells on a narrow screen."""
    shown = "".join(f"<th>{head}</th>" for head in heads)
    return (
        f'<div class="scroll"><table class="stack"><thead><tr>{shown}</tr></thead>'
        f"<tbody>{''.join(body)}</tbody></table></div>"
    )


def _machine() -> str:
    body = "".join(f"<tr><td>{name}</td><td>{escape(text)}</td></tr>" for name, text in versions().items())
    return (
        f'<h2 id="machine">Machine</h2>\n<p>{escape(processor())}, {cores()} cores.</p>\n'
        f'<div class="scroll"><table><tbody>{body}</tbody></table></div>'
    )
