"""Count rounds: how many an iteration of a method spends, and how many a method needs to reach an accuracy."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from dapd import METHODS, Method, Operator
from dapd.arguments import named, near_miss, number
from dapd.arrays import Array
from dapd.methods.block import BlockMethod
from dapd.paper.lower_bounds.instances import HardProblem, block
from dapd.paper.lower_bounds.saddle import ConvexConcave

Instance = HardProblem | ConvexConcave

OwnMethod = Callable[[Any], Iterable[tuple[Array, Array]]]  # from an instance to iterates (x, y), the start first
AnyMethod = str | OwnMethod
WATCHED = 100  # products with all of M over which the mean is taken, or as many by blocks
SEED = 0  # for the random methods, so a report can be repeated
SPACING = 1.02  # ratio of two recorded iterations of a curve


class RoundCount:
    """The number of rounds so far."""

    rounds = 0


class CountedMap(Operator):
    """A matrix-free map; each product counts one round per block of columns."""

    def __init__(self, inner: Operator, blocks: list[slice], tally: RoundCount) -> None:
        self.inner, self.blocks, self.tally = inner, blocks, tally
        self.shape, self.dtype = inner.shape, inner.dtype

    def forward(self, x: Array) -> Array:
        self.tally.rounds += len(self.blocks)
        return self.inner.forward(x)

    def adjoint(self, y: Array) -> Array:
        self.tally.rounds += len(self.blocks)
        return self.inner.adjoint(y)

    def divides(self, blocks: list[slice]) -> bool:
        return self.inner.divides(blocks)

    def columns(self, block: slice) -> Operator:
        """The columns; their products add to the same count."""
        start, stop, _ = block.indices(self.shape[1])
        parts = [slice(max(start, own.start) - start, min(stop, own.stop) - start) for own in self.blocks]
        return CountedMap(self.inner.columns(block), [p for p in parts if p.start < p.stop], self.tally)


def counted(instance: Instance) -> tuple[Instance, RoundCount]:
    """The same instance with a coupling that counts its products, and the count."""
    tally, twin = RoundCount(), copy.copy(instance)
    blocks = [slice(0, instance.M.shape[1])]
    if isinstance(instance, HardProblem) and instance.blocks is not None:
        blocks = instance.blocks
    twin.M = CountedMap(instance.M, blocks, tally)
    return twin, tally


class Walk(NamedTuple):
    """A method that runs on an instance."""

    label: str
    points: Iterator[tuple[Array, Array]]
    iterations_per_step: int
    spent: Callable[[], int]  # rounds up to the latest point
    gradients: Callable[[], float]  # up to the latest point; a gradient of one block is 1/N, nan if not known


class Run(NamedTuple):
    """How a method did on an instance."""

    method: str
    iterations: int | None  # to the accuracy; None if it was not reached
    rounds: float  # spent on these iterations
    times: float  # rounds divided by what the bound needs: "times the optimum"
    at: Array  # rounds of the curve's points
    error: Array  # ‖y − y*‖/‖y*‖ there
    ended: bool  # the method stopped by itself before it reached the accuracy
    gradients: float = math.nan  # spent on these iterations; nan for a function, whose gradients are not counted


def walk(method: AnyMethod, instance: Instance) -> Walk:
    """Start a method, given by name or as a function that yields iterates, on an instance."""
    if isinstance(method, str):
        bound = _bind(method, instance)
        oracle, N = bound.oracle, instance.N
        points = (bound.point(state) for state in bound)
        per_gradient = N if isinstance(bound, BlockMethod) else 1
        return Walk(
            bound.name,
            points,
            bound.iterations_per_step,
            lambda: N * oracle.products + oracle.block_products,
            lambda: oracle.gradients / per_gradient,
        )
    if not callable(method):
        raise TypeError(f"method must be a name or a function that yields (x, y), found {method!r}")
    label = getattr(method, "__name__", repr(method))
    twin, tally = counted(instance)
    return Walk(label, _checked(label, method(twin), twin), 1, lambda: tally.rounds, lambda: math.nan)


def _known(name: str) -> type[Method]:
    if name not in METHODS:
        raise ValueError(f"unknown method {name!r}{near_miss(name, METHODS)}")
    return METHODS[name]


def _bind(name: str, instance: Instance) -> Any:
    kind = _known(name)
    if not isinstance(instance, HardProblem):
        raise TypeError(f"method {name!r} solves problems with b; for {instance!r} use extragradient")
    drawn: dict[str, Any] = {"seed": SEED} if issubclass(kind, BlockMethod) else {}
    return kind.from_theory(instance, spectrum=instance.spectrum, **drawn)


def _checked(label: str, points: Any, instance: Instance) -> Iterator[tuple[Array, Array]]:
    """The points that a user's function yields; the first one is checked."""
    rows, columns = instance.M.shape
    wanted = f"{label} must yield pairs (x, y) of {columns} and {rows} entries, the start first"
    if not isinstance(points, Iterable):
        raise TypeError(f"{wanted}; it returned {type(points).__name__}")
    points = iter(points)
    for first in points:
        if not isinstance(first, (tuple, list)) or len(first) != 2:
            raise TypeError(f"{wanted}; found {type(first).__name__} of shape {np.shape(first)}")
        if [np.shape(part) for part in first] != [(columns,), (rows,)]:
            raise ValueError(f"{wanted}; found shapes {np.shape(first[0])} and {np.shape(first[1])}")
        yield first[0], first[1]
        yield from points
        return
    raise ValueError(f"{wanted}; it yielded none")


@named
def rounds(method: AnyMethod, instance: Instance | None = None) -> float:
    """How many rounds of the linear-span model one iteration spends: its products with M and with Mᵀ.

    Gradients are free, which can only favour a method. A round of `block` touches one block, so a product with all of M
    counts N rounds there. For a random method this is the expectation if it is one of `dapd.METHODS`, and the mean over
    some iterations if it is a function.

    Parameters
    ----------
    method : str or function
        A name of `dapd.METHODS`, or a function that takes the instance and yields (x, y), first the start (zero), then
        once per iteration. It must use the products of `instance.M`: `forward`, `adjoint`, `dual_step` or `columns`.
    instance : HardProblem or ConvexConcave, optional
        The instance to count on; by default a small `affine`, or a `block` of four for block-coordinate methods.
    """
    if not isinstance(method, str):
        instance = instance or block(L=10.0, mu=1.0, s_max=3.0, s_min=1.0, n=64, N=1)
        return _mean(walk(method, instance), instance.N)
    by_blocks = issubclass(_known(method), BlockMethod)
    N = instance.N if instance is not None else 4 if by_blocks else 1
    # the cost of an iteration depends only on the number of blocks
    instance = block(L=10.0, mu=1.0, s_max=3.0, s_min=1.0, n=8 * N, N=N)
    return _expected(_bind(method, instance)) if by_blocks else _mean(walk(method, instance), N)


def _expected(method: BlockMethod) -> float:
    """The mean over the coin, which has probability 1/N; the cost does not depend on the blocks drawn."""
    N, spent, before = method.round, dict[bool, int](), 0
    for k, _ in enumerate(method):
        if k > 0:
            spent[method.drawn(k - 1).coin] = method.oracle.block_products - before
        before = method.oracle.block_products
        if len(spent) == min(N, 2):
            break
    return spent[True] / N + (1 - 1 / N) * spent.get(False, 0)


def _mean(walking: Walk, N: int) -> float:
    """The mean over enough iterations to make WATCHED products with all of M."""
    spent: list[int] = []
    for _ in itertools.islice(walking.points, WATCHED * N + 1):
        spent.append(walking.spent())
        if spent[-1] - spent[0] >= WATCHED * N:
            break
    steps = len(spent) - 1
    if steps < 1:
        raise ValueError(f"{walking.label} ended at its start; it must make at least one iteration")
    if spent[-1] == spent[0]:
        raise ValueError(
            f"{walking.label} made no product with instance.M in {steps} iterations, so nothing can be "
            "counted; multiply with instance.M.forward and .adjoint between two yields"
        )
    return (spent[-1] - spent[0]) / (steps * walking.iterations_per_step)


def needed(instance: Instance, eps: float) -> int:
    """The number of rounds that the bound requires to reach eps·‖y*‖; raise ValueError if it is none."""
    start = float(np.linalg.norm(instance.y_star))
    k = instance.iterations_needed(number("eps", eps, above=0.0) * start)
    if k == 0:
        raise ValueError(
            f"eps must be < {instance.bound(0) / start:.3g} on this instance, found {eps:g}; "
            "the bound requires no round to reach it"
        )
    return k


def gradients_needed(instance: Instance, eps: float) -> int | None:
    """The number of gradients, about √κ·log(1/eps)/2, that the classical bound requires; None if f has no μ.

    Nesterov's: ‖x − x*‖ ≥ ((√κ − 1)/(√κ + 1))^k·‖x*‖ after k gradients of the worst f with this κ = L/μ, without M. So
    no method that is good for every f needs fewer. The f of the instance itself is easier.
    """
    if not isinstance(instance, HardProblem) or not instance.f.L:
        return None
    root = math.sqrt(instance.f.L / instance.f.mu)
    return 1 if root == 1 else max(1, math.ceil(math.log(1 / eps) / math.log((root + 1) / (root - 1))))


def distinct(labels: Sequence[str]) -> list[str]:
    """The labels, numbered if they are not distinct."""
    return [
        f"{label} ({labels[: i + 1].count(label)})" if labels.count(label) > 1 else label
        for i, label in enumerate(labels)
    ]


def race(method: AnyMethod, instance: Instance, eps: float, limit: int) -> Run:
    """Run a method from zero until ‖y − y*‖ ≤ eps·‖y*‖, for at most `limit` iterations."""
    optimum = needed(instance, eps)
    walking = walk(method, instance)
    whole = float(np.linalg.norm(instance.y_star))
    stride = walking.iterations_per_step
    curve: list[tuple[int, float]] = []
    here = (0, math.inf)
    iteration, recorded, over = 0, 0, False
    for iteration, (_, y) in zip(itertools.count(0, stride), walking.points, strict=False):
        error = float(np.linalg.norm(y - instance.y_star)) / whole
        over = not eps < error < math.inf or iteration + stride > limit
        here = walking.spent(), error
        if not curve or iteration >= SPACING * recorded:
            curve.append(here)
            recorded = iteration
        if over:
            break
    if curve[-1] != here:
        curve.append(here)
    spent, error = here
    reached = error <= eps
    if reached and spent == 0:
        raise ValueError(
            f"{walking.label} reached eps without a product with instance.M, so nothing can be counted; "
            "multiply with instance.M.forward and .adjoint"
        )
    at, errors = np.array(curve).T
    return Run(
        method=walking.label,
        iterations=iteration if reached else None,
        rounds=spent if reached else math.nan,
        times=spent / optimum if reached else math.nan,
        at=at,
        error=errors,
        ended=not over,
        gradients=walking.gradients() if reached else math.nan,
    )
