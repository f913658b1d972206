"""Answers to random problems in random units, judged by the certificate recomputed from its definition.

    python benchmarks/accuracy.py                     # 20,000 problems and 2,000 pairs, about an hour on one core
    python benchmarks/accuracy.py 1000 --pairs 100
    python benchmarks/accuracy.py --processes 8

The problems are built backwards from a solution; their rows, columns, objective and units are scaled by random powers
of two, with all data within 1e±12. A pair is a strongly convex problem, and the same in random units.
"""

from __future__ import annotations

import argparse
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np

from peers.scaled import TOL, Pair, Verdict, compare, judge
from timing import heading

SHOWN = 20  # of the answers that are not as they should be


def wrong(found: Verdict) -> bool:
    """Whether an answer is false: above tol, or another objective."""
    return bool(found.faults) or found.error > TOL * (1 + 1e-6) or found.objective > 100 * TOL


def report(verdicts: list[Verdict]) -> None:
    optimal = [found for found in verdicts if found.status == "optimal"]
    error, objective = (max((getattr(v, name) for v in optimal), default=np.nan) for name in ("error", "objective"))
    seconds = max(found.seconds for found in verdicts)
    print(f"{'problems':>10} {'optimal':>9} {'false':>6} {'worst error':>12} {'objective':>10} {'time':>8}")
    share, false = len(optimal) / len(verdicts), sum(map(wrong, verdicts))
    print(f"{len(verdicts):10,} {share:9.2%} {false:6} {error:12.2e} {objective:10.2e} {seconds:6.2f} s")
    print(dict(Counter(found.status for found in verdicts)))
    shown = [v for v in verdicts if wrong(v)] + [v for v in verdicts if v.status != "optimal" and not wrong(v)]
    for found in shown[:SHOWN]:
        numbers = f"error {found.error:.1e}, objective {found.objective:.1e}, {found.seconds:.1f} s"
        print(f"  {found.name}: {found.status}, {numbers}", *found.faults)


def report_pairs(pairs: list[Pair]) -> None:
    same = sum(one == two for one, two in (pair.statuses for pair in pairs))
    both = [pair.difference for pair in pairs if pair.statuses == ("optimal", "optimal")]
    print(f"\n{'pairs':>10} {'same status':>12} {'both optimal':>13} {'worst difference of x':>22}")
    print(f"{len(pairs):10,} {same:12,} {len(both):13,} {max(both, default=np.nan):22.2e}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("problems", nargs="?", type=int, default=20_000)
    parser.add_argument("--pairs", type=int, default=2_000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--processes", type=int, default=1)
    given = parser.parse_args()
    print(heading())
    with ProcessPoolExecutor(given.processes, mp_context=get_context("spawn")) as pool:
        seeds = range(given.first, given.first + given.problems)
        report(list(pool.map(judge, seeds, chunksize=20)))
        if given.pairs:
            report_pairs(list(pool.map(compare, range(given.first, given.first + given.pairs), chunksize=20)))


if __name__ == "__main__":
    main()
