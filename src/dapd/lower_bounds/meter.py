"""Rounds, measured: what an iteration of a method spends, and how many it takes to an accuracy."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from dapd.arguments import named, near_miss
from dapd.arrays import Array
from dapd.lower_bounds.instances import HardProblem, block
from dapd.lower_bounds.saddle import ConvexConcave
from dapd.methods import METHODS
from dapd.methods.block import BlockMethod
from dapd.solve import solve

Instance = HardProblem | ConvexConcave
Runner = Callable[[Any], Iterable[tuple[Array, Array]]]  # from an instance, its iterates (x, y), the start among them
AnyMethod = str | Runner

WATCHED = 16  # iterations that the meter watches; more would let the newest coordinate underflow
SEED = 0  # for the methods that draw, so that a report can be repeated
SPACING = 1.02  # between two recorded points of a curve


class Walk(NamedTuple):
    """A method on its way through an instance."""

    label: str
    points: Iterator[tuple[Array, Array]]
    iterations_per_step: int


class Run(NamedTuple):
    """How a method did on an instance."""

    method: str
    iterations: int | None  # to the accuracy; None where a limit came first
    rounds: float  # those iterations in rounds of the linear-span model
    times: float  # rounds over the rounds that the bound asks for: "times the optimum"
    at: Array  # rounds of the curve's points
    error: Array  # ‖y − y*‖/‖y*‖ there


def walk(method: AnyMethod, instance: Instance) -> Walk:
    """Start a method, given by name or as a function that yields iterates, on an instance."""
    if isinstance(method, str):
        if not isinstance(instance, HardProblem):
            raise TypeError(f"method {method!r} solves problems with b; for {instance!r} give extragradient")
        kind = METHODS[_known(method)]
        drawn: dict[str, Any] = {"seed": SEED} if issubclass(kind, BlockMethod) else {}
        bound = kind.from_theory(instance, spectrum=instance.spectrum, **drawn)
        return Walk(bound.name, (bound.point(state) for state in bound), bound.iterations_per_step)
    if not callable(method):
        raise TypeError(f"method must be a name or a function that yields (x, y), found {method!r}")
    return Walk(getattr(method, "__name__", repr(method)), iter(method(instance)), 1)


@named
def rounds(method: AnyMethod, instance: Instance | None = None) -> float:
    """How many rounds of the linear-span model one iteration spends.

    For a method of this package, the products that it counts, each at most one round. For a function, what the zeros
    of y show on a hard instance: two rounds move the chain by one coordinate. Gradients are free, which can only
    flatter a method. A round of `block` touches one block, so that an iteration with all of M
    spends 2N there.

    Parameters
    ----------
    method : str or function
        A name of `dapd.METHODS`, or a function that takes the instance and yields (x, y), first the start (zero), then
        once an iteration.
    instance : HardProblem or ConvexConcave, optional
        Where to measure; a small `affine` one where left out.
    """
    if isinstance(method, str):
        return _counted(_known(method), 1 if instance is None else instance.N)
    # with ŝ = 1 products with M are exact, and so are the zeros, also where multiply and add are fused
    instance = block(L=10.0, mu=1.0, s_max=math.sqrt(5), s_min=1.0, n=64, N=1) if instance is None else instance
    return _observed(method, instance)


def _known(name: str) -> str:
    if name not in METHODS:
        raise ValueError(f"unknown method {name!r}{near_miss(name, METHODS)}")
    return name


def _counted(name: str, N: int) -> float:
    """The products of an iteration, those with all of M counted once for each block."""
    problem = block(L=10.0, mu=1.0, s_max=3.0, s_min=1.0, n=8 * N, N=N)
    result = solve(problem, name, tol=0.0, max_iterations=WATCHED * N, spectrum=problem.spectrum, seed=SEED)
    return (N * result.products + result.block_products) / result.iterations


def _observed(method: Runner, instance: Instance) -> float:
    """Twice the coordinates that an iteration reveals."""
    on_the_way = walk(method, instance)
    seen = [instance.revealed(y) for _, y in itertools.islice(on_the_way.points, 1, WATCHED + 2)]
    seen = list(itertools.takewhile(lambda count: count < instance.chain_length, seen))
    if len(seen) < 2:
        raise ValueError(
            f"instance has {instance.chain_length} coordinates, too few to watch two iterations of "
            f"{on_the_way.label}; make it larger"
        )
    return 2 * (seen[-1] - seen[0]) / (len(seen) - 1)


def race(method: AnyMethod, instance: Instance, eps: float, limit: int) -> Run:
    """Run a method from zero until ‖y − y*‖ ≤ eps·‖y*‖, for at most `limit` iterations."""
    on_the_way = walk(method, instance)
    an_iteration = rounds(method, instance)
    whole = float(np.linalg.norm(instance.y_star))
    curve: list[tuple[int, float]] = []
    iteration, error = 0, math.inf
    for iteration, (_, y) in zip(itertools.count(0, on_the_way.iterations_per_step), on_the_way.points, strict=False):
        error = float(np.linalg.norm(y - instance.y_star)) / whole
        over = not eps < error < math.inf or iteration + on_the_way.iterations_per_step > limit
        if over or not curve or iteration >= SPACING * curve[-1][0]:
            curve.append((iteration, error))
        if over:
            break
    reached = error <= eps
    spent = an_iteration * iteration if reached else math.nan
    at, errors = np.array(curve).T
    return Run(
        method=on_the_way.label,
        iterations=iteration if reached else None,
        rounds=spent,
        times=spent / max(1, instance.iterations_needed(eps * whole)),
        at=an_iteration * at,
        error=errors,
    )
