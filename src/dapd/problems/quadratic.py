"""Quadratic programs."""

from __future__ import annotations

from typing import Any

import numpy as np

from dapd.arguments import named, numbers, renamed, vector
from dapd.functions import Quadratic
from dapd.kinds.by_rows import Interval
from dapd.operators.convert import as_operator
from dapd.problem.problem import Problem


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
        Limits on the rows; None, infinite or of magnitude 1e20 or more if there is none, equal for an equation.
    lb, ub : number or vector, optional
        Limits on x, in the same way.
    """
    with renamed(H="P", c="q"):
        f = Quadratic(P, None if q is None else -vector("q", q))
    if A is None:
        for name, value in (("l", l), ("u", u)):
            if value is not None:
                raise ValueError(f"{name} is given without A; bounds on x are lb and ub")
        A = np.zeros((0, f.size or 0))
    M = as_operator(A, name="A", empty=True)
    rows, columns = M.shape
    if f.size is not None and columns != f.size:
        raise ValueError(f"A has {columns} columns, expected {f.size}, the number of variables")
    limits = [_limit("l", l, -np.inf, rows, "rows"), _limit("u", u, np.inf, rows, "rows")]
    bounds = _limit("lb", lb, -np.inf, columns, "variables"), _limit("ub", ub, np.inf, columns, "variables")
    for (name, lower), (other, upper) in ((("l", limits[0]), ("u", limits[1])), (("lb", bounds[0]), ("ub", bounds[1]))):
        above = np.atleast_1d(np.asarray(lower) > upper)
        if above.any():
            at = int(np.argmax(above))
            low, high = (np.broadcast_to(side, above.shape)[at] for side in (lower, upper))
            raise ValueError(f"{name} must not be above {other}; {name}[{at}] is {low:g} and {other}[{at}] is {high:g}")
    with renamed(lower="l", upper="u"):
        phi = Interval(*limits) if rows else None
    with renamed(lower="lb", upper="ub"):
        return Problem(f, M, np.zeros(rows, M.dtype), phi, bounds=bounds)


def _limit(name: str, value: Any, absent: float, size: int, what: str) -> Any:
    given = numbers(name, absent if value is None or np.size(value) == size == 0 else value)
    if np.ndim(given) and np.size(given) != size:
        raise ValueError(f"{name} has {np.size(given)} entries, expected {size}, the number of {what}")
    return given
