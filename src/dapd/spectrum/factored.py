"""The least eigenvalue of a symmetric matrix from its Cholesky factor.

A Lanczos process on the inverse of A + δI finds it in a few solves. δ is just above rounding, so A may be singular.
A second factorisation proves it: if A − σI has a Cholesky factor, then no eigenvalue is below σ, up to rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
import scipy.linalg

from dapd.arrays import EPSILON, Array
from dapd.machine.rates import FACTORISATION
from dapd.spectrum.deadline import check_deadline
from dapd.spectrum.iterative import MARGIN
from dapd.spectrum.lanczos import random_start

INVERSE_STEPS = 40  # most steps of the inverse process
STEPS_POSITIVE = 100  # most steps if it skips eigenvalues that count as zero, which rounding has separated
CONVERGED = 1e-3  # relative error of an inverse eigenvalue at which the process ends
FOLD = 4  # an eigenvalue below this multiple of the rounding error counts as zero

Inverse = Callable[[Array], Array]


class Factorable(Protocol):
    """A symmetric matrix that can be factorised with any shift."""

    @property
    def size(self) -> int:
        """Its number of rows."""

    @property
    def noise(self) -> float:
        """A bound on the norm of the rounding error made when it is formed and factorised."""

    @property
    def cost(self) -> float:
        """Roughly how many seconds a factorisation takes."""

    def factor(self, shift: float) -> Inverse | None:
        """Return v ↦ (A + shift·I)⁻¹v; None if that matrix is not positive definite."""


class Full:
    """A dense symmetric matrix with eigenvalues up to `norm`."""

    def __init__(self, matrix: Array, norm: float) -> None:
        self.matrix = matrix
        self.size = len(matrix)
        self.noise = 4 * self.size * EPSILON * norm
        self.cost = self.size**3 / FACTORISATION.dense

    def factor(self, shift: float) -> Inverse | None:
        """Return v ↦ (A + shift·I)⁻¹v by dense Cholesky; None if that matrix is not positive definite."""
        shifted = self.matrix.copy()
        shifted.flat[:: self.size + 1] += shift
        try:
            factor = scipy.linalg.cho_factor(shifted, lower=True, overwrite_a=True, check_finite=False)
        except np.linalg.LinAlgError:
            return None
        return lambda v: scipy.linalg.cho_solve(factor, v, check_finite=False)


class Least(NamedTuple):
    """The least eigenvalue, or with `positive` the least that does not count as zero."""

    lower: float  # at most the eigenvalue; 0 if that counts as zero
    error: float  # relative, before the value was moved to the safe side
    singular: bool = False  # some eigenvalue counts as zero
    resolved: bool = True  # False: `lower` is a guess, a quarter of the smallest value seen


def least_eigenvalue(A: Factorable, *, positive: bool, deadline: float) -> Least | None:
    """The least eigenvalue of A; None if A has an eigenvalue below zero."""
    zero = FOLD * A.noise
    delta = zero / 2
    check_deadline(deadline, 2 * A.cost)
    solve = A.factor(delta)
    if solve is None:
        return None
    found = inverse_process(solve, A.size, delta=delta, zero=zero, positive=positive, deadline=deadline)
    if found.singular:
        return unproven(found)
    sigma = (1 - CONVERGED) * found.lower
    while sigma > zero:
        if A.factor(-sigma) is not None:
            return found._replace(lower=sigma - A.noise, resolved=True)
        sigma /= 2
    return found._replace(resolved=False)


def unproven(found: Least) -> Least:
    """Subtract a margin from the value, in case of an undiscovered eigenvalue just below."""
    return found._replace(lower=(1 - MARGIN) ** 2 * found.lower) if found.resolved else found


def inverse_process(solve: Inverse, size: int, *, delta: float, zero: float, positive: bool, deadline: float) -> Least:
    """The least eigenvalue of A by Lanczos, with full reorthogonalisation, on solve = (A + delta·I)⁻¹."""
    limit = min(STEPS_POSITIVE if positive else INVERSE_STEPS, size)
    basis = np.empty((limit, size))
    diagonal: list[float] = []
    off_diagonal: list[float] = []
    v = random_start(size, 0)
    since = limit
    while True:
        check_deadline(deadline)
        steps = len(diagonal) + 1
        basis[steps - 1] = v
        w = solve(v)
        diagonal.append(float(v @ w))
        for _ in range(2):  # twice, since cancellation leaves errors after the first
            w -= (basis[:steps] @ w) @ basis[:steps]
        off_diagonal.append(float(np.linalg.norm(w)))
        theta, vectors = scipy.linalg.eigh_tridiagonal(diagonal, off_diagonal[:-1])
        order = np.argsort(-np.abs(theta))  # because of rounding, the inverse of a zero may have either sign
        theta, residuals = np.abs(theta[order]), np.abs(off_diagonal[-1] * vectors[-1, order])
        above = np.flatnonzero(1.0 / theta - delta > zero)  # the ones that do not count as zero
        singular = len(above) == 0 or above[0] > 0
        if singular and not positive:
            return Least(0.0, 0.0, singular=True)  # a Ritz value is never below the least eigenvalue
        aim = above[0] if positive and len(above) else 0
        settled = residuals[aim] <= CONVERGED * theta[aim] and not (positive and len(above) == 0)
        # a value may stagnate near an eigenvalue before it finds the extreme one: continue half as long again
        since = min(since, steps) if settled else limit
        over = steps >= min(limit, 1.5 * since + 2) or off_diagonal[-1] <= EPSILON * theta[-1]
        if over:
            value = 1.0 / (theta[aim] + residuals[aim]) if settled else 0.25 / theta[aim]
            lower = max(float(value) - delta, 0.25 * zero)
            return Least(lower, float(residuals[aim] / theta[aim]), bool(singular), bool(settled))
        v = w / off_diagonal[-1]
