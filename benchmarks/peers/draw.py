"""Random pieces of the generated problems: couplings, costs, rows and bounds."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from peers import model as m

WORST = 8.0  # conditioning goes up to 10 to this power


class Pair(NamedTuple):
    """y and g ∈ ∂φ(y)."""

    y: Any
    g: Any


def orthogonal(rng: np.random.Generator, n: int) -> Any:
    return np.linalg.qr(rng.standard_normal((n, n)))[0]


def coupling(rng: np.random.Generator, form: str, rows: int, n: int) -> tuple[Any, Any]:
    """M, at times with dependent rows or rows of very different sizes, and the factors of a Kronecker product."""
    if form == "kronecker":
        factors = rng.standard_normal((rows // 2, n // 2)), rng.standard_normal((2, 2))
        return np.kron(*factors), factors
    if form == "csr":
        M = sp.random_array((rows, n), density=0.3, rng=rng, data_sampler=rng.standard_normal, format="csr")
        return M, None
    k = min(rows, n)
    sizes = np.geomspace(1.0, 10 ** -rng.uniform(0.0, WORST / 2), k)
    M = (orthogonal(rng, rows)[:, :k] * sizes) @ orthogonal(rng, n)[:k]
    trouble = rng.random()
    if trouble < 0.25:  # dependent rows
        M[rows // 2 :] = rng.standard_normal((rows - rows // 2, rows // 2)) @ M[: rows // 2]
    elif trouble < 0.4:
        M *= 10 ** rng.uniform(-2.0, 3.0, (rows, 1))
    elif trouble < 0.5:
        M[0], M[:, -1] = 0.0, 0.0
    return M, None


def drawn_cost(rng: np.random.Generator, kind: str, n: int) -> list[tuple[m.Cost, int]]:
    """Costs without their linear terms, which `with_linear_term` adds."""
    if kind == "separable":
        half = n // 2
        other = ("pseudo-huber", "logistic", "semidefinite")[int(rng.integers(3))]
        return [*drawn_cost(rng, "diagonal", half), *drawn_cost(rng, other, n - half)]
    return [(one_cost(rng, kind, n), n)]


def one_cost(rng: np.random.Generator, kind: str, n: int) -> m.Cost:
    spectrum = np.geomspace(1.0, 10 ** -rng.uniform(0.0, WORST), n)
    none = np.zeros(n)
    if kind == "diagonal":
        return m.Quadratic(rng.permutation(spectrum), none)
    if kind == "semidefinite diagonal":
        return m.Quadratic(rng.permutation(spectrum) * (rng.random(n) < 0.7), none)
    if kind in ("dense", "semidefinite"):
        if kind == "semidefinite":
            spectrum[n // 2 :] = 0.0
        Q = orthogonal(rng, n)
        P = (Q * spectrum) @ Q.T
        return m.Quadratic((P + P.T) / 2, none)
    if kind == "sparse":
        root = sp.random_array((n, n), density=0.2, rng=rng, data_sampler=rng.standard_normal)
        return m.Quadratic((root @ root.T + 1e-2 * sp.eye_array(n)).tocsr(), none)
    if kind in ("squares", "wide squares"):
        rows = 2 * n if kind == "squares" else max(n // 2, 1)
        return m.Squares(rng.standard_normal((rows, n)), np.zeros(rows), 0.0 if rng.random() < 0.7 else 1e-3)
    if kind in ("logistic", "logistic, no ridge"):
        rows = 2 * n
        return m.Logistic(rng.standard_normal((rows, n)), rng.choice([-1.0, 1.0], rows), 0.1 * (kind == "logistic"))
    return m.PseudoHuber(float(10 ** -rng.uniform(0.0, 2.0)))


def gradient(cost: m.Cost, x: Any) -> Any:
    """∇f(x)."""
    if isinstance(cost, m.Quadratic):
        return (cost.P * x if np.ndim(cost.P) == 1 and not sp.issparse(cost.P) else cost.P @ x) + cost.q
    if isinstance(cost, m.Squares):
        return cost.A.T @ (cost.A @ x - cost.d) + cost.ridge * x
    if isinstance(cost, m.Logistic):
        margins = cost.labels * (cost.A @ x)
        return cost.A.T @ (-cost.labels / (1.0 + np.exp(margins))) + cost.ridge * x
    return x / np.hypot(x, cost.e) + cost.e * x


def with_linear_term(cost: m.Cost, x: Any, slope: Any) -> m.Cost:
    """The cost changed to have ∇f(x) = −slope: q for a quadratic, one more row of A for least squares."""
    if isinstance(cost, m.Quadratic):
        return m.Quadratic(cost.P, -slope - gradient(cost, x))
    if isinstance(cost, m.Squares):
        misfit = np.sin(np.arange(len(cost.d)))  # anything
        row = -(slope + cost.ridge * x + cost.A.T @ misfit)
        size = float(np.linalg.norm(row)) or 1.0
        A = np.vstack([cost.A, row / size])
        return m.Squares(A, A @ x - np.r_[misfit, size], cost.ridge)
    return cost


def drawn_parts(rng: np.random.Generator, kind: str, rows: int) -> list[m.Part]:
    """Rows of one kind, or a stack of constraints and another kind."""
    if kind == "stack":
        half = rows // 2
        first = ("zero", "interval", "nonnegative")[int(rng.integers(3))]
        second = ("box", "l1", "ball")[int(rng.integers(3))]
        return [one_part(rng, first, half), one_part(rng, second, rows - half)]
    return [one_part(rng, kind, rows)]


def one_part(rng: np.random.Generator, kind: str, rows: int) -> m.Part:
    if kind == "zero":
        return m.equations(rows)
    if kind == "nonnegative":
        return m.inequalities(rows)
    if kind == "l1":
        nu = rng.uniform(0.1, 1.0, rows)
        return m.Within(-nu, nu)
    if kind == "interval":
        which = rng.integers(4, size=rows)  # an equation, two-sided, one-sided or free
        which[0] = 1
        low, high = -rng.uniform(0.1, 1.0, rows), rng.uniform(0.1, 1.0, rows)
        low, high = np.where(which == 0, high, low), high
        return m.Within(np.where(which >= 2, -np.inf, low), np.where(which == 3, np.inf, high))
    if kind == "ball":
        sizes = np.full(rows, 1) if rows % 2 else np.full(rows // 2, 2)
        return m.Norms(rng.uniform(0.5, 1.5, len(sizes)), sizes)
    lower, upper = -rng.uniform(0.1, 1.0, rows), rng.uniform(0.1, 1.0, rows)
    return m.Slopes(lower if rng.random() < 0.5 else np.zeros(rows), upper)


def dual_pair(rng: np.random.Generator, parts: list[m.Part]) -> Pair:
    """A point y and g ∈ ∂φ(y): the prox of φ at a random point, and the difference from that point."""
    pairs = [one_pair(1.5 * rng.standard_normal(part.rows), part) for part in parts]
    return Pair(np.concatenate([y for y, _ in pairs]), np.concatenate([g for _, g in pairs]))


def one_pair(v: Any, part: m.Part) -> Pair:
    if isinstance(part, m.Within):
        g = np.clip(v, part.lower, part.upper)
        return Pair(v - g, g)
    if isinstance(part, m.Slopes):
        y = np.clip(v, part.lower, part.upper)
        return Pair(y, v - y)
    firsts = np.cumsum(part.sizes) - part.sizes
    lengths = np.sqrt(np.add.reduceat(v * v, firsts))
    y = v * np.repeat(part.radius / np.maximum(lengths, part.radius), part.sizes)
    return Pair(y, v - y)


def spread_bounds(rng: np.random.Generator, x: Any) -> tuple[Any, Any, Any]:
    """Bounds around x, and multipliers: free, inside, at the lower or the upper bound, or fixed."""
    which, size = rng.integers(5, size=len(x)), rng.uniform(0.1, 1.0, len(x))
    lower = np.select([which == 1, (which == 2) | (which == 4)], [x - size, x], -np.inf)
    upper = np.select([which == 1, (which == 3) | (which == 4)], [x + size, x], np.inf)
    push = rng.standard_normal(len(x))
    z = np.select([which == 2, which == 3, which == 4], [-abs(push), abs(push), push], 0.0)
    return lower, upper, z
