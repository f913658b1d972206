"""M, φ and f of a problem as the native core reads them: arrays, numbers for kinds and losses, and calls of Python."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from dapd.arguments import asked
from dapd.arrays import Array, is_constant
from dapd.engines.native.maps import FEW, converted, laid_out, matrix
from dapd.engines.protocol import NotNative
from dapd.functions import Function
from dapd.functions.native import CALLED, LOGISTIC
from dapd.functions.terms import Terms
from dapd.kinds import native
from dapd.kinds.base import Phi, kinds_of
from dapd.kinds.native import BALL, SHRINK_BALL, Numbers, UnitTable, tabulate
from dapd.operators.explicit import as_entries, csr_record
from dapd.problem import ask
from dapd.problem.problem import Problem


class PythonRows:
    """Replaces u = base + Mv, in place, by what a function of u and the step returns."""

    def __init__(self, name: str, function: Callable[[Array, float], Array]) -> None:
        self.name, self.function = name, function

    def __call__(self, rows: Array, step: float) -> None:
        """The core's own memory is overwritten by the next step, so the function gets a copy, which it may keep."""
        rows[:] = self.function(rows.copy(), step)


def slope_rows(terms: Terms) -> PythonRows:
    """The derivative of the loss, row by row, at u = Ax."""
    loss, d, name = terms.loss, 0.0 if terms.d is None else terms.d, "the slope of the loss"
    assert loss is not None
    return PythonRows(
        f"the loss {type(loss).__name__} of f",
        lambda u, step: ask.returned(name, asked(name, loss.slope, u, d), u.shape),
    )


def evaluated_in_python(calls: Iterable[PythonRows]) -> str:
    """A reason that names what is called; empty if nothing is."""
    names = list(dict.fromkeys(call.name for call in calls))
    return f"{' and '.join(names)} {'is' if len(names) == 1 else 'are'} evaluated in Python" if names else ""


def coupling(problem: Problem, threads: int, most: int = FEW) -> tuple[tuple[Any, ...], UnitTable]:
    """M and φ as the core reads them; see `matrix`."""
    M = matrix(problem.M, problem.dtype, "M", most)
    table = table_of(problem.phi, problem.rows, problem.dtype)
    tallest = int(np.diff(table.first).max(initial=1))
    if M[0] == "stacked":
        table = cut_between(table, np.cumsum([height for height, _ in M[1:]]))
    return laid_out(M, problem.M.shape, threads, tallest), table


def table_of(phi: Phi, rows: int, dtype: Any) -> UnitTable:
    """φ unit by unit, with calls of Python for the parts that the core does not know."""
    found, calls, end = [], [], 0
    for kind, size in kinds_of(phi, rows):
        known, start, end = kind.native(size), end, end + size
        if known is None:
            known = Numbers(native.CALLED)
            calls.append((start, end, PythonRows(f"φ = {kind.kind}", partial(ask.prox, kind))))
        found.append((known, size))
    return tabulate(found, dtype)._replace(calls=tuple(calls))


def cut_between(table: UnitTable, ends: Array) -> UnitTable:
    """The table with groups that end where parts of a stacked M do."""
    if not table.first.size:
        return table
    inside = np.setdiff1d(ends, table.first)
    group = np.searchsorted(table.first, inside) - 1
    if np.isin(table.code[group], (BALL, SHRINK_BALL)).any():
        raise NotNative("a group of φ has rows in two of the blocks that M stacks")
    return table._replace(first=np.union1d(table.first, inside), code=np.insert(table.code, group, table.code[group]))


class FunctionRecord(NamedTuple):
    """What `make_gradient` of src/core/module.cpp reads; any part may be absent."""

    size: int
    loss: tuple[int, Array | PythonRows] | None = None  # its code, and the parameter of its derivative, or what to call
    A: tuple[Any, ...] | None = None
    rows_of_A: int = 0
    base: Array | None = None  # added to Ax, or to x, before the loss
    ridge: float = 0.0
    diagonal: Array | None = None
    H: tuple[Any, ...] | None = None
    minus_c: Array | None = None


def function(problem: Problem, f: Function | None, most: int = FEW) -> FunctionRecord | list[FunctionRecord]:
    """The record of f, or of a part of it, as the core reads it: one, or a list with one per block; see `matrix`.

    If it is not made of terms, or its A or H only has products, Python is called for its gradient.
    """
    if f is None:
        return FunctionRecord(problem.columns)
    try:
        found = [_record(part.terms, part.size, problem.dtype, most) for part in f.parts(problem.columns) or []]
    except NotNative:
        found = []
    if not found:
        # as if it were the derivative of a loss of x
        called = PythonRows(f"f = {type(problem.f).__name__}", lambda x, _: ask.gradient(f, x))
        return _of_identity(FunctionRecord(problem.columns, (CALLED, called)), problem.dtype)
    return found if len(found) > 1 else found[0]


def primal_prox(problem: Problem) -> tuple[Any, ...]:
    """What `make_prox` of src/core/module.cpp reads: vectors, numbers for vectors of one number, and None."""
    prox = problem.primal_prox.in_dtype(problem.dtype)
    return tuple(None if v is None else float(v[0]) if is_constant(v) else v for v in prox)


def calls_of(table: UnitTable, f: FunctionRecord | list[FunctionRecord]) -> tuple[Any, ...]:
    """All that the core calls, in its order."""
    losses = [part.loss[1] for part in (f if isinstance(f, list) else [f]) if part.loss and part.loss[0] == CALLED]
    return *(call for _, _, call in table.calls), *losses


def _record(terms: Terms, size: int, dtype: Any, most: int) -> FunctionRecord:
    terms.check("f", size)
    record = FunctionRecord(size, ridge=terms.ridge, minus_c=None if terms.c is None else -terms.c.astype(dtype))
    return _with_hessian(_with_loss(record, terms, dtype, most), terms, dtype)


def _with_loss(record: FunctionRecord, terms: Terms, dtype: Any, most: int) -> FunctionRecord:
    if terms.loss is None:
        return record
    A, base, known = terms.A, None, terms.loss.native()
    if known is None:
        record = record._replace(loss=(CALLED, slope_rows(terms)))
        if A is None:
            return _of_identity(record, dtype)
    else:
        code = known.code
        of_rows = terms.d if code == LOGISTIC else known.e
        record = record._replace(loss=(code, np.atleast_1d(np.asarray(of_rows, dtype))))
        base = None if terms.d is None or code == LOGISTIC else -terms.d.astype(dtype)
    if A is None:
        return record._replace(base=base)
    made = matrix(A, dtype, "A", most, by_rows=True)
    made = laid_out(made, A.shape, 1) if made[0] == "dense" else made  # others are cut where the caller has cut x
    rows = A.shape[0]
    return record._replace(A=made, rows_of_A=rows, base=np.zeros(rows, dtype) if base is None else base)


def _of_identity(record: FunctionRecord, dtype: Any) -> FunctionRecord:
    """A loss of x as one of rows of a map, since only such rows are called."""
    size = record.size
    return record._replace(A=("identity", size, 0), rows_of_A=size, base=np.zeros(size, dtype))


def _with_hessian(record: FunctionRecord, terms: Terms, dtype: Any) -> FunctionRecord:
    H = terms.H
    if H is None:
        return record
    if terms.has_products_only:
        raise NotNative("H is a LinearOperator, whose products are only available in Python")
    if sp.issparse(H):
        return record._replace(H=converted(csr_record(H), dtype))
    if H.ndim == 1 and is_constant(H):
        return record._replace(ridge=record.ridge + float(H[0]))
    if H.ndim == 1:
        return record._replace(diagonal=as_entries(H, dtype))
    fortran = H.flags.f_contiguous and not H.flags.c_contiguous
    return record._replace(H=converted(("dense", as_entries(H.T if fortran else H)), dtype))  # H is its own transpose
