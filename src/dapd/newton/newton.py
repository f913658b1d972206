"""The proximal method of multipliers, each of whose steps semismooth Newton computes.

Around (x_k, y_k) it solves min_x max_y f(x) + (δ/2)‖x − x_k‖² + yᵀ(Mx − b) − φ(y) − ½‖y − y_k‖²_{1/σ}, whose
optimality condition ∇f(x) + δ(x − x_k) + Mᵀ prox_{σφ}(y_k + σ(Mx − b)) = 0 is the gradient of a convex function of x:
Newton steps with an exact line search reach it from anywhere. When the active rows have settled, `_polish` repeats
proximal steps with one matrix, which then converge fast. If they will hardly settle, or did not, `interior` has
another way to the solution of a quadratic f, with the same systems.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Generator, Iterator
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from dapd.arrays import Array
from dapd.kinds.table import Derivative
from dapd.machine.clock import is_over, perf_counter
from dapd.newton.interior import Path
from dapd.newton.parts import least_along
from dapd.newton.scaled import ScaledProblem
from dapd.newton.systems import BandedSystem, Singular
from dapd.problem.problem import Problem

LEAST_DELTA = 1e-9  # the least proximal weight δ of a scaled problem
FIRST_STEP, STEP_RANGE = 20.0, (1e-4, 1e4)  # first σ relative to the size of the problem, and its range
MOST_STEP = 1e7  # greatest σ
DECREASE = 0.25  # σ is raised in rows whose residual fell by less
BOLD, CAREFUL = (1e-6, 100.0), (1e-2, 10.0)  # δ at first and the greatest factor of σ, in bold and in careful steps
INCOMPLETE = 2  # proximal steps that Newton could not complete before bold and careful steps change places
FRUITLESS = 12  # proximal steps that did not halve the error, after which a path is tried
INNER = 60  # Newton steps per proximal step
FEW = 8  # Newton steps of a warm start before a path is the faster way
LOST = 0.5  # part of the first gradient of a proximal step that is left if Newton has failed
PULSE = 0.1  # seconds after which a proximal step lets the caller look
SHARPER = 0.1  # ratio of the accuracies of a proximal step and of the one before
WARM = 1e-4  # accuracy of the first proximal step if the active rows of an earlier solve are nearly right
FIRM, FIRMLY = 1e6, 100.0  # σ of equations near a solution, and the greatest factor by which it rises there
POLISHES, POLISHED = 8, 0.1  # most steps that polish a point, and the part of the tolerance at which they end
NEXT, OFTEN = 0.03, 10  # part of the last residuals at which a point on a path is checked, or so many steps later
ROUNDING = 1e-13  # relative size of a residual that rounding explains


class Reached(NamedTuple):
    """The best point so far, after a proximal step."""

    x: Array
    y: Array
    error: float  # as the judge measures it
    dx: Array  # of the last proximal step: near a ray if the problem has no solution
    dy: Array


ErrorOf = Callable[[Array, Array], float]
Judged = tuple[float, Array, Array]  # the error of a point, and the point


class Newton(ScaledProblem):
    """A problem set up for second-order steps."""

    def __init__(self, problem: Problem, *, seconds: float = np.inf) -> None:
        super().__init__(problem, seconds=seconds)
        self.delta = BOLD[0]
        self.steps: Array | None = None  # σ, kept from one solve to the next
        self.firm = False  # whether σ was raised for starts near a solution
        self.most_factorizations = np.inf  # more are not begun
        # whether steps with the same matrix go on from a point that is good enough: digits are cheap
        self.finer = False

    def forget(self) -> None:
        """Start anew with σ and δ, after a solve that did not end well."""
        self.steps, self.delta, self.firm = None, BOLD[0], False

    def run(
        self, x: Array, y: Array, judge: ErrorOf, deadline: float = np.inf, *, tol: float = 0.0
    ) -> Iterator[Reached | None]:
        """Proximal steps from (x, y) on, as long as the caller wants more; None from within a step that takes long.

        The judge gives the relative error of a point, or 0 if that is small enough, which may be expected near `tol`.
        """
        d, e, cost = self.factors
        x, y = x / d, cost * y / e
        cold, followed = self.steps is None, not self.has_path
        best = np.inf, x, y
        if cold and self.follows_path:
            best = yield from self._along_path(best, judge, deadline, tol)
            followed, (_, x, y) = True, best
        steps = self._first_steps(x) if cold or self.steps is None else self._firm_steps(self.steps)
        accuracy, residual_before, pull_before = 1.0 if cold else WARM, None, np.inf
        (_, rise), incomplete, others, least = BOLD, 0, itertools.cycle((CAREFUL, BOLD)), LEAST_DELTA
        fruitless, reference = 0, np.inf
        while not is_over(deadline):
            centre, y_before = x, y
            impatient = self.follows_path and not followed
            tries = FEW if impatient else INNER
            x, y, derivative = yield from self._proximal_step(x, y, steps, accuracy, deadline, tries)
            residual, pull = (y - y_before) / steps, self.delta * np.max(abs(x - centre), initial=0.0)
            found = (np.inf, x, y) if self._over(deadline) else self._polish(x, y, steps, derivative, judge, tol)
            if found[0] > 0.0:
                found = min((judge(*self.unscaled(x, y)), x, y), found, key=itemgetter(0))
            _, x, y = found
            best = min(best, found, key=itemgetter(0))
            self.steps = steps
            yield self._reached(best, x - centre, y - y_before)
            greatest = np.max(abs(residual), initial=0.0)
            if residual_before is not None:
                slow = (abs(residual) > DECREASE * abs(residual_before)) & (abs(residual) > ROUNDING)
                most = np.where(self.rows.bounded, min(rise, CAREFUL[1]), rise)
                factors = np.clip(rise * abs(residual) / max(greatest, 1e-300), 1.0, most)
                steps = self.rows.averaged(np.minimum(np.where(slow, steps * factors, steps), MOST_STEP))
            if pull > SHARPER * accuracy and pull > 0.3 * pull_before:
                self.delta = max(0.1 * self.delta, least)
            if self.lost:  # to rounding: with this δ, systems are too badly conditioned
                least = min(10 * self.delta, CAREFUL[0])
            incomplete += self.trials == tries or self.lost
            fruitless, reference = (0, best[0]) if best[0] < 0.5 * reference else (fruitless + 1, reference)
            if incomplete == (1 if impatient else INCOMPLETE) or (fruitless == FRUITLESS and not followed):
                (self.delta, rise), incomplete = next(others), 0
                if not followed:
                    best = yield from self._along_path(best, judge, deadline, tol)
                    followed = True
                _, x, y = best
                steps, residual, pull, accuracy = self._first_steps(x), None, np.inf, 1.0
            residual_before, pull_before = residual, pull
            accuracy = max(SHARPER * min(accuracy, greatest), 1e-15)

    @property
    def follows_path(self) -> bool:
        """Whether steps begin along a path through the inside of all bounds.

        Rows that couple neighbours change sides one after the other, which takes semismooth Newton very many steps.
        """
        return self.made_by is BandedSystem and self.has_path

    @property
    def has_path(self) -> bool:
        """Whether there is such a path: f is quadratic, and some rows, but no groups of them, have bounds."""
        return self.f.quadratic and not self.rows.members.size and not np.all(self.rows.linear & ~self.rows.bounded)

    def _reached(self, best: Judged, dx: Array, dy: Array) -> Reached:
        error, *point = best
        return Reached(*self.unscaled(*point), error, *self.unscaled(dx, dy))

    def _along_path(
        self, best: Judged, judge: ErrorOf, deadline: float, tol: float
    ) -> Generator[Reached | None, None, Judged]:
        """The best point, which may be one on the path through the inside of all bounds."""
        seen, enough = perf_counter(), POLISHED * tol
        for number, (x, y, left) in enumerate(Path(self).run(*best[1:]), start=1):
            over, done = self._over(deadline), best[0] == 0.0  # one more step is for more digits
            if left <= enough or number % OFTEN == 0 or over or done:
                y = self.rows.project(y)
                error = judge(*self.unscaled(x, y))
                if error < best[0] or error == 0.0:
                    before, best = best, (error, x, y)
                    self.steps = self._first_steps(x)  # for a warm start
                    yield self._reached(best, x - before[1], y - before[2])
                enough = min(enough, NEXT * left)
            elif perf_counter() > seen + PULSE:
                yield None
                seen = perf_counter()
            if over or done:
                break
        return best

    def _first_steps(self, x: Array) -> Array:
        if self.f.quadratic and not self.rows.bounded.any() and self.rows.linear.all():
            return np.full(self.b.size, FIRM)  # only equations: one step is nearly enough
        residual = self.M @ x - self.b
        far = residual - np.clip(residual, *self.rows.of_residual)
        far[self.rows.bounded] = 0.0
        slope = abs(float(x @ (0.5 * self.f.times(x) - self.f.c)))
        size = FIRST_STEP * max(1.0, slope) / max(1.0, 0.5 * float(far @ far))
        return np.full(residual.size, float(np.clip(size, *STEP_RANGE)))

    def _firm_steps(self, steps: Array) -> Array:
        """σ for a start near the solution: so large that one proximal step is nearly enough."""
        if self.firm:
            return steps
        self.firm, free = True, ~self.rows.bounded
        steps = np.where(free, np.maximum(steps, np.minimum(FIRMLY * steps, FIRM)), steps)
        return np.where(free & self.rows.linear, np.maximum(steps, FIRM), steps)

    def _proximal_step(
        self, x: Array, y: Array, steps: Array, accuracy: float, deadline: float, tries: int
    ) -> Generator[None, None, tuple[Array, Array, Derivative]]:
        """The x of the next point, up to `accuracy` in the gradient, with its y and the derivative there.

        It takes at most so many steps.
        """
        centre, before, fell, first, seen = x, None, np.inf, np.inf, perf_counter()
        v = y + steps * (self.M @ x - self.b)
        for trial in range(tries + 1):
            image = self.f.image(x)
            p, derivative = self.rows.prox_and_derivative(v, steps)
            g = self.f.gradient(x, image) + self.delta * (x - centre) + self.Mt @ p
            size = np.max(abs(g), initial=0.0)
            first = size if trial == 0 else first
            exact = self.f.quadratic and derivative.same_rows(before)  # the last Newton step solved its equation
            stuck = size > 0.1 * fell and (exact or size <= ROUNDING * np.max(abs(p), initial=1.0))
            if size <= accuracy or stuck or trial == tries or self._over(deadline):
                break
            before, fell = derivative, size
            self.factor(image, derivative, steps, self.delta)
            d = self.solve(-g)[0]
            Md = self.M @ d
            t = self._line_search(x, image, v, steps, centre, d, Md, float(g @ d))
            if t == 0.0:  # rounding hides any further descent
                break
            x, v = x + t * d, v + t * (steps * Md)
            if perf_counter() > seen + PULSE:
                yield
                seen = perf_counter()
        least = max(accuracy, math.sqrt(ROUNDING) * np.max(abs(p), initial=1.0))
        self.trials, self.lost = trial, bool(size > max(LOST * first, least))
        return x, p, derivative

    def _over(self, deadline: float) -> bool:
        return is_over(deadline) or self.factorizations >= self.most_factorizations

    def _line_search(
        self, x: Array, image: Array, v: Array, steps: Array, centre: Array, d: Array, Md: Array, start: float
    ) -> float:
        """The t that minimises the convex function along d, by Newton on its slope; 0 if d does not descend.

        `start` is its slope at t = 0.
        """
        if not start < 0.0:
            return 0.0
        along = self.f.along(x, image, d, self.f.image(d))
        pull, bend, move = float(d @ (x - centre)), float(d @ d), steps * Md
        curves = move * Md

        def slopes(t: float) -> tuple[float, float]:
            at = v + t * move
            first, second = along(t)
            p, derivative = self.rows.prox_and_derivative(at, steps)
            return (
                first + self.delta * (pull + t * bend) + float(Md @ p),
                second + self.delta * bend + float(derivative.across @ curves),
            )

        return least_along(slopes, start)

    def _polish(
        self, x: Array, y: Array, steps: Array, derivative: Derivative, judge: ErrorOf, tol: float
    ) -> tuple[float, Array, Array]:
        """The error and the point after proximal steps of one Newton step each, with one matrix.

        They converge fast if the active rows are right. The judge, who takes as long as a step, is asked when the
        residual is near `tol`, and again at the end if need be. The error is infinite if nothing came of it.
        """
        best, least, error, enough, done = (x, y), np.inf, np.inf, POLISHED * tol, False
        try:
            self.factor(self.f.image(x), derivative, steps, self.delta)
            v = y + steps * (self.M @ x - self.b)
            piece = self.rows.piece(v, steps, derivative)
            for _ in range(POLISHES):
                r, s = -(self.f.gradient(x, self.f.image(x)) + self.Mt @ y), piece(v) - y
                left = max(np.max(abs(r), initial=0.0), np.max(abs(s) / steps, initial=0.0))
                if not left < 0.5 * least:
                    break
                best, least, error = (x, self.rows.project(y)), left, np.inf
                if left <= enough and not done:
                    error = judge(*self.unscaled(*best))
                    done = error == 0.0
                    if done and not self.finer:
                        break
                    enough *= 1.0 if done else left / error
                dx, dy = self.solve(r, s)
                x, y = x + dx, y + dy
                v = y + steps * (self.M @ x - self.b)
        except Singular:
            return np.inf, *best
        return error if error < np.inf else judge(*self.unscaled(*best)), *best
