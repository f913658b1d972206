"""Whole iterations: the native engine against NumPy written by hand, the python engine, and JAX.

    python benchmarks/iterations.py

All contestants take turns in one process and make the same iterations. "by hand" is the method written out in NumPy
for this problem, with nothing checked and nothing counted. "python" is `engine="python"`, the step of the method on
NumPy arrays. JAX runs that step inside `fori_loop`. Before and after, the time for two threads to meet is measured: the
two cores of a virtual machine may be close, far apart or the same, and this may change during the run.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

import dapd
from timing import heading, medians, meeting

METHOD = "y-dapd"


def by_hand(problem: dapd.Problem, p: Any, steps: int) -> Callable[[], object]:
    """y-DAPD written in NumPy."""
    f, b, phi = problem.f, problem.b, problem.phi
    if isinstance(problem.M, dapd.Kronecker):
        A = problem.M.A

        def forward(v: Any) -> Any:
            return (A @ v.reshape(A.shape[1], -1)).ravel()

        def adjoint(y: Any) -> Any:
            return (A.T @ y.reshape(A.shape[0], -1)).ravel()

    else:
        M = problem.M.matrix
        Mt = M.T.tocsr() if sp.issparse(M) else None

        def forward(v: Any) -> Any:
            return M @ v

        def adjoint(y: Any) -> Any:
            return y @ M if Mt is None else Mt @ y

    def run() -> Any:
        x, y, w = np.zeros(problem.columns), np.zeros(problem.rows), np.zeros(problem.rows)
        Mty, Mtw = np.zeros_like(x), np.zeros_like(x)
        for _ in range(steps):
            g = f.grad(x)
            y_new = phi.prox(w + forward(p.s * x - p.s_hat * (Mtw + g)) - p.s * b, p.s)
            Mty_new = adjoint(y_new)
            w = (1 + p.gamma) * y_new - p.gamma * y
            Mtw = (1 + p.gamma) * Mty_new - p.gamma * Mty
            x = x - p.t_tilde * (g + (1 + p.tau) * Mtw - p.tau * Mty_new)
            y, Mty = y_new, Mty_new
        return x

    return run


class JaxOracle:
    """The oracle of a step, in JAX."""

    def __init__(self, problem: dapd.Problem) -> None:
        import jax.numpy as jnp

        self.grad, self.phi, self.b = problem.f.grad, problem.phi, jnp.asarray(problem.b)
        self.M = jnp.asarray(problem.M.matrix)

    def dual_step(self, v: Any, base: Any, step: Any) -> tuple[Any, Any]:
        """prox(base + Mv) and Mᵀ of it."""
        y = self.phi.prox(base + self.M @ v, step)
        return y, y @ self.M


def in_jax(method: Any, steps: int) -> dict[str, Callable[[], object]]:
    problem = method.problem
    if not isinstance(getattr(problem.M, "matrix", None), np.ndarray):
        return {}
    try:
        import jax
    except ImportError:
        return {}
    jax.config.update("jax_enable_x64", True)
    oracle = JaxOracle(problem)
    state = jax.tree.map(jax.numpy.asarray, method.init())
    run = jax.jit(
        lambda s: jax.lax.fori_loop(0, steps, lambda _, s: type(method).update(method.parameters, oracle, s), s)
    )
    return {"JAX": lambda: jax.block_until_ready(run(state))}


def contest(title: str, problem: dapd.Problem, steps: int) -> None:
    cls = dapd.METHODS[METHOD]
    method = cls.from_theory(problem, spectrum=cls.spectrum_of(problem, None))
    native, python = dapd.bind(method, "native"), dapd.bind(method, "python")
    first = method.init()
    hand = by_hand(problem, method.parameters, steps)

    def run(runner: Any) -> Callable[[], object]:
        def call() -> None:
            runner.state = first
            runner.advance(steps, math.inf)

        return call

    run(native)()
    ours = native.point()[0]
    assert np.linalg.norm(ours - hand()) <= 1e-9 * np.linalg.norm(ours)
    calls = {"native": run(native), "by hand": hand, "python": run(python), **in_jax(method, steps)}
    apart = meeting()
    found = {name: t / steps for name, t in medians(calls, 2.0).items()}
    best, meetings = found.pop("native"), " and ".join(f"{t * 1e6:.2f}" for t in (apart, meeting()))
    others = ", ".join(f"{name} {t * 1e6:,.1f} µs ({t / best:.2f})" for name, t in found.items())
    print(f"{title}: native {best * 1e6:,.1f} µs per iteration; {others}; a meeting {meetings} µs", flush=True)


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    print(heading())
    rng = np.random.default_rng(0)
    contest("CST, 250 × 1000", dapd.experiments.compressed_sensing(0), 1000)
    contest("QP, 100 × 300, dense H, ℓ₁", dapd.experiments.qp_l1(0), 1000)
    contest("System identification, p = 40, T = 10", dapd.experiments.system_identification(0), 1000)
    large = dapd.experiments.system_identification(0, p=100, T=20, condition=1e4)
    contest("System identification, p = 100, T = 20", large, 300)
    contest("CST, 50 × 150", dapd.experiments.compressed_sensing(0, n=50, m=150, nonzeros=10), 2000)
    contest("CST, 1000 × 4000", dapd.experiments.compressed_sensing(0, n=1000, m=4000), 10)
    rows, columns, nonzeros = 100_000, 500_000, 2_000_000
    M = sp.random_array((rows, columns), density=nonzeros / rows / columns, format="csr", rng=rng)
    b, spectrum = M @ rng.standard_normal(columns), dapd.Spectrum(10.0, 0.1)
    contest(f"CSR {rows} × {columns}", dapd.Problem(dapd.PseudoHuber(0.1), M, b, spectrum=spectrum), 3)
    rows, columns = 2_000, 20_000
    M = np.asfortranarray(rng.standard_normal((rows, columns)))
    contest(
        f"Fortran order, {rows} × {columns}",
        dapd.Problem(dapd.PseudoHuber(0.1), M, np.ones(rows), spectrum=dapd.Spectrum(190.0, 90.0)),
        5,
    )


if __name__ == "__main__":
    main()
