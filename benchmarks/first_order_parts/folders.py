"""Folders of test problems, solved by dapd's first-order steps alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

import dapd
from first_order_parts.contestants import lifted
from first_order_parts.instances import dapd_problem
from first_order_parts.judges import relative, relative_norms
from peers import maros
from peers import model as m
from peers.case import Case
from peers.solvers import MANY
from peers.with_dapd import known_options

PATIENCE = 10  # seconds of the clock for each of CPU time that a run may take


class Verdict(NamedTuple):
    """What became of one problem."""

    status: str
    iterations: int
    seconds: float
    cpu: float  # seconds of all threads: fewer than those of the clock if the machine was busy
    own: float  # error by the package's certificate
    outside: float  # ∞-norm, relative to the greatest term
    norms: float  # PDLP's relative norms


def netlib_names(folder: Path) -> list[str]:
    """The problems of a folder, by size of the file."""
    files = sorted(folder.glob("*.mps.gz"), key=lambda file: (file.stat().st_size, file.name))
    return [file.name.removesuffix(".mps.gz") for file in files]


def netlib(folder: Path, name: str) -> m.Model:
    """A linear program as HiGHS reads it."""
    import highspy

    reader = highspy.Highs()
    reader.setOptionValue("output_flag", False)
    reader.readModel(str(folder / f"{name}.mps.gz"))
    lp = reader.getLp()
    n, rows, sign = lp.num_col_, lp.num_row_, 1.0 if lp.sense_ == highspy.ObjSense.kMinimize else -1.0
    entries = lp.a_matrix_
    build = sp.csc_array if entries.format_ == highspy.MatrixFormat.kColwise else sp.csr_array
    A = build((np.array(entries.value_), np.array(entries.index_), np.array(entries.start_)), shape=(rows, n))
    cost = m.Quadratic(np.zeros(n), sign * np.array(lp.col_cost_))
    limits = m.Within(np.array(lp.row_lower_), np.array(lp.row_upper_))
    bounds = np.array(lp.col_lower_), np.array(lp.col_upper_)
    return m.make(name, "netlib", cost, sp.csr_array(A), np.zeros(rows), limits, bounds)


READERS: dict[str, tuple[Callable[[Path], list[str]], Callable[[Path, str], m.Model]]] = {
    "netlib": (netlib_names, netlib),
    "maros": (maros.names, maros.load),
}


def models(kind: str, folder: Path, only: list[str] | None) -> Iterator[tuple[str, m.Model]]:
    """The problems of a folder, the smallest file first."""
    names, load = READERS[kind]
    for name in names(folder):
        if only is None or name in only:
            yield name, load(folder, name)


def verdict(model: m.Model, tol: float, limit: float, accuracy: str, *, of_cpu: bool = False) -> Verdict:
    """One run at a tolerance of the package, judged from outside as well; the limit may be one of CPU time."""
    options: dict[str, Any] = known_options({"accuracy": accuracy}) | {"time_limit": limit}
    if of_cpu:
        last = process_time() + limit
        options |= {"time_limit": PATIENCE * limit, "callback": lambda _: process_time() > last}
    case, began, cpu = Case(model), perf_counter(), process_time()
    try:
        found = dapd.solve(
            dapd_problem(model),
            tol=tol,
            max_iterations=MANY,
            engine="native",
            direct=False,
            **options,
        )
    except (ValueError, TypeError, ArithmeticError) as error:  # a row of the table says so
        return Verdict(f"{type(error).__name__}: {error}"[:60], 0, perf_counter() - began, 0.0, *[np.inf] * 3)
    seconds, cpu = perf_counter() - began, process_time() - cpu
    answer = lifted(case, found)
    outside, norms = relative(case, answer), relative_norms(case, answer)
    return Verdict(str(found.status), found.iterations, seconds, cpu, found.certificate.error, outside, norms)
