"""Receding-horizon control: 12 states, 4 inputs, horizon 30, bounds on both; one problem per step, started warm.

Only b changes from step to step. The start of each step comes from one closed loop with disturbances, solved
beforehand, so all solvers get the same problems.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.util import find_spec
from time import perf_counter
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

import dapd
from peers import model as m
from peers.case import Case
from peers.classes import control_cost, dynamics_rows
from peers.conic import Answer, residuals
from peers.solvers import clarabel
from peers.with_dapd import SETTINGS, known_options, problem_of, split, tolerance

STATES, INPUTS, HORIZON, STEPS = 12, 4, 30, 50
Step = Callable[[Any], tuple[Answer, float]]  # b -> answer and seconds
Stepper = Callable[[Case, float], Step]


def model(seed: int = 0) -> tuple[m.Model, Any, Any]:
    """The problem of the first step, and the dynamics x⁺ = Ax + Bu."""
    rng = np.random.default_rng(seed)
    A = np.eye(STATES) + 0.1 * rng.standard_normal((STATES, STATES))
    A *= 1.02 / abs(np.linalg.eigvals(A)).max()
    B = 0.3 * rng.standard_normal((STATES, INPUTS))
    Q, R = np.eye(STATES), 0.1 * np.eye(INPUTS)
    last = scipy.linalg.solve_discrete_are(A, B, Q, R)
    start = rng.uniform(-1.0, 1.0, STATES)
    P = control_cost(Q, (last + last.T) / 2, R, HORIZON)
    M = dynamics_rows(A, B, HORIZON)
    most = np.r_[np.full((HORIZON + 1) * STATES, 4.0), np.full(HORIZON * INPUTS, 0.3)]
    b = np.r_[-start, np.zeros(HORIZON * STATES)]
    return (
        m.make("control", "control", m.Quadratic(P, np.zeros(len(most))), M, b, m.equations(len(b)), (-most, most)),
        A,
        B,
    )


def closed_loop(first: m.Model, A: Any, B: Any, steps: int, seed: int = 1) -> list[Any]:
    """The right-hand sides b of each step, with a disturbance after each."""
    rng, state, found = np.random.default_rng(seed), -first.b[:STATES], []
    for _ in range(steps):
        found.append(np.r_[-state, np.zeros(HORIZON * STATES)])
        answer = clarabel(Case(replace(first, b=found[-1])), 1e-9, 10.0).answer
        assert answer is not None
        u = answer.x[(HORIZON + 1) * STATES :][:INPUTS]
        state = np.clip(A @ state + B @ u + 0.2 * rng.standard_normal(STATES), -3.5, 3.5)
    return found


def with_osqp(case: Case, tol: float) -> Step:
    import osqp

    qp, work = case.qp, osqp.OSQP()
    A = sp.csc_matrix(sp.vstack([qp.A, sp.eye_array(len(qp.q))]))
    options = {"eps_abs": tol, "eps_rel": 0.0, "max_iter": 1_000_000, "verbose": False}
    work.setup(sp.csc_matrix(sp.triu(qp.P)), qp.q, A, np.r_[qp.l, qp.lower], np.r_[qp.u, qp.upper], **options)

    def step(b: Any) -> tuple[Answer, float]:
        began = perf_counter()
        work.update(l=np.r_[b, qp.lower], u=np.r_[b, qp.upper])
        found = work.solve(raise_error=False)
        seconds = perf_counter() - began
        return Answer(found.x, found.y[: len(b)], found.y[len(b) :], np.zeros(0)), seconds

    return step


def with_piqp(case: Case, tol: float) -> Step:
    import piqp

    qp, work = case.qp, piqp.SparseSolver()
    work.settings.eps_abs = work.settings.eps_duality_gap_abs = tol
    work.settings.eps_rel = work.settings.eps_duality_gap_rel = 0.0
    work.setup(qp.P, qp.q, qp.A, qp.u, x_l=qp.lower, x_u=qp.upper)

    def step(b: Any) -> tuple[Answer, float]:
        began = perf_counter()
        work.update(b=b)
        work.solve()
        seconds, found = perf_counter() - began, work.result
        return Answer(found.x.copy(), found.y.copy(), found.z_bu - found.z_bl, np.zeros(0)), seconds

    return step


def with_clarabel(case: Case, tol: float) -> Step:
    def step(b: Any) -> tuple[Answer, float]:
        attempt = clarabel(Case(replace(case.model, b=b)), tol, 10.0)
        assert attempt.answer is not None
        return attempt.answer, attempt.seconds

    return step


def with_dapd(case: Case, tol: float, setting: str) -> Step:
    """dapd.Solver if there is one, otherwise a solve from the last answer."""
    options, problem = {**tolerance(tol), **known_options(SETTINGS[setting])}, problem_of(case.model)
    last: dict[str, Any] = {}
    solver = dapd.Solver(problem, **options) if hasattr(dapd, "Solver") else None

    def step(b: Any) -> tuple[Answer, float]:
        began = perf_counter()
        if solver is not None:
            solver.update(b=b)
            result = solver.solve()
        else:
            current = problem_of(replace(case.model, b=b))
            result = dapd.solve(current, **options, **last)
            last.update(x0=result.x, y0=result.y)
        seconds = perf_counter() - began
        y, z = split(case.model, result.y, getattr(result, "z", None))
        return Answer(result.x, y, z, np.zeros(0)), seconds

    return step


STEPPERS: dict[str, tuple[str, Stepper]] = {
    **{name: ("dapd", lambda case, tol, name=name: with_dapd(case, tol, name)) for name in SETTINGS},
    "OSQP": ("osqp", with_osqp),
    "PIQP": ("piqp", with_piqp),
    "Clarabel, cold": ("clarabel", with_clarabel),
}


def measure(tolerances: Sequence[float], steps: int = STEPS) -> list[dict[str, Any]]:
    """One row for each solver and tolerance: median seconds per step after the first, and the worst residual."""
    first, A, B = model()
    sides, rows = closed_loop(first, A, B, steps), []
    for tol in tolerances:
        for name, (module, stepper) in STEPPERS.items():
            if find_spec(module) is None:
                continue
            try:
                row = walk(stepper(Case(first), tol), first, sides)
            except (ValueError, TypeError) as error:
                row = {
                    "status": f"refused: {str(error)[:120]}",
                    "met": 0,
                    "median": float("inf"),
                    "worst": float("inf"),
                }
            else:
                row["met"] = sum(found <= tol for found in row.pop("found"))
            rows.append({"solver": name, "tol": tol, "steps": steps, **row})
            print(rows[-1], flush=True)
    return rows


def walk(step: Step, first: m.Model, sides: list[Any]) -> dict[str, Any]:
    """The times and residuals of all steps."""
    times, found = [], []
    for b in sides:
        answer, seconds = step(b)
        times.append(seconds)
        found.append(residuals(Case(replace(first, b=b)).qp, answer).worst)
    later = times[1:] or times
    return {
        "status": "done",
        "median": float(np.median(later)),
        "slowest": max(later),
        "worst": max(found),
        "found": found,
    }


def table(rows: list[dict[str, Any]]) -> str:
    """Median and slowest step of each solver."""
    lines = ["| solver | tolerance | median step, ms | slowest, ms | steps that met it |", "|---|---|---|---|---|"]
    for row in rows:
        slowest = f"{1e3 * row['slowest']:.2f}" if "slowest" in row else ""
        median = f"{1e3 * row['median']:.2f}" if np.isfinite(row["median"]) else row["status"].partition(":")[0]
        lines.append(f"| {row['solver']} | {row['tol']:g} | {median} | {slowest} | {row['met']} of {row['steps']} |")
    return "\n".join(lines)
