"""What second-order steps need of a problem: its lowered form with the entries of all matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from dapd.functions.terms import Terms
from dapd.kinds.lowered import has_valid_lowering, pieces_of
from dapd.newton.curvature import Curvature
from dapd.newton.matrices import Matrix, NotExplicit, explicit
from dapd.newton.prox_rows import ProxRows
from dapd.problem.problem import Problem


class Unsuitable(Exception):
    """Second-order steps cannot solve this problem, since entries of its matrices are not known."""


def rows_of(problem: Problem) -> ProxRows:
    """The rows of φ."""
    pieces = pieces_of(problem.phi, problem.rows)
    if pieces is None:
        raise Unsuitable("φ is only available in Python")
    try:
        return ProxRows(pieces)
    except ValueError as error:
        raise Unsuitable(str(error)) from None


def terms_of(problem: Problem) -> tuple[list[Terms], list[int]]:
    """The terms of each block of f, and the sizes of the blocks."""
    terms = problem.f.lowered() if has_valid_lowering(problem.f, "grad") else None
    if terms is None:
        raise Unsuitable("f is only available in Python")
    if isinstance(terms, Terms):
        return [terms], [problem.columns]
    return terms, [block.stop - block.start for block in problem.blocks or []]


def explicit_parts(problem: Problem, seconds: float = np.inf) -> tuple[ProxRows, Curvature, Matrix]:
    """φ, f and M with all their entries, for which products with M may take so many seconds."""
    terms = terms_of(problem)
    try:
        return rows_of(problem), Curvature(*terms), explicit(problem.M, seconds)
    except (NotExplicit, TypeError, ValueError) as error:
        raise Unsuitable(str(error)) from None


def same_matrices(first: Any, second: Any) -> bool:
    """Whether the terms of f differ in c at most."""
    if not (isinstance(first, Terms) and isinstance(second, Terms)):
        return False
    return all(getattr(first, name) is getattr(second, name) for name in Terms._fields if name != "c")
