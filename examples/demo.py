"""The demo: the gallery beside other solvers, then the paper's experiments, in one self-contained page.

python examples/demo.py --out report
"""

from __future__ import annotations

import argparse
import base64
from html import escape
from pathlib import Path
from time import monotonic

from rich.console import Console

from dapd import reproduce as paper
from dapd.cli.paper import make_report
from dapd.engines.native.threads import cores
from dapd.paper.reproduce.sources import processor
from run import NAMES, Outcome, run, table

# What `dapd reproduce` draws in addition are longer runs of the same problems, other measures of them, and variants.
ITEMS = ["figure-1", "figure-2", "figure-3", "figure-qp", "table-cst-1", "table-cst-2", "table-nse-1", "table-nse-2"]


def gallery(outcomes: list[Outcome]) -> str:
    """The pictures, then the table, as HTML."""
    cards = []
    for one in outcomes:
        data = base64.b64encode(one.pictures[0].read_bytes()).decode()
        cards.append(
            f'<h3 id="{one.name}">{escape(one.title)}</h3>\n<figure><img alt="{escape(one.title)}" '
            f'src="data:image/png;base64,{data}"></figure>\n'
            f'<p class="soft">{escape(one.text)} <code>examples/plot_{one.name}.py</code></p>'
        )
    rows = []
    for one in outcomes:
        kind = "good" if one.ratio > 1.2 else "bad" if one.ratio < 1 / 1.2 else ""
        cells = [
            ("dapd's method", one.method),
            ("dapd, s", f"{one.times['dapd']:.3f}"),
            ("other, s", f"{one.times[one.other]:.3f} ({one.other})"),
            ("times faster", f"{one.ratio:.2g}"),
            ("objectives differ by", f"{one.difference:.0e}"),
        ]
        shown = "".join(f'<td class="number" data-label="{name}">{escape(text)}</td>' for name, text in cells)
        rows.append(f'<tr class="{kind}"><td><a href="#{one.name}">{escape(one.title)}</a></td>{shown}</tr>')
    heads = "".join(f"<th>{name}</th>" for name in ("example", *(name for name, _ in cells)))
    return (
        "<h1>dapd: problems that people know, and the paper</h1>\n"
        f"<p>{len(outcomes)} problems, each solved by dapd and by an independent solver, and below them the paper's "
        "experiments.</p>\n"
        + "\n".join(cards)
        + '\n<h2 id="beside">Beside other solvers</h2>\n<p class="soft">Seconds of dapd include building the problem; '
        "those of the other solver are its own, without the translation by CVXPY. If dapd's method is "
        "<code>clarabel</code>, <code>auto</code> predicted that it would be fastest, and the rest is what choosing "
        f"cost. One run each, on {escape(processor())}, {cores()} cores.</p>\n"
        f'<div class="scroll"><table class="stack"><thead><tr>{heads}</tr></thead><tbody>{"".join(rows)}</tbody>'
        "</table></div>\n"
    )


def main() -> None:
    """Run everything and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("report"))
    out: Path = parser.parse_args().out
    console = Console(width=None if Console().is_terminal else 140)
    began, outcomes = monotonic(), []
    for name in NAMES:
        console.print(f"{len(outcomes) + 1}/{len(NAMES)}  {name}", highlight=False)
        outcomes.append(run(name, out / "gallery"))
    console.print(table(outcomes))
    page = make_report(paper.choose(ITEMS), console, out, full=False)
    both = out / "demo.html"
    text = page.read_text(encoding="utf-8")
    both.write_text(text.replace("<body>\n", f"<body>\n{gallery(outcomes)}\n", 1), encoding="utf-8")
    console.print(f"Everything took {monotonic() - began:.0f} s.", highlight=False)
    console.print(f"Pictures, table and the paper in one page: {both}", highlight=False, soft_wrap=True)


if __name__ == "__main__":
    main()
