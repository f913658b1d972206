"""One function that calls Clarabel, an interior-point solver."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from dapd.arrays import Array


def interior_point(
    P: Any, q: Array, A: Any, b: Array, *, nonnegative: int = 0, soc: Sequence[int] = ()
) -> tuple[Array, Array]:
    """Solve min ½xᵀPx + qᵀx with b − Ax in a cone of nonnegative entries, then second-order cones; return x and z."""
    try:
        import clarabel
    except ImportError:
        raise ModuleNotFoundError(
            "the reference needs Clarabel, which is not installed; run pip install 'dapd[experiments]'"
        ) from None
    cones = [clarabel.NonnegativeConeT(nonnegative)] if nonnegative else []
    cones += [clarabel.SecondOrderConeT(size) for size in soc]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-9
    solver = clarabel.DefaultSolver(sp.triu(P).tocsc(), q, sp.csc_array(A), b, cones, settings)
    solution = solver.solve()
    if solution.status not in (clarabel.SolverStatus.Solved, clarabel.SolverStatus.AlmostSolved):
        raise ArithmeticError(f"Clarabel ended with {solution.status} instead of a solution")
    return np.array(solution.x), np.array(solution.z)
