"""Every figure and table of the paper's experiments: which runs it takes, and what the paper says about it.

The paper does not print how far its curves go. Its running times do: a panel of Figures 1 and 3 took twice as long as
a seed of the table beside it, and the long runs eight times as long as Figure 1; the budgets here follow from that.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dapd.arguments import near_miss
from dapd.reproduce.claims import Alike, CatchesUp, Claim, FallsBelow, First
from dapd.reproduce.problems import BLOCK_PRODUCTS, EXPERIMENTS
from dapd.reproduce.runs import SHARED, Run


@dataclass(frozen=True)
class Panel:
    """Curves of several methods on one instance; the budgets are pairs of products with M and Mᵀ."""

    experiment: str
    methods: tuple[str, ...]
    full: int
    quick: int
    claims: tuple[Claim, ...] = ()

    def runs(self, *, quick: bool) -> list[Run]:
        """One run a method, on seed 0; block methods get the same number of products with blocks."""
        budget = self.quick if quick else self.full
        blocks = EXPERIMENTS[self.experiment].blocks
        return [
            Run(self.experiment, method, 0, budget * 2 * blocks // BLOCK_PRODUCTS.get(method, 2 * blocks))
            for method in self.methods
        ]


@dataclass(frozen=True)
class Figure:
    """A figure of two panels."""

    name: str
    title: str
    panels: tuple[Panel, ...]
    axes: tuple[str, ...] = ("iterations", "seconds")
    measure: str = "error"

    def runs(self, *, quick: bool, seeds: int) -> list[Run]:
        """Those of its panels."""
        return [run for panel in self.panels for run in panel.runs(quick=quick)]


@dataclass(frozen=True)
class Table:
    """95 % intervals of the relative error over seeds, after a number of iterations."""

    name: str
    title: str
    experiment: str
    methods: tuple[str, ...]
    full: int
    quick: int
    note: str = ""  # said where ours is better

    def runs(self, *, quick: bool, seeds: int) -> list[Run]:
        """One run a method and seed."""
        iterations = self.quick if quick else self.full
        return [Run(self.experiment, method, seed, iterations) for seed in range(seeds) for method in self.methods]


_CST_METHODS = ("y-dapd", "x-dapd", "papc", "capd")
_NSE_METHODS = ("y-dapd", "x-dapd", "papc")
_SBC_METHODS = ("y-sbc-dapd", "x-sbc-dapd", *_CST_METHODS)
# what the paper observes, in our words
_MUCH_FASTER = "y-DAPD is first by far."
_SIDES = "The method accelerated on the side that is worse conditioned is ahead of the other deterministic ones."
_PROGRESS = "By blocks the favoured side gets further for the same number of block products."
_CATCH_UP = "CAPD starts behind PAPC and gains on it in the long run."
_LINEARLY = "The KKT residual of y-DAPD falls below 1e-11."
_MINOR = "One sample for both steps (j = i) or two makes little difference."
_GUROBI = (
    "The paper measured by a Gurobi solution whose own stationarity residual is {}; ours is measured by a reference "
    "solved to rounding, so that the error can go on falling."
)

FIGURES = (
    Figure(
        "figure-1",
        "Figure 1: compressed sensing",
        (
            Panel("cst-1", _CST_METHODS, 250_000, 100_000, (First(_MUCH_FASTER, "y-dapd", below=1e-3),)),
            Panel("cst-2", _CST_METHODS, 250_000, 100_000, (First(_MUCH_FASTER, "y-dapd", below=1e-3),)),
        ),
    ),
    Figure(
        "figure-2",
        "Figure 2: compressed sensing in 200 blocks",
        (
            Panel(
                "cst-blocks-1",
                _SBC_METHODS,
                200_000,
                4_000,
                (
                    First(_SIDES, "x-dapd", below=3e-1, over=("y-dapd", "papc", "capd")),
                    First(_PROGRESS, "x-sbc-dapd", below=3e-1),
                ),
            ),
            Panel(
                "cst-blocks-2",
                _SBC_METHODS,
                200_000,
                4_000,
                (
                    First(_SIDES, "y-dapd", below=3e-2, over=("x-dapd", "papc", "capd")),
                    First(_PROGRESS, "y-sbc-dapd", below=3e-2),
                ),
            ),
        ),
        axes=("products", "seconds"),
    ),
    Figure(
        "figure-3",
        "Figure 3: system identification",
        (
            Panel(
                "nse-1",
                _NSE_METHODS,
                1_000_000,
                50_000,
                (
                    First(
                        "Where L/μ is far above s_max²/s_min², x-DAPD is first.",
                        "x-dapd",
                        below=3e-1,
                    ),
                    Alike("y-DAPD is about as fast as PAPC there.", "y-dapd", "papc"),
                ),
            ),
            Panel(
                "nse-2",
                _NSE_METHODS,
                1_000_000,
                20_000,
                (
                    First(
                        "Where s_max²/s_min² is the larger, y-DAPD is first.",
                        "y-dapd",
                        below=3e-1,
                    ),
                    Alike("x-DAPD and PAPC are about equal.", "x-dapd", "papc"),
                ),
            ),
        ),
    ),
    Figure(
        "figure-long-run",
        "The long run of compressed sensing",
        (
            Panel(
                "cst-1",
                _CST_METHODS,
                1_500_000,
                100_000,
                (First(_MUCH_FASTER, "y-dapd", below=1e-3),),
            ),
            Panel(
                "cst-2",
                _CST_METHODS,
                1_500_000,
                100_000,
                (First(_MUCH_FASTER, "y-dapd", below=1e-3), CatchesUp(_CATCH_UP, "capd", "papc", start=100_000)),
            ),
        ),
    ),
    Figure(
        "figure-kkt",
        "KKT residuals of compressed sensing",
        (
            Panel(
                "cst-1",
                _NSE_METHODS,
                250_000,
                100_000,
                (FallsBelow(_LINEARLY, "y-dapd", 1e-11), First(_MUCH_FASTER, "y-dapd", below=1e-6)),
            ),
            Panel(
                "cst-2",
                _NSE_METHODS,
                250_000,
                100_000,
                (FallsBelow(_LINEARLY, "y-dapd", 1e-11), First(_MUCH_FASTER, "y-dapd", below=1e-6)),
            ),
        ),
        measure="kkt",
    ),
    Figure(
        "figure-shared-sample",
        "Compressed sensing in 200 blocks, with one sample for both steps (j = i)",
        tuple(
            Panel(
                experiment,
                (*(name for pair in sides for name in (pair, pair + SHARED)), *_CST_METHODS),
                200_000,
                4_000,
                tuple(Alike(_MINOR, name, name + SHARED, factor=1.5) for name in sides),
            )
            for experiment, sides in (
                ("cst-blocks-1", ("x-sbc-dapd", "y-sbc-dapd")),
                ("cst-blocks-2", ("x-sbc-dapd", "y-sbc-dapd")),
            )
        ),
        axes=("products", "seconds"),
    ),
    Figure(
        "figure-qp",
        "Quadratic programs",
        (
            Panel(
                "qp-l1",
                _NSE_METHODS,
                300_000,
                50_000,
                (
                    First("y-DAPD is first.", "y-dapd", below=1e-1),
                    Alike("x-DAPD and PAPC are about equal.", "x-dapd", "papc"),
                ),
            ),
            Panel(
                "qp-inequality",
                _NSE_METHODS,
                300_000,
                50_000,
                (
                    First("y-DAPD is first.", "y-dapd", below=1e-5),
                    Alike("x-DAPD and PAPC are about equal.", "x-dapd", "papc"),
                ),
            ),
        ),
    ),
)

TABLES = (
    Table(
        "table-cst-1",
        EXPERIMENTS["cst-1"].title,
        "cst-1",
        ("papc", "capd", "y-dapd"),
        100_000,
        100_000,
        _GUROBI.format("4.2e-4"),
    ),
    Table(
        "table-cst-2",
        EXPERIMENTS["cst-2"].title,
        "cst-2",
        ("papc", "capd", "y-dapd"),
        100_000,
        100_000,
        _GUROBI.format("8.0e-5"),
    ),
    Table("table-nse-1", EXPERIMENTS["nse-1"].title, "nse-1", ("papc", "x-dapd", "y-dapd"), 500_000, 50_000),
    Table("table-nse-2", EXPERIMENTS["nse-2"].title, "nse-2", ("papc", "x-dapd", "y-dapd"), 500_000, 20_000),
)

Item = Figure | Table
ITEMS: dict[str, Item] = {item.name: item for item in (*FIGURES, *TABLES)}


def choose(names: Iterable[str]) -> list[Item]:
    """The items of the given names, in the catalogue's order; all of them for no name or `all`."""
    names = list(names)
    for name in names:
        if name != "all" and name not in ITEMS:
            raise ValueError(f"there is no figure or table {name!r}{near_miss(name, ['all', *ITEMS])}")
    if not names or "all" in names:
        return list(ITEMS.values())
    return [item for name, item in ITEMS.items() if name in names]
