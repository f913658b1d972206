"""What test_mesh.py runs in processes of their own: solves on a mesh, compared with one device.

python mesh_program.py TASK DEVICES [PROCESS PROCESSES PORT]
"""

import os
import re
import sys

task, devices, *several = sys.argv[1:]
process, processes, port = map(int, several) if several else (0, 1, 0)
os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={devices}"

import jax  # noqa: E402
import numpy as np  # noqa: E402
import scipy.sparse as sp  # noqa: E402
from jax.sharding import Mesh  # noqa: E402

import dapd  # noqa: E402
from dapd.engines import on_mesh, precision  # noqa: E402

if processes > 1:
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"127.0.0.1:{port}", processes, process, heartbeat_timeout_seconds=10)

from dapd.engines.jax import JaxRunner, compiled  # noqa: E402
from dapd.engines.jax_mesh import load_shards  # noqa: E402

MESH = Mesh(np.array(jax.devices()), ("device",))
RNG = np.random.default_rng(0)


def instance(rows, columns, phi):
    M, b = RNG.standard_normal((rows, columns)), RNG.standard_normal(rows)
    f = dapd.Quadratic(np.linspace(1.0, 3.0, columns), RNG.standard_normal(columns))
    return f, M, b, phi


def check(f, M, b, phi, method, on_mesh_M=None, **options):
    """The mesh gives what one device gives."""
    alone = dapd.solve(dapd.Problem(f, M, b, phi), method, engine="python", **options)
    shared = dapd.Problem(f, M if on_mesh_M is None else on_mesh_M, b, phi)
    found = dapd.solve(shared, method, engine="jax", mesh=MESH, **options)
    apart = max(np.max(abs(found.x - alone.x)), np.max(abs(found.y - alone.y)))
    assert apart <= (1e-10 if options.get("tol") == 0 else 1e-4), (method, apart)
    assert found.status == alone.status, (found.status, alone.status)
    assert found.engine == "jax"


def iterates():
    fixed = {"tol": 0, "max_iterations": 300, "spectrum": dapd.Spectrum(14.0, 3.0)}
    wide, tall = instance(20, 64, dapd.L1(0.1)), instance(64, 20, dapd.Box(-1.0, 1.0))
    check(*tall, "papc", **fixed)
    if processes == 1:
        check(*wide, "y-dapd", **fixed)
        check(*wide, "x-dapd", **fixed)
        check(*instance(20, 64, dapd.Zero()), "auto")
        check(*tall, "auto")
    loaded = []

    def load(rows, columns):
        loaded.append(columns.stop - columns.start)
        return wide[1][rows, columns]

    M = load_shards(load, (20, 64), MESH)
    assert sum(loaded) == 64 // processes, loaded  # each process loads its own part, once
    check(*wide, "y-dapd", on_mesh_M=M, **fixed)
    check(*wide, "auto", on_mesh_M=M)
    for f, M, b, phi in (wide, tall) if processes == 1 else (wide,):
        few = sparse(M)
        M = load_shards(lambda rows, columns, few=few: few[rows, columns], few.shape, MESH)
        assert M.work == few.nnz
        assert np.allclose(M.row_norms, np.linalg.norm(few.toarray(), axis=1))
        check(f, few, b, phi, "papc", on_mesh_M=M, **fixed)
        if processes == 1:
            check(f, few, b, phi, "papc", **fixed)
            check(f, few, b, phi, "auto", on_mesh_M=M)
    if processes == 1:  # presolve must leave M in its shape
        f, M, b, _ = tall
        M[[3, 4, 9]], b[[3, 4, 9]] = 0.0, 0.0
        mixed = dapd.Interval(np.r_[np.zeros(10), np.full(54, -1.0)], np.r_[np.zeros(10), np.full(54, np.inf)])
        for given in (M, sp.csr_array(M)):
            check(f, given, M @ np.ones(20), dapd.NonNegative(), "auto")
            check(f, given, M @ np.ones(20), mixed, "auto")


def sparse(M):
    """Two entries of each column, and a row with all of them, which is too long to be padded."""
    keep = RNG.random(M.shape).argsort(axis=0) < 2
    keep[0] = True
    return sp.csr_array(np.where(keep, M, 0.0))


def program():
    """One sum over the devices per iteration, and no other exchange."""
    for rows, columns in ((20, 64), (64, 20)):
        _, dense, b, phi = instance(rows, columns, dapd.L1(0.1))
        cases = [(dense, name) for name in ("x-dapd", "y-dapd", "papc", "condat-vu")]
        for M, name in [*cases, (sparse(dense), "y-dapd")]:
            problem = dapd.Problem(dapd.PseudoHuber(0.1), M, b, phi)
            with precision("jax"), on_mesh(MESH, problem.M):
                method = dapd.METHODS[name].from_theory(problem, spectrum=dapd.Spectrum(14.0, 3.0))
                runner = JaxRunner(method)
                runner.start()
                update = compiled(type(method).update)
                text = update.lower(runner.placed, method.parameters, runner.state, 10).compile().as_text()
            found = re.findall(
                r"(all-reduce|all-gather|all-to-all|collective-permute|reduce-scatter)(?:-start)?\(", text
            )
            assert found == ["all-reduce"], (name, found)


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
