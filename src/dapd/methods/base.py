"""What all methods have in common; the mathematics of each method is in its own file."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, ClassVar, get_type_hints

import numpy as np

from dapd.arguments import named, vector
from dapd.arrays import Array, Count, Dual, Primal, on_device
from dapd.methods.oracle import Oracle
from dapd.problem.problem import Problem
from dapd.spectrum.estimate import Spectrum, estimate_norm, estimate_range

METHODS: dict[str, type[Method]] = {}


class Method:
    """A method bound to a problem and its parameters.

    Iterate by hand with `for state in method`; `method.point(state)` is the (x, y) of a state. To add your own method,
    subclass this, set the class attributes below and add the class to `dapd.METHODS` under its name.
    """

    name: ClassVar[str]
    title: ClassVar[str]  # the name in tables and plots
    is_listed: ClassVar[bool] = True  # in METHODS, so a user may name it
    reference: ClassVar[str]
    any_phi: ClassVar[bool] = True  # False: φ ≡ 0 only
    needs_s_min: ClassVar[bool] = True  # its parameters use s_min, so full row rank is required unless φ is linear
    needs_mu: ClassVar[bool] = True  # its parameters use μ, so f must be strongly convex
    is_proximal: ClassVar[bool] = False  # takes the prox of bounds and of what f allows; `o.grad` is that of the rest
    is_restarted: ClassVar[bool] = False  # engines restart it as `methods/anchors.py` says
    record: ClassVar[type]  # the NamedTuple of its parameters
    settings: ClassVar[Callable[..., Any]]  # the parameters of the theorem, from L, mu, s_max and s_min
    first: ClassVar[Callable[..., Any]]  # the module's init(p, o, x, y)
    update: ClassVar[Callable[..., Any]]  # the module's step(p, o, s)

    def __init__(self, problem: Problem, parameters: Any, *, x0: Any = None, y0: Any = None) -> None:
        self.check(problem)
        if not isinstance(parameters, self.record):
            raise TypeError(
                f"parameters must be a {self.record.__module__}.{self.record.__name__} for {self.name}, "
                f"found {type(parameters).__name__}"
            )
        self.problem = problem
        self.parameters: Any = parameters
        self.x0 = problem.start() if x0 is None else self._start("x0", x0, problem.columns)
        self.y0 = self._start("y0", y0, problem.rows)
        self.oracle: Any = self._make_oracle()

    def _make_oracle(self) -> Any:
        """The oracle that `step` gets."""
        return Oracle(self.problem, is_proximal=self.is_proximal)

    def _start(self, name: str, value: Any, size: int) -> Array:
        if value is None:
            return np.zeros(size, self.problem.dtype)
        if on_device(value):
            return value
        return vector(name, value, size).astype(self.problem.dtype)

    @classmethod
    def check(cls, problem: Problem) -> None:
        """Raise ValueError if this method cannot solve the problem, naming methods that can."""
        if problem.lower is not None and not cls.is_proximal:
            raise ValueError(f"method {cls.name!r} takes bounds on x as rows of M; bind it to problem.stacked")
        if not cls.any_phi and not problem.phi.is_zero:
            able = ", ".join(name for name, method in METHODS.items() if method.any_phi)
            raise ValueError(
                f"method {cls.name!r} needs phi = Zero(), found {type(problem.phi).__name__}; methods for any φ: {able}"
            )

    @classmethod
    def constants_of(cls, problem: Problem) -> dict[str, float]:
        """L and mu of f; raise if the theory cannot use them."""
        L, mu = problem.f.L, problem.f.mu
        if not L or (cls.needs_mu and not mu):
            needed, found = ("L > 0", "unknown" if L is None else L) if not L else ("mu > 0 (strong convexity)", mu)
            raise ValueError(
                f"method {cls.name!r} needs {needed}, and for this f = {type(problem.f).__name__} it is {found}. Pass "
                "it if you know it, or use method='auto', which needs neither"
            )
        return {"L": L, "mu": mu}

    @classmethod
    def spectrum_of(cls, problem: Problem, given: Spectrum | None, *, deadline: float = math.inf) -> Spectrum:
        """The spectrum of M that the method needs: given, stored or estimated; raise if the theory cannot use it."""
        given = given or problem.spectrum
        if not cls.needs_s_min:
            return estimate_norm(problem.M, deadline=deadline) if given is None else given
        spectrum = given or estimate_range(problem.M, positive=problem.phi.is_linear, deadline=deadline)
        if spectrum.s_min == 0:
            raise ValueError(
                f"M ({problem.rows} × {problem.columns}) does not have full row rank (its least singular value is 0, "
                f"or too close to 0 relative to s_max = {spectrum.s_max:.3g}), and with φ = "
                f"{type(problem.phi).__name__} the theory needs it. Remove dependent rows, use method='auto', use "
                "method='papc' (which converges without a rate), or pass spectrum=dapd.Spectrum(s_max, s_min) with "
                "your own s_min"
            )
        return spectrum

    @classmethod
    @named
    def from_theory(
        cls, problem: Problem, *, spectrum: Spectrum | None = None, x0: Any = None, y0: Any = None
    ) -> Method:
        """Bind the method to a problem with the parameters of its theorem."""
        cls.check(problem)
        constants = cls.constants_of(problem)
        spectrum = cls.spectrum_of(problem, spectrum)
        return cls(problem, cls.settings(**constants, s_max=spectrum.s_max, s_min=spectrum.s_min), x0=x0, y0=y0)

    @property
    def iterations_per_step(self) -> int:
        """Pairs of products with M and Mᵀ in one `step`."""
        return 1

    @property
    def round(self) -> int:
        """The number of iterations that use as much of M as one pass over it."""
        return 1

    def init(self) -> Any:
        """The first state."""
        return type(self).first(self.parameters, self.oracle, self.x0, self.y0)

    def step(self, state: Any) -> Any:
        """The next state; `state` is not changed."""
        return type(self).update(self.parameters, self.oracle, state)

    @staticmethod
    def point(state: Any) -> tuple[Array, Array]:
        """The (x, y) of a state."""
        return state.x, state.y

    def run(self, state: Any, steps: int) -> Any:
        """The state after `steps` more steps, in Python."""
        for _ in range(steps):
            state = self.step(state)
        return state

    def __iter__(self) -> Iterator[Any]:
        state = self.init()
        while True:
            yield state
            state = self.step(state)


def copy_of(state: Any) -> Any:
    """A copy of a state and of its arrays."""
    return type(state)(*(part.copy() if isinstance(part, np.ndarray) else part for part in state))


def spaces(state: Any) -> list[Any]:
    """For each field of a state, the type that it is given: `Primal`, `Dual` or `Count`; None if it is another one."""
    kind: Any = type(state)
    return _spaces(kind)


@cache
def _spaces(state: Any) -> list[Any]:
    hints = get_type_hints(state, include_extras=True)
    return [found if (found := hints.get(field)) in (Primal, Dual, Count) else None for field in state._fields]
