"""Quadratic programs."""

from __future__ import annotations

from typing import Any

import numpy as np

from dapd.arguments import named, vector
from dapd.model.problem import Problem
from dapd.model.proximal import Interval
from dapd.model.smooth import Quadratic
from dapd.operators.base import as_operator


@named
def qp(P: Any, q: Any, A: Any = None, l: Any = None, u: Any = None, lb: Any = None, ub: Any = None) -> Problem:  # noqa: E741
    """½xᵀPx + qᵀx subject to l ≤ Ax ≤ u and lb ≤ x ≤ ub.

    The result's y are the multipliers of the rows of A and z those of the bounds: Px + q + Aᵀy + z = 0, negative at a
    lower limit and positive at an upper one.

    Parameters
    ----------
    P : vector (the diagonal), symmetric matrix, dense or sparse, LinearOperator, or None (zero)
        Positive semidefinite; both triangles are given.
    q : vector, or None (zero)
        At least one of P and q is given.
    A : matrix, dense or sparse, or an operator, optional
        Without it there are only the bounds.
    l, u : number or vector, optional
        Limits on the rows; None or infinite if there is none, equal for an equation.
    lb, ub : number or vector, optional
        Limits on x, in the same way.
    """
    f = Quadratic(P, None if q is None else -vector("q", q))
    if A is None:
        for name, value in (("l", l), ("u", u)):
            if value is not None:
                raise ValueError(f"{name} is given without A; bounds on x are lb and ub")
        A = np.zeros((0, f.size or 0))
    M = as_operator(A, name="A", empty=True)
    phi = Interval(-np.inf if l is None else l, np.inf if u is None else u) if M.shape[0] else None
    return Problem(f, M, np.zeros(M.shape[0], M.dtype), phi, bounds=(lb, ub))
