"""The native engine: a problem's lowered form and a method's program, handed to the C++ core."""

from __future__ import annotations

import importlib
import os
from functools import cache
from time import perf_counter
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg.cython_blas
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator

from dapd.arrays import Array
from dapd.engines.protocol import NotNative
from dapd.engines.program import NotLinear, Program, Symbol, Trace, trace
from dapd.engines.threads import Choice, available
from dapd.methods.base import Method, spaces
from dapd.model.lowered import BALL, LOSS_CODES, SHRINK_BALL, Table, loss_table, speaks_for, tabulate
from dapd.model.problem import Problem
from dapd.model.terms import Terms
from dapd.operators.base import Operator, as_entries, csr_record

WORTH = 1 << 15  # multiplications of a step that make another thread worth its meetings
OWN = 1 << 20  # bytes of M that a core's own cache keeps from one step to the next
NEAR, LONG = 1 << 19, 64  # bytes of a panel of columns that stay near, and rows that it must have
LARGE = 1 << 18  # entries of a sparse matrix that are worth another copy
FEW = 8  # entries per row: the processor mispredicts where a row of CSR ends
SIDE = 1 << 15  # rows of a tile, and of a group that fits into one
FAR = 1 << 13  # columns from one entry to the next, on average: x is read from far places
VARIANTS = ("avx512", "avx2", "baseline")


@cache
def variants() -> tuple[str, ...]:
    """The builds of the core that this processor can run, the fastest first; empty if the core was not built."""
    try:
        able = importlib.import_module("dapd._core_baseline").supported()
    except ImportError:
        return ()
    return tuple(variant for variant in VARIANTS if variant in able)


@cache
def load(variant: str | None = None) -> ModuleType | None:
    """A build of the core: the one named, or by the variable DAPD_SIMD, or the fastest; None if it was not built."""
    found = variants()
    variant = variant or os.environ.get("DAPD_SIMD") or (found[0] if found else None)
    if variant is None:
        return None
    if variant not in found:
        raise ValueError(f"DAPD_SIMD must be one of {', '.join(found) or 'nothing, as the core was not built'}")
    core = importlib.import_module(f"dapd._core_{variant}")
    gemm = scipy.linalg.cython_blas.__pyx_capi__
    core.use_blas(gemm["dgemm"], gemm["sgemm"])
    return core


class Counted:
    """Counts, as a plain oracle keeps them."""

    block_products = 0

    def __init__(self) -> None:
        self.gradients = self.products = 0


class NativeRunner:
    """A method's program on registers of the core."""

    engine = "native"
    reason = ""

    def __init__(self, method: Method, *, threads: int | None = None, core: ModuleType | None = None) -> None:
        core = core or load()
        if core is None:
            raise NotNative("the native core was not built; install a C++ compiler and reinstall dapd")
        problem = method.problem
        self.method, self.dtype = method, problem.dtype
        first = method.init()
        self.dual = fields_of(first, problem)
        self.program = program_of(method, type(first), self.dual)
        most = available() if threads is None else threads
        M, phi = coupling(problem, most)
        runner = core.Runner32 if self.dtype == np.float32 else core.Runner64
        self.core = runner(tuple(self.program), M, phi, function(problem), problem.rows, problem.columns)
        self.core.set(self.program.fields, problem.b.astype(self.dtype))
        if threads is None:
            most = max(1, min(most, int(self.core.work) // WORTH))
        self.choice = Choice(most)
        self.fixed = threads
        self.kind = type(first)
        self.where = self._where()
        self.counts = Counted()
        self.state = first
        method.oracle.reset()

    def start(self) -> None:
        """Set the state to the method's first, and count what that takes."""
        self.method.oracle.reset()
        self.state = self.method.init()
        self.counts = Counted()
        self.counts.products = self.method.oracle.products
        self.counts.gradients = self.method.oracle.gradients
        self.method.oracle.reset()

    @property
    def state(self) -> Any:
        """A copy of the state."""
        return self.kind(*(self._get(k) for k in range(len(self.dual))))

    @state.setter
    def state(self, state: Any) -> None:
        for k, part in enumerate(state):
            self.core.set(k, np.ascontiguousarray(part, self.dtype))

    def advance(self, steps: int, deadline: float) -> int:
        """Take so many steps, or fewer if the deadline comes first."""
        done = 0
        while done < steps:
            threads, some = (self.fixed, steps - done) if self.fixed else self.choice.next(steps - done)
            began = perf_counter()
            try:
                taken = self.core.run(some, threads, deadline - began)
            finally:  # true after a Ctrl-C too
                self.counts.gradients += self.core.taken * self.program.gradients
                self.counts.products += 2 * self.core.taken * self.program.dual_steps
            self.choice.learn(threads, taken, perf_counter() - began)
            done += taken
            if taken < some:
                break
        return done

    def point(self) -> tuple[Array, Array]:
        """Copies of x and y."""
        if self.where is None:
            x, y = self.method.point(self.state)
            return x, y
        return self._get(self.where[0]), self._get(self.where[1])

    def _get(self, field: int) -> Array:
        vector = np.empty(self.method.problem.rows if self.dual[field] else self.method.problem.columns, self.dtype)
        self.core.get(field, vector)
        return vector

    def _where(self) -> tuple[int, int] | None:
        """The fields that are x and y, if the method's point is two of them."""
        places = {Symbol(Trace(), dual): k for k, dual in enumerate(self.dual)}
        try:
            x, y = self.method.point(self.kind(*places))
        except Exception:  # then it computes something, and is asked again with the state
            return None
        return (places[x], places[y]) if x in places and y in places else None


def fields_of(state: Any, problem: Problem) -> list[bool]:
    """For each field of a state whether it is as long as y: as it is typed, or else by its length."""
    known = []
    for field, value, typed in zip(type(state)._fields, state, spaces(state), strict=True):
        if typed is not None:
            known.append(typed)
        elif problem.rows != problem.columns and np.shape(value) in ((problem.rows,), (problem.columns,)):
            known.append(np.shape(value) == (problem.rows,))
        else:
            raise NotNative(f"the field {field!r} of its State is typed neither Primal nor Dual")
    return known


def program_of(method: Method, state: type, dual: list[bool]) -> Program:
    """The method's step as a program."""
    try:
        return trace(type(method).update, method.parameters, state, dual)
    except NotLinear as reason:
        raise NotNative(f"the step of {method.name} is not a short list of linear operations: {reason}") from reason


class DualStep:
    """One fused dual step at a time, for a step that Python runs."""

    def __init__(self, problem: Problem, *, threads: int | None = None, core: ModuleType | None = None) -> None:
        core = core or load()
        if core is None:
            raise NotNative("the native core was not built")
        self.dtype = problem.dtype
        most = available() if threads is None else threads
        M, phi = coupling(problem, most)
        step = core.DualStep32 if self.dtype == np.float32 else core.DualStep64
        self.core = step(M, phi, problem.rows, problem.columns)
        self.threads = max(1, min(most, int(self.core.work) // WORTH)) if threads is None else threads

    def __call__(self, v: Array, base: Array, step: float) -> tuple[Array, Array]:
        """prox_{step·φ}(base + Mv) and Mᵀ of it."""
        v, base = (np.ascontiguousarray(part, self.dtype) for part in (v, base))
        y, Mty = np.empty_like(base), np.empty_like(v)
        self.core.run(v, base, step, y, Mty, self.threads)
        return y, Mty


def coupling(problem: Problem, threads: int) -> tuple[tuple[Any, ...], Table]:
    """M and φ as the core reads them."""
    phi = problem.phi
    pieces = phi.lowered(problem.rows) if speaks_for(phi, "prox") else None
    if pieces is None:
        raise NotNative(f"φ = {type(phi).__name__} has a prox that only Python knows")
    M, table = matrix(problem.M, problem.dtype, "M"), tabulate(pieces, problem.dtype)
    tallest = int(np.diff(table.first).max(initial=1))
    if M[0] == "stacked":
        table = cut_between(table, np.cumsum([height for height, _ in M[1:]]))
    return layout(M, problem.M.shape, threads, tallest), table


def cut_between(table: Table, ends: Array) -> Table:
    """The table with groups that end where parts of a stacked M do."""
    if not table.first.size:
        return table
    inside = np.setdiff1d(ends, table.first)
    group = np.searchsorted(table.first, inside) - 1
    if np.isin(table.code[group], (BALL, SHRINK_BALL)).any():
        raise NotNative("a group of φ has rows in two of the blocks that M stacks")
    return table._replace(first=np.union1d(table.first, inside), code=np.insert(table.code, group, table.code[group]))


def matrix(M: Operator, dtype: Any, name: str) -> tuple[Any, ...]:
    """The record of a linear map, its entries in the problem's dtype, or in float32 if that is narrower."""
    record = M.lowered() if speaks_for(M, "forward", "adjoint") else None
    if record is None:
        raise NotNative(f"{name} is {type(M).__name__}, whose products only Python knows")
    return converted(record, dtype)


def converted(record: tuple[Any, ...], dtype: Any) -> tuple[Any, ...]:
    """The record with floating arrays that the core can read beside vectors of this dtype."""
    exact = record[0] == "kronecker"

    def fitting(part: Any) -> Any:
        if isinstance(part, tuple):
            return converted(part, dtype)
        if not isinstance(part, np.ndarray) or part.dtype.kind != "f":
            return part
        fits = part.dtype == dtype or (part.dtype == np.float32 and not exact)
        return part if fits else as_entries(part, dtype)

    return tuple(map(fitting, record))


def layout(record: tuple[Any, ...], shape: tuple[int, int], threads: int, tallest: int = 1) -> tuple[Any, ...]:
    """The record with the kernel that is fastest for such a matrix, if φ's tallest group has so many rows."""
    rows, columns = shape
    if record[0] == "csr" and tallest <= SIDE and scattered(record, shape):
        return "tiles", *record[1:]
    if record[0] == "dense":
        entries, transposed = record[1:]
        # exchanging y is cheaper than exchanging x, and M may be read twice if it stays near
        small = threads > 1 and 2 * rows <= columns and entries.nbytes <= threads * OWN
        # panels would be too short to read, or too large to stay near
        flat = transposed and NEAR < LONG * entries.itemsize * columns
        if flat or (small and not transposed):
            return "strips", entries, transposed
    return record


def scattered(record: tuple[Any, ...], shape: tuple[int, int]) -> bool:
    """Whether tiles are faster: a large sparse matrix with few entries per row, or far from each other in a long x."""
    _, _, indices, values = record
    if values.size < LARGE:
        return False
    if values.size < FEW * shape[0]:
        return True
    some = np.arange(0, values.size - 1, values.size // LARGE)
    jumps = np.abs(indices[some + 1].astype(np.int64) - indices[some])
    return bool(shape[1] * values.itemsize > OWN and jumps.mean() > FAR)


def function(problem: Problem) -> Any:
    """The record of f as the core reads it: one, or a list with one per block."""
    f = problem.f
    terms = f.lowered() if speaks_for(f, "grad") else None
    if terms is None:
        raise NotNative(f"f = {type(f).__name__} has a gradient that only Python knows")
    if isinstance(terms, Terms):
        return _terms(terms, problem.columns, problem.dtype)
    blocks = problem.blocks or []
    return [_terms(part, block.stop - block.start, problem.dtype) for part, block in zip(terms, blocks, strict=True)]


class _Function(NamedTuple):
    """What `make_gradient` of src/core/module.cpp reads."""

    size: int
    loss: Table | None
    A: tuple[Any, ...] | None
    rows_of_A: int
    base: Array | None
    ridge: float
    diagonal: Array | None
    H: tuple[Any, ...] | None
    minus_c: Array | None


def _terms(terms: Terms, size: int, dtype: Any) -> _Function:
    loss, base, A, rows = None, None, None, 0
    if terms.loss is not None:
        if terms.loss not in LOSS_CODES:
            raise NotNative(f"f has the loss {terms.loss!r}, which the core does not know")
        loss, base = loss_table(terms, dtype)
        if terms.A is not None:
            rows = terms.A.shape[0]
            A = layout(matrix(terms.A, dtype, "A"), terms.A.shape, 1)
            if A[0] not in ("dense", "csr", "strips", "tiles", "stacked"):
                raise NotNative(f"A is {type(terms.A).__name__}, and the core has no gradient with such a matrix")
            A = ("csr", *A[1:]) if A[0] == "tiles" else A
            base = np.zeros(rows, dtype) if base is None else base
    diagonal, H = None, None
    if isinstance(terms.H, LinearOperator):
        raise NotNative("H is a LinearOperator, whose products only Python knows")
    if sp.issparse(terms.H):
        H = converted(csr_record(terms.H), dtype)
    elif terms.H is not None and terms.H.ndim == 1:
        diagonal = as_entries(terms.H, dtype)
    elif terms.H is not None:
        fortran = terms.H.flags.f_contiguous and not terms.H.flags.c_contiguous
        H = converted(("dense", as_entries(terms.H.T if fortran else terms.H)), dtype)  # H is its own transpose
    minus_c = None if terms.c is None else -terms.c.astype(dtype)
    return _Function(size, loss, A, rows, base, terms.ridge, diagonal, H, minus_c)
