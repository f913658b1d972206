"""The proximal method of multipliers, each of whose steps semismooth Newton computes.

Around (x_k, y_k) it solves min_x max_y f(x) + (δ/2)‖x − x_k‖² + yᵀ(Mx − b) − φ(y) − ½‖y − y_k‖²_{1/σ}, whose
optimality condition ∇f(x) + δ(x − x_k) + Mᵀ prox_{σφ}(y_k + σ(Mx − b)) = 0 is the gradient of a convex function of x:
Newton steps with an exact line search reach it from anywhere. When the active rows have settled, `_polish` repeats
proximal steps with one matrix, which then converge fast.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from time import perf_counter
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from dapd.arrays import Array
from dapd.model.lowered import has_valid_lowering, pieces_of
from dapd.model.problem import Problem
from dapd.model.terms import Terms
from dapd.second_order.choose import DENSE_RATE, MEMORY, OVERHEAD, choose_system
from dapd.second_order.curvature import Curvature
from dapd.second_order.matrices import NotExplicit, explicit, probes, scaled, split, stack
from dapd.second_order.rows import Derivative, Rows
from dapd.second_order.scaling import ruiz
from dapd.second_order.systems import Singular, System
from dapd.second_order.weights import Groups, weigh

LEAST_DELTA = 1e-9  # the least proximal weight δ of a scaled problem
FIRST_STEP, STEPS = 20.0, (1e-4, 1e4)  # the first σ times what it is relative to, and its range
MOST_STEP = 1e7
DECREASE = 0.25  # σ is raised in rows whose residual fell by less
BOLD, CAREFUL = (1e-6, 100.0), (1e-2, 10.0)  # δ at first, and by how much σ is raised at most
PATIENCE = 2  # proximal steps that Newton could not complete before the other of the two is tried
PROBING = 10  # factorisations that the products to find the entries of a matrix-free M may take as long as
INNER, EXACT = 60, 40  # Newton steps per proximal step, and trials of a line search
SHARPER = 0.1  # the accuracy of a proximal step relative to the one before
POLISHES = 8
ROUNDING = 1e-13
FIRMER = (1.0, 1e2, 1e4, 1e6)  # times δ, tried in turn until a factorisation succeeds


class Unsuitable(Exception):
    """Second-order steps cannot solve this problem, since entries of its matrices are not known."""


class Look(NamedTuple):
    """The best point so far, after a proximal step."""

    x: Array
    y: Array
    error: float  # as the judge measures it
    factorizations: int
    dx: Array  # of the last proximal step: near a ray if the problem has no solution
    dy: Array


def dense_seconds(problem: Problem) -> float:
    """Seconds of a dense factorisation, whose order is the number of columns or of rows beside bounds; inf if large."""
    n, k = problem.columns, problem.unstacked.rows
    by_columns = n**3 / 3 + float(n) * n * k
    by_rows = k**3 / 3 + float(k) * k * n if np.ndim(getattr(problem.f, "H", np.zeros(1))) == 1 else np.inf
    least = min(by_columns if n * n <= MEMORY else np.inf, by_rows if k * k <= MEMORY else np.inf)
    return OVERHEAD + least / DENSE_RATE


Judge = Callable[[Array, Array], float]


class Newton:
    """A problem set up for second-order steps."""

    def __init__(self, problem: Problem, *, seconds: float = np.inf) -> None:
        f, phi = problem.f, problem.phi
        terms = f.lowered() if has_valid_lowering(f, "grad") else None
        pieces = pieces_of(phi, problem.rows)
        if terms is None or pieces is None:
            raise Unsuitable(f"{'f' if terms is None else 'φ'} is only available in Python")
        sizes = [problem.columns] if isinstance(terms, Terms) else [b.stop - b.start for b in problem.blocks or []]
        known = probes(problem.M)
        try:
            rows, curvature, M = Rows(pieces), Curvature(terms, sizes), explicit(problem.M, PROBING * seconds)
        except (NotExplicit, TypeError, ValueError) as error:
            raise Unsuitable(str(error)) from None
        self.products = probes(problem.M) - known  # made for the entries of M
        self.groups = Groups(curvature.rows + rows.grouped, rows.starts, rows.owner)
        keep = np.zeros(curvature.rows + problem.rows, bool)
        keep[self.groups.rows] = True
        stacked = [curvature.A, M] if curvature.rows else [M]
        kind, self.cost = choose_system(curvature.P, split(stack(stacked, problem.columns), keep), self.groups, seconds)
        self.kind = kind.__doc__.partition(",")[0] if kind.__doc__ else kind.__name__
        d, e, cost = self.factors = ruiz(curvature, M, rows)
        self.f, self.rows = curvature.scaled(d, cost), rows.scaled(e, cost)
        self.M, self.b = scaled(M, e, d), e * problem.b.astype(np.float64)
        self.Mt = self.M.T.tocsr() if sp.issparse(self.M) else self.M.T
        matrix = stack([self.f.A, self.M] if self.f.rows else [self.M], problem.columns)
        self.system: System = kind(self.f.P, split(matrix, keep), self.groups)
        self.delta = BOLD[0]
        self.steps: Array | None = None  # σ, kept from one solve to the next
        self.factorizations = 0
        self.most_factorizations = np.inf  # more are not begun
        self.factored: tuple[Derivative, Array, float] | None = None  # what the system was last factorised for

    def run(self, x: Array, y: Array, judge: Judge, deadline: float = np.inf) -> Iterator[Look]:
        """Proximal steps from (x, y) on, as long as the caller wants more."""
        d, e, cost = self.factors
        x, y = x / d, cost * y / e
        steps = self._first_steps(x) if self.steps is None else self.steps
        accuracy, residual_before, pull_before = 1.0, None, np.inf
        best_error, best = np.inf, (x, y)
        (_, rise), incomplete, others = BOLD, 0, itertools.cycle((CAREFUL, BOLD))
        while perf_counter() < deadline:
            centre, y_before = x, y
            x, y, derivative = self._proximal_step(x, y, steps, accuracy, deadline)
            residual, pull = (y - y_before) / steps, self.delta * np.max(abs(x - centre), initial=0.0)
            error = judge(d * x, e * y / cost)
            polished = None if self._over(deadline) else self._polish(x, y, steps, derivative)
            if polished is not None:
                other = judge(d * polished[0], e * polished[1] / cost)
                if other < error:
                    (x, y), error = polished, other
            if error < best_error:
                best_error, best = error, (x, y)
            self.steps = steps
            there, dual = best
            moved = d * (x - centre), e * (y - y_before) / cost
            yield Look(d * there, e * dual / cost, best_error, self.factorizations, *moved)
            greatest = np.max(abs(residual), initial=0.0)
            if residual_before is not None:
                slow = (abs(residual) > DECREASE * abs(residual_before)) & (abs(residual) > ROUNDING)
                most = np.where(self.rows.bounded, min(rise, CAREFUL[1]), rise)
                factors = np.clip(rise * abs(residual) / max(greatest, 1e-300), 1.0, most)
                steps = self.rows.pool(np.minimum(np.where(slow, steps * factors, steps), MOST_STEP))
            if pull > SHARPER * accuracy and pull > 0.3 * pull_before:
                self.delta = max(0.1 * self.delta, LEAST_DELTA)
            incomplete += self.trials == INNER
            if incomplete == PATIENCE:
                (self.delta, rise), incomplete = next(others), 0
                (x, y), steps, residual, pull, accuracy = best, self._first_steps(best[0]), None, np.inf, 1.0
            residual_before, pull_before = residual, pull
            accuracy = max(SHARPER * min(accuracy, greatest), 1e-15)

    def _first_steps(self, x: Array) -> Array:
        residual = self.M @ x - self.b
        far = residual - np.clip(residual, self.rows.lower, self.rows.upper)
        far[(self.rows.least > -np.inf) | (self.rows.most < np.inf)] = 0.0
        far[self.rows.grouped] = 0.0
        slope = abs(float(x @ (0.5 * self.f.times(x) - self.f.c)))
        size = FIRST_STEP * max(1.0, slope) / max(1.0, 0.5 * float(far @ far))
        return np.full(residual.size, float(np.clip(size, *STEPS)))

    def _proximal_step(
        self, x: Array, y: Array, steps: Array, accuracy: float, deadline: float
    ) -> tuple[Array, Array, Derivative]:
        """The x of the next point, up to `accuracy` in the gradient, with its y and the derivative there."""
        centre, before, fell = x, None, np.inf
        for trial in range(INNER + 1):
            image, residual = self.f.A @ x, self.M @ x - self.b
            v = y + steps * residual
            p, derivative = self.rows.prox(v, steps), self.rows.derivative(v, steps)
            g = self.f.gradient(x, image) + self.delta * (x - centre) + self.Mt @ p
            size = np.max(abs(g), initial=0.0)
            exact = self.f.quadratic and derivative.same_rows(before)  # the last Newton step solved its equation
            stuck = size > 0.1 * fell and (exact or size <= ROUNDING * np.max(abs(p), initial=1.0))
            if size <= accuracy or stuck or trial == INNER or self._over(deadline):
                break
            before, fell = derivative, size
            self._factor(image, derivative, steps)
            d = self._solve(-g, None)[0]
            t = self._line_search(x, image, v, steps, centre, d)
            if t == 0.0:  # rounding hides any further descent
                break
            x = x + t * d
        self.trials = trial
        return x, p, derivative

    def _over(self, deadline: float) -> bool:
        return perf_counter() > deadline or self.factorizations >= self.most_factorizations

    def _factor(self, image: Array, derivative: Derivative, steps: Array) -> None:
        known = self.factored
        same = known is not None and known[1] is steps and known[2] == self.delta
        if self.f.quadratic and known is not None and same and derivative.same_rows(known[0]):
            return
        self.factored = (derivative, steps, self.delta)
        self.weights = weigh(self.f.curvatures(image), derivative, steps, self.rows, self.groups)
        for more in FIRMER:
            self.factorizations += 1
            try:
                return self.system.factor(np.full(self.f.size, more * self.delta), self.weights)
            except Singular:  # rounding hides δ; with more of it, steps are only shorter
                if more == FIRMER[-1]:
                    self.factored = None
                    raise

    def _solve(self, r: Array, s: Array | None) -> tuple[Array, Array]:
        """(d, dy) with (∇²f + δ)d + Mᵀdy = r and dy = σDMd + s."""
        losses = self.f.rows
        q = np.zeros(self.weights.across.size)
        if s is not None:
            q[losses:] = s
            q, null = self.weights.divided(q)
            r = r - self.Mt @ null[losses:]
        d, z = self.system.solve(r, q)
        if s is None:
            return d, z
        return d, (self.weights.times(z) + null)[losses:]

    def _line_search(self, x: Array, image: Array, v: Array, steps: Array, centre: Array, d: Array) -> float:
        """The t that minimises the convex function along d, by Newton on its slope; 0 if d does not descend."""
        along = self.f.along(x, image, d, self.f.A @ d)
        Md = self.M @ d
        pull, bend, move = float(d @ (x - centre)), float(d @ d), steps * Md

        def slopes(t: float) -> tuple[float, float]:
            at = v + t * move
            first, second = along(t)
            curve = self.rows.derivative(at, steps).across @ (move * Md)
            return (
                first + self.delta * (pull + t * bend) + float(Md @ self.rows.prox(at, steps)),
                second + self.delta * bend + float(curve),
            )

        start = slopes(0.0)[0]
        if not start < 0.0:
            return 0.0
        low, high, t = 0.0, np.inf, 1.0
        for trial in range(EXACT):
            slope, curve = slopes(t)
            if abs(slope) <= (1e-3 if trial == 0 else 1e-10) * abs(start):
                break
            low, high = (low, t) if slope > 0 else (t, high)
            guess = t - slope / curve if curve > 0 else np.inf
            if not low < guess < high:
                guess = 2.0 * t if high == np.inf else 0.5 * (low + high)
            if abs(guess - t) <= 1e-14 * t:
                break
            t = guess
        return t

    def _polish(self, x: Array, y: Array, steps: Array, derivative: Derivative) -> tuple[Array, Array] | None:
        """Proximal steps of one Newton step each with one matrix: they converge fast if the active rows are right."""
        try:
            self._factor(self.f.A @ x, derivative, steps)
            best, least = None, np.inf
            piece = self.rows.piece(y + steps * (self.M @ x - self.b), steps, derivative)
            for _ in range(POLISHES):
                p = piece(y + steps * (self.M @ x - self.b))
                r, s = -(self.f.gradient(x, self.f.A @ x) + self.Mt @ y), p - y
                left = max(np.max(abs(r), initial=0.0), np.max(abs(s) / steps, initial=0.0))
                if not left < 0.5 * least:
                    break
                best, least = (x, y), left
                dx, dy = self._solve(r, s)
                x, y = x + dx, y + dy
        except Singular:
            return None
        return None if best is None else (best[0], self.rows.project(best[1]))
