"""One dual step of the native core at a time: a program of a single instruction."""

import numpy as np

from dapd.engines.native.layout import coupling
from dapd.engines.native.threads import available
from dapd.engines.native.tracer import DUAL_STEP
from dapd.machine.core import load

DUAL, PRIMAL = True, False


class FusedDualStep:
    """prox_{step·φ}(base + Mv) and Mᵀ of it, in one pass over M."""

    def __init__(self, problem, *, threads=None, core=None):
        self.core, self.problem, self.threads = core or load(), problem, threads or available()
        self.M, self.phi = coupling(problem, self.threads)
        self.calls = tuple(call for _, _, call in self.phi.calls)
        self.runner = self.bound(1.0)

    def bound(self, step):
        """A runner of the core whose registers are v, base, y and Mᵀy."""
        program = (
            [PRIMAL, DUAL, DUAL, PRIMAL],
            [(DUAL_STEP, 2, 3, [(0, 1.0, 0.0), (1, 1.0, 0.0)], step)],
            [0, 1, 2, 3],
            1.0,
        )
        rows, columns = self.problem.M.shape
        f = columns, None, None, 0, None, 0.0, None, None, None
        runner = self.core.Runner32 if self.problem.dtype == np.float32 else self.core.Runner64
        return runner(program, self.M, self.phi, f, (None,) * 4, rows, columns)

    def __call__(self, v, base, step):
        runner, dtype = self.bound(float(step)), self.problem.dtype
        for register, vector in enumerate((v, base)):
            runner.set(register, np.ascontiguousarray(vector, dtype))
        assert runner.run(1, self.threads, 1e8, self.calls) == 1
        y, Mty = np.empty(self.problem.rows, dtype), np.empty(self.problem.columns, dtype)
        runner.get(2, y)
        runner.get(3, Mty)
        return y, Mty
