"""The operations that a `step` may use, evaluated by NumPy and counted: the reference for every engine."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from dapd.arguments import TimeUp
from dapd.arrays import Array, in_dtype
from dapd.functions import Function
from dapd.functions.proximable import PrimalProx
from dapd.machine.clock import is_over
from dapd.operators.base import Operator
from dapd.operators.blocks import column_matrices
from dapd.operators.convert import as_operator
from dapd.problem import ask
from dapd.problem.problem import Problem


def repeated(o: Any, count: Any, body: Callable[[Any], Any], carry: Any) -> Any:
    """`body` applied `count` times to `carry`: a loop of the oracle's own if it has one, as compilers need."""
    loop = getattr(type(o), "repeat", None)
    if loop is not None:
        return loop(o, count, body, carry)
    for _ in range(count):
        carry = body(carry)
    return carry


class Oracle:
    """Gradients, dual steps and primal steps in the precision of the problem.

    With `is_proximal`, `grad` is the gradient of the part of f that `primal_step` leaves.
    """

    def __init__(self, problem: Problem, *, is_proximal: bool = False) -> None:
        self.problem = problem
        self.f: Function | None = problem.proximable.rest if is_proximal else problem.f
        self.b = problem.b.astype(problem.dtype, copy=False)
        self.gradients = 0
        self.products = 0  # with M and with Mᵀ, each counted
        self.block_products = 0  # none here
        self.deadline = math.inf  # a value of time.perf_counter(); dual steps after it raise TimeUp

    def reset(self) -> None:
        """Set the counts to zero."""
        self.gradients = self.products = 0

    def grad(self, x: Array) -> Array:
        """∇f(x); zero if nothing of f is left by primal steps."""
        if self.f is None:
            return 0.0
        self.gradients += 1
        return in_dtype(ask.gradient(self.f, x), x.shape, "f.grad", self.problem.dtype)

    @cached_property
    def primal_prox(self) -> PrimalProx:
        """What primal steps compute."""
        return self.problem.primal_prox.in_dtype(self.problem.dtype)

    def primal_step(self, v: Array, step: float) -> Array:
        """The prox of the bounds and of the part of f whose prox is known, entry by entry."""
        return self.primal_prox(v, step)

    def dual_step(self, v: Array, base: Array, step: float) -> tuple[Array, Array]:
        """prox_{step·φ}(base + Mv) and Mᵀ of it."""
        if is_over(self.deadline):
            raise TimeUp
        self.products += 2
        problem = self.problem
        y = ask.prox(problem.phi, base + problem.M.forward(v), step)
        y = in_dtype(y, base.shape, "phi.prox", problem.dtype)
        return y, in_dtype(problem.M.adjoint(y), (problem.columns,), "M's adjoint", problem.dtype)

    def adjoint(self, y: Array) -> Array:
        """Mᵀy, only for the first state; if y is zero, it makes no product."""
        problem = self.problem
        if not y.any():
            return np.zeros(problem.columns, problem.dtype)
        self.products += 1
        return in_dtype(problem.M.adjoint(y), (problem.columns,), "M's adjoint", problem.dtype)


class BlockOracle:
    """The operations that a block-coordinate `step` may use, in the precision of the problem."""

    products = 0  # with all of M at once: none here

    def __init__(self, problem: Problem, functions: list[Function] | None) -> None:
        assert problem.blocks is not None
        self.f, self.M, self.functions = problem.f, problem.M, functions
        self.blocks = problem.blocks
        self.b = problem.b.astype(problem.dtype)
        self.dtype = problem.dtype
        self.counts = np.zeros(2, np.int64)  # block products and block gradients; an engine adds to them too

    @cached_property
    def operators(self) -> list[Operator]:
        """M_1, …, M_N."""
        matrices = column_matrices(self.M, self.blocks)
        if matrices is None:
            return [self.M.columns(block) for block in self.blocks]
        return [as_operator(matrix) for matrix in matrices]

    def reset(self) -> None:
        """Set the counts to zero."""
        self.counts[:] = 0

    @property
    def block_products(self) -> int:
        """Products with an M_i or its transpose so far."""
        return int(self.counts[0])

    @property
    def gradients(self) -> int:
        """Gradients of one block so far."""
        return int(self.counts[1])

    def grad(self, i: int, z: Array) -> Array:
        """∇f_i(z), where z is the block."""
        assert self.functions is not None
        self.counts[1] += 1
        return self._own(self.functions[i].grad(z), z.shape, f"the gradient of f_{i + 1}")

    def partial(self, i: int, z: Array) -> Array:
        """∇_i f(z), where z is the whole vector."""
        self.counts[1] += 1
        return self._own(
            self.f.block_grad(z, self.blocks[i]), z[self.blocks[i]].shape, f"f.block_grad of block {i + 1}"
        )

    def forward(self, i: int, v: Array) -> Array:
        """M_i v."""
        self.counts[0] += 1
        return self._own(self.operators[i].forward(v), self.b.shape, f"M_{i + 1}")

    def adjoint(self, i: int, y: Array) -> Array:
        """M_iᵀy."""
        self.counts[0] += 1
        block = self.blocks[i]
        return self._own(self.operators[i].adjoint(y), (block.stop - block.start,), f"the adjoint of M_{i + 1}")

    def all_grads(self, z: Array) -> Array:
        """∇f(z), block by block."""
        return np.concatenate([self.grad(i, z[block]) for i, block in enumerate(self.blocks)])

    def image(self, v: Array) -> Array:
        """Mv; if v is zero, it makes no product."""
        total = np.zeros_like(self.b)
        if v.any():
            for i, block in enumerate(self.blocks):
                total += self.forward(i, v[block])
        return total

    def gram(self, y: Array) -> Array:
        """MMᵀy; if y is zero, it makes no product."""
        total = np.zeros_like(self.b)
        if y.any():
            for i in range(len(self.blocks)):
                total += self.forward(i, self.adjoint(i, y))
        return total

    def _own(self, array: Array, shape: tuple[int, ...], source: str) -> Array:
        return in_dtype(array, shape, source, self.dtype)
