"""`auto` against the paper's methods at the theorem's constants, and restarts that know nothing against exact ones.

    python benchmarks/auto.py            # all rows
    python benchmarks/auto.py --quick    # a short time limit for the theorem's methods

The first table: seconds to the tolerance, set-up included, by the better of x-DAPD and y-DAPD with the theorem's
parameters, and by `auto` with and without Clarabel. A ">" means that the method hit its time limit.
The second: iterations of restarts, which use neither mu nor s_min, and of the same methods given exact constants.
"""

from __future__ import annotations

import argparse
import math
from time import perf_counter

import numpy as np

import dapd
from timing import heading

EXPERIMENTS = dapd.experiments


def paper_problems() -> dict[str, tuple[dapd.Problem, float]]:
    """Problems of the paper, each with a tolerance."""
    return {
        "CST, kappa 1e4, chi 1e5": (EXPERIMENTS.compressed_sensing(seed=0), 1e-9),
        "CST, kappa 1e2, chi 1e6": (
            EXPERIMENTS.compressed_sensing(seed=0, condition=1e2, coupling_condition=1e6),
            1e-9,
        ),
        "QP, l1": (EXPERIMENTS.qp_l1(seed=0), 1e-8),
        "QP, inequality": (EXPERIMENTS.qp_inequality(seed=0), 1e-8),
        "system identification, p = 40": (EXPERIMENTS.system_identification(seed=0), 1e-6),
        "system identification, p = 100": (EXPERIMENTS.system_identification(seed=0, p=100, T=20, condition=1e4), 1e-6),
    }


def seconds(problem: dapd.Problem, method: str, tol: float, limit: float, **options: bool) -> tuple[float, bool]:
    began = perf_counter()
    result = dapd.solve(problem, method, tol=tol, time_limit=limit, max_iterations=10**9, **options)
    return perf_counter() - began, result.converged


def against_theorems(limit: float) -> None:
    print(f"{'problem':32} {'tol':>6} {'theorem':>10} {'auto':>8} {'no direct':>10}  theorem/auto")
    for name, (problem, tol) in paper_problems().items():
        times = [seconds(problem, method, tol, limit) for method in ("x-dapd", "y-dapd")]
        solved = [time for time, ok in times if ok]
        theorem = min(solved, default=limit)
        fast, _ = seconds(problem, "auto", tol, 600.0)
        plain, _ = seconds(problem, "auto", tol, 600.0, direct=False)
        mark = " " if solved else ">"
        print(f"{name:32} {tol:6.0e} {mark}{theorem:8.2f} s {fast:6.3f} s {plain:8.3f} s  {mark}{theorem / fast:.1f}")


def instances() -> dict[str, dapd.Problem]:
    """Problems whose constants are known exactly, so the theorems apply."""
    rng = np.random.default_rng(0)
    found: dict[str, dapd.Problem] = {}
    for phi in (dapd.Zero(), dapd.NonNegative(), dapd.L1(0.1), dapd.Box(-1.0, 1.0)):
        for kappa, chi in ((1e1, 1e2), (1e3, 1e2), (1e2, 1e4), (1e4, 1e3)):
            n, m = 40, 120
            U, _, Vt = np.linalg.svd(rng.standard_normal((n, m)), full_matrices=False)
            M = U @ np.diag(np.geomspace(1.0, chi**-0.5, n)) @ Vt
            H = np.geomspace(1.0, kappa, m)[rng.permutation(m)]
            problem = dapd.Problem(dapd.Quadratic(H, rng.standard_normal(m)), M, M @ rng.standard_normal(m), phi)
            found[f"{type(phi).__name__}, kappa {kappa:.0e}, chi {chi:.0e}"] = problem
    for name, (problem, _) in paper_problems().items():
        if "p = 40" not in name:
            found[name] = problem
    return found


def nothing_known(tol: float, limit: float) -> None:
    print(f"\n{'problem':40} {'known':>10} {'nothing known':>14}  ratio")
    ratios = []
    for name, problem in instances().items():
        spectrum = dapd.estimate_spectrum(problem.M, positive=problem.phi.is_linear)
        known = min(
            dapd.solve(problem, method, tol=tol, spectrum=spectrum, time_limit=limit).iterations
            for method in ("x-dapd", "y-dapd")
        )
        found = dapd.solve(problem, engine="native", tol=tol, time_limit=limit)  # first-order steps alone
        iterations = found.iterations if found.converged else math.inf
        ratios.append(iterations / known)
        print(f"{name:40} {known:10,} {iterations:14,}  {ratios[-1]:.2f}")
    print(f"geometric mean {math.exp(np.mean(np.log(ratios))):.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a short time limit")
    limit = 10.0 if parser.parse_args().quick else 120.0
    print(heading())
    against_theorems(limit)
    nothing_known(1e-6, limit)


if __name__ == "__main__":
    main()
