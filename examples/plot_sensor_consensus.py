r"""
Sensors that agree
==================

Around a lake stand 160 sensors. Each has forty noisy readings of the temperature of the shore around itself, knows
nothing of the rest, and talks to its two neighbours only. Still all of them come to know the temperature
everywhere.

The problem is

.. math:: \min_{x_1, \ldots, x_N} \ \sum_i \tfrac12 \|A_i x_i - d_i\|^2 + \tfrac{w}{2} \|x_i\|^2
   \quad\text{subject to}\quad x_i = x_j \ \text{ for neighbours } i, j .

One iteration is one exchange of messages, and news needs many of them to get around the lake. x-DAPD and y-DAPD,
one for data that are hard and one for networks that are, have the best guarantees. This network is kind, though:
PAPC does as well as the better of them, and far better than it promises.
"""

from time import perf_counter

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse as sp
from matplotlib.collections import LineCollection

import dapd

# %%
# The temperature is a sum of sixteen bumps with unknown heights. Every sensor reads it at forty places around
# itself.
rng = np.random.default_rng(1)
N, p, weight = 160, 16, 0.2
angle = np.sort(rng.random(N)) * 2 * np.pi
edges = np.column_stack([np.arange(N), (np.arange(N) + 1) % N])
centres = np.linspace(0, 2 * np.pi, p, endpoint=False)
heights = rng.uniform(-1, 1, p) * 4


def bumps(at):
    return np.exp((np.cos(at[:, None] - centres) - 1) / 0.06)


where = angle[:, None] + 0.4 * rng.standard_normal((N, 40))
blocks = [bumps(at) for at in where]
readings = [A @ heights + 2.0 * rng.standard_normal(40) for A in blocks]
functions = [dapd.LeastSquares(A, d, ridge=weight) for A, d in zip(blocks, readings, strict=True)]
problem = dapd.problems.consensus(functions, edges)

# %%
# What a centre with all readings would compute, and Clarabel with all copies of x.
A, d = np.vstack(blocks), np.concatenate(readings)
central = np.linalg.solve(A.T @ A + N * weight * np.eye(p), A.T @ d)
x = cp.Variable(N * p)
cost = 0.5 * cp.sum_squares(sp.block_diag(blocks, format="csr") @ x - d) + 0.5 * weight * cp.sum_squares(x)
reference = cp.Problem(cp.Minimize(cost), [problem.M.sparse() @ x == 0])
reference.solve(solver=cp.CLARABEL)

# %%
# Four methods with the parameters of their theorems, and ``auto``, which prefers to factorise a ring.
problem = problem.with_solution(np.tile(central, N))
began = perf_counter()
result = dapd.solve(problem, tol=1e-8)
times = {"dapd": perf_counter() - began, "Clarabel": reference.solver_stats.solve_time}
difference = abs(result.objective - reference.value) / reference.value
assert difference < 1e-6
assert abs(result.x.reshape(N, p) - central).max() < 1e-5
names = ("y-dapd", "x-dapd", "papc", "capd")
runs = {name: dapd.solve(problem, name, tol=1e-8, max_iterations=8000, history=True) for name in names}

# %%
# The lake with its temperature, what one sensor alone would believe, and how fast all of them come to agree.
figure, axes = plt.subplots(1, 3, figsize=(12.5, 4), layout="constrained")
turn = np.linspace(0, 2 * np.pi, 600)


def shore(at, out=1.0):
    radius = out * (1 + 0.14 * np.cos(2 * at + 0.4) + 0.09 * np.sin(3 * at) + 0.03 * np.cos(7 * at))
    return np.column_stack([1.25 * radius * np.cos(at), radius * np.sin(at)])


agreed = bumps(turn) @ result.x[:p]
line = shore(turn)
axes[0].fill(*line.T, color="#d7e8f2")
strip = LineCollection(np.stack([line[:-1], line[1:]], axis=1), cmap="coolwarm", linewidths=9, clim=(-3, 3))
strip.set_array(agreed[:-1])
axes[0].add_collection(strip)
axes[0].plot(*shore(angle).T, "k.", ms=4)
axes[0].set(title=f"{N} sensors, each with two neighbours", aspect="equal")
axes[0].axis("off")
figure.colorbar(strip, ax=axes[0], label="temperature, agreed by all", location="bottom", shrink=0.8)
one = N // 3
alone = np.linalg.solve(blocks[one].T @ blocks[one] + weight * np.eye(p), blocks[one].T @ readings[one])
near = np.degrees(where[one])
axes[1].plot(near, readings[one], ".", color="#e09f3e", ms=4, label="readings of one sensor")
axes[1].plot(np.degrees(turn), bumps(turn) @ heights, color="#2a9d8f", lw=1.5, label="truth")
axes[1].plot(np.degrees(turn), bumps(turn) @ alone, color="#e09f3e", lw=1.5, label="what it alone would think")
axes[1].plot(np.degrees(turn), agreed, color="#d1495b", lw=2, label="agreed by all")
axes[1].set(xlabel="angle, degrees", ylabel="temperature", xlim=(0, 360))
axes[1].legend(fontsize="small")
for name, run in runs.items():
    axes[2].semilogy(run.history.iterations, run.history.error, label=dapd.METHODS[name].title, lw=2)
axes[2].set(xlabel="exchanges of messages", ylabel="‖x − x*‖ / ‖x*‖", ylim=(1e-8, 2))
axes[2].grid(alpha=0.3)
axes[2].legend()
plt.show()
