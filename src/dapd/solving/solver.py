"""A problem that is solved again and again while its numbers change."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from dapd.arguments import bounds_of, named, near_miss, vector
from dapd.arrays import Array
from dapd.kinds.base import Phi, as_phi
from dapd.machine.clock import perf_counter
from dapd.operators.convert import as_operator
from dapd.problem.problem import Problem
from dapd.solving.result import Result
from dapd.solving.settings import OPTIONS, Settings
from dapd.solving.solve import Solve
from dapd.ways.causes import Status
from dapd.ways.kept import Kept, Learnt

NO_START = (Status.infeasible, Status.unbounded, Status.diverged)  # how a solve ends whose point is no good start


class Solver:
    """Solve a problem, change its numbers, solve it again from the last answer.

    Spectrum, scaling, orderings and factorisations are kept as far as the changes allow it. The arrays of the caller
    are never changed, and neither is the given problem: `problem` is the current one.

    Parameters
    ----------
    problem : Problem
    **options
        Those of `dapd.solve`. x0 and y0 are where the first solve starts.
    """

    def __init__(self, problem: Problem, **options: Any) -> None:
        self._check_names(options)
        self.options = options
        self.settings = Settings(**options).fitting(problem)
        self.problem = problem
        self.last: tuple[Array, Array, Array] | None = None  # x, y, z of the last answer
        self.kept = Kept()

    @staticmethod
    def _check_names(options: dict[str, Any]) -> None:
        for name in options:
            if name not in OPTIONS:
                raise TypeError(f"Solver has no option {name!r}{near_miss(name, OPTIONS)}")

    @named
    def update(
        self, *, b: Any = None, c: Any = None, bounds: Any = None, phi: Phi | None = None, M: Any = None, H: Any = None
    ) -> None:
        """Replace some of the numbers; if one of them does not fit, an error says why, and nothing is changed.

        Parameters
        ----------
        b : vector, optional
        c, H : optional
            Of f = ½xᵀHx − cᵀx. A new H of the same pattern keeps the ordering; its eigenvalues are computed.
        bounds : pair (lower, upper), optional
            As in `Problem`.
        phi : Phi, optional
            Of the same kind as the current one, with other bounds, weights or radii.
        M : array, sparse matrix or operator of the same shape, optional
            The same pattern keeps the ordering.
        """
        problem = self.problem
        f = None if c is None and H is None else problem.f.replaced(c=c, H=H)
        operator = None if M is None else as_operator(M, empty=True)
        if operator is not None and operator.shape != problem.M.shape:
            raise ValueError(f"M has shape {operator.shape}, expected {problem.M.shape}")
        free = np.full(problem.columns, -np.inf), np.full(problem.columns, np.inf)
        self.problem = problem.replaced(
            f=f,
            M=operator,
            b=None if b is None else vector("b", b, problem.rows),
            phi=None if phi is None else self._phi(phi),
            limits=None if bounds is None else bounds_of(bounds, problem.columns) or free,
        )

    def _phi(self, phi: Phi) -> Phi:
        phi = as_phi(phi).sized(self.problem.rows)
        found, expected = phi.kind, self.problem.phi.kind
        if found != expected:
            raise ValueError(f"phi must be of the same kind as before, {expected}, found {found}; or make a new Solver")
        return phi

    def solve(self, **overrides: Any) -> Result:
        """Solve from the last answer on; options given here count for this solve only."""
        began = perf_counter()
        settings = self.settings
        if overrides:
            self._check_names(overrides)
            settings = Settings(**{**self.options, **overrides}).fitting(self.problem)
        z0 = None
        if self.last is not None and not overrides.keys() & {"x0", "y0"}:
            x, y, z0 = self.last
            settings = replace(settings, x0=x, y0=y)
        dtype, start = self.problem.dtype, (settings.x0, settings.y0)  # an update may have changed the precision
        x0, y0 = (None if v is None else v.astype(dtype, copy=False) for v in start)
        settings = replace(settings, x0=x0, y0=y0)
        result = Solve(self.problem, settings, began, z0=z0, kept=self.kept).run()
        if result.status not in NO_START and np.isfinite(result.certificate.error):
            self.last = result.x.copy(), result.y.copy(), result.z.copy()
        else:
            self.kept.learnt = Learnt()
        return result
