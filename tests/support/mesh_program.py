"""What test_mesh.py runs in processes of their own: solves on a mesh, compared with one device.

python mesh_program.py TASK DEVICES [PROCESS PROCESSES PORT]
"""

import os
import re
import sys

task, devices, *several = sys.argv[1:]
process, processes, port = map(int, several) if several else (0, 1, 0)
os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={devices} {os.environ.get('XLA_FLAGS', '')}"

import jax  # noqa: E402
import numpy as np  # noqa: E402
import scipy.sparse as sp  # noqa: E402
from jax.sharding import Mesh  # noqa: E402

import dapd  # noqa: E402
from dapd.arrays import on_host  # noqa: E402
from dapd.engines import on_mesh, precision  # noqa: E402

if processes > 1:
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"127.0.0.1:{port}", processes, process, heartbeat_timeout_seconds=10)

from dapd.engines.jax.mesh.place import load_shards  # noqa: E402
from dapd.engines.jax.program import Packed, compiled_loop  # noqa: E402
from dapd.engines.jax.runner import JaxRunner, several_steps  # noqa: E402

MESH = Mesh(np.array(jax.devices()), ("device",))
RNG = np.random.default_rng(0)


def instance(rows, columns, phi):
    M, b = RNG.standard_normal((rows, columns)), RNG.standard_normal(rows)
    f = dapd.Quadratic(np.linspace(1.0, 3.0, columns), RNG.standard_normal(columns))
    return f, M, b, phi


def check(f, M, b, phi, method, on_mesh_M=None, bounds=None, **options):
    """The mesh gives what one device gives."""
    alone = dapd.solve(dapd.Problem(f, M, b, phi, bounds=bounds), method, engine="python", **options)
    shared = dapd.Problem(f, M if on_mesh_M is None else on_mesh_M, b, phi, bounds=bounds)
    found = dapd.solve(shared, method, engine="jax", mesh=MESH, **options)
    alike = "x" if method == "auto" else "xyz"  # other transforms may lead to other multipliers, if there are several
    apart = max(np.max(abs(getattr(found, v) - getattr(alone, v)), initial=0.0) for v in alike)
    assert apart <= (1e-10 if options.get("tol") == 0 else 1e-4), (method, apart)
    assert found.status == alone.status, (found.status, alone.status)
    assert found.engine == "jax"
    assert bounds is None or found.z.any()  # else the bounds do not matter


def iterates():
    fixed = {"tol": 0, "max_iterations": 300, "spectrum": dapd.Spectrum(14.0, 3.0)}
    wide, tall = instance(20, 64, dapd.L1(0.1)), instance(64, 20, dapd.Box(-1.0, 1.0))
    if processes == 1:
        check(*tall, "papc", **fixed)
    loaded = []

    def load(rows, columns):
        loaded.append(columns.stop - columns.start)
        return wide[1][rows, columns]

    M = load_shards(load, (20, 64), MESH)
    assert sum(loaded) == 64 // processes, loaded  # each process loads its own part, once
    check(*wide, "y-dapd", on_mesh_M=M, **fixed)
    if processes == 1:
        check(*wide, "auto", on_mesh_M=M)
    for f, M, b, phi in (wide, tall) if processes == 1 else (wide,):
        few = sparse(M)
        M = load_shards(lambda rows, columns, few=few: few[rows, columns], few.shape, MESH)
        assert M.work == few.nnz
        assert np.allclose(M.row_norms, np.linalg.norm(few.toarray(), axis=1))
        if processes == 1:
            check(f, few, b, phi, "papc", on_mesh_M=M, **fixed)
    if processes == 1:  # presolve must leave M in its shape
        f, M, b, _ = tall
        M[[3, 4, 9]], b[[3, 4, 9]] = 0.0, 0.0
        mixed = dapd.Interval(np.r_[np.zeros(10), np.full(54, -1.0)], np.r_[np.zeros(10), np.full(54, np.inf)])
        check(f, M, M @ np.ones(20), dapd.NonNegative(), "auto")
        check(f, sp.csr_array(M), M @ np.ones(20), mixed, "auto")
    anchored(wide if processes > 1 else tall)
    bounded()
    if processes > 1:
        M, count = structures()[1]
        steps(M, dapd.L1(0.1), "y-dapd", count, bounds=(-0.1, 0.1))
        steps(tall[1], dapd.L1(0.1), "x-dapd", 1, bounds=(-0.1, 0.1))


def anchored(given):
    """Restarts by measurements that add over all devices; y in sections if there is more than one matrix."""
    few = {"tol": 0, "max_iterations": 60}
    f, M, b, phi = given
    check(f, M, b, phi, "r2hpdhg", **few)
    check(f, M, b, phi, "r2hpdhg", bounds=(-0.1, 0.1), **few)
    if processes == 1:
        M, _ = structures()[1]
        f = dapd.Quadratic(np.linspace(1.0, 3.0, 40), RNG.standard_normal(40))
        check(f, M, np.ones(36), dapd.L1(0.1), "r2hpdhg", bounds=(-0.2, 0.2), **few)


def bounded():
    """Bounds on x, with blocks of columns and of rows, which each process loads for itself or not."""
    f, M, _, phi = instance(20, 64, dapd.NonNegative()) if processes > 1 else instance(64, 20, dapd.NonNegative())
    few, x = sparse(M), np.full(M.shape[1], 0.05)
    shards = load_shards(lambda rows, columns: few[rows, columns], few.shape, MESH)
    check(f, few, few @ x + 0.1, phi, "auto", on_mesh_M=shards, bounds=(-x, 0.05))
    if processes == 1:
        M, _ = structures()[1]
        f = dapd.Quadratic(np.linspace(1.0, 3.0, 40), RNG.standard_normal(40))
        groups = dapd.GroupBall(0.5, [slice(0, 1), slice(1, 4), slice(4, 20)])  # they end where a part of M does
        phi = dapd.Stack([groups, dapd.NonNegative()], sizes=[20, 16])
        check(f, M, np.ones(36), phi, "auto", bounds=(-0.2, 0.2))


class Half(dapd.Phi):
    """½‖y‖², which the mesh only knows by its prox."""

    def prox(self, v, step):
        return v / (1 + step)


def structures():
    """Couplings with structure, each with the number of sums over the devices that an iteration takes."""
    draw = RNG.standard_normal
    blocks = dapd.BlockDiagonal(draw((8, 2, 5)))  # whole blocks on each device
    by_columns = [
        sparse(draw((4, 40))),
        blocks,
        dapd.Kronecker(draw((2, 8)), draw((2, 5))),  # A's columns are divided
        dapd.Kronecker(draw((2, 5)), draw((1, 8))),  # formed, as four devices cannot divide five columns
        dapd.ColumnBlocks([draw((2, 15)), sparse(draw((2, 25)))]),
        dapd.BlockDiagonal([draw((1, 15)), draw((2, 25))]),  # as a sparse matrix
        dapd.Identity(40, rows=5, start=2),
    ]
    by_rows = [draw((24, 40)), dapd.Kronecker(draw((8, 8)), 5), blocks]  # divided part by part
    diagonal = sp.csr_array(sp.diags_array(np.linspace(0.5, 1.0, 40)))
    merged = [draw((38, 40)), dapd.RowBlocks([sparse(draw((6, 40))), diagonal])]  # but for the diagonal, one matrix
    return [
        (dapd.RowBlocks([diagonal, blocks]), 0),
        (dapd.RowBlocks(by_columns), 1),
        (dapd.RowBlocks(by_rows), 1),
        (dapd.RowBlocks(merged), 1),
        (np.zeros((0, 16)), 0),  # nothing but the bounds
    ]


def sparse(M):
    """Two entries of each column, and a row with all of them, which is too long to be padded."""
    keep = RNG.random(M.shape).argsort(axis=0) < 2
    keep[0] = True
    return sp.csr_array(np.where(keep, M, 0.0))


def program():
    """The steps are those of one device, with one sum over the devices per iteration and no other exchange."""
    for rows, columns in ((20, 64), (64, 20)):
        _, dense, _, phi = instance(rows, columns, dapd.L1(0.1))
        for M in (dense, sparse(dense)):
            steps(M, phi, "y-dapd", 1)
        for name in ("x-dapd", "y-dapd", "papc", "apapc", "condat-vu"):
            steps(dense, phi, name, 1, bounds=(-0.002, 0.001 + 0.001 * np.arange(columns)))
    steps(dense, Half(), "papc", 1, bounds=(-0.002, 0.002))
    for M, count in structures():
        steps(M, dapd.L1(0.1) if M.shape[0] else dapd.Zero(), "y-dapd", count, bounds=(-0.01, 0.01))


def steps(M, phi, name, count, bounds=None):
    """A few hundred steps, and how often they exchange something."""
    f = dapd.Quadratic(np.linspace(1.0, 3.0, M.shape[1]), RNG.standard_normal(M.shape[1]))
    problem = dapd.Problem(f, M, 0.1 * RNG.standard_normal(M.shape[0]), phi, bounds=bounds).stacked
    constants = {"L": 3.0, "mu": 1.0, "s_max": 14.0}
    kind = dapd.METHODS[name]
    p = kind.settings(**constants, s_min=3.0)
    method = kind(problem, p, x0=RNG.standard_normal(problem.columns), y0=RNG.standard_normal(problem.rows))
    with precision("jax"), on_mesh(MESH, problem.M):
        runner = JaxRunner(method)
        runner.start()
        loop = compiled_loop(several_steps(kind.update, kind.point), runner.gpu)
        packed = Packed.of(p, runner.dtype, runner.gpu)
        run = loop.lower(runner.placed, runner.state, packed, 200).compile()
        runner.state, _ = run(runner.placed, runner.state, packed, 200)
        found = [on_host(v) for v in runner.point()]
    for mine, alone in zip(found, method.point(method.run(method.init(), 200)), strict=True):
        assert np.max(abs(mine - alone)) <= 1e-10 * (1 + np.max(abs(alone))), (problem.M, name)
    if bounds is not None:
        assert found[1][M.shape[0] :].any()  # else the bounds do not matter
    exchanges = re.findall(
        r"(all-reduce|all-gather|all-to-all|collective-permute|reduce-scatter)(?:-start)?\(", run.as_text()
    )
    assert exchanges == ["all-reduce"] * count, (problem.M, name, exchanges)


def lost():
    def die(info):
        if process == 1 and info.iteration > 100:
            os._exit(9)

    f, M, b, phi = instance(20, 64, dapd.Zero())
    try:
        dapd.solve(dapd.Problem(f, M, b, phi), "y-dapd", engine="jax", mesh=MESH, tol=0, callback=die)
    except RuntimeError as error:
        print(error, flush=True)
        os._exit(3)


{"iterates": iterates, "program": program, "lost": lost}[task]()
print("done", flush=True)
