"""dapd's first-order steps alone, against first-order solvers.

    python benchmarks/first_order.py iterations [--only flow TV] [--limit 60]
    python benchmarks/first_order.py peers [--limit 60] [--kinds lp qp other]
    python benchmarks/first_order.py netlib FOLDER --limit 20     # *.mps.gz, read by HiGHS
    python benchmarks/first_order.py maros FOLDER --limit 20      # *.mat with P, q, A, l, u

`iterations` counts those of `dapd.solve(problem, engine="native", direct=False)`: to 1e-4, 1e-6 and 1e-8 by the
package's certificate, once for each `accuracy`, and until the best point of a convergence check meets the outside
judge at 1e-6. A ">" means that the limit came first, "~" that an earlier point may have met it, by more than 2 % of the
iterations. The outside judges:

- linear programs, flow, isotonic regression: that of PDLP, both residuals in the 2-norm and the gap, each relative,
  and the multipliers of bounds completed;
- OSQP's classes: the greatest of primal residual, dual residual and gap, absolute, in the ∞-norm;
- total variation, trend filtering, support vector machine: the relative gap;
- the rest: the greatest of the three of OSQP's classes, each relative to its greatest term.

`peers` compares seconds and iterations. Every answer is judged by the judge of the instance; a solver whose answer
misses the tolerance is asked for one that is up to 100 times stricter. Each solver runs in a process of its own, with
each of the settings of `first_order_parts/contestants.py`, of which the fastest counts. The criteria of the solvers are
not the same: "dapd, until judged" stops at the first convergence check whose point the judge accepts.

`netlib` and `maros` solve the problems of a folder at `tol=1e-6`. Marked "o" are problems that the package calls
optimal, "w" those whose answer has relative residuals and a relative gap of at most 1e-6 in the ∞-norm, "n" those that
the norms of PDLP accept.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

import numpy as np

from first_order_parts.contest import Outcome, outcomes
from first_order_parts.contestants import CONTESTANTS
from first_order_parts.counting import Count, Runs
from first_order_parts.folders import READERS, Verdict, models, verdict
from first_order_parts.instances import INSTANCES, Instance
from first_order_parts.judges import JUDGES
from peers.with_dapd import OPTIONS
from timing import heading

TOLERANCES = (1e-4, 1e-6, 1e-8)
BAR = 1e-6  # of the outside judge
ACCURACIES = ("solution", "objective") if "accuracy" in OPTIONS else ("solution",)


def say(*words: object) -> None:
    print(*words, flush=True)


# ---------------------------------------------------------------- iterations


def told(count: Count | None) -> str:
    """Iterations and seconds, with the marks that the page explains."""
    if count is None:
        return f"{'–':>21}"
    mark = ">" if not count.met else "~" if count.late > 0.02 else " "
    return f"{mark}{count.iterations:11,} {count.seconds:6.2f} s"


def count_iterations(instance: Instance, tolerances: list[float], limit: float, accuracy: str) -> None:
    """One line: each tolerance by the certificate, and the outside judge."""
    runs, counts = Runs(instance, limit, accuracy), list[Count | None]()
    for tol in tolerances:
        hopeless = counts and (counts[-1] is None or not counts[-1].met)
        counts.append(None if hopeless else runs.own(tol))
    outside = runs.outside(BAR)
    unmet = [one for one in (*counts, outside) if one is not None and not one.met]
    notes = [f"reached {one.error:.0e}{' and gave up' if one.gave_up else ''}" for one in unmet]
    notes += [f"at most {outside.late:.0%} late"] if outside.late > 0.02 else []
    cells = " ".join(map(told, (*counts, outside)))
    say(f"{instance.name:27} {accuracy:9} {cells}  {'; '.join(notes)}")


def iterations(given: argparse.Namespace) -> None:
    """The table of iterations."""
    titles = " ".join(
        f"{title:>20}" for title in (*(f"own {tol:.0e}" for tol in given.tolerances), f"outside {BAR:.0e}")
    )
    say(f"{'instance':27} {'accuracy':9} {titles}")
    for instance in chosen(given):
        for accuracy in given.accuracy or ACCURACIES:
            count_iterations(instance, given.tolerances, given.limit, accuracy)


# ---------------------------------------------------------------- peers


def result_line(name: str, tol: float, found: Outcome, base: Outcome | None) -> str:
    """Seconds and iterations, and how many times longer than dapd."""
    compared = base is not None and base.accepted and found.accepted
    ratio = f"{found.seconds / base.seconds:8.2f} × dapd" if compared and base is not None else " " * 15
    outcome = "met" if found.accepted else "failed"
    others = f" (others: {found.others})" if found.others else ""
    return (
        f"  {name:18} {tol:.0e} {outcome:6} {found.seconds:9.4f} s {found.iterations:9,} iterations"
        f"  error {found.error:.0e}{ratio}  {found.status} {found.setting}{others}"
    )


def contest(instance: Instance, names: list[str], given: argparse.Namespace) -> dict[float, dict[str, Outcome]]:
    """Every solver on one instance; an empty outcome where a solver does not apply."""
    say(instance.name)
    table: dict[float, dict[str, Outcome]] = {tol: {} for tol in given.tolerances}
    for name in names:
        for tol, found in zip(table, outcomes(instance, name, list(table), given.limit), strict=False):
            if found is not None:
                table[tol][name] = found
                say(result_line(name, tol, found, table[tol].get("dapd")))
    return table


def against_peers(given: argparse.Namespace) -> None:
    """The table of seconds, and the geometric means of the ratios."""
    for name, contestant in CONTESTANTS.items():
        if not contestant.installed:
            say(f"{name}: {contestant.module} is not installed, so it is left out")
    names = [name for name, one in CONTESTANTS.items() if one.installed and one.settings]
    names = [name for name in names if not given.solvers or any(part in name for part in given.solvers)]
    rows: dict[tuple[str, float, str], list[float]] = {}
    for instance in chosen(given):
        for tol, row in contest(instance, names, given).items():
            for ours, name in ((ours, name) for ours in row if "dapd" in ours for name in row if "dapd" not in name):
                if row[ours].accepted:  # a peer that failed counts with the time it was given
                    seconds = row[name].seconds if row[name].accepted else max(given.limit, row[name].seconds)
                    key = f"{name} / {ours}, {instance.kind}"
                    rows.setdefault((instance.kind, tol, key), []).append(seconds / row[ours].seconds)
    say("Geometric means of the ratios of seconds; a peer that failed counts with the limit")
    for (_, tol, key), ratios in sorted(rows.items(), key=lambda row: (row[0][0], -row[0][1], row[0][2])):
        say(f"  to {tol:.0e}: {key}: {math.exp(np.mean(np.log(ratios))):.2f} (of {len(ratios)})")


# ---------------------------------------------------------------- folders


def verdict_line(name: str, size: tuple[int, int], found: Verdict) -> str:
    marks = "".join(letter if ok else "-" for letter, ok in zip("own", accepted(found), strict=True))
    took = f"{found.iterations:11,} iterations {found.seconds:6.2f} s, {found.cpu:6.2f} of CPU"
    errors = f"own {found.own:.0e} outside {found.outside:.0e} norms {found.norms:.0e}"
    return f"{name:12} {size[0]:7,} × {size[1]:7,} {found.status:16} {marks} {took}  {errors}"


def accepted(found: Verdict) -> tuple[bool, bool, bool]:
    """By the package, by the outside judge and by PDLP's norms."""
    return found.status == "optimal", found.outside <= BAR, found.norms <= BAR


def folder(given: argparse.Namespace) -> None:
    """One line per problem, and how many were solved."""
    for accuracy in given.accuracy or ACCURACIES[:1]:
        limit = f"{given.limit:g} s{' of CPU' * given.cpu}"
        say(f"accuracy {accuracy}, at most {limit} each; marks: o = own, w = outside, n = norms")
        total, count = np.zeros(3, int), 0
        for name, model in models(given.what, given.folder, given.only):
            found = verdict(model, BAR, given.limit, accuracy, of_cpu=given.cpu)
            total, count = total + accepted(found), count + 1
            say(verdict_line(name, (model.rows, model.variables), found))
        own, outside, norms = total
        say(f"of {count} problems: own {own}, outside {outside}, norms {norms}")


# ---------------------------------------------------------------- the command line


def chosen(given: argparse.Namespace) -> list[Instance]:
    judges = {} if given.judge is None else {"judge": JUDGES[given.judge]}
    return [
        instance._replace(**judges)
        for instance in INSTANCES
        if instance.kind in given.kinds and (not given.only or any(part in instance.name for part in given.only))
    ]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["iterations", "peers", *READERS])
    parser.add_argument("folder", nargs="?", type=Path, help="for netlib and maros")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for each run")
    parser.add_argument("--tolerances", nargs="+", type=float, default=TOLERANCES, help="for iterations and peers")
    parser.add_argument("--cpu", action="store_true", help="in folders: a limit of CPU time, for a busy machine")
    parser.add_argument("--only", nargs="+", help="instances by part of their name, problems of a folder by their name")
    parser.add_argument("--kinds", nargs="+", choices=["lp", "qp", "other"], default=["lp", "qp", "other"])
    parser.add_argument("--accuracy", nargs="+", choices=ACCURACIES, help="default: both, in folders the first")
    parser.add_argument("--judge", choices=JUDGES, help="another judge than that of each instance")
    parser.add_argument("--solvers", nargs="+", help="for peers: solvers by part of their name")
    given = parser.parse_args()
    given.tolerances = sorted(given.tolerances, reverse=True)
    if given.what in READERS and (given.folder is None or not given.folder.is_dir()):
        parser.error(f"{given.what} needs a folder of problems")
    return given


def main() -> None:
    given: Any = arguments()
    say(heading())
    {"iterations": iterations, "peers": against_peers}.get(given.what, folder)(given)


if __name__ == "__main__":
    main()
