"""dapd and its peers: time to a verified answer, set-up included.

    python benchmarks/peers.py classes                       # OSQP's seven classes, three sizes, three seeds
    python benchmarks/peers.py everyday paper control
    python benchmarks/peers.py maros --folder FOLDER         # .mat files with P, q, A, l, u
    python benchmarks/peers.py large --time-limit 300
    python benchmarks/peers.py classes --quick               # smallest size, one seed, short time limit

Every answer is judged by one function, `peers.conic.residuals`: absolute, in the ∞-norm, on primal residual, dual
residual and gap. A solver whose answer misses the tolerance is asked for a stricter one;
only the run whose answer meets it counts. A dagger marks a solver that claimed a tolerance and missed it.
"""

from __future__ import annotations

import argparse
import json
import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from peers import control, measure, plots, tables
from peers.suites import SUITES, specs
from peers.with_dapd import SETTINGS
from timing import heading

TOLERANCES = (1e-4, 1e-6, 1e-9)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suites", nargs="+", choices=[*SUITES, "control"])
    parser.add_argument("--folder", default="", help="the folder of the Maros–Mészáros problems")
    parser.add_argument("--only", nargs="+", help="families or problems to keep, by part of their name")
    parser.add_argument("--solvers", nargs="+", choices=list(measure.SOLVERS), help="default: all that are installed")
    parser.add_argument("--tolerances", nargs="+", type=float, default=TOLERANCES)
    parser.add_argument("--time-limit", type=float, default=60.0, help="seconds for each run")
    parser.add_argument("--sizes", type=int, default=3, help="how many sizes of each family, smallest first")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="one size, one seed, 1e-6 only, 5 seconds")
    parser.add_argument("--json", type=Path, default=Path("report/peers.json"), help="where the rows go")
    parser.add_argument("--add", action="store_true", help="add to the rows of that file instead of replacing it")
    parser.add_argument(
        "--page", type=Path, help="where the Markdown page goes, such as docs/peers.md; its plots beside it"
    )
    given = parser.parse_args()
    if given.quick:
        given.sizes, given.seeds, given.tolerances, given.time_limit = 1, 1, (1e-6,), 5.0
    if "maros" in given.suites and not Path(given.folder).is_dir():
        parser.error("maros needs --folder, a folder of .mat files")
    return given


def rows_of(given: argparse.Namespace) -> list[dict[str, Any]]:
    """Run everything that was asked for, one line of progress per run."""
    solvers = given.solvers or [name for name in measure.SOLVERS if measure.installed(name)]
    worker, rows = measure.Worker(), []
    for suite in given.suites:
        for spec in (
            [] if suite == "control" else specs(suite, folder=given.folder, sizes=given.sizes, seeds=given.seeds)
        ):
            if given.only and not any(part in spec.name for part in given.only):
                continue
            for name in solvers:
                for tol in sorted(given.tolerances, reverse=True):
                    found = worker.run(spec, name, tol, given.time_limit, fresh=suite == "large")
                    if found is None:
                        break
                    head = {
                        "suite": suite,
                        "family": spec.family,
                        "name": spec.name,
                        "size": spec.size,
                        "seed": spec.seed,
                    }
                    row = {**head, "solver": name, "tol": tol, "limit": given.time_limit, **found}
                    rows.append(row)
                    print(line(row), flush=True)
                    if not found["met"]:
                        break  # a stricter tolerance cannot be met either
    worker.stop()
    return rows


def line(row: dict[str, Any]) -> str:
    outcome = "met" if row["met"] else "MISSED" if row["claims"] else "failed"
    numbers = f"{row['seconds']:9.4f} s  {row['primal']:.0e} {row['dual']:.0e} {row['gap']:.0e}"
    return f"{row['name']:<36} {row['solver']:<16} {row['tol']:.0e} {outcome:<6} {numbers}  {row['status'][:60]}"


def page(rows: list[dict[str, Any]], steps: list[dict[str, Any]], folder: Path) -> str:
    """The Markdown page; writes its plots into a folder."""
    parts = ["# dapd and its peers", "", (__doc__ or "").split("\n\n", 2)[2].strip(), "", heading() + ".", ""]
    for suite in dict.fromkeys(row["suite"] for row in rows):
        own = [row for row in rows if row["suite"] == suite]
        limit = max(row["limit"] for row in own)
        parts += [f"## {suite.capitalize()}, at most {limit:g} s for each run", ""]
        for tol in sorted({row["tol"] for row in own}, reverse=True):
            parts += [f"### To {tol:g}", "", tables.summary(own, tol, limit), ""]
            for setting in (name for name in SETTINGS if any(row["solver"] == name for row in own)):
                parts += [
                    f"{setting} against the better of OSQP and Clarabel:",
                    "",
                    tables.ratios(own, tol, setting),
                    "",
                ]
            parts += ["Seconds (geometric mean over seeds):", "", tables.times(own, tol), ""]
            parts += ["Where a peer is faster:", "", tables.peers_win(own, tol, list(SETTINGS)), ""]
            file = f"peers_{suite}_{-round(math.log10(tol))}.png"
            plots.performance_profile(own, tol, folder / file)
            parts += [f"![Performance profile]({file})", ""]
        file, used = f"peers_{suite}_scaling.png", sorted({row["tol"] for row in own})
        if plots.scaling(own, used[len(used) // 2], folder / file):
            parts += [f"![Time against size]({file})", ""]
    if steps:
        parts += ["## Receding-horizon control", "", control.table(steps), ""]
    return "\n".join(parts)


def main() -> None:
    given = arguments()
    print(heading(), flush=True)
    rows, steps = rows_of(given), control.measure(given.tolerances) if "control" in given.suites else []
    if given.add and given.json.exists():
        before = json.loads(given.json.read_text(encoding="utf-8"))
        rows, steps = before["rows"] + rows, before["control"] + steps
    given.json.parent.mkdir(parents=True, exist_ok=True)
    record = {
        "machine": heading(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "rows": rows,
        "control": steps,
    }
    given.json.write_text(json.dumps(record, indent=1), encoding="utf-8")
    text = page(rows, steps, given.page.parent if given.page else given.json.parent)
    if given.page:
        given.page.write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
