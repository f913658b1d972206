"""Several devices and several processes give what one device gives, with one sum over them per iteration."""

import pickle
import signal
import socket
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from jax.sharding import Mesh

import dapd
from dapd.engines.jax_mesh import load_shards
from instances import PHIS, quadratic_problem

PROGRAM = Path(__file__).with_name("mesh_program.py")
SECONDS = 120


def start(*arguments):
    command = [sys.executable, str(PROGRAM), *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finished(process):
    out, errors = process.communicate(timeout=SECONDS)
    return process.returncode, out, errors


def pair(task):
    """Two processes with two devices each."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return [start(task, 2, k, 2, port) for k in (0, 1)]


@pytest.fixture(scope="module", autouse=True)
def lost():
    """Two processes, one of which dies. The other waits for it a while, so they start before everything else."""
    return pair("lost")


@pytest.mark.parametrize("task", ["iterates", "program"])
def test_four_devices(task):
    code, out, errors = finished(start(task, 4))
    assert code == 0, errors[-3000:]
    assert "done" in out


def test_two_processes():
    for code, out, errors in map(finished, pair("iterates")):
        assert code == 0, errors[-3000:]
        assert "done" in out


def test_a_lost_process_ends_the_others_with_a_message(lost):
    (code, out, errors), (killed, _, _) = map(finished, lost)
    assert killed == 9
    if code == 3:
        assert "a process of this solve was lost" in out
    else:  # JAX noticed it first, said so and ended the process
        assert code == -signal.SIGABRT
        assert "another task died" in errors


def test_wrong_meshes_are_named():
    problem = quadratic_problem(PHIS["zero"])
    mesh = Mesh(np.array(jax.devices()[:1]), ("device",))
    with pytest.raises(ValueError, match="mesh is for engine='jax', found engine='auto'"):
        dapd.solve(problem, mesh=mesh)
    with pytest.raises(TypeError, match=r"mesh must be a jax.sharding.Mesh, found int"):
        dapd.solve(problem, engine="jax", mesh=3)
    bounded = dapd.Problem(problem.f, problem.M, problem.b, bounds=(-9.0, 9.0))
    with pytest.raises(ValueError, match="M is RowBlocks, and a mesh divides arrays and sparse matrices"):
        dapd.solve(bounded, "papc", engine="jax", mesh=mesh)
    with pytest.raises(ValueError, match=r"returned shape \(1, 2\), expected \(6, 10\)"):
        load_shards(lambda rows, columns: np.ones((1, 2)), (6, 10), mesh)
    shards = load_shards(lambda rows, columns: problem.M.matrix[rows, columns], problem.M.shape, mesh)
    other = Mesh(np.array(jax.devices()[:1]), ("other",))
    with pytest.raises(ValueError, match="mesh is not the one that M was loaded for"):
        dapd.solve(dapd.Problem(problem.f, shards, problem.b), "papc", engine="jax", mesh=other)
    assert dapd.solve(problem, engine="jax", mesh=mesh).converged
    assert np.array_equal(pickle.loads(pickle.dumps(problem)).b, problem.b)  # without what lies on the devices
