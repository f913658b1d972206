"""Restarted first-order methods on a transformed problem: predicted by the iterations that are usual."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

from dapd import theory
from dapd.arrays import Array, on_device, on_host
from dapd.certificate.certify import completed
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
    Equilibrated,
    FactoredCurvature,
    Presolve,
    SortedColumns,
)
from dapd.presolve.transform import Apply
from dapd.problem.problem import Problem
from dapd.spectrum.estimate import estimate_norm, norm_alone
from dapd.ways.base import SOON, Asked, Candidate, Moved, Progress, entries_are_scattered
from dapd.ways.restarts import restarts
from dapd.ways.search import Judge, OnHost, judge_of, on_the_device
from dapd.ways.tracks import Form

DIGITS = 6.0  # iterations, in Π, to a usual accuracy
EPOCHS, EQUATIONS = 5_000, 2_000  # iterations that restarts usually take, and that they take under equations only
VARIED = 1.5  # ratio of the iterations that restarts may take and those that are usual
TRANSFORMS = CLEANING + CONDITIONING
STEPS: dict[str, tuple[Apply, ...]] = {  # of each track, after `CLEANING`
    "anchored": (FactoredCurvature.apply, Equilibrated.apply),
    "guess": (*CONDITIONING, *STACKING),
}


class FirstOrder(Candidate):
    """Restarted r²HPDHG, x-DAPD and y-DAPD."""

    name, title = "restarts", "restarted first-order steps"

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

    def _cleaned(self) -> Presolve:
        """What both tracks begin with: fewer rows and variables."""
        steps = () if is_on_mesh() else CLEANING  # the devices of a mesh divide M as it was given
        stays = not isinstance(judge_of(self.problem, self.engine), OnHost)
        return self._kept("", steps, lambda: Presolve.apply(self.problem, steps, self.search.deadline, on_device=stays))

    def _steps(self, kind: str) -> tuple[Apply, ...]:
        """The transforms of a track."""
        if is_on_mesh():
            return (Equilibrated.apply,) if kind == "anchored" else (*SCALING, BoundsAsRows.apply)
        steps = STEPS[kind]
        if kind == "anchored" and self.engine == "jax":  # points are taken back there only if entries stay entries
            steps = (Equilibrated.apply,)
        # one solve would not make up for the time that sorting takes
        return (SortedColumns.apply, *steps) if self.engine == "jax" and self.search.repeated else steps

    def _transform(self, kind: str) -> Presolve:
        """The whole way to the form of a track."""
        steps = self._steps(kind)

        def made() -> Presolve:
            first = self._cleaned()
            more = Presolve.apply(first.problem, steps, self.search.deadline)
            return Presolve(self.problem, [*first.transforms, *more.transforms])

        return self._kept(kind, steps, made)

    def _kept(self, kind: str, steps: Sequence[Apply], make: Callable[[], Presolve]) -> Presolve:
        """The transform that was kept of the last problem, if only b is new; else a new one, which is kept."""
        kept = self.search.kept.transforms
        tried, known = kept.get(kind, ((), None))
        found = known.again(self.problem) if known is not None and tried == steps else None
        found = found or make()
        kept[kind] = steps, found
        return found

    def _form(self, kind: str) -> Form:
        """The problem of a track, with points of the given problem there and back."""
        search, transform = self.search, self._transform(kind)
        judging, problem = judge_of(search.problem, self.engine, transform, search.accuracy), transform.problem
        spectrum, given = problem.spectrum, search.spectrum
        if given is not None and all(isinstance(step, (SortedColumns, BoundsAsRows)) for step in transform.transforms):
            spectrum = self.problem.stacked_spectrum(given) if kind == "guess" else given
        if spectrum is None:
            device = on_the_device(problem, self.engine)
            estimate = norm_alone if kind == "anchored" else estimate_norm
            spectrum = estimate(problem.M if device is None else device, deadline=search.deadline)
        self.judging[kind] = judging

        def start(x: Array, y: Array) -> tuple[Array, Array]:
            x, y = judging.start(x, y)
            return x, y[: problem.rows]

        def back(x: Array, y: Array) -> tuple[Array, Array]:
            return transform.back(on_host(x), on_host(with_multipliers(problem, x, y)))

        return Form(
            problem=problem,
            judge=lambda x, y: search.judge_typical(
                x, y if judging.completes else with_multipliers(problem, x, y), judging
            ),
            s_max=spectrum.s_max,
            s_min=spectrum.s_min or None,
            start=start,
            back=back,
        )

    def note_rivals(self, steady: float, best: float) -> None:
        """Take longer than usual into account if another candidate is certain."""
        if not self.certain and math.isfinite(steady):
            self.doubt = VARIED

    def start(self) -> Iterator[Progress]:
        """Turns of both tracks on a problem with fewer rows, judged by the certificate of the given one."""
        search, first = self.search, self._cleaned()
        best, self.judging = search.point, dict[str, Judge]()
        before: dict[str, tuple[Array, Array]] = {}  # where turns of each kind ended
        made = [0, 0, 0]
        for turn in restarts(
            lambda: self._form("anchored"),
            lambda: self._form("guess"),
            first.problem,
            start=(best.x, with_multipliers(search.problem, best.x, best.y)),
            start_error=search.typical(best.certificate),
            engine=self.engine,
            deadline=search.deadline,
            allowed=lambda: search.limit - (search.iterations - made[0]),
            learnt=search.learnt,
        ):
            search.iterations += turn.iterations - made[0]
            self.counted += self.per_iteration * (turn.iterations - made[0])
            search.gradients += turn.gradients - made[1]
            search.products += turn.products - made[2]
            if self.spent > SOON and turn.iterations:
                search.slowdown = max(1.0, self.spent / turn.iterations / self.per_iteration)
            made[:] = turn.iterations, turn.gradients, turn.products
            self.used = turn.engine
            kind, problem = turn.kind, turn.form.problem
            last = turn.last
            judging = self.judging["anchored" if kind == "anchored" else "guess"] if kind != "start" else None
            yield Progress(partial(_moved, judging, problem, last, before.get(kind, last)))
            before[kind] = last


def with_multipliers(problem: Problem, x: Array, y: Array) -> Array:
    """Y, and after it the multipliers of bounds that stationarity asks for, as transforms take it."""
    if problem.lower is None or len(y) > problem.rows:
        return y
    if on_device(y):
        from dapd.engines.jax.judge import completed_there  # jax is imported only if it is used

        return completed_there(problem, x, y)
    return np.concatenate(completed(problem, x, y))


def _moved(judging: Judge | None, problem: Problem, now: tuple[Array, Array], before: tuple[Array, Array]) -> Moved:
    """How far a track moved from one of its points to another."""
    if judging is None or now is before:
        return Moved()
    ends = ((x, with_multipliers(problem, x, y)) for x, y in (now, before))
    return Moved(*judging.move(*ends))
