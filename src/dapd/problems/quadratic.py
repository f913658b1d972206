"""Quadratic programs, and linear constraints l ≤ Cx ≤ u as M, b and φ."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from dapd import Interval, NonNegative, Operator, Phi, Problem, Quadratic, Zero
from dapd.arguments import interval, named, numbers, renamed, vector
from dapd.arrays import Array
from dapd.operators.convert import as_operator, as_sparse, matrix_of


def between(C: Any, l: Any, u: Any, columns: int | None) -> tuple[Operator, Array, Phi]:  # noqa: E741
    """M, b and φ of l ≤ Cx ≤ u; C may be None.

    φ is the simplest one: Zero if l = u, NonNegative if there is no l, else Interval.
    """
    if C is None:
        for name, value in (("l", l), ("u", u)):
            if value is not None:
                raise ValueError(f"{name} is given without C; limits on x itself are bounds=(lower, upper)")
        return as_operator(np.zeros((0, columns or 0)), empty=True), np.zeros(0), Zero()
    M = as_operator(C, name="C")
    rows, wanted = M.shape[0], f", but C has {M.shape[0]} rows"
    with renamed(lower="l", upper="u"):
        lower, upper = interval(full("l", l, -np.inf, rows, wanted), full("u", u, np.inf, rows, wanted))
    if np.array_equal(lower, upper):
        return M, np.asarray(lower), Zero()
    if np.all(np.isneginf(lower)) and np.all(np.isfinite(upper)):
        return M, np.asarray(upper), NonNegative()
    return M, np.zeros(rows), Interval.between(lower, upper)


def limit(name: str, value: Any, absent: float | None, size: int, wanted: str) -> float | Array:
    """One number or `size` of them, `absent` if it is None; `wanted` ends the error about another size."""
    given = numbers(name, absent if value is None or np.size(value) == size == 0 else value)
    if np.ndim(given) and np.size(given) != size:
        raise ValueError(f"{name} has {np.size(given)} entries{wanted}")
    return given


def full(name: str, value: Any, absent: float | None, size: int, wanted: str) -> Array:
    """The same as a vector of that size."""
    return np.array(np.broadcast_to(limit(name, value, absent, size, wanted), size))


def as_csr(name: str, matrix: Any) -> Any:
    """A dense or sparse matrix as a checked CSR array."""
    return as_sparse(name, matrix if sp.issparse(matrix) else matrix_of(name, matrix))


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
    of_rows, of_variables = f", expected {rows}, the number of rows", f", expected {columns}, the number of variables"
    limits = limit("l", l, -np.inf, rows, of_rows), limit("u", u, np.inf, rows, of_rows)
    bounds = limit("lb", lb, -np.inf, columns, of_variables), limit("ub", ub, np.inf, columns, of_variables)
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
