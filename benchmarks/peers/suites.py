"""Which problems a suite has, by a description small enough to send to another process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from peers import everyday, maros, paper
from peers.classes import CLASSES
from peers.model import Model

Make = Callable[[int, int], Model]

EVERYDAY: dict[str, tuple[Make, tuple[int, ...], tuple[int, ...]]] = {  # name -> generator, everyday sizes, large sizes
    "trend filtering": (everyday.trend, (2_000,), (100_000,)),
    "isotonic": (everyday.isotonic, (2_000,), (100_000,)),
    "transport": (everyday.transport, (60,), (200,)),
    "portfolio, dense": (everyday.portfolio, (300,), ()),
    "SVM, 50 features": (partial(everyday.svm, features=50), (5_000,), ()),
    "SVM, 100 features": (everyday.svm, (), (50_000, 100_000)),
    "total variation": (everyday.total_variation, (128,), (256, 512, 1024)),
    "lasso, no ridge": (everyday.lasso, (100,), ()),
    "group lasso": (everyday.group_lasso, (500,), ()),
    "logistic": (everyday.logistic, (5_000,), (100_000,)),
    "badly scaled": (everyday.badly_scaled, (20,), ()),
    **{
        f"flow, {cost}{', capacities' if capacities else ''}": (
            partial(everyday.flow, cost=cost, capacities=capacities),
            (3_000,),
            (20_000, 40_000, 300_000),
        )
        for cost in ("quadratic", "pseudo-huber")
        for capacities in (False, True)
    },
}
PAPER: dict[str, tuple[Make, tuple[int, ...]]] = {
    "compressed sensing": (paper.compressed_sensing, (1, 2)),
    "system identification": (paper.system_identification, (40, 100)),
    "QP, l1": (paper.qp_l1, (300,)),
    "QP, inequality": (paper.qp_inequality, (300,)),
}
SUITES = ("classes", "maros", "everyday", "large", "paper")


class Spec(NamedTuple):
    """One problem."""

    suite: str
    family: str
    size: int
    seed: int
    folder: str = ""

    @property
    def name(self) -> str:
        """What tables call it."""
        return self.family if self.suite == "maros" else f"{self.family} {self.size:,}"


def build(spec: Spec) -> Model:
    """The model of a spec."""
    if spec.suite == "maros":
        return maros.load(Path(spec.folder), spec.family)
    table: dict[str, tuple] = {"classes": CLASSES, "paper": PAPER}.get(spec.suite, EVERYDAY)
    return replace(table[spec.family][0](spec.size, spec.seed), name=spec.name, family=spec.family)


def specs(suite: str, *, folder: str = "", sizes: int = 3, seeds: int = 3) -> Iterator[Spec]:
    """The problems of a suite; `sizes` limits how many sizes of each family, or how many Maros–Mészáros problems."""
    if suite == "maros":
        for place, name in enumerate(maros.names(Path(folder))):
            if sizes == 3 or place < 10 * sizes:
                yield Spec(suite, name, place, 0, folder)
    elif suite == "classes":
        for family, (_, all_sizes) in CLASSES.items():
            yield from (Spec(suite, family, size, seed) for size in all_sizes[:sizes] for seed in range(seeds))
    elif suite == "paper":
        for family, (_, all_sizes) in PAPER.items():
            yield from (Spec(suite, family, size, 0) for size in all_sizes[:sizes])
    else:
        place = 1 if suite == "everyday" else 2
        for family, row in EVERYDAY.items():
            yield from (Spec(suite, family, size, 0) for size in row[place][:sizes])
