"""The block-coordinate methods in the native core: a runner that owns the state of a run."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dapd.arrays import Array
from dapd.engines.native.block_tables import (
    BlockMatrix,
    JointFunction,
    nothing_joint,
    pack,
    tabulate_blocks,
    tabulate_joint,
)
from dapd.engines.protocol import NotNative
from dapd.machine.clock import is_over, pulse, seconds_left
from dapd.machine.core import load
from dapd.methods.base import Method, copy_of
from dapd.methods.block import BlockMethod
from dapd.methods.x_sbc import XSBC
from dapd.methods.x_sbc_nonseparable import XSBCNonseparable
from dapd.methods.y_sbc import YSBC
from dapd.operators.blocks import column_matrices

LOOPS: dict[type[BlockMethod], str] = {XSBC: "XSbc", YSBC: "YSbc", XSBCNonseparable: "XSbcNonseparable"}
DEFINING = (
    "first",
    "update",
    "refresh",
    "rebase",
    "drawn",
    "step",
    "run",
)  # a subclass with another of these has another iteration


class BlockRunner:
    """Runs a block-coordinate method in the native core.

    Parameters
    ----------
    method : BlockMethod
        Its oracle counts what the core spends.
    core : module
        One of the variants `dapd._core_*`.

    Raises
    ------
    NotNative
        If the core cannot run the method on its problem; the message says why.
    """

    engine = "native"
    reason = ""

    def __init__(self, method: BlockMethod, core: Any = None) -> None:
        core = core or load()
        if core is None:
            raise NotNative("the native core was not built; install a C++ compiler and reinstall dapd")
        self.method: Method = method
        problem, blocks, dtype = method.problem, method.blocks, method.problem.dtype
        kind = _native_twin(type(method))
        matrices = column_matrices(problem.M, blocks)
        if matrices is None:
            raise NotNative(f"{problem.M!r} is only available as a product")
        M, joint = pack(matrices, dtype), nothing_joint(blocks, dtype)
        if kind is XSBCNonseparable and method.functions is None:
            f, joint = tabulate_joint(problem.f, blocks, dtype)
        else:
            assert method.functions is not None  # the method has checked that f separates
            f = tabulate_blocks(method.functions, blocks, dtype)
        extra: Any = {XSBC: (), YSBC: _outer(method, M), XSBCNonseparable: joint}[kind]
        self._joint_rows = int(joint.A.rows[0])
        self._loop = getattr(core, LOOPS[kind] + ("32" if dtype == np.float32 else "64"))(
            (M, f, method.oracle.b),
            extra,
            method.parameters._asdict(),
            method.plan,
            _work(M, joint) + (2 * f.A.entries + f.H.entries) / len(blocks),
            self._joint_rows,
        )
        self._state: Any = None
        self._arrays: dict[str, Array] = {}
        self._progress = np.zeros(3, np.int64)  # iterations, block products and block gradients

    @property
    def counts(self) -> Any:
        """The oracle's."""
        return self.method.oracle

    @property
    def state(self) -> Any:
        """A copy of the method's state."""
        return copy_of(self._state._replace(k=int(self._progress[0])))

    @state.setter
    def state(self, state: Any) -> None:
        self._state = copy_of(state)
        self._arrays = {name: part for name, part in self._state._asdict().items() if isinstance(part, np.ndarray)}
        for name in ("Ac", "Ae"):  # what the loop for a nonseparable f keeps of it
            self._arrays[name] = np.zeros(self._joint_rows, self.method.problem.dtype)
        self._progress[:] = self._state.k, 0, 0
        self._loop.prepare(self._arrays)

    def start(self) -> None:
        """Set the state to the method's first, and count what that takes."""
        self.method.oracle.reset()
        self.state = self.method.init()

    def advance(self, steps: int, deadline: float = math.inf) -> int:
        """Take `steps` steps, or fewer if the deadline comes first; return how many."""
        self._progress[1:], done = 0, 0
        try:
            while True:
                limit = min(seconds_left(deadline), pulse())
                done += int(self._loop.run(self._arrays, self._progress, steps - done, limit))
                if done >= steps or is_over(deadline):
                    return done
        finally:  # true after a Ctrl-C too
            self.method.oracle.counts[:] += self._progress[1:]

    def point(self) -> tuple[Array, Array]:
        """Copies of the x and y that the state stands for."""
        return self.method.point(self._state)


def _native_twin(cls: type[BlockMethod]) -> type[BlockMethod]:
    """The built-in method whose iteration this class has."""
    for known in LOOPS:
        if all(getattr(cls, part) is getattr(known, part) for part in DEFINING):
            return known
    raise NotNative(f"the native core has no loop for {cls.__name__}")


def _outer(method: BlockMethod, M: BlockMatrix) -> BlockMatrix:
    """MMᵀ as one block if it is smaller than M, so a move of the anchor costs no block product; else without rows."""
    problem = method.problem
    small = 2 * problem.rows**2 <= M.entries
    return pack([problem.M.outer() if small else np.zeros((0, problem.rows))], problem.dtype)


def _work(M: BlockMatrix, joint: JointFunction) -> float:
    """Multiplications of an iteration, those of separable f left out."""
    entries = 4 * (M.entries + joint.A.entries)
    return entries / len(M.rows) + 8 * int(M.rows[0]) + 2 * int(joint.A.rows[0])
