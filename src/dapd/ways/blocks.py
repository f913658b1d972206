"""Whether blocks pay off: time predicted from the theorems and from measured costs."""

from __future__ import annotations

from typing import Any, NamedTuple

from dapd import theory
from dapd.arguments import TimeUp
from dapd.engines import bind
from dapd.engines.protocol import Runner
from dapd.functions import Function
from dapd.machine.clock import is_over, perf_counter
from dapd.methods import METHODS
from dapd.methods.block import BlockMethod
from dapd.methods.x_sbc import XSBC
from dapd.methods.x_sbc_nonseparable import XSBCNonseparable
from dapd.methods.y_sbc import YSBC
from dapd.operators.base import Operator
from dapd.problem.problem import Problem
from dapd.spectrum.estimate import Spectrum, estimate_range, with_block_norm

REPEATS, SECONDS = 3, 0.05  # repetitions of a measurement, of which the least counts, and seconds of each
MARGIN = 1.2  # ratio of two times up to which they count as equal


class BlockComparison(NamedTuple):
    """What came of comparing a block-coordinate method with the whole one."""

    f: Function
    M: Operator
    winner: type[BlockMethod] | None  # None if blocks do not pay off, or there are none
    parameters: Any
    spectrum: Spectrum | None
    sentence: str  # why (not)

    def fits(self, problem: Problem) -> bool:
        """Whether it holds for this problem, too."""
        return self.f is problem.f and self.M is problem.M

    def runner(self, problem: Problem, start: dict[str, Any], options: dict[str, Any], engine: str) -> Runner:
        """The winner with its engine."""
        assert self.winner is not None
        return bind(self.winner(problem, self.parameters, **start, **options), _engine_of_blocks(engine))


def compare_blocks(problem: Problem, spectrum: Spectrum | None, engine: str, deadline: float) -> BlockComparison:
    """Whether a block-coordinate method is predicted to beat the whole one."""

    def lost(sentence: str = "") -> BlockComparison:
        return BlockComparison(problem.f, problem.M, None, None, spectrum, sentence)

    if engine == "jax":
        return lost("Blocks were left aside: one at a time would leave an accelerator idle." if problem.blocks else "")
    if not _has_blocks(problem) or problem.f.mu == 0 or problem.f.L is None:
        return lost()
    spectrum = spectrum or problem.spectrum
    if spectrum is None:
        spectrum = estimate_range(problem.M, positive=True, deadline=deadline)
    if spectrum.s_min == 0:
        return lost()
    side = theory.favoured(L=problem.f.L, mu=problem.f.mu, s_max=spectrum.s_max, s_min=spectrum.s_min)
    method = METHODS[side.method].from_theory(problem, spectrum=spectrum)
    spectrum = with_block_norm(spectrum, problem.M, problem.blocks or [], deadline=deadline)
    settings = [(side, side.by_theory(problem, spectrum, sharp=True)) for side in _candidates(problem)]
    by_blocks, parameters = min(settings, key=lambda pair: pair[1].Pi)
    rounds = parameters.Pi / len(problem.blocks or [])
    # a round of block iterations reads M no fewer times than an iteration of the whole, so this cannot pay off
    if rounds >= method.parameters.Pi:
        return lost(f"By blocks the theorems ask {rounds / method.parameters.Pi:.2g} times as much.")
    block_method = by_blocks(problem, parameters, seed=0)
    blocks = bind(block_method, _engine_of_blocks(engine))
    if blocks.engine == "python":
        return lost("Blocks were left aside, since Python would be asked for each of them.")
    cost, cost_of_round = _cost(bind(method, engine), 1, deadline), _cost(blocks, block_method.round, deadline)
    gain = method.parameters.Pi * cost / (rounds * cost_of_round)
    compared = (
        f"by the theorems {rounds:.3g} rounds of {block_method.round} block iterations against "
        f"{method.parameters.Pi:.3g} iterations of {method.title}, and a round takes {cost_of_round / cost:.2g} times "
        "as long as one of those"
    )
    if gain < MARGIN:
        return lost(f"{block_method.title} would be {gain:.2g} times as fast: {compared}.")
    sentence = f"Chose {block_method.title}, predicted {gain:.2g} times faster: {compared}."
    return BlockComparison(problem.f, problem.M, by_blocks, parameters, spectrum, sentence)


def _engine_of_blocks(engine: str) -> str:
    return "auto" if engine == "native" else engine


def _has_blocks(problem: Problem) -> bool:
    """Whether a block-coordinate method may run."""
    if problem.blocks is None or len(problem.blocks) == 1 or not problem.phi.is_zero or problem.lower is not None:
        return False
    return problem.M.divides(problem.blocks) and bool(_candidates(problem))


def _candidates(problem: Problem) -> tuple[type[BlockMethod], ...]:
    """The block-coordinate methods for this f: if it is not separable, it must have partial gradients."""
    if problem.parts is not None:
        return XSBC, YSBC
    try:
        XSBCNonseparable.check(problem)
    except TypeError:  # there is no block_grad
        return ()
    return (XSBCNonseparable,)


def _cost(runner: Runner, steps: int, deadline: float) -> float:
    """Seconds that `steps` steps take."""
    if is_over(deadline):
        raise TimeUp
    runner.start()
    runner.advance(1, deadline)  # warms the caches
    times: list[float] = []
    while len(times) < REPEATS or sum(times) < SECONDS:
        began = perf_counter()
        runner.advance(steps, deadline)
        times.append(perf_counter() - began)
    return min(times)
