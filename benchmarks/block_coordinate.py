"""Block-coordinate methods against deterministic ones on the paper's Figure 2: error against seconds and against BMM.

    python benchmarks/block_coordinate.py --blocks 20 200 2000 --seconds 600 --out report

Both sides run in one process, one after the other; the time to record errors is not counted. BMM are block matrix
multiplications: a product with all of M or its transpose counts N. A run that does not reach 1e-7 ends after
`--seconds`, and shows nan.
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import subprocess
import sys
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

import dapd

ROWS, WIDTH = 100, 50  # n and m_i
CONDITIONINGS = {"left": (1e4, 1e5), "right": (1e6, 1e3)}  # s_max²/s_min² and L/μ
TARGETS = (1e-3, 1e-5, 1e-7)
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "PAPC": ("papc", {}),
    "CAPD": ("capd", {}),
    "x-DAPD": ("x-dapd", {}),
    "y-DAPD": ("y-dapd", {}),
    "x-SBC-DAPD": ("x-sbc-dapd", {"seed": 0}),
    "y-SBC-DAPD": ("y-sbc-dapd", {"seed": 0}),
    "x-SBC-DAPD, j = i": ("x-sbc-dapd", {"seed": 0, "shared_sample": True}),
    "y-SBC-DAPD, j = i": ("y-sbc-dapd", {"seed": 0, "shared_sample": True}),
    # the free constants of the theorems chosen to minimise Π, instead of those of the corollaries
    "x-SBC-DAPD sharp": ("x-sbc-dapd", {"seed": 0, "sharp": True}),
    "y-SBC-DAPD sharp": ("y-sbc-dapd", {"seed": 0, "sharp": True}),
    "x-SBC sharp, j = i": ("x-sbc-dapd", {"seed": 0, "sharp": True, "shared_sample": True}),
    "y-SBC sharp, j = i": ("y-sbc-dapd", {"seed": 0, "sharp": True, "shared_sample": True}),
}
PASS = """
import sys, time
import numpy as np
M = np.random.default_rng(0).standard_normal((int(sys.argv[1]), int(sys.argv[2])))
x, y = np.ones(M.shape[1]), np.ones(M.shape[0])
times = []
for _ in range(40):
    for call in (lambda: M @ x, lambda: y @ M):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
print(min(times[::2]), min(times[1::2]))
"""


class Run(NamedTuple):
    """One method on one problem."""

    seconds: Any
    bmm: Any
    error: Any
    per_iteration: float  # seconds

    def to(self, target: float) -> tuple[float, float]:
        """Seconds and BMM to reach a relative error; nan if it was not reached."""
        reached = np.flatnonzero(self.error <= target)
        return (self.seconds[reached[0]], self.bmm[reached[0]]) if reached.size else (np.nan, np.nan)


def make(N: int, conditioning: str) -> dapd.Problem:
    coupling_condition, condition = CONDITIONINGS[conditioning]
    problem = dapd.experiments.compressed_sensing(
        0, n=ROWS, m=N * WIDTH, coupling_condition=coupling_condition, condition=condition, blocks=N
    )
    return dapd.experiments.newton(problem)


def run(problem: dapd.Problem, spectrum: dapd.Spectrum, name: str, seconds: float) -> Run:
    method, given = METHODS[name]
    options = dict(given)
    if options.pop("sharp", False):
        options["parameters"] = dapd.METHODS[method].by_theory(problem, spectrum, sharp=True)
    star = problem.x_star
    goal = TARGETS[-1] * np.linalg.norm(star)
    result = dapd.solve(
        problem, method, tol=0, spectrum=spectrum, history=True, time_limit=seconds, max_iterations=10**12,
        callback=lambda info: np.linalg.norm(info.x - star) <= goal, **options,
    )  # fmt: skip
    spent = result.block_products + len(problem.blocks) * result.products
    h = result.history
    return Run(h.time, h.iterations * spent / result.iterations, h.error, result.solve_time / result.iterations)


def best(call: Any, repeats: int) -> float:
    times = []
    for _ in range(repeats):
        began = perf_counter()
        call()
        times.append(perf_counter() - began)
    return min(times)


def literal(side: str, problem: dapd.Problem, p: Any, steps: int) -> None:
    """The method written in NumPy: contiguous blocks, products updated by one block, nothing counted."""
    rng = np.random.default_rng(0)
    f, b, blocks = problem.f, problem.b, problem.blocks
    M = [operator.matrix for operator in problem.M.operators]
    x, y, v = np.zeros(problem.columns), np.zeros(problem.rows), np.zeros(problem.rows)
    z, g, w, MMty = x.copy(), f.grad(x), y.copy(), y.copy()
    for i, j, coin in zip(*rng.integers(0, p.N, (3, steps)), strict=True):
        J = blocks[j]
        if side == "x":
            y += p.chi * p.s / p.N * (v - b) - p.s_hat * (M[i] @ (M[i].T @ y + g[blocks[i]]))
            x_new = z[J] - p.t * (g[J] + M[j].T @ y)
            z_new = (1 + p.gamma) * x_new - p.gamma * x[J]
            v += M[j] @ (p.xi * (z_new - z[J]) - (p.xi - 1) * (x_new - x[J]))
            x[J], z[J], g[J] = x_new, z_new, f.grad(z_new)
        else:
            y_new = w + p.s / p.N * (v - b) - p.s_hat / p.N * MMty - p.s_hat * (M[i] @ (M[i].T @ (w - y)))
            u = p.xi * y_new - (p.xi - 1) * y
            if coin == 0:
                y, MMty = y_new, problem.M.forward(problem.M.adjoint(y_new))
            w = (p.tau * y + u) / (1 + p.tau)
            x_new = x[J] - p.t_tilde * (g[J] + M[j].T @ u)
            g_new = f.grad(x_new)
            v += M[j] @ (x_new - x[J] - p.t * (g_new - g[J]))
            x[J], g[J] = x_new, g_new


def costs(problem: dapd.Problem, spectrum: dapd.Spectrum) -> None:
    """Print the time per iteration in the native core, in NumPy, and relative to one pass over M on one thread."""
    N = len(problem.blocks)
    script = [sys.executable, "-c", PASS, str(ROWS), str(N * WIDTH)]
    single = {**os.environ, **dict.fromkeys(("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"), "1")}
    found = subprocess.run(script, env=single, capture_output=True, text=True, check=True).stdout.split()
    share = sum(map(float, found)) / 2 / N
    print(f"\nN = {N}: one thread reads M in {share * 1e6:.2f} µs per block ({WIDTH} × {ROWS} numbers)")
    M, blocks = problem.M.dense(), problem.blocks
    contiguous = dapd.ColumnBlocks([np.ascontiguousarray(M[:, block]) for block in blocks])
    apart = dapd.Problem(problem.f, contiguous, problem.b)
    for name in [name for name, (_, options) in METHODS.items() if "SBC" in name and "sharp" not in options]:
        method_name, options = METHODS[name]
        method: Any = dapd.METHODS[method_name].from_theory(problem, spectrum=spectrum, **options)
        runner = dapd.bind(method, "native")
        runner.start()
        before = runner.counts.block_products
        native = best(lambda r=runner: r.advance(1_000, math.inf), 1_000) / 1_000
        products = (runner.counts.block_products - before) / 1_000_000
        plain = best(lambda side=method_name[0], p=method.parameters: literal(side, apart, p, 1_000), 100) / 1_000
        print(
            f"  {name:<18} {native * 1e6:6.2f} µs per iteration; in NumPy {plain * 1e6:6.1f} µs, "
            f"{plain / native:.1f} times as long; a block product takes {native / products / share:.2f} times "
            "the share of one block in that pass"
        )


def table(N: int, conditioning: str, runs: dict[str, Run], limit: float) -> None:
    """Print seconds and BMM to each target, and how the two sides compare at 1e-5."""
    ratio, condition = CONDITIONINGS[conditioning]
    print(f"\nN = {N}, s_max²/s_min² = {ratio:g}, L/μ = {condition:g}; nan: not reached in {limit:g} s")
    print(f"  {'':<18} {'µs/iter':>9}" + "".join(f" {f'{t:g}: s':>11} {'BMM':>9}" for t in TARGETS) + f" {'error':>9}")
    for name, one in runs.items():
        cells = "".join(f" {s:>11.2f} {bmm:>9.2e}" for s, bmm in map(one.to, TARGETS))
        print(f"  {name:<18} {one.per_iteration * 1e6:>9.2f}{cells} {one.error[-1]:>9.1e}")
    whole, by_blocks = (fastest(runs, block) for block in (False, True))
    if whole is None or by_blocks is None:
        return
    # a side that did not reach 1e-5 took longer than its time limit
    seconds = [np.nan_to_num(runs[name].to(1e-5)[0], nan=runs[name].seconds[-1]) for name in (whole, by_blocks)]
    least = "at least " if np.isnan(runs[whole].to(1e-5)[0]) else ""
    print(f"  to 1e-5: {by_blocks} is {least}{seconds[0] / seconds[1]:.2f} times as fast as {whole}")


def fastest(runs: dict[str, Run], block: bool) -> str | None:
    """The method of one side that reached 1e-5 first, or came closest to it."""
    names = [name for name in runs if ("SBC" in name) == block]
    return min(
        names, key=lambda name: (np.nan_to_num(runs[name].to(1e-5)[0], nan=np.inf), runs[name].error[-1]), default=None
    )


def plot(N: int, every: dict[str, dict[str, Run]], out: Path) -> None:
    """Draw error against seconds and against BMM, one row per conditioning."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(
        len(every), 2, figsize=(11, 4.2 * len(every)), sharey="row", squeeze=False, layout="constrained"
    )
    for row, (conditioning, runs) in zip(axes, every.items(), strict=True):
        ratio, condition = CONDITIONINGS[conditioning]
        for ax, field, label in zip(row, ("seconds", "bmm"), ("seconds", "block matrix multiplications"), strict=True):
            for name, one in runs.items():
                ax.loglog(getattr(one, field)[1:], one.error[1:], label=name, linestyle="--" if "SBC" in name else "-")
            ax.set_xlabel(label)
            ax.grid(visible=True, alpha=0.3)
        row[0].set_ylabel(f"relative error, $s_{{max}}^2/s_{{min}}^2$ = {ratio:g}, $L/\\mu$ = {condition:g}")
    axes[0, 0].legend(fontsize="small")
    figure.suptitle(f"N = {N} blocks of {WIDTH} columns, {ROWS} rows")
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"block_coordinate_{N}.png"
    figure.savefig(path, dpi=120)
    plt.close(figure)
    print(f"\n{path}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blocks", type=int, nargs="+", default=[20, 200, 2000])
    parser.add_argument("--conditionings", nargs="+", choices=CONDITIONINGS, default=list(CONDITIONINGS))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--seconds", type=float, default=600.0, help="time limit per run")
    parser.add_argument("--out", type=Path, default=Path("report"))
    args = parser.parse_args()
    load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    print(f"{platform.machine()}, {os.cpu_count()} cores{load}, NumPy {np.__version__}, dapd {dapd.__version__}")
    for N in args.blocks:
        every = {}
        for conditioning in args.conditionings:
            problem = make(N, conditioning)
            spectrum = dapd.estimate_spectrum(problem.M, blocks=problem.blocks)
            if not every:
                costs(problem, spectrum)
            every[conditioning] = {name: run(problem, spectrum, name, args.seconds) for name in args.methods}
            table(N, conditioning, every[conditioning], args.seconds)
        plot(N, every, args.out)


if __name__ == "__main__":
    main()
