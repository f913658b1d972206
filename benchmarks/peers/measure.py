"""Time to a verified answer: one solver on one problem, in a process that can be stopped."""

from __future__ import annotations

import multiprocessing
from functools import partial
from importlib.util import find_spec
from typing import Any

from peers import model as m
from peers import solvers, specialists, with_dapd
from peers.case import Attempt, Case, Solver, peak_megabytes
from peers.conic import residuals
from peers.suites import Spec, build

REPEATS, QUICK = 5, 0.1  # a run of less than QUICK seconds is repeated, and the shortest time counts
OVERTIME = 1.1  # how far beyond its limit an answer still counts, since solvers look at the clock now and then
GRACE = 1.5, 20.0  # factor and seconds beyond its limit after which a solver is stopped
TIGHTER = (1.0, 1e-1, 1e-2, 1e-3)


def conic(model: m.Model) -> bool:
    return True


def quadratic(model: m.Model) -> bool:
    """Whether the conic form has no cones."""
    costs = all(isinstance(cost, m.Quadratic | m.Squares) for cost, _ in model.costs)
    return costs and not any(isinstance(part, m.Norms) for part in model.parts)


def quadratic_up_to(variables: int, model: m.Model) -> bool:
    return quadratic(model) and max(model.variables, model.rows) <= variables


SOLVERS: dict[str, Solver] = {
    **{name: Solver("dapd", partial(with_dapd.run, setting=name), conic) for name in with_dapd.SETTINGS},
    "Clarabel": Solver("clarabel", solvers.clarabel, conic, TIGHTER),
    "OSQP": Solver("osqp", solvers.osqp, quadratic, TIGHTER[:2]),
    "SCS": Solver("scs", solvers.scs, conic, TIGHTER[:2]),
    "PIQP": Solver("piqp", solvers.piqp, quadratic, TIGHTER),
    "ProxQP": Solver("proxsuite", solvers.proxqp, partial(quadratic_up_to, 3_000), TIGHTER[:2]),
    "HiGHS": Solver("highspy", solvers.highs, partial(quadratic_up_to, 20_000), TIGHTER),
    "SciPy": Solver("scipy", specialists.trust_constr, specialists.small_qp, (1.0, 1e-2, 1e-4, 1e-6)),
    "SciPy, isotonic": Solver("scipy", specialists.isotonic_regression, specialists.is_isotonic),
    "PyProximal": Solver("pyproximal", specialists.proximal_steps, specialists.fits_pyproximal),
}


def installed(name: str) -> bool:
    """Whether a solver's package is there, and this version of dapd has the options of a setting."""
    options = with_dapd.SETTINGS.get(name, {})
    return find_spec(SOLVERS[name].module) is not None and with_dapd.known_options(options) == options


def measure(case: Case, name: str, tol: float, limit: float) -> dict[str, Any]:
    """Run a solver until its answer meets the tolerance, asking for more if it misses; only the last run counts."""
    solver, missed = SOLVERS[name], False
    for factor in solver.tighter:
        attempt, found = verified(case, solver, tol * factor, limit)
        met = found["worst"] <= tol and attempt.seconds <= OVERTIME * limit
        missed |= attempt.claims and not met
        if met or attempt.seconds >= limit or not attempt.claims:
            break
    if met and attempt.seconds < QUICK:
        times = [solver.solve(case, tol * factor, limit).seconds for _ in range(REPEATS - 1)]
        attempt = attempt._replace(seconds=min(attempt.seconds, *times))
    return {
        "met": bool(met),
        "claims": bool(attempt.claims),
        "missed": bool(missed),  # it said that it had reached the tolerance and had not, at least once
        "factor": factor,
        "seconds": attempt.seconds,
        "status": attempt.status,
        "iterations": int(attempt.iterations),
        "peak_megabytes": attempt.peak_megabytes,
        **found,
    }


def verified(case: Case, solver: Solver, tol: float, limit: float) -> tuple[Attempt, dict[str, float]]:
    """An attempt and the residuals of its answer."""
    attempt = solver.solve(case, tol, limit)
    if not attempt.peak_megabytes:
        attempt = attempt._replace(peak_megabytes=peak_megabytes())
    if attempt.answer is None:
        return attempt, dict.fromkeys(("primal", "dual", "gap", "worst"), float("inf"))
    found = residuals(case.qp, attempt.answer)
    return attempt, {"primal": found.primal, "dual": found.dual, "gap": found.gap, "worst": found.worst}


def serve(connection: Any) -> None:
    """Answer requests until told to stop; the last problem is kept."""
    known: Spec | None = None
    while (request := connection.recv()) is not None:
        spec, name, tol, limit = request
        if spec != known:
            known, case = spec, Case(build(spec))
        if not SOLVERS[name].applies(case.model):
            connection.send(None)
            continue
        try:
            shape = {"variables": case.model.variables, "rows": case.model.rows, "nonzeros": case.qp.nonzeros}
            connection.send({**measure(case, name, tol, limit), **shape})
        except Exception as error:  # a peer's failure is a row of the table, and its message is in it
            connection.send(failure(f"{type(error).__name__}: {str(error)[:120]}", 0.0))


def failure(status: str, seconds: float) -> dict[str, Any]:
    """The row of a run that gave no answer."""
    nothing = dict.fromkeys(("primal", "dual", "gap", "worst"), float("inf"))
    flags = {"met": False, "claims": False, "missed": False, "factor": 1.0}
    sizes = dict.fromkeys(("iterations", "peak_megabytes", "variables", "rows", "nonzeros"), 0)
    return {**flags, "seconds": seconds, "status": status, **sizes, **nothing}


class Worker:
    """A process that runs solvers, replaced if one of them does not come back."""

    def __init__(self) -> None:
        self._process: Any = None

    def run(self, spec: Spec, name: str, tol: float, limit: float, *, fresh: bool = False) -> dict[str, Any] | None:
        """The row of one run; None if the solver does not apply. `fresh` starts a process for it alone."""
        if fresh:
            self.stop()
        if self._process is None:
            context = multiprocessing.get_context("spawn")
            self._connection, theirs = context.Pipe()
            self._process = context.Process(target=serve, args=(theirs,), daemon=True)
            self._process.start()
        self._connection.send((spec, name, tol, limit))
        attempts, build_time = len(SOLVERS[name].tighter), 60.0
        patience = attempts * (GRACE[0] * limit + GRACE[1]) + build_time
        try:
            if self._connection.poll(patience):
                return self._connection.recv()
            status = "stopped: far beyond its time limit"
        except EOFError:
            status = "the process died"
        self._process.kill()
        self._process.join()
        self._process = None
        return failure(status, limit)

    def stop(self) -> None:
        """End the process."""
        if self._process is not None:
            self._connection.send(None)
            self._process.join()
            self._process = None
