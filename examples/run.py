"""Run the examples, write their pictures, and print how dapd compares with an independent solver on each.

python examples/run.py                         all of them, pictures in examples/out
python examples/run.py transport svm --out x   two of them, pictures in x
"""

from __future__ import annotations

import argparse
import contextlib
import io
import runpy
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from rich.console import Console
from rich.table import Table

FOLDER = Path(__file__).parent
NAMES = [path.stem.removeprefix("plot_") for path in sorted(FOLDER.glob("plot_*.py"))]


class Outcome(NamedTuple):
    """What an example found; each script leaves these names behind."""

    name: str
    title: str
    text: str  # the first paragraph of its docstring
    pictures: list[Path]
    printed: str
    method: str  # of dapd
    times: dict[str, float]  # seconds of dapd, problem included, and of the other solver alone
    difference: float  # of the objectives, relative
    seconds: float  # of the whole script

    @property
    def other(self) -> str:
        """The solver that dapd was compared with."""
        return next(name for name in self.times if name != "dapd")

    @property
    def ratio(self) -> float:
        """How many times faster dapd was."""
        return self.times[self.other] / self.times["dapd"]


def run(name: str, out: Path) -> Outcome:
    """Run one example and save its figures."""
    path, printed, began = FOLDER / f"plot_{name}.py", io.StringIO(), perf_counter()
    plt.close("all")
    with contextlib.redirect_stdout(printed), plt.rc_context():
        found: dict[str, Any] = runpy.run_path(str(path))
    out.mkdir(parents=True, exist_ok=True)
    pictures = []
    for k in plt.get_fignums():
        picture = out / (f"{name}.png" if k == 1 else f"{name}_{k}.png")
        plt.figure(k).savefig(picture, dpi=130)
        pictures.append(picture)
    plt.close("all")
    title, _, text = (found["__doc__"] or "").strip().partition("\n")
    paragraph = " ".join(text.partition("\n\n")[2].partition("\n\n")[0].split())
    return Outcome(
        name,
        title,
        paragraph,
        pictures,
        printed.getvalue(),
        found["result"].method,
        found["times"],
        found["difference"],
        perf_counter() - began,
    )


def table(outcomes: list[Outcome]) -> Table:
    """One row per example."""
    shown = Table("example", "dapd's method", title="The gallery: dapd beside another solver")
    for column in ("dapd, s", "other, s", "other", "ratio", "objectives differ by"):
        shown.add_column(column, justify="left" if column == "other" else "right")
    for one in outcomes:
        mine, theirs = one.times["dapd"], one.times[one.other]
        colour = "green" if one.ratio > 1.2 else "red" if one.ratio < 1 / 1.2 else "default"
        shown.add_row(
            one.title,
            one.method,
            f"{mine:.3f}",
            f"{theirs:.3f}",
            one.other,
            f"[{colour}]{one.ratio:.2g}[/]",
            f"{one.difference:.0e}",
        )
    return shown


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="name", help=f"any of {', '.join(NAMES)}; all by default")
    parser.add_argument("--out", type=Path, default=FOLDER / "out")
    options = parser.parse_args()
    unknown = set(options.names) - set(NAMES)
    if unknown:
        parser.error(f"unknown example {', '.join(sorted(unknown))}; known: {', '.join(NAMES)}")
    console = Console(width=None if Console().is_terminal else 140)
    outcomes = []
    for name in options.names or NAMES:
        outcomes.append(run(name, options.out))
        console.print(f"{name}: {outcomes[-1].seconds:.1f} s, {', '.join(map(str, outcomes[-1].pictures))}")
    console.print(table(outcomes))


if __name__ == "__main__":
    main()
