"""r²HPDHG in the native core against the same iteration as plain loops in C++, on one thread.

    python benchmarks/plain_loop.py

`plain_loop.cpp` is compiled with `c++ -O3 -march=native -ffast-math` and reads and writes the same vectors: sparse,
100,000 × 500,000 with two million entries and a stored transpose, and dense, 1000 × 4000. Both sides take turns. The
time of the core has the measurements of its epochs in it.
"""

from __future__ import annotations

import math
import shutil
import statistics
import subprocess
import tempfile
from pathlib import Path
from time import perf_counter

import numpy as np
import scipy.sparse as sp

import dapd
from dapd.engines.native.runner import NativeRunner
from dapd.methods.r2hpdhg import R2HPDHG
from timing import heading

STEPS = {"sparse": 150, "dense": 1500}
ROUNDS = 5


def problem(kind: str) -> dapd.Problem:
    """Costs, equations and bounds, none of which are all the same number."""
    rng = np.random.default_rng(0)
    rows, columns = (1000, 4000) if kind == "dense" else (100_000, 500_000)
    if kind == "dense":
        M = 1e-3 * (1 + 0.1 * rng.standard_normal((rows, columns)))
    else:
        places = rng.integers(rows, size=4 * columns), np.repeat(np.arange(columns), 4)
        M = sp.csr_array((rng.uniform(0.4, 0.6, 4 * columns), places), shape=(rows, columns))
    bounds = -1 - rng.random(columns), 1 + rng.random(columns)
    f = dapd.Quadratic(None, rng.standard_normal(columns))
    return dapd.Problem(f, M, rng.standard_normal(rows), bounds=bounds)


def main() -> None:
    print(heading())
    compiler = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        raise SystemExit("no C++ compiler was found")
    with tempfile.TemporaryDirectory() as folder:
        program = str(Path(folder) / "plain_loop")
        source = str(Path(__file__).with_suffix(".cpp"))
        subprocess.run([compiler, "-O3", "-march=native", "-ffast-math", source, "-o", program], check=True)
        for kind, steps in STEPS.items():
            method = R2HPDHG(problem(kind), dapd.theory.r2hpdhg(L=0.0, s_max=10.0))
            runner = NativeRunner(method, threads=1)
            runner.start()
            runner.advance(20, math.inf)
            plain, core = list[float](), list[float]()
            for _ in range(ROUNDS):
                ran = subprocess.run([program, kind, str(steps)], check=True, capture_output=True, text=True)
                plain.append(float(ran.stdout.split()[0]))
                began = perf_counter()
                runner.advance(steps, math.inf)
                core.append(1e6 * (perf_counter() - began) / steps)
            ours, theirs = statistics.median(core), statistics.median(plain)
            print(f"{kind:8} core {ours:9,.1f} µs, plain loops {theirs:9,.1f} µs, ratio {ours / theirs:.2f}")


if __name__ == "__main__":
    main()
