"""Time per iteration against the number of devices: a model, checked with forced host devices, and its predictions.

    python benchmarks/scaling.py            # measures with 1, 2, 4 and 8 devices of this host, then predicts

With M (n × m entries of s bytes) divided by columns over p devices, an iteration takes

    T(p) = t₀ + 2nms/(pB) + kms/(pB) + R(p, n),    R(p, n) = 2·⌈log₂ p⌉·λ + 2(p − 1)/p·ns/W

t₀ is what an iteration takes besides (kernel launches), B the bandwidth of a device's memory, k the vectors as long as
x that an iteration reads and writes, λ the latency of a message and W the bandwidth of a link: R is the all-reduce of
one vector of n entries. Host devices share one memory, so there B is divided by p.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from typing import Any, NamedTuple

SIZES = [(256, 8192), (512, 32_768)]
DEVICES = (1, 2, 4, 8)
VECTORS = 12  # of y-DAPD, as long as x
STEPS, REPEATS = 20, 15
LONGER = 5  # ratio of the iterations of two solves whose times are subtracted


class Machine(NamedTuple):
    """The constants of the model."""

    start: float  # t₀, seconds
    memory: float  # B, bytes per second and device
    latency: float  # λ, seconds
    link: float  # W, bytes per second

    def seconds(self, rows: int, columns: int, devices: int, size: int = 8) -> float:
        """T(p)."""
        bytes_of_M, bytes_of_x = 2 * rows * columns * size, VECTORS * columns * size
        return self.start + (bytes_of_M + bytes_of_x) / (devices * self.memory) + self.all_reduce(rows * size, devices)

    def all_reduce(self, size: int, devices: int) -> float:
        """R(p, n)."""
        if devices == 1:
            return 0.0
        return 2 * math.ceil(math.log2(devices)) * self.latency + 2 * (devices - 1) / devices * size / self.link


# an H200 (4.3 TB/s as a copy measures it), NVLink inside a node of 8, 400 Gb/s per GPU between nodes
IN_A_NODE = Machine(start=10e-6, memory=4.3e12, latency=4e-6, link=350e9)
BETWEEN_NODES = Machine(start=10e-6, memory=4.3e12, latency=8e-6, link=40e9)


def measure(devices: int) -> dict[str, Any]:
    """Seconds per iteration and per all-reduce in this process, which has so many devices."""
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    import dapd

    mesh = Mesh(np.array(jax.devices()), ("device",))
    found: dict[str, Any] = {}
    for rows, columns in SIZES:
        M = np.random.default_rng(0).standard_normal((rows, columns)) / math.sqrt(columns)
        problem = dapd.Problem(dapd.PseudoHuber(0.1), M, np.ones(rows))

        def took(steps: int, problem: dapd.Problem = problem) -> float:
            limits = {"tol": 0.0, "max_iterations": steps, "spectrum": dapd.Spectrum(2.0, 0.5)}
            return float(dapd.solve(problem, "y-dapd", engine="jax", mesh=mesh, **limits).solve_time)

        took(STEPS)
        times = [(took(LONGER * STEPS) - took(STEPS)) / ((LONGER - 1) * STEPS) for _ in range(REPEATS)]
        with jax.enable_x64(True):
            parts = jax.device_put(jnp.ones((devices, rows)), NamedSharding(mesh, PartitionSpec("device")))
            total = jax.jit(lambda v: jax.lax.fori_loop(0, STEPS, lambda _, w: w + 0 * jnp.sum(w, axis=0), v))
            jax.block_until_ready(total(parts))
            sums = []
            for _ in range(REPEATS):
                began = time.perf_counter()
                jax.block_until_ready(total(parts))
                sums.append((time.perf_counter() - began) / STEPS)
        found[f"{rows} x {columns}"] = float(np.median(times)), min(sums)
    return found


def in_own_process(devices: int) -> dict[str, Any]:
    environment = {**os.environ, "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}"}
    done = subprocess.run(
        [sys.executable, __file__, "--devices", str(devices)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def check() -> None:
    """Measured against predicted: the memory's bandwidth from one device, the all-reduce from its own measurement."""
    found = {devices: in_own_process(devices) for devices in DEVICES}
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    print(f"{'M':>12} {'devices':>8} {'measured':>10} {'model':>10} {'ratio':>6}   (host with {cores} cores)")
    for rows, columns in SIZES:
        key = f"{rows} x {columns}"
        one = found[1][key][0]
        for devices in DEVICES:
            measured, reduce = found[devices][key]
            # devices of a host share its memory: one of them can use nearly all of its bandwidth, so B is divided by p
            predicted = one + (reduce if devices > 1 else 0.0)
            ratio = measured / predicted
            print(f"{key:>12} {devices:>8} {1e3 * measured:>7.2f} ms {1e3 * predicted:>7.2f} ms {ratio:>6.2f}")


def predict() -> None:
    """What the model says of GPUs."""
    sizes = [(16_384, 131_072), (65_536, 1_048_576), (100_000, 10_000_000)]
    print("\npredicted time per iteration in ms (part of the linear speed-up) for float64")
    print(f"{'M':>24} " + " ".join(f"{p:>15}" for p in (1, 8, 64, 256, 1024)))
    for rows, columns in sizes:
        one = IN_A_NODE.seconds(rows, columns, 1)
        cells = []
        for devices in (1, 8, 64, 256, 1024):
            machine = IN_A_NODE if devices <= 8 else BETWEEN_NODES
            t = machine.seconds(rows, columns, devices)
            fits = 8 * rows * columns / devices < 120e9
            cells.append(f"{1e3 * t:>8.3f} ({100 * one / devices / t:>3.0f}%)" if fits else f"{'too large':>15}")
        print(f"{f'{rows:,} x {columns:,}':>24} " + " ".join(cells))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, help="measure in this process, for internal use")
    given = parser.parse_args()
    if given.devices:
        print(json.dumps(measure(given.devices)))
        return
    check()
    predict()


if __name__ == "__main__":
    main()
