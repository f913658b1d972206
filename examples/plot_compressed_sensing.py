r"""
Compressed sensing by four methods
==================================

A sparse signal is recovered from a quarter as many measurements as it has entries.

The problem is

.. math:: \min_x \ \sum_i \sqrt{x_i^2 + e^2} + \tfrac e2 x_i^2 \quad\text{subject to}\quad Mx = b,

with a smooth, strongly convex stand-in for :math:`\|x\|_1`. It is the first experiment of the paper, with its
condition numbers and fewer entries. x-DAPD and y-DAPD have the best possible rate with one product with :math:`M`
and one with :math:`M^T` per iteration; PAPC is not accelerated, and CAPD has inner Chebyshev iterations, each of
which is counted.
"""

from time import perf_counter

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np

import dapd

# %%
# The problem, with a solution found by Newton's method, which is independent of all four.
problem = dapd.experiments.compressed_sensing(seed=0, n=100, m=400, nonzeros=20)
problem = dapd.experiments.newton(problem)
methods = ("y-dapd", "x-dapd", "papc", "capd")
runs = {name: dapd.solve(problem, name, tol=0, max_iterations=30_000, history=True) for name in methods}
for name, run in runs.items():
    print(f"{name}: error {run.history.error[-1]:.1e} after {run.iterations:,} iterations, {run.solve_time:.1f} s")

# %%
# ``auto`` solves it too, and Clarabel needs a second-order cone for each entry of x.
began = perf_counter()
result = dapd.solve(problem, tol=1e-8)
seconds = perf_counter() - began
x = cp.Variable(problem.columns)
e = problem.f.e
lengths = cp.norm(cp.vstack([x, np.full(problem.columns, e)]), 2, axis=0)
reference = cp.Problem(cp.Minimize(cp.sum(lengths) + 0.5 * e * cp.sum_squares(x)), [problem.M.dense() @ x == problem.b])
reference.solve(solver=cp.CLARABEL)
times = {"dapd": seconds, "Clarabel": reference.solver_stats.solve_time}
difference = abs(result.objective - reference.value) / reference.value
assert difference < 1e-6
assert min(run.history.error[-1] for run in runs.values()) < 1e-3

# %%
# The signal, the best one that the measurements alone allow, and how the methods approach the first.
pseudo_inverse = np.linalg.pinv(problem.M.dense()) @ problem.b
figure, axes = plt.subplots(1, 2, figsize=(10.5, 4), layout="constrained")
axes[0].plot(pseudo_inverse, color="#adb5bd", lw=0.8, label="least norm")
spikes = np.flatnonzero(abs(result.x) > 0.5)
axes[0].vlines(spikes, 0, result.x[spikes], color="#1d3557", lw=1.2, label="recovered")
axes[0].set(xlabel="entry", title=f"{problem.rows} measurements of {problem.columns} entries")
axes[0].set_ylim(-0.55, 1.35)
axes[0].legend(ncols=2, loc="upper center")
for name, run in runs.items():
    axes[1].semilogy(run.history.iterations, run.history.error, lw=2, label=dapd.METHODS[name].title)
axes[1].set(xlabel="iterations (CAPD: inner)", ylabel="‖x − x*‖ / ‖x*‖")
axes[1].grid(alpha=0.3)
axes[1].legend()
plt.show()
