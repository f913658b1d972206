r"""
A support vector machine
========================

A spiral border between two classes, found by a linear machine in random features.

Two classes that no line separates become nearly separable after :math:`a = \cos(Wp + c)` with random :math:`W`,
and then a linear machine finds the border:

.. math:: \min_x \ \tfrac12 \|x\|^2 + C \sum_i \max(0,\ 1 - \ell_i a_i^T x) .

The hinge is :math:`\varphi^*` of a box, :math:`0 \le y_i \le C`, and the multipliers :math:`y` say which points
matter: those with :math:`y_i > 0` support the border.
"""

from time import perf_counter

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np

import dapd

# %%
# Two spirals with noise, in 200 random features.
rng = np.random.default_rng(0)
angle = np.sqrt(rng.random(2000)) * 3.2 * np.pi
labels = np.where(np.arange(2000) < 1000, 1.0, -1.0)
points = (labels * angle)[:, None] * np.column_stack([np.cos(angle), np.sin(angle)]) / 10
points += 0.05 * rng.standard_normal(points.shape)
W, shift = 4.5 * rng.standard_normal((2, 200)), rng.uniform(0, 2 * np.pi, 200)


def features(p):
    return np.cos(p @ W + shift) * np.sqrt(2 / 200)


A = features(points)

# %%
# dapd, and Clarabel.
began = perf_counter()
result = dapd.solve(dapd.problems.svm(A, labels, 5.0))
seconds = perf_counter() - began
x = cp.Variable(200)
hinge = cp.sum(cp.pos(1 - cp.multiply(labels, A @ x)))
reference = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(x) + 5.0 * hinge))
reference.solve(solver=cp.CLARABEL)
times = {"dapd": seconds, "Clarabel": reference.solver_stats.solve_time}
difference = abs(result.objective - reference.value) / reference.value
assert difference < 1e-5
right = np.mean(np.sign(A @ result.x) == labels)
print(f"{100 * right:.1f} % right, {np.sum(result.y > 1e-6)} support vectors")

# %%
# The score in colour, the border in black, and rings around the points that support it.
axis = np.linspace(-1.15, 1.15, 300)
plane = np.stack(np.meshgrid(axis, axis), axis=-1)
score = (features(plane.reshape(-1, 2)) @ result.x).reshape(300, 300)
figure, ax = plt.subplots(figsize=(6.6, 5.6), layout="constrained")
shown = ax.contourf(axis, axis, np.clip(score, -3, 3), 24, cmap="RdBu", alpha=0.75)
ax.contour(axis, axis, score, [-1, 0, 1], colors="k", linewidths=[0.7, 2, 0.7], linestyles=["--", "-", "--"])
for label, colour in ((1, "#1d3557"), (-1, "#9d0208")):
    ax.plot(*points[labels == label].T, ".", ms=3, color=colour)
support = result.y > 1e-6
ax.plot(*points[support].T, "o", ms=6, mfc="none", mec="k", mew=0.5)
ax.set(xticks=[], yticks=[], aspect="equal")
ax.set_title(f"{support.sum()} of {len(labels):,} points support the border; {100 * right:.1f} % right")
figure.colorbar(shown, label="score", shrink=0.8)
plt.show()
