"""∇²f at a point: its products, and its entries if they are known."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from dapd.arrays import Array
from dapd.functions.terms import Part, Terms
from dapd.machine.rates import FACTORISATION
from dapd.newton.matrices import Matrix, NotExplicit, TooExpensive
from dapd.newton.parts import Curvature
from dapd.operators.base import Operator
from dapd.problem.problem import Problem

SKETCHES = 16  # products from which the sizes of a map without entries are estimated


class Hessian:
    """∇²f at x."""

    def __init__(self, x: Array) -> None:
        self.x = x

    def times(self, d: Array) -> Array:
        """∇²f·d."""
        raise NotImplementedError

    @property
    def sizes(self) -> Array:
        """The diagonal, or an estimate of what size it has."""
        return signs_through(self.times, self.x.size)

    def entries(self, seconds: float) -> Matrix:
        """The matrix; raise if it is not known, or if computing it takes longer."""
        raise NotImplementedError


class OfTerms(Hessian):
    """Of an f with terms: Aᵀ diag(ℓ'') A + H + ridge·I, in each block of x."""

    def __init__(self, whole: Whole, x: Array) -> None:
        super().__init__(x)
        self.whole = whole
        self.parts = [(p, None if p.terms.loss is None else p.terms.curvatures(x[p.at])) for p in whole.parts]

    def times(self, d: Array) -> Array:
        return np.concatenate([_times(part.terms, w, d[part.at]) for part, w in self.parts])

    @property
    def sizes(self) -> Array:
        """The diagonal; estimated from products where the entries are not known."""
        return np.concatenate([_sizes(part.terms, w, part.size) for part, w in self.parts])

    def entries(self, seconds: float) -> Matrix:
        return self.whole.at(self.x, seconds)


class Whole:
    """The entries of the Hessian of an f with terms, computed once if they are the same for all x."""

    def __init__(self, parts: list[Part]) -> None:
        self.parts, self.constant = parts, None

    @cached_property
    def curvature(self) -> Curvature:
        """With explicit matrices; raise if there are none."""
        try:
            return Curvature(self.parts)
        except TypeError as error:
            raise NotExplicit(str(error)) from None

    def at(self, x: Array, seconds: float) -> Matrix:
        """Those at x."""
        if self.constant is not None:
            return self.constant
        curvature = self.curvature
        P = sp.diags_array(curvature.P, format="csr") if curvature.P.ndim == 1 else curvature.P
        if curvature.rows:
            A, weights = curvature.A, curvature.curvatures(curvature.image(x))
            if _seconds_of_gram(A) > seconds:
                raise TooExpensive("the entries of AᵀA")
            P = A.T @ (sp.diags_array(weights) @ A if sp.issparse(A) else weights[:, None] * A) + P
        if curvature.quadratic:
            self.constant = P
        return P


def hessian_of(problem: Problem) -> Callable[[Array], Hessian]:
    """∇²f as a function of x."""
    if problem.terms is None:
        raise TypeError(f"the Hessian of {type(problem.f).__name__} is not known")
    return partial(OfTerms, Whole(problem.terms))


def squares(M: Operator, weights: Array) -> Array:
    """Σ_j M_ij²·weights_j of each row; estimated from products if the entries are not known."""
    known = M.row_sizes(weights, 2)
    if known is not None:
        return known
    roots = np.sqrt(weights)
    return signs_through(lambda v: M.forward((roots * v).astype(M.dtype)), weights.size) ** 2


def signs_through(times: Callable[[Array], Array], columns: int) -> Array:
    """The norms of a matrix's rows, estimated from products with random signs."""
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (SKETCHES, columns))
    return np.asarray(np.sqrt(sum(np.asarray(times(v), np.float64) ** 2 for v in signs) / SKETCHES))


def _times(part: Terms, weights: Array | None, d: Array) -> Array:
    total = part.ridge * d
    if weights is not None:
        total = total + (weights * d if part.A is None else part.A.adjoint(weights * part.A.forward(d)))
    return total if part.H is None else total + part.curved(d)


def _sizes(part: Terms, weights: Array | None, size: int) -> Array:
    total = np.full(size, float(part.ridge))
    if weights is not None:
        total = total + (weights if part.A is None else squares(part.A.transposed(), weights))
    if part.H is None:
        return total
    if part.has_products_only:
        return total + signs_through(part.H.matvec, size)
    return total + (part.H if part.H.ndim == 1 else part.H.diagonal())


def _seconds_of_gram(A: Any) -> float:
    """The forecast for AᵀA."""
    if not sp.issparse(A):
        return float(A.shape[0] * A.shape[1] ** 2) / FACTORISATION.dense
    lengths = np.diff(sp.csr_array(A).indptr).astype(np.float64)
    return float(lengths @ lengths) / FACTORISATION.sparse
