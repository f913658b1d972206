"""What the stochastic block-coordinate methods share: their blocks, their draws and their loop."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

from dapd.arguments import named, whole
from dapd.arrays import Array
from dapd.methods.base import Method, copy_of
from dapd.methods.oracle import BlockOracle
from dapd.problem.problem import Problem
from dapd.spectrum.estimate import Spectrum, with_block_norm

WORD = 0xFFFFFFFFFFFFFFFF  # arithmetic is modulo 2⁶⁴
GOLDEN = 0x9E3779B97F4A7C15
FIRST = 0xBF58476D1CE4E5B9
SECOND = 0x94D049BB133111EB

# the purpose of a draw within an iteration
DUAL, PRIMAL, COIN = 0, 1, 2
DRAWS = 4  # counters per iteration

REFRESH = 1_000  # rounds of N iterations after which updated products are recomputed, so rounding errors do not add up


class Plan(NamedTuple):
    """What determines the draws and the refreshes of a run, besides the iteration."""

    key: int
    shared: bool  # j = i
    period: int  # iterations between two recomputations of the updated products
    rebase: int  # iterations after which a power that is stored separately is multiplied in, if there is one


def mix(word: int) -> int:
    """The finaliser of SplitMix64."""
    word = (word ^ (word >> 30)) * FIRST & WORD
    word = (word ^ (word >> 27)) * SECOND & WORD
    return word ^ (word >> 31)


def draw(key: int, iteration: int, purpose: int, count: int) -> int:
    """A random block from 0, …, count − 1 (count < 2³²)."""
    word = mix((key + GOLDEN * (DRAWS * iteration + purpose)) & WORD)
    return ((word >> 32) * count) >> 32


def key_of(seed: int) -> int:
    """The key of a seed; mixed, so neighbouring seeds have nothing in common."""
    return mix(seed & WORD)


class Draw(NamedTuple):
    """The random choices of one iteration."""

    i: int  # block of the dual step
    j: int  # block of the primal step
    coin: bool  # whether y is refreshed, probability 1/N


class BlockMethod(Method):
    """A block-coordinate method for Mx = b.

    `run` updates a state in place; `step`, and so iteration by hand, works on a copy. The random choices depend only on
    the seed and the iteration.
    """

    any_phi = False
    separable: ClassVar[bool] = True  # needs f(x) = Σ f_i(x_i)
    refresh: ClassVar[Callable[..., None]]  # the module's refresh(p, o, s), in place
    rebase: ClassVar[Callable[..., None]] = staticmethod(lambda s: None)  # other work between steps, in place

    def __init__(
        self,
        problem: Problem,
        parameters: Any,
        *,
        x0: Any = None,
        y0: Any = None,
        seed: int | None = None,
        shared_sample: bool = False,
    ) -> None:
        self.own_seed = seed is None
        self.seed = secrets.randbits(32) if seed is None else whole("seed", seed, least=0)
        self.shared = bool(shared_sample)
        super().__init__(problem, parameters, x0=x0, y0=y0)

    def _make_oracle(self) -> Any:
        blocks = self.problem.blocks or []
        if len(blocks) != self.parameters.N:
            raise ValueError(f"parameters are for N = {self.parameters.N} blocks, but the problem has {len(blocks)}")
        self.blocks = blocks
        period = REFRESH * len(blocks)
        self.plan = Plan(key_of(self.seed), self.shared, period, self._rebase(period))
        self.functions = self.problem.parts
        return BlockOracle(self.problem, self.functions)

    @classmethod
    def check(cls, problem: Problem) -> None:
        """Require blocks, φ ≡ 0 and, except for one method, a separable f."""
        super().check(problem)
        if problem.blocks is None:
            raise ValueError(
                f"method {cls.name!r} needs blocks; give the Problem blocks=N or a list of slices "
                "(one block is allowed, and makes the method deterministic)"
            )
        if not problem.M.divides(problem.blocks):
            raise ValueError(
                f"method {cls.name!r} needs products with one block of M, but with {problem.M!r} each costs as much as "
                "all of M; give dapd.ColumnBlocks([M1, …, MN]), one map per block"
            )
        if cls.separable and problem.parts is None:
            raise ValueError(
                f"method {cls.name!r} needs f(x) = Σ f_i(x_i) over the blocks, and {type(problem.f).__name__} is not "
                "known to be separable; write it as dapd.Separable([f1, …, fN]), or use "
                "method='x-sbc-dapd-nonseparable', or 'x-dapd' and 'y-dapd' without blocks"
            )

    @classmethod
    def spectrum_of(cls, problem: Problem, given: Spectrum | None, *, deadline: float = math.inf) -> Spectrum:
        """The spectrum of M with the norm of its blocks."""
        found = super().spectrum_of(problem, given, deadline=deadline)
        return with_block_norm(found, problem.M, problem.blocks or [], deadline=deadline)

    @classmethod
    @named
    def from_theory(
        cls,
        problem: Problem,
        *,
        spectrum: Spectrum | None = None,
        x0: Any = None,
        y0: Any = None,
        seed: int | None = None,
        shared_sample: bool = False,
    ) -> BlockMethod:
        cls.check(problem)
        cls.constants_of(problem)
        parameters = cls.by_theory(problem, cls.spectrum_of(problem, spectrum))
        return cls(problem, parameters, x0=x0, y0=y0, seed=seed, shared_sample=shared_sample)

    @classmethod
    def by_theory(cls, problem: Problem, spectrum: Spectrum, **choice: bool) -> Any:
        """The parameters of the theorem, for a spectrum with s_bar_max; sharp=True minimises Pi if possible."""
        return cls.settings(
            **cls.constants_of(problem),
            s_bar_max=spectrum.s_bar_max,
            s_min=spectrum.s_min,
            N=len(problem.blocks or []),
            **choice,
        )

    @property
    def round(self) -> int:
        """N iterations use as much of M as one pass over it."""
        return len(self.blocks)

    def _rebase(self, period: int) -> int:
        """The plan's `rebase`; only one method has something to rebase."""
        return period

    def drawn(self, k: int) -> Draw:
        """The random choices of iteration k."""
        N = len(self.blocks)
        i = draw(self.plan.key, k, DUAL, N)
        j = i if self.plan.shared else draw(self.plan.key, k, PRIMAL, N)
        return Draw(i, j, draw(self.plan.key, k, COIN, N) == 0)

    def run(self, state: Any, steps: int) -> Any:
        """The state after `steps` more iterations, in the same arrays."""
        p, o = self.parameters, self.oracle
        for k in range(state.k, state.k + steps):
            type(self).update(p, o, state, self.drawn(k))
            if (k + 1) % self.plan.rebase == 0 or (k + 1) % self.plan.period == 0:
                type(self).rebase(state)
            if (k + 1) % self.plan.period == 0:
                type(self).refresh(p, o, state)
        return state._replace(k=state.k + steps)

    def step(self, state: Any) -> Any:
        return self.run(copy_of(state), 1)

    @staticmethod
    def point(state: Any) -> tuple[Array, Array]:
        """Copies of x and y, since `run` changes the arrays of the state."""
        return state.x.copy(), state.y.copy()
