"""A problem as second-order steps see it: f with its curvatures, explicit matrices, and factors that scale them."""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import copy
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from dapd.arguments import consecutive
from dapd.arrays import Array
from dapd.functions.terms import Part
from dapd.kinds.table import Table
from dapd.newton.matrices import DENSE, Matrix, NotExplicit, csr_of, explicit, scaled, stack
from dapd.operators.factors import Entries, damped
from dapd.problem.problem import Problem

NONE = np.zeros(0)
ROUNDS, FEW_ROUNDS = 10, 3  # rounds of scaling for sparse matrices, and if one is dense
TRIALS = 40  # most trials of a step length
AT_ONCE, EXACT = 1e-3, 1e-10  # slopes relative to that at 0 which are small enough: at t = 1, and at any other t


class Curvature:
    """A lowered f whose matrices are explicit."""

    def __init__(self, parts: list[Part]) -> None:
        self.size = parts[-1].at.stop
        self.c = linear_part(parts)
        self.P = _quadratic(parts)  # a vector (the diagonal), dense, or CSR
        losses = [part for part in parts if part.terms.loss is not None]
        matrices = [_matrix_of_loss(part, self.size) for part in losses]
        places = consecutive(matrix.shape[0] for matrix in matrices)
        self.losses = [(part.terms, at) for part, at in zip(losses, places, strict=True)]
        self.quadratic = all(part.terms.is_quadratic for part in parts)
        self.A = stack(matrices, self.size)  # of all losses
        self.rows = self.A.shape[0]
        self.cost = 1.0  # what the losses are multiplied with

    def scaled(self, columns: Array, cost: float) -> Curvature:
        """cost·f(columns·x)."""
        other = copy(self)
        other.c, other.cost = cost * columns * self.c, cost * self.cost
        other.P = cost * (columns * columns * self.P if self.P.ndim == 1 else scaled(self.P, columns, columns))
        other.A = scaled(self.A, np.ones(self.rows), columns)
        return other

    def image(self, x: Array) -> Array:
        """Ax."""
        return self.A @ x if self.rows else NONE

    def times(self, x: Array) -> Array:
        """Px."""
        return self.P * x if self.P.ndim == 1 else self.P @ x

    def _each(self, what: str, image: Array) -> Array:
        out = np.empty(self.rows)
        for terms, rows in self.losses:
            out[rows] = getattr(terms.loss, what)(image[rows], terms.target)
        return self.cost * out

    def gradient(self, x: Array, image: Array) -> Array:
        """∇f(x), with image = Ax."""
        g = self.times(x) - self.c
        return g + self.A.T @ self._each("slope", image) if self.rows else g

    def curvatures(self, image: Array) -> Array:
        """ℓ''ᵢ at Ax: the Hessian is P + Aᵀdiag(these)A."""
        return self._each("curvature", image)

    def along(self, x: Array, image: Array, d: Array, image_of_d: Array) -> Callable[[float], tuple[float, float]]:
        """The function t ↦ (first, second) derivative of f(x + t·d) by t."""
        slope, bend = float(d @ (self.times(x) - self.c)), float(d @ self.times(d))
        if not self.rows:
            return lambda t: (slope + t * bend, bend)

        def at(t: float) -> tuple[float, float]:
            u = image + t * image_of_d
            first = slope + t * bend + float(image_of_d @ self._each("slope", u))
            return first, bend + float((image_of_d * image_of_d) @ self._each("curvature", u))

        return at


def linear_part(parts: list[Part]) -> Array:
    """The c of all parts."""
    known = [(part.terms.c, part.size) for part in parts]
    return np.concatenate([np.zeros(n) if c is None else np.asarray(c, np.float64) for c, n in known])


def _quadratic(parts: list[Part]) -> Any:
    if any(part.terms.has_products_only for part in parts):
        raise TypeError("H is a LinearOperator, so its entries are not known")
    blocks = [_with_ridge(part, part.terms.ridge) for part in parts]
    if all(block.ndim == 1 for block in blocks):
        return np.concatenate(blocks).astype(np.float64)
    if len(blocks) == 1 and not sp.issparse(blocks[0]):
        return np.asarray(blocks[0], np.float64)
    as_matrices = [sp.diags_array(block) if block.ndim == 1 else block for block in blocks]
    whole = sp.csr_array(sp.block_diag(as_matrices, format="csr") if len(blocks) > 1 else blocks[0], dtype=np.float64)
    diagonal = whole.diagonal()
    if np.count_nonzero(whole.data) == np.count_nonzero(diagonal):
        return diagonal
    return whole.toarray() if whole.nnz > DENSE * whole.shape[0] ** 2 else whole


def _with_ridge(part: Part, ridge: float) -> Any:
    """H + ridge·I: a vector (the diagonal), or a matrix."""
    H = np.zeros(part.size) if part.terms.H is None else part.terms.H
    if H.ndim == 1:
        return H.astype(np.float64) + ridge
    return H + ridge * (sp.eye_array if sp.issparse(H) else np.eye)(part.size) if ridge else H


def _matrix_of_loss(part: Part, columns: int) -> Matrix:
    """The A of a part, with its columns among those of all parts."""
    own = sp.eye_array(part.size, format="csr") if part.terms.A is None else explicit(part.terms.A)
    if part.size == columns:
        return own
    own = sp.csr_array(own)
    return sp.csr_array((own.data, own.indices + part.at.start, own.indptr), shape=(own.shape[0], columns))


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


class Factors(NamedTuple):
    """x = columns·x̂, y = rows·ŷ/cost: the scaled problem is in x̂ and ŷ, and its f is `cost` times as large."""

    columns: Array
    rows: Array
    cost: float


def ruiz(f: Curvature, M: Any, rows: Table) -> Factors:
    """The factors for f and M; rows of a group get one factor."""
    P, coupling, losses = Entries(sp.diags_array(f.P).tocsr() if f.P.ndim == 1 else f.P), Entries(M), Entries(f.A)
    d, e, ones = np.ones(f.size), np.ones(M.shape[0]), np.ones(f.rows)
    for _ in range(ROUNDS if coupling.sparse and P.sparse else FEW_ROUNDS):
        heights, widths = coupling.peaks(e, d)
        widths = np.maximum(np.maximum(widths, P.peaks(d, d)[1]), losses.peaks(ones, d)[1])
        d, e = d * damped(widths), rows.averaged(e * damped(heights))
    start = f.gradient(np.zeros(f.size), np.zeros(f.rows))
    curvature = P.peaks(d, d)[1]
    if f.rows:
        squares = f.A.power(2).T if losses.sparse else f.A.T**2
        curvature = curvature + d * d * (squares @ f.curvatures(np.zeros(f.rows)))
    size = max(float(np.mean(curvature)), float(abs(d * start).max(initial=0.0)))
    return Factors(d, e, 1.0 / size if size > 0 else 1.0)


def least_along(slopes: Callable[[float], tuple[float, float]], start: float) -> float:
    """The t > 0 at which the first derivative vanishes; `slopes` gives the first and second, `start` is that at 0."""
    low, high, t = 0.0, math.inf, 1.0
    for trial in range(TRIALS):
        slope, curve = slopes(t)
        if abs(slope) <= (AT_ONCE if trial == 0 else EXACT) * abs(start):
            break
        low, high = (low, t) if slope > 0 else (t, high)
        guess = t - slope / curve if curve > 0 else math.inf
        if not low < guess < high:
            guess = 2.0 * t if high == math.inf else 0.5 * (low + high)
        if abs(guess - t) <= 1e-14 * t:
            break
        t = guess
    return t


class QuadraticForm(NamedTuple):
    """f(x) = ½xᵀPx + qᵀx + ½‖Bx − d‖² + a constant."""

    P: Any  # a vector (the diagonal), an array, or CSC
    q: Array
    B: Any  # CSR, or None if there is no such term
    d: Array


def quadratic(problem: Problem) -> QuadraticForm | None:
    """The explicit matrices of f; None if f is not quadratic, or if a matrix is not known."""
    found = list(map(_of_terms, problem.terms or []))
    known = [form for form in found if form is not None]
    if len(known) < len(found) or not known:
        return None
    if len(known) == 1:
        return known[0]
    P, q, B, d = zip(*known, strict=True)
    rows = [sp.csr_array((0, p.shape[0])) if own is None else own for own, p in zip(B, P, strict=True)]
    whole_P = sp.block_diag([_matrix(own) for own in P], format="csc")
    return QuadraticForm(whole_P, np.concatenate(q), sp.block_diag(rows, format="csr"), np.concatenate(d))


def _of_terms(part: Part) -> QuadraticForm | None:
    terms, n = part.terms, part.size
    if not terms.is_quadratic or terms.has_products_only:
        return None
    if terms.A is not None and terms.A.entry_count is None:
        return None
    q = np.zeros(n) if terms.c is None else -terms.c.astype(np.float64)
    P = _with_ridge(part, terms.ridge + (terms.loss is not None and terms.A is None))
    P = P if P.ndim == 1 else _symmetric(P)
    if terms.A is None:
        q = q - terms.d if terms.loss is not None and terms.d is not None else q
        return QuadraticForm(P, q, None, np.zeros(0))
    A, d = csr_of(terms.A), np.zeros(terms.A.shape[0]) if terms.d is None else terms.d.astype(np.float64)
    squares = float(np.sum(np.diff(A.indptr).astype(np.float64) ** 2))
    if min(squares, float(n) ** 2) <= 2 * A.nnz + 4 * len(d):  # AᵀA has fewer entries than A and the residuals
        dense = isinstance(terms.A.stored_matrix, np.ndarray)
        product = terms.A.dense().T @ terms.A.dense() if dense else A.T @ A
        return QuadraticForm(_matrix(P) + sp.csc_array(product), q - A.T @ d, None, np.zeros(0))
    return QuadraticForm(P, q, A, d)


def _matrix(P: Any) -> Any:
    """A sparse matrix, also of a vector that is a diagonal."""
    return sp.csc_array(P) if np.ndim(P) != 1 else sp.diags_array(P).tocsc()


def _symmetric(H: Any) -> Any:
    """A symmetric matrix, in CSC if it is sparse: its rows are its columns."""
    if not sp.issparse(H):
        return np.asarray(H, np.float64)
    if H.format == "csr":
        return sp.csc_array((H.data.astype(np.float64, copy=False), H.indices, H.indptr), shape=H.shape)
    return sp.csc_array(H, dtype=np.float64)
