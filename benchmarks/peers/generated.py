"""Random problems whose end is known: a solution, a Farkas ray, or a direction without end.

`feasible(seed)` is built backwards from a solution (x, y, z), `infeasible(seed)` around a ray of multipliers and
`unbounded(seed)` around a direction of x. `checks.py` judges a solver's answer or ray, whether or not it is the one
chosen here: neither need be unique.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from peers import model as m
from peers.draw import Pair, coupling, drawn_cost, drawn_parts, dual_pair, gradient, spread_bounds, with_linear_term

FORMS = ("plain", "plain", "csr", "kronecker", "row blocks", "matrix-free")
COSTS = (
    "diagonal",
    "dense",
    "sparse",
    "semidefinite",
    "semidefinite diagonal",
    "squares",
    "wide squares",
    "logistic",
    "logistic, no ridge",
    "pseudo-huber",
    "separable",
)
PARTS = ("zero", "nonnegative", "l1", "box", "interval", "ball", "stack")
LARGEST = 40  # variables


class Solved(NamedTuple):
    """A model and a solution of it."""

    model: m.Model
    x: Any
    y: Any
    z: Any


class Infeasible(NamedTuple):
    """A model and multipliers (y, z) that prove it infeasible."""

    model: m.Model
    y: Any
    z: Any


class Unbounded(NamedTuple):
    """A model and a direction of x in which it falls for ever."""

    model: m.Model
    direction: Any


def feasible(seed: int) -> Solved:
    """A problem with a solution; seeds in a row go through all costs, all φ and all forms of M."""
    rng = np.random.default_rng(seed)
    kind, part, form = COSTS[seed % len(COSTS)], PARTS[seed % len(PARTS)], FORMS[seed % len(FORMS)]
    n = int(rng.integers(4, LARGEST)) // 2 * 2
    tall = rng.random() < 0.3
    rows = int(rng.integers(n, 2 * n) if tall else rng.integers(2, n + 1)) // 2 * 2
    M, factors = coupling(rng, form, rows, n)
    x = rng.standard_normal(n)
    parts = drawn_parts(rng, part, rows)
    y, g = dual_pair(rng, parts)
    lower, upper, z = spread_bounds(rng, x) if rng.random() < 0.4 else free(n)
    costs = drawn_cost(rng, kind, n)
    start = 0
    for cost, size in costs:
        at = slice(start, start + size)
        if not isinstance(cost, m.Quadratic | m.Squares):
            M, z = absorb(M, y, z, at, gradient(cost, x[at]), by_row=form != "kronecker")
        start = at.stop
    lower, upper = np.where(z < 0, x, lower), np.where(z > 0, x, upper)
    slope, start = M.T @ y + z, 0
    closed: list[tuple[m.Cost, int]] = []
    for cost, size in costs:
        at = slice(start, start + size)
        closed.append((with_linear_term(cost, x[at], slope[at]), size))
        start = at.stop
    name = f"{seed}: {kind}, {part}, {form}"
    made = m.make(name, "feasible", closed, M, M @ x - g, parts, (lower, upper), form=shown(form), factors=factors)
    return Solved(made, x, y, z)


def free(n: int) -> tuple[Any, Any, Any]:
    """No bounds."""
    return np.full(n, -np.inf), np.full(n, np.inf), np.zeros(n)


def shown(form: str) -> str:
    return "plain" if form == "csr" else form


def absorb(M: Any, y: Any, z: Any, at: slice, grad: Any, *, by_row: bool) -> tuple[Any, Any]:
    """Change a row of M, or else z, so ∇f + Mᵀy + z vanishes in these coordinates."""
    rest = grad + (M.T @ y)[at] + z[at]
    row = int(np.argmax(abs(y)))
    if by_row and abs(y[row]) > 0.1:
        sparse = sp.issparse(M)
        M = M.toarray() if sparse else M.copy()
        M[row, at] -= rest / y[row]
        return (sp.csr_array(M) if sparse else M), z
    z = z.copy()
    z[at] -= rest
    return M, z


def infeasible(seed: int) -> Infeasible:
    """Rows, and bounds in every other problem, that contradict each other."""
    rng = np.random.default_rng(10_000 + seed)
    form = ("plain", "csr", "row blocks", "matrix-free")[seed % 4]
    part = ("zero", "nonnegative", "l1", "interval", "stack")[seed % 5]
    kind = ("diagonal", "dense", "semidefinite", "squares", "pseudo-huber")[seed // 5 % 5]
    n = int(rng.integers(4, LARGEST)) // 2 * 2
    rows = int(rng.integers(2, n + 1)) // 2 * 2
    M, _ = coupling(rng, "plain", rows, n)
    x = rng.standard_normal(n)
    parts = drawn_parts(rng, part, rows)
    d = farkas_rows(rng, parts)
    lower, upper, _ = spread_bounds(rng, x) if seed % 2 else free(n)
    most = rng.standard_normal(n) * (rng.random(n) < 0.3)
    d_bounds = np.where(np.isfinite(upper), np.maximum(most, 0), 0) + np.where(
        np.isfinite(lower), np.minimum(most, 0), 0
    )
    row = int(np.argmax(abs(d)))
    M[row] = 0.0
    M[row] = -(M.T @ d + d_bounds) / d[row]
    b = M @ x - dual_pair(rng, parts)[1]
    excess = b @ d + supremum(d, *joint_interval(parts)) + supremum(d_bounds, lower, upper)
    b[row] -= (excess + rng.uniform(0.1, 1.0) * abs(d).sum()) / d[row]
    costs = [
        (with_linear_term(cost, x[:size], rng.standard_normal(size)), size) for cost, size in drawn_cost(rng, kind, n)
    ]
    M = sp.csr_array(M) if form == "csr" else M
    name = f"infeasible {seed}: {kind}, {part}, {form}"
    return Infeasible(m.make(name, "infeasible", costs, M, b, parts, (lower, upper), form=shown(form)), d, d_bounds)


def farkas_rows(rng: np.random.Generator, parts: list[m.Part]) -> Any:
    """Multipliers for some of the rows, with signs that they may have; zero for rows that are not constraints."""
    lower, upper = joint_interval(parts)
    d = rng.standard_normal(len(lower))
    d = np.where(np.isfinite(upper), np.maximum(d, 0), 0) + np.where(np.isfinite(lower), np.minimum(d, 0), 0)
    if not d.any():
        at = int(np.argmax(np.isfinite(lower) | np.isfinite(upper)))
        d[at] = 1.0 if np.isfinite(upper[at]) else -1.0
    return d


def joint_interval(parts: list[m.Part]) -> tuple[Any, Any]:
    """The bounds on Mx − b; infinite for rows that are not constraints."""
    sides = [
        (part.lower, part.upper)
        if isinstance(part, m.Within)
        else (np.full(part.rows, -np.inf), np.full(part.rows, np.inf))
        for part in parts
    ]
    return np.concatenate([low for low, _ in sides]), np.concatenate([high for _, high in sides])


def supremum(d: Any, lower: Any, upper: Any) -> float:
    """sup{dᵀv : lower ≤ v ≤ upper}."""
    up, down = d > 0, d < 0
    return float(d[up] @ upper[up] + d[down] @ lower[down])


def unbounded(seed: int) -> Unbounded:
    """A feasible problem with a direction along which the objective falls for ever."""
    rng = np.random.default_rng(20_000 + seed)
    form = ("plain", "csr", "row blocks", "matrix-free")[seed % 4]
    part = PARTS[seed % len(PARTS)]
    n = int(rng.integers(4, LARGEST)) // 2 * 2
    rows = int(rng.integers(2, n + 1)) // 2 * 2
    direction = rng.standard_normal(n) * (rng.random(n) < 0.5)
    direction[0] = 1.0
    parts = drawn_parts(rng, part, rows)
    M = turned(rng.standard_normal((rows, n)), direction, parts)
    x = rng.standard_normal(n)
    lower, upper, _ = spread_bounds(rng, x) if seed % 2 else free(n)
    lower[direction < 0], upper[direction > 0] = -np.inf, np.inf
    pair = Pair(*dual_pair(rng, parts))
    if seed % 3 == 0:
        P: Any = np.where(direction == 0, rng.uniform(0.5, 2.0, n), 0.0)
    else:
        root = rng.standard_normal((n // 2, n))
        root -= np.outer(root @ direction, direction) / (direction @ direction)
        P = root.T @ root
    q = rng.standard_normal(n)
    steepest = growth(parts, M @ direction) + rng.uniform(0.5, 2.0)
    q -= (q @ direction + steepest) / (direction @ direction) * direction
    M = sp.csr_array(M) if form == "csr" else M
    name, b = f"unbounded {seed}: {part}, {form}", M @ x - pair.g
    made = m.make(name, "unbounded", m.Quadratic(P, q), M, b, parts, (lower, upper), form=shown(form))
    return Unbounded(made, direction)


def turned(M: Any, direction: Any, parts: list[m.Part]) -> Any:
    """M with the rows of constraints turned so they allow the direction."""
    lower, upper = joint_interval(parts)
    M, slope = M.copy(), M @ direction
    both = np.isfinite(lower) & np.isfinite(upper)
    M[both] -= np.outer(slope[both], direction) / (direction @ direction)
    against = ~both & ((np.isfinite(upper) & (slope > 0)) | (np.isfinite(lower) & (slope < 0)))
    M[against] *= -1
    return M


def growth(parts: list[m.Part], r: Any) -> float:
    """The slope of φ*(Mx − b) along a direction with Mv = r that the constraints allow."""
    total, start = 0.0, 0
    for part in parts:
        own = r[start : start + part.rows]
        start += part.rows
        if isinstance(part, m.Slopes):
            total += supremum(own, part.lower, part.upper)
        elif isinstance(part, m.Norms):
            firsts = np.cumsum(part.sizes) - part.sizes
            total += float(part.radius @ np.sqrt(np.add.reduceat(own * own, firsts)))
    return total
