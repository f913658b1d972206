"""The part `lp` of `gpu.py`: linear programs and quadratic flows to 1e-6 in PDLP's relative norms, MPAX beside dapd.

A callback that judges every convergence check finds the iterations that are needed. A second solve then takes just as
many without it, so its time is what the package takes, and its answer is judged again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, NamedTuple

import jax
import numpy as np

import dapd
from dapd.ways.kept import Learnt
from first_order_parts.contestants import lifted
from first_order_parts.instances import dapd_problem, flow_lp, flow_with_capacities, sparse_lp, transport_lp
from first_order_parts.judges import relative_norms
from peers.case import Case
from peers.conic import Answer
from peers.model import Model

TOL, LIMIT = 1e-6, 60.0
FINEST = 1e-15  # a tolerance that no point meets
REPEATS = 3  # of which the least time counts


class Row(NamedTuple):
    """One problem."""

    name: str
    make: Callable[[], Model]
    bar: float  # seconds that it may take


ROWS = [
    Row("transport LP 300²", lambda: transport_lp(300), 0.30),
    Row("flow LP 10k/50k", lambda: flow_lp(10_000, 50_000), 0.25),
    Row("sparse LP 20k×50k", lambda: sparse_lp(20_000, 50_000), 0.06),
    Row("transport LP 1000²", lambda: transport_lp(1000), 2.0),
    Row("flow LP 100k/500k", lambda: flow_lp(100_000, 500_000), 0.8),
    Row("flow QP 20k", lambda: flow_with_capacities(20_000), 0.012),
    Row("flow QP 10⁶", lambda: flow_with_capacities(1_000_000), 0.30),
]


def report(row: Row, say: Callable[..., None]) -> None:
    """All measurements of one problem, a line for each."""
    case = Case(row.make())
    ours = judged(case, row, say)
    for accuracy in ("objective", "solution"):
        certified(case, row, accuracy, say)
    theirs = by_mpax(case, row, say)
    if theirs:
        say(f"{row.name}: MPAX takes {theirs / ours:.1f} times as long")


def judged(case: Case, row: Row, say: Callable[..., None]) -> float:
    """Seconds to the tolerance in PDLP's relative norms."""
    solver = solver_of(case, accuracy="objective", tol=FINEST)

    def accepts(point: Any) -> bool:
        return relative_norms(case, lifted(case, point)) <= TOL

    began = time.perf_counter()
    steps = solver.solve(callback=accepts).iterations
    first = time.perf_counter() - began
    result, called = fastest(solver, max_iterations=steps)
    error = relative_norms(case, lifted(case, result))
    say(
        f"{row.name}: PDLP's norms {error:.1e} after {steps:,} iterations in {result.solve_time:.3f} s, bar {row.bar}, "
        f"call {called:.3f} s, {1e6 * result.solve_time / max(1, steps):.1f} us each, first call {first:.1f} s"
    )
    return result.solve_time


def certified(case: Case, row: Row, accuracy: str, say: Callable[..., None]) -> None:
    """Seconds to the tolerance by the package's own certificate."""
    solver = solver_of(case, accuracy=accuracy, tol=TOL)
    solver.solve()
    result, called = fastest(solver)
    error = relative_norms(case, lifted(case, result))
    say(
        f"{row.name}: own certificate, {accuracy}: {result.status} after {result.iterations:,} iterations in "
        f"{result.solve_time:.3f} s, call {called:.3f} s, PDLP's norms {error:.1e}"
    )


def solver_of(case: Case, **options: Any) -> dapd.Solver:
    """First-order steps of the jax engine."""
    return dapd.Solver(dapd_problem(case.model), engine="jax", direct=False, time_limit=LIMIT, **options)


def fastest(solver: dapd.Solver, **options: Any) -> tuple[Any, float]:
    """The fastest of some solves from zero, after one that compiles what it needs, and seconds of its whole call."""
    zero = {"x0": np.zeros(solver.problem.columns), "y0": np.zeros(solver.problem.rows)}
    found = []
    for _ in range(1 + REPEATS):
        solver.kept.learnt = Learnt()  # a solve from zero knows nothing of the one before
        began = time.perf_counter()
        result = solver.solve(**zero, **options)
        found.append((result, time.perf_counter() - began))
    return min(found[1:], key=lambda pair: float(pair[0].solve_time))


def by_mpax(case: Case, row: Row, say: Callable[..., None]) -> float | None:
    """Seconds of MPAX's reflected restarted Halpern steps, if it is installed and the problem is linear."""
    qp = case.qp
    if find_spec("mpax") is None or qp.P.nnz:
        return None
    from mpax import create_lp, r2HPDHG

    none = np.zeros((0, len(qp.q)))
    program = create_lp(qp.q, qp.A, qp.l, none, np.zeros(0), qp.lower, qp.upper, use_sparse_matrix=True)
    optimize = jax.jit(r2HPDHG(eps_abs=TOL, eps_rel=TOL).optimize)
    times = []
    for _ in range(1 + REPEATS):
        began = time.perf_counter()
        found = jax.block_until_ready(optimize(program))
        times.append(time.perf_counter() - began)
    answer = Answer(
        np.asarray(found.primal_solution), -np.asarray(found.dual_solution), np.zeros(len(qp.q)), np.zeros(0)
    )
    error = relative_norms(case, answer)
    say(f"{row.name}: MPAX: {error:.1e} after {int(found.iteration_count):,} iterations in {min(times[1:]):.3f} s")
    return min(times[1:])
