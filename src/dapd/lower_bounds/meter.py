"""Rounds, counted: what an iteration of a method spends, and how many it takes to an accuracy."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from dapd.arguments import named, near_miss, number
from dapd.arrays import Array
from dapd.lower_bounds.counting import Instance, counted
from dapd.lower_bounds.instances import HardProblem, block
from dapd.methods import METHODS, Method
from dapd.methods.block import BlockMethod

Runner = Callable[[Any], Iterable[tuple[Array, Array]]]  # from an instance, its iterates (x, y), the start among them
AnyMethod = str | Runner

WATCHED = 100  # products with all of M that the meter watches, or as much by blocks
SEED = 0  # for the methods that draw, so that a report can be repeated
SPACING = 1.02  # between two recorded points of a curve


class Walk(NamedTuple):
    """A method on its way through an instance."""

    label: str
    points: Iterator[tuple[Array, Array]]
    iterations_per_step: int
    spent: Callable[[], int]  # rounds up to the latest point


class Run(NamedTuple):
    """How a method did on an instance."""

    method: str
    iterations: int | None  # to the accuracy; None where it was not reached
    rounds: float  # that were spent on them
    times: float  # rounds over the rounds that the bound asks for: "times the optimum"
    at: Array  # rounds of the curve's points
    error: Array  # ‖y − y*‖/‖y*‖ there
    ended: bool  # the method stopped of itself before it was there


def walk(method: AnyMethod, instance: Instance) -> Walk:
    """Start a method, given by name or as a function that yields iterates, on an instance."""
    if isinstance(method, str):
        bound = _bind(method, instance)
        oracle, N = bound.oracle, instance.N
        points = (bound.point(state) for state in bound)
        return Walk(bound.name, points, bound.iterations_per_step, lambda: N * oracle.products + oracle.block_products)
    if not callable(method):
        raise TypeError(f"method must be a name or a function that yields (x, y), found {method!r}")
    label = getattr(method, "__name__", repr(method))
    twin, tally = counted(instance)
    return Walk(label, _checked(label, method(twin), twin), 1, lambda: tally.rounds)


def _known(name: str) -> type[Method]:
    if name not in METHODS:
        raise ValueError(f"unknown method {name!r}{near_miss(name, METHODS)}")
    return METHODS[name]


def _bind(name: str, instance: Instance) -> Any:
    kind = _known(name)
    if not isinstance(instance, HardProblem):
        raise TypeError(f"method {name!r} solves problems with b; for {instance!r} give extragradient")
    drawn: dict[str, Any] = {"seed": SEED} if issubclass(kind, BlockMethod) else {}
    return kind.from_theory(instance, spectrum=instance.spectrum, **drawn)


def _checked(label: str, points: Any, instance: Instance) -> Iterator[tuple[Array, Array]]:
    """The points of a user's function, once the first is what all should be."""
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
    raise ValueError(f"{wanted}; it ended without any")


@named
def rounds(method: AnyMethod, instance: Instance | None = None) -> float:
    """How many rounds of the linear-span model one iteration spends: its products with M and with Mᵀ.

    Gradients are free, which can only flatter a method. A round of `block` touches one block, so that a product with
    all of M spends N there. Where a method draws, this is the expectation for one of `dapd.METHODS`, and for a
    function the mean of some iterations.

    Parameters
    ----------
    method : str or function
        A name of `dapd.METHODS`, or a function that takes the instance and yields (x, y), first the start (zero), then
        once an iteration. Its products must be those of `instance.M`: `forward`, `adjoint`, `dual_step` or `columns`.
    instance : HardProblem or ConvexConcave, optional
        Where to count; a small `affine` one where left out, for block-coordinate methods a `block` of four.
    """
    if not isinstance(method, str):
        small = block(L=10.0, mu=1.0, s_max=3.0, s_min=1.0, n=64, N=1)
        instance = small if instance is None else instance
        return _mean(walk(method, instance), instance.N)
    by_blocks = issubclass(_known(method), BlockMethod)
    N = instance.N if instance is not None else 4 if by_blocks else 1
    # what an iteration spends depends on the number of blocks alone
    instance = block(L=10.0, mu=1.0, s_max=3.0, s_min=1.0, n=8 * N, N=N)
    return _expected(_bind(method, instance)) if by_blocks else _mean(walk(method, instance), N)


def _expected(method: BlockMethod) -> float:
    """The mean over the coin, of probability 1/N: an iteration spends as much whichever blocks it draws."""
    N, spent, before = method.round, dict[bool, int](), 0
    for k, _ in enumerate(method):
        if k > 0:
            spent[method.drawn(k - 1).coin] = method.oracle.block_products - before
        before = method.oracle.block_products
        if len(spent) == min(N, 2):
            break
    return spent[True] / N + (1 - 1 / N) * spent.get(False, 0)


def _mean(on_the_way: Walk, N: int) -> float:
    """The mean over as many iterations as it takes."""
    spent: list[int] = []
    for _ in itertools.islice(on_the_way.points, WATCHED * N + 1):
        spent.append(on_the_way.spent())
        if spent[-1] - spent[0] >= WATCHED * N:
            break
    steps = len(spent) - 1
    if steps < 1:
        raise ValueError(f"{on_the_way.label} ended at its start; rounds need an iteration to watch")
    if spent[-1] == spent[0]:
        raise ValueError(
            f"{on_the_way.label} made no product with instance.M in {steps} iterations, so that nothing can be "
            "counted; multiply with instance.M.forward and .adjoint, between one yield and the next"
        )
    return (spent[-1] - spent[0]) / (steps * on_the_way.iterations_per_step)


def needed(instance: Instance, eps: float) -> int:
    """Rounds that the bound asks for to eps·‖y*‖, at least one."""
    start = float(np.linalg.norm(instance.y_star))
    k = instance.iterations_needed(number("eps", eps, above=0.0) * start)
    if k == 0:
        raise ValueError(
            f"eps must be < {instance.bound(0) / start:.3g} on this instance, found {eps:g}; "
            "to reach that the bound asks for no round"
        )
    return k


def distinct(labels: Sequence[str]) -> list[str]:
    """The labels, numbered where they are not distinct."""
    return [
        f"{label} ({labels[: i + 1].count(label)})" if labels.count(label) > 1 else label
        for i, label in enumerate(labels)
    ]


def race(method: AnyMethod, instance: Instance, eps: float, limit: int) -> Run:
    """Run a method from zero until ‖y − y*‖ ≤ eps·‖y*‖, for at most `limit` iterations."""
    optimum = needed(instance, eps)
    on_the_way = walk(method, instance)
    whole = float(np.linalg.norm(instance.y_star))
    a_step = on_the_way.iterations_per_step
    curve: list[tuple[int, float]] = []
    here = (0, math.inf)
    iteration, recorded, over = 0, 0, False
    for iteration, (_, y) in zip(itertools.count(0, a_step), on_the_way.points, strict=False):
        error = float(np.linalg.norm(y - instance.y_star)) / whole
        over = not eps < error < math.inf or iteration + a_step > limit
        here = on_the_way.spent(), error
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
            f"{on_the_way.label} arrived without a product with instance.M, so that nothing can be counted; "
            "multiply with instance.M.forward and .adjoint"
        )
    at, errors = np.array(curve).T
    return Run(
        method=on_the_way.label,
        iterations=iteration if reached else None,
        rounds=spent if reached else math.nan,
        times=spent / optimum if reached else math.nan,
        at=at,
        error=errors,
        ended=not over,
    )
