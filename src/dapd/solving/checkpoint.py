"""Checkpoints: the best point of a solve in a file, so a solve that was killed goes on from there."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from dapd.arguments import warn
from dapd.arrays import Array
from dapd.kinds.base import kinds_of
from dapd.machine.clock import perf_counter
from dapd.problem.problem import Problem
from dapd.ways.kept import Learnt
from dapd.ways.search import Info

EVERY = 5.0  # seconds between two checkpoints
PRODUCTS = 3  # products by which problems are told apart
GROUPS = 1 << 16  # numbers that are kept of a vector, each a sum of its entries if there are more
INACCURATE, TINY = 1e4, 1e2  # roundings by which entries may change: of themselves, and of the largest one
SEAL = 32  # bytes at the end of a file, a digest of all others
BLOCK = 1 << 20  # bytes that are read at once


class Checkpoint:
    """A file with a point of one problem; a point that `own` says this caller wrote there before may be replaced."""

    def __init__(
        self, path: Any, problem: Problem, learnt: Learnt | None = None, own: dict[Path, str] | None = None
    ) -> None:
        self.path, self.learnt = Path(path), learnt or Learnt()
        self.mark, self.own = mark_of(problem), {} if own is None else own
        self.last, self.least = perf_counter(), np.inf

    def start(self) -> tuple[Array, Array] | None:
        """The saved point; None if nothing of this problem was saved."""
        found = self.read()
        self._check_writable()
        return found

    def read(self) -> tuple[Array, Array] | None:
        """X and the multipliers of the rows and bounds; None if there is no file, or one to replace."""
        if not self.path.exists():
            return None
        try:
            with open(self.path, "rb") as file:
                if not _is_sealed(file):
                    raise OSError("it was damaged, or is no checkpoint")
                with np.load(file) as saved:
                    exact, sums, x, y = str(saved["exact"]), saved["sums"], saved["x"], saved["y"]
                    learnt = saved["learnt"].tolist() if "learnt" in saved else []
        except OSError as error:
            raise ValueError(f"checkpoint {self.path} cannot be read ({error}); delete it, or name another") from None
        if self.mark.agrees(exact, sums):
            if learnt:
                self.learnt.take(learnt)
            return x, y
        if Mark(exact, sums, sums).key == self.own.get(self.path):
            return None
        raise ValueError(f"checkpoint {self.path} belongs to another problem; delete it, or name another")

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
                self.write(info.x, info.y if info.z is None else np.concatenate([info.y, info.z]))
                self.last, self.least = now, info.certificate.error
            return None if callback is None else callback(info)

        return watch

    def write(self, x: Array, y: Array) -> None:
        """Replace the file at once, so a reader finds the old point or the new one; only the first process writes.

        A disk that is full by now costs the checkpoint, but not the solve.
        """
        if not (np.isfinite(x).all() and np.isfinite(y).all()):
            return
        if _process() == 0:
            try:
                with open(self.part, "w+b") as file:
                    np.savez(
                        file,
                        exact=np.array(self.mark.exact),
                        sums=self.mark.sums,
                        x=np.asarray(x),
                        y=np.asarray(y),
                        learnt=np.array(self.learnt.numbers),
                    )
                    file.write(_digest(file, file.seek(0, os.SEEK_END)))
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(self.part, self.path)
            except OSError as error:
                with contextlib.suppress(OSError):
                    self.part.unlink(missing_ok=True)
                text = (
                    f"checkpoint {self.path} could not be written ({error}); the solve goes on, and returns its result"
                )
                warn(text, RuntimeWarning)
                return
        self.own[self.path] = self.mark.key


def _process() -> int:
    """The number of this process in a solve by several."""
    jax = sys.modules.get("jax")
    return 0 if jax is None else int(jax.process_index())


def _digest(file: IO[bytes], size: int) -> bytes:
    """A digest of the first bytes of a file, after which it is to be read or written next."""
    digest, left = hashlib.sha256(), size
    file.seek(0)
    while left > 0 and (block := file.read(min(left, BLOCK))):
        digest.update(block)
        left -= len(block)
    return digest.digest()


def _is_sealed(file: IO[bytes]) -> bool:
    """Whether a file is what was written; it is then to be read from its beginning."""
    size = file.seek(0, os.SEEK_END) - SEAL
    sealed = size > 0 and _digest(file, size) == file.read(SEAL)
    file.seek(0)
    return sealed


class Mark(NamedTuple):
    """What tells problems apart."""

    exact: str  # a digest of what must be equal
    sums: Array  # numbers that must agree,
    noise: Array  # but for so much

    @property
    def key(self) -> str:
        """A digest of the mark as it is written."""
        return hashlib.sha256(self.exact.encode() + self.sums.tobytes()).hexdigest()

    def agrees(self, exact: str, sums: Array) -> bool:
        """Whether this is the mark of the same problem, of which another machine or engine may have made it."""
        return exact == self.exact and len(sums) == len(self.sums) and bool((abs(sums - self.sums) <= self.noise).all())


def _at_hand(problem: Problem) -> list[Any]:
    """The numbers and vectors of a problem that need not be computed."""
    phi = problem.phi
    found: list[Any] = [problem.b, *problem.bounds]
    for kind, rows in kinds_of(phi, problem.rows):
        found += [rows, *kind.numbers()]
    for one in (part.terms for part in problem.terms or []):
        diagonal = one.H if isinstance(one.H, np.ndarray) and one.H.ndim == 1 else None
        found += [value for value in (one.c, one.d, one.ridge, diagonal) if value is not None]
        found += [] if one.loss is None else [v for v in vars(one.loss).values() if isinstance(v, (int, float))]
    return found


def mark_of(problem: Problem) -> Mark:
    """The numbers of a problem that are at hand, and products with M and gradients at fixed random points."""
    phi, rng = problem.phi, np.random.default_rng(0)
    vectors = [(value, None) for value in _at_hand(problem)]  # each with the sizes of what was added up
    with np.errstate(all="ignore"):
        for _ in range(PRODUCTS):
            x = rng.standard_normal(problem.columns)
            image, slope = np.asarray(problem.M.forward(x)), np.asarray(problem.f.grad(x))
            terms = problem.M.row_sizes(x)
            vectors += [(image, np.max(abs(image), initial=0.0) if terms is None else terms)]
            vectors += [(value, np.max(abs(value), initial=0.0)) for value in (slope, np.asarray(phi.prox(image, 1.0)))]
    digest = hashlib.sha256(
        repr(((problem.multipliers, problem.columns), str(problem.dtype), type(phi).__name__)).encode()
    )
    eps = float(np.finfo(problem.dtype).eps)
    sums: list[Array] = []
    noise: list[Array] = []
    for value, terms in vectors:
        v = np.atleast_1d(np.asarray(value, np.float64))
        known = np.isfinite(v)
        digest.update(known.tobytes() + np.signbit(v[np.isinf(v)]).tobytes())
        v = np.where(known, v, 0.0)
        sizes = abs(v) if terms is None else np.where(known, np.asarray(terms, np.float64), 0.0)
        weights = rng.uniform(1.0, 2.0, v.size)
        group = np.arange(v.size) % GROUPS
        sums.append(np.bincount(group, weights * v))
        allowed = eps * (INACCURATE * sizes + TINY * np.max(abs(v), initial=0.0))
        noise.append(np.bincount(group, weights * allowed))
    return Mark(digest.hexdigest(), np.concatenate(sums), np.concatenate(noise))
