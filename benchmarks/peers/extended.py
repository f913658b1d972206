"""The certificate from its definition in docs/certificate.md: plain code in extended precision.

Of dapd it uses the data, and what these say is typical (`Problem.units`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

import dapd

LONG = np.longdouble
THETA, FARTHEST = 1e-3, 30.0
GUARD = 2.0**-49  # part of the gap's terms below which no gap is claimed


class Errors(NamedTuple):
    """The certificate's numbers, under its names."""

    stationarity_error: float
    feasibility_error: float
    complementarity_error: float
    gap_error: float
    gap: float
    primal: float
    dual: float

    def error(self, accuracy: str = "solution") -> float:
        """The greatest of the relative errors that the accuracy counts; nan if one is nan."""
        rows = self.complementarity_error if accuracy == "solution" else self.feasibility_error
        return float(np.max([self.stationarity_error, rows, self.gap_error]))


@dataclass(frozen=True)
class Intervals:
    """lower ≤ v ≤ upper, row by row."""

    lower: Any
    upper: Any

    def nearest(self, v: Any) -> Any:
        """The point of the set nearest to v."""
        return np.minimum(np.maximum(v, self.lower), self.upper)

    def nearest_bounded(self, v: Any) -> Any:
        """The nearest direction in which the set is bounded, so `support` is finite there."""
        v = np.where(np.isinf(self.lower), np.maximum(v, 0), v)
        return np.where(np.isinf(self.upper), np.minimum(v, 0), v)

    def support(self, v: Any) -> Any:
        """The supremum of vᵀw over the w of the set."""
        ends = np.where(v > 0, self.upper, np.where(v < 0, self.lower, 0))
        return np.sum(ends * v)

    def pooled(self, v: Any) -> Any:
        """The sizes of v, equal in rows that are measured together."""
        return abs(v)


@dataclass(frozen=True)
class Balls:
    """‖v_t‖₂ ≤ radius_t for groups t of rows."""

    radius: Any
    groups: list[slice]

    def nearest(self, v: Any) -> Any:
        """The point of the set nearest to v."""
        norms = self.pooled(v)
        radii = self._repeated(self.radius)
        return np.where(norms > radii, v * (radii / np.where(norms > 0, norms, 1)), v)

    def nearest_bounded(self, v: Any) -> Any:
        """The set is bounded in every direction."""
        return v

    def support(self, v: Any) -> Any:
        """The supremum of vᵀw over the w of the set."""
        return np.sum(self.radius * np.array([np.sqrt(np.sum(v[at] ** 2)) for at in self.groups]))

    def pooled(self, v: Any) -> Any:
        """The sizes of v, equal in rows that are measured together."""
        return self._repeated(np.array([np.sqrt(np.sum(v[at] ** 2)) for at in self.groups]))

    def _repeated(self, values: Any) -> Any:
        return np.concatenate(
            [np.full(at.stop - at.start, value) for at, value in zip(self.groups, values, strict=True)]
        )


class Part(NamedTuple):
    """Some rows: y lies in a set, so φ is its indicator, or Mx − b does, so φ is its support function."""

    rows: slice
    of_y: bool
    points: Intervals | Balls


def parts_of(phi: Any, rows: int, start: int = 0) -> list[Part]:
    """φ as sets."""
    at = slice(start, start + rows)

    def intervals(of_y: bool, lower: Any, upper: Any) -> list[Part]:
        return [Part(at, of_y, Intervals(*(np.broadcast_to(end, rows).astype(LONG) for end in (lower, upper))))]

    if isinstance(phi, dapd.Stack):
        firsts = start + np.cumsum([0, *phi.sizes])
        found = zip(phi.parts, phi.sizes, firsts.tolist()[:-1], strict=True)
        return [part for one, size, first in found for part in parts_of(one, size, first)]
    if isinstance(phi, dapd.Conjugate):
        return [part._replace(of_y=not part.of_y) for part in parts_of(phi.g, rows, start)]
    if isinstance(phi, dapd.Zero):
        return intervals(False, 0.0, 0.0)
    if isinstance(phi, dapd.L1):
        return intervals(False, -phi.nu, phi.nu)
    if isinstance(phi, dapd.Interval):
        return intervals(False, phi.lower, phi.upper)
    if isinstance(phi, dapd.NonNegative):
        return intervals(True, 0.0, np.inf)
    if isinstance(phi, dapd.Box):
        return intervals(True, phi.lower, phi.upper)
    assert isinstance(phi, dapd.GroupBall), f"no definition for {phi!r}"
    groups = phi.groups
    if not isinstance(groups, list):
        groups = [slice(first, first + groups) for first in range(0, rows, groups)]
    return [Part(at, True, Balls(np.broadcast_to(phi.radius, len(groups)).astype(LONG), groups))]


def gradient(problem: dapd.Problem, x: Any) -> Any:
    """∇f(x) in the precision of x."""
    if problem.terms is None:
        return problem.f.grad(x)
    return np.concatenate([_gradient_of_terms(part.terms, x[part.at]) for part in problem.terms])


def _gradient_of_terms(terms: Any, x: Any) -> Any:
    total = terms.ridge * x
    if terms.loss is not None:
        A = np.eye(x.size, dtype=LONG) if terms.A is None else terms.A.dense().astype(LONG)
        u, d = A @ x, LONG(0) if terms.d is None else terms.d.astype(LONG)
        slopes: dict[str, Any] = {
            "Square": lambda: u - d,
            "LogisticLoss": lambda: -d / (1 + np.exp(d * u)),
            "PseudoHuberLoss": lambda: (u - d) / np.sqrt((u - d) ** 2 + LONG(terms.loss.e) ** 2),
        }
        total = total + A.T @ slopes[type(terms.loss).__name__]()
    if terms.H is not None:
        H = terms.H.toarray() if hasattr(terms.H, "toarray") else np.asarray(terms.H)
        total = total + (H * x if H.ndim == 1 else H.astype(LONG) @ x)
    return total if terms.c is None else total - terms.c


def definition(problem: dapd.Problem, x: Any, y: Any, matrix: Any = None) -> Errors:
    """The certificate of a point; `matrix` is M, if it is known apart from the problem."""
    M = (problem.M.dense() if matrix is None else matrix).astype(LONG)
    known = problem.M.row_sizes(x) is not None  # else what is left after cancellation
    units, b = problem.units(), problem.b.astype(LONG)
    x, y = x.astype(LONG), y[: problem.rows].astype(LONG)
    Mx, Mty = M @ x, M.T @ y
    R = abs(b) + (abs(M) @ abs(x) if known else abs(Mx)) + THETA * units.rows
    Y = abs(y) + THETA * units.y
    comparison, feasibility, primal, beyond = [LONG(0)], [LONG(0)], [LONG(0)], [LONG(0)]
    conjugate = value = product = sizes = LONG(0)
    for rows, of_y, points in parts_of(problem.phi, problem.rows):
        own, residual, R_own, Y_own = y[rows], (Mx - b)[rows], points.pooled(R[rows]), points.pooled(Y[rows])
        s = Y_own / R_own
        v = own + s * residual
        if of_y:
            p, q, r = points.nearest(v), points.nearest(own), points.nearest_bounded(residual)
            conjugate += points.support(r)
        else:
            p, q, r = v - s * points.nearest(v / s), points.nearest_bounded(own), points.nearest(residual)
            value += points.support(q)
        comparison += [*(points.pooled(own - p) / Y_own)]
        feasibility += [*(points.pooled(residual - r) / R_own), *(points.pooled(own - q) / Y_own)]
        primal += [*abs(residual - r)]
        beyond += [*abs(own - q)]
        product += b[rows] @ q
        sizes += abs(b[rows]) @ abs(q)
    slopes, slope_sizes = gradient(problem, x), abs(gradient(problem, 0 * x))
    S = slope_sizes + abs(slopes) + (abs(M).T @ abs(y) if known else abs(Mty)) + THETA * units.columns
    stationarity = [LONG(0)]
    for j, (slope, lower, upper) in enumerate(zip(slopes + Mty, *problem.bounds, strict=True)):
        bound, unit = LONG(lower if slope > 0 else upper), THETA * units.x[j]
        if slope != 0 and abs(x[j] - bound) <= abs(x[j]):  # z_j = −slope
            comparison.append(min(abs(slope) / S[j], abs(x[j] - bound) / (abs(x[j]) + abs(bound) + unit)))
            product -= bound * slope
            sizes += abs(bound * slope)
        else:
            stationarity.append(abs(slope) / S[j])
            beyond.append(abs(slope))
        end = min(max(x[j], LONG(lower)), LONG(upper))
        outside = abs(x[j] - end) / (abs(x[j]) + abs(end) + unit)
        primal.append(abs(x[j] - end))
        feasibility.append(outside)
        comparison.append(outside)
    product += x @ slopes
    sizes += abs(x) @ (slope_sizes + abs(slopes)) + abs(conjugate) + abs(value)
    gap = abs(conjugate + value + product) + GUARD * (sizes + problem.curvature @ (x * x))
    data = np.sum(units.columns * units.x) + np.sum(units.y * units.rows)
    for slope, curvature, lower, upper in zip(slope_sizes, problem.curvature, *problem.bounds, strict=True):
        data += slope * min(slope / curvature, max(abs(lower), abs(upper))) if curvature > 0 else 0
    counted = min(sizes, FARTHEST * data)
    found = (*map(np.max, (stationarity, feasibility, comparison)), gap / (counted + THETA * units.objective), gap)
    return Errors(*map(float, (*found, np.max(primal), np.max(beyond))))
