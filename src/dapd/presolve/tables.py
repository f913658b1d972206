"""φ row by row, as transforms of rows read and write it."""

from __future__ import annotations

from dapd.kinds.table import Table
from dapd.problem.problem import Problem


def table_of(problem: Problem) -> Table | None:
    """The table of the problem's φ; None if some rows are neither intervals nor groups."""
    table = problem.phi_table
    return None if table is None else table.simplified()
