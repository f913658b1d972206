"""The dual step y = prox(base + Mv), Mᵀy: one fused pass against two products in NumPy, SciPy and JAX.

    python benchmarks/kernels.py            # all sizes
    python benchmarks/kernels.py --quick    # only the sizes of the published claims

All contestants take turns in one process. "floor" is the time to read M once on all threads, measured in the same
turns: no dual step can be faster. Ratios are times divided by the time of the fused pass.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

import dapd
from dapd import theory
from dapd.engines.native.runner import NativeRunner
from timing import copier, heading, medians, reader

DENSE = [(50, 150), (100, 300), (250, 1000), (500, 2000), (1000, 4000), (2000, 20000), (4000, 40000)]
SPARSE = [(10_000, 50_000, 200_000), (100_000, 500_000, 2_000_000), (500_000, 2_500_000, 10_000_000)]


class State(NamedTuple):
    """v, and what the dual step makes of it."""

    v: dapd.Primal
    y: dapd.Dual
    Mty: dapd.Primal


class OneDualStep(dapd.Method):
    """Nothing but a dual step."""

    name, title, reference = "one-dual-step", "one dual step", "this benchmark"
    record = theory.Papc
    settings = staticmethod(theory.papc)

    @staticmethod
    def first(p: Any, o: Any, x: Any, y: Any) -> State:
        """Any v, which is x⁰."""
        return State(x, y, x)

    @staticmethod
    def update(p: Any, o: Any, s: State) -> State:
        """The dual step."""
        return State(s.v, *o.dual_step(s.v, o.b, 0.5))


def fused_step(problem: dapd.Problem, v: Any, base: Any, threads: int | None = None) -> Callable[[], object]:
    method = OneDualStep.from_theory(problem, spectrum=dapd.Spectrum(1.0, 1.0), x0=v)
    runner = NativeRunner(method, threads=threads)
    return lambda: runner.advance(1, math.inf)


def two_products(M: Any, Mt: Any, v: Any, base: Any) -> Callable[[], object]:
    def call() -> tuple[Any, Any]:
        y = np.maximum(base + M @ v, 0.0)
        return y, Mt(y)

    return call


def in_jax(M: Any, v: Any, base: Any) -> dict[str, Callable[[], object]]:
    try:
        import jax
        import jax.numpy as jnp
    except ImportError:
        return {}
    jax.config.update("jax_enable_x64", True)

    @jax.jit
    def step(M: Any, v: Any, base: Any) -> tuple[Any, Any]:
        y = jnp.maximum(base + M @ v, 0.0)
        return y, y @ M

    if sp.issparse(M):
        from jax.experimental.sparse import BCOO

        M = BCOO.from_scipy_sparse(M)
    arrays = (M if not isinstance(M, np.ndarray) else jnp.asarray(M), jnp.asarray(v), jnp.asarray(base))
    return {"JAX": lambda: jax.block_until_ready(step(*arrays))}


def contest(title: str, calls: dict[str, Callable[[], object]], stored: int, read: Callable[[], object]) -> None:
    found = medians({**calls, "floor": read})
    ours, floor = found["fused"], found.pop("floor")
    others = ", ".join(f"{name} {t * 1e6:,.1f} µs ({t / ours:.2f})" for name, t in found.items() if name != "fused")
    print(
        f"{title}: fused {ours * 1e6:,.1f} µs, {stored / ours / 1e9:.1f} GB/s, {ours / floor:.2f} times the floor of "
        f"{floor * 1e6:,.1f} µs; {others}",
        flush=True,
    )


def dense(rows: int, columns: int, order: str, dtype: Any) -> None:
    rng = np.random.default_rng(0)
    M = np.asarray(rng.standard_normal((rows, columns), dtype), order=order)
    v, base = rng.standard_normal(columns, dtype), rng.standard_normal(rows, dtype)
    problem = dapd.Problem(dapd.PseudoHuber(1.0), M, base, dapd.NonNegative())
    calls = {
        "fused": fused_step(problem, v, base),
        "fused on one thread": fused_step(problem, v, base, 1),
        "NumPy": two_products(M, lambda y: y @ M, v, base),
    }
    if order == "C" and dtype is np.float64 and M.nbytes < 1e9:
        calls |= in_jax(M, v, base)
    contest(f"{rows} × {columns} {np.dtype(dtype)} {order}", calls, M.nbytes, reader(M))


def scattered(rows: int, columns: int, nonzeros: int) -> Any:
    rng = np.random.default_rng(0)
    return sp.random_array((rows, columns), density=nonzeros / rows / columns, format="csr", rng=rng)


def differences(side: int) -> Any:
    """The differences of an image's pixels in both directions."""
    steps = sp.diags_array([-np.ones(side - 1), np.ones(side - 1)], offsets=[0, 1], shape=(side - 1, side))
    one = sp.eye_array(side)
    return sp.vstack([sp.kron(steps, one), sp.kron(one, steps)]).tocsr()


def graph(nodes: int, edges: int) -> Any:
    """The incidence matrix of a random graph."""
    rng = np.random.default_rng(0)
    ends, ones, each = rng.integers(nodes, size=(2, edges)), np.ones(edges), np.arange(edges)
    return sp.csr_array((np.r_[ones, -ones], (ends.ravel(), np.r_[each, each])), shape=(nodes, edges))


def sparse(label: str, M: Any) -> None:
    rng, (rows, columns) = np.random.default_rng(0), M.shape
    Mt = M.T.tocsr()
    v, base = rng.standard_normal(columns), rng.standard_normal(rows)
    problem = dapd.Problem(dapd.PseudoHuber(1.0), M, base, dapd.NonNegative())
    calls = {
        "fused": fused_step(problem, v, base),
        "fused on one thread": fused_step(problem, v, base, 1),
        "SciPy, stored transpose": two_products(M, lambda y: Mt @ y, v, base),
        "SciPy, view of the transpose": two_products(M, lambda y: M.T @ y, v, base),
        **in_jax(M, v, base),
    }
    stored = M.data.nbytes + M.indices.nbytes
    contest(f"{label} {rows} × {columns}, {M.nnz} nonzeros", calls, stored, reader(np.ones(stored // 8)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    print(heading())
    size = 40_000_000
    bandwidth = 16 * size / medians({"copy": copier(size)})["copy"] / 1e9
    print(f"copying on all threads moves {bandwidth:.1f} GB/s (reads and writes counted)")
    for rows, columns in [(250, 1000), (2000, 20000)] if quick else DENSE:
        dense(rows, columns, "C", np.float64)
        if not quick:
            dense(rows, columns, "F", np.float64)
            dense(rows, columns, "C", np.float32)
    for size in SPARSE[1:2] if quick else SPARSE:
        sparse("CSR", scattered(*size))
    sparse("differences", differences(512))
    sparse("graph", graph(20_000, 80_000))


if __name__ == "__main__":
    main()
