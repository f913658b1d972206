"""Native and Python states of a method, compared step by step."""

from contextlib import contextmanager

import numpy as np
import pytest

import dapd
from dapd.engines.native.runner import NativeRunner
from dapd.engines.python import PythonRunner
from dapd.machine.core import load, variants

CORES = variants()
FOREVER = float("inf")
MEASURED = 60  # steps of a restarted method, before rounding has a say in what is decided


def zipped(problem, name, *, cls=None, steps=300, tol=1e-12, by_threads=1e-10, cores=CORES, threads=(2,), meet=30):
    """Native and python states, zipped: every variant of the core for all steps, several threads for `meet` of them."""
    rng = np.random.default_rng(7)
    spectrum = problem.spectrum or dapd.estimate_spectrum(problem.M, positive=True)
    given = {"spectrum": spectrum, "x0": rng.standard_normal(problem.columns)}
    method = (cls or dapd.METHODS[name]).from_theory(problem, **given)
    steps = max(1, (min(steps, MEASURED) if method.is_restarted else steps) // method.iterations_per_step)
    loose = 1e3 if method.is_restarted else 1.0  # its weight is a ratio of moves, which may be small
    plain, wanted = PythonRunner(method), []
    plain.start()
    for k in range(1, steps + 1):
        assert plain.advance(1, FOREVER) == 1
        if k % max(1, steps // 10) == 0:
            wanted.append((k, plain.state))
    runs = [(load(core), 1, tol) for core in cores] + [(None, count, by_threads) for count in threads]
    for core, count, allowed in runs:
        runner = NativeRunner(method, threads=count, core=core)
        runner.start()
        done = 0
        for k, state in wanted if count == 1 else [pair for pair in wanted if pair[0] <= meet] or wanted[:1]:
            assert runner.advance(k - done, FOREVER) == k - done
            done = k
            found = runner.state
            assert type(found) is type(state)
            for a, b in zip(found, state, strict=True):
                assert np.result_type(a) == np.result_type(b) == (problem.dtype if np.ndim(b) else float)
                assert np.linalg.norm(a - b) <= loose * allowed * max(np.linalg.norm(b), 1.0)
        assert runner.counts.gradients == done * runner.program.gradients
        assert runner.counts.products == 2 * done * runner.program.dual_steps


@contextmanager
def forms(form):
    """The native engine reads sparse matrices as tiles, sorted rows or runs, or all columns of a dense one at once."""
    with pytest.MonkeyPatch.context() as patch:
        if form == "columns":
            patch.setattr("dapd.engines.native.maps.PANEL_BYTES", 0)
        patch.setattr("dapd.engines.native.maps.scattered", lambda record, shape, threads: form in ("tiles", "sorted"))
        patch.setattr("dapd.engines.native.maps.fills_vectors", lambda indptr, indices, columns: form == "sorted")
        patch.setattr("dapd.engines.native.maps.moves_on", lambda indptr, indices: form == "runs")
        yield
