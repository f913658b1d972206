"""What restarts share: one runner, the best point, the work done, and how good an epoch was."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np

from dapd import theory
from dapd.arrays import Array, on_device, on_host
from dapd.certificate.sums import greatest
from dapd.engines import bind
from dapd.engines.protocol import Engine, RestartedRunner
from dapd.machine.clock import is_over
from dapd.methods.base import Method
from dapd.methods.guesses import Guess, epoch_length
from dapd.methods.proximal import Oracles, Parameters, step_of
from dapd.methods.x_dapd import XDAPD
from dapd.methods.y_dapd import YDAPD
from dapd.problem import ask
from dapd.problem.problem import Problem
from dapd.problem.units import SPREAD

ENDLESS = 1e100  # entries of a point from which its method has diverged, since they will soon be too large to square
PROBES = 3  # gradients for a first estimate of an unknown L
SHORTER = 16  # most times that a probe which leaves the domain of f is made shorter
LEAP = 8.0  # factor by which a probe is made shorter, and by which an L that was too small is raised
BLOWN_UP = 1e3  # growth of the error in an epoch from which an estimated L counts as too small
STRAIGHT = 0.05  # relative difference of two consecutive moves up to which an entry goes straight on
HARDLY = 1e-4  # part of the length of a point that is added to that of a move
ROUNDINGS = 64.0  # roundings of an entry up to which it did not move
FAST = 0.1  # part of the fastest straight move from which another entry takes part in a leap


class Judged(NamedTuple):
    """A point and its error."""

    x: Array
    y: Array
    error: float


class EpochProgress(NamedTuple):
    """What an epoch achieved."""

    reduction: float  # logarithm of the factor by which the error fell
    steps: int

    @property
    def rate(self) -> float:
        """Reduction per iteration."""
        return self.reduction / max(1, self.steps)


@functools.lru_cache(256)
def favoured_side(L: float, mu: float, s_max: float, s_min: float) -> theory.Side:
    """`theory.favoured`, kept: an epoch asks several times, and guesses return."""
    return theory.favoured(L=L, mu=mu, s_max=s_max, s_min=s_min)


class Bench:
    """Runs epochs of any method of one problem and keeps the best point."""

    def __init__(
        self,
        problem: Problem,
        judge: Callable[[Array, Array], float],
        s_max: float,
        start: tuple[Array, Array],
        engine: str,
        deadline: float,
        tol: float,
        allowed: Callable[[], float],
        start_error: float | None = None,
        typical: Callable[[], tuple[Array, Array]] | None = None,
    ) -> None:
        self.problem, self._judge, self.engine, self.deadline, self.tol = problem, judge, engine, deadline, tol
        self.allowed = allowed  # iterations in all
        self.s_max = s_max or 1.0  # of a zero M, any bound is true
        self.runner: RestartedRunner | None = None
        self.iterations = 0
        self.unseen = 0  # of them, since the last look
        self.asked = [0, 0]  # gradients and products beside those of the methods
        x, y = (part if on_device(part) else np.asarray(part, problem.dtype) for part in start)
        error = self.judge(x, y) if start_error is None else start_error
        self.best = self.last = Judged(x, y, error)  # of all points, and the last one
        self.L_known = problem.f.L is not None
        self.mu = float(problem.f.mu)
        self.L = max(self.mu, self._probe(x)) if problem.f.L is None else float(problem.f.L)
        self.unit = self.L or self._unit(typical)

    def judge(self, x: Array, y: Array) -> float:
        """The error of a point; inf if it is not a number, or far away."""
        with np.errstate(all="ignore"):
            # who judges a point of a device calls it inf if it is not finite, since to ask first would be one more wait
            near = on_device(x) or all(greatest(on_host(part)) < ENDLESS for part in (x, y))  # false for NaN
            error = float(self._judge(x, y)) if near else math.inf
        return math.inf if math.isnan(error) else error

    @property
    def over(self) -> bool:
        """Whether the best point is good enough, or a limit is reached."""
        late = is_over(self.deadline) or self.iterations >= self.allowed()
        return late or self.best.error <= self.tol

    @property
    def ran(self) -> Engine:
        """The engine of the runner, with the reason why no faster one runs."""
        if self.runner is None:
            return Engine("python", "nothing had to be run yet")
        return Engine(self.runner.engine, self.runner.reason)

    def counts(self) -> tuple[int, int]:
        """Gradients and products so far."""
        made = (0, 0) if self.runner is None else (self.runner.counts.gradients, self.runner.counts.products)
        return made[0] + self.asked[0], made[1] + self.asked[1]

    def gradient(self, x: Array) -> Array:
        """∇f(x), counted."""
        self.asked[0] += 1
        return ask.gradient(self.problem.f, on_host(x))

    def _probe(self, x: Array) -> float:
        """A lower bound on L: how much ∇f changes along a few directions, each the last change."""
        x = on_host(x)
        direction = np.random.default_rng(0).standard_normal(x.size)
        before, found = self.gradient(x), 0.0
        for _ in range(PROBES):
            size = float(np.linalg.norm(direction))
            if not 0 < size < math.inf:
                break
            direction = direction * ((1 + float(np.linalg.norm(x))) / size)
            change = self.gradient(x + direction) - before
            for _ in range(SHORTER):  # f may not be defined so far away
                if np.isfinite(change).all():
                    break
                direction = direction / LEAP
                change = self.gradient(x + direction) - before
            else:
                break
            found = max(found, float(np.linalg.norm(change) / np.linalg.norm(direction)))
            direction = change
        return found

    def _unit(self, typical: Callable[[], tuple[Array, Array]] | None) -> float:
        """The curvature at which a linear f moves x about as far as b is from zero, or as is typical by other data."""
        problem = self.problem
        of_residual, of_y = problem.phi.ends(problem.rows)
        slope = float(np.linalg.norm(self.gradient(np.zeros(problem.columns))) or np.linalg.norm(of_y))
        far = float(np.linalg.norm(problem.b) or np.linalg.norm(of_residual))
        x, y = problem.units()[:2] if typical is None else typical()
        usual_slope, usually_far = (self.s_max * float(np.linalg.norm(on_host(v))) for v in (y, x))
        slope = usual_slope if slope < SPREAD * usual_slope else slope  # less may be rounding
        far = usually_far if far < SPREAD * usually_far else far
        return self.s_max * (slope or 1.0) / (far or 1.0)

    def learn_L(self, L: float) -> None:
        """Replace an estimate of L that turned out too small."""
        self.L = self.unit = L

    def _favoured(self, guess: Guess) -> theory.Side:
        """The better side; of a linear f, every L is a bound, so μ̂ serves as one."""
        mu, s_min = self.constants(guess)
        return favoured_side(self.L or mu, mu, self.s_max, s_min)

    def steps(self, guess: Guess) -> int:
        """How long an epoch of the guess lasts."""
        best = self._favoured(guess)
        return int(epoch_length(min(best.x.Pi, best.y.Pi)))

    def of_guess(self, guess: Guess, x: Array, y: Array) -> Method:
        """x- or y-DAPD, whichever the guess favours."""
        best = self._favoured(guess)
        if best.method == "x-dapd":
            return XDAPD(self.problem, best.x, x0=x, y0=y)
        return YDAPD(self.problem, best.y, x0=x, y0=y)

    def constants(self, guess: Guess) -> tuple[float, float]:
        """μ̂ and ŝ_min."""
        return max(self.mu, self.unit * math.exp(guess.mu)), self.s_max * math.exp(guess.s)

    def take(self, method: Method) -> None:
        """Make the runner run this method from its start."""
        if self.runner is None:
            made = cast(RestartedRunner, bind(method, self.engine))  # no block-coordinate method comes here
            made.start()
            self.runner = made
        else:
            self.runner.rebind(method)

    def runs(self, method: Method | None) -> bool:
        """Whether the runner still has this method's state."""
        return method is not None and self.runner is not None and self.runner.method is method

    def advance(self, steps: int) -> Judged:
        """Take steps with the current method and judge its point."""
        self._step(steps)
        return self.look()

    def _step(self, steps: int) -> None:
        assert self.runner is not None
        with np.errstate(all="ignore"):
            most = max(0, self.allowed() - self.iterations)
            taken = self.runner.advance(int(min(steps, most)), self.deadline)
        self.iterations, self.unseen = self.iterations + taken, self.unseen + taken

    def look(self) -> Judged:
        """Judge the point of the current method."""
        assert self.runner is not None
        with np.errstate(all="ignore"):
            x, y = self.runner.point()
        self.unseen = 0
        return self.keep(x, y)

    def keep(self, x: Array, y: Array) -> Judged:
        """Judge a point, and keep it if it is the best so far."""
        self.last = found = Judged(x, y, self.judge(x, y))
        if found.error < self.best.error:
            self.best = found
        return found

    def run(self, method: Method, state: Any, steps: int) -> Any:
        """Take steps with a method from its state, or from its start if that is None; return the new state."""
        if state is None or not self.runs(method):
            self.take(method)
            assert self.runner is not None
            if state is not None:
                self.runner.state = state
        self._step(steps)
        assert self.runner is not None
        return self.runner.state

    def resume(self, method: Method, state: Any, steps: int) -> tuple[Judged, Any]:
        """As `run`, and judge the point."""
        state = self.run(method, state, steps)
        return self.look(), state

    def L_was_too_small(self, before: Judged, after: Judged) -> bool:
        """Whether an epoch shows that; then L is made larger."""
        if self.L_known:
            return False
        if not math.isfinite(after.error) or after.error > BLOWN_UP * before.error:
            self.learn_L(LEAP * self.unit)
            return True
        change = np.linalg.norm(self.gradient(after.x) - self.gradient(before.x))
        seen = float(change / (np.linalg.norm(on_host(after.x) - on_host(before.x)) or 1.0))
        if seen > self.L:
            self.learn_L(2 * seen)
            return True
        return False


def straight_moves(x1: Array, x2: Array, x3: Array, y1: Array, y2: Array, y3: Array) -> tuple[Array, Array, Any]:
    """Moves of x and y, of their fastest entries that go straight through three points; and whether there are any."""
    (dx, fastest_x), (dy, fastest_y) = _straight(x1, x2, x3), _straight(y1, y2, y3)
    return dx, dy, fastest_x + fastest_y > 0


def _straight(first: Array, second: Array, third: Array) -> tuple[Array, Any]:
    before, after = second - first, third - second
    straight = after * (abs(after - before) <= STRAIGHT * abs(after))
    speeds = abs(straight)
    fastest = speeds.max(initial=0.0)
    return straight * (speeds >= FAST * fastest), fastest


def lengths(x: Array, x_before: Array, y: Array, y_before: Array) -> tuple[Any, Any]:
    """How far x and y moved, and a small part of how long they are, without entries that moved only by rounding."""
    return _length(x, x_before), _length(y, y_before)


def _length(after: Array, before: Array) -> Any:
    move = after - before
    moves = abs(move) > ROUNDINGS * np.finfo(after.dtype).eps * abs(after)
    return ((moves * move) ** 2).sum() ** 0.5 + HARDLY * ((moves * after) ** 2).sum() ** 0.5


def moved(x: Array, y: Array, dx: Array, dy: Array, steps: float) -> tuple[Array, Array]:
    """The point after so many moves."""
    return x + steps * dx, y + steps * dy


class Accuracy(NamedTuple):
    """How far a point is from the proximal-point step, in the norm ‖(x, y)‖² = μ̂‖x‖² + δ‖y‖²."""

    y: Array  # the y that belongs to x: it maximises the problem of the epoch
    error: float  # a bound on the distance of (x, y) from the exact step
    length: float  # the distance of (x, y) from the centre
    rounding: float  # below this, the error is that of the arithmetic


def accuracy(problem: Problem, p: Parameters, x: Array, x_k: Array, y_k: Array) -> Accuracy:
    """Measure an approximate step from (x_k, y_k) by what is left of its optimality condition.

    With y = prox_{φ/δ}(y_k + (Mx − b)/δ), the one condition that does not hold exactly is v = ∇f(x) + Mᵀy + μ̂(x − x_k)
    = 0. The operator of the epoch is strongly monotone with constant 1 in the norm above, so the distance is at most
    ‖v‖/√μ̂.
    """
    if on_device(x):
        from dapd.engines.jax.judge import proximal_step_there as step_to  # jax is imported only if it is used
    else:
        step_to, x_k, y_k = _step_here, on_host(x_k), on_host(y_k)
    y, squares = step_to(problem, p.mu, p.delta, x, x_k, y_k)
    left, terms, moved_x, moved_y = map(float, squares)
    unit = 100 * float(np.finfo(problem.dtype).eps) / math.sqrt(p.mu)
    length = math.sqrt(p.mu * moved_x + p.delta * moved_y)
    return Accuracy(y, math.sqrt(left) / math.sqrt(p.mu), length, unit * math.sqrt(terms))


def _step_here(problem: Problem, *step: Any) -> tuple[Array, list[Any]]:
    asked = Oracles(partial(ask.gradient, problem.f), partial(ask.prox, problem.phi), problem.M, problem.b)
    return step_of(asked, *step)
