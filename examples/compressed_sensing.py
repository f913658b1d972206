"""The paper's compressed-sensing problem, solved by four methods and compared with an independent reference."""

import argparse
from pathlib import Path
from time import perf_counter

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from rich.console import Console
from rich.table import Table

import dapd
from dapd.certificate import certify

METHODS = {"y-dapd": "#0072B2", "x-dapd": "#E69F00", "papc": "#009E73", "capd": "#CC79A7"}
# Li and Grigas 2026, first table of the appendix: 95 % intervals of the error after 1e5 iterations
PUBLISHED = {"y-dapd": "2.0e-07 … 5.8e-07", "papc": "2.3e-04 … 5.6e-04", "capd": "1.8e-01 … 1.9e-01"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--iterations", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("report"))
    options = parser.parse_args()
    console = Console(width=None if Console().is_terminal else 130)

    began = perf_counter()
    problem = dapd.experiments.newton(dapd.experiments.compressed_sensing(seed=options.seed))
    kkt = certify(problem, problem.x_star, problem.y_star)
    console.print(
        f"Compressed sensing: {problem.M}, s_max²/s_min² = 1e5, L/μ = 1e4\n"
        f"Reference by Newton: stationarity {kkt.stationarity:.1e}, feasibility {kkt.feasibility:.1e}\n",
        highlight=False,
    )
    table = Table(title=f"after {options.iterations:,} iterations (CAPD: inner ones)")
    for column in (
        "method",
        "iterations",
        "products",
        "seconds",
        "stationarity",
        "feasibility",
        "error",
        "paper (95 %)",
    ):
        table.add_column(column, justify="left" if column == "method" else "right")
    figure, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
    for name, colour in METHODS.items():
        result = dapd.solve(
            problem, name, tol=0, max_iterations=options.iterations, history=True, progress=console.is_terminal
        )
        error = result.history.error
        table.add_row(
            dapd.METHODS[name].title,
            f"{result.iterations:,}",
            f"{result.products:,}",
            f"{result.solve_time:.1f}",
            f"{result.certificate.stationarity:.1e}",
            f"{result.certificate.feasibility:.1e}",
            f"{error[-1]:.1e}",
            PUBLISHED.get(name, ""),
        )
        ax.loglog(np.maximum(result.history.iterations, 1), error, color=colour, label=dapd.METHODS[name].title)
    console.print(table)
    ax.set(xlabel="iterations", ylabel="‖x − x*‖ / ‖x*‖", title="Compressed sensing, s_max²/s_min² = 1e5, L/μ = 1e4")
    ax.grid(visible=True, which="major", alpha=0.3)
    ax.legend()
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "convergence.png"
    figure.savefig(path, dpi=150)
    console.print(f"Took {perf_counter() - began:.0f} s. Convergence plot: {path}", highlight=False)


if __name__ == "__main__":
    main()
