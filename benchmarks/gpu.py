"""The jax engine on an accelerator: time per iteration, bytes per second, batches, and restarts to 1e-6.

    PYTHONPATH=src python benchmarks/gpu.py all            # everything
    PYTHONPATH=src python benchmarks/gpu.py dense --quick  # one part, small sizes only

It needs dapd's own dependencies and JAX; forms in PyTorch and CuPy are measured beside it if these are installed. Each
measurement prints one line as soon as it is made. Times are of later runs, so nothing is compiled in them; `set-up`
is what the host does before: presolve, norms and the transfer.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cached_property
from importlib.util import find_spec
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp

import dapd
import gpu_lp
from dapd.ways.kept import Learnt
from peers.control import HORIZON, STATES
from peers.control import model as control_model
from peers.with_dapd import problem_of

TOL = 1e-6


def say(*parts: object) -> None:
    print(*parts, flush=True)


def seconds(run: Callable[[], Any], repeats: int = 3) -> float:
    """The least time of a few runs, after one that warms up."""
    run()
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        run()
        times.append(time.perf_counter() - began)
    return min(times)


def copy_bandwidth() -> float:
    """Bytes per second that a copy reads and writes."""
    size = 1 << (29 if on_gpu() else 24)
    with jax.enable_x64(True):
        v = jnp.ones(size)
        copy = jax.jit(lambda v: v + 1.0)
        once = seconds(lambda: jax.block_until_ready(copy(v)))
    return 2 * 8 * size / once


def on_gpu() -> bool:
    return jax.default_backend() == "gpu"


# ---------------------------------------------------------------- time per iteration, dense M


def dense_problem(rows: int, columns: int, dtype: Any) -> tuple[dapd.Problem, Any]:
    """A pseudo-Huber f with a Gaussian M, made on the device."""
    with jax.enable_x64(True):
        M = jax.random.normal(jax.random.key(0), (rows, columns), dtype) / math.sqrt(columns)
        b = jnp.ones(rows, dtype)
        problem = dapd.Problem(dapd.PseudoHuber.with_condition(1e4), M, b)
    high, low = (1 + s * math.sqrt(rows / columns) for s in (1, -1))
    return problem, dapd.Spectrum(1.01 * high, 0.99 * low)


def dense(quick: bool) -> None:
    say(f"copy bandwidth: {copy_bandwidth() / 1e12:.2f} TB/s")
    sizes = [(250, 1000), (2000, 10_000)]
    if on_gpu():
        sizes += [(8192, 65_536)] if quick else [(8192, 65_536), (16_384, 131_072)]
    for rows, columns in sizes:
        for dtype in (np.float64, np.float32):
            problem, spectrum = dense_problem(rows, columns, dtype)
            for name in ("y-dapd",) if rows > 2000 else ("x-dapd", "y-dapd", "papc"):
                method = dapd.METHODS[name].from_theory(problem, spectrum=spectrum)
                report_dense(f"{name} jax", problem, _jax_steps(method))
            method = dapd.METHODS["y-dapd"].from_theory(problem, spectrum=spectrum)
            if rows <= 2000:
                for engine in ("native", "python"):
                    report_dense(f"y-dapd {engine} (CPU)", problem, _engine_steps(method, engine))
            for label, form in (("PyTorch", _torch_steps), ("CuPy", _cupy_steps)):
                report_dense(f"y-dapd {label}", problem, form(method))


def report_dense(label: str, problem: dapd.Problem, run: Callable[[int], Any] | None) -> None:
    if run is None:
        return
    rows, columns = problem.M.shape
    bytes_of_M = rows * columns * problem.dtype.itemsize
    run(1)
    pilot = seconds(lambda: run(10), 1) / 10
    steps = max(10, min(5000, int(0.3 / pilot)))
    once = seconds(lambda: run(steps), 2) / steps
    rate = 2 * bytes_of_M / once / 1e12
    say(f"{rows} x {columns} {problem.dtype}: {label}: {once * 1e6:.1f} us per iteration, {rate:.3f} TB/s of M")


def _jax_steps(method: dapd.Method) -> Callable[[int], Any]:
    with jax.enable_x64(True):
        runner: Any = dapd.bind(method, "jax")
    runner.start()

    def run(steps: int) -> None:
        runner.pace = steps
        runner.advance(steps, math.inf)

    return run


def _engine_steps(method: dapd.Method, engine: str) -> Callable[[int], Any] | None:
    try:
        runner = dapd.bind(method, engine)
    except ValueError:
        return None
    runner.start()
    return lambda steps: runner.advance(steps, math.inf)


def _torch_steps(method: dapd.Method) -> Callable[[int], Any] | None:
    try:
        import torch
    except ImportError:
        return None
    cuda = on_gpu() and torch.cuda.is_available()
    step = _plain_step(method, torch.from_dlpack, torch)

    def run(steps: int) -> None:
        step(steps)
        if cuda:
            torch.cuda.synchronize()

    return run


def _cupy_steps(method: dapd.Method) -> Callable[[int], Any] | None:
    try:
        import cupy
    except ImportError:
        return None
    if not on_gpu():
        return None
    step = _plain_step(method, cupy.from_dlpack, cupy)

    def run(steps: int) -> None:
        step(steps)
        cupy.cuda.get_current_stream().synchronize()

    return run


def _plain_step(method: dapd.Method, to: Callable[[Any], Any], xp: Any) -> Callable[[int], Any]:
    """y-DAPD with φ = 0 written out for a library that runs one operation after another, on the same arrays."""
    p, problem = method.parameters, method.problem
    with jax.enable_x64(True):
        b, x0, y0 = (
            to(jnp.asarray(v, problem.dtype)) for v in (problem.b, np.zeros(problem.columns), np.zeros(problem.rows))
        )
        M, e = to(jnp.asarray(problem.M.matrix)), problem.f.e
    Mt = M.T

    def run(steps: int) -> Any:
        x, y, w, Mty, Mtw = x0, y0, y0, x0, x0
        for _ in range(steps):
            g = x / xp.sqrt(x * x + e * e) + e * x
            y_new = w + M @ (p.s * x - p.s_hat * (Mtw + g)) - p.s * b
            Mty_new = Mt @ y_new
            w = (1 + p.gamma) * y_new - p.gamma * y
            Mtw = (1 + p.gamma) * Mty_new - p.gamma * Mty
            x = x - p.t_tilde * (g + (1 + p.tau) * Mtw - p.tau * Mty_new)
            y, Mty = y_new, Mty_new
        return x

    return run


# ---------------------------------------------------------------- restarts to 1e-6, nothing known


class Differences(dapd.Operator):
    """Forward differences of an image along both axes, zero at the end of each; written for NumPy and JAX alike."""

    def __init__(self, side: int) -> None:
        self.side = side
        self.shape, self.dtype = (2 * side * side, side * side), np.dtype(np.float64)

    def forward(self, x: Any) -> Any:
        """Mx."""
        xp = np if isinstance(x, np.ndarray) else jnp
        x = x.reshape(self.side, self.side)
        down, right = xp.diff(x, axis=0, append=x[-1:]), xp.diff(x, axis=1, append=x[:, -1:])
        return xp.concatenate([down.ravel(), right.ravel()])

    def adjoint(self, y: Any) -> Any:
        """Mᵀy."""
        xp = np if isinstance(y, np.ndarray) else jnp
        a, c = y.reshape(2, self.side, self.side)
        a, c = a[:-1], c[:, :-1]
        down = xp.concatenate([-a[:1], a[:-1] - a[1:], a[-1:]])
        right = xp.concatenate([-c[:, :1], c[:, :-1] - c[:, 1:], c[:, -1:]], axis=1)
        return (down + right).ravel()

    @cached_property
    def row_norms(self) -> Any:
        """√2, or 0 at the ends."""
        norms = np.full((2, self.side, self.side), math.sqrt(2.0))
        norms[0, -1], norms[1, :, -1] = 0.0, 0.0
        return norms.ravel()


def total_variation(side: int) -> dapd.Problem:
    """½‖x − image‖² + 0.1·(the sum of absolute differences)."""
    rng = np.random.default_rng(3)
    image = np.zeros((side, side))
    image[side // 8 : side // 2, side // 6 : 2 * side // 3] = 1
    image[side // 3 : 5 * side // 6, side // 20 : side // 2] += 0.5
    noisy = (image + 0.1 * rng.standard_normal((side, side))).ravel()
    M = Differences(side)
    f = dapd.Quadratic(np.ones(side * side), noisy)
    return dapd.Problem(f, M, np.zeros(M.shape[0]), dapd.Box(-0.1, 0.1), spectrum=dapd.Spectrum(math.sqrt(8.0), 0.0))


def flow(nodes: int) -> dapd.Problem:
    """Separable quadratic costs on the edges of a random graph, with capacities."""
    rng = np.random.default_rng(4)
    i, j = rng.integers(nodes, size=3 * nodes), rng.integers(nodes, size=3 * nodes)
    apart = i != j
    i, j = np.r_[i[apart], np.arange(nodes)], np.r_[j[apart], (np.arange(nodes) + 1) % nodes]
    edges = len(i)
    H, c = np.exp(rng.uniform(0, 3, edges)), 5 * rng.standard_normal(edges)
    start = rng.uniform(-0.8, 0.8, edges)
    entries = np.r_[np.ones(edges), -np.ones(edges)]
    A = sp.csr_array((entries, (np.r_[i, j], np.r_[np.arange(edges), np.arange(edges)])), shape=(nodes, edges))
    return dapd.Problem(dapd.Quadratic(H, c), A, A @ start, bounds=(-1.0, 1.0))


def restarts(label: str, make: Callable[[], dapd.Problem], limit: float) -> None:
    """From zero to the tolerance, in both accuracies."""
    began = time.perf_counter()
    problem = make()
    say(f"{label}: made in {time.perf_counter() - began:.1f} s")
    for accuracy in ("objective", "solution"):
        from_zero(f"{label}, {accuracy}", problem, accuracy=accuracy, time_limit=limit)


def from_zero(label: str, problem: dapd.Problem, **options: Any) -> None:
    """The least time of three solves, after one that sets up, moves data and compiles."""
    solver = dapd.Solver(problem, engine="jax", tol=TOL, **options)
    began = time.perf_counter()
    solver.solve()
    first = time.perf_counter() - began
    zero = {"x0": np.zeros(problem.columns), "y0": np.zeros(problem.rows)}
    results = []
    for _ in range(3):
        solver.kept.learnt = Learnt()  # a solve from zero knows nothing of the one before
        results.append(solver.solve(**zero))
    result = min(results, key=lambda one: one.solve_time)
    say(
        f"{label}: {result.status}, {result.iterations} iterations, {result.solve_time:.3f} s, "
        f"{1e6 * result.solve_time / max(1, result.iterations):.0f} us each, error {result.certificate.error:.1e} "
        f"(set-up {result.setup_time:.2f} s; first solve {first:.1f} s)"
    )


def tv(quick: bool) -> None:
    sides = [512] if not on_gpu() else [512, 4096] if quick else [512, 4096, 8192]
    for side in sides:
        restarts(f"total variation {side}^2", lambda side=side: total_variation(side), limit=90)


def flows(quick: bool) -> None:
    sizes = [20_000] if not on_gpu() else [20_000, 1_000_000] if quick else [20_000, 1_000_000, 10_000_000]
    for nodes in sizes:
        restarts(f"flow with {nodes} nodes", lambda nodes=nodes: flow(nodes), limit=120)


def lp(quick: bool) -> None:
    for row in gpu_lp.ROWS:
        if not quick or row.bar < 0.5:
            gpu_lp.report(row, say)


# ---------------------------------------------------------------- products with a sparse M


def sparse(quick: bool) -> None:
    """Mx and Mᵀy for the incidence matrix of a random graph: the engine's gathers, segment sums, and cuSPARSE."""
    for nodes in (20_000, 1_000_000) if on_gpu() else (20_000,):
        M = flow(nodes).M.matrix.tocsr()
        pairs = {"gathers": _gathers(M), "segment sums": _segment_sums(M), "cuSPARSE": _cusparse(M)}
        for label, run in pairs.items():
            if run is not None:
                once = seconds(lambda run=run: run(100)) / 100
                say(f"incidence of {nodes} nodes, {M.nnz} entries: {label}: {once * 1e6:.1f} us for both products")


def _gathers(M: Any) -> Callable[[int], Any]:
    from dapd.engines.jax.gathers import gathered
    from dapd.engines.jax.maps import SparseMap

    with jax.enable_x64(True):
        placed = SparseMap(gathered(M, np.float64), gathered(M.T.tocsr(), np.float64))
    return _both_products(placed, M.shape, lambda M, x: M.forward(x), lambda M, y: M.adjoint(y))


def _segment_sums(M: Any) -> Callable[[int], Any]:
    from dapd.engines.jax.gathers import segments

    with jax.enable_x64(True):
        placed = (segments(M, np.float64), segments(M.T.tocsr(), np.float64))
    return _both_products(placed, M.shape, lambda M, x: M[0].apply(x), lambda M, y: M[1].apply(y))


def _both_products(placed: Any, shape: tuple[int, int], forward: Any, adjoint: Any) -> Callable[[int], Any]:
    def run(placed: Any, x: Any, number: Any) -> Any:
        return jax.lax.fori_loop(0, number, lambda _, x: 0.1 * adjoint(placed, forward(placed, x)), x)

    compiled = jax.jit(run)

    def call(steps: int) -> None:
        with jax.enable_x64(True):
            jax.block_until_ready(compiled(placed, jnp.ones(shape[1]), steps))

    return call


def _cusparse(M: Any) -> Callable[[int], Any] | None:
    try:
        import cupy
        import cupyx.scipy.sparse as csp
    except ImportError:
        return None
    if not on_gpu():
        return None
    here, transpose = csp.csr_matrix(M), csp.csr_matrix(M.T.tocsr())
    start = cupy.ones(M.shape[1])

    def call(steps: int) -> None:
        x = start
        for _ in range(steps):
            x = 0.1 * (transpose @ (here @ x))
        cupy.cuda.get_current_stream().synchronize()

    return call


# ---------------------------------------------------------------- batches


def control(quick: bool) -> None:
    problem = problem_of(control_model()[0])
    count = 10_000 if on_gpu() else 200
    starts = np.random.default_rng(5).uniform(-1.0, 1.0, (count, STATES))
    b = np.c_[-starts, np.zeros((count, HORIZON * STATES))]
    for k in range(2 if quick else 3):
        began = time.perf_counter()
        batch = dapd.solve_batch(problem, b=b, engine="jax", tol=TOL)
        whole = time.perf_counter() - began
        say(
            f"control x {count}: run {k + 1}: {batch}, whole call {whole:.2f} s, {1e3 * whole / count:.4f} ms each, "
            f"iterations median {np.median(batch.iterations):.0f}, most {batch.iterations.max()}"
        )
    some = b[: min(count, 200)]
    for engine in ("native", "auto"):
        try:
            began = time.perf_counter()
            batch = dapd.solve_batch(problem, b=some, engine=engine, tol=TOL)
            whole = time.perf_counter() - began
            say(f"control x {len(some)}: {engine} (CPU, threads): {batch}, {1e3 * whole / len(some):.2f} ms each")
        except (ValueError, ImportError) as error:
            say(f"control: {engine}: {error}")
    _osqp(b[: 100 * os.cpu_count()] if on_gpu() else some)


def _osqp(b: Any) -> None:
    """OSQP on all cores, a process for each; the time is that of the slowest process, without starts and set-ups."""
    if find_spec("osqp") is None:
        return
    cores = os.cpu_count() or 1
    with ProcessPoolExecutor(cores, multiprocessing.get_context("spawn")) as pool:
        slowest = max(pool.map(_osqp_seconds, np.array_split(b, cores)))
    say(f"control x {len(b)}: OSQP on {cores} cores: {1e3 * slowest / len(b):.4f} ms each")


def _osqp_seconds(b: Any) -> float:
    import osqp

    problem = problem_of(control_model()[0])
    n, work = problem.columns, osqp.OSQP()
    A = sp.csc_matrix(sp.vstack([problem.M.matrix, sp.eye_array(n)]))
    lower, upper = problem.bounds
    options = {"eps_abs": TOL, "eps_rel": TOL, "max_iter": 100_000, "verbose": False}
    P = sp.csc_matrix(sp.triu(problem.f.H))
    work.setup(P, np.zeros(n), A, np.r_[b[0], lower], np.r_[b[0], upper], **options)
    began = time.perf_counter()
    for own in b:
        work.update(l=np.r_[own, lower], u=np.r_[own, upper])
        work.warm_start(np.zeros(n), np.zeros(A.shape[0]))
        work.solve(raise_error=False)
    return time.perf_counter() - began


def cst(quick: bool) -> None:
    """256 compressed-sensing problems of 250 × 1000, each with its own M: time per iteration, and to 1e-6."""
    count = 256 if on_gpu() else 4
    different = [dapd.experiments.compressed_sensing(seed=k) for k in range(min(count, 8))]
    problems = [different[k % len(different)] for k in range(count)]
    rows, columns = problems[0].M.shape

    def took(steps: int) -> float:
        return float(dapd.solve_batch(problems, engine="jax", tol=1e-15, max_iterations=steps).solve_time)

    took(50)
    once = (took(450) - took(50)) / 400
    rate = 2 * count * rows * columns * 8 / once / 1e12
    say(f"CST x {count}: {once * 1e6:.0f} us per iteration of all, {rate:.2f} TB/s of M")
    for k in range(2):
        batch = dapd.solve_batch(problems, engine="jax", tol=TOL)
        most = batch.iterations.max()
        say(f"CST x {count}: run {k + 1}: {batch}, set-up {batch.setup_time:.1f} s, most iterations {most}")


PARTS: dict[str, Callable[[bool], None]] = {
    "dense": dense,
    "sparse": sparse,
    "lp": lp,
    "flow": flows,
    "tv": tv,
    "control": control,
    "cst": cst,
}


def chosen(name: str) -> Iterator[Callable[[bool], None]]:
    yield from PARTS.values() if name == "all" else [PARTS[name]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["all", *PARTS])
    parser.add_argument("--quick", action="store_true", help="leave out the largest sizes")
    given = parser.parse_args()
    say(f"jax {jax.__version__}, {jax.devices()[0].device_kind}, dapd {dapd.__version__}")
    for part in chosen(given.part):
        began = time.perf_counter()
        part(given.quick)
        say(f"({time.perf_counter() - began:.0f} s for this part)")


if __name__ == "__main__":
    main()
