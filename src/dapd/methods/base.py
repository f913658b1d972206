"""What every method offers to people and to the loop; the mathematics is in each method's own file."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, ClassVar

import numpy as np

from dapd.arguments import named, vector
from dapd.arrays import Array
from dapd.engines import check_engine
from dapd.engines.compiled_engine import couple
from dapd.engines.compiled_engine import engine as compiled_engine
from dapd.engines.numpy_engine import Oracle
from dapd.model.problem import Problem
from dapd.spectrum.estimate import Spectrum, estimate_norm, estimate_range


class Method:
    """A method bound to a problem and its parameters.

    Iterate by hand with `for state in method`; `method.point(state)` is the (x, y) that it stands for.
    """

    name: ClassVar[str]
    title: ClassVar[str]  # for people
    reference: ClassVar[str]
    any_phi: ClassVar[bool] = True  # False: φ ≡ 0 only
    needs_s_min: ClassVar[bool] = True  # its parameters use s_min, so that φ ≢ 0 asks for full row rank
    record: ClassVar[type]  # the NamedTuple of its parameters
    settings: ClassVar[Callable[..., Any]]  # the parameters by theory, from L, mu, s_max and s_min
    first: ClassVar[Callable[..., Any]]  # the module's init(p, o, x, y)
    update: ClassVar[Callable[..., Any]]  # the module's step(p, o, s)

    def __init__(
        self, problem: Problem, parameters: Any, *, x0: Any = None, y0: Any = None, engine: str = "numpy"
    ) -> None:
        self.check(problem)
        check_engine(engine)
        if not isinstance(parameters, self.record):
            raise TypeError(
                f"parameters must be a dapd.theory.{self.record.__name__} for {self.name}, "
                f"found {type(parameters).__name__}"
            )
        self.problem = problem
        self.parameters: Any = parameters
        self.x0 = self._start("x0", x0, problem.columns)
        self.y0 = self._start("y0", y0, problem.rows)
        self.engine = engine
        self.oracle: Any = self._ask(engine)
        self.packed: Any = self._pack() if engine == "numpy" else None
        self._compile()

    def _ask(self, engine: str) -> Any:
        """The oracle."""
        return Oracle(self.problem, couple if engine == "numpy" else None)

    def _compile(self) -> None:
        """Compiling is set-up, not solving."""
        if self.compiled:
            self.advance(copy_of(self.init()), 0)
        elif self.oracle.crew is not None:
            self.oracle.crew.dual_step(self.x0, self.y0, 1.0)
        self.oracle.reset()

    def _pack(self) -> Any:
        """What compiled chunks read; None where M, f, φ or the method is known to Python alone."""
        from dapd.methods import METHODS  # which lists this class

        ours = METHODS.get(self.name) is type(self) and type(self).__module__.startswith("dapd.")
        return compiled_engine(self.problem) if ours else None

    @property
    def compiled(self) -> bool:
        """Whether chunks run in compiled code."""
        return self.packed is not None

    def _start(self, name: str, value: Any, size: int) -> Array:
        if value is None:
            return np.zeros(size, self.problem.dtype)
        return vector(name, value, size).astype(self.problem.dtype)

    @classmethod
    def check(cls, problem: Problem) -> None:
        """Raise an error that says what this method can't have, and which can."""
        if not cls.any_phi and not problem.phi.is_zero:
            from dapd.methods import METHODS  # which lists this class

            able = ", ".join(name for name, method in METHODS.items() if method.any_phi)
            raise ValueError(
                f"method {cls.name!r} needs phi = Zero(), found {type(problem.phi).__name__}; methods for any φ: {able}"
            )

    @classmethod
    def spectrum_of(cls, problem: Problem, given: Spectrum | None, *, deadline: float = math.inf) -> Spectrum:
        """What the method must know of M: as given, known or estimated; with an error if the theory can't use it."""
        given = given or problem.spectrum
        if not cls.needs_s_min:
            return estimate_norm(problem.M, deadline=deadline) if given is None else given
        spectrum = given or estimate_range(problem.M, positive=problem.phi.is_zero, deadline=deadline)
        if spectrum.s_min == 0:
            raise ValueError(
                f"M ({problem.rows} × {problem.columns}) does not have full row rank (its least singular value is 0, "
                f"or can't be told from 0 beside s_max = {spectrum.s_max:.3g}), and with φ = "
                f"{type(problem.phi).__name__} the theory needs it. Remove dependent rows, use method='papc' (which "
                "converges without a rate), or pass spectrum=dapd.Spectrum(s_max, s_min) with an s_min of your choice"
            )
        return spectrum

    @classmethod
    @named
    def from_theory(
        cls,
        problem: Problem,
        *,
        spectrum: Spectrum | None = None,
        x0: Any = None,
        y0: Any = None,
        engine: str = "numpy",
    ) -> Method:
        """Bind the method to a problem with the parameters of its theorem."""
        cls.check(problem)
        spectrum = cls.spectrum_of(problem, spectrum)
        constants = {"L": problem.f.L, "mu": problem.f.mu, "s_max": spectrum.s_max, "s_min": spectrum.s_min}
        parameters = cls.settings(**constants)
        return cls(problem, parameters, x0=x0, y0=y0, engine=engine)

    @property
    def iterations_per_step(self) -> int:
        """Pairs of products with M and Mᵀ in one `step`."""
        return 1

    @property
    def round(self) -> int:
        """Iterations that touch as much of M as one pass over it."""
        return 1

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as its making: threads and compiled records are made anew."""
        making = {"x0": self.x0, "y0": self.y0, "engine": self.engine, **self._options()}
        return partial(type(self), **making), (self.problem, self.parameters)

    def _options(self) -> dict[str, Any]:
        """What else it was made with."""
        return {}

    def init(self) -> Any:
        """The first state."""
        return type(self).first(self.parameters, self.oracle, self.x0, self.y0)

    def step(self, state: Any) -> Any:
        """The next state."""
        return type(self).update(self.parameters, self.oracle, state)

    @staticmethod
    def point(state: Any) -> tuple[Array, Array]:
        """The (x, y) that a state stands for."""
        return state.x, state.y

    def run(self, state: Any, steps: int) -> Any:
        """The state `steps` later."""
        return self.advance(copy_of(state), steps) if self.compiled else self.run_plain(state, steps)

    def advance(self, state: Any, steps: int) -> Any:
        """The same, and compiled code works in the arrays of `state`, no two of which may share memory."""
        if not self.compiled:
            return self.run_plain(state, steps)
        self.packed.run(self.parameters, state, steps, self.oracle.deadline)
        self.oracle.gradients += steps
        self.oracle.products += 2 * steps * self.iterations_per_step
        return state

    def run_plain(self, state: Any, steps: int) -> Any:
        """The same in Python, whatever the problem."""
        for _ in range(steps):
            state = self.step(state)
        return state

    def __iter__(self) -> Iterator[Any]:
        state = self.init()
        while True:
            yield state
            state = self.step(state)


def copy_of(state: Any) -> Any:
    """A state with arrays of its own."""
    return type(state)(*(part.copy() if isinstance(part, np.ndarray) else part for part in state))
