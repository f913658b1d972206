"""The x that violates rows least, by SciPy's linear programming (HiGHS); its multipliers show that rows contradict."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from dapd.arrays import Array
from dapd.kinds.base import is_own
from dapd.machine.rates import LINEAR_PROGRAM
from dapd.newton.matrices import NotExplicit, TooExpensive, explicit
from dapd.problem.problem import Problem
from dapd.problem.usual import usual

MOST_ENTRIES, PROBED_ENTRIES = 1 << 22, 1 << 19  # most entries of a matrix, and of one that is found by products
PRODUCT_SECONDS = 0.1  # seconds that products may take, if they are needed to find the entries of M
EXACT = 1e-9  # violation of a row in its usual terms up to which it counts as satisfied


class Least(NamedTuple):
    """The least that rows must be violated, all in all."""

    x: Array  # that violates them so
    ray: Array  # the multipliers of the rows: a Farkas ray if no x satisfies all of them


def seconds(problem: Problem) -> float:
    """About what `least_violation` takes at least; inf if M is too large, or φ is only available in Python."""
    count = problem.M.entry_count
    if not problem.rows or not is_own(problem.phi, "prox"):
        return math.inf
    most = MOST_ENTRIES
    if count is None:
        count, most = problem.rows * problem.columns, PROBED_ENTRIES
    if count > most:
        return math.inf
    return LINEAR_PROGRAM.entry * count + LINEAR_PROGRAM.unknown * (problem.rows + problem.columns)


def least_violation(problem: Problem, limit: float) -> Least | None:
    """The least Σ r_i·dist(M_i x − b_i, dom φ*_i) within the bounds; None if it is not found in `limit` seconds.

    r are the factors of the rows in the units of the data. Rows in groups take no part.
    """
    from scipy.optimize import linprog  # slow to import, and rarely needed

    rows = problem.phi_table
    if rows is None or not limit > 0:
        return None
    try:
        M = explicit(problem.M, PRODUCT_SECONDS)
    except (NotExplicit, TooExpensive, TypeError, ValueError):
        return None
    units = usual(problem)
    (low, high), (least, most) = rows.of_residual, rows.of_dual
    lower = np.where(~rows.grouped & (least == -np.inf), low, -np.inf)
    upper = np.where(~rows.grouped & (most == np.inf), high, np.inf)
    kept = np.flatnonzero(np.isfinite(lower) | np.isfinite(upper))
    if not kept.size:
        return None
    # Mx − b = z + above − below in the units of the data, with lower ≤ z ≤ upper
    r, sizes, one = units.rows[kept], units.xi * units.columns, sp.eye_array(kept.size)
    scaled = sp.diags_array(r / units.xi) @ sp.csr_array(M)[kept] @ sp.diags_array(sizes)
    ends = np.concatenate([side / sizes for side in problem.bounds]).reshape(2, -1)
    intervals = np.stack([lower[kept], upper[kept]]) * r / units.xi
    slack = np.stack([np.zeros(2 * kept.size), np.full(2 * kept.size, np.inf)])
    found = linprog(
        np.concatenate([np.zeros(problem.columns + kept.size), np.ones(2 * kept.size)]),
        A_eq=sp.hstack([scaled, -one, -one, one], format="csc"),
        b_eq=problem.b[kept].astype(np.float64) * r / units.xi,
        bounds=np.concatenate([ends, intervals, slack], axis=1).T,
        method="highs",
        options={"time_limit": limit, "primal_feasibility_tolerance": EXACT, "dual_feasibility_tolerance": EXACT},
    )
    if found.status != 0:
        return None
    ray = np.zeros(problem.rows)
    ray[kept] = -found.eqlin.marginals * r
    return Least(sizes * found.x[: problem.columns], ray)
