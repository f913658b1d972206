"""Restarted first-order methods on a transformed problem: predicted by the iterations that are usual."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from dapd import theory
from dapd.arrays import Array
from dapd.engines import is_on_mesh
from dapd.engines.protocol import Engine
from dapd.machine.core import load
from dapd.machine.rates import FACTORISATION, FIRST_ORDER
from dapd.presolve import (
    CLEANING,
    CONDITIONING,
    SCALING,
    STACKING,
    BoundsAsRows,
    ExchangedRoles,
    Presolve,
    SortedColumns,
)
from dapd.presolve.transform import Apply
from dapd.problem.problem import Problem
from dapd.spectrum.estimate import estimate_norm
from dapd.ways.base import SOON, Asked, Candidate, Moved, Progress, entries_are_scattered
from dapd.ways.restarts import restarts
from dapd.ways.search import Judge, judge_of, on_the_device

DIGITS = 6.0  # iterations, in Π, to a usual accuracy
EPOCHS, EQUATIONS = 5_000, 2_000  # iterations that restarts usually take, and that they take under equations only
VARIED = 1.5  # ratio of the iterations that restarts may take and those that are usual
TRANSFORMS = CLEANING + CONDITIONING


class FirstOrder(Candidate):
    """Restarted x-DAPD and y-DAPD."""

    name, title = "restarts", "restarted DAPD"

    @classmethod
    def why_not(cls, asked: Asked) -> str:
        return ""

    def __init__(self, asked: Asked) -> None:
        super().__init__(asked)
        self.engine = engine = asked.engine
        self.used: Engine | None = None
        problem = self.problem
        native = engine != "python" and load() is not None  # which calls Python for what it does not know
        rows, bounds = problem.multipliers, problem.multipliers - problem.rows  # its steps take bounds as rows
        products = 2 * ((problem.M.work or problem.rows * problem.columns) + bounds) + problem.f.work
        per_product = FIRST_ORDER.sparse_product if entries_are_scattered(problem.M) else FIRST_ORDER.dense_product
        once = FIRST_ORDER.iteration + per_product * products + FIRST_ORDER.vector_entry * (rows + problem.columns)
        self.per_iteration = once * (1 if native else FIRST_ORDER.in_python)  # seconds per iteration
        is_linear = problem.phi.is_linear and (problem.lower is None or np.array_equal(*problem.bounds))
        iterations: float = EQUATIONS if is_linear else EPOCHS
        self.seconds = FIRST_ORDER.set_up + iterations * self.per_iteration
        self.why = f"an iteration takes about {1e3 * self.per_iteration:.2g} ms"
        self.certain = False  # whether a theorem says how many
        f, of_equations = problem.f, is_linear and problem.lower is None
        if of_equations and isinstance(problem.M.stored_matrix, np.ndarray) and f.mu > 0 and f.L is not None:
            # rows are made orthonormal, and then the theorem of x-DAPD says how many iterations there will be
            iterations = DIGITS * theory.x_dapd(L=f.L, mu=f.mu, s_max=1.0, s_min=1.0).Pi
            changed = 4.0 * min(problem.M.shape) ** 2 * max(problem.M.shape) / FACTORISATION.dense
            seconds = FIRST_ORDER.set_up + iterations * self.per_iteration + changed
            if seconds < self.seconds:
                self.certain, self.seconds = True, seconds
                self.why = f"with orthonormal rows the theorem asks for about {iterations:,.0f} iterations"

    @property
    def ran(self) -> Engine:
        """The engine of the first-order steps."""
        return self.used or Engine("python", "no step was taken")

    def estimate(self) -> float:
        """Iterations, times what one takes."""
        return self.seconds

    @property
    def work(self) -> float:
        """Multiplications with M and with f's matrices."""
        return self.problem.M.work + self.problem.f.work

    def _transform(self) -> Presolve:
        """Scaled rows and orthonormal equations: those of the last problem, if only b is new."""
        problem, kept = self.problem, self.search.kept
        steps = self._steps()
        tried, known = kept.transform or ((), None)
        found = known.again(problem) if known is not None and tried == steps else None
        if found is None:
            found = Presolve.apply(problem, steps, self.search.deadline)
        kept.transform = steps, found
        return found

    def _steps(self) -> Sequence[Apply]:
        """The transforms to try."""
        if is_on_mesh():  # its devices divide M as it was given
            return (*SCALING, BoundsAsRows.apply)
        if self.engine != "jax":  # points of a device are taken back there only if entries stay entries
            return (*TRANSFORMS, ExchangedRoles.apply, *STACKING)
        # one solve would not make up for the time that sorting takes
        return (*TRANSFORMS, *((SortedColumns.apply,) if self.search.repeated else ()), *STACKING)

    def note_rivals(self, steady: float, best: float) -> None:
        """Take longer than usual into account if another candidate is certain."""
        if not self.certain and math.isfinite(steady):
            self.doubt = VARIED

    def start(self) -> Iterator[Progress]:
        """Epochs on a problem with scaled rows, judged by the certificate of the given one."""
        search = self.search
        transform = self._transform()
        problem = transform.problem
        spectrum, given = problem.spectrum, search.spectrum
        if given is not None and all(isinstance(step, (SortedColumns, BoundsAsRows)) for step in transform.transforms):
            spectrum = self.problem.stacked_spectrum(given)  # the order of columns makes no difference
        if spectrum is None:
            device = on_the_device(problem, self.engine)
            spectrum = estimate_norm(problem.M if device is None else device, deadline=search.deadline)
        best, judging = search.point, judge_of(search.problem, self.engine, transform, search.accuracy)

        before: dict[str, tuple[Array, Array]] = {}  # where epochs of each kind ended
        made = [0, 0, 0]
        for epoch in restarts(
            problem,
            lambda x, y: search.judge_typical(x, y, judging),
            start_error=search.typical(best.certificate) if judging.returns_exactly else None,
            s_max=spectrum.s_max,
            s_min=spectrum.s_min or None,
            start=judging.start(best.x, best.y),
            engine=self.engine,
            deadline=search.deadline,
            allowed=lambda: search.limit - (search.iterations - made[0]),
            typical=lambda: _typical(search.problem, transform),
        ):
            search.iterations += epoch.iterations - made[0]
            self.counted += self.per_iteration * (epoch.iterations - made[0])
            search.gradients += epoch.gradients - made[1]
            search.products += epoch.products - made[2]
            if self.spent > SOON and epoch.iterations:
                search.slowdown = max(1.0, self.spent / epoch.iterations / self.per_iteration)
            made[:] = epoch.iterations, epoch.gradients, epoch.products
            self.used = epoch.engine
            yield Progress(partial(_moved, judging, epoch.last, before.get(epoch.kind, epoch.last)))
            before[epoch.kind] = epoch.last


def _typical(problem: Problem, transform: Presolve) -> tuple[Array, Array]:
    """What is typical of x and y by the data as they were given, in the variables of the transformed problem."""
    units = problem.units()
    of_bounds = np.zeros(0) if problem.lower is None else units.columns
    return transform.start(units.x, np.concatenate([units.y, of_bounds]))


def _moved(judging: Judge, now: tuple[Array, Array], before: tuple[Array, Array]) -> Moved:
    return Moved() if now is before else Moved(*judging.move(now, before))
