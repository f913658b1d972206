"""What a slow search asks on the side: whether constraints contradict each other, and whether there is a minimum.

The answers are directions, which `ends` then checks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dapd.arguments import consecutive
from dapd.arrays import Array
from dapd.clock import perf_counter
from dapd.model.composed import Stack
from dapd.model.lowered import BALL, CLIP, SHRINK, has_valid_lowering
from dapd.model.phi import Phi
from dapd.model.problem import Problem
from dapd.model.proximal import Box, GroupBall, Interval, Zero
from dapd.model.smooth import Quadratic
from dapd.operators.stacked import RowBlocks
from dapd.second_order import farkas
from dapd.second_order.quadratic import quadratic
from dapd.solving.search import Search
from dapd.solving.ways.base import Moved

SLOW = 4  # pieces of progress that do not halve the error, before anything is asked
AFTER = 0.1  # seconds after which to ask what takes a solve of its own
SHARE, LATER = 0.25, 4  # of the time so far: what an answer may take, and when to ask again if it took longer
WAIT = 0.3  # seconds after which to ask what usually takes much less
ACCURACY = 1e-6  # relative error of the answers

RunSearch = Callable[[Search, tuple[Array, Array]], Array | None]  # runs a search; a Farkas ray if that is how it ends


class Doubts:
    """The questions of one search, each asked until it is answered."""

    def __init__(self, search: Search, start: tuple[Array, Array], solve: RunSearch) -> None:
        self.search, self.start, self.solve = search, start, solve
        self.slow = 0
        self.contradiction_at = WAIT + farkas.seconds(search.problem) / SHARE  # seconds after which to ask
        self.descent_at = np.inf if search.problem.f.mu > 0 else AFTER

    def ask(self) -> Moved | None:
        """After a piece of progress that did not halve the error: a direction that may be a ray."""
        self.slow += 1
        if self.slow < SLOW:
            return None
        elapsed = perf_counter() - self.search.began
        if elapsed >= self.contradiction_at:
            self.contradiction_at = np.inf
            return Moved(None, farkas.contradiction(self.search.problem))
        if elapsed >= self.descent_at:
            self.descent_at = LATER * elapsed
            return Moved(self._descent(), None)
        return None

    def _descent(self) -> Array | None:
        problem = descent_problem(self.search.problem.unstacked)
        if problem is None:
            self.descent_at = np.inf
            return None
        other = self._search(problem)
        self._run(other, (np.zeros(problem.columns), np.zeros(other.problem.rows)))
        if other.done:
            self.descent_at = np.inf
        return other.point.x

    def contradiction(self) -> Array | None:
        """A ray that proves that no x satisfies the constraints of an unbounded problem; None if they can be satisfied.

        It does not depend on f, so f is replaced by ½Σ_j u_j(x − x₀)_j², with which every feasible problem has a
        solution.
        """
        if self.search.point.certificate.primal == 0.0:
            return None
        given = self.search.problem
        units = given.unstacked.units()
        curvature = (units.columns / units.x).astype(given.dtype)
        other = self._search(given.replaced(f=Quadratic(curvature, curvature * self.start[0])))
        return self._run(other, self.start)

    def _search(self, problem: Problem) -> Search:
        search = self.search
        end = perf_counter() + max(AFTER, SHARE * (perf_counter() - search.began))
        allowed = max(1, search.limit - search.iterations)
        return Search(problem.stacked, (ACCURACY, 0.0), allowed, min(search.deadline, end), None)

    def _run(self, other: Search, start: tuple[Array, Array]) -> Array | None:
        ray = self.solve(other, start)
        self.search.iterations += other.iterations
        self.search.gradients += other.gradients
        self.search.products += other.products
        return ray


def descent_problem(problem: Problem) -> Problem | None:
    """The problem whose solution is the steepest ray of x, or zero if there is none; None if f is not quadratic.

    It is min (u/2)‖v‖² + ∇f(0)ᵀv + φ*∞(Mv) over the v along which f does not bend and no bound is met, and φ*∞ is the
    support function of dom φ.
    """
    phi = domain(problem.phi, problem.rows)
    if phi is None or quadratic(problem.f, problem.columns) is None:
        return None
    slope = np.asarray(problem.f.grad(np.zeros(problem.columns)), np.float64)
    size = float(np.max(abs(slope), initial=0.0)) or 1.0
    curved = [one for one in problem.f.curved_maps(problem.columns) if np.any(one.row_norms)]
    M: Any = problem.M
    if curved:
        M = RowBlocks([*([problem.M] if problem.rows else []), *curved])
        phi = Stack([phi, Zero()], sizes=[problem.rows, M.shape[0] - problem.rows]) if problem.rows else Zero()
    bounds = None
    if problem.lower is not None and problem.upper is not None:
        bounds = np.where(np.isinf(problem.lower), -np.inf, 0.0), np.where(np.isinf(problem.upper), np.inf, 0.0)
    f = Quadratic(np.full(problem.columns, size), -slope)
    return Problem(f, M, np.zeros(M.shape[0]), phi, bounds=bounds)


def domain(phi: Phi, rows: int) -> Phi | None:
    """The indicator of dom φ; None if φ is only available in Python."""
    pieces = phi.lowered(rows) if has_valid_lowering(phi, "prox") else None
    if pieces is None:
        return None
    parts: list[Phi] = []
    for piece, length in pieces:
        if piece.code == SHRINK:
            lower, upper = (np.broadcast_to(end, length) for end in (piece.lower, piece.upper))
            lower, upper = np.where(np.isinf(lower), -np.inf, 0.0), np.where(np.isinf(upper), np.inf, 0.0)
            parts.append(Interval.between(lower, upper))
        elif piece.code == CLIP:
            parts.append(Box.between(np.broadcast_to(piece.lower, length), np.broadcast_to(piece.upper, length)))
        elif piece.code == BALL:
            parts.append(GroupBall(piece.lower, consecutive(map(int, piece.sizes))))
        else:
            parts.append(Zero())
    return parts[0] if len(parts) == 1 else Stack(parts, sizes=[length for _, length in pieces])
