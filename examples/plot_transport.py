r"""
Transport, regularised by a square
==================================

How to move one pile of sand into the shape of another, with a plan that is sparse.

The problem is

.. math:: \min_X \ \sum_{ij} C_{ij} X_{ij} + \tfrac{w}{2} \|X\|_F^2
   \quad\text{subject to}\quad X \ge 0, \quad X1 = p, \quad X^T 1 = q .

With the square instead of the entropy the plan is sparse: most of it is exactly zero. The larger :math:`w`, the
wider it gets.
"""

from time import perf_counter

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np

import dapd

# %%
# Two piles on a line of 160 places.
t = np.linspace(0, 1, 160)
source = np.exp(-(((t - 0.25) / 0.08) ** 2)) + 0.6 * np.exp(-(((t - 0.62) / 0.1) ** 2)) + 0.02
target = np.exp(-(((t - 0.78) / 0.07) ** 2)) + 0.8 * np.exp(-(((t - 0.4) / 0.05) ** 2)) + 0.02
source, target = source / source.sum(), target / target.sum()
cost = (t[:, None] - t) ** 2

# %%
# Three weights; the middle one is compared with Clarabel.
plans, times = {}, {}
for weight in (1.0, 10.0, 100.0):
    began = perf_counter()
    result = dapd.solve(dapd.problems.transport(cost, source, target, weight), tol=1e-7)
    plans[weight] = result.x.reshape(cost.shape)
    print(f"weight {weight:g}: {result.method}, {perf_counter() - began:.2f} s")
    if weight == 10.0:
        middle, times["dapd"] = result, perf_counter() - began
X = cp.Variable(cost.shape)
reference = cp.Problem(
    cp.Minimize(cp.sum(cp.multiply(cost, X)) + 5.0 * cp.sum_squares(X)),
    [X >= 0, cp.sum(X, axis=1) == source, cp.sum(X, axis=0) == target],
)
reference.solve(solver=cp.CLARABEL)
times["Clarabel"] = reference.solver_stats.solve_time
difference = abs(middle.objective - reference.value) / reference.value
assert difference < 1e-5

# %%
# Each plan between its two piles: a row says where the sand of one place goes.
figure = plt.figure(figsize=(11, 4.3), layout="constrained")
parts = figure.subfigures(1, 3)
for part, (weight, plan) in zip(parts, plans.items(), strict=True):
    axes = part.subplots(
        2, 2, gridspec_kw={"width_ratios": [1, 4], "height_ratios": [1, 4], "wspace": 0.02, "hspace": 0.02}
    )
    axes[0, 0].axis("off")
    axes[0, 1].fill_between(t, target, color="#2a9d8f")
    axes[1, 0].fill_betweenx(t, source, color="#d1495b")
    axes[1, 0].invert_xaxis()
    axes[1, 1].imshow(
        np.sqrt(np.where(plan > 1e-9, plan, np.nan)), extent=(0, 1, 0, 1), origin="lower", cmap="magma_r", aspect="auto"
    )
    for ax in axes.ravel():
        ax.set(xticks=[], yticks=[])
    axes[0, 1].set(xlim=(0, 1), frame_on=False)
    axes[1, 0].set(ylim=(0, 1), frame_on=False)
    axes[0, 1].set_title(f"w = {weight:g}: {100 * np.mean(plan > 1e-9):.0f} % not zero")
plt.show()
