"""One run: a method on an instance of an experiment for a number of iterations, and its record on disk."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from time import perf_counter, time
from typing import Any

import numpy as np
import scipy

import dapd
from dapd import theory
from dapd.machine import core
from dapd.paper.experiments import compressed_sensing, qp_inequality, qp_l1, reference, system_identification
from dapd.paper.reproduce import sources
from dapd.spectrum.estimate import with_block_norm

DRAFT = ".draft"  # suffix of a file that is being written
STALE = 60.0  # seconds; writing a file never takes this long
SHARED = "-i"  # the paper's suffix for the variants that draw one block for both steps


@dataclass(frozen=True)
class Experiment:
    """A family of problems, one per seed."""

    name: str
    title: str
    make: Callable[[int], dapd.Problem]
    microseconds: float  # roughly, per iteration of a deterministic method; only used for the remaining time
    blocks: int = 1


@dataclass(frozen=True, order=True)
class Run:
    """What to compute; equal runs are computed once, even if several figures and tables use them."""

    experiment: str
    method: str
    seed: int
    iterations: int

    @property
    def name(self) -> str:
        """The name of its file, without a suffix."""
        return f"{self.experiment}_{self.method}_seed-{self.seed}_{self.iterations}"

    def __str__(self) -> str:
        return f"{self.experiment}, {title(self.method)}, seed {self.seed}"


@dataclass(frozen=True)
class Record:
    """The result of a run: the points of its curve, what it counted, and the residuals of the reference."""

    run: Run
    made_by: str  # versions, build of the core and digest of the sources: what defines the result
    processor: str
    engine: str
    iterations: list[int]
    products: list[float]  # with single blocks of M; Mᵢ and Mᵢᵀ count one each
    seconds: list[float]
    error: list[float]  # ‖x − x*‖/‖x*‖
    kkt: list[float]  # max(stationarity, feasibility)
    wall: float  # seconds for all of it: instance, reference, set-up and solve
    reference: tuple[float, float]  # stationarity and feasibility of (x*, y*)
    condition: float  # L/μ
    coupling_condition: float  # s_max²/s_min²
    block_ratio: float | None  # s̄_max/s_max; None if there are no blocks
    inner: int  # CAPD's inner iterations; 1 for the other methods
    Pi: float | None  # of the theorem, per iteration (CAPD: per outer one)
    counted: theory.Counts
    predicted: theory.Counts  # by `theory.counts`, so without the start


def title(method: str) -> str:
    """The name of a method in the paper."""
    name = method.removesuffix(SHARED)
    return dapd.METHODS[name].title + (SHARED if name != method else "")


def _compressed(name: str, coupling: int, condition: int, blocks: int = 1) -> Experiment:
    """Compressed sensing with s_max²/s_min² = 10^coupling and L/μ = 10^condition."""
    digits = "⁰¹²³⁴⁵⁶"
    title = f"Compressed sensing, s_max²/s_min² = 10{digits[coupling]}, L/μ = 10{digits[condition]}"
    make = partial(compressed_sensing, coupling_condition=10.0**coupling, condition=10.0**condition)
    if blocks == 1:
        return Experiment(name, title, make, microseconds=45)
    make = partial(make, n=100, m=10_000, nonzeros=500, blocks=blocks)
    return Experiment(name, f"{title}, {blocks} blocks", make, microseconds=250, blocks=blocks)


EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        _compressed("cst-1", 5, 4),
        _compressed("cst-2", 6, 3),
        _compressed("cst-blocks-1", 4, 5, blocks=200),
        _compressed("cst-blocks-2", 6, 3, blocks=200),
        Experiment(
            "nse-1",
            "System identification, p = 40, T = 10, L/μ = 10⁹",
            partial(system_identification, p=40, T=10, condition=1e9),
            microseconds=5,
        ),
        Experiment(
            "nse-2",
            "System identification, p = 100, T = 20, L/μ = 10⁴",
            partial(system_identification, p=100, T=20, condition=1e4),
            microseconds=35,
        ),
        Experiment("qp-l1", "QP with ‖Mx − b‖_∞ ≤ 0.01, s_max²/s_min² = 10⁶, L/μ = 10³", qp_l1, microseconds=15),
        Experiment("qp-inequality", "QP with Mx ≤ b, s_max²/s_min² ≈ 10⁶, L/μ = 10³", qp_inequality, microseconds=15),
    )
}

# products with blocks of M per iteration; a deterministic method makes two with each block. MMᵀ is stored, so moving
# the anchor of y-SBC-DAPD takes no product, which makes this number smaller than in the paper.
BLOCK_PRODUCTS = dict.fromkeys(("x-sbc-dapd", "y-sbc-dapd", "x-sbc-dapd-i", "y-sbc-dapd-i"), 4)


def run_cost(run: Run) -> float:
    """Roughly how many seconds a run takes; only used to show the remaining time."""
    experiment = EXPERIMENTS[run.experiment]
    share = BLOCK_PRODUCTS.get(run.method, 0) / (2 * experiment.blocks) or 1.0
    return 0.5 + 1e-6 * experiment.microseconds * share * run.iterations


def compute(run: Run, experiment: Experiment, show: Callable[[float], None] | None = None) -> Record:
    """Compute a run; `show` is called with the fraction that is done."""
    began = perf_counter()
    problem = reference(experiment.make(run.seed))
    kkt = dapd.certify(problem, problem.x_star, problem.y_star)
    name = run.method.removesuffix(SHARED)
    options: dict[str, Any] = {"shared_sample": True} if name != run.method else {}

    def callback(info: dapd.Info) -> None:
        if show is not None:
            show(info.iteration / run.iterations)

    # a short first solve estimates the spectrum and warms the caches, so neither is part of the measured time
    spectrum = dapd.solve(problem, name, tol=0, max_iterations=experiment.blocks, seed=run.seed, **options).spectrum
    result = dapd.solve(
        problem,
        name,
        tol=0,
        max_iterations=run.iterations,
        spectrum=spectrum,
        seed=run.seed,
        history=True,
        callback=callback,
        **options,
    )
    if result.status is not dapd.Status.iteration_limit or result.history is None or result.spectrum is None:
        raise ArithmeticError(f"{run} ended early: {result.message}")
    history = result.history
    # every iteration of a method makes equally many products (y-SBC-DAPD: on average)
    spent = result.block_products or experiment.blocks * result.products
    return Record(
        run=run,
        made_by=made_by(),
        processor=sources.processor(),
        engine=result.engine.name,
        iterations=history.iterations.tolist(),
        products=(history.iterations * (spent / max(1, result.iterations))).tolist(),
        seconds=history.time.tolist(),
        error=history.error.tolist() if history.error is not None else [],
        kkt=[max(pair) for pair in zip(history.stationarity.tolist(), history.feasibility.tolist(), strict=True)],
        wall=perf_counter() - began,
        reference=(kkt.stationarity, kkt.feasibility),
        condition=(problem.f.L or math.nan) / problem.f.mu,
        coupling_condition=(result.spectrum.s_max / result.spectrum.s_min) ** 2,
        block_ratio=_block_ratio(problem, result.spectrum),
        inner=result.parameters.N if isinstance(result.parameters, theory.Capd) else 1,
        Pi=getattr(result.parameters, "Pi", None),
        counted=theory.Counts(result.gradients, result.products, result.block_products),
        predicted=theory.counts(result.parameters, result.iterations, **options),
    )


@cache
def made_by() -> str:
    """What defines a result: the versions of the libraries, the build of the core, the digest of the sources."""
    loaded = core.load()
    build = loaded.__name__.rpartition("_")[2] if loaded else "none"
    return (
        f"dapd {dapd.__version__} (sources {sources.digest()}, core {build}), numpy {np.__version__}, "
        f"scipy {scipy.__version__}"
    )


def _block_ratio(problem: dapd.Problem, spectrum: dapd.Spectrum) -> float | None:
    """s̄_max/s_max, if the problem has blocks."""
    if problem.blocks is None:
        return None
    return float(with_block_norm(spectrum, problem.M, problem.blocks).s_bar_max or math.nan) / spectrum.s_max


def save(record: Record, folder: Path) -> None:
    """Write a record; if the process is killed, the file is complete or absent."""
    write(folder / f"{record.run.name}.json", json.dumps(asdict(record)))


def load(run: Run, folder: Path) -> Record | None:
    """Read a record; None if there is none, or if something that defines the result has changed since."""
    try:
        fields = json.loads((folder / f"{run.name}.json").read_text(encoding="utf-8"))
        fields["run"] = Run(**fields["run"])
        fields["reference"] = tuple(fields["reference"])
        for name in ("counted", "predicted"):
            fields[name] = theory.Counts(*fields[name])
        record = Record(**fields)
    except (OSError, ValueError, KeyError, TypeError):  # absent, cut short, or of another layout
        return None
    return record if record.made_by == made_by() and record.run == run else None


def write(path: Path, text: str) -> None:
    """Write a file that appears completely or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.getpid()}{DRAFT}")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)


def remove_stale_drafts(folder: Path) -> None:
    """Remove the drafts of killed processes; a recent draft may belong to a process that is still writing."""
    for draft in folder.glob(f"*{DRAFT}"):
        if time() - draft.stat().st_mtime > STALE:
            draft.unlink(missing_ok=True)
