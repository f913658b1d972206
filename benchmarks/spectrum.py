"""Singular values: the time of an estimate, compared with 1,000 pairs of products, and its distance from the truth.

    python benchmarks/spectrum.py            # all matrices
    python benchmarks/spectrum.py --quick    # only those with up to 3,000 rows

"all rows" is an estimate for any φ, "positive" an estimate for φ ≡ 0; "dense" is the time of all eigenvalues of MMᵀ.
A distance is (estimate − truth)/truth. Up to rounding, it must not be negative for s_max, nor positive for s_min.
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import warnings
from collections.abc import Iterator
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse as sp

import dapd

ROUNDS = 5
DENSE = 3_000  # rows up to which the truth is computed by dense linear algebra
ZERO = 1e-13  # fraction of s_max below which a true singular value is zero


class Case(NamedTuple):
    """A matrix to estimate."""

    name: str
    M: Any
    truth: Any = None  # all singular values, if there is a formula


def incidence(nodes: int, edges: int) -> Any:
    """A path with additional random edges."""
    rng = np.random.default_rng(0)
    tail = np.r_[np.arange(nodes - 1), rng.integers(0, nodes, edges - nodes + 1)]
    head = np.r_[np.arange(1, nodes), (tail[nodes - 1 :] + rng.integers(1, nodes, edges - nodes + 1)) % nodes]
    edge = np.arange(edges)
    entries = np.r_[np.ones(edges), -np.ones(edges)]
    return sp.csr_array((entries, (np.r_[tail, head], np.r_[edge, edge])), (nodes, edges))


def second_differences(size: int) -> Case:
    """A tridiagonal matrix with a known spectrum."""
    M = sp.diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(size, size)).tocsr()
    truth = 4 * np.sin(np.arange(size, 0, -1) * np.pi / (2 * (size + 1))) ** 2
    return Case(f"second differences, {size:,} × {size:,}", M, truth)


def cases(quick: bool) -> Iterator[Case]:
    rng = np.random.default_rng(0)
    yield Case("incidence, 2,000 nodes, 8,000 edges", incidence(2_000, 8_000))
    if not quick:
        yield Case("incidence, 40,000 nodes, 160,000 edges", incidence(40_000, 160_000))
    yield second_differences(2_000)
    if not quick:
        yield second_differences(100_000)
    yield Case("identity, 2,000 × 2,000", sp.eye_array(2_000, format="csr"), np.ones(2_000))
    scattered = sp.random_array((3_000, 10_000), density=1e-3, rng=rng, format="csr", data_sampler=rng.standard_normal)
    yield Case("random sparse, 3,000 × 10,000", scattered)
    yield Case("dense, 250 × 1,000", rng.standard_normal((250, 1_000)))
    yield Case("dense, 1,000 × 4,000", rng.standard_normal((1_000, 4_000)))
    t = np.linspace(0, 1, 100)
    yield Case("Gaussian kernel, 100 × 100", np.exp(-10 * (t[:, None] - t) ** 2))


def estimate(M: Any, positive: bool) -> tuple[dapd.Spectrum, float]:
    """The estimate and its time, the smallest of ROUNDS."""
    times = []
    for _ in range(ROUNDS):
        began = perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", dapd.SpectrumWarning)
            found = dapd.estimate_spectrum(M, positive=positive)
        times.append(perf_counter() - began)
    return found, min(times)


def thousand_pairs(M: Any) -> float:
    """Seconds for 1,000 products with M and with Mᵀ."""
    x, transpose, times = np.ones(M.shape[1]), M.T, []
    for _ in range(ROUNDS):
        began = perf_counter()
        for _ in range(10):
            transpose @ (M @ x)
        times.append(perf_counter() - began)
    return 100 * min(times)


def by_dense_algebra(M: Any) -> float:
    """Seconds for all eigenvalues of MMᵀ; nan if M is too large."""
    if M.shape[0] > DENSE:
        return math.nan
    began = perf_counter()
    gram = M @ M.T
    scipy.linalg.eigvalsh(gram.toarray() if sp.issparse(gram) else gram)
    return perf_counter() - began


def singular_values(case: Case) -> Any:
    if case.truth is not None or case.M.shape[0] > DENSE:
        return case.truth
    return scipy.linalg.svdvals(case.M.toarray() if sp.issparse(case.M) else case.M)


def distance(found: float, truth: float) -> str:
    return "dependent" if found == truth == 0 else f"{found / truth - 1:+.1e}"


def row(case: Case) -> str:
    anything, time_any = estimate(case.M, positive=False)
    equations, time_positive = estimate(case.M, positive=True)
    values = singular_values(case)
    apart = ["", "", ""]
    if values is not None:
        positive = values[values > ZERO * values[0]]
        least = values[-1] if len(positive) == len(values) else 0.0
        apart = [
            distance(anything.s_max, values[0]),
            distance(anything.s_min, least) if least or anything.s_min == 0 else "above",
            distance(equations.s_min, positive[-1]),
        ]
    times = [time_any, time_positive, thousand_pairs(case.M), by_dense_algebra(case.M)]
    numbers = " | ".join("" if math.isnan(seconds) else f"{seconds:.4f}" for seconds in times)
    resolved = "" if anything.resolved and equations.resolved else ", unresolved"
    return f"| {case.name} | {numbers} | {' | '.join(apart)} | {equations.how['s_min'].method}{resolved} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="only matrices with up to 3,000 rows")
    quick = parser.parse_args().quick
    load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    versions = f"NumPy {np.__version__}, SciPy {scipy.__version__}"
    print(f"{platform.machine()}, {os.cpu_count()} cores{load}, {versions}; seconds")
    print("| M | all rows | positive | 1,000 pairs | dense | s_max | s_min | positive s_min | how |")
    print("|---|---|---|---|---|---|---|---|---|")
    for case in cases(quick):
        print(row(case), flush=True)


if __name__ == "__main__":
    main()
