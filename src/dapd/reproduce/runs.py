"""One run: a method on an instance of an experiment for a number of iterations, and its record on disk."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter, time
from typing import Any

import dapd
from dapd.experiments import reference
from dapd.model.problem import Problem
from dapd.reproduce import sources
from dapd.reproduce.machine import processor
from dapd.solving.certificate import certify

DRAFT = ".draft"  # suffix of a file that is being written
STALE = 60.0  # seconds; writing a file never takes this long
SHARED = "-i"  # the paper's suffix for the variants that draw one block for both steps


@dataclass(frozen=True)
class Experiment:
    """A family of problems, one per seed."""

    name: str
    title: str
    make: Callable[[int], Problem]
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
    """The result of a run: the points of its curve, and the residuals of the reference."""

    run: Run
    version: str
    sources: str  # digest of the source files that define the result
    processor: str
    iterations: list[int]
    products: list[float]  # with single blocks of M; Mᵢ and Mᵢᵀ count one each
    seconds: list[float]
    error: list[float]  # ‖x − x*‖/‖x*‖
    kkt: list[float]  # max(stationarity, feasibility)
    wall: float  # seconds for all of it: instance, reference, set-up and solve
    reference: tuple[float, float]  # stationarity and feasibility of (x*, y*)
    condition: float  # L/μ
    coupling_condition: float  # s_max²/s_min²


def title(method: str) -> str:
    """The name of a method in the paper."""
    name = method.removesuffix(SHARED)
    return dapd.METHODS[name].title + (SHARED if name != method else "")


def compute(run: Run, experiment: Experiment, show: Callable[[float], None] | None = None) -> Record:
    """Compute a run; `show` is called with the fraction that is done."""
    began = perf_counter()
    problem = reference(experiment.make(run.seed))
    kkt = certify(problem, problem.x_star, problem.y_star)
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
        version=dapd.__version__,
        sources=sources.digest(),
        processor=processor(),
        iterations=history.iterations.tolist(),
        products=(history.iterations * (spent / max(1, result.iterations))).tolist(),
        seconds=history.time.tolist(),
        error=history.error.tolist() if history.error is not None else [],
        kkt=[max(pair) for pair in zip(history.stationarity.tolist(), history.feasibility.tolist(), strict=True)],
        wall=perf_counter() - began,
        reference=(kkt.stationarity, kkt.feasibility),
        condition=(problem.f.L or math.nan) / problem.f.mu,
        coupling_condition=(result.spectrum.s_max / result.spectrum.s_min) ** 2,
    )


def save(record: Record, folder: Path) -> None:
    """Write a record; if the process is killed, the file is complete or absent."""
    write(folder / f"{record.run.name}.json", json.dumps(asdict(record)))


def load(run: Run, folder: Path) -> Record | None:
    """Read a record; None if there is none, or if it belongs to another version or other sources."""
    try:
        fields = json.loads((folder / f"{run.name}.json").read_text(encoding="utf-8"))
        fields["run"] = Run(**fields["run"])
        fields["reference"] = tuple(fields["reference"])
        record = Record(**fields)
    except (OSError, ValueError, KeyError, TypeError):  # absent, cut short, or of another layout
        return None
    made_by = record.version, record.sources
    return record if made_by == (dapd.__version__, sources.digest()) and record.run == run else None


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
