"""Build times at a million rows, and the tables and pictures of docs/lower_bounds.md.

python benchmarks/lower_bounds.py --out docs
"""

from __future__ import annotations

import argparse
import platform
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from dapd.lower_bounds import affine, block, convex_concave, extragradient, landscape, report

ROOT = 5**0.5
BUILDERS: dict[str, Callable[[int], object]] = {
    "affine": lambda n: affine(L=1e4, mu=1.0, s_max=10.0, s_min=1.0, n=n),
    "block, N = 1000": lambda n: block(L=1e4, mu=1.0, s_max=10.0, s_min=1.0, n=n, N=1000),
    "convex_concave": lambda n: convex_concave(L_x=100.0, L_y=1.0, s_max=10.0, s_min=1.0, l=n),
}


def build(n: int) -> None:
    print(f"Building with {n:,} rows ({platform.machine()}, Python {platform.python_version()})")
    for name, make in BUILDERS.items():
        seconds = min(timed(lambda make=make: make(n)) for _ in range(3))
        tracemalloc.start()
        make(n)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        print(f"  {name:16} {seconds:6.2f} s {peak / 1e6:6.0f} MB at the peak")


def timed(call: Callable[[], object]) -> float:
    began = perf_counter()
    call()
    return perf_counter() - began


def scaling() -> None:
    print("Exponents over three decades of (s_max/s_min)·√(L/μ); for PAPC, of L/μ or of (s_max/s_min)²")
    conditions, ratios = np.geomspace(3.0, 3e6, 7), ROOT * np.geomspace(1, 1000, 7)
    few = np.geomspace(1, 1e3, 4)
    lines = [
        ("x-dapd", "condition", 0.5, landscape(["x-dapd"], conditions, [ROOT])),
        ("y-dapd", "ratio", 1.0, landscape(["y-dapd"], [1.0], ratios)),
        ("capd", "condition", 0.5, landscape(["capd"], conditions, [ROOT])),
        ("capd", "ratio", 1.0, landscape(["capd"], [1.0], ratios)),
        ("papc", "condition", 1.0, landscape(["papc"], 10 * few, [ROOT])),
        ("papc", "ratio", 2.0, landscape(["papc"], [1.0], ROOT * few**0.5)),
    ]
    for method, along, theory, found in lines:
        times = found.times[np.isfinite(found.times)]
        print(
            f"  {method:7} along {along:9} fitted {found.exponent(method, along):.3f}, theory {theory:g}; "
            f"times the optimum from {times.min():.2f} to {times.max():.2f}"
        )


def draw(out: Path) -> None:
    found = report(instance=affine(L=1000.0, mu=1.0, s_max=10.0, s_min=1.0), eps=1e-5)
    mapped = landscape(
        ["x-dapd", "y-dapd"], [1.0, 10.0, 100.0, 1e3, 1e4], [ROOT, 5.0, 10.0, 20.0, 40.0], max_iterations=60_000
    )
    saddle = report([extragradient], convex_concave(L_x=1.0, L_y=1.0, s_max=10.0, s_min=1.0, l=400), eps=1e-5)
    print(found, mapped, saddle, sep="\n")
    for side, L, s_max in (("x", 100.0, ROOT), ("y", 1.0, 10.0)):
        instance = block(L=L, mu=1.0, s_max=s_max, s_min=1.0, N=8)
        print(report([f"{side}-dapd", f"{side}-sbc-dapd"], instance, eps=1e-3))
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    found.plot(left).set_title("L/μ = 1000, s_max/s_min = 10")
    left.legend(fontsize="x-small")
    mapped.plot(right).set_title("the favoured side, and how many times the optimum it takes")
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "lower_bounds.png", dpi=100)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs"))
    parser.add_argument("--rows", type=int, default=1_000_000)
    arguments = parser.parse_args()
    build(arguments.rows)
    scaling()
    draw(arguments.out)


if __name__ == "__main__":
    main()
