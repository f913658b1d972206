"""Rounds, measured: how fast a method moves along the zero chain, and how long it takes to an accuracy."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from dapd.arguments import named, near_miss
from dapd.arrays import Array
from dapd.lower_bounds.instances import HardProblem, affine
from dapd.lower_bounds.saddle import ConvexConcave
from dapd.methods import METHODS, Method

Instance = HardProblem | ConvexConcave
Runner = Callable[[Any], Iterable[tuple[Array, Array]]]  # from an instance, its iterates (x, y), the start among them
AnyMethod = str | type[Method] | Runner

WATCHED = 16  # steps that the meter watches; more would let the newest coordinate underflow
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
    """Start a method, given by name, by class or as a function that yields iterates, on an instance."""
    if isinstance(method, str):
        if method not in METHODS:
            raise ValueError(f"unknown method {method!r}{near_miss(method, METHODS)}")
        method = METHODS[method]
    if isinstance(method, type):
        if not issubclass(method, Method):
            raise TypeError(f"a class given as method must be a dapd.methods.Method, found {method.__name__}")
        if not isinstance(instance, HardProblem):
            raise TypeError(f"method {method.name!r} solves problems with b; for {instance!r} give extragradient")
        bound = method.from_theory(instance, spectrum=instance.spectrum)
        return Walk(bound.name, (bound.point(state) for state in bound), bound.iterations_per_step)
    if not callable(method):
        raise TypeError(f"method must be a name, a Method or a function that yields (x, y), found {method!r}")
    return Walk(getattr(method, "__name__", repr(method)), iter(method(instance)), 1)


@named
def rounds(method: AnyMethod, instance: Instance | None = None) -> float:
    """How many rounds of the linear-span model one iteration spends, read off the zeros of y on a hard instance.

    Two rounds, a product with M and one with Mᵀ, move a chain by one coordinate. A round of `block` touches one block,
    so that an iteration with all of M spends 2N there.

    Parameters
    ----------
    method : str, Method or function
        A name of `dapd.METHODS`, a class like those in it, or a function that takes the instance and yields (x, y),
        first the start (zero), then once an iteration.
    instance : HardProblem or ConvexConcave, optional
        Where to measure; a small `affine` one where left out.
    """
    if instance is None:
        instance = affine(L=10.0, mu=1.0, s_max=3.0, s_min=1.0, n=256)
    on_the_way = walk(method, instance)
    end = instance.chain_length
    seen = [instance.revealed(y) for _, y in itertools.islice(on_the_way.points, 1, WATCHED + 2)]
    seen = list(itertools.takewhile(lambda count: count < end, seen))
    if len(seen) < 2:
        raise ValueError(
            f"instance has {end} coordinates, too few to watch two iterations of {on_the_way.label}; make it larger"
        )
    return 2 * (seen[-1] - seen[0]) / (len(seen) - 1) / on_the_way.iterations_per_step


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
