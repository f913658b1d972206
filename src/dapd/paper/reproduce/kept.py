"""What of a run is worth keeping in a repository: verdicts, tables and one picture per panel, in Markdown.

Nothing in it depends on the time, except `machine.md`: two runs with the same seeds give the same files.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dapd.engines.native.threads import cores
from dapd.paper.reproduce import published
from dapd.paper.reproduce.catalogue import Figure, Item, Table
from dapd.paper.reproduce.intervals import Comparison, table_csv
from dapd.paper.reproduce.outcome import CLOSE, EXACT, Check, Outcome
from dapd.paper.reproduce.runs import EXPERIMENTS, Record, title, write
from dapd.paper.reproduce.sources import versions

WORDS = {True: "agrees", False: "**differs**", None: "undecided"}


def write_outcome(outcome: Outcome, report: Path, out: Path) -> None:
    """Write README.md, machine.md, the tables and the pictures, which are copied from the folder of the report."""
    sections = [_head(outcome), *_intervals(outcome)]
    for figure in outcome.figures:
        sections.append(f"## {figure.title}")
        for panel, checks in zip(figure.panels, outcome.checks(figure), strict=True):
            name = f"{figure.name}_{panel.experiment}_{figure.axes[0]}.svg"
            write(out / name, (report / name).read_text(encoding="utf-8"))
            heading = EXPERIMENTS[panel.experiment].title
            sections += [
                f"### {heading}",
                f"On this instance (seed {panel.seed}) {conditions(outcome.curves(panel))}.",
                f"![{figure.title}: {heading}]({name})",
                _claims(checks),
            ]
    sections += [_predictions(outcome), _references(outcome)]
    for table in outcome.tables:
        write(out / f"{table.name}.csv", table_csv(outcome.rows(table)))
    write(out / "README.md", "\n\n".join(sections) + "\n")
    write(out / "machine.md", _machine(outcome))


def conditions(records: Sequence[Record]) -> str:
    """The condition numbers of an instance, and what else the paper says about it."""
    record = records[0]
    paper = published.COUPLING_CONDITIONS.get(record.run.experiment)
    theirs = f" (in the paper's figure {paper:.3g})" if paper else ""
    said = [f"L/μ = {record.condition:.3g}", f"s_max²/s_min² = {record.coupling_condition:.3g}{theirs}"]
    if record.block_ratio is not None:
        said.append(f"s̄_max/s_max = {record.block_ratio:.3f} (in the paper about {published.BLOCK_RATIO:g})")
    inner = [one.inner for one in records if one.run.method == "capd"]
    if inner:
        said.append(f"CAPD's N = {inner[0]:,}")
    return ", ".join(said[:-1]) + " and " + said[-1]


def title_of(item: Item) -> str:
    """The heading of a figure or table."""
    return item.title if isinstance(item, Figure) else f"Table: {item.title}"


def seeds_text(count: int) -> str:
    """A number of seeds in words."""
    return "one seed" if count == 1 else f"{count} seeds"


def summary(outcome: Outcome) -> list[str]:
    """How many checks have which result, in sentences."""
    claims, intervals, own = outcome.tally()
    return [
        f"Claims of the paper about its figures: {claims[True]} hold, {claims[False]} differ, "
        f"{claims[None]} are undecided.",
        f"Intervals of its tables: {intervals[Comparison.overlaps]} overlap ours, {intervals[Comparison.better]} are "
        f"better here, {intervals[Comparison.worse]} worse, {intervals[Comparison.undecided]} undecided.",
        f"Checks of our own references, predictions and clock: {own[True]} hold, {own[False]} do not, {own[None]} are "
        "undecided.",
    ]


def _head(outcome: Outcome) -> str:
    kind = "a quick" if outcome.quick else "a full"
    lines = "\n".join(f"- {line}" for line in summary(outcome))
    return (
        f"# The outcome of {kind} run\n\n`dapd reproduce{'' if outcome.quick else ' --full'}` with "
        f"{seeds_text(outcome.seeds)} per table wrote these files; [machine.md](machine.md) has the machine and the "
        f"times. The paper is {published.PAPER}.\n\n{lines}"
    )


def _intervals(outcome: Outcome) -> list[str]:
    if not outcome.tables:
        return []
    lines = [
        "| table | method | here | paper | verdict | |",
        "|---|---|---|---|---|---|",
        *(line for table in outcome.tables for line in _interval_rows(outcome, table)),
    ]
    said = (
        "95 % confidence intervals of the relative error, computed on its logarithm. An interval overlaps the paper's, "
        "or it is better or worse, that is, it lies below or above."
    )
    return ["## Tables", said, "\n".join(lines)]


def _interval_rows(outcome: Outcome, table: Table) -> list[str]:
    iterations = table.quick if outcome.quick else table.full
    name = f"[{table.title}]({table.name}.csv), {iterations:,} iterations"
    return [
        f"| {name} | {title(row.method)} | {row.here} | {row.paper} | {row.verdict} | {row.remark} |"
        for row in outcome.rows(table)
    ]


def _claims(checks: Sequence[Check]) -> str:
    lines = ["| claim | verdict | evidence |", "|---|---|---|"]
    for verdict, _, own, repeated in checks:
        notes = (". Our own check, not a claim of the paper" if own else "") + (
            ". The same runs as above, counted there" if repeated else ""
        )
        lines.append(f"| {verdict.claim} | {WORDS[verdict.holds]} | {verdict.evidence}{notes}. |")
    return "\n".join(lines)


def _predictions(outcome: Outcome) -> str:
    lines = [
        "## Predicted and counted",
        "",
        "Gradients and products with M or Mᵀ (those of a block-coordinate method are with single blocks): counted, and "
        f"predicted by `dapd.theory.counts`, which must agree within {CLOSE:.0%}. Π is the theorem's, per iteration "
        "(CAPD: per outer one).",
        "",
        "| problem | method | Π | gradients | predicted | products | predicted | verdict |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for one in outcome.predictions():
        pairs = " | ".join(f"{counted:,.0f} | {predicted:,.0f}" for _, counted, predicted in one.pairs)
        rate = f"{one.Pi:,.0f}" if one.Pi else "–"
        lines.append(f"| {one.run.experiment} | {title(one.run.method)} | {rate} | {pairs} | {WORDS[one.holds]} |")
    return "\n".join(lines)


def _references(outcome: Outcome) -> str:
    lines = [
        "## References",
        "",
        f"The worst residuals of the references over all instances; they must be at most {EXACT:.0e}.",
        "",
        "| problem | stationarity | feasibility | paper's reference | verdict |",
        "|---|---|---|---|---|",
    ]
    for one in outcome.references():
        paper = published.GUROBI_RESIDUALS.get(one.experiment)
        theirs = "{:.1e}, {:.1e}".format(*paper) if paper else "not stated"
        residuals = f"{one.stationarity:.1e} | {one.feasibility:.1e}"
        lines.append(f"| {EXPERIMENTS[one.experiment].title} | {residuals} | {theirs} | {WORDS[one.holds]} |")
    return "\n".join(lines)


def _machine(outcome: Outcome) -> str:
    records = [outcome.records[run] for run in outcome.all_runs()]
    clock, jobs = outcome.clock(), sorted({one.jobs for one in outcome.sessions if one.full is not outcome.quick})
    lines = [
        "# Machine and times",
        "",
        f"{', '.join(sorted({record.processor for record in records}))}, {cores()} cores.",
        "",
        *(f"- {line}" for line in sorted({record.made_by for record in records})),
        "- " + ", ".join(f"{name} {text}" for name, text in versions().items()),
        "",
    ]
    if clock is not None:
        with_jobs = " and ".join(map(str, jobs))
        lines += [
            f"Wall-clock time of all runs: {clock:,.0f} s with --jobs {with_jobs} (the paper: "
            f"{published.TOTAL_SECONDS:,.0f} s on {published.MACHINE}).",
            "",
        ]
    lines += ["| part | seconds of one core here | wall-clock seconds of the paper |", "|---|---|---|"]
    for item in outcome.items:
        here, there = outcome.seconds(outcome.runs(item)), sum(published.SECONDS[item.name])
        lines.append(f"| {title_of(item)} | {here:,.1f} | {there:,.1f} |")
    lines.append(f"| together, shared runs counted once | {outcome.seconds(outcome.all_runs()):,.1f} | |")
    return "\n".join(lines) + "\n"
