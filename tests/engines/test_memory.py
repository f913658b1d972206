"""No avoidable copies: what a solve takes beside M."""

import os
import subprocess
import sys

import pytest

ROWS, COLUMNS, ALLOWED = 25, 250_000, 14
SCRIPT = """
import gc
import sys
import numpy as np
import scipy.sparse as sp
import dapd

rows, columns, method, order = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
rng = np.random.default_rng(0)
if order == "CSR":
    each = 2_000
    places = rng.integers(columns, size=rows * each, dtype=np.int32)
    M = sp.csr_array((rng.random(places.size), places, np.arange(0, places.size + 1, each)), shape=(rows, columns))
    stored = 12 * places.size  # instead of the transpose
else:
    M, stored = np.asarray(rng.random((rows, columns)), order=order), 0
problem = dapd.Problem(dapd.PseudoHuber(0.1), M, rng.random(rows), spectrum=dapd.Spectrum(1e4, 1.0))
dapd.solve(problem, method, tol=0, max_iterations=2)  # loads what is loaded once

def kilobytes(key):
    with open("/proc/self/status") as status:
        return int(next(line for line in status if line.startswith(key)).split()[1])

gc.collect()
before = kilobytes("VmRSS")
with open("/proc/self/clear_refs", "w") as peak:
    peak.write("5")
assert dapd.solve(problem, method, tol=1e-12, max_iterations=25).engine == "native"
print(((kilobytes("VmHWM") - before) * 1024 - stored) / 8 / (rows + columns))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read from /proc")
@pytest.mark.parametrize(
    ("method", "order", "threads"),
    [("x-dapd", "C", 1), ("y-dapd", "C", 2), ("papc", "F", 1), ("papc", "F", 2), ("y-dapd", "CSR", 2)],
)
def test_a_solve_takes_fourteen_vectors_beside_a_large_matrix_and_one_per_further_thread(method, order, threads):
    command = [sys.executable, "-c", SCRIPT, str(ROWS), str(COLUMNS), method, order]
    counts = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), str(threads))
    # a vector that is freed goes back to the system, so nothing that an earlier solve left behind is used again
    env = {**os.environ, **counts, "MALLOC_MMAP_THRESHOLD_": str(1 << 18)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    # while several threads run, each of them adds up a part of Mᵀy of its own
    assert float(done.stdout) <= ALLOWED + threads - 1
