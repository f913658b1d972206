"""How programs are compiled and called: flat problems, loops that a GPU runs by itself, and results for the host."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.sharding import SingleDeviceSharding

from dapd.arrays import Array
from dapd.engines.jax.pytree import pytree

FLAG, LEAST = "xla_gpu_enable_command_buffer", "xla_gpu_graph_min_graph_size"
KERNELS, NO_KERNELS = (
    "FUSION,CUBLAS,CUSTOM_CALL,WHILE,CONDITIONAL",
    "",
)  # operations of XLA that become nodes of a CUDA graph
PROGRAMS = 128  # compiled programs that are kept for other problems

plain = functools.cache(jax.jit)


class Leaves:
    """The arrays of a problem, for programs that are called often: flattening a tree takes longer than such a call."""

    def __init__(self, tree: Any) -> None:
        leaves, self.structure = jax.tree.flatten(tree)
        self.arrays = tuple(leaves)
        self._programs: dict[Any, Callable[..., Any]] = {}

    def program(self, compiler: Callable[..., Any], function: Callable[..., Any], *options: Any) -> Callable[..., Any]:
        """A function of the tree and other arguments as a program of the leaves and the others."""
        key = compiler, function, options
        if key not in self._programs:
            self._programs[key] = compiler(_of_leaves(function, self.structure), *options)
        return self._programs[key]


@functools.lru_cache(PROGRAMS)
def _of_leaves(function: Callable[..., Any], structure: Any) -> Callable[..., Any]:
    """The same function for all trees of this structure, so they share a program."""

    @functools.wraps(function)
    def of_leaves(leaves: tuple[Any, ...], *args: Any) -> Any:
        return function(jax.tree.unflatten(structure, leaves), *args)

    return of_leaves


@functools.lru_cache(PROGRAMS)
def compiled_loop(function: Callable[..., Any], device: Any) -> Callable[..., Any]:
    """A program that overwrites its second argument, and whose loops a GPU runs by itself, without asking the host."""
    return jax.jit(function, donate_argnums=1, compiler_options=_graphs_of(KERNELS, device))


@functools.lru_cache(PROGRAMS)
def compiled_report(function: Callable[..., Any], others: int, device: Any) -> Callable[..., Any]:
    """A program whose last result, after `others`, the host reads.

    A GPU writes it to the host's memory, since it takes long to fetch it.
    """
    if device is None:
        return jax.jit(function)
    there = SingleDeviceSharding(device, memory_kind="pinned_host")
    places = (*[None] * others, there) if others else there
    return jax.jit(function, out_shardings=places, compiler_options=_graphs_of(NO_KERNELS, device))


def _graphs_of(kernels: str, device: Any) -> dict[str, str] | None:
    """What a GPU runs by itself, in graphs; for loops only, since a graph has to be told where arrays lie now.

    A flag of the user's own counts more.
    """
    own = FLAG in os.environ.get("XLA_FLAGS", "")
    return None if device is None or own else {FLAG: kernels, LEAST: "1"}  # a program may be one loop


def report(function: Callable[..., Any], problem: Any, *args: Any, others: int = 0) -> Any:
    """The results for a problem on the device, the last one as a NumPy array."""
    results = problem.leaves.program(compiled_report, function, others, problem.gpu)(problem.leaves.arrays, *args)
    return (*results[:-1], np.asarray(results[-1])) if others else np.asarray(results)


@functools.lru_cache(256)
def number(value: int, device: Any) -> Any:
    """An integer for a program; on a GPU it is kept there."""
    return value if device is None else jax.device_put(np.int64(value), device)


@pytree("tree", "places")
class Packed:
    """The parameters of a method, all numbers in one array, since each transfer to a GPU takes long."""

    numbers: Array
    others: tuple[Any, ...]
    tree: Any
    places: tuple[int, ...]  # of the others

    @classmethod
    def of(cls, parameters: Any, dtype: Any, device: Any) -> Packed:
        """Pack them for steps in this precision; what is not packed is on a GPU if one is given."""
        leaves, tree = jax.tree.flatten(parameters)
        # beside float32 vectors a number by itself stays a float64 until it meets one, as in Python
        packed = [isinstance(leaf, float) and dtype == np.float64 for leaf in leaves]
        places = tuple(k for k, inside in enumerate(packed) if not inside)
        numbers = np.array([leaf for leaf, inside in zip(leaves, packed, strict=True) if inside])
        others = tuple(leaves[k] for k in places)
        if device is not None:
            others = jax.device_put(others, device) if others else others
        return cls(numbers, others, tree, places)

    def record(self) -> Any:
        """The parameters, each by itself, within a program."""
        leaves = [self.numbers[k] for k in range(self.numbers.size)]
        for place, other in zip(self.places, self.others, strict=True):
            leaves.insert(place, other)
        return jax.tree.unflatten(self.tree, leaves)
