"""The native engine: a problem's lowered form and a method's program, handed to the C++ core."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from dapd.arrays import Array
from dapd.engines.native.layout import calls_of, coupling, evaluated_in_python, function
from dapd.engines.native.maps import FEW
from dapd.engines.native.threads import ThreadChoice, available
from dapd.engines.native.tracer import NotLinear, Program, Symbol, Trace, trace
from dapd.engines.protocol import NotNative, check_same
from dapd.machine.blas import SMALL, single_blas
from dapd.machine.clock import is_over, perf_counter, pulse, seconds_left
from dapd.machine.core import MISSING, load
from dapd.methods.base import Method, spaces
from dapd.problem.problem import Problem

WORTH_THREAD = 1 << 15  # multiplications of a step that make another thread worth its meetings


class StepCounts:
    """Counts, as a plain oracle keeps them."""

    block_products = 0

    def __init__(self) -> None:
        self.gradients = self.products = 0


class NativeRunner:
    """A method's program on registers of the core."""

    engine = "native"

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
        f = function(problem, most_stored)
        runner = core.Runner32 if self.dtype == np.float32 else core.Runner64
        self.core = runner(tuple(self.program), M, phi, f, problem.rows, problem.columns)
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
        dual = fields_of(first, method.problem)
        self.program = program or program_of(method, type(first), dual)
        if program is None and not method.problem.b.any():  # a long vector that need not be read
            self.program = self.program.without(self.program.fields)
        self.method, self.dual, self.kind = method, dual, type(first)
        self.point_fields = self._point_fields()
        return first

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
        for k, part in enumerate(state):
            self.core.set(k, np.ascontiguousarray(part, self.dtype))

    def advance(self, steps: int, deadline: float) -> int:
        """Take `steps` steps, or fewer if the deadline comes first; return how many."""
        done, patience = 0, pulse()
        with single_blas(SMALL if self.uses_blas else 0):
            while done < steps:
                threads, some = (self.fixed, steps - done) if self.fixed else self.choice.next(steps - done)
                began = perf_counter()
                try:
                    taken = self.core.run(some, threads, min(seconds_left(deadline), patience), self.calls)
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

    def point(self) -> tuple[Array, Array]:
        """Copies of x and y."""
        if self.point_fields is None:
            x, y = self.method.point(self.state)
            return x, y
        return self._get(self.point_fields[0]), self._get(self.point_fields[1])

    def _get(self, field: int) -> Array:
        vector = np.empty(self.method.problem.rows if self.dual[field] else self.method.problem.columns, self.dtype)
        self.core.get(field, vector)
        return vector

    def _point_fields(self) -> tuple[int, int] | None:
        """The fields that are x and y, if the method's point is two of them."""
        places = {Symbol(Trace(), dual): k for k, dual in enumerate(self.dual)}
        try:
            x, y = self.method.point(self.kind(*places))
            return places[x], places[y]
        except Exception:  # then it computes something, and is asked again with the state
            return None


def fields_of(state: Any, problem: Problem) -> list[bool]:
    """For each field of a state whether it is as long as y: as it is typed, or else by its length."""
    known = []
    for field, value, typed in zip(type(state)._fields, state, spaces(state), strict=True):
        if typed is not None:
            known.append(typed)
        elif problem.rows != problem.columns and np.shape(value) in ((problem.rows,), (problem.columns,)):
            known.append(np.shape(value) == (problem.rows,))
        else:
            raise NotNative(f"the field {field!r} of its State is typed neither Primal nor Dual")
    return known


def program_of(method: Method, state: type, dual: list[bool]) -> Program:
    """The method's step as a program."""
    try:
        return trace(type(method).update, method.parameters, state, dual)
    except NotLinear as reason:
        raise NotNative(f"the step of {method.name} is not a short list of linear operations: {reason}") from reason
