r"""
A system identified in spite of attacks
=======================================

A linear system is identified from a trajectory, although someone kicked it hard in a third of all instants.

The system :math:`s_{t+1} = X s_t + w_t` is watched for a while. Mostly :math:`w_t = 0`, but now and then someone
kicks it hard. Least squares spreads the kicks over all of :math:`X`; a sum of norms, which is not squared, ignores
them:

.. math:: \min_X \ \sum_t \| s_{t+1} - X s_t \|_2 + \tfrac{w}{2} \|X\|_F^2 .

The coupling is a Kronecker product :math:`S^T \otimes I`, which is never formed, and each instant is one group of
rows.
"""

from time import perf_counter

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np

import dapd

# %%
# A ring of 24 oscillators that pull their neighbours, kicked in a third of all instants.
p, T = 24, 90
rng = np.random.default_rng(3)
X = 0.55 * np.eye(p) + 0.22 * (np.roll(np.eye(p), 1, axis=1) - np.roll(np.eye(p), -1, axis=1))
X += 0.25 * np.roll(np.eye(p), p // 2, axis=1) * (np.arange(p) % 4 == 0)[:, None]
kicked = rng.random(T) < 0.33
states = [rng.standard_normal(p)]
for kick in kicked:
    states.append(X @ states[-1] + kick * rng.standard_normal(p))
S = np.array(states)

# %%
# x holds the columns of X, one after the other, so a row of residuals is one instant.
weight = 1e-3
began = perf_counter()
f = dapd.Quadratic(np.full(p * p, weight))
problem = dapd.Problem(f, dapd.Kronecker(S[:-1], p), S[1:].ravel(), dapd.GroupBall(1.0, p))
result = dapd.solve(problem)
seconds = perf_counter() - began
robust = result.x.reshape(p, p).T
squares = np.linalg.lstsq(S[:-1], S[1:], rcond=None)[0].T
print(result.summary())

# %%
# Clarabel solves the same problem with second-order cones.
Y = cp.Variable((p, p))
misfit = cp.sum(cp.norm(S[1:] - S[:-1] @ Y.T, 2, axis=1))
reference = cp.Problem(cp.Minimize(misfit + 0.5 * weight * cp.sum_squares(Y)))
reference.solve(solver=cp.CLARABEL)
times = {"dapd": seconds, "Clarabel": reference.solver_stats.solve_time}
difference = abs(result.objective - reference.value) / reference.value
assert difference < 1e-5
assert abs(robust - X).max() < 0.05 * abs(squares - X).max()

# %%
# The truth, and the two estimates. Below, what the robust one says happened at each instant.
figure = plt.figure(figsize=(9.5, 4.9), layout="constrained")
grid = figure.add_gridspec(2, 3, height_ratios=[3, 1])
limit = abs(X).max()
for k, (matrix, title) in enumerate(((X, "truth"), (squares, "least squares"), (robust, "sum of norms"))):
    ax = figure.add_subplot(grid[0, k])
    shown = ax.imshow(matrix, cmap="RdBu_r", vmin=-limit, vmax=limit)
    error = abs(matrix - X).max()
    ax.set(title=title if k == 0 else f"{title}: error {error:.1e}", xticks=[], yticks=[])
figure.colorbar(shown, ax=figure.axes, shrink=0.7)
ax = figure.add_subplot(grid[1, :])
size = np.linalg.norm(S[1:] - S[:-1] @ robust.T, axis=1)
ax.bar(np.arange(T), size, color=np.where(kicked, "#d1495b", "#2a9d8f"), width=0.9)
ax.set(xlabel="instant (red: kicked)", ylabel="residual", xlim=(-1, T))
plt.show()
