"""The native engine: a problem's lowered form and a method's program, handed to the C++ core."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from dapd.arrays import Array, Count, Dual
from dapd.engines.epochs import End, Epochs
from dapd.engines.native.layout import calls_of, coupling, evaluated_in_python, function, primal_prox
from dapd.engines.native.maps import FEW
from dapd.engines.native.threads import ThreadChoice, available
from dapd.engines.native.tracer import NotLinear, Program, Symbol, Template, Trace, trace
from dapd.engines.protocol import NotNative, check_same
from dapd.machine.blas import SMALL, single_blas
from dapd.machine.clock import is_over, perf_counter, pulse, seconds_left
from dapd.machine.core import MISSING, load
from dapd.methods.anchors import Epoch, Measured, rule
from dapd.methods.base import Method, spaces
from dapd.problem.problem import Problem
from dapd.theory import R2Hpdhg

WORTH_THREAD = 1 << 15  # multiplications of a step that make another thread worth its meetings


class StepCounts:
    """Counts, as a plain oracle keeps them."""

    block_products = 0

    def __init__(self) -> None:
        self.gradients = self.products = 0


class NativeRunner:
    """A method's program on registers of the core."""

    engine = "native"
    patience = 1

    def __init__(
        self, method: Method, *, threads: int | None = None, core: ModuleType | None = None, most_stored: int = FEW
    ) -> None:
        core = core or load()
        if core is None:
            raise NotNative(MISSING)
        problem = method.problem
        self.dtype = problem.dtype
        self.programs: dict[Any, Program] = {}  # of methods and parameters to which restarts may come back
        first = self._take(method)
        most = available() if threads is None else threads
        M, phi = coupling(problem, most, most_stored)
        f = function(problem, method.oracle.f, most_stored)
        prox = primal_prox(problem) if method.is_proximal else (None,) * 4
        runner = core.Runner32 if self.dtype == np.float32 else core.Runner64
        self.core = runner(tuple(self.program), M, phi, f, prox, problem.rows, problem.columns)
        self.calls = calls_of(phi, f)
        self.reason = evaluated_in_python(self.calls)
        self.uses_blas = M[0] == "kronecker"
        if threads is None:
            most = max(1, min(most, int(self.core.work) // WORTH_THREAD))
        self.choice = ThreadChoice(most)
        self.fixed = threads
        self.counts = StepCounts()
        self._begin(first)

    def _take(self, method: Method, program: Program | None = None) -> Any:
        """Make the program of a method if it is not given; return its first state."""
        if type(method).step is not Method.step or type(method).run is not Method.run:
            raise NotNative(f"{type(method).__name__} overrides step or run, which only Python calls")
        first = method.init()
        self.method, self.dual, self.kind = method, fields_of(first, method.problem), type(first)
        self.epochs = Epochs(method) if method.is_restarted else None
        if self.epochs is None:
            self.program = program or self._program(method.parameters)
        else:  # the programs of its epochs differ in t and s
            p = self.epochs.parameters
            self.template = Template(lambda t, s: self._program(p._replace(t=t, s=s)), p.t, p.s)
            self.program = self.template.base
        self.point_fields = self._point_fields()
        return first

    def _program(self, parameters: Any) -> Program:
        program = program_of(self.method, parameters, self.kind, self.dual)
        if self.method.problem.b.any():
            return program
        return program.without(program.fields)  # a long vector that need not be read

    def _begin(self, first: Any) -> None:
        """Set the registers of b and of the state, and count what that took."""
        oracle = self.method.oracle
        self.core.set(self.program.fields, self.method.problem.b.astype(self.dtype))
        self.state = first
        self.counts.products += oracle.products
        self.counts.gradients += oracle.gradients
        oracle.reset()

    def rebind(self, method: Method) -> None:
        """Run this method from its first state, keeping M, φ, f and the counts, to which that state's are added."""
        check_same(self.method.problem, method.problem)
        method.oracle.reset()
        asked = type(method), method.parameters, bool(method.problem.b.any())
        first = self._take(method, self.programs.get(asked))
        if not method.is_restarted:  # whose parameters hardly ever return
            self.programs[asked] = self.program
        self.core.use(tuple(self.program))
        self._begin(first)

    def start(self) -> None:
        """Set the state to the method's first, and count what that takes."""
        self.method.oracle.reset()
        self.counts = StepCounts()
        self._begin(self.method.init())

    @property
    def state(self) -> Any:
        """A copy of the state."""
        return self.kind(*(self._get(k) for k in range(len(self.dual))))

    @state.setter
    def state(self, state: Any) -> None:
        vectors = 0
        for part, of_y in zip(state, self.dual, strict=True):
            if of_y is None:
                self.core.number = int(part)
            else:
                self.core.set(vectors, np.ascontiguousarray(part, self.dtype))
                vectors += 1

    def advance(self, steps: int, deadline: float) -> int:
        """Take `steps` steps, or fewer if the deadline comes first; return how many."""
        done, patience = 0, pulse()
        run = self.core.run if self.epochs is None else self._run_epoch
        with single_blas(SMALL if self.uses_blas else 0):
            while done < steps:
                threads, some = (self.fixed, steps - done) if self.fixed else self.choice.next(steps - done)
                began = perf_counter()
                try:
                    taken = run(some, threads, min(seconds_left(deadline), patience), self.calls)
                finally:  # true after a Ctrl-C too
                    self.counts.gradients += self.core.taken * self.program.gradients
                    self.counts.products += 2 * self.core.taken * self.program.dual_steps
                self.choice.learn(threads, taken, perf_counter() - began)
                done += taken
                if taken < some and is_over(deadline):
                    break
                if taken == 0:  # a step that is not done in time is not taken at all
                    patience *= 2
        return done

    def _run_epoch(self, steps: int, threads: int, seconds: float, calls: tuple[Any, ...]) -> int:
        """Steps until an epoch is over, and the beginning of the next one."""
        kind: Any = type(self.method)
        epochs = self.epochs
        assert epochs is not None
        epoch, places = epochs.epoch, self._places()
        numbers = rule(epoch, epochs.parameters)
        before = epoch.first, epoch.last, epoch.allowed / epoch.step, epoch.next
        first, last, least, following, *moves, end = self.core.run_epoch(
            steps, threads, seconds, calls, numbers, before, places
        )
        k = float(self.core.number)
        epoch = epoch._replace(k=k, next=following, first=first, last=last, allowed=epoch.step * least)
        epochs.go_on(epoch, Measured(*moves), End(int(end)))
        if end:
            self._begin_anew(kind.at_plain if end == End.over else kind.at_anchor)
        return int(self.core.taken)

    def _places(self) -> Any:
        """The registers of z, T(z) and the anchor, for x, Mᵀy and y."""
        at = {name: self._number_of(k) for k, name in enumerate(self.kind._fields)}
        return [[at[name], at[f"{name}_plain"], at[f"{name}_0"]] for name in ("x", "Mty", "y")]

    def _begin_anew(self, anew: Callable[[Any], Any]) -> None:
        """Let the state be another one made of its own vectors, and the steps those of the new epoch."""
        assert self.epochs is not None
        registers = range(len(self.dual))
        sources = zip(anew(self.kind(*registers)), registers, self.dual, strict=True)
        self.core.copy([(source, to) for source, to, of_y in sources if of_y is not None and source != to])
        self.core.number = 0
        self._use(self.epochs.parameters)

    def _use(self, p: R2Hpdhg) -> None:
        """Go on with the steps of another epoch."""
        self.program = self.template.at(p.t, p.s)
        self.core.use(tuple(self.program))

    @property
    def epoch(self) -> Epoch:
        """The current epoch, of a restarted method."""
        assert self.epochs is not None
        return self.epochs.epoch._replace(k=float(self.core.number))

    @epoch.setter
    def epoch(self, epoch: Epoch) -> None:
        assert self.epochs is not None
        self.epochs.epoch = epoch
        self._use(self.epochs.parameters)

    def completed(self) -> tuple[Array, Array]:
        """The y of the point, and the x that minimises with it; of a proximal method that takes all of f, curved."""
        Mty, y = (self._get(self.kind._fields.index(name)) for name in ("Mty_plain", "y_plain"))
        return self.method.oracle.primal_prox.minimiser(Mty), y

    def point(self) -> tuple[Array, Array]:
        """Copies of x and y."""
        if self.point_fields is None:
            x, y = self.method.point(self.state)
            return x, y
        return self._get(self.point_fields[0]), self._get(self.point_fields[1])

    def _number_of(self, field: int) -> int:
        """The register of a field."""
        return sum(of_y is not None for of_y in self.dual[:field])

    def _get(self, field: int) -> Any:
        if self.dual[field] is None:
            return float(self.core.number)
        vector = np.empty(self.method.problem.rows if self.dual[field] else self.method.problem.columns, self.dtype)
        self.core.get(self._number_of(field), vector)
        return vector

    def _point_fields(self) -> tuple[int, int] | None:
        """The fields that are x and y, if the method's point is two of them."""
        places = {Symbol(Trace(), bool(dual)): k for k, dual in enumerate(self.dual)}
        try:
            x, y = self.method.point(self.kind(*places))
            return places[x], places[y]
        except Exception:  # then it computes something, and is asked again with the state
            return None


def fields_of(state: Any, problem: Problem) -> list[bool | None]:
    """For each field of a state whether it is as long as y: as it is typed, or else by its length; None for a count."""
    known: list[bool | None] = []
    for field, value, typed in zip(type(state)._fields, state, spaces(state), strict=True):
        if typed is not None:
            known.append(None if typed == Count else typed == Dual)
        elif problem.rows != problem.columns and np.shape(value) in ((problem.rows,), (problem.columns,)):
            known.append(np.shape(value) == (problem.rows,))
        else:
            raise NotNative(f"the field {field!r} of its State is typed neither Primal nor Dual")
    return known


def program_of(method: Method, parameters: Any, state: type, dual: list[bool | None]) -> Program:
    """The method's step as a program."""
    has_gradient = method.oracle.f is not None
    try:
        return trace(type(method).update, parameters, state, dual, has_gradient=has_gradient)
    except NotLinear as reason:
        raise NotNative(f"the step of {method.name} is not a short list of linear operations: {reason}") from reason
