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
import scipy.sparse as sp
from instances import PHIS, quadratic_problem
from jax.sharding import Mesh
from scipy.sparse.linalg import aslinearoperator

import dapd
from dapd.engines.jax.layout import Layout
from dapd.engines.jax.mesh.map import cut
from dapd.engines.jax.mesh.place import load_shards
from dapd.engines.jax.mesh.rows import as_matrix, divided_shape, divisible_parts
from dapd.kinds.base import kinds_of
from dapd.kinds.by_rows import Rows
from dapd.kinds.sets import Balls
from dapd.operators.explicit import Dense
from dapd.operators.factors import ScaledMap

PROGRAM = Path(__file__).parents[1] / "support" / "mesh_program.py"
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
    free = dapd.Problem(problem.f, aslinearoperator(problem.M.matrix), problem.b)
    with pytest.raises(ValueError, match="part of the kind MatrixFree, which a mesh cannot divide; give an array"):
        dapd.solve(free, engine="jax", mesh=mesh)
    with pytest.raises(ValueError, match=r"returned shape \(1, 2\), expected \(6, 10\)"):
        load_shards(lambda rows, columns: np.ones((1, 2)), (6, 10), mesh)
    shards = load_shards(lambda rows, columns: problem.M.matrix[rows, columns], problem.M.shape, mesh)
    other = Mesh(np.array(jax.devices()[:1]), ("other",))
    with pytest.raises(ValueError, match="mesh is not the one that M was loaded for"):
        dapd.solve(dapd.Problem(problem.f, shards, problem.b), "papc", engine="jax", mesh=other)
    assert dapd.solve(problem, engine="jax", mesh=mesh).converged
    taller = dapd.RowBlocks([shards, np.eye(10)])
    with pytest.raises(ValueError, match=r"other rows of M change what is divided \(rows\)"):
        dapd.solve(dapd.Problem(problem.f, taller, np.ones(16)), "papc", engine="jax", mesh=mesh)
    assert np.array_equal(pickle.loads(pickle.dumps(problem)).b, problem.b)  # without what lies on the devices


def test_what_a_mesh_cannot_divide_is_named(monkeypatch):
    four = Mesh(np.array(jax.devices() * 4), ("device",))  # only its size matters here
    rng = np.random.default_rng(0)
    rows = dapd.RowBlocks([rng.standard_normal((9, 8)), dapd.Identity(8), rng.standard_normal((11, 8))])
    layout = Layout(four, divided_shape(rows, four))
    assert layout.shape == (20, 8)
    assert not layout.by_columns
    with pytest.raises(ValueError, match=r"M has 9 neighbouring rows \(Dense.* append zero rows"):
        divisible_parts(rows, layout)
    with pytest.raises(ValueError, match="M has 6 columns, which the 4 devices of mesh cannot divide evenly"):
        Layout(four, divided_shape(dapd.RowBlocks([np.ones((2, 6)), dapd.Identity(6)]), four))
    product = dapd.Kronecker(np.ones((2, 3)), np.ones((3, 4)))
    assert np.array_equal(as_matrix(product).dense(), np.kron(product.A, product.B))
    monkeypatch.setattr("dapd.engines.jax.mesh.rows.FORMED", 71)
    with pytest.raises(
        ValueError, match=r"whose A is 2 × 3.*its 72 entries are too many to form it; append zero columns"
    ):
        as_matrix(product)
    with pytest.raises(ValueError, match="a group of φ has rows in two parts of M"):
        cut(kinds_of(dapd.GroupBall(1.0, [slice(0, 2), slice(2, 5)]), 5), (3, 2))


def test_structured_maps_are_the_same_as_matrices():
    rng = np.random.default_rng(0)
    draw = rng.standard_normal
    scaled = ScaledMap(dapd.Kronecker(draw((2, 3)), 2), np.arange(1.0, 5.0), np.arange(2.0, 8.0))
    few = sp.csr_array(np.triu(draw((4, 6))))
    for M in (
        scaled,
        ScaledMap(Dense(draw((4, 6))), np.arange(1.0, 5.0), np.arange(2.0, 8.0)),
        dapd.RowBlocks([scaled, few, dapd.Identity(6, rows=2, start=1)]),
        dapd.ColumnBlocks([draw((3, 2)), dapd.BlockDiagonal([draw((1, 2)), draw((2, 3))])]),
        dapd.ColumnBlocks([draw((3, 2)), draw((3, 4))]),
    ):
        x = draw(M.shape[1])
        assert np.allclose(as_matrix(M).forward(x), M.forward(x))


def test_groups_may_end_where_a_part_of_M_does():
    balls = dapd.GroupBall([1.0, 2.0, 3.0], [slice(0, 2), slice(2, 3), slice(3, 5)])
    kinds = kinds_of(dapd.Stack([balls, dapd.Box(-1.0, np.ones(4))]), 9)
    first, second = cut(kinds, (3, 6))
    assert [(list(kind.radius), list(kind.heights(n)), n) for kind, n in first] == [([1.0, 2.0], [2, 1], 3)]
    assert [(type(kind), n) for kind, n in second] == [(Balls, 2), (Rows, 4)]
    (head, _), (tail, _) = (some[-1] for some in cut(kinds[1:], (1, 3)))
    assert (len(head.upper), len(tail.upper), head.lower, tail.lower) == (1, 3, -1.0, -1.0)
