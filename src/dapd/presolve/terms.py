"""f after a change of its variables, as terms again."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from dapd.arrays import Array
from dapd.functions import Composite, Function
from dapd.functions.terms import Part, Terms, by_vector
from dapd.operators.convert import as_operator
from dapd.presolve.maps import restricted, scaled_map
from dapd.problem.problem import Problem
from dapd.spectrum.estimate import singular_range, symmetric_extremes
from dapd.spectrum.lanczos import iterative

EXACT = 400  # variables up to which all eigenvalues of f's matrices are computed


def parts_of(problem: Problem) -> list[Part] | None:
    """The terms of f, block by block if f is separable; None if only Python can evaluate it."""
    parts = problem.terms
    return None if parts is None else [part._replace(terms=by_vector(part.terms)) for part in parts]


def scaled_terms(terms: Terms, columns: Array) -> Terms:
    """The terms of x ↦ f(columns·x)."""
    if np.all(columns == 1.0):
        return terms
    return terms._replace(
        A=None if terms.A is None else scaled_map(terms.A, np.ones(terms.A.shape[0]), columns),
        ridge=0.0,
        H=_scaled_matrix(terms, columns),
        c=None if terms.c is None else columns * terms.c,
    )


def _scaled_matrix(terms: Terms, columns: Array) -> Any:
    """E(H + ridge·I)E."""
    H, ridge = terms.H, terms.ridge * columns**2
    if H is None:
        return ridge if terms.ridge else None
    if H.ndim == 1:
        return H * columns**2 + ridge
    if sp.issparse(H):
        inner = (sp.diags_array(columns) @ H @ sp.diags_array(columns)).tocsr()
        return (inner + sp.diags_array(ridge)).tocsr() if terms.ridge else inner
    inner = H * columns[:, None]
    inner *= columns
    if terms.ridge:
        inner[np.diag_indices_from(inner)] += ridge
    return inner


def scaled_function(problem: Problem, parts: list[Part], columns: Array) -> Function:
    """The function f(columns·x)."""
    found: list[Function] = []
    for part in parts:
        own = columns[part.at]
        terms = scaled_terms(part.terms, own)
        found.append(Composite(terms, len(own), *_constants(terms, part, own)))
    return problem.f.joined(found)


def _constants(terms: Terms, old: Part, columns: Array) -> tuple[float, float | None]:
    """Bounds on the curvature of the scaled f: computed if that is cheap, else from the old ones."""
    least, greatest = float(columns.min()), float(columns.max())
    mu, L = old.mu * least**2, None if old.L is None else old.L * greatest**2
    if least == greatest:
        return mu, L
    low, high = _range(terms)
    found = [value for value in (L, high) if value is not None]
    return max(mu, low), max(min(found), mu) if found else None


def _range(terms: Terms) -> tuple[float, float | None]:
    """The sum of the bounds on each term's curvature; None if one is not known."""
    low = high = float(terms.ridge)
    if terms.H is not None and terms.H.ndim == 1:
        low, high = low + float(terms.H.min()), high + float(terms.H.max())
    elif terms.H is not None:
        if len(terms.H.shape) == 2 and terms.H.shape[0] <= EXACT:
            least, greatest = symmetric_extremes(terms.H, name="H")
        else:
            least, greatest = 0.0, iterative(as_operator(terms.H), "H", positive=False, least=False).s_max
        low, high = low + max(0.0, least), high + greatest
    if terms.loss is not None and terms.A is not None:
        steepest = terms.loss.greatest_curvature()
        if steepest is None:
            return low, None
        if min(terms.A.shape) <= EXACT:
            least, greatest = singular_range(terms.A, name="A")
        else:
            least, greatest = 0.0, iterative(terms.A, "A", positive=False, least=False).s_max
        tall = terms.loss.is_square and terms.A.shape[0] >= terms.A.shape[1]
        low, high = low + (least**2 if tall else 0.0), high + steepest * greatest**2
    return low, high


def restricted_terms(terms: Terms, keep: Array, x: Array) -> Terms | None:
    """The terms of the variables in `keep` with the others fixed at those of x; None if that has no such terms."""
    new: dict[str, Any] = {}
    fixed = np.where(keep, 0.0, x)
    linear = np.zeros(len(keep)) if terms.c is None else terms.c
    if terms.has_products_only:
        return None
    if terms.H is not None:
        if terms.H.ndim == 1:
            new["H"] = terms.H[keep]
        else:
            linear = linear - terms.H @ fixed
            new["H"] = terms.H[keep][:, keep]
    if terms.A is not None:
        if not terms.A.divisible:
            return None
        shift = terms.A.forward(fixed)
        if shift.any():
            new["d"] = None if terms.loss is None else terms.loss.shifted(0.0 if terms.d is None else terms.d, shift)
            if new["d"] is None:
                return None
        new["A"] = restricted(terms.A, np.ones(terms.A.shape[0], bool), keep)
    elif terms.d is not None:
        new["d"] = terms.d[keep]
    if linear.any() or terms.c is not None:
        new["c"] = linear[keep]
    return terms._replace(**new)


def restricted_function(problem: Problem, parts: list[Part], keep: Array, x: Array) -> Function | None:
    """Let f depend on the variables in `keep` only, the others fixed at those of x; None if that has no terms."""
    found: list[Function] = []
    for part in parts:
        own = keep[part.at]
        if not own.any():
            continue
        terms = restricted_terms(part.terms, own, x[part.at])
        if terms is None:
            return None
        found.append(Composite(terms, int(own.sum()), part.mu, part.L))
    return problem.f.joined(found)
