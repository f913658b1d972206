"""A solve that is killed goes on from its checkpoint, and ends at the same certified answer."""

import errno
import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import scipy.sparse as sp
from instances import PHIS, quadratic_problem

import dapd
from dapd.solving.checkpoint import Checkpoint
from dapd.ways import anchored

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
    with pytest.raises(ValueError, match=r"cannot be written .*; name another"):
        dapd.solve(problem, checkpoint=path / "inside a file")
    with pytest.raises(TypeError, match="checkpoint must be a path, found int"):
        dapd.solve(problem, checkpoint=3)


def test_every_flipped_bit_is_an_error_that_names_the_file(tmp_path):
    path = tmp_path / "point.npz"
    problem = dapd.Problem(dapd.Quadratic(np.ones(2)), np.ones((1, 2)), np.ones(1))
    saved = Checkpoint(path, problem)
    saved.write(np.ones(2), np.ones(1))
    assert saved.read() is not None
    whole = path.read_bytes()
    for bit in range(8 * len(whole)):
        broken = bytearray(whole)
        broken[bit // 8] ^= 1 << bit % 8
        path.write_bytes(broken)
        with pytest.raises(ValueError, match=r"point.npz cannot be read \(it was damaged.*delete it, or name another"):
            saved.read()


def problems_that_differ_little():
    """Pairs of a problem and one that is another in a number far below the largest."""
    f, M, b = (
        dapd.Quadratic(np.ones(3), np.array([1.0, 1e-9, 0.0])),
        np.array([[1.0, 1e-8, 0.0], [0.0, 1.0, 1.0]]),
        [1.0, 1e-9],
    )
    given = dapd.Problem(f, M, b, dapd.Interval(-1e-9, 5.0), bounds=(np.array([-1e3, -1e-7, 0.0]), 1e3))
    other_M = np.where(M == 1e-8, 2e-8, M)
    return given, {
        "b": dapd.Problem(f, M, [1.0, 2e-9], given.phi, bounds=given.bounds),
        "c": dapd.Problem(dapd.Quadratic(np.ones(3), [1.0, 2e-9, 0.0]), M, b, given.phi, bounds=given.bounds),
        "M": dapd.Problem(f, other_M, b, given.phi, bounds=given.bounds),
        "phi": dapd.Problem(f, M, b, dapd.Interval(-2e-9, 5.0), bounds=given.bounds),
        "far side of phi": dapd.Problem(f, M, b, dapd.Interval(-1e-9, 6.0), bounds=given.bounds),
        "bounds": dapd.Problem(f, M, b, given.phi, bounds=(np.array([-1e3, -2e-7, 0.0]), 1e3)),
        "no bound": dapd.Problem(f, M, b, given.phi, bounds=(np.array([-np.inf, -1e-7, 0.0]), 1e3)),
    }


@pytest.mark.parametrize("what", problems_that_differ_little()[1])
def test_a_small_number_tells_problems_apart(tmp_path, what):
    given, others = problems_that_differ_little()
    saved = Checkpoint(tmp_path / "point.npz", given)
    saved.write(np.zeros(3), np.zeros(5))
    with pytest.raises(ValueError, match="belongs to another problem"):
        Checkpoint(saved.path, others[what]).read()


@pytest.mark.parametrize("size", [50, 70_000])
def test_rounding_does_not(tmp_path, size):
    rng = np.random.default_rng(0)
    M = sp.random_array((size // 2, size), density=5 / size, rng=rng, format="csr")
    x = rng.standard_normal(size)
    c, b = rng.standard_normal(size), M @ x
    b[:5] = 0.0
    saved = Checkpoint(tmp_path / "point.npz", dapd.Problem(dapd.Quadratic(np.ones(size), c), M, b))
    saved.write(x, b)
    other = b + 1e-16 * rng.standard_normal(b.size) * (abs(M) @ abs(x) + 1.0)
    again = dapd.Problem(dapd.Quadratic(np.ones(size), c * (1 + 1e-15)), M * (1 - 1e-15), other)
    assert Checkpoint(saved.path, again).read() is not None
    b[-1] *= 1 + 1e-6
    with pytest.raises(ValueError, match="belongs to another problem"):
        Checkpoint(saved.path, dapd.Problem(dapd.Quadratic(np.ones(size), c), M, b)).read()


@pytest.mark.parametrize("method", ["auto", "papc"])
def test_a_folder_that_vanishes_costs_the_checkpoint_only(tmp_path, monkeypatch, method):
    monkeypatch.setattr("dapd.solving.checkpoint.EVERY", 0.0)
    path = tmp_path / "folder" / "point.npz"
    problem = quadratic_problem(PHIS["zero"])
    with pytest.warns(RuntimeWarning, match=r"point.npz could not be written \(.*No such file"):
        result = dapd.solve(problem, method, checkpoint=path, callback=lambda info: shutil.rmtree(path.parent, True))
    assert result.converged


def test_a_full_disk_costs_the_checkpoint_only(tmp_path, monkeypatch):
    path, problem = tmp_path / "point.npz", quadratic_problem(PHIS["zero"])
    solver = dapd.Solver(problem, checkpoint=path)
    solver.solve()
    old = path.read_bytes()

    def full(number):
        raise OSError(errno.ENOSPC, "No space left on device")

    solver.update(b=problem.b + 1)
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.warns(RuntimeWarning, match="No space left on device"):
            result = solver.solve()
    assert result.converged
    assert path.read_bytes() == old
    assert [file.name for file in tmp_path.iterdir()] == ["point.npz"]
    assert solver.solve().converged  # the old file is still its own
    assert path.read_bytes() != old


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


def test_what_restarts_have_learnt_is_saved_and_used(tmp_path, monkeypatch):
    rng = np.random.default_rng(3)
    A, x = rng.standard_normal((6, 15)), np.maximum(rng.standard_normal(15), 0)
    problem = dapd.Problem(dapd.Quadratic(None, -rng.uniform(0, 1, 15)), A, A @ x, bounds=(0, 3))
    options = {"engine": "native", "direct": False, "checkpoint": tmp_path / "solve"}
    dapd.solve(problem, max_iterations=60, **options)
    weights = []
    usual = anchored.R2HPDHG.__init__

    def seen(self, problem, parameters, **given):
        weights.append(parameters.weight)
        usual(self, problem, parameters, **given)

    monkeypatch.setattr(anchored.R2HPDHG, "__init__", seen)
    assert dapd.solve(problem, **options).status == "optimal"
    dapd.solve(problem, engine="native", direct=False)
    assert weights[0] != weights[1]  # that of the second is usual by the data
