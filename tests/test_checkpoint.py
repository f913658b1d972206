"""A solve that is killed goes on from its checkpoint, and ends at the same certified answer."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import dapd
from dapd.solving.checkpoint import Checkpoint
from instances import PHIS, quadratic_problem

KILLS = 3

LONG = """
import sys, time
import numpy as np
import dapd
import dapd.solving.checkpoint
dapd.solving.checkpoint.EVERY = 0.0
rng = np.random.default_rng(0)
M = rng.standard_normal((30, 40))
f = dapd.Quadratic(np.geomspace(1e-4, 1, 40), rng.standard_normal(40))
problem = dapd.Problem(f, M, M @ rng.standard_normal(40))
print("started", flush=True)
slowly = lambda info: time.sleep(0.02)
result = dapd.solve(problem, "papc", tol=1e-7, checkpoint=sys.argv[1], callback=slowly)
assert result.status == "optimal", result
np.savez(sys.argv[2], x=result.x, iterations=result.iterations)
"""


def run(path, answer):
    return subprocess.Popen([sys.executable, "-c", LONG, str(path), str(answer)], stdout=subprocess.PIPE, text=True)


def test_killed_at_any_moment_it_ends_at_the_same_answer(tmp_path):
    rng = np.random.default_rng(int.from_bytes(os.urandom(4), "little"))
    whole, path, answer = tmp_path / "whole.npz", tmp_path / "a checkpoint.npz", tmp_path / "answer.npz"
    process = run(tmp_path / "other.npz", whole)
    process.communicate(timeout=60)
    assert process.returncode == 0
    for _ in range(KILLS):
        process = run(path, answer)
        process.stdout.readline()
        time.sleep(rng.uniform(0.0, 1.0))
        process.send_signal(signal.SIGKILL)
        process.communicate()
    process = run(path, answer)
    process.communicate(timeout=60)
    assert process.returncode == 0
    with np.load(whole) as expected, np.load(answer) as found:
        np.testing.assert_allclose(found["x"], expected["x"], rtol=1e-4, atol=1e-5)
        assert found["iterations"] < expected["iterations"]  # it did not start anew


@pytest.mark.parametrize("engine", ["auto", "jax"])
def test_a_solve_starts_where_the_last_one_ended(tmp_path, engine):
    problem = quadratic_problem(PHIS["stack"])
    bounded = dapd.Problem(problem.f, problem.M, problem.b, problem.phi, bounds=(-9.0, 9.0))
    path = tmp_path / "new folder" / "point.npz"
    first = dapd.solve(bounded, engine=engine, direct=False, checkpoint=path)
    again = dapd.solve(bounded, engine=engine, direct=False, checkpoint=path)
    assert first.converged
    assert again.converged
    assert again.iterations == 0
    np.testing.assert_array_equal(first.x, again.x)


def test_a_checkpoint_of_another_problem_is_refused(tmp_path):
    path = tmp_path / "point.npz"
    problem = quadratic_problem(PHIS["zero"])
    dapd.solve(problem, checkpoint=path)
    with pytest.raises(ValueError, match=r"point.npz belongs to another problem; delete it, or name another"):
        dapd.solve(problem.replaced(b=problem.b + 1e-3), checkpoint=path)
    with pytest.raises(ValueError, match="belongs to another problem"):
        dapd.Solver(problem.replaced(b=problem.b + 1e-3), checkpoint=path).solve()
    whole = path.read_bytes()
    for broken in (b"nonsense", b"", whole[:-40], whole[: len(whole) // 2]):
        path.write_bytes(broken)
        with pytest.raises(ValueError, match=r"point.npz cannot be read .*; delete it, or name another"):
            dapd.solve(problem, checkpoint=path)
    mark = Checkpoint(path, problem).mark
    for x in (np.full(problem.columns, np.nan), np.zeros(problem.columns + 1)):
        np.savez(path, mark=np.array(mark), x=x, y=np.zeros(problem.rows))
        with pytest.raises(ValueError, match=r"point.npz holds no finite point; delete it, or name another"):
            dapd.solve(problem, checkpoint=path)
    with pytest.raises(ValueError, match=r"cannot be written .*; name another"):
        dapd.solve(problem, checkpoint=path / "inside a file")
    with pytest.raises(TypeError, match="checkpoint must be a path, found int"):
        dapd.solve(problem, checkpoint=3)


def test_a_solver_replaces_its_own_checkpoint_after_an_update(tmp_path):
    path = tmp_path / "point.npz"
    problem = quadratic_problem(PHIS["zero"])
    solver = dapd.Solver(problem, checkpoint=path)
    for k in range(3):
        solver.update(b=problem.b + k)
        assert solver.solve().converged
        x, _ = Checkpoint(path, solver.problem).read()
        np.testing.assert_allclose(problem.M.forward(x), problem.b + k, atol=1e-4)
    dapd.solve(problem, checkpoint=tmp_path / "other.npz")
    (tmp_path / "other.npz").replace(path)  # written by somebody else meanwhile
    with pytest.raises(ValueError, match="belongs to another problem"):
        solver.solve()
