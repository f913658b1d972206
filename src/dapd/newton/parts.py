"""What second-order steps need of a problem: its lowered form with the entries of all matrices."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from dapd.arrays import Array
from dapd.functions.terms import Part
from dapd.kinds.table import Table
from dapd.newton.curvature import Curvature
from dapd.newton.matrices import Matrix, NotExplicit, explicit, stack
from dapd.problem.problem import Problem


class Unsuitable(Exception):
    """Second-order steps cannot solve this problem, since entries of its matrices are not known."""


def rows_of(problem: Problem) -> Table:
    """The rows of φ, and below them the bounds on x."""
    table = problem.phi_table
    if table is None:
        raise Unsuitable(f"{problem.phi.kind} has rows that are neither intervals nor groups")
    if problem.lower is None or problem.upper is None:
        return table
    return table.joined(Table.intervals(problem.columns, problem.lower, problem.upper))


def right_of(problem: Problem) -> Array:
    """b, and zeros for the bounds."""
    b = np.zeros(problem.multipliers)
    b[: problem.rows] = problem.b
    return b


def terms_of(problem: Problem) -> list[Part]:
    """The terms of f."""
    if problem.terms is None:
        raise Unsuitable("f is only available in Python")
    return problem.terms


def explicit_parts(problem: Problem, seconds: float = np.inf) -> tuple[Table, Curvature, Matrix]:
    """φ, f and M with all their entries, for which products with M may take so many seconds."""
    terms = terms_of(problem)
    try:
        return rows_of(problem), Curvature(terms), _with_bounds(problem, explicit(problem.M, seconds))
    except (NotExplicit, TypeError, ValueError) as error:
        raise Unsuitable(str(error)) from None


def _with_bounds(problem: Problem, M: Matrix) -> Matrix:
    if problem.lower is None:
        return M
    identity = sp.eye_array(problem.columns, format="csr")
    return stack([M, identity], problem.columns) if problem.rows else identity


def same_matrices(first: Problem, second: Problem) -> bool:
    """Whether the terms of f differ in c at most."""
    pairs = zip(first.terms or [], second.terms or [], strict=False)
    return len(first.terms or []) == len(second.terms or []) > 0 and all(
        one.at == two.at and one.terms.differs_in_c(two.terms) for one, two in pairs
    )
