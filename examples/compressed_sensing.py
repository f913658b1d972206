"""The paper's compressed-sensing problem, solved by four methods and compared with an independent reference."""

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from rich.console import Console
from rich.table import Table

import dapd
from dapd.reproduce.plots import style
from dapd.reproduce.published import INTERVALS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--iterations", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("report"))
    options = parser.parse_args()
    console = Console(width=None if Console().is_terminal else 120)

    problem = dapd.experiments.reference(dapd.experiments.compressed_sensing(seed=options.seed))
    table = Table(title=f"After {options.iterations:,} iterations (CAPD: inner iterations)")
    table.add_column("method")
    for column in ("iterations", "products", "seconds", "stationarity", "feasibility", "error", "paper (95 %)"):
        table.add_column(column, justify="right")
    figure, ax = plt.subplots(layout="constrained")
    for name in ("y-dapd", "x-dapd", "papc", "capd"):
        result = dapd.solve(problem, name, tol=0, max_iterations=options.iterations, history=True)
        published = INTERVALS["table-cst-1"].get(name)
        table.add_row(
            dapd.METHODS[name].title,
            f"{result.iterations:,}",
            f"{result.products:,}",
            f"{result.solve_time:.1f}",
            f"{result.certificate.stationarity:.1e}",
            f"{result.certificate.feasibility:.1e}",
            f"{result.history.error[-1]:.1e}",
            "{:.1e} … {:.1e}".format(*published) if published else "",
        )
        ax.semilogy(
            result.history.iterations,
            result.history.error,
            color=style(name).color,
            linestyle=style(name).linestyle,
            label=dapd.METHODS[name].title,
        )
    console.print(table)
    ax.set(xlabel="iterations", ylabel="‖x − x*‖ / ‖x*‖")
    ax.legend()
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "convergence.png"
    figure.savefig(path, dpi=150)
    console.print(f"Convergence plot: {path}", highlight=False)


if __name__ == "__main__":
    main()
