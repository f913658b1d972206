"""Checkpoints: the best point of a solve in a file, so a solve that was killed goes on from there."""

from __future__ import annotations

import hashlib
import os
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from dapd.arrays import Array
from dapd.clock import perf_counter
from dapd.model.problem import Problem
from dapd.solving.loop import Info

EVERY = 5.0  # seconds between two checkpoints
MARK_PRODUCTS = 3  # products by which problems are told apart


class Checkpoint:
    """A file with a point of one problem; a point that `own` says this caller wrote there before may be replaced."""

    def __init__(self, path: Any, problem: Problem, own: dict[Path, str] | None = None) -> None:
        self.path = Path(path)
        self.problem, self.mark, self.own = problem, mark_of(problem), {} if own is None else own
        self.last, self.least = perf_counter(), np.inf

    def start(self, start: dict[str, Any]) -> dict[str, Any]:
        """The saved point, or the given start if nothing of this problem was saved."""
        found = self.read()
        self._check_writable()
        return start if found is None else {"x0": found[0], "y0": found[1]}

    def read(self) -> tuple[Array, Array] | None:
        """X and the multipliers of the rows and bounds; None if there is no file, or one to replace."""
        if not self.path.exists():
            return None
        try:
            with open(self.path, "rb") as file, np.load(file) as saved:
                mark, x, y = str(saved["mark"]), saved["x"], saved["y"]
        except (OSError, ValueError, KeyError, TypeError, EOFError, BadZipFile, zlib.error) as error:
            raise ValueError(f"checkpoint {self.path} cannot be read ({error}); delete it, or name another") from None
        if mark != self.mark:
            if mark == self.own.get(self.path):
                return None
            raise ValueError(f"checkpoint {self.path} belongs to another problem; delete it, or name another")
        lengths = self.problem.columns, self.problem.stacked.rows
        if (*x.shape, *y.shape) != lengths or not (np.isfinite(x).all() and np.isfinite(y).all()):
            raise ValueError(f"checkpoint {self.path} holds no finite point; delete it, or name another")
        return x, y

    @property
    def part(self) -> Path:
        """The file that is written before it replaces the other."""
        return self.path.with_name(self.path.name + ".part")

    def _check_writable(self) -> None:
        """Raise before the solve if its points could not be saved."""
        if _process() != 0:
            return
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.part.touch()
            self.part.unlink()
        except OSError as error:
            raise ValueError(f"checkpoint {self.path} cannot be written ({error}); name another") from None

    def watching(self, callback: Callable[[Info], object] | None) -> Callable[[Info], object]:
        """The callback, which also saves the point every few seconds if it is better than what was saved."""

        def watch(info: Info) -> object:
            now = perf_counter()
            if now - self.last >= EVERY and info.certificate.error < self.least:
                dual = info.y if info.z is None else np.concatenate([info.y, info.z])
                self.write(info.x, dual)
                self.last, self.least = now, info.certificate.error
            return None if callback is None else callback(info)

        return watch

    def write(self, x: Array, y: Array) -> None:
        """Replace the file at once, so a reader finds the old point or the new one; only the first process writes."""
        if not (np.isfinite(x).all() and np.isfinite(y).all()):
            return
        self.own[self.path] = self.mark
        if _process() != 0:
            return
        with open(self.part, "wb") as file:
            np.savez(file, mark=np.array(self.mark), x=np.asarray(x), y=np.asarray(y))
            file.flush()
            os.fsync(file.fileno())
        os.replace(self.part, self.path)


def _process() -> int:
    """The number of this process in a solve by several."""
    jax = sys.modules.get("jax")
    return 0 if jax is None else int(jax.process_index())


def mark_of(problem: Problem) -> str:
    """A digest of b, the bounds, and products with M and gradients at fixed random points."""
    stacked, rng = problem.stacked, np.random.default_rng(0)
    digest = hashlib.sha256(repr((stacked.M.shape, str(problem.dtype), type(problem.phi).__name__)).encode())
    parts = [problem.b, *problem.bounds]
    with np.errstate(all="ignore"):
        for _ in range(MARK_PRODUCTS):
            x = rng.standard_normal(problem.columns)
            image = problem.M.forward(x)
            parts += [image, problem.f.grad(x), problem.phi.prox(image, 1.0)]
    for part in parts:
        v = np.asarray(part, np.float64)
        size = float(np.max(abs(v), where=np.isfinite(v), initial=0.0)) or 1.0
        # a few digits fewer, since sums may be in another order next time; and no negative zeros
        digest.update((np.round(v / size, 6) + 0.0).tobytes() + f"{size:.6e}".encode())
    return digest.hexdigest()
